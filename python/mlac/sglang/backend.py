# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The back end that SGLang makes: method names and arguments are SGLang's."""

from __future__ import annotations

import math
from typing import Any

import torch
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from sglang.srt.mem_cache.memory_pool import KVWriteLoc
from sglang.srt.runtime_context import get_parallel

from .._errors import InvalidArgument, Unsupported
from .._plan import Plan
from ..vllm import Shape
from ..vllm._kernels import Kernels

DTYPES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}
PAGE_SIZES = (16, 32, 64, 128)
_ELSEWHERE = ("choose it by --decode-attention-backend mlac, and another one by "
              "--prefill-attention-backend")


def _reasons_against(runner: Any, ranks: int) -> list[str]:
    config, pool = runner.model_config, runner.token_to_kv_pool
    translator = getattr(runner, "kv_index_translator", None)
    checks = {
        "expected a model with Multi-head Latent Attention":
            not getattr(config, "kv_lora_rank", None) or not hasattr(pool, "kv_cache_dim"),
        f"page_size: expected one of {', '.join(map(str, PAGE_SIZES))}, got {pool.page_size}":
            pool.page_size not in PAGE_SIZES,
        f"kv_cache_dtype: expected the activations' {runner.dtype}, got {pool.dtype}":
            pool.dtype != runner.dtype,
        f"dtype: expected one of {', '.join(map(str, DTYPES))}, got {runner.dtype}":
            runner.dtype not in DTYPES,
        f"expected a dcp_size of 1, got {ranks}": ranks != 1,
        "slots that a unified pool translates are not served":
            bool(getattr(translator, "reads_are_translated", False)),
        "speculative decoding is not served":
            bool(getattr(runner.server_args, "speculative_algorithm", None)),
    }
    return [reason for reason, is_true in checks.items() if is_true]


class Backend(AttentionBackend):
    """Decodes of dense MLA over rows of the activations' type."""

    needs_cpu_seq_lens = False

    def __init__(self, runner: Any):
        super().__init__()
        parallel = get_parallel()
        reasons = _reasons_against(runner, parallel.attn_dcp_size)
        if reasons:
            raise Unsupported("mlac.sglang: " + "; ".join(reasons))
        config, self._pool = runner.model_config, runner.token_to_kv_pool
        self._page_size = self._pool.page_size
        self._scale = float(config.scaling)
        self._rank, self._rope = config.kv_lora_rank, config.qk_rope_head_dim
        self._heads = config.num_attention_heads // parallel.attn_tp_size
        self._most_keys = config.context_len
        self._first_slots = runner.req_to_token_pool.req_to_token[:, ::self._page_size]
        self._device = self._first_slots.device
        # Steps are planned over these, whatever their size, so that graphs find them in place.
        self._requests = runner.req_to_token_pool.req_to_token.shape[0]
        pages = self._first_slots.shape[1]
        self._lengths = torch.zeros(self._requests, dtype=torch.int32, device=self._device)
        self._table = torch.zeros(self._requests, pages, dtype=torch.int32, device=self._device)
        layers = range(self._pool.start_layer, self._pool.start_layer + self._pool.layer_num)
        self._kernels = Kernels(
            Shape(heads=self._heads, rank=self._rank, rope=self._rope,
                  block_size=self._page_size, scale=self._scale, dtype=DTYPES[runner.dtype]),
            [str(layer) for layer in layers], self._device, self._requests, self._most_keys)
        self._plan: Plan | None = None

    def init_forward_metadata_out_graph(self, forward_batch: Any, in_capture: bool = False) -> None:
        """Plans a step, for all layers."""
        mode = forward_batch.forward_mode
        if mode.is_idle():
            return
        if not mode.is_decode():
            raise Unsupported(f"mlac.sglang: serves decodes, got a step of {mode.name}: "
                              + _ELSEWHERE)
        count = forward_batch.batch_size
        lengths = forward_batch.seq_lens[:count]
        self._lengths[:count].copy_(lengths)
        known = forward_batch.seq_lens_cpu
        bounds = [self._most_keys] * count if known is None else known[:count].tolist()
        pages = -(-max(bounds) // self._page_size)
        first = self._first_slots[forward_batch.req_pool_indices[:count], :pages]
        self._table[:count, :pages].copy_(first // self._page_size)
        self._kernels.bind([self._rows(buffer) for buffer in self._pool.kv_buffer])
        self._plan = self._kernels.plan([1] * count, bounds, self._lengths[:count],
                                        self._table[:count], in_capture)

    def _rows(self, buffer: torch.Tensor) -> torch.Tensor:
        """A layer's pool [slots, 1, columns] by pages."""
        return buffer.view(-1, self._page_size, buffer.shape[-1])

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        if max_bs > self._requests:
            raise InvalidArgument(f"mlac.sglang: graphs of {max_bs} requests, of which the pool "
                                  f"has {self._requests}")

    def get_cuda_graph_seq_len_fill_value(self) -> int:
        return 1  # of requests that pad a batch: the first slot of the pool, which is nobody's

    def forward_decode(self, q: torch.Tensor, k: torch.Tensor | None, v: torch.Tensor | None,
                       layer: Any, forward_batch: Any, save_kv_cache: bool = True,
                       q_rope: torch.Tensor | None = None, k_rope: torch.Tensor | None = None,
                       **kwargs: Any) -> torch.Tensor:
        """q: latent queries and rotated rope queries in one, or these in q_rope; k likewise, or
        None where the rows are in the pool already."""
        if not math.isclose(layer.scaling, self._scale, rel_tol=1e-5) or layer.logit_cap:
            raise Unsupported(f"mlac.sglang: layer {layer.layer_id}: expected scores scaled by "
                              f"{self._scale} and not capped, got {layer.scaling}, "
                              f"capped at {layer.logit_cap}")
        if k is not None and save_kv_cache:
            place = KVWriteLoc.for_batch(forward_batch)
            if k_rope is None:
                self._pool.set_kv_buffer(layer, place, k, v)
            else:
                self._pool.set_mla_kv_buffer(layer, place, k, k_rope)
        if q_rope is None:
            q, q_rope = q.view(-1, self._heads, self._rank + self._rope).split(
                [self._rank, self._rope], dim=-1)
        assert self._plan is not None
        output, _ = self._kernels.run(self._plan, str(layer.layer_id),
                                      q.view(-1, self._heads, self._rank),
                                      q_rope.view(-1, self._heads, self._rope))
        return output.view(-1, self._heads * self._rank)

    def forward_extend(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        raise Unsupported(f"mlac.sglang: serves decodes alone: {_ELSEWHERE}")
