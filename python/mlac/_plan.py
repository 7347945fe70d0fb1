# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of a batch (mla_plan of the C API)."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from ctypes import byref, c_char_p, c_int32, c_int64, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any

from . import _arrays
from ._bindings import Bindings
from ._checked import integers, length_of, text, total
from ._errors import Error, InvalidArgument, WrongState
from ._handle import Handle, address_of, require
from ._library import (
    TABLES_ON_DEVICE,
    Batch,
    Binding,
    DeviceBatch,
    PoolTable,
    StepShape,
    TableBatch,
    call,
    call_out,
)
from ._step_sizes import DIMS
from ._types import Array, Ints, List, Stream

if TYPE_CHECKING:
    from ._runtime import Engine, Sequence


def _step_shape(fields):
    """Of a dict; ctypes takes names that no field has."""
    known = [name for name, _ in StepShape._fields_[1:]]
    if not isinstance(fields, Mapping):
        raise InvalidArgument(f"shape: expected a dict with some of {', '.join(known)}, got "
                              f"{fields!r}")
    for name in fields:
        if name not in known:
            raise InvalidArgument(f"shape: unknown field '{name}', expected some of "
                                  f"{', '.join(known)}")
    return StepShape(ctypes.sizeof(StepShape), **fields)


def _ids_of(sequences):
    try:
        return (c_uint64 * len(sequences))(*[sequence._id for sequence in sequences])
    except (AttributeError, TypeError):
        pass  # said here, with what it is
    if not isinstance(sequences, (list, tuple)):
        raise InvalidArgument(f"sequences: expected a list of mlac.Sequence, got {sequences!r}")
    place = next(i for i, one in enumerate(sequences) if not hasattr(one, "_id"))
    raise InvalidArgument(f"sequences[{place}]: expected a mlac.Sequence, got "
                          f"{type(sequences[place]).__name__}")


def _tokens_of(query_lens):
    """Requests and new tokens of a step, which its arrays are compared with."""
    count, tokens = length_of("query_lens", query_lens), total("query_lens", query_lens)
    if count and min(query_lens) < 0:
        place = next(i for i, length in enumerate(query_lens) if length < 0)
        raise InvalidArgument(f"query_lens[{place}]: expected at least 0, got {query_lens[place]}")
    return count, tokens


class Plan(Handle):
    """One step of a batch: fill, then run for every layer."""

    _release = "mla_plan_destroy"

    def __init__(self, engine: Engine):
        from ._runtime import Engine as engine_class  # which imports this module

        require("engine", engine, engine_class)
        super().__init__(call_out("mla_plan_create", c_void_p, engine._value))
        self._engine = engine
        self._device_arrays: tuple[Any, ...] = ()  # that the filled plan's runs read
        self._bound: dict[Any, Bindings] = {}  # of run_bound, by names

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
        ids = _ids_of(sequences)
        count = len(ids)
        if count != length_of("query_lens", query_lens):
            raise InvalidArgument(f"query_lens: expected {count} lengths, got {len(query_lens)}")
        lens = integers("query_lens", c_int32, query_lens)
        batch = Batch(ctypes.sizeof(Batch), count, ids, lens, common_prefix_len)
        name = text("function", function) if function is not None else None
        if shape is None:
            call("mla_step_plan", self._value, byref(batch), name, address_of(stream))
        else:
            sizes = _step_shape(shape)
            call("mla_step_plan_padded", self._value, byref(batch), name, byref(sizes),
                 address_of(stream))
        self._sequences = tuple(sequences)  # freed where nothing else holds them: runs use them

    def fill_tables(self, query_lens: Ints, seq_lens: Ints, block_table: Array,
                    slot_mapping: Array, function: str | None = None, stream: Stream = None,
                    shape: Mapping[str, int] | None = None,
                    pools: List[tuple[Array, Array]] = (), on_device: bool = False) -> None:
        """Plans a step whose pages are the caller's to manage, as `fill` does for sequences.

        query_lens, seq_lens: lists; new tokens, and keys after the step. block_table i32
        [B, columns], of which columns beyond a request's keys are not read; slot_mapping i64
        [T]: page * page_size + offset of each new token, negative: not written. Arrays in
        host memory, read during the call only. `pools`: (block_table, slot_mapping) of each
        of the package's pools behind the first. Raises InvalidArgument naming the request
        and the limit; then nothing has changed.

        on_device: the tables and slots are arrays on the engine's device, read by every run and
        never by the host, so that pages and slots are not checked. No shape then.
        """
        count, tokens = _tokens_of(query_lens)
        if length_of("seq_lens", seq_lens) != count:
            raise InvalidArgument(f"seq_lens: expected {count} lengths, got {len(seq_lens)}")
        where = None if on_device else False
        table, slots = self._check_tables(block_table, slot_mapping, count, tokens, where)
        others = self._pool_tables(pools, count, tokens, where)
        batch = TableBatch(ctypes.sizeof(TableBatch), count,
                           integers("query_lens", c_int32, query_lens),
                           integers("seq_lens", c_int32, seq_lens), table.address, table.shape[1],
                           slots.address, others, len(pools),
                           TABLES_ON_DEVICE if on_device else 0)
        sizes = _step_shape(shape) if shape is not None else None
        name = text("function", function) if function is not None else None
        call("mla_step_plan_tables", self._value, byref(batch), name, sizes and byref(sizes),
             address_of(stream))
        self._sequences = ()
        if on_device:
            self._device_arrays = (block_table, slot_mapping, pools)

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
        count, tokens = _tokens_of(query_lens)
        if length_of("seq_len_bounds", seq_len_bounds) != count:
            raise InvalidArgument(f"seq_len_bounds: expected {count} lengths, "
                                  f"got {len(seq_len_bounds)}")
        table, slots = self._check_tables(block_table, slot_mapping, count, tokens)
        others = self._pool_tables(pools, count, tokens)
        views = {
            "seq_lens": self._check("seq_lens", seq_lens, (count,), dtype="i32"),
            "positions": self._check("positions", positions, (tokens,), dtype="i64")}
        batch = DeviceBatch(
            ctypes.sizeof(DeviceBatch), count, integers("query_lens", c_int32, query_lens),
            integers("seq_len_bounds", c_int32, seq_len_bounds), views["seq_lens"].address,
            table.address, table.shape[1], slots.address, views["positions"].address, others,
            len(pools))
        name = text("function", function) if function is not None else None
        call("mla_step_plan_device", self._value, byref(batch), name, address_of(stream))
        self._sequences = ()
        # Those of the step before are read until here: a refused call has changed nothing.
        self._device_arrays = (seq_lens, block_table, slot_mapping, positions, pools)

    def _check_tables(self, block_table, slot_mapping, count, tokens, is_cuda=None, pool=""):
        """Views of a pool's block table [count, columns] and slot mapping [tokens]."""
        table = _arrays.view(pool + "block_table", block_table)
        if len(table.shape) != 2:
            raise InvalidArgument(f"{pool}block_table: expected shape [{count}, columns], "
                                  f"got {list(table.shape)}")
        if count and not table.address:  # of tensors without elements
            raise InvalidArgument(f"{pool}block_table: expected at least 1 column, got shape "
                                  f"{list(table.shape)}")
        where = {} if is_cuda is None else {"is_cuda": is_cuda}
        return (self._check(pool + "block_table", block_table, (count, table.shape[1]),
                            dtype="i32", **where),
                self._check(pool + "slot_mapping", slot_mapping, (tokens,), dtype="i64", **where))

    def _pool_tables(self, pools, count, tokens, is_cuda=None):
        """The mla_pool_table of each pool behind the first."""
        natives = (PoolTable * length_of("pools", pools, "(block_table, slot_mapping)"))()
        for index, pair in enumerate(pools):
            if length_of(f"pools[{index}]", pair, "block_table and slot_mapping") != 2:
                raise InvalidArgument(f"pools[{index}]: expected (block_table, slot_mapping), got "
                                      f"{pair!r}")
            block_table, slot_mapping = pair
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
        given = self._check("hidden", hidden, shape)
        if output is None:
            output = _arrays.empty_like(hidden, shape)
        views = {"hidden": given,
                 "output": self._check("output", output, shape, is_written=True)}
        for name, array in outputs.items():
            views[name] = self._check_buffer(name, array)
        self._run_views(views, layer, stream)
        return output

    def run_bound(self, layer: int = 0, stream: Stream = None, **buffers: Array) -> None:
        """Runs the filled plan for one layer on named buffers: every input and output
        of its function, on the engine's device (package.info lists them with their types).

        On CUDA the work is asynchronous on `stream` and may be captured in a graph:
        the graph then repeats this step on these buffers.
        """
        engine, names = self._engine, tuple(buffers)
        # What names that several functions have mean is the filled one's to say.
        key = (self.function, names) if engine._has_ambiguous(names) else names
        # Away from other threads' runs and from those of callbacks.
        bound = self._bound.pop(key, None) or Bindings(names, engine.output_types,
                                                       engine.layer_widths)
        views = bound.take(buffers.values(), engine.is_cuda, self._check_buffer)
        self._run_bindings(bound.array, layer, stream)
        del views
        self._bound[key] = bound

    def _run_views(self, views, layer, stream):
        self._run_bindings((Binding * len(views))(*[
            Binding(name.encode(), view.address, view.nbytes)
            for name, view in views.items()]), layer, stream)

    def _run_bindings(self, bindings, layer, stream):
        try:
            call("mla_step_run_bound", self._value, layer, bindings, len(bindings),
                 None if stream is None else address_of(stream))
        except Error:
            error, self._engine._all_reduce_error = self._engine._all_reduce_error, None
            if error is not None:
                raise error
            raise

    def _type_of(self, name):
        """None: the library refuses the name, or the plan."""
        engine = self._engine
        if name in engine._ambiguous:
            return engine._types_by_function.get(self.function, {}).get(name)
        return engine.buffer_types.get(name)

    def _check_buffer(self, name, array):
        """The view of a function's input or output, of the type that the package says: the library
        knows its bytes alone. Bytes stand for the bits of any type that has eight."""
        expected = self._type_of(name)
        view = self._check(name, array, None, is_written=name in self._engine.output_types,
                           bits_of="f16" if expected == "f16" else "bf16")
        is_bits = view.dtype == "u8" and _arrays.ITEM_BYTES.get(expected) == 1
        if expected is not None and view.dtype != expected and not is_bits:
            raise InvalidArgument(f"{name}: expected dtype {expected}, got {view.dtype}")
        # Wider rows would be read as more of them, at wrong places.
        width = self._engine.layer_widths.get(name, 0)
        if width and len(view.shape) > 1 and math.prod(view.shape[1:]) != width:
            raise InvalidArgument(f"{name}: expected rows of {width} columns, got shape "
                                  f"{list(view.shape)}")
        return view

    def _check(self, name, array, shape, is_written=False, dtype=None, is_cuda=None,
               bits_of="bf16"):
        is_cuda = self._engine.is_cuda if is_cuda is None else is_cuda
        view = _arrays.view(name, array, bits_of)
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
        return call_out("mla_plan_dim", c_int64, self._value, text("name", name))

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
        call("mla_plan_metadata", self._value, text("name", name), byref(dtype),
             byref(elements), byref(data))
        is_wide = _arrays.DTYPES[dtype.value] == "i64"
        kind = (c_int64 if is_wide else c_int32) * elements.value
        return kind.from_address(data.value) if data.value else kind()
