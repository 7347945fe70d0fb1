# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Block tables on the device, for kernels of one's own in captured graphs, and what
positions of requests are in the cache."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int32, c_int64, c_void_p
from typing import TYPE_CHECKING, Any

from ._checked import integers, length_of
from ._errors import InvalidArgument
from ._handle import Handle, Unique, address_of, require
from ._library import IndexMap, TableChanges, TableView, call, call_out
from ._types import Ints, List, Stream

if TYPE_CHECKING:
    from ._pages import Cache
    from ._runtime import Device, Sequence

class _Memory(Unique):
    """Device memory for numpy.asarray (CPU) or torch.as_tensor (CUDA), read-only there."""

    dtype: str  # the library's name of it, where the typestr cannot say it

    def __init__(self, owner, is_cuda, address, shape, typestr, strides=None):
        self._owner = owner  # keeps the memory alive
        name = "__cuda_array_interface__" if is_cuda else "__array_interface__"
        setattr(self, name, {"data": (address, not is_cuda), "shape": shape, "typestr": typestr,
                             "strides": strides, "version": 3})
        self.address, self.shape, self.strides = address, shape, strides
        self._typestr = typestr

    def _describe(self):
        return f"{list(self.shape)} {self._typestr} at {self.address:#x}"


class BlockTable(Handle):
    """Block table, sequence lengths and slot mapping of a cache's pool on a device.

    The addresses never change, so a captured graph may read them; before each replay
    `update` copies what has changed since, on the same stream: in decode an entry for
    each request that starts a page, the lengths and the slots.

    block_table [rows, columns], seq_lens [rows], slot_mapping [tokens]: what
    numpy.asarray (CPU) and torch.as_tensor (CUDA) take; `.address` is the address.
    """

    _release = "mla_table_destroy"

    def __init__(self, cache: Cache, device: Device, rows: int, tokens: int, pool: int = 0):
        from ._runtime import Device as device_class  # which imports this module

        require("device", device, device_class)
        super().__init__(call_out("mla_table_create", c_void_p, cache._value, device._value,
                                  pool, rows, tokens))
        view = TableView()
        call("mla_table_view_of", self._value, byref(view))
        self.rows, self.columns, self.tokens = view.rows, view.columns, view.tokens
        self._view, self._is_cuda = view, device.is_cuda

    @property
    def block_table(self) -> _Memory:
        return self._memory(self._view.block_table, (self.rows, self.columns), "<i4")

    @property
    def seq_lens(self) -> _Memory:
        return self._memory(self._view.seq_lens, (self.rows,), "<i4")

    @property
    def slot_mapping(self) -> _Memory:
        return self._memory(self._view.slot_mapping, (self.tokens,), "<i8")

    def _memory(self, address, shape, typestr):
        """Made for each who asks: arrays of it own the table, which must not own them."""
        return _Memory(self, self._is_cuda, address, shape, typestr)

    def _describe(self):
        return f"{self.rows} rows of {self.columns} pages, {self.tokens} slots"

    def assign(self, row: int, sequence: int | Sequence | None) -> None:
        """Binds a row to a sequence (an id or a Sequence), or empties it (None). Shown by
        the next update."""
        identifier = 0 if sequence is None else getattr(sequence, "_id", sequence)
        call("mla_table_assign", self._value, row, identifier)

    def update(self, slots: Ints = (), stream: Stream = None) -> dict[str, int]:
        """Copies what has changed, asynchronously on `stream`; not to be captured.
        slots: the step's slot mapping (Cache.append). Returns how many entries of the
        block table differed, and how many copies were started."""
        changes = TableChanges()
        call("mla_table_update", self._value, integers("slots", c_int64, slots),
             length_of("slots", slots), address_of(stream), byref(changes))
        return {"entries": changes.entries, "copies": changes.copies}


def _flat(name, rows):
    """Rows of one length as an i32 array; the number of rows and their length."""
    counts = [length_of(f"{name}[{place}]", row) for place, row in enumerate(rows)] \
        if length_of(name, rows, "lists of integers") else []
    width = counts[0] if counts else 0
    for count in counts:
        if count != width:
            raise InvalidArgument(f"{name}: expected rows of {width} entries, got {count}")
    return integers(name, c_int32, [v for row in rows for v in row]), width


def convert_indices(positions: List[Ints], requests: Ints, block_table: List[Ints],
                    page_size: int, num_blocks: int, block_stride_rows: int | None = None,
                    prefill_requests: Ints | None = None,
                    workspace_starts: Ints = ()) -> list[list[int]]:
    """Rows of the cache, or of a workspace, for token positions of requests (lists, on the
    host; mla_cache_convert_indices).

    positions [rows][width], requests [rows], block_table [requests][blocks]. -1 for
    negative positions and those beyond the table. With prefill_requests [rows], rows of a
    prefill (not -1) get workspace_starts[prefill] + position.
    """
    given, width = _flat("positions", positions)
    table, blocks = _flat("block_table", block_table)
    for name, column in (("requests", requests), ("prefill_requests", prefill_requests)):
        if column is not None and length_of(name, column) != len(positions):
            raise InvalidArgument(f"{name}: expected {len(positions)} entries, got {len(column)}")
    prefills = None if prefill_requests is None else integers("prefill_requests", c_int32,
                                                              prefill_requests)
    starts = integers("workspace_starts", c_int32, workspace_starts)
    index_map = IndexMap(
        ctypes.sizeof(IndexMap), table, len(block_table), blocks, page_size,
        page_size if block_stride_rows is None else block_stride_rows, num_blocks, prefills,
        starts, len(workspace_starts))
    indices = (c_int32 * len(given))()
    call("mla_cache_convert_indices", byref(index_map), given,
         integers("requests", c_int32, requests), len(positions), width, indices)
    return [indices[i * width:(i + 1) * width] for i in range(len(positions))]
