# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The engine's copies of a model's weights, made again where a module's have changed."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from .._runtime import Engine
from . import _layers


class _Mark(NamedTuple):
    """A child, parameter or buffer, an entry of a module's dict, as it was when bound."""

    entries: dict[str, Any]
    name: str
    value: Any
    address: int  # of a tensor; of other values 0
    version: int  # by which torch counts writes in place; -1 where it does not


def _marks(module: torch.nn.Module) -> list[_Mark]:
    """Of all that an attention module computes with."""
    marks = []
    for part in module.modules():
        dicts: tuple[dict[str, Any], ...] = (part._modules, part._parameters, part._buffers)
        for entries in dicts:
            for name, value in entries.items():
                is_tensor = isinstance(value, torch.Tensor)
                is_counted = is_tensor and not value.is_inference()
                marks.append(_Mark(entries, name, value, value.data_ptr() if is_tensor else 0,
                                   value._version if is_counted else -1))
    return marks


def _is_freed(value: Any) -> bool:
    """Whether it was given up for the engine's copy: moved to the device that holds nothing."""
    return isinstance(value, torch.Tensor) and value.is_meta


def _is_same(marks: list[_Mark]) -> bool:
    for entries, name, value, address, version in marks:
        now = entries.get(name)
        if now is not value:
            if not _is_freed(now):
                return False
        elif address and (now.data_ptr() != address or
                          version >= 0 and now._version != version):
            return False  # `.to()` gives a parameter other memory
    return True


class Weights:
    """What the layers of an engine were bound from."""

    def __init__(self, engine: Engine, attentions: list[Any]):
        self._engine = engine
        self._attentions = attentions
        self._marks: list[list[_Mark]] = [[] for _ in attentions]
        for layer in range(len(attentions)):
            self._bind(layer)

    def refresh(self) -> None:
        """Binds the layers again whose module has other weights than it had: model.load_state_dict,
        or an optimiser. What is written through `.data` nobody sees."""
        for layer, marks in enumerate(self._marks):
            if not _is_same(marks):
                self._bind(layer)

    def are_trained(self, layer: int) -> bool:
        """Whether a layer's weights want gradients, of which there would be none."""
        return any(weight.requires_grad for weight in self._attentions[layer].parameters())

    def _bind(self, layer: int) -> None:
        module = self._attentions[layer]
        marks = _marks(module)
        _layers.check_weights(module, layer)
        if self._engine.is_cuda and self._marks[layer]:
            torch.cuda.synchronize()  # steps that still read the old ones
        needed = self._engine.package_info["weights"]
        self._engine.bind(_layers.weights_of(module, needed, layer), layer)
        self._engine.prepare(layer)
        self._marks[layer] = marks
