# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention over caches as operators of a graph, and descriptors of them (paged-cache.md sections 9
to 12)::

    from mlac.attention import AttentionInfo, AttentionNodes, AttentionRegistry

    descriptor = AttentionRegistry.get("PagedMultiHead")
    nodes = AttentionNodes(descriptor, sequences)          # mlac.sequence_info
    node = nodes.add(AttentionInfo(num_heads=32, num_kv_heads=8, head_dim=128, dtype="f32"))
    nodes.initialize()
    nodes.prepare()                                        # each step
    output = nodes.run(node, q, k, v)

Operators take arrays of NumPy or tensors of torch, and compute by packages that mla-compile makes
the first time. `mlac.attention.torch` registers them as torch.ops.attention and torch.ops.mlac.
Needs NumPy."""

from ._config import AttentionInfo, CacheConfig, PositionalEmbeddingConfig
from ._descriptors import FlattenedMultiHead, MultiHead, MultiHeadLatent, PagedMultiHead
from ._grouped import (
    flattened_mha_with_cache,
    fused_flattened_mha_with_cache,
    fused_flattened_mha_with_cache_rope_fusion,
    fused_mha_with_cache,
    fused_mha_with_paged_cache,
    paged_mha_with_cache,
)
from ._latent import mla_with_cache
from ._metadata import prepare_fused_mha_metadata, prepare_paged_metadata
from ._nodes import AttentionNodes
from ._op import Op, Spec, spec_of
from ._registry import AttentionDescriptor, AttentionRegistry
from ._sdpa import scaled_dot_product_attention

__all__ = [
    "AttentionDescriptor",
    "AttentionInfo",
    "AttentionNodes",
    "AttentionRegistry",
    "CacheConfig",
    "FlattenedMultiHead",
    "MultiHead",
    "MultiHeadLatent",
    "Op",
    "PagedMultiHead",
    "PositionalEmbeddingConfig",
    "Spec",
    "flattened_mha_with_cache",
    "fused_flattened_mha_with_cache",
    "fused_flattened_mha_with_cache_rope_fusion",
    "fused_mha_with_cache",
    "fused_mha_with_paged_cache",
    "mla_with_cache",
    "paged_mha_with_cache",
    "prepare_fused_mha_metadata",
    "prepare_paged_metadata",
    "scaled_dot_product_attention",
    "spec_of",
]
