# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM's indexer of sparse models in plain torch, with keys as they are: its kernels are a GPU's."""

import torch
from vllm.forward_context import get_forward_context
from vllm.model_executor.layers import sparse_attn_indexer
from vllm.model_executor.models import deepseek_v2


def _keep(indexer, slots, keys):
    """The keys of all slots, these new ones among them."""
    kept = getattr(indexer, "kept_keys", keys.new_zeros(0, keys.shape[1]))
    most = int(slots.max()) + 1
    if most > len(kept):
        kept = torch.cat([kept, kept.new_zeros(most - len(kept), kept.shape[1])])
    kept[slots] = keys
    indexer.kept_keys = kept
    return kept


def _select(self, hidden_states, qr, positions, rotary_emb):
    context = get_forward_context()
    if context.attn_metadata is None:  # vLLM measures memory
        return None
    name = self.prefix.rsplit(".", 1)[0] + ".attn"
    metadata = context.attn_metadata[name]
    tokens = metadata.num_actual_tokens
    rest = self.head_dim - self.rope_dim
    query = self.wq_b(qr)[0].view(-1, self.n_head, self.head_dim)
    key, weights = self.wk_weights_proj(hidden_states)[0].split([self.head_dim, self.n_head], -1)
    key = self.k_norm(key)
    query_rope, query_rest = query.split([self.rope_dim, rest], -1)
    key_rope, key_rest = key.split([self.rope_dim, rest], -1)
    query_rope, key_rope = rotary_emb(positions, query_rope.contiguous(),
                                      key_rope.unsqueeze(1).contiguous())
    query = torch.cat([query_rope.reshape(-1, self.n_head, self.rope_dim), query_rest], -1)
    key = torch.cat([key_rope.reshape(-1, self.rope_dim), key_rest], -1)
    kept = _keep(self, context.slot_mapping[name][:tokens], key[:tokens])
    self.topk_indices_buffer[:tokens] = -1
    for token in range(tokens):
        seen = torch.arange(int(positions[token]) + 1, device=positions.device)
        table = metadata.block_table[metadata.req_id_per_token[token]]
        rows = table[seen // metadata.block_size].long() * metadata.block_size \
            + seen % metadata.block_size
        scores = (query[token] @ kept[rows].T * self.softmax_scale).relu()
        scores = (weights[token] * self.n_head_scale) @ scores
        chosen = scores.topk(min(self.topk_tokens, len(seen))).indices
        self.topk_indices_buffer[token, :len(chosen)] = chosen.int()
    return self.topk_indices_buffer


deepseek_v2.Indexer.forward = _select
sparse_attn_indexer.has_deep_gemm = lambda: True  # whose kernels are not called
# The keys are not in vLLM's cache.
deepseek_v2.DeepseekV32IndexerCache.get_kv_cache_spec = lambda *_: None
