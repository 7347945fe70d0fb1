#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Holds docs/features.md against the specification and the tests.

    check_features.py [ROOT]     another checkout than this one

Every row of docs/spec/features.md and docs/spec/v4.md must appear once, as
`done`, `partly` or `open`. A row that is done or partly done must name test
files, and each of them must hold a test with the row's ID in its *name*, so that
a test's failure says which requirement broke. A comment is no name. Names are

    X.cpp      suite and test of TEST, TEST_F, TEST_P, or of INSTANTIATE_TEST_SUITE_P
    test_X.py  classes, and methods that begin with test_
    run_X.py   the CTest entries X.* in the CMakeLists.txt beside it; any script
               that no CTest entry runs: its file name
    X.mlir     the functions in it, and the file
    X.test     the file
"""

import pathlib
import re
import sys

ROW = re.compile(r"^\| *([A-D]\d\d|V4-\d\d) *\|(.*)\|$")
STATES = ("done", "partly", "open")
GTEST = re.compile(r"^\s*(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", re.MULTILINE)
GTEST_SUITE = re.compile(r"INSTANTIATE_TEST_SUITE_P\(\s*(\w+),\s*(\w+)")
PYTHON = re.compile(r"^\s*(?:def (test_\w+)|class (\w+))", re.MULTILINE)
CTEST = re.compile(r"add_test\(NAME ([\w.-]+)")
FUNCTION = re.compile(r"\bfunc(?:\.func)?(?: private| public)? @(\w+)")


def rows(path):
    for line in path.read_text().splitlines():
        match = ROW.match(line)
        if match:
            yield match.group(1), [cell.strip() for cell in match.group(2).split("|")]


def ctest_names(path):
    """The entries of the script run_X.py, which are called X.something."""
    beside = path.parent / "CMakeLists.txt"
    if not path.name.startswith("run_") or not beside.is_file():
        return []
    prefix = path.stem.removeprefix("run_") + "."
    return [name for name in CTEST.findall(beside.read_text()) if name.startswith(prefix)]


def test_names(path):
    text = path.read_text(errors="replace")
    if path.suffix == ".cpp":
        return [word for pair in GTEST.findall(text) + GTEST_SUITE.findall(text) for word in pair]
    if path.suffix == ".py" and path.name.startswith("test_"):
        return [word for pair in PYTHON.findall(text) for word in pair]
    if path.suffix == ".py":
        return ctest_names(path) + [path.stem]
    return [path.stem] + (FUNCTION.findall(text) if path.suffix == ".mlir" else [])


def has_id(name, row):
    """A04 in `A04_X`, `x_A04` and `x-A04`; V4-06 also as V4_06, where a name is a word."""
    spelled = re.escape(row).replace(r"\-", "[-_]")
    return re.search(rf"(?<![A-Za-z0-9]){spelled}(?![0-9])", name)


def check_tests(root, row, cell):
    problems = []
    files = re.findall(r"`([^`]+)`", cell)
    if not files:
        problems.append(f"{row}: names no test")
    for name in files:
        path = root / name
        if not path.is_file():
            problems.append(f"{row}: {name} does not exist")
        elif not any(has_id(test, row) for test in test_names(path)):
            problems.append(f"{row}: {name} has no test with {row} in its name")
    return problems


def main():
    if "--help" in sys.argv or "-h" in sys.argv:
        print(__doc__.strip())
        return 0
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    wanted = [row for name in ("features.md", "v4.md")
              for row, _ in rows(root / "docs/spec" / name)]
    stated, problems = {}, []
    for row, cells in rows(root / "docs/features.md"):
        if row in stated:
            problems.append(f"{row}: listed twice")
        stated[row] = cells[0]
        if cells[0] not in STATES:
            problems.append(f"{row}: expected one of {', '.join(STATES)}, got '{cells[0]}'")
        elif cells[0] != "open":
            problems += check_tests(root, row, cells[1])
    problems += [f"{row}: missing from docs/features.md" for row in wanted if row not in stated]
    problems += [f"{row}: not in the specification" for row in stated if row not in wanted]
    for problem in problems:
        print(problem)
    counts = {state: sum(value == state for value in stated.values()) for state in STATES}
    print(f"{len(wanted)} rows: " + ", ".join(f"{n} {state}" for state, n in counts.items()))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
