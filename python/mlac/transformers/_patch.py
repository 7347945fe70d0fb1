# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Replaces the attention of a model by steps of an engine, and puts it back."""

from __future__ import annotations

import json
import math
import os
from typing import Any

import torch

from .._compile import compile as compile_package
from .._errors import InvalidArgument, WrongState
from .._rope_fields import rope_differences
from .._runtime import Device, Engine, Package
from . import _layers
from ._cache import Cache
from ._compare import compare
from ._forward import attention_forward, cache_argument, decoder_forward, prepare_cache
from ._step import Runner
from ._weights import Weights

# Tokens of a sequence where the caller says nothing: what fits everywhere. A model's own
# maximum would take the cache's memory for every request.
DEFAULT_SEQ_LEN = 4096


def patch(model: Any, package: Package | str | os.PathLike[str] | None = None, *,
          max_seq_len: int | None = None, max_num_requests: int = 8, threads: int = 0,
          compile_options: dict[str, Any] | None = None, **engine_options: int) -> Patched:
    """Makes mlac compute the attention of every layer of `model`, in place.

    package: a Package or its path; default: mlac.compile of the model's configuration, for
    its device and dtype, with `compile_options`.
    max_seq_len: tokens of a sequence (default: 4096, or what the package takes).
    max_num_requests: rows that one step takes; larger batches run as several.
    engine_options: those of mlac.Engine (num_pages, max_num_tokens, ...). The default
    cache holds max_num_requests sequences of max_seq_len.
    threads: workers on the CPU; 0: one per processor.

    Raises Unsupported or InvalidArgument, naming what it does not take, also where the first
    layer gives other numbers than the model's own attention; then the model is as it was. The module's own weights stay in memory, so that unpatch() needs nothing; where
    they change, the engine's are copied again before the next pass.
    """
    decoder = _layers.find_decoder(model)
    if isinstance(decoder.__dict__.get("_mlac_patched"), Patched):
        raise WrongState("the model is patched already: unpatch it first")
    attentions = _layers.find_attentions(decoder)
    device = _layers.device_of(attentions)
    for layer, module in enumerate(attentions):  # before a compiler runs for nothing
        _layers.check_weights(module, layer)
    if package is None:
        target = "cpu" if device.type == "cpu" else "sm_90a"
        # An index cache in e4m3 selects other keys than transformers' own: dense up to index_topk.
        sparse = {"indexer": "none"} if hasattr(decoder.config, "index_topk") else {}
        package = compile_package(decoder, target, **{
            "functions": ("prefill", "decode", "step"), **sparse, **(compile_options or {})})
    elif not isinstance(package, Package):
        package = Package(package)
    info = package.info
    _check_package(info, decoder, attentions[0])
    limit, why = _longest_sequence(info["rope"], decoder.config)
    if max_seq_len is not None and max_seq_len > limit:
        raise InvalidArgument(f"max_seq_len = {max_seq_len}: expected 1 to {limit}{why}")
    engine = Engine(package, Device(str(device), threads), num_layers=len(attentions),
                    max_seq_len=max_seq_len or min(DEFAULT_SEQ_LEN, limit),
                    max_num_requests=max_num_requests, **engine_options)
    weights = Weights(engine, attentions)
    compare(engine, decoder, attentions[0])
    return Patched(model, decoder, attentions, Runner(engine, device, weights, len(attentions)))


def _longest_sequence(rope: dict[str, Any], config: Any) -> tuple[int, str]:
    """That an engine serves as the model does, and why, where that is not the last position."""
    fields, trained = getattr(config, "rope_parameters", None) or {}, rope["short_length"]
    limit: int = rope["length"] or DEFAULT_SEQ_LEN
    if 0 < trained < limit and fields.get("short_factor") != fields.get("long_factor"):
        return trained, (", original_max_position_embeddings: longer sequences turn by long_factor, "
                         "in an engine from their first token, in transformers from there on")
    if limit == getattr(config, "index_topk", None):
        return limit, ", the model's index_topk: its attention is dense up to there"
    return limit, ""


def _check_package(info: dict[str, Any], decoder: Any, attention: Any) -> None:
    """Whether the package is of this model; shapes of weights are checked when bound."""
    config, compiled = decoder.config, info["model"]
    # Loaded by the classes of another type, a model has the checkpoint's type, which is its folder's
    # package's, and a package of the model that of the classes.
    own, types = compiled["model_type"], (config.model_type, type(config).model_type)
    expected = {"model_type": own if own in types else types[0], "hidden_size": config.hidden_size,
                "num_heads": config.num_attention_heads, "tensor_parallel": 1,
                "activation_dtype": {torch.float32: "f32", torch.bfloat16: "bf16",
                                     torch.float16: "f16"}.get(decoder.dtype, str(decoder.dtype))}
    for name, value in expected.items():
        if compiled[name] != value:
            raise InvalidArgument(f"package: {name} is {compiled[name]}, the model's is {value}")
    # The compiler forms it in double precision, transformers in Python's.
    if not math.isclose(compiled["softmax_scale"], attention.scaling, rel_tol=1e-6):
        raise InvalidArgument(f"package: softmax_scale is {compiled['softmax_scale']}, the model's "
                              f"is {attention.scaling}")
    for name, theirs, ours in rope_differences(json.loads(compiled["config"]), config.to_dict()):
        raise InvalidArgument(f"package: {name} is {theirs}, the model's is {ours}")


def _refuse_copies(protocol: Any) -> Any:
    """Where copy and pickle ask a module what it is made of."""
    raise TypeError("cannot copy or pickle a patched model, whose layers are an engine's: unpatch it "
                    "first, or save its weights")


class Patched:
    """A model whose attention mlac computes, until unpatch(); also a context manager."""

    def __init__(self, model: Any, decoder: Any, attentions: list[Any], runner: Runner):
        self._runner = runner
        self._replaced: list[tuple[Any, str, Any]] = []
        self._decoder = decoder
        results = _layers.RESULTS[decoder.config.model_type]
        argument = cache_argument(decoder)
        for layer, module in enumerate(attentions):
            self._replace(module, "forward", attention_forward(runner, layer, results))
        self._replace(decoder, "forward", decoder_forward(runner, decoder))
        if hasattr(model, "_prepare_cache_for_generation"):
            self._replace(model, "_prepare_cache_for_generation",
                          prepare_cache(runner, model, argument))
        self._replace(decoder, "_mlac_patched", self)
        self._replace(decoder, "__reduce_ex__", _refuse_copies)

    def __repr__(self) -> str:
        return f"<mlac.transformers.Patched {type(self._decoder).__name__}, {self.engine!r}>"

    def __enter__(self) -> Patched:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.unpatch()

    @property
    def engine(self) -> Engine:
        """The engine that runs the layers: its memory, pages and sequences."""
        return self._runner.engine

    def cache(self) -> Cache:
        """An empty cache, for past_key_values= of a call or of generate()."""
        return Cache(self._runner)

    def unpatch(self) -> None:
        """Puts the model's own attention back and frees the engine; its caches are stale."""
        while self._replaced:
            owner, name, value = self._replaced.pop()
            if value is None:
                owner.__dict__.pop(name, None)
            else:
                owner.__dict__[name] = value
        self._runner.engine.close()

    def _replace(self, owner: Any, name: str, value: Any) -> None:
        """Hides a method of one object; accelerate's hooks lie there too, and are kept."""
        self._replaced.append((owner, name, owner.__dict__.get(name)))
        owner.__dict__[name] = value

