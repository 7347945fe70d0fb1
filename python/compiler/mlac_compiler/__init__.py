# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The programs mla-compile, mla-opt and mla-lsp-server, for machines without LLVM.

They are one file, ``TOOLS``, which is whatever it is called (argv[0]).
"""

import os
import sys
import sysconfig
from pathlib import Path

TOOLS = Path(__file__).resolve().parent / "bin" / "mlac-tools"

# mla-compile looks for ptxas in this folder's nvidia/cu13 before it looks for a CUDA toolkit.
ASSEMBLER_VARIABLE = "MLAC_ASSEMBLER_DIR"


def _exec(name):
    # The extra `mlac-compiler[assembler]` installs ptxas among the Python packages.
    os.environ.setdefault(ASSEMBLER_VARIABLE, sysconfig.get_path("purelib"))
    try:
        os.execv(TOOLS, [name, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: cannot run {TOOLS}: {error}")


def run_compile():
    """mla-compile: compiles a model's attention into a package."""
    _exec("mla-compile")


def run_opt():
    """mla-opt: runs passes over mlac's IR."""
    _exec("mla-opt")


def run_lsp_server():
    """mla-lsp-server: serves editors that show mlac's IR."""
    _exec("mla-lsp-server")
