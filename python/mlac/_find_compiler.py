# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where mla-compile is. Needs no native runtime."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from ._errors import CompileError

COMPILER = "mla-compile"

# Says where the compiler is when it is neither in a checkout's build, nor beside the
# interpreter, nor on PATH.
COMPILER_VARIABLE = "MLAC_COMPILER"


def find_compiler() -> str:
    """The path of mla-compile. Raises CompileError that says where it was looked for."""
    given = os.environ.get(COMPILER_VARIABLE)
    if given:
        return given
    checkout = Path(__file__).resolve().parents[2] / "build" / "bin" / COMPILER
    beside = Path(sys.executable).parent / COMPILER
    for path in (checkout, beside):
        if path.exists():
            return str(path)
    found = shutil.which(COMPILER)
    if found is None:
        raise CompileError(f"cannot find {COMPILER}: neither at {checkout}, nor at {beside}, nor on "
                           f"PATH; set {COMPILER_VARIABLE} to its path")
    return found
