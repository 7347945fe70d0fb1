# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What descriptors are told of an attention (paged-cache.md section 12)."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from .._errors import InvalidArgument

# Types that caches and rows may have, by the names of NumPy and torch.
_DTYPES = {"bfloat16": "bf16", "float16": "f16", "float32": "f32"}

POSITION_MODES = (None, "rope")


def check(condition: bool, message: str) -> None:
    if not condition:
        raise InvalidArgument(message)


def dtype_name(name: str, dtype: Any) -> str:
    """"f32", "f16" or "bf16" of one of these, of a type of NumPy or of torch."""
    plain = str(getattr(dtype, "__name__", dtype)).removeprefix("torch.")
    short = _DTYPES.get(plain, plain)
    check(short in _DTYPES.values(),
          f"{name} is {dtype}, expected one of {', '.join(_DTYPES.values())}")
    return short


@dataclasses.dataclass(frozen=True)
class CacheConfig:
    """dtype: of caches; None: that of the attention."""

    dtype: Any = None

    def __post_init__(self) -> None:
        if self.dtype is not None:
            dtype_name("CacheConfig.dtype", self.dtype)


@dataclasses.dataclass(frozen=True)
class PositionalEmbeddingConfig:
    """mode: None, or "rope": the operator rotates queries and keys, by theta^(-2i / dim)."""

    mode: str | None = None
    rope_theta: float = 10000.0
    rope_scale: float = 1.0

    def __post_init__(self) -> None:
        known = ", ".join(map(repr, POSITION_MODES))
        check(self.mode in POSITION_MODES, f"mode is {self.mode!r}, expected one of {known}")
        for name in ("rope_theta", "rope_scale"):
            value = getattr(self, name)
            check(math.isfinite(value) and value > 0, f"{name} is {value}, expected more than 0")


@dataclasses.dataclass(frozen=True)
class AttentionInfo:
    """What is known of one attention of a graph.

    rope_dim: the last so many channels of a head have a rope of their own (decoupled rope); 0:
    none. value_dim: channels of a value; None: head_dim. scale: of scores; None: head_dim^(-1/2).
    window: keys that a token sees, with its own; 0: all. softcap: t of t tanh(score / t); 0: none.
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int
    dtype: Any
    cache_config: CacheConfig = CacheConfig()
    pos_embd_config: PositionalEmbeddingConfig = PositionalEmbeddingConfig()
    rope_dim: int = 0
    value_dim: int | None = None
    scale: float | None = None
    window: int = 0
    softcap: float = 0.0

    def __post_init__(self) -> None:
        for name in ("num_heads", "num_kv_heads", "head_dim"):
            check(getattr(self, name) >= 1, f"{name} is {getattr(self, name)}, expected 1 or more")
        check(self.num_heads % self.num_kv_heads == 0, f"num_heads is {self.num_heads}, expected a "
              f"multiple of num_kv_heads, {self.num_kv_heads}")
        check(0 <= self.rope_dim <= self.head_dim and self.rope_dim % 2 == 0,
              f"rope_dim is {self.rope_dim}, expected an even number from 0 to head_dim, "
              f"{self.head_dim}")
        check(self.value_dim is None or self.value_dim >= 1,
              f"value_dim is {self.value_dim}, expected 1 or more, or None")
        check(self.window >= 0, f"window is {self.window}, expected 0 or more")
        for name in ("scale", "softcap"):
            value = getattr(self, name)
            check(value is None or (math.isfinite(value) and value >= 0),
                  f"{name} is {value}, expected a finite number of 0 or more")
        dtype_name("dtype", self.dtype)

    @property
    def activation_dtype(self) -> str:
        return dtype_name("dtype", self.dtype)

    @property
    def cache_dtype(self) -> str:
        given = self.cache_config.dtype
        return self.activation_dtype if given is None else dtype_name("CacheConfig.dtype", given)

    @property
    def softmax_scale(self) -> float:
        return self.head_dim**-0.5 if self.scale is None else self.scale
