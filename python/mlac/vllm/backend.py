# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The back end that vLLM loads by its dotted path: class names and signatures are vLLM's."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Sequence
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
from ._kernels import Kernels, Later, Steps, take_cache, target_of
from ._module import Shape
from ._whole import Layers, load_layer
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
class Metadata(MLACommonMetadata[DecodeMetadata]):
    """vLLM's, and what mlac runs for prefills; no plan: vLLM's prefill back end attends."""

    kernels: Kernels | None = None
    prefill_plan: Later | None = None
    layers: Layers | None = None
    decode_plan: Plan | None = None  # of whole layers

    def writes_all(self, rows: int) -> bool:
        """Whether run_layer writes each of so many rows: those of prompts, it does."""
        return self.decode_plan is None and rows == self.num_actual_tokens

    def run_layer(self, layer_name: str, hidden: torch.Tensor, output: torch.Tensor) -> None:
        """A whole layer: decodes are the first tokens, prefills the ones behind them."""
        assert self.layers is not None
        first, last = self.num_decode_tokens, self.num_actual_tokens
        prefills = None if self.prefill_plan is None else self.prefill_plan.take()
        for plan, begin, end in ((self.decode_plan, 0, first), (prefills, first, last)):
            if plan is not None:
                self.layers.run(plan, layer_name, hidden[begin:end], output[begin:end])


def _common_codes(layers: Sequence[Any]) -> str:
    """What the products of whole layers keep: of all layers, which share a package."""
    kept = {layer.mlac_codes() for layer in layers}
    return str(kept.pop()) if len(kept) == 1 else "none"


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
        self._has_codes = self._attention[0].impl.kv_cache_dtype.startswith("fp8")
        self._has_prefills = isinstance(self._prefill_backend, Prefill)
        self._kernels: Kernels | None = None
        self._whole: Layers | None = None
        if hasattr(self._attention[0], "mlac_weights"):
            self._steps: Steps = self._make_layers(layer_names)
        else:
            self._steps = self._make_kernels(layer_names)
        self._caches: list[torch.Tensor] = []
        self._scales: list[float] = []
        self._bounds: torch.Tensor | None = None
        self._is_capture = False

    def _make_kernels(self, layer_names: list[str]) -> Kernels:
        first, config = self._attention[0].impl, self.vllm_config
        dtype: Any = config.model_config.dtype
        scheduler = config.scheduler_config
        # Ranks of decode context parallelism attend for all heads of theirs together, each to its
        # part of the keys; of a short request a rank may have none.
        ranks = self.dcp_world_size
        self._kernels = kernels = Kernels(
            Shape(heads=first.num_heads * ranks, rank=first.kv_lora_rank,
                  rope=first.qk_rope_head_dim, block_size=self.kv_cache_spec.block_size,
                  scale=float(first.scale), dtype=DTYPES[dtype],
                  query_len=self.reorder_batch_threshold,
                  cache="fp8" if self._has_codes else "auto",
                  nope=first.qk_nope_head_dim if self._has_prefills else 0,
                  value=first.v_head_dim if self._has_prefills else 0,
                  # Between ranks vLLM gathers other rows.
                  query_width=first.qk_nope_head_dim + first.qk_rope_head_dim if ranks == 1 else 0),
            layer_names, self.device, scheduler.max_num_seqs, config.model_config.max_model_len,
            scheduler.max_num_batched_tokens if self._has_prefills else 0, may_lack_keys=ranks > 1)
        if self._has_prefills:
            for name, layer in zip(layer_names, self._attention):
                layer.impl.layer_name = name  # vLLM does not tell forward_mha
                kernels.bind_weight(name, get_and_maybe_dequant_weights(
                    layer.impl.kv_b_proj, out_dtype=dtype))
        return kernels

    def _make_layers(self, layer_names: list[str]) -> Layers:
        first, config = self._attention[0], self.vllm_config
        dtype: Any = config.model_config.dtype
        scheduler = config.scheduler_config
        package = load_layer(config.model_config.hf_text_config.to_dict(), first.impl.num_heads,
                             target_of(self.device), dtype=DTYPES[dtype],
                             block_size=self.kv_cache_spec.block_size,
                             scale=float(first.impl.scale),
                             codes=_common_codes(self._attention))
        self._whole = layers = Layers(
            package, layer_names, self.device, scheduler.max_num_seqs,
            scheduler.max_num_batched_tokens, config.model_config.max_model_len)
        for name, layer in zip(layer_names, self._attention):
            layers.bind_weights(name, layer.mlac_weights(dtype, layers.coded))
        return layers

    def build_for_cudagraph_capture(self, common_attn_metadata: Any) -> Metadata:
        self._is_capture = True
        try:
            metadata: Metadata = super().build_for_cudagraph_capture(common_attn_metadata)
        finally:
            self._is_capture = False
        return metadata

    def build(self, common_prefix_len: int, common_attn_metadata: Any,
              *args: Any, **kwargs: Any) -> Metadata:
        self._bounds = common_attn_metadata.seq_lens_cpu_upper_bound
        self._slots = common_attn_metadata.slot_mapping
        self._positions = getattr(common_attn_metadata, "positions", None)
        metadata: Metadata = super().build(common_prefix_len, common_attn_metadata, *args, **kwargs)
        if metadata.prefill is not None and (self._kernels is None or self._has_prefills):
            self._plan_prefills(metadata, common_attn_metadata)
        if self._whole is not None:
            metadata.layers = self._whole
            if metadata.decode is not None:
                assert isinstance(metadata.decode, DecodeMetadata)
                metadata.decode_plan = metadata.decode.plan
        return metadata

    def _plan_prefills(self, metadata: Metadata, common: Any) -> None:
        self._bind()
        first = metadata.num_decodes
        query_lens = common.query_start_loc_cpu.diff()[first:metadata.num_reqs].tolist()
        assert self._bounds is not None and metadata.prefill is not None
        # Exact for prefills, vLLM says.
        seq_lens = self._bounds[first:metadata.num_reqs].tolist()
        table = metadata.prefill.block_table
        if self._kernels is not None:
            metadata.kernels = self._kernels
            make = functools.partial(self._kernels.plan_prefills, query_lens, seq_lens, table)
        else:
            slots = metadata.slot_mapping[metadata.num_decode_tokens:]
            make = functools.partial(self._steps.plan_tables, query_lens, seq_lens, table, slots)
        metadata.prefill_plan = Later(make)

    def _bind(self) -> None:
        """Every step asks, and nearly none has anything new."""
        scales = [layer._k_scale_float for layer in self._attention] if self._has_codes else []
        caches = [layer.kv_cache for layer in self._attention]
        if scales == self._scales and len(caches) == len(self._caches) and all(
                map(operator.is_, caches, self._caches)):
            return
        self._steps.bind([take_cache(cache) for cache in caches], scales)
        self._caches, self._scales = caches, scales

    def _build_decode(self, block_table_tensor: torch.Tensor, seq_lens_device: torch.Tensor,
                      max_seq_len: int, query_start_loc_cpu: torch.Tensor,
                      *args: Any, **kwargs: Any) -> DecodeMetadata:
        common = super()._build_decode(block_table_tensor, seq_lens_device, max_seq_len,
                                       query_start_loc_cpu, *args, **kwargs)
        count = len(seq_lens_device)
        query_lens = ([1] * count if self.reorder_batch_threshold == 1 else
                      query_start_loc_cpu.diff().tolist())
        bounds = (torch.full((count,), max_seq_len) if self._bounds is None else
                  self._bounds[:count])
        if self.dcp_world_size > 1:
            bounds = self._most_of_a_rank(bounds)
        self._bind()
        given = query_lens, bounds, seq_lens_device, block_table_tensor
        if self._kernels is not None:
            plan = self._kernels.plan(*given, self._is_capture)
        else:
            assert self._whole is not None
            plan = self._whole.plan_decodes(*given, self._slots, self._positions,
                                            self._is_capture)
        return DecodeMetadata(**vars(common), kernels=self._kernels, plan=plan)

    def _most_of_a_rank(self, tokens: torch.Tensor) -> torch.Tensor:
        """The most keys that a rank of decode context parallelism has of a request: blocks of
        dcp_local_block_size tokens go to the ranks in turn."""
        return -(-tokens // self.dcp_virtual_block_size) * self.dcp_local_block_size


class Impl(MLACommonImpl[Metadata]):
    """Attends for the decodes, and for prefills where mlac is chosen for them; vLLM appends and
    projects."""

    can_return_lse_for_decode = True
    supports_dcp = True  # vLLM 0.33 asks
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
        attn_metadata.kernels.run_prefill(plan.take(), self.layer_name, q, kv_c_normed, k_pe,
                                          output.view(len(q), q.shape[1], -1))

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
    supported_kv_cache_dtypes: ClassVar[list[Any]] = ["auto", "bfloat16", "fp8", "fp8_e4m3"]

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
    def get_supported_kernel_block_sizes(*args: Any) -> list[Any]:
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
