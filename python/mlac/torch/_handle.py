# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the operators know of a plan: names, types and pools of its engine."""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Callable

import torch

from .. import _pools
from .._errors import InvalidArgument
from .._handle import require
from .._layers import LayersPlan
from .._library import ExternalPool
from .._plan import Plan
from .._runtime import Engine

# Tensors of the operators in the order of TorchOps.cpp's enum, and what attention-only
# functions call them; handle() takes other names.
SLOTS = {"output": "output", "lse": "lse", "hidden": "hidden", "query": "q_lat",
         "rope_query": "q_pe", "latent": "latent", "rope_key": "k_pe"}

_TORCH_DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32,
                 "e4m3": torch.float8_e4m3fn, "i32": torch.int32, "i64": torch.int64,
                 "u8": torch.uint8}


@dataclasses.dataclass(frozen=True)
class Signature:
    """Of each slot the buffer's name and type, None where the engine's functions have none."""

    names: dict[str, bytes]
    dtypes: dict[str, str | None]
    hidden_size: int  # elements of a token in `hidden` and its `output`; 0: no such function
    engine: int
    is_cuda: bool
    pools: tuple[ExternalPool | None, ...]  # of each layer; None: the engine's, or two tensors

    @functools.cached_property
    def slots(self) -> dict[str, tuple[bytes, torch.dtype | None, int]]:
        """Name, torch's type and least elements of a token, for each slot."""
        whole = max(self.hidden_size, 1)
        return {slot: (self.names[slot], None if dtype is None else _TORCH_DTYPES[dtype],
                       whole if slot in ("output", "hidden") else 1)
                for slot, dtype in self.dtypes.items()}


signatures: dict[int, Signature] = {}

# Whoever else wants to know (the native library).
on_declare: list[Callable[[int, Signature], None]] = []
on_forget: list[Callable[[int], None]] = []


def _forget(value: int) -> None:
    signatures.pop(value, None)
    for function in on_forget:
        function(value)


def _pool(engine: Engine, layer: int) -> ExternalPool | None:
    pool = engine._pools.get((layer, 0))
    if pool is None or isinstance(pool, (tuple, list)):
        return None
    return _pools.describe(engine, pool, 0)


def handle(plan: Plan, **names: str) -> int:
    """The number by which torch.ops.mlac takes `plan`, filled or not; valid until the plan
    is closed. Call it after Engine.bind_pool, and again where pools have changed.

    names: what the package's functions call a tensor of the operators, where it is not
    output, lse, hidden, q_lat (query), q_pe (rope_query), latent or k_pe (rope_key).
    """
    require("plan", plan, Plan)
    for name in names:
        if name not in SLOTS:
            raise InvalidArgument(f"unknown tensor '{name}', expected one of {', '.join(SLOTS)}")
    engine = plan._engine
    types = engine.buffer_types
    given = {**SLOTS, **names}
    for slot, name in names.items():
        if name not in types:
            raise InvalidArgument(f"{slot}: the package has no buffer '{name}', expected one of "
                                  f"{', '.join(types)}")
    layers = 1 + max((layer for layer, _ in engine._pools), default=-1)
    signature = Signature(
        {slot: name.encode() for slot, name in given.items()},
        {slot: types.get(name) for slot, name in given.items()},
        engine.hidden_size if given["hidden"] in types else 0, engine._value, engine.is_cuda,
        tuple(_pool(engine, layer) for layer in range(layers)))
    value: int = plan._value
    if value not in signatures:
        weakref.finalize(plan, _forget, value)
    signatures[value] = signature
    for function in on_declare:
        function(value, signature)
    return value


def handles(plan: LayersPlan, **names: str) -> dict[int, tuple[int, int]]:
    """What torch.ops.mlac takes for each layer of a model whose layers are of several kinds: the
    handle of the plan of its kind, and the layer's number there. As handle() otherwise."""
    require("plan", plan, LayersPlan)
    numbers = [handle(part, **names) for part in plan.parts]
    places = {layer: plan.place(layer) for layer in plan.layers}
    return {layer: (numbers[kind], index) for layer, (kind, index) in places.items()}
