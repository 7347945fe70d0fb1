#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Holds the includes of runtime/lib against the order of its rooms.

    capi -> engine -> step -> cache, device -> package -> base

A file lies in a room, names a file of the project's by its room ("step/Dims.h"), and
includes only its own room and those below; cache and device do not know each other.
Nothing in runtime/ includes the compiler, LLVM or MLIR.

    check_rooms.py [ROOT]     another checkout than this one
"""

import pathlib
import re
import sys

# From the ground up; rooms of one floor do not know each other.
FLOORS = (("base",), ("package",), ("cache", "device"), ("step",), ("engine",), ("capi",))
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
COMPILER = ("llvm", "llvm-c", "mlir", "mlir-c", "mla")
# Beside the rooms: the C API and what a package looks like.
SHARED = ("runtime/include", "runtime/schema")
GENERATED = ("package_generated.h",)


def includes(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1) == '"', match.group(2)


def may_know(room, other):
    return room == other or FLOOR_OF[other] < FLOOR_OF[room]


def check_include(root, room, is_quoted, name):
    """What is wrong with an include of a file in `room` (None: outside of the rooms)."""
    first = name.split("/")[0]
    if first in COMPILER and "/" in name:
        return f"the runtime includes the compiler's {name}"
    if room is None or not is_quoted:
        return None
    if first in FLOOR_OF and "/" in name:
        if not may_know(room, first):
            return f"{room} may not know {first}: {name}"
        exists = (root / "runtime/lib" / name).is_file()
    else:
        exists = name in GENERATED or any((root / shared / name).is_file() for shared in SHARED)
    return None if exists else f"{name} is no file of a room, of runtime/include or of runtime/schema"


def check_file(root, path):
    lib = root / "runtime/lib"
    parts = path.relative_to(lib).parts if path.is_relative_to(lib) else ()
    room = parts[0] if parts else None
    where = path.relative_to(root)
    if room is not None and (len(parts) != 2 or room not in FLOOR_OF):
        yield f"{where}: lies in no room; expected one of {', '.join(FLOOR_OF)}"
        return
    for number, is_quoted, name in includes(path):
        problem = check_include(root, room, is_quoted, name)
        if problem:
            yield f"{where}:{number}: {problem}"


def main(arguments):
    if "--help" in arguments or "-h" in arguments:
        print(__doc__.strip())
        return 0
    root = pathlib.Path(arguments[0] if arguments else __file__).resolve()
    if not arguments:
        root = root.parent.parent
    files = sorted(path for path in (root / "runtime").rglob("*")
                   if path.suffix in (".c", ".cpp", ".h", ".def"))
    problems = [problem for path in files for problem in check_file(root, path)]
    for problem in problems:
        print(problem)
    print(f"{len(files)} files, {len(problems)} problems")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
