# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arrays of NumPy and tensors of torch alike. NumPy has no bf16, so it is uint16 bits there."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _arrays
from ._config import check

_NUMPY_TYPES = {"f32": np.float32, "f16": np.float16, "bf16": np.uint16}


def is_torch(array: Any) -> bool:
    return type(array).__module__.split(".")[0] == "torch"


def torch_type(dtype: str) -> Any:
    import torch

    return {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[dtype]


def host(array: Any) -> np.ndarray:
    """Metadata as NumPy has it."""
    return array.cpu().numpy() if is_torch(array) else np.asarray(array)


def like(array: Any, values: np.ndarray) -> Any:
    """`values` where and as what `array` is."""
    if not is_torch(array):
        return values
    import torch

    return torch.from_numpy(np.ascontiguousarray(values)).to(array.device)


def dtype_of(name: str, array: Any) -> str:
    dtype = _arrays.strided(name, array).dtype
    check(dtype in _NUMPY_TYPES, f"{name}: expected f32, f16 or bf16, got {dtype}")
    return dtype


def check_dense(name: str, array: Any) -> None:
    """What is written in place is not copied."""
    view = _arrays.strided(name, array)
    check(view.strides is None, f"{name}: expected a contiguous array, got strides "
          f"{list(map(int, view.strides or ()))}")
    check(view.is_writable, f"{name}: expected a writable array, got a read-only one")


def zeros(shape: tuple[int, ...], dtype: str, device: Any = None) -> Any:
    """Of torch where a device of torch is given."""
    if device is None:
        return np.zeros(shape, _NUMPY_TYPES[dtype])
    import torch

    return torch.zeros(shape, dtype=torch_type(dtype), device=device)


def _round_to_bf16(values: np.ndarray) -> np.ndarray:
    """To nearest even; what is no number stays none."""
    bits = values.view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(values), bits >> 16 | 0x40, rounded).astype(np.uint16)


def as_type(array: Any, dtype: str) -> Any:
    """The same numbers, rounded where `dtype` has fewer bits."""
    own = dtype_of("array", array)
    if own == dtype:
        return array
    if is_torch(array):
        return array.to(torch_type(dtype))
    wide = (array.astype(np.uint32) << 16).view(np.float32) if own == "bf16" \
        else array.astype(np.float32)
    return _round_to_bf16(wide) if dtype == "bf16" else wide.astype(_NUMPY_TYPES[dtype])


def layout_of(array: Any) -> tuple[Any, ...]:
    """Its shape, and how its elements lie."""
    return tuple(array.shape), tuple(array.stride() if is_torch(array) else array.strides)


def contiguous(array: Any) -> Any:
    return array.contiguous() if is_torch(array) else np.ascontiguousarray(array)


def empty_like(array: Any, shape: tuple[int, ...]) -> Any:
    return _arrays.empty_like(array, shape)


def device_of(array: Any) -> str:
    """The mlac device that computes on it."""
    if not is_torch(array) or not array.is_cuda:
        return "cpu"
    return f"cuda:{array.device.index or 0}"
