# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prefills of expanded keys and values, request by request."""

import torch
from vllm.model_executor.layers.attention import mla_attention
from vllm.v1.attention.backends.mla.prefill.base import MLAPrefillBackend


def _merge(output, prefix_output, prefix_lse, suffix_output, suffix_lse, output_lse=None,
           prefill_tokens_with_context=None, output_scale=None):
    """vLLM's merge_attn_states, whose kernels are a GPU's."""
    count = len(output) if prefill_tokens_with_context is None else prefill_tokens_with_context
    prefix_lse = prefix_lse.clone()
    prefix_lse[:, count:] = float("-inf")
    both = torch.logaddexp(prefix_lse, suffix_lse)
    weights = [torch.exp(lse - both).T.unsqueeze(-1) for lse in (prefix_lse, suffix_lse)]
    prefix = prefix_output.float().nan_to_num()
    prefix = torch.cat([prefix[:count], torch.zeros_like(suffix_output[count:]).float()])
    output.copy_(weights[0] * prefix + weights[1] * suffix_output.float())
    if output_lse is not None:
        output_lse.copy_(both)


# Requests without context have -inf and zeros from _run already.
mla_attention.mask_empty_context = lambda *_: None
mla_attention.merge_attn_states = _merge


def _attend(query, keys, values, scale, causal):
    scores = torch.einsum("qhd,khd->hqk", query.float(), keys.float()) * scale
    if causal:
        new, seen = scores.shape[1:]
        scores.masked_fill_(torch.ones(new, seen, dtype=torch.bool).triu(seen - new + 1),
                            float("-inf"))
    output = torch.einsum("hqk,khd->qhd", scores.softmax(-1), values.float())
    return output.to(query.dtype), torch.logsumexp(scores, -1)


class Prefill(MLAPrefillBackend):
    supported_dtypes = [torch.float16, torch.bfloat16, torch.float32]

    @staticmethod
    def get_name():
        return "CUSTOM"

    def _run(self, q, k, v, key_starts, causal):
        starts = self._prefill_metadata.query_start_loc.tolist()
        parts = [_attend(q[begin:end], k[first:last], v[first:last], self.scale, causal)
                 if last > first else
                 (q.new_zeros(end - begin, *v.shape[1:]),
                  torch.full((q.shape[1], end - begin), float("-inf")))
                 for begin, end, first, last in zip(starts, starts[1:], key_starts, key_starts[1:])]
        return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts], 1)

    def run_prefill_new_tokens(self, q, k, v, return_softmax_lse, out=None, output_scale=None):
        output, lse = self._run(q, k, v, self._prefill_metadata.query_start_loc.tolist(), True)
        return (output, lse) if return_softmax_lse else output

    def run_prefill_context_chunk(self, chunk_idx, q, k, v):
        chunks = self._prefill_metadata.chunked_context
        return self._run(q, k, v, chunks.cu_seq_lens[chunk_idx].tolist(), False)
