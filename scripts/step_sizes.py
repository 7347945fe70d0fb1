#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes what runtime/schema/StepSizes.def says where C++ cannot include it.

These are the tables of docs/design.md, the comment of mla_runtime/step.h and the names
that Python offers.

    step_sizes.py [--check] [ROOT]

--check writes nothing and fails where a file says something else (ctest `step_sizes`).
"""

import argparse
import pathlib
import re
import sys
import textwrap

LIST = "runtime/schema/StepSizes.def"
SELF = "scripts/step_sizes.py"
ENTRY = re.compile(r'^(STEP_\w+)\((.*)\)$')
FIELD = re.compile(r'\s*(?:"([^"]*)"|([^,"]+))\s*(?:,|$)')
COMMENT_WIDTH = 100  # .clang-format: ColumnLimit


def entries(text, macro):
    for line in text.splitlines():
        match = ENTRY.match(line)
        if match and match.group(1) == macro:
            yield [quoted or plain.strip() for quoted, plain in FIELD.findall(match.group(2))]


class StepSizes:
    def __init__(self, text):
        self.owners = list(entries(text, "STEP_OWNER"))  # id, who has it
        self.sizes = list(entries(text, "STEP_SIZE"))    # id, name, owner, level, meaning
        self.arrays = list(entries(text, "STEP_ARRAY"))  # id, name, owner, bits, extents, meaning

    def by_owner(self, rows):
        """(owner, who has it, rows) of every owner that has any."""
        for owner, description in self.owners:
            own = [row for row in rows if row[2] == owner]
            if own:
                yield owner, description, own


def markdown(sizes):
    lines = ["| size | of | meaning |", "|---|---|---|"]
    for owner, _, rows in sizes.by_owner(sizes.sizes):
        lines += [f"| {row[1]} | {owner} | {row[4]} |" for row in rows]
    lines += ["", "| metadata | of | extents | meaning |", "|---|---|---|---|"]
    for owner, _, rows in sizes.by_owner(sizes.arrays):
        lines += [f"| {name} | {owner} | i{bits} [{extents}] | {meaning} |"
                  for _, name, _, bits, extents, meaning in rows]
    lines += ["", "| of | who has it |", "|---|---|"]
    return lines + [f"| {owner} | {description} |" for owner, description in sizes.owners]


def c_comment(rows_of, render):
    for _, description, rows in rows_of:
        yield f"   of {description}:"
        for row in rows:
            yield from textwrap.wrap(render(row), COMMENT_WIDTH, initial_indent=" " * 5,
                                     subsequent_indent=" " * 9)


def c_sizes(sizes):
    return list(c_comment(sizes.by_owner(sizes.sizes), lambda row: f"{row[1]}: {row[4]}"))


def c_arrays(sizes):
    return list(c_comment(sizes.by_owner(sizes.arrays),
                          lambda row: f"{row[1]} i{row[3]} [{row[4]}]: {row[5]}"))


def python(sizes):
    lines = ["# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.",
             "# See LICENSE for license information.",
             "# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception",
             f'"""Names of {LIST}; written by {SELF}."""', ""]
    for name, rows in (("DIMS", sizes.sizes), ("METADATA", sizes.arrays)):
        lines += [f"{name} = ("] + [f'    "{row[1]}",' for row in rows] + [")", ""]
    return lines[:-1]


# Where generated lines stand: file, the lines before and behind them (None: the file
# is all of it), and what makes them.
PLACES = (
    ("docs/design.md", f"<!-- {LIST}, written by {SELF} -->", "<!-- end -->", markdown),
    ("runtime/include/mla_runtime/step.h",
     f"   The sizes ({LIST}, written by {SELF}):", "   End of the sizes.", c_sizes),
    ("runtime/include/mla_runtime/step.h",
     f"   The arrays ({LIST}, written by {SELF}):", "   End of the arrays.", c_arrays),
    ("python/mlac/_step_sizes.py", None, None, python),
)


def put(old, begin, end, lines):
    """`old` with `lines` in their place."""
    if begin is None:
        return "\n".join(lines) + "\n"
    known = old.splitlines()
    first, last = known.index(begin) + 1, known.index(end)
    return "\n".join(known[:first] + lines + known[last:]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("root", nargs="?", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    arguments = parser.parse_args()
    sizes = StepSizes((arguments.root / LIST).read_text())
    stale = []
    for name, begin, end, make in PLACES:
        path = arguments.root / name
        old = path.read_text() if path.is_file() else ""
        try:
            new = put(old, begin, end, make(sizes))
        except ValueError as missing:
            sys.exit(f"{name}: a line that marks the generated ones is missing: {missing}")
        if new != old:
            stale.append(name)
            if not arguments.check:
                path.write_text(new)
    for name in stale:
        print(f"{name}: " + (f"disagrees with {LIST}: run {SELF}" if arguments.check else "written"))
    print(f"{len(sizes.sizes)} sizes, {len(sizes.arrays)} arrays")
    return 1 if arguments.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
