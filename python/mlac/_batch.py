# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decodes in front of prefills (mla.md section 10)."""

from __future__ import annotations

import dataclasses
from ctypes import byref, c_int32, c_int64
from typing import TypeVar

from ._checked import integers, length_of
from ._errors import InvalidArgument
from ._library import REQUIRE_UNIFORM, BatchSplit, call
from ._types import Ints, List

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class BatchOrder:
    """A batch with its decodes in front.

    order[i] is the request that comes i-th. An order is its own inverse: apply()
    takes lists from the caller's order to this one and back.
    """

    order: tuple[int, ...]
    num_decodes: int
    num_prefills: int
    num_decode_tokens: int
    num_prefill_tokens: int
    num_swaps: int

    def apply(self, items: List[T]) -> list[T]:
        """`items`, one per request, in the other order."""
        if length_of("items", items, "items, one for each request") != len(self.order):
            raise InvalidArgument(f"items: expected {len(self.order)}, one for each request, "
                                  f"got {len(items)}")
        return [items[request] for request in self.order]


def arrange_batch(query_lens: Ints, decode_threshold: int = 1, reorder: bool = True,
                  require_uniform: bool = False) -> BatchOrder:
    """Splits a batch into decodes (queries of at most decode_threshold tokens) and
    prefills, with as few exchanges as possible; without `reorder`, as it stands.

    require_uniform: decodes must all have the query length of the first request.
    Raises InvalidArgument for negative lengths.
    """
    count = length_of("query_lens", query_lens)
    lens = integers("query_lens", c_int32, query_lens)
    order, split = (c_int64 * count)(*range(count)), BatchSplit()
    call("mla_batch_arrange", lens, count, decode_threshold,
         REQUIRE_UNIFORM if require_uniform else 0, order if reorder else None, byref(split))
    return BatchOrder(tuple(order), *(getattr(split, name) for name, *_ in BatchSplit._fields_))
