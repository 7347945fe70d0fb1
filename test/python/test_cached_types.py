# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Types of models of transformers that differ from each other in their attention, whole and over
caches (docs/graphs.md has the table of all that were tried). MLAC_COMPILE names the compiler. Skips
itself where torch and transformers, or their type, are not installed."""

import os
import unittest

import mlac
from cached_models import TINY, CachedModels, torch, transformers
from mlac.sequence_info import SequenceInfo

os.environ.setdefault("MLAC_COMPILER", os.environ["MLAC_COMPILE"])
SIZES = {**TINY, "num_hidden_layers": 2, "pad_token_id": 0}
JOINED = {key: value for key, value in SIZES.items() if key != "head_dim"}
# Prompts are longer than the window, also before the first new token.
WINDOWS = {"sliding_window": 7, "layer_types": ["sliding_attention", "full_attention"]}


@unittest.skipIf(torch is None, "torch and transformers are not installed")
class TypesTest(CachedModels, unittest.TestCase):
    """The same tokens as eager: a batch of three prompts, and then a token of each."""

    def check(self, kind, sizes, expected, implementation="sdpa"):
        """`expected`: windows of the kinds of attention, and how many channels each rotates, by a
        table of frequencies, or (negative) by rows of the graph's tables."""
        if kind not in transformers.CONFIG_MAPPING:
            self.skipTest(f"transformers {transformers.__version__} has no {kind}")
        model = self.make_model(kind, sizes, implementation)
        info = SequenceInfo(max_seq_len=32, max_batch_size=3, page_size=4)
        cached = self.make_cached(model, info, device=mlac.Device("cpu", 1), target="cpu",
                                  check_rows=False)  # which test_cached_experts.py tests
        tokens = self.generate(cached)
        self.assertEqual([len(row) - len(prompt) for row, prompt in zip(tokens, self.PROMPTS)],
                         [self.NEW_TOKENS] * len(self.PROMPTS))
        self.assertEqual(tokens, self.expected_along(model, tokens))
        rotated = lambda rope: 0 if rope is None else rope["dim"] * (1 if rope["frequencies"] else -1)
        self.assertEqual([(kind["window"], rotated(kind["rope"])) for kind in cached._attend._kinds],
                         expected)
        self.assertFalse(self.names_left(cached) & {"scaled_dot_product_attention", "softmax"})
        return cached._attend._kinds

    def test_D46_tokens_of_gemma2(self):
        """Softcaps, and windows in every other layer."""
        kinds = self.check("gemma2", {**SIZES, **WINDOWS, "query_pre_attn_scalar": 24},
                           [(7, 24), (0, 24)], "eager")
        self.assertEqual([kind["softcap"] for kind in kinds], [50, 50])

    def test_D46_tokens_of_gemma3(self):
        """Two ropes: a package has one table, so that the other's rows are the graph's."""
        self.check("gemma3_text", {**SIZES, **WINDOWS}, [(7, 24), (0, -24)])

    def test_D46_tokens_of_cohere2(self):
        """Rope over neighbours, and none in layers without a window; parallel residuals."""
        kinds = self.check("cohere2", {**SIZES, **WINDOWS}, [(7, 24), (0, 0)])
        self.assertEqual(kinds[0]["rope"]["order"], "interleaved")

    def test_D46_tokens_of_smollm3(self):
        """Layers without rope by a list."""
        self.check("smollm3", {**JOINED, "no_rope_layers": [1, 0]}, [(0, 16), (0, 0)])

    def test_D46_tokens_of_olmo(self):
        """Projections that are clipped: no node that is followed."""
        self.check("olmo", {**JOINED, "clip_qkv": 0.5}, [(0, 16)])

    def test_D46_tokens_of_phi(self):
        """A part of heads under rope, layer norms with biases on heads."""
        self.check("phi", {**JOINED, "partial_rotary_factor": 0.5, "qk_layernorm": True}, [(0, 8)])

    def test_D46_tokens_of_gpt_neox(self):
        """Joined projections, head by head."""
        self.check("gpt_neox", {**JOINED, "rotary_pct": 0.5}, [(0, 8)])

    def test_D46_tokens_of_phi3(self):
        """Joined projections; rope of parts of heads that are all of them, and a window in all layers."""
        self.check("phi3", {**JOINED, "sliding_window": 7}, [(7, 16)])

    def test_D46_tokens_of_opt(self):
        """A padding mask of ones that the model makes, learned places, biases."""
        self.check("opt", {**SIZES, "ffn_dim": 96, "word_embed_proj_dim": 64}, [(0, 0)])

    def test_D46_tokens_of_codegen(self):
        """Scores and mask scaled together, in a graph without scaled_dot_product_attention."""
        kinds = self.check("codegen", {**JOINED, "rotary_dim": 8, "n_positions": 128}, [(0, 0)], "eager")
        self.assertEqual(kinds[0]["scale"], 0.25)


if __name__ == "__main__":
    unittest.main()
