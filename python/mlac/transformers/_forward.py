# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the methods of a patched model do instead."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from transformers.cache_utils import Cache as HuggingFaceCache

from .._errors import InvalidArgument, Unsupported
from ._cache import Cache
from ._step import Runner

# A mask of four dimensions is passed on by transformers as it is: none is built that nobody
# would read.
_NO_MASK = (1, 1, 1, 1)


def attention_forward(runner: Runner, layer: int, results: int) -> Callable[..., Any]:
    """The forward of one attention module."""

    @torch.compiler.disable
    def forward(hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        if torch.is_grad_enabled() and (hidden_states.requires_grad or
                                        runner.weights.are_trained(layer)):
            raise Unsupported("mlac computes no gradients: call the model under torch.no_grad() or "
                              "torch.inference_mode()")
        return (runner.run(hidden_states, layer),) + (None,) * (results - 1)

    return forward


def cache_argument(decoder: Any) -> str:
    """What transformers calls the cache: `cache` in later versions, which still take the other."""
    names = inspect.signature(decoder.forward).parameters
    return "cache" if "cache" in names else "past_key_values"


def decoder_forward(runner: Runner, decoder: Any) -> Callable[..., Any]:
    """The forward of the module that runs the layers: one step of the engine around it."""
    original, argument = decoder.forward, cache_argument(decoder)

    @torch.compiler.disable
    def forward(input_ids: Any = None, attention_mask: Any = None, position_ids: Any = None,
                past_key_values: Any = None, inputs_embeds: Any = None, use_cache: Any = None,
                **kwargs: Any) -> Any:
        past_key_values = kwargs.pop(argument, past_key_values)
        _refuse(decoder, argument, kwargs)
        with runner.turn():
            given = _check_input(input_ids, inputs_embeds)
            runner.check_kind("model", decoder.dtype)
            runner.weights.refresh()
            if past_key_values is not None:
                cache = _check_cache(runner, past_key_values)
            else:
                cache = Cache(runner)
                is_kept = decoder.config.use_cache if use_cache is None else use_cache
                past_key_values = cache if is_kept else None
            length = cache.get_seq_length()
            is_real = _new_tokens(cache, attention_mask, *given.shape[:2])
            if position_ids is None:
                position_ids = torch.arange(length, length + given.shape[1],
                                            device=given.device).unsqueeze(0)
            runner.step = cache._extend(is_real, _positions(position_ids, is_real))
            try:
                return original(input_ids=input_ids, attention_mask=given.new_empty(_NO_MASK),
                                position_ids=position_ids, inputs_embeds=inputs_embeds,
                                use_cache=use_cache, **{argument: past_key_values}, **kwargs)
            except BaseException:
                if length:
                    cache.crop(length)
                else:
                    cache.reset()
                raise
            finally:
                runner.finish()

    return forward


def prepare_cache(runner: Runner, model: Any, argument: str) -> Callable[..., Any]:
    """generate() asks for its cache here: it gets one of the engine's."""
    original = model._prepare_cache_for_generation

    def prepare(generation_config: Any, model_kwargs: dict[str, Any], *args: Any,
                **kwargs: Any) -> Any:
        kind = generation_config.cache_implementation
        if kind not in (None, "dynamic"):
            raise Unsupported(f"cache_implementation='{kind}': a patched model has mlac's cache")
        if generation_config.use_cache is not False:
            if model_kwargs.get(argument) is None:
                model_kwargs[argument] = Cache(runner)
            generation_config.cache_implementation = None
        return original(generation_config, model_kwargs, *args, **kwargs)

    return prepare


def _refuse(decoder: Any, argument: str, kwargs: dict[str, Any]) -> None:
    if decoder.training:
        raise Unsupported("mlac does not train: call model.eval(), or unpatch the model")
    wants = kwargs.get("output_attentions")
    if decoder.config.output_attentions if wants is None else wants:
        raise Unsupported("output_attentions: mlac's kernels never form the attention weights")
    for name, value in kwargs.items():
        if isinstance(value, HuggingFaceCache):  # not read, every step would be a prompt
            raise Unsupported(f"{name}: a cache under this name is not known, expected {argument}")


def _check_input(input_ids: Any, inputs_embeds: Any) -> torch.Tensor:
    """What says how many tokens there are."""
    name, given, dims = ("input_ids", input_ids, 2) if inputs_embeds is None \
        else ("inputs_embeds", inputs_embeds, 3)
    if not isinstance(given, torch.Tensor) or given.dim() != dims:
        got = list(given.shape) if isinstance(given, torch.Tensor) else type(given).__name__
        raise InvalidArgument(f"{name}: expected a tensor of {dims} dimensions (batch, tokens"
                              f"{', channels' if dims == 3 else ''}), got {got}")
    return given


def _check_cache(runner: Runner, cache: Any) -> Cache:
    if not isinstance(cache, Cache):
        raise InvalidArgument(f"past_key_values: expected a cache of the patched model "
                              f"(Patched.cache()), got {type(cache).__name__}")
    if cache._runner is not runner:
        raise InvalidArgument("past_key_values: this cache is another patched model's")
    return cache


def _new_tokens(cache: Cache, mask: Any, batch: int, query: int) -> torch.Tensor:
    """Which of the new tokens are no padding [batch, query], on the host."""
    if mask is None:
        return torch.ones(batch, query, dtype=torch.bool)
    if not isinstance(mask, torch.Tensor) or mask.dim() != 2:
        what = f"{mask.dim()} dimensions" if isinstance(mask, torch.Tensor) else type(mask).__name__
        raise Unsupported(f"attention_mask: expected [batch, tokens] (causal and padding are all "
                          f"that mlac computes), got {what}")
    past = cache.get_seq_length()
    if mask.shape != (batch, past + query):
        raise InvalidArgument(f"attention_mask: expected shape [{batch}, {past + query}] ({past} "
                              f"cached), got {list(mask.shape)}")
    is_real = mask.ne(0).cpu()
    if past:
        changed = (is_real[:, :past] != cache._is_real).nonzero()
        if len(changed):
            row, column = changed[0].tolist()
            raise Unsupported(f"attention_mask: row {row}, token {column} is cached as "
                              f"{'a token' if cache._is_real[row, column] else 'padding'}; a mask "
                              "cannot change that")
    return is_real[:, past:]


def _positions(position_ids: torch.Tensor, is_real: torch.Tensor) -> torch.Tensor:
    if position_ids.dim() != 2 or position_ids.shape[1] != is_real.shape[1]:
        raise InvalidArgument(f"position_ids: expected shape {list(is_real.shape)}, got "
                              f"{list(position_ids.shape)}")
    return position_ids.cpu().expand_as(is_real)
