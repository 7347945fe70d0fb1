#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Holds the includes of lib/ and include/mla against the order of the compiler's rooms.

    Machine -> Dialect/*/IR, Analysis -> Dialect/*/Transforms -> Conversion -> Package, Target, Pipelines -> Driver

KNOWS below is that order in full. A level knows the next one by a conversion and never the one
above it; cost models know no level. scripts/check_rooms.py does the same for the runtime.

No file there or of mla-compile asks whether a target is one of a certain name: what differs between
targets stands in the registry (include/mla/Machine/Targets.def).

    check_levels.py [ROOT]     another checkout than this one
"""

import pathlib
import re
import sys

# From the ground up: whom each room may include besides itself, all of them above it here.
# `Dialect` and `Conversion` are the files that lie in those folders themselves; IR and Utils of
# a dialect are one room. A star is any name; on the right, where there is one on the left, those of the
# room's own name: of Dialect/Tile/Transforms Dialect/Tile, of Conversion/MlaToTile Mla and Tile.
KNOWS = {
    "Machine": "",
    "Analysis": "Machine",
    "Dialect": "",
    "Dialect/*": "Machine Dialect",
    "Dialect/*/Transforms": "Machine Analysis Dialect Dialect/*",
    "Conversion": "Machine",
    "Conversion/*": "Machine Analysis Dialect Dialect/* Dialect/*/Transforms Conversion",
    "Import": "Dialect/Graph Dialect/Mla",
    "Package": "Import Dialect/Mla Dialect/Tile",
    "Simulator": "Machine Dialect Dialect/Sm90 Dialect/Sm90/Transforms",
    "Target/*": "Dialect Conversion",
    "Pipelines": "Machine Dialect/* Dialect/*/Transforms Conversion Conversion/*",
    "Driver": "Machine Dialect Dialect/* Dialect/*/Transforms Conversion Conversion/* Import Package Target/* Pipelines",
}
KNOWS = {room: known.split() for room, known in KNOWS.items()}
# Puts everything together, for tools that need all of it.
TOP = ("RegisterAll.h", "RegisterAll.cpp")
STARRED = ("Dialect", "Conversion", "Target")
SOURCES = (".h", ".cpp", ".td", ".def")
INCLUDE = re.compile(r'^\s*#?\s*include\s+"mla/([^"]+)"')
ASKS_NAME = re.compile(r'[!=]=\s*"(cpu|sm_\d+a?)"|[!=]=\s*\w*(?:::)?(kChip|TileTarget::\w+)')


def room_of(parts):
    """The room of a file by its place below lib/ or include/mla/, and its name for the star."""
    folders = parts[:-1]
    if not folders:
        return None, None
    if folders[0] in STARRED and len(folders) > 1:
        is_transform = folders[0] == "Dialect" and folders[2:3] == ("Transforms",)
        return folders[0] + "/*" + ("/Transforms" if is_transform else ""), folders[1]
    return folders[0], None


def may_know(room, name, other, other_name):
    if (room, name) == (other, other_name):
        return True
    if f"{other}".replace("*", str(other_name)) in KNOWS[room]:
        return True  # by its own name
    names = name.split("To") if name else [other_name]
    return other in KNOWS[room] and (other_name is None or other_name in names)


def check_order():
    rooms = list(KNOWS)
    for number, (room, known) in enumerate(KNOWS.items()):
        for other in known:
            above = rooms[:number] + [each for each in rooms[:number] if "*" in each]
            if not any(re.fullmatch(each.replace("*", "[^/]+"), other) for each in above):
                yield f"KNOWS: {room} may not know {other}, which is not above it in the list"


def spell(room, name):
    return room.replace("*", name) if name else room or "the whole"


def check_file(root, path, base):
    where = path.relative_to(root)
    lines = list(enumerate(path.read_text().splitlines(), 1))
    for number, line in lines:
        if ASKS_NAME.search(line):
            yield f"{where}:{number}: asks for a target by its name: {line.strip()}"
    if base is None or path.parent == base and path.name in TOP:
        return
    room, name = room_of(path.relative_to(base).parts)
    if room not in KNOWS:
        yield f"{where}: lies in no room; expected one of {', '.join(KNOWS)}"
        return
    for number, line in lines:
        match = INCLUDE.match(line)
        other, other_name = room_of(tuple(match.group(1).split("/"))) if match else (None, None)
        if match and not may_know(room, name, other, other_name):
            yield (f"{where}:{number}: {spell(room, name)} may not know {spell(other, other_name)}: "
                   f"mla/{match.group(1)}")


def main(arguments):
    if "--help" in arguments or "-h" in arguments:
        print(__doc__.strip())
        return 0
    root = pathlib.Path(arguments[0] if arguments else __file__).resolve()
    if not arguments:
        root = root.parent.parent
    problems, count = list(check_order()), 0
    for base in (root / "include/mla", root / "lib", root / "tools/mla-compile"):
        for path in sorted(base.rglob("*")):
            if path.suffix in SOURCES:
                count += 1
                problems += check_file(root, path, base if base.name != "mla-compile" else None)
    for problem in problems:
        print(problem)
    print(f"{count} files, {len(problems)} problems")
    return 1 if problems or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
