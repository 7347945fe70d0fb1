# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators of attention by groups of heads over caches (paged-cache.md sections 9 and 10).

Rows are [b, s, heads * channels] or [b, s, heads, channels]; s = 1 is a token of each of b
sequences, b = 1 the tokens of all sequences one behind the other. Keys and values are appended,
then each token attends to those of its sequence up to its own. Everything is checked before
anything is written."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import _memory
from ._config import check
from ._executor import run_module
from ._modules import Grouped, Rope, grouped_module
from ._op import Op, Spec
from ._step import Capacity, Step, exclusive_sum, make_step


class Scores(NamedTuple):
    """scale: None for head_dim^(-1/2)."""

    scale: float | None = None
    window: int = 0
    softcap: float = 0.0


class _Rows(NamedTuple):
    """A step's rows [tokens, heads, channels], in the caches' type."""

    query: Any
    key: Any
    value: Any


def _heads(name: str, rows: Any, columns: int) -> int:
    """Heads of `columns` channels in rows whose width may be split in two."""
    width = int(np.prod(rows.shape[2:]))
    check(len(rows.shape) in (3, 4) and width % columns == 0 and width > 0,
          f"{name}: expected [b, s, heads * {columns}] or [b, s, heads, {columns}], got "
          f"{list(rows.shape)}")
    return width // columns


def _check_caches(k_cache: Any, v_cache: Any) -> None:
    for name, cache in (("k_cache", k_cache), ("v_cache", v_cache)):
        check(len(cache.shape) == 4, f"{name}: expected [pages, page_size, heads, channels], got "
              f"{list(cache.shape)}")
        _memory.check_dense(name, cache)
    check(tuple(k_cache.shape[:3]) == tuple(v_cache.shape[:3]),
          f"v_cache: expected {list(k_cache.shape[:3])} pages, tokens and heads as of k_cache, got "
          f"{list(v_cache.shape[:3])}")
    types = [_memory.dtype_of(name, cache)
             for name, cache in (("k_cache", k_cache), ("v_cache", v_cache))]
    check(types[0] == types[1], f"v_cache: expected {types[0]} as of k_cache, got {types[1]}")


def _rows_of(q: Any, k: Any, v: Any, k_cache: Any, v_cache: Any) -> _Rows:
    _check_caches(k_cache, v_cache)
    kv_heads, key_dim = k_cache.shape[2:]
    value_dim = v_cache.shape[3]
    heads = _heads("q", q, key_dim)
    check(heads % kv_heads == 0, f"q has {heads} heads, expected a multiple of the caches' "
          f"{kv_heads}")
    dtype = _memory.dtype_of("q", q)
    for name, rows, columns in (("k", k, key_dim), ("v", v, value_dim)):
        own = _heads(name, rows, columns)
        check(own == kv_heads, f"{name} has {own} heads, the caches {kv_heads}")
        check(tuple(rows.shape[:2]) == tuple(q.shape[:2]),
              f"{name}: expected {list(q.shape[:2])} tokens as of q, got {list(rows.shape[:2])}")
        check(_memory.dtype_of(name, rows) == dtype,
              f"{name}: expected {dtype} as of q, got {_memory.dtype_of(name, rows)}")
    stored = _memory.dtype_of("k_cache", k_cache)
    shape = lambda rows, count, columns: _memory.contiguous(
        _memory.as_type(rows, stored).reshape(-1, count, columns))
    return _Rows(shape(q, heads, key_dim), shape(k, kv_heads, key_dim),
                 shape(v, kv_heads, value_dim))


def _is_empty(freqs_cis: Any) -> bool:
    return freqs_cis is None or 0 in freqs_cis.shape


def _table(freqs_cis: Any, head_dim: int, step: Step) -> Any:
    """As kernels read it."""
    check(len(freqs_cis.shape) == 3 and tuple(freqs_cis.shape[1:]) == (head_dim // 2, 2),
          f"freqs_cis: expected [positions, {head_dim // 2}, 2], got {list(freqs_cis.shape)}")
    most = max(step.ends, default=0)
    check(most <= freqs_cis.shape[0],
          f"freqs_cis has {freqs_cis.shape[0]} positions, {most} are needed")
    is_half = _memory.dtype_of("freqs_cis", freqs_cis) == "f16"
    return _memory.contiguous(freqs_cis if is_half else _memory.as_type(freqs_cis, "f32"))


def _attend(rows: _Rows, step: Step, k_cache: Any, v_cache: Any, freqs_cis: Any,
            scores: Scores) -> Any:
    """[tokens, heads, value channels]."""
    tokens, heads, key_dim = rows.query.shape
    _, page, kv_heads, value_dim = v_cache.shape
    buffers = {"query": rows.query, "key": rows.key, "value": rows.value,
               "output": _memory.empty_like(rows.query, (tokens, heads, value_dim))}
    rope = None
    if not _is_empty(freqs_cis):
        table = buffers["table"] = _table(freqs_cis, key_dim, step)
        rope = Rope("half", key_dim, table.shape[0], _memory.dtype_of("freqs_cis", table))
    scale = key_dim**-0.5 if scores.scale is None else float(scores.scale)
    module = grouped_module(Grouped(
        heads, kv_heads, key_dim, value_dim, page, _memory.dtype_of("k_cache", k_cache), scale,
        int(scores.window), float(scores.softcap), rope))
    pools = [cache.reshape(cache.shape[0], page, -1) for cache in (k_cache, v_cache)]
    run_module(module, step, pools, buffers)
    return buffers["output"]


def _finish(q: Any, output: Any) -> Any:
    """[b, s, N * Dv], in q's type."""
    width = output.shape[1] * output.shape[2]
    return _memory.as_type(output, _memory.dtype_of("q", q)).reshape(*q.shape[:2], width)


class _Lengths(NamedTuple):
    lengths: np.ndarray
    positions: np.ndarray
    starts: np.ndarray
    rows: np.ndarray  # of caches or of a page table


def _lengths(q: Any, seq_len: Any, input_pos: Any, cache_loc: Any, seq_start: Any) -> _Lengths:
    """Where every sequence has one token, lengths say nothing."""
    batch, tokens = q.shape[:2]
    check(tokens == 1 or batch == 1, f"q: expected [b, 1, ...] or [1, s, ...], got {list(q.shape)}")
    positions, rows = (_memory.host(x).astype(np.int64) for x in (input_pos, cache_loc))
    if tokens == 1:
        for name, array in (("input_pos", positions), ("cache_loc", rows)):
            check(len(array) >= batch, f"{name} is of {len(array)} sequences, q of {batch}")
        lengths = np.ones(batch, np.int64)
        return _Lengths(lengths, positions[:batch], exclusive_sum(lengths), rows[:batch])
    return _Lengths(_memory.host(seq_len).astype(np.int64), positions,
                    _memory.host(seq_start), rows)


def _contiguous_step(q: Any, of: _Lengths, k_cache: Any) -> Step:
    """A page is a cache's row, which holds a whole sequence."""
    tokens = q.shape[0] * q.shape[1]
    capacity = Capacity(k_cache.shape[0], k_cache.shape[1], k_cache.shape[1])
    return make_step(tokens, of.lengths, of.positions, of.starts, of.rows[:, None], capacity)


def _paged_step(q: Any, of: _Lengths, page_table: Any, cache: Any,
                max_seq_len: int | None = None) -> Step:
    """max_seq_len: None for as many tokens as the table's pages hold."""
    table = _memory.host(page_table)
    check(table.ndim == 2, f"page_table: expected [rows, pages], got {list(table.shape)}")
    for row in of.rows:
        check(-1 <= row < len(table), f"cache_loc {row}, 0 to {len(table) - 1} are rows of "
              "page_table")
    most = table.shape[1] * cache.shape[1] if max_seq_len is None else int(max_seq_len)
    check(max_seq_len is None or most >= 1, f"max_seq_len is {most}, expected 1 or more")
    padded = np.concatenate([table, np.full((1, table.shape[1]), -1, table.dtype)])
    capacity = Capacity(cache.shape[0], cache.shape[1], most)
    return make_step(q.shape[0] * q.shape[1], of.lengths, of.positions, of.starts,
                     padded[of.rows], capacity)


def _flattened(q, k, v, seq_len, input_pos, cache_loc, seq_start, k_cache, v_cache, freqs_cis,
               scores=Scores()):
    rows = _rows_of(q, k, v, k_cache, v_cache)
    step = _contiguous_step(q, _lengths(q, seq_len, input_pos, cache_loc, seq_start), k_cache)
    return _finish(q, _attend(rows, step, k_cache, v_cache, freqs_cis, scores))


def _flattened_mha(q, k, v, seq_len, input_pos, cache_loc, seq_start, k_cache, v_cache,
                   scale=None, window=0, softcap=0.0):
    return _flattened(q, k, v, seq_len, input_pos, cache_loc, seq_start, k_cache, v_cache, None,
                      Scores(scale, window, softcap))


def _fused_flattened_mha(q, k, v, seq_len, input_pos, cache_loc, seq_start, k_cache, v_cache,
                         freqs_cis):
    return _flattened(q, k, v, seq_len, input_pos, cache_loc, seq_start, k_cache, v_cache,
                      freqs_cis)


def _rope_fusion(q, k, v, input_pos, cache_loc, seq_len, seq_start, k_cache, v_cache, freqs_cis):
    return _flattened(q, k, v, seq_len=seq_len, input_pos=input_pos, cache_loc=cache_loc,
                      seq_start=seq_start, k_cache=k_cache, v_cache=v_cache, freqs_cis=freqs_cis)


def _fused_mha(q, k, v, input_pos, k_cache, v_cache, freqs_cis):
    """Of equal lengths, without history where there are several tokens; rows of the caches are
    those of the batch."""
    rows = _rows_of(q, k, v, k_cache, v_cache)
    batch, tokens = q.shape[:2]
    lengths = np.full(batch, tokens, np.int64)
    positions = _memory.host(input_pos).astype(np.int64)
    check(len(positions) >= batch, f"input_pos is of {len(positions)} sequences, q of {batch}")
    if tokens > 1:
        positions = np.zeros(batch, np.int64)
    step = _contiguous_step(q, _Lengths(lengths, positions[:batch], exclusive_sum(lengths),
                                        np.arange(batch)), k_cache)
    return _finish(q, _attend(rows, step, k_cache, v_cache, freqs_cis, Scores()))


def _paged(q, k, v, of, page_table, max_seq_len, k_cache, v_cache, freqs_cis, scores):
    rows = _rows_of(q, k, v, k_cache, v_cache)
    step = _paged_step(q, of, page_table, k_cache, max_seq_len)
    return _finish(q, _attend(rows, step, k_cache, v_cache, freqs_cis, scores))


def _fused_paged_mha(q, k, v, input_pos, cache_loc, seq_len, seq_start, page_table, max_seq_len,
                     k_cache, v_cache, freqs_cis):
    return _paged(q, k, v, _lengths(q, seq_len, input_pos, cache_loc, seq_start), page_table,
                  max_seq_len, k_cache, v_cache, freqs_cis, Scores())


def _paged_mha(q, k, v, seq_len, input_pos, cache_loc, seq_start, page_table, k_cache, v_cache,
               freqs_cis, scale=None, window=0, softcap=0.0):
    return _paged(q, k, v, _lengths(q, seq_len, input_pos, cache_loc, seq_start), page_table,
                  None, k_cache, v_cache, freqs_cis, Scores(scale, window, softcap))


def _output(q, k_cache, v_cache):
    """Of values' width, which is not always that of queries."""
    heads = _heads("q", q, k_cache.shape[-1])
    return Spec((*q.shape[:2], heads * v_cache.shape[-1]), q.dtype)


def _twin(first_cache: int):
    """Of an operator whose caches are operands `first_cache` and the next."""
    return lambda *operands, **_: _output(operands[0], *operands[first_cache:first_cache + 2])


_QKV = "Tensor q, Tensor k, Tensor v, "
_METADATA = "Tensor seq_len, Tensor input_pos, Tensor cache_loc, Tensor seq_start, "
_REFERENCE_METADATA = "Tensor input_pos, Tensor cache_loc, Tensor seq_len, Tensor seq_start, "
_CACHES = "Tensor(a!) k_cache, Tensor(b!) v_cache"
_FREQS = ", Tensor? freqs_cis"
_SCORES = "float? scale=None, int window=0, float softcap=0.0"


flattened_mha_with_cache = Op(
    "attention::flattened_mha_with_cache", _flattened_mha, _twin(7),
    f"({_QKV}{_METADATA}{_CACHES}, {_SCORES}) -> Tensor")
fused_flattened_mha_with_cache = Op(
    "attention::fused_flattened_mha_with_cache", _fused_flattened_mha, _twin(7),
    f"({_QKV}{_METADATA}{_CACHES}{_FREQS}) -> Tensor")
fused_flattened_mha_with_cache_rope_fusion = Op(
    "attention::fused_flattened_mha_with_cache_rope_fusion", _rope_fusion, _twin(7),
    f"({_QKV}{_REFERENCE_METADATA}{_CACHES}{_FREQS}) -> Tensor")
fused_mha_with_cache = Op(
    "attention::fused_mha_with_cache", _fused_mha, _twin(4),
    f"({_QKV}Tensor input_pos, {_CACHES}{_FREQS}) -> Tensor")
fused_mha_with_paged_cache = Op(
    "attention::fused_mha_with_paged_cache", _fused_paged_mha, _twin(9),
    f"({_QKV}{_REFERENCE_METADATA}Tensor page_table, SymInt max_seq_len, {_CACHES}{_FREQS}) "
    "-> Tensor")
paged_mha_with_cache = Op(
    "mlac::paged_mha_with_cache", _paged_mha, _twin(8),
    f"({_QKV}{_METADATA}Tensor page_table, {_CACHES}{_FREQS}, {_SCORES}) "
    "-> Tensor")

OPS = (flattened_mha_with_cache, fused_flattened_mha_with_cache,
       fused_flattened_mha_with_cache_rope_fusion, fused_mha_with_cache,
       fused_mha_with_paged_cache, paged_mha_with_cache)
