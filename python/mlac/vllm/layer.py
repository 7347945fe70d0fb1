# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM's layer around MLA, out of tree: projections, norms, rope, cache, attention and output by
mlac where the engine asks for it::

    LLM(model, attention_config={"backend": "CUSTOM"}, additional_config={"mlac_layers": "whole"})

vLLM makes this class in the place of its own (PluggableLayer). Without that option it is vLLM's.
The cache, its blocks and the plan of each step remain those of the attention back end.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from vllm.config import VllmConfig, get_current_vllm_config
from vllm.distributed import (
    get_tensor_model_parallel_world_size,
    tensor_model_parallel_all_reduce,
)
from vllm.forward_context import get_forward_context
from vllm.model_executor.custom_op import PluggableLayer
from vllm.model_executor.layers.mla import MultiHeadLatentAttentionWrapper
from vllm.model_executor.layers.quantization.utils.quant_utils import (
    get_and_maybe_dequant_weights,
)

from ._module import CODE_BLOCK

OPTION = "mlac_layers"  # of additional_config
CHOICES = ("attention", "whole")
# What projections of whole layers multiply, where a checkpoint has e4m3 codes by block: codes of
# weights and of activations, as vLLM's own do; codes of weights alone; 16-bit copies.
CODES_OPTION = "mlac_codes"
CODES_CHOICES = ("both", "weights", "none")
# Whose modules have the weights of checkpoints: others may scale them while loading.
MODELS = ("deepseek_v2", "deepseek_v3", "glm4_moe_lite", "kimi_k2")


# What torch.compile sees of a layer: vLLM cuts its graph there, as at its own attention, since what a
# layer does depends on the step.
OPERATOR = "mlac_vllm::layer"
_make_library: Any = torch.library.Library  # which has no types
_library = _make_library(OPERATOR.split("::")[0], "FRAGMENT")
_library.define("layer(Tensor hidden, Tensor(a!) output, str layer_name) -> ()")


def _run_layer(hidden: torch.Tensor, output: torch.Tensor, layer_name: str) -> None:
    everyone: Any = get_forward_context().attn_metadata
    if everyone is not None:  # else vLLM measures memory
        everyone[layer_name].run_layer(layer_name, hidden, output)


def _run_nothing(hidden: torch.Tensor, output: torch.Tensor, layer_name: str) -> None:
    """Writes to `output`, which says all that a compiler asks."""


for _device in ("CPU", "CUDA"):
    _library.impl("layer", _run_layer, _device)
_library.impl("layer", _run_nothing, "Meta")


def is_whole(config: VllmConfig) -> bool:
    """Whether an engine asks for whole layers."""
    options: Any = config.additional_config or {}
    given = options.get(OPTION, CHOICES[0])
    if given not in CHOICES:
        raise ValueError(f"additional_config: {OPTION}: expected {' or '.join(CHOICES)}, "
                         f"got {given!r}")
    return bool(given == "whole")


def codes_choice(config: VllmConfig) -> str:
    """What an engine asks for; where it asks for nothing, what vLLM does."""
    options: Any = config.additional_config or {}
    given: str = options.get(CODES_OPTION, CODES_CHOICES[0])
    if given not in CODES_CHOICES:
        raise ValueError(f"additional_config: {CODES_OPTION}: expected "
                         f"{' or '.join(CODES_CHOICES)}, got {given!r}")
    return given


def reasons_against(layer: Any, config: VllmConfig) -> list[str]:
    """Why mlac cannot be a whole layer of an engine."""
    backend = getattr(config.attention_config.backend, "name", None)
    ranks = config.parallel_config.decode_context_parallel_size
    dtype = config.cache_config.cache_dtype
    model = config.model_config.hf_text_config.model_type
    checks = {
        f"model type {model}: expected {' or '.join(MODELS)}": model not in MODELS,
        f"attention_config: expected the backend CUSTOM (mlac's), got {backend}":
            backend != "CUSTOM",
        "sparse attention is not served": layer.is_sparse or layer.indexer is not None,
        f"expected a decode_context_parallel_size of 1, got {ranks}": ranks != 1,
        f"kv_cache_dtype: expected auto or bfloat16, got {dtype}":
            dtype not in ("auto", "bfloat16"),
        "LoRA adapters are not served": config.lora_config is not None,
        "speculative decoding is not served": config.speculative_config is not None,
    }
    return [reason for reason, is_true in checks.items() if is_true]


def _codes(linear: Any) -> tuple[torch.Tensor, torch.Tensor] | None:
    """A linear layer's weight as codes [out, in] and f32 scales [out / 128, in / 128], rounded up;
    None where it is stored or scaled in another way. DeepGEMM leaves them so on Hopper."""
    codes: torch.Tensor | None = getattr(linear, "weight", None)
    scales: torch.Tensor | None = getattr(linear, "weight_scale_inv", None)
    block = getattr(linear, "weight_block_size", None)
    if codes is None or scales is None or block is None or list(block) != [CODE_BLOCK, CODE_BLOCK]:
        return None
    blocks = tuple(-(-size // CODE_BLOCK) for size in codes.shape)
    if (codes.dtype, scales.dtype) != (torch.float8_e4m3fn, torch.float32) or scales.shape != blocks:
        return None
    return codes, scales


def _dequantised(linear: Any, dtype: torch.dtype) -> torch.Tensor:
    """A linear layer's weight as [out, in], whatever its checkpoint stored."""
    block = getattr(linear, "weight_block_size", None)
    scales = getattr(linear, "weight_scale_inv", None)
    # DeepGEMM has scales in an order of its own.
    if block is None or scales is None or linear.quant_method.use_deep_gemm:
        whole: torch.Tensor = get_and_maybe_dequant_weights(linear, out_dtype=dtype)
        return whole
    # vLLM's function (0.26) takes neither its own list of a block's sizes nor a last block of fewer
    # rows, as kv_a_proj_with_mqa of DeepSeek-V3 has (576).
    codes = linear.weight
    for dim, step in enumerate(block):
        scales = scales.repeat_interleave(step, dim).narrow(dim, 0, codes.shape[dim])
    weight: torch.Tensor = (codes.float() * scales.float()).to(dtype)
    return weight


def cut_at_layers(config: Any) -> None:
    """Where vLLM cuts its graph into pieces (CompilationConfig), it cuts at layers, too."""
    cuts = config.splitting_ops
    if cuts and OPERATOR not in cuts:
        cuts.append(OPERATOR)


def _make_output(hidden: torch.Tensor, layer_name: str) -> torch.Tensor:
    """Zeros, where not each row will be written."""
    everyone: Any = get_forward_context().attn_metadata
    if everyone is not None and everyone[layer_name].writes_all(len(hidden)):
        return torch.empty_like(hidden)
    return torch.zeros_like(hidden)


class Layer(MultiHeadLatentAttentionWrapper):
    """vLLM's, or all of it by mlac."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        config = get_current_vllm_config()
        self._is_whole = is_whole(config)
        if not self._is_whole:
            return
        reasons = reasons_against(self, config)
        if reasons:
            raise ValueError("mlac.vllm: whole layers: " + "; ".join(reasons))
        self._is_compiled = bool(config.compilation_config.mode)
        cut_at_layers(config.compilation_config)
        self._ranks = get_tensor_model_parallel_world_size()
        self._codes_choice = codes_choice(config)
        # Random numbers, half of which are below 0, as no scale is.
        self._is_dummy = config.load_config.load_format == "dummy"
        attention: Any = self.mla_attn  # where the back end finds them
        attention.mlac_weights, attention.mlac_codes = self.weights, self.kept_codes

    def _linears(self) -> dict[str, Any]:
        """By the names of their weights in checkpoints; two are one in vLLM."""
        named = {"kv_b_proj": self.kv_b_proj, "o_proj": self.o_proj}
        if self.q_lora_rank is None:
            return named | {"q_proj": self.q_proj, "kv_a_proj_with_mqa": self.kv_a_proj_with_mqa}
        return named | {"q_b_proj": self.q_b_proj, "q_a_proj": self.fused_qkv_a_proj,
                        "kv_a_proj_with_mqa": self.fused_qkv_a_proj}

    def kept_codes(self) -> str:
        """What products of this layer multiply, of CODES_CHOICES: codes where all weights have
        them."""
        rank = self.q_lora_rank
        are_apart = rank is None or rank % CODE_BLOCK == 0  # no block is of both fused weights
        has_codes = are_apart and all(_codes(linear) for linear in self._linears().values())
        return self._codes_choice if has_codes else "none"

    def weights(self, dtype: torch.dtype, coded: Collection[str] = ()) -> dict[str, torch.Tensor]:
        """By their names in checkpoints: a rank's parts of them. coded: those that stay codes, for
        which there are scales, NAME.weight_scale_inv, too."""
        norms: dict[str, Any] = {"kv_a_layernorm": self.kv_a_layernorm}
        rows = {}  # of weights that vLLM has fused
        if self.q_lora_rank is not None:
            norms |= {"q_a_layernorm": self.q_a_layernorm}
            rows = {"q_a_proj": slice(self.q_lora_rank),
                    "kv_a_proj_with_mqa": slice(self.q_lora_rank, None)}
        found = {f"{name}.weight": norm.weight.to(dtype) for name, norm in norms.items()}
        for name, linear in self._linears().items():
            if getattr(linear, "bias", None) is not None:
                raise ValueError(f"mlac.vllm: whole layers: {self.prefix}.{name} has a bias")
            part = rows.get(name, slice(None))
            pair = _codes(linear) if name in coded else None
            if pair is None and name in coded:
                raise ValueError(f"mlac.vllm: whole layers: {self.prefix}.{name}: the package has "
                                 f"codes in blocks of {CODE_BLOCK}, the model's weight is none")
            if pair is None:
                found[f"{name}.weight"] = _dequantised(linear, dtype)[part]
                continue
            blocks = slice(*(None if row is None else row // CODE_BLOCK
                             for row in (part.start, part.stop)))
            scales = pair[1].abs() if self._is_dummy else pair[1]
            found |= {f"{name}.weight": pair[0][part], f"{name}.weight_scale_inv": scales[blocks]}
        return found

    def forward(self, positions: torch.Tensor, hidden_states: torch.Tensor,
                llama_4_scaling: torch.Tensor | None = None) -> torch.Tensor:
        if not self._is_whole:
            plain: torch.Tensor = super().forward(positions, hidden_states, llama_4_scaling)
            return plain
        if llama_4_scaling is not None:
            raise ValueError("mlac.vllm: whole layers: queries that their positions scale "
                             "(llama_4_scaling) are not served")
        name = self.mla_attn.layer_name
        # Rows of requests that pad a batch of decodes, and those behind it, stay as they are.
        output = (torch.zeros_like(hidden_states) if self._is_compiled else
                  _make_output(hidden_states, name))
        torch.ops.mlac_vllm.layer(hidden_states, output, name)
        if self._ranks > 1:
            reduced: torch.Tensor = tensor_model_parallel_all_reduce(output)
            return reduced
        return output


def register() -> None:
    """May be called again."""
    from vllm.model_executor.custom_op import op_registry_oot

    name = MultiHeadLatentAttentionWrapper.__name__
    if name not in op_registry_oot:  # somebody else's stays
        PluggableLayer.register_oot(name=name)(Layer)
