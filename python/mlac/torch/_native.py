# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""libmlac_torch.so: the operators over torch's stable ABI, where it was built."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_void_p
from pathlib import Path

import torch

from .. import _arrays
from .._library import ExternalPool
from . import _handle

LIBRARY = "libmlac_torch.so"

# Another library; "none": the operators in Python.
LIBRARY_VARIABLE = "MLAC_TORCH_LIBRARY"

# What the library is built for (TORCH_TARGET_VERSION in CMakeLists.txt).
MINIMUM = (2, 10)


def _find() -> str | None:
    given = os.environ.get(LIBRARY_VARIABLE)
    if given:
        return None if given == "none" else given
    here = Path(__file__).resolve()
    for folder in (here.parents[1], here.parents[3] / "build" / "lib"):
        if (folder / LIBRARY).exists():
            return str(folder / LIBRARY)
    return None


def load() -> bool:
    """Registers the library's kernels; False where there is none for this torch."""
    numbers = tuple(int(part) for part in torch.__version__.split(".")[:2])
    path = _find()
    if path is None or numbers < MINIMUM:
        return False
    torch.ops.load_library(path)  # mla_runtime is loaded: it is found by its name
    library = ctypes.CDLL(path)
    library.mlac_torch_declare.argtypes = [
        c_int64, c_void_p, POINTER(c_char_p), POINTER(c_int32), c_int64, c_int32,
        POINTER(ExternalPool), c_int64]
    library.mlac_torch_declare.restype = None
    library.mlac_torch_forget.argtypes = [c_int64]
    library.mlac_torch_forget.restype = None

    def declare(plan: int, signature: _handle.Signature) -> None:
        slots = list(_handle.SLOTS)
        names = (c_char_p * len(slots))(*[signature.names[slot] for slot in slots])
        dtypes = (c_int32 * len(slots))(*[
            -1 if (dtype := signature.dtypes[slot]) is None else _arrays.DTYPES.index(dtype)
            for slot in slots])
        pools = (ExternalPool * len(signature.pools))(*[
            pool or ExternalPool() for pool in signature.pools])
        library.mlac_torch_declare(plan, signature.engine, names, dtypes, signature.hidden_size,
                                   signature.is_cuda, pools, len(pools))

    _handle.on_declare.append(declare)
    _handle.on_forget.append(library.mlac_torch_forget)
    return True
