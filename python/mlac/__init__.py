# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs packages of the mlac attention compiler.

A package holds the kernels of one attention layer. An engine loads it on a
device and owns the weights and the paged cache; sequences are requests in the
cache; a plan is one step of a batch::

    import mlac, numpy as np

    package = mlac.Package("v3.mlac")          # or mlac.compile("config.json", dtype="f32")
    engine = mlac.Engine(package, mlac.Device("cpu"), max_seq_len=4096)
    engine.bind_safetensors("layer0.safetensors", prefix="self_attn.")
    engine.prepare()

    sequence, plan = engine.sequence(), engine.plan()
    plan.fill([sequence], [len(hidden)])       # hidden: [tokens, hidden_size]
    output = plan.run(hidden)                  # prefill
    plan.fill([sequence], [1])
    output = plan.run(next_hidden)             # one decode step

Batches of decodes and prompts run as one step, best with the decodes in front; a
package compiled with --functions=prefill,decode,step then attends to each its own way::

    batch = mlac.arrange_batch(query_lens)     # order, number of decodes, ...
    plan.fill(batch.apply(sequences), batch.apply(query_lens))

Everything is a thin layer over the C API (mla_runtime.h), by ctypes. Arrays are
anything that speaks DLPack, __array_interface__ or the buffer protocol: NumPy
arrays, torch tensors on the CPU or a GPU, array.array.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import reference
    from ._batch import BatchOrder, arrange_batch
    from ._cache import CacheLayout, cache_formats
    from ._cached import CachedModel, cached
    from ._compile import compile
    from ._export import export
    from ._layers import Layers
    from ._operation import metrics, replay, set_log
    from ._pages import Cache
    from ._plan import Plan
    from ._runtime import Device, Engine, Package, Sequence, runtime_version
    from ._swap import SwapSpace
    from ._table import BlockTable, convert_indices
    from ._weights import Checkpoint, quantize

# Of the native library too (runtime_version).
__version__ = "0.1.0"

from ._errors import (
    CompileError,
    Corrupt,
    DeviceError,
    Error,
    Internal,
    InvalidArgument,
    NoDevice,
    NotFound,
    OutOfMemory,
    OutOfPages,
    Unsupported,
    WrongState,
)

# Loaded on first use, so that mlac.reference needs no native library.
_NATIVE = {"Device": "_runtime", "Engine": "_runtime", "Package": "_runtime",
           "Plan": "_plan", "Sequence": "_runtime", "SwapSpace": "_swap",
           "runtime_version": "_runtime",
           "Checkpoint": "_weights", "quantize": "_weights",
           "BatchOrder": "_batch", "arrange_batch": "_batch",
           "CacheLayout": "_cache", "cache_formats": "_cache", "Cache": "_pages",
           "metrics": "_operation", "replay": "_operation", "set_log": "_operation",
           "BlockTable": "_table", "convert_indices": "_table", "compile": "_compile",
           "export": "_export", "CachedModel": "_cached", "cached": "_cached",
           "Layers": "_layers"}

# Spelt out, because checkers read no dictionary.
__all__ = [
    "BatchOrder",
    "BlockTable",
    "Cache",
    "CacheLayout",
    "CachedModel",
    "Checkpoint",
    "CompileError",
    "Corrupt",
    "Device",
    "DeviceError",
    "Engine",
    "Error",
    "Internal",
    "InvalidArgument",
    "Layers",
    "NoDevice",
    "NotFound",
    "OutOfMemory",
    "OutOfPages",
    "Package",
    "Plan",
    "Sequence",
    "SwapSpace",
    "Unsupported",
    "WrongState",
    "__version__",
    "arrange_batch",
    "cache_formats",
    "cached",
    "compile",
    "convert_indices",
    "export",
    "metrics",
    "quantize",
    "replay",
    "runtime_version",
    "set_log",
]


def __dir__() -> list[str]:
    hidden = {"importlib", "TYPE_CHECKING"}
    return sorted({*globals(), *__all__, "reference"} - hidden)


if not TYPE_CHECKING:  # checkers know the names from the imports above
    def __getattr__(name):
        if name == "reference":
            return importlib.import_module(".reference", __name__)
        if name not in _NATIVE:
            raise AttributeError(f"module 'mlac' has no attribute '{name}'")
        module = importlib.import_module(f".{_NATIVE[name]}", __name__)
        return getattr(module, name)
