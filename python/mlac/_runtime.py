# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The objects of the C API as Python classes; each closes itself when collected."""

from __future__ import annotations

import ctypes
import json
import math
import os
from collections.abc import Callable, Mapping
from ctypes import byref, c_char_p, c_int32, c_int64, c_uint64, c_void_p
from typing import Any

from . import _arrays, _pools, _weights
from ._errors import Error, InvalidArgument, WrongState
from ._handle import Handle, Unique, address_of
from ._library import ALLOW_EXTRA_TENSORS, AllReduce, Batch, Binding, CachePart, CacheStats
from ._library import DeviceBatch, EngineOptions, ExternalPool, PoolTable, StepShape, TableBatch
from ._pages import Cache
from ._step_sizes import DIMS
from ._library import call, call_out, library
from ._swap import SwapSpace
from ._table import _Memory
from ._types import Array, Info, Ints, List, Path, Stream
from ._weights import Checkpoint

# MLA_DEVICE_ERROR: what an all-reduce that raises gives the run.
_FAILED_CALLBACK = 7


# How arrays of the types that NumPy lacks are shown (Engine.cache_part).
_TYPESTRS = {"bf16": "<i2", "f16": "<f2", "f32": "<f4", "e4m3": "|u1", "i32": "<i4",
             "i64": "<i8", "u8": "|u1"}


def runtime_version() -> str:
    """Version of the native library, "major.minor.patch"."""
    return library.mla_runtime_version().decode()


def _model_text(info):
    """Model, heads and type of a package, for repr()."""
    model = info["model"]
    return f"{model['model_type']!r}, {model['num_heads']} heads, {model['activation_dtype']}"


def _encode(text):
    return os.fsencode(text) if text is not None else None


class Package(Handle):
    """A verified package, from a path or from bytes.

    Raises NotFound, Corrupt or Unsupported.
    """

    _release = "mla_package_close"

    def __init__(self, source: Path | bytearray):
        if isinstance(source, (bytes, bytearray)):
            data = bytes(source)
            value = call_out("mla_package_open_bytes", c_void_p, data, len(data))
        else:
            value = call_out("mla_package_open", c_void_p, _encode(source))
        super().__init__(value)

    def _describe(self):
        info = self.info
        archs = ", ".join(target["arch"] for target in info["targets"])
        return f"{_model_text(info)}, page size {info['pools'][0]['page_size']}, for {archs}"

    @property
    def info(self) -> Info:
        """What the package holds: model, cache, rope, weights, targets (a dict)."""
        return json.loads(call_out("mla_package_info", c_char_p, self._value))

    @property
    def capabilities(self) -> Info:
        """What an engine asks before it takes the package as a back end, in engines' names.

        name, is_mla, is_sparse, row_widths (elements of each pool's rows), activation_dtypes,
        cache_dtypes (auto, bfloat16, fp8, fp8_ds_mla), page_sizes, architectures,
        accepts_output_buffer, cache_shapes ({pool, dtype, shape: ["num_pages", page_size, width]}).
        """
        return self.info["capabilities"]


class Device(Handle):
    """"cpu", "cuda" or "cuda:N".

    threads: workers of the CPU device; 0 means one per processor.
    """

    _release = "mla_device_close"

    def __init__(self, name: str = "cpu", threads: int = 0):
        super().__init__(
            call_out("mla_device_open", c_void_p, name.encode(), threads))

    def _describe(self):
        info = self.info
        unit = "multiprocessors" if self.is_cuda else "threads"
        return f"{info['name']}, {info['arch']}, {info['num_sms']} {unit}"

    @property
    def info(self) -> Info:
        """kind, name, arch, num_sms, memory_bytes, ... (a dict)."""
        return json.loads(call_out("mla_device_info", c_char_p, self._value))

    @property
    def is_cuda(self) -> bool:
        return library.mla_device_is_cuda(self._value) == 1

    def synchronize(self) -> None:
        """Waits for all work on the device."""
        call("mla_device_synchronize", self._value)


class Engine(Handle):
    """A package on a device, with weights, cache and workspace.

    Options are those of mla_engine_options: max_num_requests, max_num_tokens,
    max_seq_len, num_pages, num_layers, workspace_tokens, num_sms,
    page_padding_tokens, tensor_parallel_rank, external_pools (bind_pool), workspace_cap.
    """

    _release = "mla_engine_destroy"

    def __init__(self, package: Package, device: Device, **options: int):
        native = EngineOptions()
        library.mla_engine_options_init(byref(native))
        known = [name for name, *_ in EngineOptions._fields_[1:]]
        for name, value in options.items():
            if name not in known:
                raise InvalidArgument(
                    f"unknown option '{name}', expected one of {', '.join(known)}")
            setattr(native, name, value)
        super().__init__(call_out("mla_engine_create", c_void_p, package._value,
                                  device._value, byref(native)))
        self.package_info = package.info
        self.is_cuda = device.is_cuda
        self._cache: Cache | None = None
        self._pools: dict[tuple[int, int], Any] = {}  # the caller's, by layer and pool
        self._all_reduce: Any = None  # keeps the callback alive
        self._all_reduce_error: Exception | None = None

    def _describe(self):
        stats = self.cache_stats
        return (f"{_model_text(self.package_info)}, {self.info['options']['num_layers']} layers, "
                f"{stats['num_sequences']} sequences, {stats['free_pages']} of "
                f"{stats['num_pages']} pages free")

    @property
    def info(self) -> Info:
        """target, resolved options and memory sizes (a dict)."""
        return json.loads(call_out("mla_engine_info", c_char_p, self._value))

    @property
    def hidden_size(self) -> int:
        return self.package_info["model"]["hidden_size"]

    @property
    def activation_dtype(self) -> str:
        """"bf16", "f16" or "f32": the dtype of hidden states and outputs."""
        return self.package_info["model"]["activation_dtype"]

    def bind(self, weights: Mapping[str, Array], layer: int = 0) -> None:
        """Copies a mapping of name to host array into one layer's weights; all or nothing.

        Names, shapes and dtypes are those of package.info["weights"]; bf16 and f16
        are widened where the package is f32. uint16 arrays hold bf16 bits. Where
        package.info["weight_scales"] says so, a weight may be e4m3 codes (torch's
        float8_e4m3fn, or uint8 of their bits) with NAME_scale_inv or NAME_scale.
        """
        _weights.bind(self, weights, layer)

    def bind_safetensors(self, path: Path, prefix: str = "", layer: int = 0,
                         allow_extra: bool = False) -> None:
        """Binds every weight of one layer from PREFIX + name; all or nothing."""
        call("mla_engine_bind_safetensors", self._value, layer, _encode(path),
             prefix.encode(), ALLOW_EXTRA_TENSORS if allow_extra else 0)

    def bind_checkpoint(self, checkpoint: Checkpoint | Path, attention: int | None = None,
                        layer: int | None = None, allow_extra: bool = False,
                        progress: bool | Callable[[int, int], Any] | None = None) -> None:
        """Binds layers from a Hugging Face folder, a file, or a Checkpoint, and prepares them.

        Without `layer` all layers of the engine are bound, from `attention` (0) of the
        checkpoint on; with it this one, from `attention` (that of the same number). An
        attention is one module: one a layer in most models, two in LongCat. All or
        nothing: every tensor is checked before any is bound.
        progress: True for a bar on standard error, or a function(done, total).
        """
        _weights.bind_checkpoint(self, checkpoint, attention, layer, allow_extra, progress)

    def prepare(self, layer: int = 0) -> None:
        """Runs the package's weight-only work; needed before a layer's first step."""
        call("mla_engine_prepare", self._value, layer)

    def bind_pool(self, pool: Array | None, layer: int = 0, index: int = 0) -> None:
        """Makes `pool` one of a layer's pools, for runs from now on (bit `index` of
        external_pools); the index is its place in package.info["pools"].

        pool: a writable array [num_pages, page_size, width] on the engine's device, dense
        inside of a page; from page to page it may have any stride. width: elements of a
        row, or bytes (uint8) where elements of a row have several types or eight bits. With
        split_ckv_kpe also a pair of views of one tensor: latents and, behind those of the
        page, rope keys; with kv_nhd keys and values. None: no pool any more.
        Raises InvalidArgument, or Unsupported for rope keys elsewhere.
        """
        if pool is None:
            call("mla_engine_bind_pool", self._value, layer, index, None)
        else:
            given = _pools.describe(self, pool, index)
            call("mla_engine_bind_pool", self._value, layer, index, byref(given))
        self._pools[layer, index] = pool  # runs use it

    def set_cache_scale(self, scale: float, layer: int = 0, pool: int = 0) -> None:
        """The scale of a pool's rows in a layer, for formats with one per layer; 1 before."""
        call("mla_engine_set_cache_scale", self._value, layer, pool, scale)

    def set_all_reduce(self, function: Callable[[int, int, str, int | None], Any] | None) -> None:
        """Calls function(address, elements, dtype, stream) at the end of every run on
        its output, to sum it over the ranks of a tensor-parallel layer, in place; None:
        no more calls. On CUDA it enqueues on `stream` (an address or None) and returns.
        It must not use this engine; what it raises, the run raises."""
        def call_back(_, data, elements, dtype, stream):
            try:
                function(data, elements, _arrays.DTYPES[dtype], stream)
                return 0
            except Exception as error:
                self._all_reduce_error = error
                return _FAILED_CALLBACK
        callback = AllReduce(call_back) if function else AllReduce()
        call("mla_engine_set_all_reduce", self._value, callback, None)
        self._all_reduce = callback

    def dry_run(self, output: Array, stream: Stream = None) -> Array:
        """What a run without a plan gives (memory profiling): zeros in `output`
        [tokens, hidden_size]. Returns it."""
        view = _arrays.view("output", output)
        if not view.is_writable or view.is_cuda != self.is_cuda:
            raise InvalidArgument("output: expected a writable array on the engine's device")
        if view.dtype != self.activation_dtype:
            raise InvalidArgument(f"output: expected dtype {self.activation_dtype}, "
                                  f"got {view.dtype}")
        rows = math.prod(view.shape) // self.hidden_size
        call("mla_step_dry_run", self._value, view.address, rows, address_of(stream))
        return output

    def sequence(self) -> Sequence:
        """A new, empty sequence in the cache."""
        return Sequence(self)

    @property
    def cache(self) -> Cache:
        """The bookkeeping of the engine's pages: prefixes, counters, snapshots."""
        if self._cache is None:
            self._cache = Cache._of_engine(self._value)
        return self._cache

    def swap_space(self, num_pages: int) -> SwapSpace:
        """Room in pinned host memory for sequences: `num_pages` pages of the first pool, and of
        the others as many as the same tokens take, of all layers."""
        return SwapSpace(self, num_pages)

    def plan(self) -> Plan:
        """A plan; made once and filled for every step."""
        return Plan(self)

    @property
    def cache_stats(self) -> Info:
        """num_pages, free_pages, num_sequences, page_size, ... of the first pool (a dict)."""
        return self.pool_stats(0)

    def pool_stats(self, pool: int) -> Info:
        """The same of any pool, by its place in package.info["pools"]."""
        stats = CacheStats()
        call("mla_cache_get_stats", self._value, pool, byref(stats))
        result = {name: getattr(stats, name) for name, *_ in CacheStats._fields_}
        result["dtype"] = _arrays.DTYPES[stats.dtype]
        return result

    def cache_data(self, layer: int = 0, pool: int = 0) -> int:
        """Device address of a layer's pool; page p, offset o is at
        p * page_stride_bytes + o * row_bytes (see cache_stats)."""
        return call_out("mla_cache_data", c_void_p, self._value, layer, pool)

    def cache_part(self, part: str, layer: int = 0, pool: int = 0) -> _Memory:
        """A part of all rows of a layer's pool ("latent", "rope", "key", ...), as a strided
        array [num_pages, page_size, width] that numpy.asarray (CPU) and torch.as_tensor
        (CUDA) take; `.address`, `.shape`, `.strides` (bytes) and `.dtype`. bf16 is shown
        as int16, e4m3 as uint8: torch's .view(dtype) makes it what it is.

        With split_ckv_kpe, latent and rope are FlashInfer's ckv_cache and kpe_cache."""
        view = CachePart()
        call("mla_cache_part_of", self._value, layer, pool, part.encode(), byref(view))
        dtype = _arrays.DTYPES[view.dtype]
        typestr, item = _TYPESTRS[dtype], _arrays.ITEM_BYTES[dtype]
        memory = _Memory(self, self.is_cuda, view.data,
                         (view.num_pages, view.page_size, view.width), typestr,
                         (view.page_stride_bytes, view.row_stride_bytes, item))
        memory.dtype = dtype
        return memory

    def poison_cache(self, layer: int = 0) -> None:
        """Writes NaN wherever the layer's pools hold no token (tests)."""
        call("mla_cache_poison", self._value, layer)

    def poison_workspace(self) -> None:
        """Fills the workspace with NaN (tests)."""
        call("mla_engine_poison_workspace", self._value)

    def read_cache(self, slot: int, count: int, layer: int = 0, pool: int = 0) -> bytes:
        """The bytes of `count` rows from a slot on (tests)."""
        rows = ctypes.create_string_buffer(count * self.pool_stats(pool)["row_bytes"])
        call("mla_cache_read", self._value, layer, pool, slot, count, rows)
        return rows.raw


class Sequence(Unique):
    """One request's tokens in an engine's cache."""

    def __init__(self, engine: Engine, id: int | None = None):
        self._engine = engine
        self._id: Any = None
        self._id = id or call_out("mla_sequence_create", c_uint64, engine._value)

    def _describe(self):
        if not self._id:
            return "freed"
        return f"{self._id:#x}, {len(self)} tokens, pages {self.pages}"

    def __len__(self) -> int:
        """Tokens, counting those of filled plans."""
        return call_out("mla_sequence_length", c_int64, self._engine._value, self._id)

    @property
    def pages(self) -> list[int]:
        """Page indices in logical order (a list)."""
        count = c_int64()
        engine = self._engine._value
        capacity = self._engine.cache_stats["num_pages"]
        pages = (c_int32 * capacity)()
        call("mla_sequence_pages", engine, self._id, pages, capacity, byref(count))
        return pages[: count.value]

    def reserve(self, num_tokens: int) -> None:
        """Takes pages for `num_tokens` in total; OutOfPages changes nothing."""
        call("mla_sequence_reserve", self._engine._value, self._id, num_tokens)

    def truncate(self, num_tokens: int) -> None:
        """Forgets the tokens from `num_tokens` on."""
        call("mla_sequence_truncate", self._engine._value, self._id, num_tokens)

    def fork(self, num_tokens: int | None = None) -> Sequence:
        """A new sequence with the first tokens (default: all), in the same pages; a
        page that both have is copied when one of them writes to it."""
        return Sequence(self._engine, self._engine.cache.fork(self._id, num_tokens))

    def publish(self, tokens: Ints, first: int = 0) -> int:
        """Declares the token ids of the rows from `first` on, so that `match` finds
        them; returns how many tokens are published now, the next call's `first`."""
        return self._engine.cache.publish(self._id, tokens, first)

    def match(self, tokens: Ints) -> int:
        """Gives this empty sequence the longest published prefix of `tokens` and
        returns its length; at least one token is left to compute."""
        return self._engine.cache.match(self._id, tokens)

    def free(self) -> None:
        """Gives the pages back; the sequence is unusable afterwards."""
        value, self._id = self._id, 0
        call("mla_sequence_free", self._engine._value, value)

    def __del__(self):
        if self._id and self._engine._value is not None:
            try:
                self.free()
            except Exception:  # the engine may be gone
                pass


class Plan(Handle):
    """One step of a batch: fill, then run for every layer."""

    _release = "mla_plan_destroy"

    def __init__(self, engine: Engine):
        super().__init__(call_out("mla_plan_create", c_void_p, engine._value))
        self._engine = engine

    def _describe(self):
        try:
            function = self.function
        except WrongState:
            return "not filled"
        return (f"{function}, {self.dim('num_requests')} requests, "
                f"{self.dim('num_tokens')} tokens")

    def fill(self, sequences: List[Sequence], query_lens: Ints, function: str | None = None,
             stream: Stream = None, shape: Mapping[str, int] | None = None,
             common_prefix_len: int = 0) -> None:
        """Plans a step and advances the sequences by their query lengths.

        function: a name, or None for the one that fits the lengths best.
        shape: the fields of mla_step_shape (a dict) that the step is padded to; then
        launches depend on the shape alone, and a graph captured from one run may be
        replayed after every further fill with this shape. hidden and output have
        shape["num_tokens"] rows: decodes first, prefills from row num_decode_tokens on.
        Raises OutOfPages, InvalidArgument or Unsupported (cascade attention:
        common_prefix_len > 0); then nothing has changed.
        """
        if len(sequences) != len(query_lens):
            raise InvalidArgument(f"query_lens: expected {len(sequences)} lengths, "
                                  f"got {len(query_lens)}")
        count = len(sequences)
        ids = (c_uint64 * count)(*[sequence._id for sequence in sequences])
        lens = (c_int32 * count)(*query_lens)
        batch = Batch(ctypes.sizeof(Batch), count, ids, lens, common_prefix_len)
        name = function.encode() if function is not None else None
        if shape is None:
            call("mla_step_plan", self._value, byref(batch), name, address_of(stream))
        else:
            sizes = StepShape(ctypes.sizeof(StepShape), **shape)
            call("mla_step_plan_padded", self._value, byref(batch), name, byref(sizes),
                 address_of(stream))
        self._sequences = tuple(sequences)  # freed where nothing else holds them: runs use them

    def fill_tables(self, query_lens: Ints, seq_lens: Ints, block_table: Array,
                    slot_mapping: Array, function: str | None = None, stream: Stream = None,
                    shape: Mapping[str, int] | None = None,
                    pools: List[tuple[Array, Array]] = ()) -> None:
        """Plans a step whose pages are the caller's to manage, as `fill` does for sequences.

        query_lens, seq_lens: lists; new tokens, and keys after the step. block_table i32
        [B, columns], of which columns beyond a request's keys are not read; slot_mapping i64
        [T]: page * page_size + offset of each new token, negative: not written. Arrays in
        host memory, read during the call only. `pools`: (block_table, slot_mapping) of each
        of the package's pools behind the first. Raises InvalidArgument naming the request
        and the limit; then nothing has changed.
        """
        count = len(query_lens)
        if len(seq_lens) != count:
            raise InvalidArgument(f"seq_lens: expected {count} lengths, got {len(seq_lens)}")
        table, slots = self._check_tables(block_table, slot_mapping, count, sum(query_lens), False)
        others = self._pool_tables(pools, count, sum(query_lens), False)
        batch = TableBatch(ctypes.sizeof(TableBatch), count, (c_int32 * count)(*query_lens),
                           (c_int32 * count)(*seq_lens), table.address, table.shape[1],
                           slots.address, others, len(pools))
        sizes = StepShape(ctypes.sizeof(StepShape), **shape) if shape is not None else None
        name = function.encode() if function is not None else None
        call("mla_step_plan_tables", self._value, byref(batch), name, sizes and byref(sizes),
             address_of(stream))
        self._sequences = ()

    def fill_device(self, query_lens: Ints, seq_len_bounds: Ints, *, seq_lens: Array,
                    block_table: Array, slot_mapping: Array, positions: Array,
                    function: str | None = None, stream: Stream = None,
                    pools: List[tuple[Array, Array]] = ()) -> None:
        """Plans a step of decodes whose lengths, block table and slots are on the device.

        query_lens, seq_len_bounds: lists; the most keys that each request may have.
        seq_lens i32 [B], block_table i32 [B, columns], slot_mapping and positions i64 [T]:
        arrays on the engine's device, read by every run and replay, never by the host. A
        negative slot is not written, a length of 0 is no request. `pools`: as of
        `fill_tables`, arrays on the device. Raises InvalidArgument or Unsupported (functions that need lengths on the host); then nothing has changed.
        """
        count, tokens = len(query_lens), sum(query_lens)
        if len(seq_len_bounds) != count:
            raise InvalidArgument(f"seq_len_bounds: expected {count} lengths, "
                                  f"got {len(seq_len_bounds)}")
        table, slots = self._check_tables(block_table, slot_mapping, count, tokens)
        others = self._pool_tables(pools, count, tokens)
        views = {
            "seq_lens": self._check("seq_lens", seq_lens, (count,), dtype="i32"),
            "positions": self._check("positions", positions, (tokens,), dtype="i64")}
        batch = DeviceBatch(
            ctypes.sizeof(DeviceBatch), count, (c_int32 * count)(*query_lens),
            (c_int32 * count)(*seq_len_bounds), views["seq_lens"].address,
            table.address, table.shape[1], slots.address, views["positions"].address, others,
            len(pools))
        # Runs read them.
        self._device_arrays = (seq_lens, block_table, slot_mapping, positions, pools)
        name = function.encode() if function is not None else None
        call("mla_step_plan_device", self._value, byref(batch), name, address_of(stream))
        self._sequences = ()

    def _check_tables(self, block_table, slot_mapping, count, tokens, is_cuda=None, pool=""):
        """Views of a pool's block table [count, columns] and slot mapping [tokens]."""
        table = _arrays.view(pool + "block_table", block_table)
        if len(table.shape) != 2:
            raise InvalidArgument(f"{pool}block_table: expected shape [{count}, columns], "
                                  f"got {list(table.shape)}")
        where = {} if is_cuda is None else {"is_cuda": is_cuda}
        return (self._check(pool + "block_table", block_table, (count, table.shape[1]),
                            dtype="i32", **where),
                self._check(pool + "slot_mapping", slot_mapping, (tokens,), dtype="i64", **where))

    def _pool_tables(self, pools, count, tokens, is_cuda=None):
        """The mla_pool_table of each pool behind the first."""
        natives = (PoolTable * len(pools))()
        for index, (block_table, slot_mapping) in enumerate(pools):
            table, slots = self._check_tables(block_table, slot_mapping, count, tokens, is_cuda,
                                              f"pools[{index}]: ")
            natives[index] = PoolTable(table.address, table.shape[1], slots.address)
        return natives

    def release_captures(self) -> None:
        """Says that the graphs captured from this plan are gone: any step may follow."""
        call("mla_plan_release_captures", self._value)

    def run(self, hidden: Array, output: Array | None = None, layer: int = 0,
            stream: Stream = None, **outputs: Array) -> Array:
        """Runs the filled plan for one layer and returns `output`.

        hidden, output: [num_tokens, hidden_size] in the package's activation dtype,
        on the engine's device; output is made if not given (NumPy, torch). Other
        outputs of the function ("lse") are passed by name. On CUDA the work is
        asynchronous on `stream`.
        """
        shape = (self.dim("num_tokens"), self._engine.hidden_size)
        if output is None:
            output = _arrays.empty_like(hidden, shape)
        views = {"hidden": self._check("hidden", hidden, shape),
                 "output": self._check("output", output, shape, is_written=True)}
        for name, array in outputs.items():
            views[name] = self._check(name, array, None, is_written=True)
        self._run_views(views, layer, stream)
        return output

    def run_bound(self, layer: int = 0, stream: Stream = None, **buffers: Array) -> None:
        """Runs the filled plan for one layer on named buffers: every input and output
        of its function (package.info lists them), on the engine's device.

        On CUDA the work is asynchronous on `stream` and may be captured in a graph:
        the graph then repeats this step on these buffers.
        """
        self._run_views({name: self._check(name, array, None)
                         for name, array in buffers.items()}, layer, stream)

    def _run_views(self, views, layer, stream):
        bindings = (Binding * len(views))(*[
            Binding(name.encode(), view.address, view.nbytes)
            for name, view in views.items()])
        try:
            call("mla_step_run_bound", self._value, layer, bindings, len(bindings),
                 address_of(stream))
        except Error:
            error, self._engine._all_reduce_error = self._engine._all_reduce_error, None
            if error is not None:
                raise error
            raise

    def _check(self, name, array, shape, is_written=False, dtype=None, is_cuda=None):
        is_cuda = self._engine.is_cuda if is_cuda is None else is_cuda
        view = _arrays.view(name, array)
        if shape is not None:
            dtype = dtype or self._engine.activation_dtype
            # Flat buffers (array.array) cannot say their shape.
            is_flat = view.shape == (math.prod(shape),)
            if view.shape != shape and not is_flat:
                raise InvalidArgument(
                    f"{name}: expected shape {list(shape)}, got {list(view.shape)}")
            if view.dtype != dtype:
                raise InvalidArgument(
                    f"{name}: expected dtype {dtype}, got {view.dtype}")
        if view.is_cuda != is_cuda:
            places = ("host", "CUDA")
            raise InvalidArgument(
                f"{name}: expected {places[is_cuda]} memory, got {places[view.is_cuda]}")
        if is_written and not view.is_writable:
            raise InvalidArgument(f"{name}: expected a writable array, got a read-only one")
        return view

    @property
    def function(self) -> str:
        """Name of the function that the filled plan runs."""
        return call_out("mla_plan_function", c_char_p, self._value).decode()

    def dim(self, name: str) -> int:
        """A named size of the filled plan; see _step_sizes.DIMS."""
        return call_out("mla_plan_dim", c_int64, self._value, name.encode())

    @property
    def dims(self) -> dict[str, int]:
        """All named sizes of the filled plan (a dict)."""
        return {name: self.dim(name) for name in DIMS}

    def metadata(self, name: str) -> list[int]:
        """A metadata array of the filled plan as a flat list; see
        _step_sizes.METADATA."""
        return list(self.metadata_view(name))

    def metadata_view(self, name: str) -> ctypes.Array[Any]:
        """The same without a copy: a ctypes array, valid until the plan is filled
        again."""
        dtype, elements, data = ctypes.c_int(), c_int64(), c_void_p()
        call("mla_plan_metadata", self._value, name.encode(), byref(dtype),
             byref(elements), byref(data))
        is_wide = _arrays.DTYPES[dtype.value] == "i64"
        kind = (c_int64 if is_wide else c_int32) * elements.value
        return kind.from_address(data.value) if data.value else kind()
