#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole layers of groups of heads on a GPU, at models' real dimensions, against float64.

Two commands, so that packages can be built on a machine without a GPU:

    grouped_layers.py build DIR [--build-dir build]   # needs mla-compile
    grouped_layers.py run DIR                         # needs a GPU, only DIR

Each layer decodes, prefills and does both in one step over random caches whose unused rows hold
NaN; mla-run's reference reads the configuration by itself. Windows are cut so that contexts lie
on both sides of them. Exit code: 0 all within the bounds, 1 not.
"""

import json
import pathlib
import shutil
import subprocess
import sys

import check_and_bench

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "bench"))

import program  # noqa: E402
FUNCTIONS = "--functions=prefill,decode,step"
# Name: configuration, what differs from it, options of the compiler.
LAYERS = {
    "llama3": ("llama3_1_8b", {}, ("--tp=2", "--page-size=16")),
    "llama3-f16": ("llama3_1_8b", {}, ("--tp=4", "--dtype=f16")),
    "llama3-fp8": ("llama3_1_8b", {}, ("--tp=2", "--cache-format=fp8")),
    "qwen2": ("qwen2_5_7b", {}, ("--tp=2",)),
    "qwen3": ("qwen3_8b", {}, ("--tp=2",)),
    "gemma2-window": ("gemma2_9b", {"sliding_window": 200}, ("--tp=4", "--layer=0")),
    "gemma2-full": ("gemma2_9b", {}, ("--tp=4", "--layer=1", "--page-size=32")),
    "gpt-oss-window": ("gpt_oss_20b", {}, ("--tp=2", "--layer=0")),
    "gpt-oss-full": ("gpt_oss_20b", {}, ("--tp=2", "--layer=1")),
    "gpt-oss-fp8": ("gpt_oss_20b", {},
                    ("--tp=2", "--layer=0", "--cache-format=fp8", "--page-size=16")),
    "mistral": ("mistral_7b", {"sliding_window": 300}, ("--tp=4",)),
}
# Decodes, few queries, both in a step; a batch that is cut into pieces; prompts that fill the machine.
CHECKED = (("--context=0,1,15,16,63,64,65,127,128,129,300,1000", "--samples=12"),
           ("--batch=40", "--context=63,500,2500", "--query-len=1", "--samples=3"),
           ("--batch=3", "--context=0,64,777", "--query-len=700", "--samples=2"))
CODE_SCALES = "--cache-scale=0.03125,0.0137"


def build(directory, build_dir):
    directory.mkdir(parents=True, exist_ok=True)
    shutil.copy(build_dir / "bin/mla-run", directory / "mla-run")
    for name, (config, changes, options) in LAYERS.items():
        text = json.loads((ROOT / f"test/data/configs/{config}.json").read_text())
        source = directory / f"{name}.json"
        source.write_text(json.dumps(text | changes))
        print(name, flush=True)
        subprocess.run([build_dir / "bin/mla-compile", source, FUNCTIONS, *options,
                        "--target=sm_90a", "--quiet", "-o", directory / f"{name}.mlac"], check=True)


def run(directory, only, jobs):
    cases = []
    for name, (_, _, options) in LAYERS.items():
        scales = (CODE_SCALES,) if "--cache-format=fp8" in options else ()
        cases += [(f"{name} {' '.join(words)}", f"{name}.mlac", "--random", *words, *scales)
                  for words in CHECKED if not only or any(word in name for word in only)]
    if not cases:
        print(f"FAIL: --only names nothing: {' '.join(only)}")
        return 1
    passed, _ = check_and_bench.run_checks(directory, cases, jobs)
    print("PASS: every check is within the allowed errors" if passed else "FAIL: see above")
    return 0 if passed else 1


def main():
    parser = program.make_parser(__doc__)
    parser.add_argument("--jobs", type=int, default=1, help="checks at a time")
    parser.add_argument("--only", nargs="*", default=[], help="parts of names of layers")
    options = parser.parse_args()
    if options.command == "build":
        build(options.directory, options.build_dir)
        return 0
    return run(options.directory.resolve(), options.only, options.jobs)


if __name__ == "__main__":
    sys.exit(main())
