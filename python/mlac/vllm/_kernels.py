# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mlac's engine over the cache of one vLLM worker, and its plans."""

from __future__ import annotations

import functools
import itertools
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import torch

from .._errors import InvalidArgument
from .._plan import Plan
from .._runtime import Device, Engine, Package
from ._module import DECODE, DECODE_OF_HEADS, UP_WEIGHT, Shape, package_for

# A package compiled ahead of time, for machines without mla-compile.
PACKAGE_VARIABLE = "MLAC_VLLM_PACKAGE"

# Tokens by which each request may grow until a plan is made anew: a quarter of the 64 keys that
# attention takes at once, so that few pieces of work are made in vain.
SLACK = 15

_ALIGNMENT = 16  # of arrays that kernels read, in bytes


@functools.lru_cache(maxsize=4)
def _compile(shape: Shape, target: str) -> Package:
    """vLLM makes its back ends twice where it measures the memory of CUDA graphs first."""
    logging.getLogger("mlac").info("compiling %s for %s", shape, target)
    return package_for(shape, target)


def _load(shape: Shape, target: str) -> Package:
    path = os.environ.get(PACKAGE_VARIABLE)
    if path is None:
        return _compile(shape, target)
    package = Package(path)
    differences = shape.differences(package)
    if differences:
        raise InvalidArgument(f"{PACKAGE_VARIABLE}={path} is of another model: "
                              + "; ".join(differences))
    return package


def target_of(device: torch.device) -> str:
    """What packages for a device are compiled for."""
    return "sm_90a" if device.type == "cuda" else "cpu"


def _device_of(device: torch.device) -> Device:
    return Device(f"cuda:{device.index or 0}" if device.type == "cuda" else "cpu")


def _fill_padding(query_lens: list[int]) -> list[int]:
    """Requests without queries behind the others pad a batch to the size of a graph, which was
    captured with as many queries for each. They have no keys, so nothing is computed for them."""
    most = max(query_lens, default=0)
    count = len(query_lens)
    while count and query_lens[count - 1] == 0:
        count -= 1
    return query_lens[:count] + [most] * (len(query_lens) - count)


def _dense(array: torch.Tensor) -> torch.Tensor:
    """The array, or a copy where it does not lie as kernels need it: rows of vLLM's tables begin
    anywhere. Nobody waits for a copy."""
    if array.is_contiguous() and array.data_ptr() % _ALIGNMENT == 0:
        return array
    return array.clone(memory_format=torch.contiguous_format)


def rows_that_end_in(part: torch.Tensor, width: int) -> torch.Tensor:
    """Of the last columns of rows [tokens, heads, width], these rows; where they are columns of
    anything else, rows whose other columns hold nothing."""
    tokens, heads, columns = part.shape
    before, strides = width - columns, (heads * width, width, 1)
    first = part.storage_offset() - before
    if (part.stride() == strides and first >= 0
            and (part.data_ptr() - before * part.element_size()) % _ALIGNMENT == 0):
        return part.as_strided((tokens, heads, width), strides, first)
    rows = part.new_empty(tokens, heads, width)
    rows[..., before:] = part
    return rows


def find_layout(query: torch.Tensor) -> str | None:
    """The function of decodes that reads latent queries [tokens, heads, rank] as they lie; None:
    neither does."""
    if query.is_contiguous():
        return DECODE
    return DECODE_OF_HEADS if query.transpose(0, 1).is_contiguous() else None


class Planned:
    """A plan of decodes, and what it was made for. Lengths and tables are read on the device, so it
    serves every step that reads the same arrays, as long as no request is longer than planned. The
    steps of a batch are mostly such: planning costs the host as much as vLLM's own part of a step.
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        self.forget()

    def forget(self) -> None:
        self._key: tuple[Any, ...] = ()
        self._most = numpy.zeros(0, dtype=numpy.int64)

    def keep(self, key: tuple[Any, ...], most: numpy.ndarray[Any, Any]) -> None:
        self._key, self._most = key, most

    def serves(self, key: tuple[Any, ...], bounds: numpy.ndarray[Any, Any]) -> bool:
        """Bounds far below what was planned would run, too, but not divide the work evenly."""
        if key != self._key:
            return False
        spare = self._most - bounds
        return bool(((spare >= 0) & (spare <= SLACK)).all())


class Later:
    """A plan that the first layer which runs it makes: by then the GPU has work of that layer, behind
    which the host's part hides. Not for graphs, which read the plan before."""

    def __init__(self, make: Callable[[], Plan]):
        self._make = make
        self._plan: Plan | None = None

    def take(self) -> Plan:
        if self._plan is None:
            self._plan = self._make()
        return self._plan


class Steps:
    """An engine over a worker's cache: one step is planned once, then every layer runs it."""

    def __init__(self, package: Package, layer_names: Sequence[str], device: torch.device,
                 max_num_requests: int, max_num_tokens: int, max_seq_len: int):
        self._layers = {name: index for index, name in enumerate(layer_names)}
        self._engine = Engine(package, _device_of(device), max_num_requests=max_num_requests,
                              max_num_tokens=max_num_tokens, max_seq_len=max_seq_len,
                              num_layers=len(layer_names), external_pools=1)
        self._max_seq_len = max_seq_len
        self._page_size: int = package.info["pools"][0]["page_size"]
        self._bound: tuple[int, ...] = ()
        self._scales = [1.0] * len(layer_names)
        # In turns: the host plans a step while the one before it runs.
        both = Planned(self._engine.plan()), Planned(self._engine.plan())
        self._plans, self._latest = itertools.cycle(both), both[-1]
        self._prefill_plans = itertools.cycle((self._engine.plan(), self._engine.plan()))
        # Full CUDA graphs repeat the runs of this one. It is filled anew before each replay,
        # behind the one before it on the stream.
        self._graph_plan = Planned(self._engine.plan())
        self._decode_plans = (*both, self._graph_plan)
        # Of query lengths that a graph was captured for, the function that it repeats.
        self._captured: dict[tuple[int, ...], str] = {}
        self._function = DECODE  # of steps that are planned from now on
        self._planned: dict[Plan, tuple[str, int]] = {}  # functions and tokens of plans of decodes
        self._device = device

    def bind(self, caches: Sequence[torch.Tensor], scales: Sequence[float] = ()) -> None:
        """Takes vLLM's cache, a tensor [blocks, block_size, rank + rope] for each layer, and where
        it holds codes each layer's scale; cheap where nothing has changed."""
        for layer, scale in enumerate(scales):
            if scale != self._scales[layer]:
                self._engine.set_cache_scale(scale, layer)
                self._scales[layer] = scale
        addresses = tuple(cache.data_ptr() for cache in caches)
        if addresses == self._bound:
            return
        if self._bound:  # graphs over the cache that was are not replayed any more
            self._graph_plan.plan.release_captures()
            self._captured.clear()
        for planned in self._decode_plans:
            planned.forget()
        for layer, cache in enumerate(caches):
            self._engine.bind_pool(cache, layer)
        self._bound = addresses

    def _stream(self) -> int | None:
        if self._device.type != "cuda":
            return None
        return int(torch.cuda.current_stream(self._device).cuda_stream)

    def is_captured(self, query_lens: list[int]) -> bool:
        """Whether a graph may be replayed for a batch of these query lengths."""
        return tuple(_fill_padding(query_lens)) in self._captured

    def plan_rows(self, query_lens: list[int], bounds: Sequence[int] | torch.Tensor,
                  seq_lens: torch.Tensor, block_table: torch.Tensor, slots: torch.Tensor,
                  positions: torch.Tensor, is_capture: bool = False) -> Plan:
        """The plan of a step of decodes, or of anything that selects its keys: `bounds` are the
        longest that each request may be, on the host; the lengths, the block table, and slots and
        positions of as many tokens as there are, or more, stay on the device. That of an earlier
        step where it serves this one, too.

        is_capture: a full CUDA graph of the step follows. Every later step of these query lengths
        is planned so that the graph may be replayed for it: it reads the same places, which
        nobody may have moved."""
        query_lens = _fill_padding(query_lens)
        lengths, stream = tuple(query_lens), self._stream()
        if is_capture:
            self._captured[lengths] = self._function
        function = self._captured.get(lengths, self._function)
        arrays = seq_lens, block_table, slots, positions
        key = lengths, function, stream, block_table.shape, *(array.data_ptr() for array in arrays)
        most = (bounds.numpy() if isinstance(bounds, torch.Tensor) else
                numpy.array(bounds, dtype=numpy.int64))
        is_graph = lengths in self._captured
        planned = self._graph_plan if is_graph else self._latest
        if planned.serves(key, most):
            return planned.plan
        if not is_graph:
            planned = self._latest = next(self._plans)
        planned.forget()  # a fill that fails may leave nothing
        most = most + SLACK
        tokens = sum(query_lens)
        # Requests that pad a batch have a bound of nothing, others may be estimated too long. Tables
        # of ranks of context parallelism have no room for the longest.
        longest = min(self._max_seq_len, block_table.shape[1] * self._page_size)
        planned.plan.fill_device(
            query_lens, numpy.clip(most, query_lens, longest).tolist(),
            seq_lens=seq_lens, block_table=block_table, slot_mapping=slots[:tokens],
            positions=positions[:tokens], function=function, stream=stream)
        planned.keep(key, most)
        self._planned[planned.plan] = function, tokens
        return planned.plan

    def plan_tables(self, query_lens: list[int], seq_lens: list[int], block_table: torch.Tensor,
                    slots: torch.Tensor) -> Plan:
        """Plans a step of prefills, whose lengths are on the host; the block table, and slots of
        as many tokens or more, stay on the device."""
        plan = next(self._prefill_plans)
        plan.fill_tables(query_lens, seq_lens, _dense(block_table), _dense(slots[:sum(query_lens)]),
                         "prefill", self._stream(), on_device=True)
        return plan


class Kernels(Steps):
    """Attention of all layers; vLLM appends and projects."""

    def __init__(self, shape: Shape, layer_names: Sequence[str], device: torch.device,
                 max_num_requests: int, max_seq_len: int, max_num_tokens: int = 0,
                 may_lack_keys: bool = False):
        """max_num_tokens: of a step; 0: decodes alone. may_lack_keys: requests of a batch may have
        no keys here, where others have some: outputs of theirs are 0, log-sum-exps minus infinity.
        """
        max_num_tokens = max(max_num_tokens, max_num_requests * shape.query_len)
        package = _load(shape, target_of(device))
        super().__init__(package, layer_names, device, max_num_requests, max_num_tokens,
                         max_seq_len)
        self._shape = shape
        self._functions = {function["name"] for target in package.info["targets"]
                           for function in target["functions"]}
        if DECODE_OF_HEADS in self._functions:  # as most engines' products leave queries
            self._function = DECODE_OF_HEADS
        self._may_lack_keys = may_lack_keys
        # Nothing is appended and nothing rotated here: no slot, any position.
        self._slots = torch.full((max_num_tokens,), -1, dtype=torch.int64, device=device)
        self._positions = torch.zeros(max_num_tokens, dtype=torch.int64, device=device)
        if not shape.has_prefills:
            for layer in range(len(layer_names)):
                self._engine.prepare(layer)  # there are no weights

    def bind_weight(self, layer_name: str, weight: torch.Tensor) -> None:
        """W_UK and W_UV of a layer, [heads * (nope + value), rank], for its prefills; copied."""
        layer = self._layers[layer_name]
        self._engine.bind({UP_WEIGHT: weight.detach().cpu().contiguous()}, layer)
        self._engine.prepare(layer)

    def plan(self, query_lens: list[int], bounds: Sequence[int] | torch.Tensor,
             seq_lens: torch.Tensor, block_table: torch.Tensor, is_capture: bool = False) -> Plan:
        """A step of decodes, or of anything that selects its keys (`plan_rows`)."""
        return self.plan_rows(query_lens, bounds, seq_lens, block_table, self._slots,
                              self._positions, is_capture)

    def plan_prefills(self, query_lens: list[int], seq_lens: list[int],
                      block_table: torch.Tensor) -> Plan:
        """A step of prefills (`plan_tables`)."""
        return self.plan_tables(query_lens, seq_lens, block_table, self._slots)

    def _run(self, plan: Plan, layer_name: str, **buffers: torch.Tensor) -> None:
        plan.run_bound(self._layers[layer_name], self._stream(), **buffers)

    def _as_planned(self, plan: Plan, query: torch.Tensor) -> torch.Tensor:
        """Latent queries as the plan's function reads them: as they lie, if it is the one for such;
        the next steps are planned for it, then. Else a copy."""
        function, tokens = self._planned[plan]
        found = find_layout(query)
        if found is not None and found in self._functions and min(query.shape[:2]) > 1:
            self._function = found  # of one token or head, queries are of both
        if function == DECODE:
            return query.contiguous()
        return query[:tokens].transpose(0, 1).contiguous()  # heads are as far apart as tokens say

    def run(self, plan: Plan, layer_name: str, query: torch.Tensor, rope_query: torch.Tensor,
            **inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Outputs [tokens, heads, rank] and log-sum-exps (natural, [tokens, heads]) of a layer.
        inputs: `positions`, where keys are selected. Queries are read as they lie, token by token or
        head by head; with other strides, where the step was planned for queries that lie otherwise
        and where the package has no function for them they are copied. So are rope queries that
        are not the ends of rows as the shape says."""
        output = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        lse = torch.empty(query.shape[:2], dtype=torch.float32, device=query.device)
        if self._may_lack_keys:
            output.zero_()
            lse.fill_(float("-inf"))
        width = self._shape.query_width
        if width:
            inputs["rope_rows"] = rows_that_end_in(rope_query, width)
        else:
            inputs["rope_query"] = rope_query.contiguous()
        self._run(plan, layer_name, query=self._as_planned(plan, query), output=output, lse=lse,
                  **inputs)
        return output, lse

    def run_prefill(self, plan: Plan, layer_name: str, query: torch.Tensor, latent: torch.Tensor,
                    rope_key: torch.Tensor, output: torch.Tensor | None = None) -> torch.Tensor:
        """Outputs [tokens, heads, value] of queries [tokens, heads, nope + rope] and the same
        tokens' latents and rope keys; those before them are in the cache. output: where to."""
        if output is None:
            output = query.new_empty(*query.shape[:2], self._shape.value)
        self._run(plan, layer_name, query_rows=query.contiguous(), latent=latent.contiguous(),
                  rope_key=rope_key.reshape(len(rope_key), -1).contiguous(), output=output)
        return output


def take_cache(cache: torch.Tensor) -> torch.Tensor:
    """A layer's cache as [blocks, block_size, columns]: newer versions have a head axis."""
    if cache.element_size() == 1:
        cache = cache.view(torch.uint8)
    return cache.squeeze(1) if cache.dim() == 4 else cache
