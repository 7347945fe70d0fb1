# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole layers over vLLM's cache: hidden states to hidden states, a rank's weights in the engine."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .._errors import InvalidArgument
from .._plan import Plan
from .._rope_fields import rope_differences
from .._runtime import Package
from ._kernels import PACKAGE_VARIABLE, Steps
from ._module import layer_package


def load_layer(config: Mapping[str, Any], heads: int, target: str, *, dtype: str, block_size: int,
               scale: float, codes: str = "none") -> Package:
    """The package of a layer: compiled, or the one that MLAC_VLLM_PACKAGE names. codes: what its
    products keep (layer_package)."""
    path = os.environ.get(PACKAGE_VARIABLE)
    package = (Package(path) if path is not None else
               layer_package(config, heads, target, dtype=dtype, block_size=block_size,
                             codes=codes))
    info = package.info
    model, pool = info["model"], info["pools"][0]
    sizes = ("hidden_size", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    wanted = {"num_heads": heads, "activation_dtype": dtype, "page_size": block_size,
              **{name: config[name] for name in sizes}}
    found = {**model, "page_size": pool["page_size"]}
    differences = [f"{name}: expected {value}, got {found.get(name)}"
                   for name, value in wanted.items() if found.get(name) != value]
    # vLLM and the compiler read the same configuration: they must understand it alike.
    if not math.isclose(model["softmax_scale"], scale, rel_tol=1e-5):
        differences.append(f"scale of scores: expected {scale}, got {model['softmax_scale']}")
    compiled = json.loads(model["config"] or "{}")
    differences += [f"{name}: expected {ours}, got {theirs}"
                    for name, theirs, ours in rope_differences(compiled, config)]
    eps = "rms_norm_eps"
    if eps in compiled and eps in config and compiled[eps] != config[eps]:
        differences.append(f"{eps}: expected {config[eps]}, got {compiled[eps]}")
    if differences:
        raise InvalidArgument(f"{path or 'the package of a layer'} is of another model: "
                              + "; ".join(differences))
    return package


class Layers(Steps):
    """Runs layers, each with its weights."""

    def __init__(self, package: Package, layer_names: Sequence[str], device: torch.device,
                 max_num_requests: int, max_num_tokens: int, max_seq_len: int):
        super().__init__(package, layer_names, device, max_num_requests, max_num_tokens,
                         max_seq_len)
        self._positions = torch.zeros(max_num_tokens, dtype=torch.int64, device=device)
        suffix = ".weight_scale_inv"
        # Weights that are codes, by their modules.
        self.coded = [weight["name"].removesuffix(suffix) for weight in package.info["weights"]
                      if weight["name"].endswith(suffix)]

    def bind_weights(self, layer_name: str, weights: Mapping[str, torch.Tensor]) -> None:
        """A layer's weights; copied."""
        layer = self._layers[layer_name]
        self._engine.bind({name: weight.detach().cpu().contiguous()
                           for name, weight in weights.items()}, layer)
        self._engine.prepare(layer)

    def plan_decodes(self, query_lens: list[int], bounds: Sequence[int] | torch.Tensor,
                     seq_lens: torch.Tensor, block_table: torch.Tensor, slots: torch.Tensor,
                     positions: torch.Tensor | None, is_capture: bool) -> Plan:
        """A step of decodes of one token each (`plan_rows`), the last ones of their requests.
        positions: of these tokens first, where they stay from step to step (graphs read them);
        None: computed."""
        if positions is None:
            positions = self._positions
            last = positions[:len(seq_lens)]
            torch.sub(seq_lens, 1, out=last)
            last.clamp_(min=0)  # of requests that pad a batch, which have no tokens
        return self.plan_rows(query_lens, bounds, seq_lens, block_table, slots, positions,
                              is_capture)

    def run(self, plan: Plan, layer_name: str, hidden: torch.Tensor, output: torch.Tensor) -> None:
        """hidden, output: [tokens, hidden_size]; of several ranks `output` is a part of the sum."""
        plan.run(hidden.contiguous(), output, self._layers[layer_name], self._stream())
