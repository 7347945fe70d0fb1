# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The objects of the C API as Python classes; each closes itself when collected."""

from __future__ import annotations

import ctypes
import functools
import json
import math
from collections.abc import Callable, Iterable, Mapping
from ctypes import byref, c_char_p, c_float, c_int32, c_int64, c_uint64, c_void_p
from typing import Any

from . import _arrays, _pools, _weights
from ._checked import integer, path as path_of, real, text
from ._errors import InvalidArgument
from ._handle import Handle, Unique, address_of, require
from ._library import ALLOW_EXTRA_TENSORS, AllReduce, CachePart, CacheStats, EngineOptions
from ._library import call, call_out, library
from ._pages import Cache
from ._plan import Plan
from ._swap import SwapSpace
from ._table import _Memory
from ._types import Array, Info, Ints, Path, Stream
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


class Package(Handle):
    """A verified package, from a path or from bytes.

    Raises NotFound, Corrupt or Unsupported. The layers of a model may be of several `kinds`, each
    of which is a package: Engine takes one of them, Layers all.
    """

    _release = "mla_package_close"

    def __init__(self, source: Path | bytearray):
        if isinstance(source, (bytes, bytearray)):
            data = bytes(source)
            value = call_out("mla_package_open_bytes", c_void_p, data, len(data))
        else:
            value = call_out("mla_package_open", c_void_p, path_of("source", source))
        super().__init__(value)

    def _describe(self):
        info = self.info
        if info["kinds"]:
            return "kinds of layers: " + ", ".join(kind["name"] for kind in info["kinds"])
        archs = ", ".join(target["arch"] for target in info["targets"])
        return f"{_model_text(info)}, page size {info['pools'][0]['page_size']}, for {archs}"

    @property
    def info(self) -> Info:
        """What the package holds: model, cache, rope, weights, targets (a dict)."""
        return json.loads(call_out("mla_package_info", c_char_p, self._value))

    @property
    def kinds(self) -> list[Package]:
        """A package for each kind of the model's layers; none where they are alike."""
        found = []
        for index in range(len(self.info["kinds"])):
            kind = Package.__new__(Package)
            Handle.__init__(kind, call_out("mla_package_kind", c_void_p, self._value, index))
            found.append(kind)
        return found

    @property
    def layers(self) -> list[int]:
        """Of a kind: the numbers of its layers in the model; else none."""
        return self.info["layers"]

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
            call_out("mla_device_open", c_void_p, text("name", name), threads))

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
        for name, given, kind in (("package", package, Package), ("device", device, Device)):
            if not isinstance(given, kind):
                raise InvalidArgument(f"{name}: expected a mlac.{kind.__name__}, got "
                                      f"{type(given).__name__}")
        kinds = [kind["name"] for kind in package.info["kinds"]]
        if kinds:
            raise InvalidArgument(
                f"the package's layers are of {len(kinds)} kinds ({', '.join(kinds)}): mlac.Layers "
                "takes all of them, and mlac.Engine one of package.kinds")
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
        self._all_reduce_error: BaseException | None = None

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

    @functools.cached_property
    def buffer_types(self) -> dict[str, str]:
        """The dtype of every input and output of the package's functions on this engine's device,
        by name."""
        return self._types_of("Input", "Output")

    @functools.cached_property
    def output_types(self) -> dict[str, str]:
        """Those of outputs alone."""
        return self._types_of("Output")

    @functools.cached_property
    def _types_by_function(self) -> dict[str, dict[str, str]]:
        return {function["name"]: {buffer["name"]: buffer["dtype"] for buffer in function["buffers"]}
                for target in self.package_info["targets"]
                if (target["kind"] != "cpu") == self.is_cuda for function in target["functions"]}

    @functools.cached_property
    def _ambiguous(self) -> frozenset[str]:
        """Names whose type depends on the function."""
        return frozenset(name for types in self._types_by_function.values()
                         for name, dtype in types.items()
                         if self.buffer_types.get(name, dtype) != dtype)

    def _has_ambiguous(self, names) -> bool:
        return bool(self._ambiguous) and not self._ambiguous.isdisjoint(names)

    @functools.cached_property
    def layer_widths(self) -> dict[str, int]:
        """Columns of inputs and outputs of a configuration's layers, by name; others, and a module's
        own, may have any width."""
        model = self.package_info["model"]
        if not model.get("config"):
            return {}
        widths = {"hidden": model["hidden_size"], "output": model["hidden_size"],
                  "q_latent": model["q_lora_rank"], "latent": model["kv_lora_rank"],
                  "k_pe": model["qk_rope_head_dim"],
                  "selected": json.loads(model["config"]).get("index_topk")}
        return {name: width for name, width in widths.items() if width}

    def _types_of(self, *kinds: str) -> dict[str, str]:
        return {buffer["name"]: buffer["dtype"]
                for target in self.package_info["targets"]
                if (target["kind"] != "cpu") == self.is_cuda
                for function in target["functions"] for buffer in function["buffers"]
                if buffer["kind"] in kinds}

    def bind(self, weights: Mapping[str, Array], layer: int = 0) -> None:
        """Copies a mapping of name to host array into one layer's weights; all or nothing.

        Names, shapes and dtypes are those of package.info["weights"]; bf16 and f16
        are widened where the package is f32. uint16 arrays hold bf16 bits. Where
        package.info["weight_scales"] says so, a weight may be e4m3 codes (torch's
        float8_e4m3fn, or uint8 of their bits) with NAME_scale_inv or NAME_scale, or
        (NVFP4) uint8 of two numbers each with NAME_scale (e4m3) and NAME_scale_2.
        With several ranks none has o_proj.bias, which is refused: add it once, to the sum of
        their outputs.
        """
        _weights.bind(self, weights, layer)

    def bind_safetensors(self, path: Path, prefix: str = "", layer: int = 0,
                         allow_extra: bool = False) -> None:
        """Binds every weight of one layer from PREFIX + name; all or nothing."""
        call("mla_engine_bind_safetensors", self._value, layer, path_of("path", path),
             text("prefix", prefix), ALLOW_EXTRA_TENSORS if allow_extra else 0)

    def bind_checkpoint(self, checkpoint: Checkpoint | Path, attention: int | None = None,
                        layer: int | None = None, allow_extra: bool = False,
                        progress: bool | Callable[[int, int], Any] | None = None) -> None:
        """Binds layers from a Hugging Face folder, a file, or a Checkpoint, and prepares them.

        Without `layer` all layers of the engine are bound, from `attention` (0) of the
        checkpoint on; with it this one, from `attention` (that of the same number). An
        attention is one module: one a layer in most models, two in LongCat. All or
        nothing: every tensor is checked before any is bound. With several ranks
        o_proj.bias is left out (see bind).
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

    def set_cache_scale(self, scale: float | Iterable[float], layer: int = 0,
                        pool: int = 0) -> None:
        """The scale of a pool's rows in a layer, for formats with one per layer; 1 before. Of
        formats with one for each field (kv_nhd_fp8: keys, values) one for all, or one of each."""
        if isinstance(scale, Iterable):
            scales = [real(f"scale[{place}]", one) for place, one in enumerate(scale)]
            call("mla_engine_set_cache_scales", self._value, layer, pool,
                 (c_float * len(scales))(*scales), len(scales))
        else:
            call("mla_engine_set_cache_scale", self._value, layer, pool, real("scale", scale))

    def set_all_reduce(self, function: Callable[[int, int, str, int | None], Any] | None) -> None:
        """Calls function(address, elements, dtype, stream) at the end of every run on
        its output, to sum it over the ranks of a tensor-parallel layer, in place; None:
        no more calls. On CUDA it enqueues on `stream` (an address or None) and returns.
        A model's o_proj.bias is to be added once, behind it.
        It must not use this engine; what it raises, the run raises."""
        if function is not None and not callable(function):
            raise TypeError(f"function: expected one to call, got {function!r}")

        def call_back(_, data, elements, dtype, stream):
            try:
                function(data, elements, _arrays.DTYPES[dtype], stream)
                return 0
            except BaseException as error:  # ctypes would make success of an interrupt
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
        is_flat = len(view.shape) == 1
        if view.shape[-1:] != (self.hidden_size,) and \
                not (is_flat and view.shape[0] % self.hidden_size == 0):
            raise InvalidArgument(f"output: expected shape [tokens, {self.hidden_size}], got "
                                  f"{list(view.shape)}")
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
        call("mla_cache_part_of", self._value, layer, pool, text("part", part), byref(view))
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
        stats = self.pool_stats(pool)
        most = stats["num_pages"] * stats["page_size"]
        if not 0 <= integer("count", count) <= most:  # before there is memory for them
            raise InvalidArgument(f"count: expected 0 to {most}, the pool's rows, got {count}")
        rows = ctypes.create_string_buffer(count * stats["row_bytes"])
        call("mla_cache_read", self._value, layer, pool, slot, count, rows)
        return rows.raw


class Sequence(Unique):
    """One request's tokens in an engine's cache."""

    def __init__(self, engine: Engine, id: int | None = None):
        self._number: int = 0  # in the library; 0 once it is freed
        require("engine", engine, Engine)
        self._engine = engine
        self._number = id or call_out("mla_sequence_create", c_uint64, engine._value)

    @property
    def _id(self) -> int:
        """Its number, for calls of the library."""
        if not self._number:
            raise InvalidArgument("the mlac.Sequence was freed")
        return self._number

    def _describe(self):
        if not self._number:
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
        value, self._number = self._id, 0
        call("mla_sequence_free", self._engine._value, value)

    def __del__(self):
        if self._number and not self._engine.is_closed:
            try:
                self.free()
            except Exception:  # the engine may be gone
                pass
