# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules of the mla dialect, compiled once a process and run on the caller's caches."""

from __future__ import annotations

import functools
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .._compile import compile
from .._runtime import Device, Engine
from . import _memory
from ._step import Step

# Kernels of so many kinds stay loaded.
_MOST_EXECUTORS = 64


def _rounded(count: int) -> int:
    """A power of two, so that growing batches make few engines."""
    return 1 << max(count - 1, 0).bit_length()


class Executor:
    """The functions `step` and, of one token of each sequence, `decode` of a module on a device."""

    def __init__(self, module: str, device: str):
        target = "cpu" if device == "cpu" else "sm_90a"
        with tempfile.TemporaryDirectory(prefix="mlac-") as folder:
            path = Path(folder) / "attention.mlir"
            path.write_text(module)
            self._package = compile(path, target)
        self._device = Device(device)
        self._sizes: tuple[int, ...] = (0, 0, 0)  # requests, tokens, keys
        self._engine: Engine | None = None
        self._step: Step | None = None
        self._layout: list[Any] = []  # of the pools that the step was planned for
        # All callers of a module share its engine: pools of one are not to be another's step's.
        self._lock = threading.Lock()

    def _make_room(self, step: Step, num_pools: int) -> Engine:
        needed = (len(step.lengths), sum(step.lengths), max(step.ends))
        if self._engine is None or any(n > s for n, s in zip(needed, self._sizes)):
            self._sizes = tuple(_rounded(max(n, s)) for n, s in zip(needed, self._sizes))
            requests, tokens, keys = self._sizes
            self._engine = Engine(self._package, self._device, max_num_requests=requests,
                                  max_num_tokens=tokens, max_seq_len=keys,
                                  external_pools=(1 << num_pools) - 1)
            self._engine.prepare()
            self._plan = self._engine.plan()
            self._step = None
        return self._engine

    def run(self, step: Step, pools: Sequence[Any], buffers: dict[str, Any]) -> None:
        """pools: [pages, page size, width] arrays, whose pages all have the step's table."""
        with self._lock:
            self._run(step, pools, buffers)

    def _run(self, step: Step, pools: Sequence[Any], buffers: dict[str, Any]) -> None:
        engine = self._make_room(step, len(pools))
        for index, pool in enumerate(pools):
            engine.bind_pool(pool, index=index)
        stream = None
        if self._device.is_cuda:
            import torch

            stream = torch.cuda.current_stream(next(iter(buffers.values())).device)
        layout = [_memory.layout_of(pool) for pool in pools]
        if self._step is None or layout != self._layout or not step.is_same(self._step):
            is_decode = all(length == 1 for length in step.lengths)
            self._plan.fill_tables(step.lengths, step.ends, step.table, step.slots,
                                   "decode" if is_decode else "step", stream=stream,
                                   pools=[(step.table, step.slots)] * (len(pools) - 1))
            self._step, self._layout = step, layout
        self._plan.run_bound(stream=stream, **buffers)


@functools.lru_cache(maxsize=_MOST_EXECUTORS)
def executor_of(module: str, device: str) -> Executor:
    return Executor(module, device)


def run_module(module: str, step: Step, pools: Sequence[Any], buffers: dict[str, Any]) -> None:
    """Runs `module` where its buffers are; they are contiguous."""
    if sum(step.lengths):
        executor_of(module, _memory.device_of(buffers["output"])).run(step, pools, buffers)
