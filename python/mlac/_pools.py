# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arrays of the caller's as pools of an engine (Engine.bind_pool)."""

import ctypes

from . import _arrays
from ._errors import InvalidArgument
from ._library import ExternalPool


def _row_elements(cache, part):
    """Elements of a row, or of its latent (0) or rope (1) part, as the pool stores them."""
    widths = (cache["kv_lora_rank"], cache["qk_rope_head_dim"])
    if part is not None:
        return widths[part]
    item = _arrays.ITEM_BYTES[cache["dtype"]]
    return cache["row_bytes"] // item


def _check(engine, name, array, part=None):
    """The array's view, and its pages' stride in bytes."""
    cache = engine.package_info["cache"]
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


def describe(engine, pool):
    """The mla_external_pool of an array, or of a pair of latents and rope keys."""
    size = ctypes.sizeof(ExternalPool)
    if not isinstance(pool, (tuple, list)):
        view, stride = _check(engine, "pool", pool)
        return ExternalPool(size, view.address, view.shape[0], stride, None)
    if len(pool) != 2:
        raise InvalidArgument(f"pool: expected an array, or latents and rope keys, "
                              f"got {len(pool)} arrays")
    latent, stride = _check(engine, "latents", pool[0], part=0)
    rope, rope_stride = _check(engine, "rope keys", pool[1], part=1)
    if rope.shape[0] != latent.shape[0]:
        raise InvalidArgument(f"rope keys: expected {latent.shape[0]} pages as of the latents, "
                              f"got {rope.shape[0]}")
    if rope_stride != stride and latent.shape[0] > 1:
        raise InvalidArgument(f"rope keys: expected pages {stride} bytes apart as of the "
                              f"latents, got {rope_stride}")
    if latent.shape[0] == 1:
        stride = 0
    return ExternalPool(size, latent.address, latent.shape[0], stride, rope.address)
