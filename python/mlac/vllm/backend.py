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
from vllm.model_executor.layers.quantization.utils.quant_utils import (
    get_and_maybe_dequant_weights,
)
from vllm.v1.attention.backend import AttentionCGSupport

from .._plan import Plan
from ._kernels import Kernels, take_cache
from ._module import Shape
from .prefill import Prefill

DTYPES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}

# Pages whose copies the Hopper schedules take; the CPU takes any.
BLOCK_SIZES = [16, 32, 64, 128]


@dataclasses.dataclass
class DecodeMetadata(MLACommonDecodeMetadata):
    """vLLM's, and what mlac runs."""

    kernels: Kernels | None = None
    plan: Plan | None = None


@dataclasses.dataclass
class Metadata(MLACommonMetadata):
    """vLLM's, and what mlac runs for prefills; no plan: vLLM's prefill back end attends."""

    kernels: Kernels | None = None
    prefill_plan: Plan | None = None


class Builder(MLACommonMetadataBuilder[Metadata]):
    """Plans each step once, for all layers."""

    # Of batches of decodes with as many rows for each: launches depend on their number alone.
    _cudagraph_support: ClassVar[AttentionCGSupport] = AttentionCGSupport.UNIFORM_BATCH
    # The rows of a speculative decode: as many for every request.
    query_len_support: ClassVar[QueryLenSupport] = QueryLenSupport.UNIFORM

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any,
                 device: torch.device, *args: Any, **kwargs: Any):
        super().__init__(kv_cache_spec, layer_names, vllm_config, device, Metadata, *args, **kwargs)
        context = vllm_config.compilation_config.static_forward_context
        self._attention = [context[name] for name in layer_names]
        first = self._attention[0].impl
        self._has_codes = first.kv_cache_dtype.startswith("fp8")
        has_prefills = isinstance(self._prefill_backend, Prefill)
        dtype = vllm_config.model_config.dtype
        scheduler = vllm_config.scheduler_config
        self._kernels = Kernels(
            Shape(heads=first.num_heads, rank=first.kv_lora_rank, rope=first.qk_rope_head_dim,
                  block_size=kv_cache_spec.block_size, scale=float(first.scale),
                  dtype=DTYPES[dtype], query_len=self.reorder_batch_threshold,
                  cache="fp8" if self._has_codes else "auto",
                  nope=first.qk_nope_head_dim if has_prefills else 0,
                  value=first.v_head_dim if has_prefills else 0),
            layer_names, device, scheduler.max_num_seqs, vllm_config.model_config.max_model_len,
            scheduler.max_num_batched_tokens if has_prefills else 0)
        if has_prefills:
            for name, layer in zip(layer_names, self._attention):
                layer.impl.layer_name = name  # vLLM does not tell forward_mha
                self._kernels.bind_weight(name, get_and_maybe_dequant_weights(
                    layer.impl.kv_b_proj, out_dtype=dtype))
        self._has_prefills = has_prefills
        self._bounds: list[int] | None = None
        self._is_capture = False

    def build_for_cudagraph_capture(self, common_attn_metadata: Any) -> Metadata:
        self._is_capture = True
        try:
            metadata: Metadata = super().build_for_cudagraph_capture(common_attn_metadata)
        finally:
            self._is_capture = False
        return metadata

    def build(self, common_prefix_len: int, common_attn_metadata: Any,
              *args: Any, **kwargs: Any) -> Metadata:
        bounds = common_attn_metadata.seq_lens_cpu_upper_bound
        self._bounds = None if bounds is None else bounds.tolist()
        metadata: Metadata = super().build(common_prefix_len, common_attn_metadata, *args, **kwargs)
        if self._has_prefills and metadata.prefill is not None:
            self._bind()
            first = metadata.num_decodes
            query_lens = common_attn_metadata.query_start_loc_cpu.diff()[first:metadata.num_reqs]
            assert self._bounds is not None  # exact for prefills, vLLM says
            metadata.kernels = self._kernels
            metadata.prefill_plan = self._kernels.plan_prefills(
                query_lens.tolist(), self._bounds[first:metadata.num_reqs],
                metadata.prefill.block_table)
        return metadata

    def _bind(self) -> None:
        scales = [layer._k_scale_float for layer in self._attention] if self._has_codes else []
        self._kernels.bind([take_cache(layer) for layer in self._attention], scales)

    def _build_decode(self, block_table_tensor: torch.Tensor, seq_lens_device: torch.Tensor,
                      max_seq_len: int, query_start_loc_cpu: torch.Tensor,
                      *args: Any, **kwargs: Any) -> DecodeMetadata:
        common = super()._build_decode(block_table_tensor, seq_lens_device, max_seq_len,
                                       query_start_loc_cpu, *args, **kwargs)
        query_lens = query_start_loc_cpu.diff().tolist()
        bounds = self._bounds[:len(query_lens)] if self._bounds else [max_seq_len] * len(query_lens)
        self._bind()
        plan = self._kernels.plan(query_lens, bounds, seq_lens_device, block_table_tensor,
                                  self._is_capture)
        return DecodeMetadata(**vars(common), kernels=self._kernels, plan=plan)


class Impl(MLACommonImpl[Metadata]):
    """Attends for the decodes, and for prefills where mlac is chosen for them; vLLM appends and
    projects."""

    can_return_lse_for_decode = True
    layer_name: str

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.supports_quant_query_input = False  # codes are read, queries stay as they are

    def forward_mha(self, q: torch.Tensor, kv_c_normed: torch.Tensor, k_pe: torch.Tensor,
                    kv_c_and_k_pe_cache: torch.Tensor, attn_metadata: Any, k_scale: torch.Tensor,
                    output: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        """q: [B, N, nope + rope], rotated; kv_c_normed and k_pe: those of its tokens."""
        plan = attn_metadata.prefill_plan
        if plan is None:
            super().forward_mha(q, kv_c_normed, k_pe, kv_c_and_k_pe_cache, attn_metadata, k_scale,
                                output, *args, **kwargs)
            return
        attended = attn_metadata.kernels.run_prefill(plan, self.layer_name, q, kv_c_normed, k_pe)
        output.copy_(attended.flatten(1))

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

    supported_dtypes: ClassVar[list[torch.dtype]] = list(DTYPES)
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
        return list(BLOCK_SIZES)

    @classmethod
    def supports_compute_capability(cls, capability: Any) -> bool:
        return bool(capability.major == 9)

    @classmethod
    def supports_combination(cls, head_size: int, dtype: Any, kv_cache_dtype: Any, block_size: Any,
                             use_mla: bool, has_sink: bool, use_sparse: bool, *args: Any,
                             **kwargs: Any) -> str | None:
        if use_sparse:
            return "mlac.vllm: sparse attention is the class mlac.vllm.sparse.Backend"
        if has_sink:
            return "mlac.vllm has no attention sinks"
        if not use_mla:
            return "mlac.vllm serves Multi-head Latent Attention only"
        return None
