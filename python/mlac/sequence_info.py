# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a batch of a model graph is made of: lengths, cached tokens, pages (paged-cache.md
section 11). Needs NumPy alone, no native library."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, NamedTuple

import numpy as np

from ._checked import length_of
from ._errors import InvalidArgument

# Of the sample that graphs are exported with: enough that neither dimension is of size 1.
_EXAMPLE_BATCH, _EXAMPLE_LENGTH = 2, 4
_IDS = np.iinfo(np.int32)  # of input_ids


class Metadata(NamedTuple):
    """Of the n live sequences; page_table is [n, most pages of one], -1 behind a row's pages. A row
    of padding, of a graph of more tokens than live sequences, has a page that no sequence has, or
    -1 where there is none: what is written to it harms nobody."""

    seq_len: np.ndarray
    input_pos: np.ndarray
    page_table: np.ndarray
    seq_start: np.ndarray


def _integer(name: str, value: Any) -> int:
    try:
        return index(value)
    except TypeError:
        raise InvalidArgument(f"{name}: expected an integer, got {value!r}") from None


def _integers(name: str, values: Any) -> list[int]:
    """A list of integers; what is none is refused by `name`."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise InvalidArgument(f"{name}: expected a list of integers, got {values!r}")
    return [_integer(f"{name}[{place}]", value) for place, value in enumerate(values)]


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise InvalidArgument(message)


def live_lengths(input_ids: np.ndarray, seq_len: np.ndarray) -> np.ndarray:
    """seq_len of the live sequences. Graphs of [b, 1] tokens have b, live or padding."""
    if input_ids.shape[1] == 1:
        return np.ones(len(input_ids), np.int32)
    live = int(np.count_nonzero(seq_len > 0))
    _check(not np.any(seq_len[live:]), f"seq_len {list(map(int, seq_len))} is not zero behind its "
           f"first {live} sequences")
    return seq_len[:live]


def _split_pages(cache_loc: np.ndarray, pages_per_seq: np.ndarray) -> list[np.ndarray]:
    ends = np.cumsum(pages_per_seq)
    return [cache_loc[end - count:end] for end, count in zip(ends, pages_per_seq)]


def prepare_metadata(input_ids: np.ndarray, seq_len: np.ndarray, input_pos: np.ndarray,
                     cache_loc: np.ndarray, pages_per_seq: np.ndarray, page_size: int) -> Metadata:
    """Metadata of SequenceInfo.args. Whether the tokens fit the pages, SequenceInfo checks."""
    _check(page_size >= 1, f"page_size is {page_size}, expected 1 or more")
    lengths = live_lengths(input_ids, seq_len).astype(np.int32)
    live = int(np.count_nonzero(seq_len[:len(lengths)] > 0))
    pages = _split_pages(cache_loc, pages_per_seq[:live])
    width = max([len(own) for own in pages] + [int(live < len(lengths))])
    table = np.full((len(lengths), max(width, 1)), -1, np.int32)
    for row, own in zip(table, pages):
        row[:len(own)] = own
    # Behind those of all sequences, also of those that are not in this batch.
    table[live:, 0] = [*cache_loc[int(pages_per_seq.sum()):][:1], -1][0]
    positions = np.zeros(len(lengths), np.int32)
    positions[:live] = input_pos[:live]
    starts = (np.cumsum(lengths) - lengths).astype(np.int32)
    return Metadata(lengths, positions, table, starts)


class SequenceInfo:
    """Buffers of fixed size for up to max_batch_size sequences; input_ids is [b, 1] where every
    sequence has one token, else [1, total]."""

    def __init__(self, max_seq_len: int = 1, max_batch_size: int = 1, page_size: int = 0,
                 max_num_tokens: int = 0):
        for name, value in (("max_seq_len", max_seq_len), ("max_batch_size", max_batch_size),
                            ("page_size", page_size), ("max_num_tokens", max_num_tokens)):
            _integer(name, value)
        for name, value in (("max_seq_len", max_seq_len), ("max_batch_size", max_batch_size)):
            _check(value >= 1, f"{name} is {value}, at least 1 is needed")
        self.max_seq_len, self.max_batch_size = max_seq_len, max_batch_size
        self.page_size = page_size if page_size >= 1 else max_seq_len
        self.max_num_tokens = max_num_tokens if max_num_tokens >= 1 else max_batch_size * max_seq_len
        self.device: Any = None  # of torch; None: the host, by NumPy
        self._tensors: dict[str, Any] = {}
        self.input_ids = np.ones((max_batch_size, 1), np.int32)
        self.seq_len, self.input_pos, self.pages_per_seq = (
            np.zeros(max_batch_size, np.int32) for _ in range(3))
        self.cache_loc = np.empty(0, np.int32)
        tokens = min(self.max_num_tokens, max_batch_size * max_seq_len)
        self.num_pages = -(-tokens // self.page_size)
        self.reset()

    @property
    def num_pages(self) -> int:
        return len(self.cache_loc)

    @num_pages.setter
    def num_pages(self, count: int) -> None:
        """Changes how many pages there are; those in use must remain."""
        used = int(self.pages_per_seq.sum())
        _integer("num_pages", count)
        _check(count >= max(used, 1), f"num_pages is {count}, {max(used, 1)} are in use")
        old = self.cache_loc[:used] if used else np.empty(0, np.int32)
        _check(not np.any(old >= count), f"num_pages is {count}, page {old.max(initial=0)} is in use")
        free = np.setdiff1d(np.arange(count, dtype=np.int32), old)
        self.cache_loc = np.concatenate([old, free]).astype(np.int32)

    @property
    def is_paged(self) -> bool:
        return self.page_size < self.max_seq_len

    @property
    def num_sequences(self) -> int:
        return int(np.count_nonzero(self.seq_len))

    @property
    def is_generate(self) -> bool:
        """Of an empty batch too."""
        return bool(np.all(self.seq_len[:self.num_sequences] == 1))

    def to(self, device: Any) -> SequenceInfo:
        """Has `args` as tensors on a device of torch, or, with None, as NumPy's arrays again."""
        if device is not None:
            import torch

            device = torch.device(device)
        self.device, self._tensors = device, {}
        return self

    def _on_device(self, name: str, array: np.ndarray) -> Any:
        if self.device is None:
            return array
        import torch

        old = self._tensors.get(name)
        if old is None or old.shape != array.shape:
            self._tensors[name] = old = torch.empty(array.shape, dtype=torch.int32,
                                                    device=self.device)
        return old.copy_(torch.from_numpy(array))

    @property
    def args(self) -> tuple[Any, ...]:
        """Tensors where there is a device, always the same ones but for input_ids."""
        names = ("input_ids", *self.extra_arg_names)
        return tuple(self._on_device(name, getattr(self, name)) for name in names)

    @property
    def extra_arg_names(self) -> tuple[str, ...]:
        return ("seq_len", "input_pos", "cache_loc", "pages_per_seq")

    @property
    def dynamic_shapes(self) -> dict[str, dict[int, tuple[str, int]]]:
        """Of each argument its open dimensions, with name and largest size."""
        shapes: dict[str, dict[int, tuple[str, int]]] = {name: {} for name in self.extra_arg_names}
        batch = {0: ("batch_size", self.max_batch_size)} if self.max_batch_size > 1 else {}
        return {"input_ids": {**batch, 1: ("seq_len", self.max_seq_len)}, **shapes}

    @property
    def export_shapes(self) -> dict[str, dict[int, Any]]:
        """dynamic_shapes as torch.export takes them. Needs torch."""
        from torch.export import Dim

        return {name: {axis: Dim(symbol, max=most) for axis, (symbol, most) in open_.items()}
                for name, open_ in self.dynamic_shapes.items()}

    def reset(self) -> None:
        """A token for each sequence, or for as many as there are pages and room: no two share a
        page. Nothing is cached."""
        self.cache_loc[:] = np.arange(self.num_pages)
        count = min(self.max_batch_size, self.num_pages, self.max_num_tokens)
        self.nest_sequences([[1]] * count)
        self.input_pos[:] = 0
        self.pages_per_seq[:] = np.arange(self.max_batch_size) < count

    def nest_sequences(self, sequences: Sequence[Sequence[int] | np.ndarray]) -> None:
        """Takes these tokens; nothing has changed where they are refused."""
        length_of("sequences", sequences, "lists of integers")
        lengths = [length_of(f"sequence {place}", sequence)
                   for place, sequence in enumerate(sequences)]
        _check(len(lengths) <= self.max_batch_size,
               f"{len(lengths)} sequences, at most {self.max_batch_size} (max_batch_size)")
        _check(sum(lengths) <= self.max_num_tokens,
               f"{sum(lengths)} tokens, at most {self.max_num_tokens} (max_num_tokens)")
        for index, length in enumerate(lengths):
            _check(1 <= length <= self.max_seq_len, f"sequence {index} has {length} tokens, 1 to "
                   f"{self.max_seq_len} (max_seq_len) are possible")
        tokens = [np.asarray(sequence) for sequence in sequences]
        for index, ids in enumerate(tokens):
            _check(ids.ndim == 1 and ids.dtype.kind in "iu",
                   f"sequence {index}: expected integers, got {ids.dtype} of shape {list(ids.shape)}")
            _check(_IDS.min <= ids.min() and ids.max() <= _IDS.max,
                   f"sequence {index} has tokens from {ids.min()} to {ids.max()}, {_IDS.min} to "
                   f"{_IDS.max} are possible")
        flat = np.concatenate([np.empty(0, np.int32), *tokens]).astype(np.int32)
        self.input_ids = flat.reshape((-1, 1) if all(n == 1 for n in lengths) else (1, -1))
        self.seq_len[:] = 0
        self.seq_len[:len(lengths)] = lengths

    def unnest_sequences(self, rows: np.ndarray) -> list[np.ndarray]:
        """Each sequence's rows of what a graph made of input_ids, [b, 1, ...] or [1, total, ...]."""
        _check(hasattr(rows, "shape"), f"rows: expected an array, got {rows!r}")
        _check(rows.shape[:2] == self.input_ids.shape,
               f"rows are {rows.shape[:2]}, input_ids {self.input_ids.shape}")
        flat = rows.reshape(-1, *rows.shape[2:])
        return np.split(flat, np.cumsum(self.seq_len[:self.num_sequences])[:-1]) if len(flat) else []

    def update_pos(self, count: int | Sequence[int] | np.ndarray, reset: bool = False) -> None:
        """Adds to input_pos, or sets it: a number for all entries, a list for the first ones."""
        given = np.asarray(count)
        _check(given.ndim < 2 and (given.dtype.kind in "iu" or not given.size),
               f"count: expected an integer or a list of them, got {count!r}")
        values = given.astype(np.int64)
        values = np.broadcast_to(values, (self.max_batch_size,)) if not values.ndim else values
        _check(len(values) <= self.max_batch_size,
               f"{len(values)} positions, at most {self.max_batch_size} (max_batch_size)")
        new = values + (0 if reset else self.input_pos[:len(values)])
        _check(not np.any(new < 0), f"position {new.min(initial=0)} is negative")
        _check(not np.any(new > _IDS.max), f"position {new.max(initial=0)}, at most {_IDS.max}")
        self.input_pos[:len(values)] = new

    def assign_cache_loc(self, pages: Sequence[Sequence[int]]) -> None:
        """The pages of each sequence, in the order of its tokens; cache_loc has the others behind
        them."""
        _check(length_of("pages", pages, "lists of integers") <= self.max_batch_size,
               f"pages of {len(pages)} sequences, at most {self.max_batch_size} (max_batch_size)")
        owned = [_integers(f"pages[{place}]", own) for place, own in enumerate(pages)]
        flat = [page for own in owned for page in own]
        for page in flat:
            _check(0 <= page < self.num_pages, f"page {page}, 0 to {self.num_pages - 1} exist")
        _check(len(set(flat)) == len(flat), "a page is assigned twice")
        self.cache_loc[:] = [*flat, *np.setdiff1d(np.arange(self.num_pages), flat)]
        self.pages_per_seq[:] = 0
        self.pages_per_seq[:len(pages)] = [len(own) for own in owned]

    @property
    def page_assignments(self) -> list[list[int]]:
        return [own.tolist() for own in
                _split_pages(self.cache_loc, self.pages_per_seq[:self.num_sequences])]

    def check_capacity(self) -> None:
        """Raises where a sequence's tokens do not fit its pages."""
        for index in range(self.num_sequences):
            needed = int(self.input_pos[index] + self.seq_len[index])
            room = int(self.pages_per_seq[index]) * self.page_size
            _check(needed <= room, f"sequence {index} has {needed} tokens, its pages hold {room}")

    def prepare_metadata(self) -> Metadata:
        """What attention takes of the live sequences, once a step."""
        self.check_capacity()
        return prepare_metadata(self.input_ids, self.seq_len, self.input_pos, self.cache_loc,
                                self.pages_per_seq, self.page_size)

    def sync(self, other: SequenceInfo) -> None:
        """Copies what `other` holds; both must be of the same sizes."""
        _check(isinstance(other, SequenceInfo), f"other: expected a SequenceInfo, got {other!r}")
        for name in ("max_seq_len", "max_batch_size", "page_size", "max_num_tokens", "num_pages"):
            own, its = getattr(self, name), getattr(other, name)
            _check(own == its, f"{name} is {own} here and {its} there")
        self.input_ids = other.input_ids.copy()
        for name in self.extra_arg_names:
            getattr(self, name)[:] = getattr(other, name)

    def _set_sample(self, batch: int, length: int) -> None:
        each = -(-length // self.page_size)
        _check(batch * each <= self.num_pages, f"{batch} sequences of {length} tokens take "
               f"{batch * each} pages, there are {self.num_pages}")
        self.nest_sequences([[1] * length] * batch)
        self.input_pos[:] = 0
        self.assign_cache_loc([range(i * each, (i + 1) * each) for i in range(batch)])

    def set_example(self) -> None:
        """A few short sequences, to export with."""
        batch = min(_EXAMPLE_BATCH, self.max_batch_size, self.max_num_tokens)
        self._set_sample(batch, min(_EXAMPLE_LENGTH, self.max_seq_len,
                                    self.max_num_tokens // batch))

    def set_max_num_tokens(self) -> None:
        """As many tokens as equal sequences may have."""
        self._set_sample(self.max_batch_size,
                         min(self.max_num_tokens // self.max_batch_size, self.max_seq_len))

    def set_generate_only(self) -> None:
        self._set_sample(self.max_batch_size, 1)
