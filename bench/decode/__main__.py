#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks and times absorbed decode attention; see bench/README.md.

    python3 bench/decode build DIR             # packages; needs mla-compile, no GPU
    python3 bench/decode run DIR               # correctness and the speed tables; needs a GPU
    python3 bench/decode sanitize DIR          # compute-sanitizer on a reduced grid
    python3 bench/decode selftest              # the harness itself, on the CPU
"""

import argparse
import json
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))
sys.path.append(str(ROOT / "bench"))

import problems  # noqa: E402
import program  # noqa: E402

CHECKS = ("grid", "invariance", "speed", "skewed", "codes")
# Tables of times.
TABLES = {"speed": ("equal lengths", problems.SPEED_ROWS),
          "skewed": ("skewed lengths", problems.SKEWED_ROWS),
          "codes": ("rows of codes", problems.CODE_ROWS)}


def find_runtime(folders):
    """Makes `mlac` load the runtime that lies beside the packages or in the build."""
    for folder in folders:
        library = folder / "libmla_runtime.so"
        if library.exists():
            os.environ.setdefault("MLAC_RUNTIME_LIBRARY", str(library.resolve()))


def build_command(options):
    import build

    specs = chosen(problems.specs_of(options.set), options)
    if not specs:
        refuse_only(options)
    build.build(options.directory, options.build_dir, specs, jobs=options.jobs, more=options.option)
    size = sum(path.stat().st_size for path in options.directory.iterdir())
    print(f"{options.directory}: {len(specs)} packages, {size / 1e6:.1f} MB in all")
    return 0


def selftest_command(options):
    find_runtime([options.build_dir / "lib"])
    # Whose tables are tested, too.
    sys.path.append(str(ROOT / "bench/prefill"))
    import selftest

    return selftest.run(options.build_dir)


def refuse_only(options):
    sys.exit(f"bench/decode: --only: no package or row has '{' or '.join(options.only)}' in its name")


def chosen(specs, options):
    return [spec for spec in specs
            if not options.only or any(word in spec.name for word in options.only)]


def run_command(options):
    if not options.directory.exists():
        build_command(argparse.Namespace(**{**vars(options), "only": []}))
    find_runtime([options.directory, options.build_dir / "lib"])
    import grid
    import report
    import speed
    from arrays import TorchArrays

    directory, arrays, results = options.directory, TorchArrays(), {}
    if "grid" in options.check:
        print("== correctness: float64 reference, unused cache rows and outputs NaN", flush=True)
        sizes = {}
        if options.reduced:
            sizes = {"batches": (1, 6), "query_lens": (1, 4), "max_length": 200, "repeats": 2}
        specs = dict.fromkeys(problems.specs_of("all") + problems.specs_of("early"))
        results["grid"] = grid.run_grid(directory, chosen(specs, options), arrays, **sizes)
    if "invariance" in options.check:
        print("== batch-invariant packages", flush=True)
        specs = [spec for spec in problems.specs_of("grid") if spec.invariant]
        results["invariance"] = grid.run_invariance(directory, chosen(specs, options), arrays)
    for name in (table for table in TABLES if table in options.check):
        results[name] = speed.run_speed(directory, options, *TABLES[name])
    if "speed" in options.check:
        report.print_compile_time(directory, results)
    if options.only and not any(results.get(name) for name in ("grid", "invariance")) and not any(
            results.get(name, {}).get("rows") for name in TABLES):
        refuse_only(options)
    if options.out:
        options.out.write_text(json.dumps(results, indent=1))
    failed = (any(r["failures"] for r in results.get("grid", ()))
              or any(r["different"] for r in results.get("invariance", ()))
              or any(not r["is_right"] for name in TABLES
                     for r in results.get(name, {}).get("rows", ())))
    print("FAIL: see above" if failed else "PASS: every result is within the allowed errors")
    return 1 if failed else 0


def sanitize_command(options):
    import sanitize

    return sanitize.run(options.directory, options.tool, options.only)


def main():
    parser = argparse.ArgumentParser(prog="bench/decode", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("build", "run", "sanitize", "selftest"):
        command = commands.add_parser(name)
        if name != "selftest":
            command.add_argument("directory", type=pathlib.Path)
            command.add_argument("--only", nargs="*", default=[],
                                 help="parts of names of packages or rows")
        if name != "sanitize":
            command.add_argument("--build-dir", type=pathlib.Path, default=ROOT / "build")
        if name in ("build", "run"):
            command.add_argument("--set", choices=("early", "grid", "speed", "all"),
                                 default="all")
            command.add_argument("--jobs", type=int, help="compilations at a time")
            command.add_argument("--option", action="append", default=[],
                                 help="for mla-compile, such as --option=--schedule=simple")
        if name == "run":
            command.add_argument("--check", nargs="*", choices=CHECKS, default=CHECKS)
            command.add_argument("--reduced", action="store_true", help="a small grid")
            command.add_argument("--out", type=pathlib.Path, help="raw numbers as JSON")
            command.add_argument("--rounds", type=int, default=9, help="of the speed tables")
            command.add_argument("--sustain", type=float, default=0.8, metavar="SECONDS",
                                 help="that each contestant runs in turns without a pause; 0: no "
                                 "column")
            command.add_argument("--flashmla", metavar="LIBRARY",
                                 help="vLLM's _flashmla_C.abi3.so or a package (default: "
                                 "MLAC_FLASHMLA, the installed one)")
            command.add_argument("--fa3", metavar="LIBRARY",
                                 help="vLLM's _vllm_fa3_C.abi3.so or a package (default: MLAC_FA3, "
                                 "the installed one)")
            command.add_argument("--also", nargs="*", type=pathlib.Path, default=[],
                                 help="more folders of packages that run in the same rounds")
            command.add_argument("--power", type=float, default=0, metavar="SECONDS",
                                 help="also run each contestant for so long, and print watts, "
                                 "clock and energy of a step")
            command.add_argument("--profile", action="store_true",
                                 help="also the time of every kernel of a step")
        if name == "sanitize":
            command.add_argument("--tool", nargs="*",
                                 default=["memcheck", "racecheck", "synccheck"])
    options = parser.parse_args()
    return globals()[options.command + "_command"](options)


if __name__ == "__main__":
    program.run(main)
