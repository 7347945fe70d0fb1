# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times attention of grouped heads over pages, decodes and prompts, beside FlashAttention-3.

A decode's steps go over sets of pages in turn, so that none is read from the L2 cache. Results
are compared with float64 for some queries of two requests. Needs torch, and runs without the peer.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent / "python")]

import problems
import program


def build(folder, build_dir, rows, target):
    """Packages, and beside them what `run` needs of the build."""
    program.make_folder(folder, build_dir)
    shutil.copy(build_dir / "lib/libmla_runtime.so", folder)
    for kernel in dict.fromkeys(row.kernel for row in rows):
        module = folder / kernel.file().replace(".mlac", ".mlir")
        module.write_text(kernel.module())
        subprocess.run([build_dir / "bin/mla-compile", module, f"--target={target}", "--quiet", "-o",
                        folder / kernel.file()], check=True)


def main():
    parser = argparse.ArgumentParser(prog="grouped", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("build", help="packages; no GPU needed")
    command.add_argument("folder", type=pathlib.Path)
    command.add_argument("--build-dir", type=pathlib.Path, default=pathlib.Path("build"))
    command = commands.add_parser("run", help="on a GPU")
    command.add_argument("folder", type=pathlib.Path)
    command.add_argument("--only", nargs="+", metavar="WORD", help="rows whose names have one")
    command.add_argument("--rounds", type=int, default=9)
    command.add_argument("--sustain", type=float, default=0, metavar="SECONDS",
                         help="of each contestant at the power limit, after 0.8 s of heating")
    command.add_argument("--also", nargs="+", type=pathlib.Path, metavar="DIR",
                         help="packages of other builds, timed by turns with these")
    command.add_argument("--fa3", metavar="LIBRARY", help="vLLM's _vllm_fa3_C.abi3.so "
                                                          "(default: MLAC_FA3, or vLLM's)")
    command.add_argument("--out", type=pathlib.Path, help="raw times as JSON")
    command = commands.add_parser("selftest", help="the harness on the CPU")
    command.add_argument("--build-dir", type=pathlib.Path, default=pathlib.Path("build"))
    options = parser.parse_args()
    if options.command == "build":
        build(options.folder, options.build_dir, problems.rows(), "sm_90a")
        return 0
    if options.command == "selftest":
        import selftest

        library = options.build_dir / "lib/libmla_runtime.so"
        os.environ.setdefault("MLAC_RUNTIME_LIBRARY", str(library.resolve()))
        selftest.run(lambda folder, rows, target: build(folder, options.build_dir, rows, target))
        return 0
    library = options.folder / "libmla_runtime.so"
    os.environ.setdefault("MLAC_RUNTIME_LIBRARY", str(library.resolve()))
    import race

    results = race.run(options.folder, problems.rows(), options)
    if options.out:
        options.out.write_text(json.dumps(results))
    return sum(not row["is_right"] for row in results["rows"])


if __name__ == "__main__":
    program.run(main)
