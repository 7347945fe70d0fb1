# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The operators of mlac.attention as torch.ops.attention, by the names that AutoDeploy has them
under, and torch.ops.mlac. Importing this registers them, with their shape twins as fake kernels and
the caches that they write marked. Needs torch 2.4 or later."""

from __future__ import annotations

from typing import Any

import torch

from .._errors import WrongState
from . import _grouped, _latent, _metadata, _sdpa
from ._op import Op, Spec

OPS: tuple[Op, ...] = (*_sdpa.OPS, *_metadata.OPS, *_grouped.OPS, *_latent.OPS)

# They live as long as their operators.
_libraries: dict[str, torch.library.Library] = {}


def _empty(spec: Spec, sizes: dict[str, Any], device: torch.device) -> torch.Tensor:
    """A size that the step's data decide is a symbol, one for each name."""
    for size in spec.shape:
        if isinstance(size, str) and size not in sizes:
            sizes[size] = torch.library.get_ctx().new_dynamic_size()
    shape = [sizes[size] if isinstance(size, str) else size for size in spec.shape]
    return torch.empty(shape, dtype=spec.dtype, device=device)


def _fake(op: Op) -> Any:
    def fake(first: torch.Tensor, *operands: Any, **named: Any) -> Any:
        told = op.twin(first, *operands, **named)
        sizes: dict[str, Any] = {}
        if isinstance(told, Spec):
            return _empty(told, sizes, first.device)
        return [_empty(spec, sizes, first.device) for spec in told]
    return fake


def _real(op: Op) -> Any:
    def run(*operands: Any, **named: Any) -> Any:
        made = op(*operands, **named)
        return list(made) if isinstance(made, tuple) else made
    return run


def _register(op: Op) -> None:
    space, name = op.name.split("::")
    if hasattr(getattr(torch.ops, space), name):
        raise WrongState(f"torch.ops.{space}.{name} is another library's: it was there before")
    library = _libraries.setdefault(space, torch.library.Library(space, "FRAGMENT"))
    library.define(name + op.schema)
    for key in ("CPU", "CUDA"):
        library.impl(name, _real(op), key)
    torch.library.register_fake(op.name, _fake(op), lib=library)


for _op in OPS:
    _register(_op)

__all__ = ["OPS"]
