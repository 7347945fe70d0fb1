# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lengths, pages and slots of a step, checked before anything is written."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ._config import check


class Step(NamedTuple):
    """Of each sequence its new tokens, its keys after the step and its pages; of each token its
    slot, negative where it is not written."""

    lengths: list[int]
    ends: list[int]
    table: np.ndarray
    slots: np.ndarray

    def is_same(self, other: Step) -> bool:
        return self.lengths == other.lengths and self.ends == other.ends and \
            np.array_equal(self.table, other.table) and np.array_equal(self.slots, other.slots)


class Capacity(NamedTuple):
    num_pages: int
    page_size: int
    max_seq_len: int


def exclusive_sum(lengths: np.ndarray) -> np.ndarray:
    return (np.cumsum(lengths) - lengths).astype(np.int32)


def _check_tokens(tokens: int, lengths: np.ndarray, starts: np.ndarray) -> None:
    check(not np.any(lengths < 0), f"seq_len {lengths.tolist()} has a negative length")
    check(int(lengths.sum()) == tokens,
          f"seq_len {lengths.tolist()} has {lengths.sum()} tokens, q has {tokens}")
    expected = exclusive_sum(lengths)
    check(np.array_equal(starts, expected),
          f"seq_start is {starts.tolist()}, expected {expected.tolist()} of seq_len "
          f"{lengths.tolist()}")


def _slots_of(index: int, first: int, end: int, pages: np.ndarray, capacity: Capacity) -> np.ndarray:
    """Of the tokens at these positions of a sequence; one without pages is padding."""
    if end == first or pages[0] < 0:
        return np.full(end - first, -1, np.int64)
    used = pages[:-(-end // capacity.page_size)]
    check(len(used) * capacity.page_size >= end, f"sequence {index} has {end} tokens, its pages "
          f"hold {len(used) * capacity.page_size}")
    for page in used:
        check(0 <= page < capacity.num_pages, f"page {page} of sequence {index}, 0 to "
              f"{capacity.num_pages - 1} exist")
    at = np.arange(first, end, dtype=np.int64)
    return used[at // capacity.page_size].astype(np.int64) * capacity.page_size \
        + at % capacity.page_size


def make_step(tokens: int, lengths: np.ndarray, positions: np.ndarray, starts: np.ndarray,
              table: np.ndarray, capacity: Capacity) -> Step:
    """table: each sequence's pages, [n, columns]."""
    for name, array in (("input_pos", positions), ("seq_start", starts), ("cache_loc", table)):
        check(len(array) == len(lengths),
              f"{name} is of {len(array)} sequences, seq_len of {len(lengths)}")
    _check_tokens(tokens, lengths, starts)
    ends = positions + lengths
    slots = []
    for index, (first, end) in enumerate(zip(positions.tolist(), ends.tolist())):
        check(first >= 0, f"input_pos {first} of sequence {index} is negative")
        check(end <= capacity.max_seq_len, f"sequence {index} has {end} tokens, at most "
              f"{capacity.max_seq_len} (max_seq_len)")
        slots.append(_slots_of(index, first, end, table[index], capacity))
    flat = np.concatenate([np.empty(0, np.int64), *slots])
    written, counts = np.unique(flat[flat >= 0], return_counts=True)
    check(not np.any(counts > 1), "two tokens go to page {} offset {} of the cache".format(
        *divmod(int(written[counts > 1][0]) if np.any(counts > 1) else 0, capacity.page_size)))
    return Step(lengths.tolist(), ends.tolist(),
                np.ascontiguousarray(table.clip(min=0), np.int32), flat)
