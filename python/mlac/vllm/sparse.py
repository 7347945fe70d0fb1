# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The back end for models whose tokens see what an indexer selects (DeepSeek-V3.2, GLM-5).

vLLM's indexer writes the positions that each token sees; mlac's kernels find their rows by the
block table and attend to these, for decodes and prompts alike. Short prompts, whose tokens see
everything, stay with vLLM's prefill back end, as with every sparse back end of vLLM.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import torch
from vllm.model_executor.layers.attention import sparse_mla_attention
from vllm.model_executor.layers.attention.mla_attention import MLACommonPrefillMetadata
from vllm.model_executor.layers.attention.sparse_mla_attention import (
    SparseMLACommonImpl,
    SparseMLACommonMetadataBuilder,
)
from vllm.v1.attention.backend import AttentionBackend, AttentionCGSupport, AttentionMetadata

from .._plan import Plan
from ._kernels import Kernels, take_cache
from ._module import Shape
from .backend import BLOCK_SIZES, DTYPES
from .prefill import Prefill


@dataclasses.dataclass
class _Fields(AttentionMetadata):
    """What the builder of vLLM 0.26 fills."""

    num_reqs: int
    max_query_len: int
    max_seq_len: int
    num_actual_tokens: int
    query_start_loc: torch.Tensor
    slot_mapping: torch.Tensor
    block_table: torch.Tensor
    req_id_per_token: torch.Tensor
    seq_lens: torch.Tensor
    block_size: int
    topk_tokens: int
    num_decodes: int
    num_prefills: int
    num_decode_tokens: int
    prefill_max_seq_len: int
    prefill: MLACommonPrefillMetadata | None
    cp_kv_cache_interleave_size: int


# vLLM 0.33 has a class for them.
_Common = getattr(sparse_mla_attention, "SparseMLACommonMetadata", _Fields)


@dataclasses.dataclass
class Metadata(_Common):  # type: ignore[misc, valid-type]
    """What vLLM's builder fills, and what mlac runs."""

    step: Step | None = None


@dataclasses.dataclass
class Step:
    """A step of one batch: planned by the first layer that runs a part of it, as only then is
    known which requests vLLM's prefill back end takes; where a CUDA graph runs it, before."""

    kernels: Kernels
    query_lens: list[int]
    bounds: list[int]
    seq_lens: torch.Tensor
    block_table: torch.Tensor
    tokens: int = -1
    plan: Plan | None = None

    def take(self, tokens: int) -> Plan:
        """The plan of the requests that have the first `tokens` tokens."""
        if self.plan is None or tokens != self.tokens:
            count, before = 0, 0
            while before < tokens:
                before += self.query_lens[count]
                count += 1
            self._fill(count, tokens)
        assert self.plan is not None
        return self.plan

    def prepare_graph(self, tokens: int, is_capture: bool) -> None:
        """Plans a batch of decodes, requests that pad it among them, if a graph of it is about to
        be captured or may be replayed."""
        if is_capture or self.kernels.is_captured(self.query_lens):
            self._fill(len(self.query_lens), tokens, is_capture)

    def _fill(self, count: int, tokens: int, is_capture: bool = False) -> None:
        self.plan = self.kernels.plan(self.query_lens[:count], self.bounds[:count],
                                      self.seq_lens[:count], self.block_table[:count], is_capture)
        self.tokens = tokens


class Builder(SparseMLACommonMetadataBuilder[Metadata]):
    """Reads what the host knows of a step."""

    metadata_cls = Metadata
    # Of batches of decodes with as many rows for each: launches depend on their number alone.
    _cudagraph_support: ClassVar[AttentionCGSupport] = AttentionCGSupport.UNIFORM_BATCH

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any,
                 device: torch.device, *args: Any, **kwargs: Any):
        super().__init__(kv_cache_spec, layer_names, vllm_config, device, *args, **kwargs)
        if isinstance(self._prefill_backend, Prefill):
            raise ValueError("mla_prefill_backend CUSTOM (mlac) is for dense models: short prompts "
                             "of sparse ones need one of vLLM's")
        ranks = vllm_config.parallel_config.decode_context_parallel_size
        if ranks != 1:
            raise ValueError("mlac.vllm.sparse: expected a decode_context_parallel_size of 1, "
                             f"got {ranks}")
        self._init_reorder_batch_threshold(1, supports_spec_as_decode=True)
        context = vllm_config.compilation_config.static_forward_context
        self._attention = [context[name] for name in layer_names]
        first = self._attention[0].impl
        scheduler = vllm_config.scheduler_config
        self._kernels = Kernels(
            Shape(heads=first.num_heads, rank=first.kv_lora_rank, rope=first.qk_rope_head_dim,
                  block_size=kv_cache_spec.block_size, scale=float(first.scale),
                  dtype=DTYPES[vllm_config.model_config.dtype], topk=self.topk_tokens,
                  cache="fp8_ds_mla" if first.kv_cache_dtype == "fp8_ds_mla" else "auto",
                  query_width=first.qk_nope_head_dim + first.qk_rope_head_dim),
            layer_names, device, scheduler.max_num_seqs, vllm_config.model_config.max_model_len,
            scheduler.max_num_batched_tokens)
        self._is_capture = False

    def build_for_cudagraph_capture(self, common_attn_metadata: Any) -> Metadata:
        self._is_capture = True
        try:
            return self.build(0, common_attn_metadata)
        finally:
            self._is_capture = False

    def build(self, common_prefix_len: int, common_attn_metadata: Any,
              *args: Any, **kwargs: Any) -> Metadata:
        given = common_attn_metadata
        metadata: Metadata = super().build(common_prefix_len, given, *args, **kwargs)
        self._kernels.bind([take_cache(layer.kv_cache) for layer in self._attention])
        bounds = given.seq_lens_cpu_upper_bound
        metadata.step = Step(
            self._kernels, given.query_start_loc_cpu[:given.num_reqs + 1].diff().tolist(),
            [given.max_seq_len] * given.num_reqs if bounds is None
            else bounds[:given.num_reqs].tolist(),
            given.seq_lens[:given.num_reqs], given.block_table_tensor[:given.num_reqs])
        if metadata.num_prefills == 0:
            metadata.step.prepare_graph(metadata.num_decode_tokens, self._is_capture)
        return metadata


class Impl(SparseMLACommonImpl[Metadata]):
    """Attends to what the indexer has selected."""

    can_return_lse_for_decode = True

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        if self.topk_indices_buffer is None:
            raise ValueError("mlac.vllm.sparse: expected a layer with the buffer of an indexer's "
                             "selection, got none")
        self.supports_quant_query_input = False  # codes are read, queries stay as they are

    def forward_mqa(self, q: Any, kv_c_and_k_pe_cache: torch.Tensor, attn_metadata: Any,
                    layer: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
        """q: (latent queries [B, N, rank], rotated rope queries [B, N, rope]), or both in one."""
        if not isinstance(q, tuple):
            q = q.split([self.kv_lora_rank, self.qk_rope_head_dim], dim=-1)
        assert self.topk_indices_buffer is not None
        tokens = len(q[0])
        step: Step = attn_metadata.step
        positions = self.topk_indices_buffer[:tokens, :attn_metadata.topk_tokens].contiguous()
        return step.kernels.run(step.take(tokens), layer.layer_name, *q, positions=positions)


class Backend(AttentionBackend):
    """Sparse MLA over bf16, f16 and f32 caches, and rows of 656 bytes (fp8_ds_mla)."""

    supported_dtypes: ClassVar[list[torch.dtype]] = list(DTYPES)
    supported_kv_cache_dtypes: ClassVar[list[Any]] = ["auto", "bfloat16", "fp8_ds_mla"]

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
    def get_supported_head_sizes(cls) -> list[int]:
        return []

    @classmethod
    def is_mla(cls) -> bool:
        return True

    @classmethod
    def is_sparse(cls) -> bool:
        return True

    @staticmethod
    def get_kv_cache_shape(num_blocks: int, block_size: int, num_kv_heads: int, head_size: int,
                           cache_dtype_str: str = "auto") -> tuple[int, ...]:
        row_bytes = 656  # of fp8_ds_mla: 512 codes, 4 scales, 64 rope elements of bf16
        width = row_bytes if cache_dtype_str == "fp8_ds_mla" else head_size
        return (num_blocks, block_size, width)

    @classmethod
    def supports_compute_capability(cls, capability: Any) -> bool:
        return bool(capability.major == 9)

    @classmethod
    def supports_combination(cls, head_size: int, dtype: Any, kv_cache_dtype: Any, block_size: Any,
                             use_mla: bool, has_sink: bool, use_sparse: bool, *args: Any,
                             **kwargs: Any) -> str | None:
        if has_sink:
            return "mlac.vllm has no attention sinks"
        if kv_cache_dtype == "fp8_ds_mla" and dtype != torch.bfloat16:
            return f"mlac.vllm: rows of fp8_ds_mla have rope keys of bf16, got {dtype}"
        return None
