# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds libmla_runtime.so and declares its functions (mla_runtime.h)."""

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int32, c_int64
from ctypes import c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path

from ._checked import Struct, argument, reraised
from ._errors import BY_STATUS, Internal

LIBRARY = "libmla_runtime.so"

# Says where the library is when it is neither beside this file nor on the
# loader's path.
LIBRARY_VARIABLE = "MLAC_RUNTIME_LIBRARY"

ALLOW_EXTRA_TENSORS = 1
REQUIRE_UNIFORM = 1
TABLES_ON_DEVICE = 1


class EngineOptions(Struct):
    """mla_engine_options."""

    _fields_ = [("struct_bytes", c_size_t)] + [
        (name, c_int64)
        for name in (
            "max_num_requests",
            "max_num_tokens",
            "max_seq_len",
            "num_pages",
            "num_layers",
            "workspace_tokens",
            "num_sms",
            "page_padding_tokens",
            "tensor_parallel_rank",
            "external_pools",
            "workspace_cap",
        )
    ]


class ExternalPool(Struct):
    """mla_external_pool."""

    _fields_ = [
        ("struct_bytes", c_size_t),
        ("data", c_void_p),
        ("num_pages", c_int64),
        ("page_stride_bytes", c_int64),
        ("rope", c_void_p),
    ]


class CachePart(ctypes.Structure):
    """mla_cache_part."""

    _fields_ = [
        ("data", c_void_p),
        ("dtype", ctypes.c_int),
        ("num_pages", c_int64),
        ("page_size", c_int64),
        ("width", c_int64),
        ("page_stride_bytes", c_int64),
        ("row_stride_bytes", c_int64),
    ]


class CacheStats(ctypes.Structure):
    """mla_cache_stats."""

    _fields_ = [
        ("num_pages", c_int64),
        ("free_pages", c_int64),
        ("num_sequences", c_int64),
        ("page_size", c_int64),
        ("row_bytes", c_int64),
        ("page_stride_bytes", c_int64),
        ("dtype", ctypes.c_int),
    ]


class IndexMap(Struct):
    """mla_index_map."""

    _fields_ = [("struct_bytes", c_size_t), ("block_table", POINTER(c_int32)),
                ("num_requests", c_int64), ("max_blocks_per_request", c_int64),
                ("page_size", c_int64), ("block_stride_rows", c_int64), ("num_blocks", c_int64),
                ("prefill_requests", POINTER(c_int32)), ("workspace_starts", POINTER(c_int32)),
                ("num_prefills", c_int64)]


class TableView(ctypes.Structure):
    """mla_table_view."""

    _fields_ = [("block_table", c_void_p), ("seq_lens", c_void_p), ("slot_mapping", c_void_p),
                ("rows", c_int64), ("columns", c_int64), ("tokens", c_int64)]


class TableChanges(ctypes.Structure):
    """mla_table_changes."""

    _fields_ = [("entries", c_int64), ("copies", c_int64)]


class SwapStats(ctypes.Structure):
    """mla_swap_stats."""

    _fields_ = [("num_pages", c_int64), ("free_pages", c_int64), ("num_tickets", c_int64)]


class CacheLayout(Struct):
    """mla_cache_layout."""

    _fields_ = [
        ("struct_bytes", c_size_t),
        ("format", c_char_p),
        ("dtype", ctypes.c_int),
        ("columns", c_int64 * 2),
        ("page_size", c_int64),
        ("page_stride_bytes", c_int64),
        ("num_pages", c_int64),
        ("layer_scale", c_float),
        ("value_scale", c_float),
        ("scale_rule", ctypes.c_int),
        ("amax_floor", c_float),
        ("scale_floor", c_float),
    ]


class Batch(Struct):
    """mla_batch."""

    _fields_ = [
        ("struct_bytes", c_size_t),
        ("num_requests", c_int64),
        ("sequences", POINTER(c_uint64)),
        ("query_lens", POINTER(c_int32)),
        ("common_prefix_len", c_int64),
    ]


class PoolTable(ctypes.Structure):
    """mla_pool_table."""

    _fields_ = [
        ("block_table", c_void_p),
        ("block_table_stride", c_int64),
        ("slot_mapping", c_void_p),
    ]


class TableBatch(ctypes.Structure):
    """mla_table_batch."""

    _fields_ = [
        ("struct_bytes", c_size_t),
        ("num_requests", c_int64),
        ("query_lens", POINTER(c_int32)),
        ("seq_lens", POINTER(c_int32)),
        ("block_table", c_void_p),
        ("block_table_stride", c_int64),
        ("slot_mapping", c_void_p),
        ("pools", POINTER(PoolTable)),
        ("num_pools", c_int64),
        ("flags", c_uint32),
    ]


class DeviceBatch(ctypes.Structure):
    """mla_device_batch."""

    _fields_ = [
        ("struct_bytes", c_size_t),
        ("num_requests", c_int64),
        ("query_lens", POINTER(c_int32)),
        ("seq_len_bounds", POINTER(c_int32)),
        ("seq_lens", c_void_p),
        ("block_table", c_void_p),
        ("block_table_stride", c_int64),
        ("slot_mapping", c_void_p),
        ("positions", c_void_p),
        ("pools", POINTER(PoolTable)),
        ("num_pools", c_int64),
    ]


class StepShape(Struct):
    """mla_step_shape."""

    _fields_ = [("struct_bytes", c_size_t)] + [(name, c_int64) for name in (
        "num_requests", "num_tokens", "max_query_len", "max_seq_len", "num_decodes",
        "num_decode_tokens")]


# mla_all_reduce: user, data, elements, dtype, stream.
AllReduce = ctypes.CFUNCTYPE(ctypes.c_int, c_void_p, c_void_p, c_int64, ctypes.c_int, c_void_p)


class BatchSplit(ctypes.Structure):
    """mla_batch_split."""

    _fields_ = [(name, c_int64) for name in (
        "num_decodes", "num_prefills", "num_decode_tokens", "num_prefill_tokens", "num_swaps")]


class Tensor(ctypes.Structure):
    """mla_tensor."""

    _fields_ = [("name", c_char_p), ("dtype", ctypes.c_int), ("rank", c_int32),
                ("shape", POINTER(c_int64)), ("data", c_void_p)]


# mla_progress.
LogFunction = ctypes.CFUNCTYPE(None, c_void_p, ctypes.c_int, c_char_p)
Progress = ctypes.CFUNCTYPE(None, c_void_p, c_int64, c_int64)


class Binding(ctypes.Structure):
    """mla_binding."""

    _fields_ = [("name", c_char_p), ("data", c_void_p), ("bytes", c_size_t)]


class CachePool(Struct):
    """mla_cache_pool."""

    _fields_ = [("name", c_char_p)] + [
        (name, c_int64)
        for name in (
            "num_pages", "page_rows", "tokens_per_row", "window_tokens", "watermark_pages")
    ]


class CacheOptions(Struct):
    """mla_cache_options."""

    _fields_ = [
        ("struct_bytes", c_size_t),
        ("max_seq_len", c_int64),
        ("num_pools", c_int64),
        ("pools", POINTER(CachePool)),
        ("format", c_char_p),
    ]


class CacheAppendBatch(ctypes.Structure):
    """mla_cache_append_batch."""

    _fields_ = [
        ("struct_bytes", c_size_t),
        ("num_requests", c_int64),
        ("sequences", POINTER(c_uint64)),
        ("positions", POINTER(c_int64)),
        ("counts", POINTER(c_int32)),
    ]


class PageCopy(ctypes.Structure):
    """mla_page_copy; `from` is a Python keyword."""

    _fields_ = [("pool", c_int32), ("from_", c_int32), ("to", c_int32)]


class CacheCounters(ctypes.Structure):
    """mla_cache_counters."""

    _fields_ = [("struct_bytes", c_size_t)] + [
        (name, c_int64)
        for name in (
            "num_pages", "unused_pages", "cached_pages", "shared_pages",
            "least_free_pages", "num_sequences", "num_blocks", "evicted_pages",
            "evicted_blocks", "copied_pages", "merged_pages", "lookup_tokens",
            "hit_tokens", "refusals")
    ]


_INT = ctypes.c_int
_OUT_HANDLE = POINTER(c_void_p)
_OUT_TEXT = POINTER(c_char_p)
_OUT_INT = POINTER(c_int64)
_LAYOUT = POINTER(CacheLayout)

# Arguments of every function that returns a status.
_SIGNATURES = {
    "mla_set_log": [ctypes.c_int, LogFunction, c_void_p],
    "mla_metrics": [POINTER(c_char_p)],
    "mla_step_replay": [c_void_p, c_void_p, c_char_p, _OUT_TEXT],
    "mla_package_open": [c_char_p, _OUT_HANDLE],
    "mla_package_open_bytes": [c_void_p, c_size_t, _OUT_HANDLE],
    "mla_package_kind": [c_void_p, c_int64, _OUT_HANDLE],
    "mla_package_close": [c_void_p],
    "mla_package_info": [c_void_p, _OUT_TEXT],
    "mla_device_open": [c_char_p, c_int32, _OUT_HANDLE],
    "mla_device_close": [c_void_p],
    "mla_device_info": [c_void_p, _OUT_TEXT],
    "mla_device_synchronize": [c_void_p],
    "mla_device_malloc": [c_void_p, c_size_t, _OUT_HANDLE],
    "mla_device_free": [c_void_p, c_void_p],
    "mla_device_upload": [c_void_p, c_void_p, c_void_p, c_size_t],
    "mla_device_download": [c_void_p, c_void_p, c_void_p, c_size_t],
    "mla_engine_create": [c_void_p, c_void_p, POINTER(EngineOptions), _OUT_HANDLE],
    "mla_engine_destroy": [c_void_p],
    "mla_engine_info": [c_void_p, _OUT_TEXT],
    "mla_engine_bind_tensors": [c_void_p, c_int64, POINTER(Tensor), c_int64],
    "mla_checkpoint_open": [c_char_p, _OUT_HANDLE],
    "mla_checkpoint_close": [c_void_p],
    "mla_checkpoint_info": [c_void_p, _OUT_TEXT],
    "mla_checkpoint_tensor": [c_void_p, c_char_p, POINTER(Tensor)],
    "mla_engine_bind_checkpoint": [
        c_void_p, c_int64, c_int64, c_void_p, c_int64, c_uint32, Progress, c_void_p],
    "mla_quantize_weight": [
        c_void_p, c_int64, c_int64, c_int64, c_int64, c_void_p, c_void_p],
    "mla_engine_bind_safetensors": [c_void_p, c_int64, c_char_p, c_char_p, c_uint32],
    "mla_engine_prepare": [c_void_p, c_int64],
    "mla_engine_bind_pool": [c_void_p, c_int64, c_int64, POINTER(ExternalPool)],
    "mla_sequence_create": [c_void_p, POINTER(c_uint64)],
    "mla_sequence_free": [c_void_p, c_uint64],
    "mla_sequence_reserve": [c_void_p, c_uint64, c_int64],
    "mla_sequence_truncate": [c_void_p, c_uint64, c_int64],
    "mla_sequence_length": [c_void_p, c_uint64, _OUT_INT],
    "mla_sequence_pages": [c_void_p, c_uint64, POINTER(c_int32), c_int64, _OUT_INT],
    "mla_cache_get_stats": [c_void_p, c_int64, POINTER(CacheStats)],
    "mla_cache_data": [c_void_p, c_int64, c_int64, _OUT_HANDLE],
    "mla_cache_part_of": [c_void_p, c_int64, c_int64, c_char_p, POINTER(CachePart)],
    "mla_cache_poison": [c_void_p, c_int64],
    "mla_cache_write": [c_void_p, c_int64, c_int64, c_int64, c_int64, c_void_p],
    "mla_cache_read": [c_void_p, c_int64, c_int64, c_int64, c_int64, c_void_p],
    "mla_engine_set_cache_scale": [c_void_p, c_int64, c_int64, c_float],
    "mla_engine_set_cache_scales": [c_void_p, c_int64, c_int64, POINTER(c_float), c_int64],
    "mla_cache_formats": [_OUT_TEXT],
    "mla_cache_layout_offset": [_LAYOUT, c_char_p, c_int64, _OUT_INT],
    "mla_cache_encode": [_LAYOUT, c_void_p, c_int64, _OUT_INT, c_void_p, c_size_t],
    "mla_cache_decode": [_LAYOUT, c_void_p, c_size_t, c_int64, _OUT_INT, c_void_p],
    "mla_engine_poison_workspace": [c_void_p],
    "mla_cache_create": [POINTER(CacheOptions), _OUT_HANDLE],
    "mla_engine_cache": [c_void_p, _OUT_HANDLE],
    "mla_cache_destroy": [c_void_p],
    "mla_cache_new_sequence": [c_void_p, POINTER(c_uint64)],
    "mla_cache_free_sequence": [c_void_p, c_uint64],
    "mla_cache_reserve": [c_void_p, c_uint64, c_int64],
    "mla_cache_truncate": [c_void_p, c_uint64, c_int64],
    "mla_cache_length": [c_void_p, c_uint64, _OUT_INT],
    "mla_cache_sequences": [c_void_p, POINTER(c_uint64), c_int64, _OUT_INT],
    "mla_cache_pages": [c_void_p, c_int64, c_uint64, POINTER(c_int32), c_int64, _OUT_INT],
    "mla_cache_append": [c_void_p, POINTER(CacheAppendBatch), _OUT_INT, c_int64],
    "mla_cache_slots": [c_void_p, c_int64, c_uint64, c_int64, c_int64, _OUT_INT],
    "mla_cache_fork": [c_void_p, c_uint64, c_int64, POINTER(c_uint64)],
    "mla_cache_publish": [
        c_void_p, c_uint64, c_int64, POINTER(c_int32), c_int64, _OUT_INT],
    "mla_cache_match": [c_void_p, c_uint64, POINTER(c_int32), c_int64, _OUT_INT],
    "mla_cache_drop_cached": [c_void_p],
    "mla_cache_take_copies": [c_void_p, POINTER(PageCopy), c_int64, _OUT_INT],
    "mla_cache_compact": [c_void_p, c_int64, c_void_p, _OUT_INT],
    "mla_cache_convert_indices": [
        POINTER(IndexMap), POINTER(c_int32), POINTER(c_int32), c_int64, c_int64,
        POINTER(c_int32)],
    "mla_table_create": [c_void_p, c_void_p, c_int64, c_int64, c_int64, _OUT_HANDLE],
    "mla_table_destroy": [c_void_p],
    "mla_table_view_of": [c_void_p, POINTER(TableView)],
    "mla_table_assign": [c_void_p, c_int64, c_uint64],
    "mla_table_update": [c_void_p, _OUT_INT, c_int64, c_void_p, POINTER(TableChanges)],
    "mla_swap_create": [c_void_p, c_int64, _OUT_HANDLE],
    "mla_swap_destroy": [c_void_p],
    "mla_swap_out": [c_void_p, c_uint64, c_void_p, POINTER(c_uint64)],
    "mla_swap_in": [c_void_p, c_uint64, c_uint64, c_void_p],
    "mla_swap_drop": [c_void_p, c_uint64],
    "mla_swap_length": [c_void_p, c_uint64, _OUT_INT],
    "mla_swap_get_stats": [c_void_p, POINTER(SwapStats)],
    "mla_cache_set_watermark": [c_void_p, c_int64, c_int64],
    "mla_cache_get_counters": [c_void_p, c_int64, POINTER(CacheCounters)],
    "mla_cache_save": [c_void_p, c_char_p],
    "mla_cache_restore": [c_void_p, c_char_p],
    "mla_cache_check": [c_void_p],
    "mla_cache_dump": [c_void_p, _OUT_TEXT],
    "mla_batch_arrange": [
        POINTER(c_int32), c_int64, c_int64, c_uint32, _OUT_INT, POINTER(BatchSplit)],
    "mla_plan_create": [c_void_p, _OUT_HANDLE],
    "mla_plan_destroy": [c_void_p],
    "mla_step_plan": [c_void_p, POINTER(Batch), c_char_p, c_void_p],
    "mla_step_plan_padded": [
        c_void_p, POINTER(Batch), c_char_p, POINTER(StepShape), c_void_p],
    "mla_step_plan_tables": [
        c_void_p, POINTER(TableBatch), c_char_p, POINTER(StepShape), c_void_p],
    "mla_step_plan_device": [c_void_p, POINTER(DeviceBatch), c_char_p, c_void_p],
    "mla_plan_release_captures": [c_void_p],
    "mla_step_dry_run": [c_void_p, c_void_p, c_int64, c_void_p],
    "mla_engine_set_all_reduce": [c_void_p, AllReduce, c_void_p],
    "mla_step_run_bound": [c_void_p, c_int64, POINTER(Binding), c_int64, c_void_p],
    "mla_plan_function": [c_void_p, _OUT_TEXT],
    "mla_plan_dim": [c_void_p, c_char_p, _OUT_INT],
    "mla_plan_metadata": [c_void_p, c_char_p, POINTER(_INT), _OUT_INT, _OUT_HANDLE],
}


def _find():
    """The library: by variable, beside this file, in a checkout's build folder, else
    left to the loader."""
    given = os.environ.get(LIBRARY_VARIABLE)
    if given:
        return given
    here = Path(__file__).resolve()
    for folder in (here.parent, here.parents[2] / "build" / "lib"):
        if (folder / LIBRARY).exists():
            return str(folder / LIBRARY)
    return LIBRARY


def _load():
    path = _find()
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(
            f"cannot load the mlac runtime '{path}': {error}; set {LIBRARY_VARIABLE} "
            f"to the path of {LIBRARY}"
        ) from None
    for name, arguments in _SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes = [argument(kind) for kind in arguments]
        function.restype = _INT
    library.mla_last_error.restype = c_char_p
    library.mla_runtime_version.restype = c_char_p
    library.mla_cache_options_init.argtypes = [POINTER(CacheOptions)]
    library.mla_cache_options_init.restype = None
    library.mla_engine_options_init.argtypes = [POINTER(EngineOptions)]
    library.mla_engine_options_init.restype = None
    library.mla_cache_layout_init.argtypes = [_LAYOUT, c_char_p]
    library.mla_cache_layout_init.restype = None
    library.mla_device_is_cuda.argtypes = [c_void_p]
    library.mla_device_is_cuda.restype = _INT
    return library


library = _load()


def call(name, *arguments):
    """Calls a function of the C API; raises its status's exception on failure."""
    try:
        status = getattr(library, name)(*arguments)
    except ctypes.ArgumentError as error:
        raise reraised(name, error) from None
    if status != 0:
        raise_status(status)


def raise_status(status):
    """Raises the exception of a failed call's status, with its message."""
    message = library.mla_last_error().decode("utf-8", "replace")
    raise BY_STATUS.get(status, Internal)(message)


def call_out(name, out, *arguments):
    """call() with a trailing out parameter of ctypes type `out`; its value."""
    result = out()
    call(name, *arguments, byref(result))
    return result.value
