# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The operator of latent attention over one cache (paged-cache.md section 12).

Queries are folded to latents before it and outputs unfolded behind it: q_nope [b, s, N, Lkv], c
[b, s, Lkv], output [b, s, N * Lkv]. Rope is over neighbouring channels."""

from __future__ import annotations

from typing import Any

from . import _memory
from ._config import check
from ._executor import run_module
from ._grouped import _lengths, _paged_step
from ._modules import Latent, Rope, latent_module
from ._op import Op, Spec
from ._step import Step

# What rows of the cache are, by its type (mlac.cache_formats).
CACHE_FORMATS = {"bf16": "mla_16", "f16": "mla_16", "f32": "mla_f32"}


def _check_row(name: str, rows: Any, q_nope: Any, shape: tuple[int, ...], dtype: str) -> None:
    expected = [*q_nope.shape[:2], *shape]
    check(list(rows.shape) == expected, f"{name}: expected {expected}, got {list(rows.shape)}")
    own = _memory.dtype_of(name, rows)
    check(own == dtype, f"{name}: expected {dtype} as of q_nope, got {own}")


def _table(cos: Any, sin: Any, rope_dim: int, step: Step) -> Any:
    """[length, rope_dim], cosines before sines."""
    for name, half in (("cos", cos), ("sin", sin)):
        check(len(half.shape) == 2 and half.shape[1] == rope_dim // 2,
              f"{name}: expected [positions, {rope_dim // 2}], got {list(half.shape)}")
    check(cos.shape[0] == sin.shape[0],
          f"sin: expected {cos.shape[0]} positions as of cos, got {sin.shape[0]}")
    most = max(step.ends, default=0)
    check(most <= cos.shape[0], f"cos has {cos.shape[0]} positions, {most} are needed")
    table = _memory.empty_like(_memory.as_type(cos, "f32"), (cos.shape[0], rope_dim))
    table[:, :rope_dim // 2], table[:, rope_dim // 2:] = cos, sin
    return table


def _mla(q_nope, q_pe, c, k_pe, seq_len, input_pos, cache_loc, seq_start, page_table, kv_cache,
         cos, sin, scale, kv_lora_rank, layout):
    check(len(q_nope.shape) == 4, f"q_nope: expected [b, s, heads, {kv_lora_rank}], got "
          f"{list(q_nope.shape)}")
    check(len(kv_cache.shape) == 3 and kv_cache.shape[2] > kv_lora_rank, "kv_cache: expected [pages, "
          f"page_size, more than {kv_lora_rank}], got {list(kv_cache.shape)}")
    heads, rope_dim = q_nope.shape[2], kv_cache.shape[2] - kv_lora_rank
    dtype, stored = _memory.dtype_of("q_nope", q_nope), _memory.dtype_of("kv_cache", kv_cache)
    for name, rows, shape in (("q_nope", q_nope, (heads, kv_lora_rank)),
                              ("q_pe", q_pe, (heads, rope_dim)), ("c", c, (kv_lora_rank,)),
                              ("k_pe", k_pe, (rope_dim,))):
        _check_row(name, rows, q_nope, shape, dtype)
    check(layout == CACHE_FORMATS[stored],
          f"layout is {layout!r}, a cache of {stored} has {CACHE_FORMATS[stored]!r}")
    step = _paged_step(q_nope, _lengths(q_nope, seq_len, input_pos, cache_loc, seq_start),
                       page_table, kv_cache)
    rows = lambda array, *shape: _memory.contiguous(
        _memory.as_type(array, stored).reshape(-1, *shape))
    buffers = {"q_lat": rows(q_nope, heads, kv_lora_rank), "q_pe": rows(q_pe, heads, rope_dim),
               "latent": rows(c, kv_lora_rank), "k_pe": rows(k_pe, rope_dim)}
    buffers["output"] = _memory.empty_like(buffers["q_lat"], tuple(buffers["q_lat"].shape))
    rope = None
    if cos is not None and 0 not in cos.shape:
        buffers["table"] = _table(cos, sin, rope_dim, step)
        rope = Rope("interleaved", rope_dim, buffers["table"].shape[0])
    module = latent_module(Latent(heads, kv_lora_rank, rope_dim, kv_cache.shape[1], stored, layout,
                                  float(scale), rope))
    run_module(module, step, [kv_cache], buffers)
    output = _memory.as_type(buffers["output"], dtype)
    return output.reshape(*q_nope.shape[:2], heads * kv_lora_rank)


def _twin(q_nope, *_, **__):
    batch, tokens, heads, rank = q_nope.shape
    return Spec((batch, tokens, heads * rank), q_nope.dtype)


mla_with_cache = Op(
    "mlac::mla_with_cache", _mla, _twin,
    "(Tensor q_nope, Tensor q_pe, Tensor c, Tensor k_pe, Tensor seq_len, Tensor input_pos, "
    "Tensor cache_loc, Tensor seq_start, Tensor page_table, Tensor(a!) kv_cache, Tensor? cos, "
    "Tensor? sin, float scale, int kv_lora_rank, str layout) -> Tensor")

OPS = (mla_with_cache,)
