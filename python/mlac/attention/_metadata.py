# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The operators that make a step's metadata, once for all its attention."""

from __future__ import annotations

from typing import Any

from ..sequence_info import prepare_metadata
from . import _memory
from ._op import Op, Spec


def _prepare(input_ids, seq_len, input_pos, cache_loc, pages_per_seq, page_size):
    made = prepare_metadata(*(_memory.host(x) for x in (input_ids, seq_len, input_pos, cache_loc,
                                                        pages_per_seq)), int(page_size))
    return made, lambda array: _memory.like(seq_len, array)


def _prepare_rows(*operands: Any) -> tuple[Any, ...]:
    """seq_len, input_pos, each sequence's only page, seq_start."""
    made, give = _prepare(*operands)
    return tuple(map(give, (made.seq_len, made.input_pos, made.page_table[:, 0].copy(),
                            made.seq_start)))


def _prepare_pages(*operands: Any) -> tuple[Any, ...]:
    """The same with each sequence's row of a page table, and the table."""
    import numpy as np

    made, give = _prepare(*operands)
    rows = np.arange(len(made.seq_len), dtype=np.int32)
    return tuple(map(give, (made.seq_len, made.input_pos, rows, made.seq_start, made.page_table)))


def _lists(input_ids: Any, seq_len: Any) -> list[Spec]:
    """Of as many sequences as there are: where not each has one token, the step says how many."""
    count = input_ids.shape[0] if input_ids.shape[1] == 1 else "n"
    return [Spec((count,), seq_len.dtype)] * 4


def _rows_twin(input_ids: Any, seq_len: Any, *_: Any) -> tuple[Spec, ...]:
    return tuple(_lists(input_ids, seq_len))


def _pages_twin(input_ids: Any, seq_len: Any, *_: Any) -> tuple[Spec, ...]:
    lists = _lists(input_ids, seq_len)
    return (*lists, Spec((lists[0].shape[0], "pages"), seq_len.dtype))


_OPERANDS = ("(Tensor input_ids, Tensor seq_len, Tensor input_pos, Tensor cache_loc, "
             "Tensor pages_per_seq, SymInt page_size) -> Tensor[]")

prepare_fused_mha_metadata = Op("attention::prepare_fused_mha_metadata", _prepare_rows, _rows_twin,
                                _OPERANDS)
prepare_paged_metadata = Op("mlac::prepare_paged_metadata", _prepare_pages, _pages_twin, _OPERANDS)

OPS = (prepare_fused_mha_metadata, prepare_paged_metadata)
