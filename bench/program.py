# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command line that programs share which are built on one machine and run on another."""

import argparse
import importlib.util
import os
import pathlib
import subprocess
import sys

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


def need(*modules):
    """Ends a program, in one line, whose Python lacks one of these modules."""
    for name in modules:
        if importlib.util.find_spec(name) is None:
            sys.exit(f"{sys.argv[0]}: needs {name}, which {sys.executable} does not have")


def make_folder(folder, build_dir):
    """Makes a folder for packages, unless there is no compiler: then nothing is left behind."""
    os.stat(pathlib.Path(build_dir) / "bin/mla-compile")
    folder.mkdir(parents=True, exist_ok=True)


def run(main):
    """Ends a program with what its main returns. What it was not given (a build, a folder, a module) and what
    the compiler refused, which has said why, is one line."""
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"{sys.argv[0]}: {' '.join(map(str, error.cmd))}: exit status {error.returncode}")
    except OSError as error:
        remedy = ": build it first" if str(error.filename).endswith(("mla-compile", ".so")) else ""
        sys.exit(f"{sys.argv[0]}: {error.filename}: {error.strerror}{remedy}"
                 if error.filename else f"{sys.argv[0]}: {error}")
    except ModuleNotFoundError as error:
        sys.exit(f"{sys.argv[0]}: {error} ({sys.executable})")


def leave(status):
    """Ends a program, with the status or without one, that used torch's profiler. Its callbacks outlive what they use: the driver calls
    them where the process releases the context, and the heap is torn down ("free(): invalid pointer")."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status or 0)


def add_step_options(parser, batches=(1, 16, 64, 128)):
    """What programs share that time steps of some requests."""
    parser.add_argument("--target", default="sm_90a", help="of build: sm_90a or cpu")
    parser.add_argument("--device", default="cuda",
                        help="of run: cuda, or cpu to run each launch once without times")
    parser.add_argument("--sustain", type=float, default=0.8, metavar="SECONDS",
                        help="that each contestant runs in turns without a pause; 0: not at all")
    parser.add_argument("--batch", nargs="*", type=int, default=list(batches))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=pathlib.Path, help="raw numbers as JSON")


def add_layer_options(parser):
    """What programs share that time whole layers beside a composition."""
    add_step_options(parser)
    parser.add_argument("--flashmla", metavar="LIBRARY",
                        help="vLLM's _flashmla_C.abi3.so or a package (default: MLAC_FLASHMLA, "
                        "the installed one)")
    parser.add_argument("--context", nargs="*", type=int, default=[8192, 131072])
    parser.add_argument("--profile", action="store_true",
                        help="kernels of one step of a graph, in order")
