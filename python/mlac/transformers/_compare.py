# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Does the engine compute what the model's own attention does?

A configuration says what a type of model computes, the module what this one does: a key that
the class does not read, or reads in another way than the compiler, changes every token and breaks
nothing. So patch() runs the first attention of both on the same rows."""

from __future__ import annotations

from typing import Any

import torch

from .._errors import Unsupported
from .._runtime import Engine

# Rows that are compared: enough for positions to turn slow pairs of the rope, little to compute.
_TOKENS = 64
# Relative errors of the output. What is rounded to 16 bits alike differs by 0.01 at most (the same
# for any model, since rows are normalised); other scales, ropes or norms by 0.1 and more.
_ALLOWED = {torch.float32: 1e-3, torch.bfloat16: 3e-2, torch.float16: 1e-2}


class _Reached(Exception):
    """The first attention has computed; nothing behind it is needed."""


def _record(decoder: Any, attention: Any, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The input and output of the model's first attention, of these embeddings."""
    own = attention.forward
    had = attention.__dict__.get("forward")  # accelerate's hooks lie there
    found: list[torch.Tensor] = []

    def forward(hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        found.extend((hidden_states, own(hidden_states, *args, **kwargs)[0]))
        raise _Reached

    attention.forward = forward
    try:
        decoder(inputs_embeds=rows, use_cache=False)
    except _Reached:
        pass
    finally:
        if had is None:
            del attention.__dict__["forward"]
        else:
            attention.__dict__["forward"] = had
    hidden, output = found
    return hidden[0].contiguous(), output[0]


def _is_exact(engine: Engine, attention: Any) -> bool:
    """Whether both compute on the same numbers: neither rows of the cache nor weights are codes,
    whose rounding hides what this looks for."""
    dtype = engine.activation_dtype
    return engine.cache_stats["dtype"] == dtype and not any(
        str(weight.dtype).startswith("torch.float8") for weight in attention.parameters())


def _relative(got: torch.Tensor, expected: torch.Tensor) -> float:
    size = expected.double().norm().item()
    error = (got.double() - expected.double()).norm().item()
    return error / size if size else error


def _compute(engine: Engine, hidden: torch.Tensor) -> torch.Tensor:
    sequence, plan = engine.sequence(), engine.plan()
    stream = torch.cuda.current_stream(hidden.device) if hidden.is_cuda else None
    plan.fill([sequence], [len(hidden)], stream=stream)
    output: torch.Tensor = plan.run(hidden, stream=stream)
    if stream is not None:
        stream.synchronize()  # the plan's workspace is in use until then
    plan.close()
    sequence.free()
    return output


def compare(engine: Engine, decoder: Any, attention: Any) -> None:
    """Refuses a model whose first attention gives other numbers than the engine's first layer."""
    if decoder.training or not _is_exact(engine, attention):
        return
    options, stats = engine.info["options"], engine.cache_stats
    tokens = min(_TOKENS, options["max_seq_len"], options["max_num_tokens"],
                 stats["num_pages"] * stats["page_size"],
                 getattr(decoder.config, "index_topk", None) or _TOKENS)
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(1, tokens, decoder.config.hidden_size, generator=generator)
    with torch.no_grad():
        rows = rows.to(attention.o_proj.weight.device, decoder.dtype)
        hidden, expected = _record(decoder, attention, rows)
        error = _relative(_compute(engine, hidden), expected)
    allowed = _ALLOWED[decoder.dtype]
    if not error <= allowed:
        raise Unsupported(
            f"model: the first layer's own attention gives other numbers than the package, a "
            f"relative error of {error:.2g} in {tokens} random rows, expected at most {allowed}: "
            "its class reads a key of the configuration in another way than mla-compile, or does "
            "not read it")
