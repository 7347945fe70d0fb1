# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The canonical node of an attention that has no cache, by which graphs are matched."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _memory
from ._config import check
from ._op import Op, Spec


def _mask_of(attn_mask: np.ndarray | None, is_causal: bool, queries: int,
             keys: int) -> np.ndarray | float:
    """What is added to scores."""
    check(attn_mask is None or not is_causal, "attn_mask and is_causal are both given")
    if is_causal:
        return np.where(np.tri(queries, keys, dtype=bool), 0.0, -np.inf)
    if attn_mask is None:
        return 0.0
    if attn_mask.dtype == bool:
        return np.where(attn_mask, 0.0, -np.inf)
    # Also of bf16, which are bits here.
    return attn_mask if attn_mask.dtype == np.float64 else _memory.as_type(attn_mask, "f32")


def _check_sizes(query: Any, key: Any, value: Any, attn_mask: Any) -> None:
    """Ahead of the tokens, keys and values may have one of what the query has several of."""
    ahead = tuple(query.shape[:-2])
    check(len(query.shape) >= 2,
          f"query: expected [..., tokens, channels], got {list(query.shape)}")
    names = [f"of axis {axis}" for axis in range(len(ahead) - 2)] + ["sequences", "heads"]
    for name, array in (("key", key), ("value", value)):
        check(len(array.shape) == len(query.shape),
              f"{name}: expected {len(query.shape)} axes as of query, got {len(array.shape)}")
        for size, expected, what in zip(array.shape, ahead, names[-len(ahead):]):
            check(size in (1, expected),
                  f"{name}: expected {expected} {what} as of query, or 1, got {size}")
    check(query.shape[-1] == key.shape[-1],
          f"key: expected {query.shape[-1]} channels as of query, got {key.shape[-1]}")
    check(key.shape[-2] == value.shape[-2],
          f"value: expected {key.shape[-2]} tokens as of key, got {value.shape[-2]}")
    if attn_mask is None:
        return
    scores, mask = [*query.shape[:-1], key.shape[-2]], list(attn_mask.shape)
    fits = len(mask) <= len(scores) and all(
        size in (1, expected) for size, expected in zip(reversed(mask), reversed(scores)))
    check(fits, f"attn_mask: expected {scores} as of the scores, or 1 of an axis, got {mask}")


def _by_numpy(query, key, value, attn_mask, dropout_p, is_causal, scale):
    """In float64, of [batch, heads, tokens, channels]."""
    check(dropout_p == 0, f"dropout_p is {dropout_p}, expected 0")
    q, k, v = (_memory.as_type(x, "f32").astype(np.float64) for x in (query, key, value))
    scores = q @ k.swapaxes(-1, -2) * (q.shape[-1]**-0.5 if scale is None else scale)
    scores = scores + _mask_of(attn_mask, is_causal, *scores.shape[-2:])
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isneginf(top), 0.0, top))
    total = weights.sum(-1, keepdims=True)
    # Like torch: nothing, where a query sees no key.
    output = weights @ v / np.where(total == 0, 1.0, total)
    return _memory.as_type(output.astype(np.float32), _memory.dtype_of("query", query))


def _sdpa(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
          is_causal: bool = False, scale: float | None = None) -> Any:
    _check_sizes(query, key, value, attn_mask)
    if not _memory.is_torch(query):
        return _by_numpy(query, key, value, attn_mask, dropout_p, is_causal, scale)
    import torch

    return torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal,
        scale=scale)


def _twin(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> Spec:
    return Spec((*query.shape[:-1], value.shape[-1]), query.dtype)


scaled_dot_product_attention = Op(
    "attention::scaled_dot_product_attention", _sdpa, _twin,
    "(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, "
    "bool is_causal=False, float? scale=None) -> Tensor")

OPS = (scaled_dot_product_attention,)
