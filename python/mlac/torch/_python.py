# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The operators in Python: works with every torch, costs some microseconds a call more than
the native library."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from ctypes import byref, c_int64
from typing import Any

import torch

from .._errors import InvalidArgument
from .._library import Binding, ExternalPool, call, library, raise_status
from ._handle import Signature, signatures

# Looked up once: these are called for every layer of every step.
_plan_dim, _run_bound = library.mla_plan_dim, library.mla_step_run_bound


def _signature(plan: int) -> Signature:
    signature = signatures.get(plan)
    if signature is None:
        raise InvalidArgument(f"plan {plan:#x}: expected a number from mlac.torch.handle(), of a "
                              "plan that lives")
    return signature


@contextlib.contextmanager
def _copy_bound(signature: Signature, bound: ExternalPool, cache: Any,
                layer: int) -> Iterator[None]:
    """Where torch has made a copy of what was bound, to have an operator without side effects,
    the copy is the layer's pool for this call."""
    pool = ExternalPool(bound.struct_bytes, cache.data_ptr(), cache.shape[0],
                        cache.stride(0) * cache.itemsize, None)
    call("mla_engine_bind_pool", signature.engine, layer, 0, byref(pool))
    try:
        yield
    finally:
        call("mla_engine_bind_pool", signature.engine, layer, 0, byref(bound))


def _run_on_cache(cache: Any, plan: int, layer: int, *given: Any) -> None:
    """_run with this tensor as the layer's pool."""
    signature = _signature(plan)
    bound = signature.pools[layer] if 0 <= layer < len(signature.pools) else None
    if bound is None:
        raise InvalidArgument(f"cache: layer {layer} had no pool of one tensor when "
                              "mlac.torch.handle() was called")
    if cache.data_ptr() == bound.data:
        _run(plan, layer, *given)
        return
    with _copy_bound(signature, bound, cache, layer):
        _run(plan, layer, *given)


def _run(plan: int, layer: int, *given: Any) -> None:
    """Runs a plan's layer on (slot, tensor) pairs; tensors that are None are left out."""
    signature = _signature(plan)
    tokens = c_int64()
    _check(_plan_dim(plan, b"num_tokens", tokens))
    bindings = (Binding * len(given))()
    count = 0
    for slot, tensor in given:
        if tensor is None:
            continue
        name, dtype, per_token = signature.slots[slot]
        if tensor.dtype != dtype:
            expected = "no such tensor" if dtype is None else "the package's dtype"
            raise InvalidArgument(f"{slot}: expected {expected}, got {tensor.dtype}")
        if not tensor.is_contiguous():
            raise InvalidArgument(f"{slot}: expected a contiguous tensor")
        if tensor.is_cuda != signature.is_cuda:
            raise InvalidArgument(f"{slot}: expected a tensor on the engine's device")
        # Packages do not say how large their functions' tensors are.
        if tensor.numel() < tokens.value * per_token \
                or (slot != "lse" and len(tensor) < tokens.value):
            raise InvalidArgument(f"{slot}: expected rows for the {tokens.value} tokens of the "
                                  "step")
        # Wider rows would be read as more of them, at wrong places.
        if per_token > 1 and tensor.dim() > 1 and tensor.numel() != len(tensor) * per_token:
            raise InvalidArgument(f"{slot}: expected rows of {per_token} columns")
        bindings[count] = Binding(name, tensor.data_ptr(), tensor.nbytes)
        count += 1
    _check(_run_bound(plan, layer, bindings, count, _stream(signature, given)))


def _stream(signature: Signature, given: Any) -> int | None:
    if not signature.is_cuda:
        return None
    device = next(tensor.device for _, tensor in given if tensor is not None)
    return torch.cuda.current_stream(device).cuda_stream


def _check(status: int) -> None:
    if status != 0:
        raise_status(status)


def layer(output: Any, hidden: Any, plan: int, layer: int = 0) -> None:
    _run(plan, layer, ("output", output), ("hidden", hidden))


def attend(output: Any, lse: Any, cache: Any, query: Any, rope_query: Any, latent: Any,
           rope_key: Any, plan: int, layer: int = 0) -> None:
    given = (("output", output), ("lse", lse), ("query", query), ("rope_query", rope_query),
             ("latent", latent), ("rope_key", rope_key))
    if cache is None:
        _run(plan, layer, *given)
    else:
        _run_on_cache(cache, plan, layer, *given)


def append(cache: Any, latent: Any, rope_key: Any, plan: int, layer: int = 0) -> None:
    _run_on_cache(cache, plan, layer, ("latent", latent), ("rope_key", rope_key))
