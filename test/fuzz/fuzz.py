#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attacks the compiler with inputs that nobody meant.

The rule: what is given is compiled, or refused with an error that says what is wrong with
it; a module is refused at its op, or the result of a pass verifies. Nothing crashes, hangs,
fails without a word or shows its own IR.

  fuzz.py modules|configs|options|archives|all [--cases N] [--seed S] [--only CASE] [--out FOLDER]

A case depends on the seed and its number alone. Those that break the rule are written to
the folder, and a command that shows each is printed.
"""

import argparse
import importlib
import pathlib
import sys

import common

KINDS = ("modules", "configs", "options", "archives")  # the last needs NumPy
# What takes 10 to 15 s each on one core: one test run's share.
CASES = {"modules": 320, "configs": 100, "options": 40, "archives": 300}


def integer_from(least):
    def parse(text):
        if int(text) < least:
            raise argparse.ArgumentTypeError(f"expected at least {least}, got {text}")
        return int(text)
    parse.__name__ = "int"  # what argparse calls a text that is none
    return parse


def make_folder(parser, path):
    """Before the cases are run, and whether it is new."""
    is_new = not path.exists()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"argument --out: cannot make the folder '{path}': {error.strerror}")
    return is_new


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=[*KINDS, "all"])
    parser.add_argument("--tools", default=common.ROOT / "build/bin", help="folder of mla-compile")
    parser.add_argument("--cases", type=integer_from(1), help=f"how many, of each kind (default {CASES})")
    parser.add_argument("--first", type=integer_from(0), default=0,
                        help="number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=integer_from(0), help="this case alone")
    parser.add_argument("--out", type=pathlib.Path, default="fuzz-failures",
                        help="folder for cases that fail")
    arguments = parser.parse_args()
    is_new = make_folder(parser, arguments.out)
    passed = True
    try:
        for kind in KINDS if arguments.kind == "all" else [arguments.kind]:
            count = CASES[kind] if arguments.cases is None else arguments.cases
            arguments.numbers = range(arguments.first, arguments.first + count)
            if arguments.only is not None:
                arguments.numbers = [arguments.only]
            report = common.Report(kind, arguments.out, arguments.seed)
            importlib.import_module(kind).fuzz(arguments, report)
            passed &= report.finish()
    finally:  # without a compiler, too
        if is_new and not any(arguments.out.iterdir()):
            arguments.out.rmdir()
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
