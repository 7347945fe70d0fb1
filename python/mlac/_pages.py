# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Who has which page: an engine's cache, or one without any engine."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import byref, c_char_p, c_int32, c_int64, c_uint64, c_void_p
from typing import TYPE_CHECKING

from ._checked import integer, integers, length_of, lengths, path as path_of, text
from ._errors import InvalidArgument
from ._handle import Handle, address_of
from ._library import CacheAppendBatch, CacheCounters, CacheOptions, CachePool, PageCopy
from ._library import call, call_out, library
from ._table import BlockTable
from ._types import Info, Ints, List, Path, Stream

if TYPE_CHECKING:
    from ._runtime import Device

_MOST_SLOTS = 1 << 20  # of an append, in memory that is taken before the library has seen it


# Fields of a pool, and what those are that need not be given.
_POOL = {"name": None, "num_pages": None, "page_rows": None, "tokens_per_row": 1,
         "window_tokens": 0, "watermark_pages": 0}


def _pool(place, fields):
    """The mla_cache_pool of a dict; what is wrong with it is said with its place."""
    if not isinstance(fields, Mapping):
        raise InvalidArgument(f"{place}: expected a dict with {', '.join(_POOL)}, got {fields!r}")
    for name in fields:
        if name not in _POOL:
            raise InvalidArgument(f"{place}: unknown field {name!r}, expected some of "
                                  f"{', '.join(_POOL)}")
    for name in [name for name, default in _POOL.items() if default is None]:
        if name not in fields:
            raise InvalidArgument(f"{place}: expected a field '{name}', got {fields!r}")
    name, *numbers = {**_POOL, **fields}.values()
    return CachePool(text(f"{place}: name", name), *numbers)


def _tokens(tokens):
    return integers("tokens", c_int32, tokens), length_of("tokens", tokens)


class Cache(Handle):
    """Pages, block tables and published prefixes.

    `engine.cache` is the cache under an engine. Cache(pools, max_seq_len) makes one
    of its own, for programs that keep the bytes themselves: pools is a list of dicts
    with name, num_pages, page_rows, and optionally tokens_per_row, window_tokens and
    watermark_pages. Closing it closes the handle; a cache of its own goes with it.
    """

    _release = "mla_cache_destroy"

    def __init__(self, pools: List[Info], max_seq_len: int, format: str | None = None):
        options = CacheOptions()
        library.mla_cache_options_init(byref(options))
        count = length_of("pools", pools, "dicts")
        natives = (CachePool * count)(*[_pool(f"pools[{place}]", pool)
                                        for place, pool in enumerate(pools)])
        options.max_seq_len = max_seq_len
        options.num_pools = count
        options.pools = natives
        options.format = text("format", format) if format is not None else None
        super().__init__(call_out("mla_cache_create", c_void_p, byref(options)))

    @classmethod
    def _of_engine(cls, engine_value):
        cache = cls.__new__(cls)
        Handle.__init__(cache, call_out("mla_engine_cache", c_void_p, engine_value))
        return cache

    def _describe(self):
        counters = self.counters()
        return f"{len(self.sequences)} sequences, {counters['unused_pages']} unused pages"

    def sequence(self) -> int:
        """The id of a new, empty sequence."""
        return call_out("mla_cache_new_sequence", c_uint64, self._value)

    def free(self, sequence: int) -> None:
        call("mla_cache_free_sequence", self._value, sequence)

    @property
    def sequences(self) -> list[int]:
        """The ids of all sequences, in an order that snapshots keep."""
        capacity = self.counters()["num_sequences"]
        ids, count = (c_uint64 * capacity)(), c_int64()
        call("mla_cache_sequences", self._value, ids, capacity, byref(count))
        return ids[: count.value]

    def length(self, sequence: int) -> int:
        return call_out("mla_cache_length", c_int64, self._value, sequence)

    def pages(self, sequence: int, pool: int = 0) -> list[int]:
        """Page indices in logical order; 2147480000 where the window has left."""
        capacity = self.counters(pool)["num_pages"] + self.length(sequence)
        pages, count = (c_int32 * capacity)(), c_int64()
        call("mla_cache_pages", self._value, pool, sequence, pages, capacity, byref(count))
        return pages[: count.value]

    def slots(self, sequence: int, position: int, count: int, pool: int = 0) -> list[int]:
        """Slots of tokens [position, position + count); -1 where there is no row."""
        room = min(integer("count", count), self.length(sequence))  # more are refused, before any is written
        slots = (c_int64 * max(room, 1))()
        call("mla_cache_slots", self._value, pool, sequence, position, count, slots)
        return slots[:count]

    def reserve(self, sequence: int, num_tokens: int) -> None:
        call("mla_cache_reserve", self._value, sequence, num_tokens)

    def truncate(self, sequence: int, num_tokens: int) -> None:
        call("mla_cache_truncate", self._value, sequence, num_tokens)

    def append(self, sequences: Ints, positions: Ints, counts: Ints) -> list[int]:
        """Takes pages for a batch and returns the slots of its tokens in pool 0.

        All or nothing; OutOfPages changes nothing. Make `take_copies` before writing.
        """
        n = length_of("sequences", sequences)
        lengths(n, positions=positions, counts=counts)
        tokens = integers("counts", c_int32, counts)
        total = sum(max(count, 0) for count in tokens)
        batch = CacheAppendBatch(
            ctypes.sizeof(CacheAppendBatch), n, integers("sequences", c_uint64, sequences),
            integers("positions", c_int64, positions), tokens)
        # So many are refused as a rule, before there is memory for their slots.
        slots = (c_int64 * max(total, 1))() if total <= _MOST_SLOTS else None
        call("mla_cache_append", self._value, byref(batch), slots, total)
        if slots:
            return slots[:total]
        return [slot for each in zip(sequences, positions, counts) for slot in self.slots(*each)]

    def take_copies(self) -> list[tuple[int, int, int]]:
        """Page copies to be made now, in order: (pool, from, to)."""
        count = c_int64()
        library.mla_cache_take_copies(self._value, None, 0, byref(count))
        copies = (PageCopy * count.value)()
        call("mla_cache_take_copies", self._value, copies, count.value, byref(count))
        return [(copy.pool, copy.from_, copy.to) for copy in copies[: count.value]]

    def fork(self, parent: int, num_tokens: int | None = None) -> int:
        """A new sequence with the parent's first tokens, in the same pages."""
        if num_tokens is None:
            num_tokens = self.length(parent)
        return call_out("mla_cache_fork", c_uint64, self._value, parent, num_tokens)

    def publish(self, sequence: int, tokens: Ints, first: int = 0) -> int:
        """Declares the token ids of rows from `first` on; returns how many tokens are
        published now, which is the next call's `first`."""
        return call_out("mla_cache_publish", c_int64, self._value, sequence, first,
                        *_tokens(tokens))

    def match(self, sequence: int, tokens: Ints) -> int:
        """Gives an empty sequence the longest published prefix; its length."""
        return call_out("mla_cache_match", c_int64, self._value, sequence,
                        *_tokens(tokens))

    def drop_cached(self) -> None:
        """Evicts every block that no sequence uses."""
        call("mla_cache_drop_cached", self._value)

    def compact(self, max_moves: int = 2**62, stream: Stream = None) -> int:
        """Moves the pages with the highest indices to unused ones at the front; returns
        how many. An engine copies the bytes on `stream`; else `take_copies` has them."""
        return call_out("mla_cache_compact", c_int64, self._value, max_moves,
                        address_of(stream))

    def table(self, device: Device, rows: int, tokens: int, pool: int = 0) -> BlockTable:
        """Tables for `rows` requests and `tokens` tokens of a step that stay on a device
        (BlockTable)."""
        return BlockTable(self, device, rows, tokens, pool)

    def set_watermark(self, num_pages: int, pool: int = 0) -> None:
        call("mla_cache_set_watermark", self._value, pool, num_pages)

    def counters(self, pool: int = 0) -> dict[str, int]:
        """Pages unused, cached, shared, evicted, copied; hit tokens (a dict)."""
        native = CacheCounters()
        native.struct_bytes = ctypes.sizeof(CacheCounters)
        call("mla_cache_get_counters", self._value, pool, byref(native))
        return {name: getattr(native, name) for name, *_ in CacheCounters._fields_[1:]}

    def check(self) -> None:
        """Proves every invariant; raises Internal naming a broken one."""
        call("mla_cache_check", self._value)

    def dump(self) -> str:
        """Pools, sequences and blocks as text."""
        return call_out("mla_cache_dump", c_char_p, self._value).decode()

    def save(self, path: Path) -> None:
        """Writes a snapshot; the file is replaced or left as it was."""
        call("mla_cache_save", self._value, path_of("path", path))

    def restore(self, path: Path) -> list[int]:
        """Reads a snapshot into an empty cache; returns the new ids."""
        call("mla_cache_restore", self._value, path_of("path", path))
        return self.sequences
