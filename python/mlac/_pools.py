# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arrays of the caller's as pools of an engine (Engine.bind_pool)."""

import ctypes

from . import _arrays
from ._checked import integer
from ._errors import InvalidArgument
from ._library import ExternalPool


_NAMES = {"rope": "rope keys"}


def _row_elements(cache, part):
    """Elements of a row, or of one of its fields (0, 1), as the pool stores them."""
    if part is not None:
        field = cache["fields"][part]
        return field["heads"] * field["columns"]
    item = _arrays.ITEM_BYTES[cache["dtype"]]
    return cache["row_bytes"] // item


def _check(engine, cache, name, array, part=None):
    """The array's view, and its pages' stride in bytes."""
    # Elements of eight bits are bytes to NumPy and to DLPack.
    dtype = "u8" if _arrays.ITEM_BYTES[cache["dtype"]] == 1 else cache["dtype"]
    view = _arrays.strided(name, array, bits_of="f16" if dtype == "f16" else "bf16")
    if view.is_cuda != engine.is_cuda:
        places = ("host", "CUDA")
        raise InvalidArgument(f"{name}: expected {places[engine.is_cuda]} memory, "
                              f"got {places[view.is_cuda]}")
    if view.dtype != dtype:
        raise InvalidArgument(f"{name}: expected dtype {dtype}, got {view.dtype}")
    page = (cache["page_size"], _row_elements(cache, part))
    if len(view.shape) != 3 or view.shape[1:] != page:
        raise InvalidArgument(f"{name}: expected shape [pages, {page[0]}, {page[1]}], "
                              f"got {list(view.shape)}")
    if view.shape[0] < 1:  # before its memory, which tensors without elements have not
        raise InvalidArgument(f"{name}: expected at least 1 page, got shape {list(view.shape)}")
    if not view.is_writable:
        raise InvalidArgument(f"{name}: expected a writable array, got a read-only one")
    dense = (page[0] * page[1], page[1], 1)
    strides = view.strides or dense
    for axis, what in ((1, "rows"), (2, "columns")):
        if view.shape[axis] > 1 and strides[axis] != dense[axis]:
            raise InvalidArgument(f"{name}: expected dense pages, {what} {dense[axis]} elements "
                                  f"apart, got {strides[axis]:g}")
    # The stride of a single page means nothing.
    stride = strides[0] if view.shape[0] > 1 else dense[0]
    return view, int(stride * _arrays.ITEM_BYTES[dtype])


def describe(engine, pool, index):
    """The mla_external_pool of an array, or of a pair of them, one for each field."""
    size = ctypes.sizeof(ExternalPool)
    pools = engine.package_info["pools"]
    if not 0 <= integer("index", index) < len(pools):
        raise InvalidArgument(f"pool {index}, expected 0 to {len(pools) - 1}")
    cache = pools[index]
    if not isinstance(pool, (tuple, list)):
        view, stride = _check(engine, cache, "pool", pool)
        return ExternalPool(size, view.address, view.shape[0], stride, None)
    if len(pool) != 2 or len(cache["fields"]) != 2:
        raise InvalidArgument(f"pool: expected an array, or one for each of two fields, "
                              f"got {len(pool)} arrays for {len(cache['fields'])}")
    names = [_NAMES.get(field["name"], field["name"] + "s") for field in cache["fields"]]
    first, stride = _check(engine, cache, names[0], pool[0], part=0)
    second, second_stride = _check(engine, cache, names[1], pool[1], part=1)
    if second.shape[0] != first.shape[0]:
        raise InvalidArgument(f"{names[1]}: expected {first.shape[0]} pages as of the {names[0]}, "
                              f"got {second.shape[0]}")
    if second_stride != stride and first.shape[0] > 1:
        raise InvalidArgument(f"{names[1]}: expected pages {stride} bytes apart as of the "
                              f"{names[0]}, got {second_stride}")
    if first.shape[0] == 1:
        stride = 0
    return ExternalPool(size, first.address, first.shape[0], stride, second.address)
