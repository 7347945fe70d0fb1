#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks and times expanded (prefill) attention; see bench/README.md.

    python3 bench/prefill build DIR    # packages; needs mla-compile, no GPU
    python3 bench/prefill run DIR      # correctness, then the speed table; needs a GPU
"""

import argparse
import json
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))
sys.path.append(str(ROOT / "bench/decode"))  # the rules by which results are compared
sys.path.append(str(ROOT / "bench"))

import program  # noqa: E402


def build_command(options):
    import layers

    variants = {"auto": ()}
    for variant in options.variant:
        name, _, words = variant.partition(":")
        variants[name] = tuple(f"--{word}" for word in words.split(",") if word)
    layers.build(options.directory, options.build_dir, variants)
    return 0


def run_command(options):
    if not options.directory.exists():
        build_command(options)
    library = options.directory / "libmla_runtime.so"
    if library.exists():
        os.environ.setdefault("MLAC_RUNTIME_LIBRARY", str(library.resolve()))
    import check
    import layers
    import race
    import rows as table

    names = [each.name for each in (*layers.CHECKED, *table.ROWS)]
    if options.only and not any(word in name for word in options.only for name in names):
        sys.exit("bench/prefill: --only: no package or row has "
                 f"'{' or '.join(options.only)}' in its name")
    failures, rows = 0, {}
    if "grid" in options.check:
        print("== correctness: float64, rows behind inputs and outputs NaN", flush=True)
        failures += check.run(options.directory, options.only)
    if "speed" in options.check:
        failed, rows = race.run(options.directory, options)
        failures += failed
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1))
    print(f"FAIL: {failures} cases" if failures
          else "PASS: every result is within the allowed errors")
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser(prog="bench/prefill", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("build", "run"):
        command = commands.add_parser(name)
        command.add_argument("directory", type=pathlib.Path)
        command.add_argument("--build-dir", type=pathlib.Path, default=ROOT / "build")
        command.add_argument("--variant", action="append", default=[],
                             help="name:schedule=simple,... one more package that is timed, "
                             "with options of mla-compile")
        if name == "run":
            command.add_argument("--check", nargs="*", choices=("grid", "speed"),
                                 default=("grid", "speed"))
            command.add_argument("--only", nargs="*", default=[],
                                 help="parts of names of packages or rows")
            command.add_argument("--rounds", type=int, default=9, help="of the speed table")
            command.add_argument("--sustain", type=float, default=0.8, metavar="SECONDS",
                                 help="that each contestant runs in turns without a pause; 0: no "
                                 "column")
            command.add_argument("--fa3", metavar="LIBRARY",
                                 help="vLLM's _vllm_fa3_C.abi3.so or a package (default: MLAC_FA3, "
                                 "the installed one)")
            command.add_argument("--out", type=pathlib.Path, help="raw numbers as JSON")
    options = parser.parse_args()
    return globals()[options.command + "_command"](options)


if __name__ == "__main__":
    program.run(main)
