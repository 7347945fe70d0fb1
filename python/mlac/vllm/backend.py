# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The back end that vLLM loads by its dotted path: class names and signatures are vLLM's."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import torch
from vllm.model_executor.layers.attention.mla_attention import (
    MLACommonBackend,
    MLACommonDecodeMetadata,
    MLACommonImpl,
    MLACommonMetadata,
    MLACommonMetadataBuilder,
    QueryLenSupport,
)
from vllm.v1.attention.backend import AttentionCGSupport

from .._plan import Plan
from ._kernels import Kernels, take_cache
from ._module import Shape

_DTYPES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}

# Pages whose copies the Hopper schedules take; the CPU takes any.
_BLOCK_SIZES = [16, 32, 64, 128]


@dataclasses.dataclass
class DecodeMetadata(MLACommonDecodeMetadata):
    """vLLM's, and what mlac runs."""

    kernels: Kernels | None = None
    plan: Plan | None = None


class Builder(MLACommonMetadataBuilder[MLACommonMetadata]):
    """Plans each step once, for all layers."""

    # Not tried in full graphs on a GPU yet: attention runs between the pieces of a graph.
    _cudagraph_support: ClassVar[AttentionCGSupport] = AttentionCGSupport.NEVER
    # The rows of a speculative decode: as many for every request.
    query_len_support: ClassVar[QueryLenSupport] = QueryLenSupport.UNIFORM

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any,
                 device: torch.device, *args: Any, **kwargs: Any):
        super().__init__(kv_cache_spec, layer_names, vllm_config, device, *args, **kwargs)
        context = vllm_config.compilation_config.static_forward_context
        self._attention = [context[name] for name in layer_names]
        first = self._attention[0].impl
        self._has_codes = first.kv_cache_dtype.startswith("fp8")
        self._kernels = Kernels(
            Shape(heads=first.num_heads, rank=first.kv_lora_rank, rope=first.qk_rope_head_dim,
                  block_size=kv_cache_spec.block_size, scale=float(first.scale),
                  dtype=_DTYPES[vllm_config.model_config.dtype],
                  query_len=self.reorder_batch_threshold,
                  cache="fp8" if self._has_codes else "auto"),
            layer_names, device, vllm_config.scheduler_config.max_num_seqs,
            vllm_config.model_config.max_model_len)
        self._bounds: list[int] | None = None

    def build(self, common_prefix_len: int, common_attn_metadata: Any,
              *args: Any, **kwargs: Any) -> MLACommonMetadata:
        bounds = common_attn_metadata.seq_lens_cpu_upper_bound
        self._bounds = None if bounds is None else bounds.tolist()
        return super().build(common_prefix_len, common_attn_metadata, *args, **kwargs)

    def _build_decode(self, block_table_tensor: torch.Tensor, seq_lens_device: torch.Tensor,
                      max_seq_len: int, query_start_loc_cpu: torch.Tensor,
                      *args: Any, **kwargs: Any) -> DecodeMetadata:
        common = super()._build_decode(block_table_tensor, seq_lens_device, max_seq_len,
                                       query_start_loc_cpu, *args, **kwargs)
        query_lens = query_start_loc_cpu.diff().tolist()
        bounds = self._bounds[:len(query_lens)] if self._bounds else [max_seq_len] * len(query_lens)
        scales = [layer._k_scale_float for layer in self._attention] if self._has_codes else []
        self._kernels.bind([take_cache(layer) for layer in self._attention], scales)
        plan = self._kernels.plan(query_lens, bounds, seq_lens_device, block_table_tensor)
        return DecodeMetadata(**vars(common), kernels=self._kernels, plan=plan)


class Impl(MLACommonImpl[MLACommonMetadata]):
    """Attends for the decodes; vLLM appends, projects, and runs prefills."""

    can_return_lse_for_decode = True

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.supports_quant_query_input = False  # codes are read, queries stay as they are

    def forward_mqa(self, q: Any, kv_c_and_k_pe_cache: torch.Tensor, attn_metadata: Any,
                    layer: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
        """q: (latent queries [B, N, rank], rotated rope queries [B, N, rope]), or both in one."""
        if not isinstance(q, tuple):
            q = q.split([self.kv_lora_rank, self.qk_rope_head_dim], dim=-1)
        decode = attn_metadata.decode
        output, lse = decode.kernels.run(decode.plan, layer.layer_name, *q)
        return output, lse


class Backend(MLACommonBackend):
    """Dense MLA over bf16, f16 and f32 caches, and caches of e4m3 with a scale for each layer."""

    supported_dtypes: ClassVar[list[torch.dtype]] = list(_DTYPES)
    supported_kv_cache_dtypes: ClassVar[list[str]] = ["auto", "bfloat16", "fp8", "fp8_e4m3"]

    @staticmethod
    def get_name() -> str:
        return "CUSTOM"  # the member of vLLM's enumeration that is free for others

    @staticmethod
    def get_impl_cls() -> type[Impl]:
        return Impl

    @staticmethod
    def get_builder_cls() -> type[Builder]:
        return Builder

    @staticmethod
    def get_supported_kernel_block_sizes(*args: Any) -> list[int]:
        return list(_BLOCK_SIZES)

    @classmethod
    def supports_compute_capability(cls, capability: Any) -> bool:
        return bool(capability.major == 9)

    @classmethod
    def supports_combination(cls, head_size: int, dtype: Any, kv_cache_dtype: Any, block_size: Any,
                             use_mla: bool, has_sink: bool, use_sparse: bool, *args: Any,
                             **kwargs: Any) -> str | None:
        if use_sparse:
            return "mlac.vllm attends to all keys: it has no sparse back end"
        if has_sink:
            return "mlac.vllm has no attention sinks"
        if not use_mla:
            return "mlac.vllm serves Multi-head Latent Attention only"
        return None
