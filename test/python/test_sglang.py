# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mlac.sglang: decodes over a pool of SGLang's, made and called as SGLang does. Skipped where
SGLang or torch are not installed; no server runs."""

import importlib.util
import logging
import os
import unittest
from types import SimpleNamespace
from unittest import mock

import mlac
import mlac.sglang

COMPILE = os.environ.get("MLAC_COMPILE", "")
HEADS, RANK, ROPE, PAGE, LAYERS, SCALE = 4, 64, 16, 16, 2, 0.1


class VersionTest(unittest.TestCase):
    def test_other_versions_are_named(self):
        self.assertIsNone(mlac.sglang.unsupported_version("0.5.23"))
        for version in ("0.5.15", "0.6.0", "dev"):
            self.assertEqual(mlac.sglang.unsupported_version(version), f"SGLang {version}: "
                             "expected 0.5.23, which mlac.sglang was tested with")


@unittest.skipUnless(os.path.exists(COMPILE), "MLAC_COMPILE is not there")
@unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
@unittest.skipUnless(importlib.util.find_spec("sglang"), "SGLang is not installed")
class DecodeTest(unittest.TestCase):
    def make(self, **options):
        """A back end of SGLang's registry, and the runner that it was made for."""
        import torch
        from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
        from sglang.srt.mem_cache.memory_pool import MLATokenToKVPool

        mlac.sglang.register()
        mlac.sglang.register()  # once more changes nothing
        page = options.get("page_size", PAGE)
        pool = MLATokenToKVPool(size=40 * page, page_size=page, dtype=torch.float32,
                                kv_lora_rank=RANK, qk_rope_head_dim=ROPE, layer_num=LAYERS,
                                device="cpu", enable_memory_saver=False)
        config = SimpleNamespace(kv_lora_rank=RANK, qk_rope_head_dim=ROPE, scaling=SCALE,
                                 num_attention_heads=HEADS, context_len=96)
        slots = torch.zeros(8, 96, dtype=torch.int32)
        runner = SimpleNamespace(
            model_config=config, token_to_kv_pool=pool, dtype=options.get("dtype", torch.float32),
            req_to_token_pool=SimpleNamespace(req_to_token=slots),
            server_args=SimpleNamespace(speculative_algorithm=options.get("draft")))
        parallel = SimpleNamespace(attn_tp_size=1, attn_dcp_size=options.get("ranks", 1),
                                   dcp_enabled=False)
        with mock.patch.dict(os.environ, MLAC_COMPILER=COMPILE), \
                mock.patch("mlac.sglang.backend.get_parallel", lambda: parallel):
            return ATTENTION_BACKENDS["mlac"](runner), runner

    def make_batch(self, runner, lengths, indices, mode="DECODE", known=True):
        """Requests whose pages are anywhere in the pool, the first page is nobody's."""
        import torch
        from sglang.srt.model_executor.forward_batch_info import ForwardMode

        slots, page = runner.req_to_token_pool.req_to_token, runner.token_to_kv_pool.page_size
        pages = (torch.randperm(39) + 1).tolist()
        for index, length in zip(indices, lengths):
            for first in range(0, length, page):
                count = min(page, length - first)
                slots[index, first:first + count] = pages.pop() * page + torch.arange(count)
        lengths = torch.tensor(lengths)
        indices = torch.tensor(indices)
        return SimpleNamespace(
            forward_mode=ForwardMode[mode], batch_size=len(lengths), seq_lens=lengths,
            seq_lens_cpu=lengths if known else None, req_pool_indices=indices,
            out_cache_loc=slots[indices, lengths - 1].long(), out_cache_loc_is_physical=False)

    def check(self, lengths, known, is_split):
        import torch
        from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
        from sglang.srt.mem_cache import memory_pool

        backend, runner = self.make()
        self.assertIsInstance(backend, AttentionBackend)
        pool, slots = runner.token_to_kv_pool, runner.req_to_token_pool.req_to_token
        for buffer in pool.kv_buffer:
            buffer.fill_(float("nan"))
        indices = [5, 0, 3][:len(lengths)]
        batch = self.make_batch(runner, lengths, indices, known=known)
        rows = torch.randn(LAYERS, len(lengths), max(lengths), RANK + ROPE)
        for layer in range(LAYERS):
            for request, (index, length) in enumerate(zip(indices, lengths)):
                old = slots[index, :length - 1].long()
                pool.kv_buffer[layer][old, 0] = rows[layer, request, :length - 1]
        backend.init_forward_metadata(batch)
        for layer in range(LAYERS):
            attention = SimpleNamespace(layer_id=layer, scaling=SCALE, logit_cap=0.0)
            query = torch.randn(len(lengths), HEADS, RANK + ROPE)
            new = torch.stack([rows[layer, request, length - 1]
                               for request, length in enumerate(lengths)]).unsqueeze(1)
            with mock.patch.object(memory_pool, "get_parallel",
                                   lambda: SimpleNamespace(dcp_enabled=False, attn_dcp_size=1)):
                output = backend.forward(query, new, new[..., :RANK], attention, batch)
            self.assertEqual(output.shape, (len(lengths), HEADS * RANK))
            for request, length in enumerate(lengths):
                keys = rows[layer, request, :length].double()
                scores = torch.einsum("hc,tc->ht", query[request].double(), keys) * SCALE
                wanted = (scores.softmax(-1) @ keys[:, :RANK]).flatten()
                self.assertLess((output[request] - wanted).norm() / wanted.norm(), 1e-5)
            if is_split:
                latent, rope = query.split([RANK, ROPE], -1)
                again = backend.forward(latent, None, None, attention, batch, q_rope=rope)
                self.assertTrue(torch.equal(again, output))

    def test_decodes_over_pages_anywhere(self):
        self.check([37, 1, 96], known=True, is_split=True)

    def test_lengths_that_the_host_does_not_know(self):
        self.check([16, 17], known=False, is_split=False)

    def test_what_is_not_served_is_named(self):
        import torch

        for options, reason in (
                ({"page_size": 1}, "page_size: expected one of 16, 32, 64, 128, got 1"),
                ({"dtype": torch.bfloat16}, "kv_cache_dtype: expected the activations' torch."
                 "bfloat16, got torch.float32"),
                ({"ranks": 2}, "expected a dcp_size of 1, got 2"),
                ({"draft": "EAGLE"}, "speculative decoding is not served")):
            with self.assertRaisesRegex(mlac.Unsupported, "mlac.sglang: " + reason):
                self.make(**options)

    def test_prompts_are_refused_with_what_to_choose(self):
        backend, runner = self.make()
        batch = self.make_batch(runner, [4], [1], "EXTEND")
        with self.assertRaisesRegex(mlac.Unsupported, "EXTEND.*--prefill-attention-backend"):
            backend.init_forward_metadata(batch)

    def test_layers_of_another_scale_are_refused(self):
        import torch

        backend, runner = self.make()
        batch = self.make_batch(runner, [4], [1])
        backend.init_forward_metadata(batch)
        layer = SimpleNamespace(layer_id=1, scaling=0.2, logit_cap=0.0)
        with self.assertRaisesRegex(mlac.Unsupported, "layer 1: expected scores scaled by 0.1"):
            backend.forward(torch.zeros(1, HEADS, RANK + ROPE), None, None, layer, batch)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    unittest.main()
