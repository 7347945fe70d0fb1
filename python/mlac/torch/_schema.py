# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The operators' schemas, fake kernels, and who implements them."""

from __future__ import annotations

import torch

from .._errors import InvalidArgument
from . import _native, _python

SCHEMAS = {
    "layer": "(Tensor(a!) output, Tensor hidden, int plan, int layer=0) -> ()",
    "attend": "(Tensor(a!) output, Tensor(b!)? lse, Tensor(c!)? cache, Tensor query, "
              "Tensor? rope_query, Tensor? latent, Tensor? rope_key, int plan, int layer=0) -> ()",
    "append": "(Tensor(a!) cache, Tensor latent, Tensor? rope_key, int plan, int layer=0) -> ()",
}

# Never torch.library.custom_op: it costs three times as much a call (docs/python.md).
_library = torch.library.Library("mlac", "FRAGMENT")
_state = {"is_native": False}


def is_native() -> bool:
    """Whether the operators are those of libmlac_torch.so."""
    return _state["is_native"]


def _fake(*args: object) -> None:
    """Writes what is given and makes nothing: there is no shape to tell. One tensor on the device
    `meta` brings real ones here, too, which nothing would write."""
    devices = {tensor.device.type for tensor in args if type(tensor) is torch.Tensor}
    if len(devices) > 1:
        raise InvalidArgument(f"expected tensors on one device, got {', '.join(sorted(devices))}")


def register() -> None:
    """Defines the operators, once a process."""
    for name, schema in SCHEMAS.items():
        _library.define(name + schema)
        torch.library.register_fake(f"mlac::{name}", _fake, lib=_library)
    _state["is_native"] = _native.load()
    if not _state["is_native"]:
        for name in SCHEMAS:
            for key in ("CPU", "CUDA"):
                _library.impl(name, getattr(_python, name), key)
