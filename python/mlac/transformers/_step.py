# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One forward pass of a model as steps of an engine."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from collections.abc import Sequence as Rows
from typing import Any

import torch

from .._errors import WrongState
from .._plan import Plan
from .._runtime import Engine, Sequence
from ..torch import handle
from ._weights import Weights

_TORCH_DTYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}

# Tokens of one request in one step: its row in the batch, and how many.
Share = tuple[int, int]


def split_rows(lens: Rows[int], max_requests: int, max_tokens: int) -> list[list[Share]]:
    """New tokens of a batch, cut into parts that an engine takes as one step each.

    A row longer than what is left of a part goes on in the next one, over the context that
    the part before has written: parts run in order, layer by layer.
    """
    parts: list[list[Share]] = []
    room = 0
    for row, count in enumerate(lens):
        while count > 0:
            if room == 0 or len(parts[-1]) == max_requests:
                parts.append([])
                room = max_tokens
            taken = min(count, room)
            parts[-1].append((row, taken))
            room -= taken
            count -= taken
    return parts


class Step:
    """Filled plans of one forward pass, and where its tokens are among the padding.

    parts: mlac.torch's handles of the plans, and how many tokens each takes.
    is_real: [batch, query] on the host, which tokens are none of padding.
    """

    def __init__(self, parts: list[tuple[int, int]], is_real: torch.Tensor,
                 device: torch.device):
        self._parts = parts
        self._index = None
        if not bool(is_real.all()):
            self._index = is_real.flatten().nonzero().flatten().to(device)

    def run(self, hidden: torch.Tensor, layer: int) -> torch.Tensor:
        """One layer's attention: [batch, query, hidden] to the same; padding gives zeros."""
        flat = hidden.reshape(-1, hidden.shape[-1])
        rows = (flat if self._index is None else flat[self._index]).contiguous()
        output = torch.empty_like(rows)
        first = 0
        for plan, count in self._parts:
            part = slice(first, first + count)
            torch.ops.mlac.layer.default(output[part], rows[part], plan, layer)
            first += count
        if self._index is not None:
            output = torch.zeros_like(flat).index_copy_(0, self._index, output)
        return output.view(hidden.shape)


class Runner:
    """The engine of a patched model, its plans, and the step that is under way."""

    def __init__(self, engine: Engine, device: torch.device, weights: Weights, num_layers: int):
        self.engine = engine
        self.device = device
        self.weights = weights
        self.num_layers = num_layers
        self._dtype = getattr(torch, _TORCH_DTYPES[engine.activation_dtype])
        self.options: dict[str, int] = engine.info["options"]
        self.step: Step | None = None
        self._passes = threading.RLock()  # layers find their step here, so that passes take turns
        self._plans: list[Plan] = []
        self._handles: list[int] = []

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """One forward pass: other threads wait."""
        with self._passes:
            if self.step is not None:
                raise WrongState("a patched model was called inside of its own forward pass")
            yield

    def check_live(self) -> None:
        if self.engine.is_closed:
            raise WrongState("the model was unpatched: its caches ended with its engine")

    def check_kind(self, what: str, dtype: torch.dtype, device: torch.device | None = None) -> None:
        """Refuses what the engine was not made for: the model was moved since."""
        given = f"{dtype} on {device}" if device else str(dtype)
        expected = f"{self._dtype} on {self.device}" if device else str(self._dtype)
        if given != expected:
            raise WrongState(f"{what}: expected {expected}, as of the model when it was patched, got "
                             f"{given}: unpatch() it before model.to(), and patch it again")

    def stream(self) -> Any:
        """torch's current stream, on which steps are planned and run."""
        return torch.cuda.current_stream(self.device) if self.device.type == "cuda" else None

    def fill(self, sequences: list[Sequence], is_real: torch.Tensor) -> Step:
        """Plans a step that appends each row's real tokens; all or nothing."""
        lens = is_real.sum(1).tolist()
        parts = split_rows(lens, self.options["max_num_requests"], self.options["max_num_tokens"])
        while len(self._plans) < len(parts):
            self._plans.append(self.engine.plan())
            self._handles.append(handle(self._plans[-1]))
        before = [len(sequence) for sequence in sequences]
        filled = []
        try:
            for number, plan, part in zip(self._handles, self._plans, parts):
                plan.fill([sequences[row] for row, _ in part], [count for _, count in part],
                          stream=self.stream())
                filled.append((number, sum(count for _, count in part)))
        except BaseException:  # an interrupt, too
            for sequence, length in zip(sequences, before):
                sequence.truncate(length)
            raise
        return Step(filled, is_real, self.device)

    def finish(self) -> None:
        """Forgets the step; its sequences live as long as their cache."""
        self.step = None
        for plan in self._plans:
            plan._sequences = ()

    def run(self, hidden: torch.Tensor, layer: int) -> torch.Tensor:
        if self.step is None:
            raise WrongState("an attention layer of a patched model was called by itself: call the "
                             "model, or unpatch it")
        self.check_kind("hidden states", hidden.dtype, hidden.device)
        return self.step.run(hidden, layer)
