#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Holds docs/features.md against the specification and the tests.

Every row of docs/spec/features.md and docs/spec/v4.md must appear once, as
`done`, `partly` or `open`. A row that is done or partly done must name test
files that exist and mention the row's ID.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROW = re.compile(r"^\| *([A-D]\d\d|V4-\d\d) *\|(.*)\|$")
STATES = ("done", "partly", "open")


def rows(path):
    for line in path.read_text().splitlines():
        match = ROW.match(line)
        if match:
            yield match.group(1), [cell.strip() for cell in match.group(2).split("|")]


def check_tests(row, cell):
    problems = []
    files = re.findall(r"`([^`]+)`", cell)
    if not files:
        problems.append(f"{row}: names no test")
    mention = re.compile(rf"(?<![A-Za-z0-9]){re.escape(row)}(?![0-9])")
    for name in files:
        path = ROOT / name
        if not path.is_file():
            problems.append(f"{row}: {name} does not exist")
        elif not mention.search(path.read_text(errors="replace")):
            problems.append(f"{row}: {name} does not mention {row}")
    return problems


def main():
    wanted = [row for name in ("features.md", "v4.md")
              for row, _ in rows(ROOT / "docs/spec" / name)]
    stated, problems = {}, []
    for row, cells in rows(ROOT / "docs/features.md"):
        if row in stated:
            problems.append(f"{row}: listed twice")
        stated[row] = cells[0]
        if cells[0] not in STATES:
            problems.append(f"{row}: expected one of {', '.join(STATES)}, got '{cells[0]}'")
        elif cells[0] != "open":
            problems += check_tests(row, cells[1])
    problems += [f"{row}: missing from docs/features.md" for row in wanted if row not in stated]
    problems += [f"{row}: not in the specification" for row in stated if row not in wanted]
    for problem in problems:
        print(problem)
    counts = {state: sum(value == state for value in stated.values()) for state in STATES}
    print(f"{len(wanted)} rows: " + ", ".join(f"{n} {state}" for state, n in counts.items()))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
