# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Formats of the paged cache: rows to and from the bytes of a pool, on the host."""

from __future__ import annotations

import ctypes
import json
from ctypes import byref, c_char_p, c_int64, c_void_p
from typing import Any

from . import _arrays
from ._checked import integers, length_of, text
from ._errors import InvalidArgument
from . import _library
from ._library import call, call_out, library
from ._types import Array, Info, Ints

_SCALE_RULES = {None: 0, "raw": 1, "power_of_two": 2}


def cache_formats() -> list[Info]:
    """The table of formats, as a list of dicts (see mla_cache_formats)."""
    return json.loads(call_out("mla_cache_formats", c_char_p))


class CacheLayout:
    """A pool of pages in one format.

    format: a name of cache_formats(). Other arguments are fields of mla_cache_layout
    (columns: those of each of the row's fields, page_size, page_stride_bytes, num_pages,
    layer_scale, value_scale, amax_floor, scale_floor), dtype ("bf16", "f16", "f32": of rows outside of
    the pool) and scale_rule (None: the format's, "raw", "power_of_two").

        layout = mlac.CacheLayout("fp8_ds_mla", num_pages=4)
        layout.encode(rows, pool, slots=[130])     # rows: [1, 576] bf16 or uint16 bits
        layout.decode(pool, rows, slots=[130])
    """

    def __init__(self, format: str, *, dtype: str | None = None, scale_rule: str | None = None,
                 **fields: Any):
        self._format = text("format", format)
        self._layout = _library.CacheLayout()
        library.mla_cache_layout_init(byref(self._layout), self._format)
        known = {name for name, *_ in _library.CacheLayout._fields_}
        for name, value in fields.items():
            if name not in known - {"struct_bytes", "format", "dtype", "scale_rule"}:
                raise TypeError(f"CacheLayout has no argument '{name}'")
            if name == "columns":
                if length_of("columns", value) > 2:
                    raise InvalidArgument("columns: expected those of at most 2 fields of a row, "
                                          f"got {len(value)}")
                value = (c_int64 * 2)(*integers("columns", c_int64, value))
            setattr(self._layout, name, value)
        if scale_rule not in tuple(_SCALE_RULES):  # which takes what has no hash
            raise ValueError(f"scale_rule: expected None, 'raw' or 'power_of_two', got "
                             f"{scale_rule!r}")
        self._layout.scale_rule = _SCALE_RULES[scale_rule]
        if dtype is not None:
            if dtype not in _arrays.DTYPES:
                raise ValueError(f"dtype: expected one of {', '.join(_arrays.DTYPES)}, got "
                                 f"{dtype!r}")
            self._layout.dtype = _arrays.DTYPES.index(dtype)

    def __repr__(self):
        layout = self._layout
        return (f"<mlac.CacheLayout {layout.format.decode()}, {layout.num_pages} pages of "
                f"{layout.page_size} tokens, rows of {self.width} elements>")

    @property
    def width(self) -> int:
        """Elements of a row, its fields behind one another."""
        return sum(self._layout.columns)

    def offset(self, field: str, slot: int) -> int:
        """Byte of a part ("latent", "scale", "key", ...) of the token in `slot`."""
        return call_out("mla_cache_layout_offset", c_int64, byref(self._layout),
                        text("field", field), slot)

    def encode(self, rows: Array, pool: Array, slots: Ints | None = None) -> None:
        """Writes rows [n, width] to `slots` (default 0, 1, ...) of `pool`, in place."""
        rows, pool = self._rows(rows), _host("pool", pool, is_written=True)
        count, slots = self._slots(rows, slots)
        call("mla_cache_encode", byref(self._layout), c_void_p(rows.address), count, slots,
             c_void_p(pool.address), pool.nbytes)

    def decode(self, pool: Array, rows: Array, slots: Ints | None = None) -> None:
        """Reads rows [n, width] from `slots` of `pool` into `rows`, in place."""
        rows, pool = self._rows(rows, is_written=True), _host("pool", pool)
        count, slots = self._slots(rows, slots)
        call("mla_cache_decode", byref(self._layout), c_void_p(pool.address), pool.nbytes,
             count, slots, c_void_p(rows.address))

    def _rows(self, rows, is_written=False):
        if self.width < 1:
            self.offset("latent", 0)  # refused: the library says which name or columns are wrong
        dtype = _arrays.DTYPES[self._layout.dtype]
        view = _host("rows", rows, is_written, bits_of=dtype)
        if view.dtype != dtype:
            raise ValueError(f"rows: expected {dtype}, got {view.dtype}")
        items = view.nbytes // _arrays.ITEM_BYTES[dtype]
        if items % self.width or (len(view.shape) > 1 and view.shape[-1] != self.width):
            raise ValueError(f"rows: expected shape [n, {self.width}], got {view.shape}")
        return view

    def _slots(self, rows, slots):
        count = rows.nbytes // _arrays.ITEM_BYTES[rows.dtype] // self.width
        if slots is None:
            return count, None
        if length_of("slots", slots) != count:
            raise ValueError(f"slots: expected {count}, one per row, got {len(slots)}")
        return count, integers("slots", c_int64, slots)


def _host(name, array, is_written=False, bits_of="bf16"):
    view = _arrays.view(name, array, bits_of)
    if view.is_cuda:
        raise ValueError(f"{name}: expected host memory, got CUDA memory")
    if is_written and not view.is_writable:
        raise ValueError(f"{name}: is written, but read-only")
    return view
