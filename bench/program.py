# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command line that programs share which are built on one machine and run on another."""

import argparse
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def make_parser(doc, **keywords):
    """`build DIR [--build-dir build]` or `run DIR`, to which a program adds what is its own; `doc` is its
    help."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter, **keywords)
    parser.add_argument("command", choices=("build", "run"))
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--build-dir", type=pathlib.Path, default=ROOT / "build")
    return parser
