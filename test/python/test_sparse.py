# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole sparse layers (DeepSeek-V3.2, GLM-5) against float64: the golden one on its stored selection,
random ones on their own, decodes and prefills in one batch, over rows of every format."""

import tempfile
import unittest

import numpy as np

from mlac import reference

import sparse_layers as layers

GOLDEN = layers.DATA / "golden/deepseek_v32_attention.safetensors"
MODULE = "layers.0.self_attn"
# Longer and shorter than the 16 keys that are selected, pages of 64 and their ends.
STEPS = (("prefill", (5, 17, 90, 64)), ("step", (1, 40, 1, 1)), ("decode", (1, 1, 1, 1)),
         ("step", (0, 1, 0, 2)))
# Name: configuration, element type, rows of the cache, options.
SHARES = {"index_topk_freq": 4}  # so that the selection is an output
CASES = {
    "plain": (layers.config(**SHARES), "bf16", "auto", []),
    "gathered": (layers.config(**SHARES), "bf16", "auto", ["--mask-selection=never"]),
    # Wide enough that a GPU makes latents, index keys and weights of heads by one product.
    "joined": (layers.config(hidden_size=512, q_lora_rank=64, **SHARES), "bf16", "auto", []),
    "fp8_ds_mla": (layers.config(**SHARES), "bf16", "fp8_ds_mla", []),
    "fp8_tensor": (layers.config(**SHARES), "bf16", "mla_fp8_tensor", []),
    "separate": (layers.config(**SHARES), "bf16", "fp8_ds_mla", ["--sparse-mode=separate"]),
    "separate_tensor": (layers.config(**SHARES), "bf16", "mla_fp8_tensor",
                        ["--sparse-mode=auto", "--separate-heads=2", "--page-size=16"]),
    "speculative": (layers.config(**SHARES), "bf16", "fp8_ds_mla",
                    ["--sparse-mode=separate", "--decode-threshold=3"]),
    "glm": (layers.config(heads=3, model_type="glm_moe_dsa", **SHARES), "bf16", "auto",
            ["--page-size=16"]),
    "f32": (layers.config(**SHARES), "f32", None, []),
    "f32_slices": (layers.config(**SHARES), "f32", None, ["--scores-budget=1"]),
    "glm_f32": (layers.config(heads=3, model_type="glm_moe_dsa", **SHARES), "f32", None,
                ["--page-size=16"]),
    "f32_gathered": (layers.config(**SHARES), "f32", None, ["--mask-selection=never"]),
    "f32_offline": (layers.config(**SHARES), "f32", None, ["--absorb=offline"]),
    "masks": (layers.config(**SHARES), "bf16", "auto",
              ["--mask-selection=always", "--page-size=16"]),
    "masked_codes": (layers.config(heads=3, **SHARES), "bf16", "fp8_ds_mla",
                     ["--mask-selection=always"]),
    "f32_masked": (layers.config(heads=3, topk=20, **SHARES), "f32", None,
                   ["--mask-selection=always"]),
}


class ServedTest(unittest.TestCase):
    """Compiles the layers that its subclasses serve."""

    names = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.packages = {
            name: layers.compile_layer(config, cls.folder.name, name, f"--dtype={element}",
                                       f"--cache-format={cache or 'auto'}",
                                       "--functions=prefill,decode,step", *options)
            for name, (config, element, cache, options) in CASES.items() if name in cls.names}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def serve(self, name, steps=STEPS, slack=None, **options):
        """Requests of one story, each from its start; every row against float64. `options`: of the
        engine; slack: of scores, if not the type's."""
        config, element, cache, _ = CASES[name]
        rng = np.random.default_rng(len(name))
        weights = layers.random_weights(rng, config)
        served = layers.Served(self.packages[name], weights, element, config["index_topk"],
                               **options)
        story = layers.widen(layers.narrow(rng.standard_normal((200, config["hidden_size"])),
                                           element))
        shape, indexer = reference.config_from_hf(config), reference.indexer_from_hf(config)
        scores = layers.quantised_scores(shape, indexer, weights, story)
        sequences = [served.engine.sequence() for _ in steps[0][1]]
        for function, counts in steps:
            starts, rows = layers.next_rows(sequences, counts)
            place = f"{name}, {function} of {counts} behind {starts}"
            output, selected = served.step(sequences, counts, story[rows], function,
                                           wants_selection=True)
            wrong = layers.judge_selection(selected, scores[rows], rows + 1, config["index_topk"],
                                           slack or layers.SCORE_SLACK[element])
            self.assertEqual(wrong, "", place)
            expected = layers.expected_rows(shape, weights, story, rows, selected, cache)
            self.assertLess(layers.judge_output(output, expected, element, cache), 1, place)


class SparseTest(ServedTest):
    names = ("plain", "gathered", "fp8_ds_mla", "fp8_tensor", "glm", "masks", "masked_codes")

    def test_rows_of_the_cache_type_B08_B10_B40(self):
        self.serve("plain")

    def test_prompts_of_gathered_keys_B06(self):
        self.serve("gathered")

    def test_prompts_through_masks_of_several_blocks_B06(self):
        for name in ("plain", "glm"):
            with self.subTest(name):
                self.serve(name, (("prefill", (190, 33)), ("prefill", (5, 20))))

    def test_decodes_beside_prompts_through_masks_B06(self):
        """And behind one, where it is a prompt with context."""
        for name in ("plain", "glm"):
            with self.subTest(name):
                self.serve(name, (("prefill", (30, 0, 0)), ("step", (1, 70, 100)),
                                  ("step", (1, 1, 1))))
                self.serve(name, (("prefill", (0, 30)), ("step", (60, 1)), ("decode", (1, 1))))

    def test_prompts_behind_cached_tokens_through_masks_B06(self):
        """In one chunk, in several of one or two pages for each request, and without a workspace,
        where they gather; alone and beside decodes."""
        steps = (("prefill", (70, 130, 0)), ("prefill", (40, 3, 50)), ("step", (1, 30, 1)),
                 ("step", (33, 1, 20)), ("decode", (1, 1, 1)))
        for name, page in (("masks", 16), ("masked_codes", 64)):
            for tokens in (None, 3 * page, 7 * page, -1):
                with self.subTest(name, workspace_tokens=tokens):
                    options = {} if tokens is None else {"workspace_tokens": tokens}
                    self.serve(name, steps, **options)

    def test_padded_steps_B06(self):
        """One decode of two, a prompt of two and rows behind both, against the step as it is."""
        config, element, *_ = CASES["plain"]
        rng = np.random.default_rng(7)
        served = layers.Served(self.packages["plain"], layers.random_weights(rng, config), element,
                               config["index_topk"])
        hidden = rng.standard_normal((70, config["hidden_size"]))
        sequence, (decodes, tokens, prompt) = served.engine.sequence(), (2, 50, 40)
        served.step([sequence], [29], hidden[:29], "prefill", wants_selection=True)
        shape = {"num_requests": 4, "num_tokens": tokens, "max_query_len": tokens - decodes,
                 "max_seq_len": 128, "num_decodes": decodes, "num_decode_tokens": decodes}
        padded = np.full((tokens, hidden.shape[1]), 0.5)
        rows = np.r_[0, decodes:decodes + prompt]
        padded[rows] = hidden[29:]
        results = []
        for own, whole in ((None, hidden[29:]), (shape, padded)):
            requests = [sequence.fork(), served.engine.sequence()]
            results.append(served.step(requests, (1, prompt), whole, "step", wants_selection=True,
                                       shape=own))
        (expected, chosen), (output, selected) = results
        np.testing.assert_array_equal(selected[rows], chosen)
        self.assertLess(layers.judge_output(output[rows], expected, element), 1)
        self.assertTrue(np.isnan(np.delete(output, rows, axis=0)).all(), "rows of padding")

    def test_rows_of_656_bytes_B11(self):
        self.serve("fp8_ds_mla")

    def test_rows_of_one_scale(self):
        self.serve("fp8_tensor")

    def test_interleaved_index_rope_V4_49(self):
        self.serve("glm")


class SinglePrecisionTest(ServedTest):
    """On a CPU: GPUs compute in 16 bits."""

    names = ("f32", "f32_slices", "f32_gathered", "f32_offline", "f32_masked", "glm_f32")

    def test_golden_layer_on_its_stored_selection_B44(self):
        config, weights, tensors = layers.read_golden(GOLDEN)
        hidden = tensors[f"{MODULE}/hidden_states"][0].astype(np.float64)
        expected = tensors[f"{MODULE}/output.0"][0]
        selected = tensors[f"{MODULE}.indexer/output"][0]
        # The library fills rows with positions that its mask removes.
        selected = np.where(selected <= np.arange(len(selected))[:, None], selected, -1)
        package = layers.compile_layer(config, self.folder.name, "golden", "--dtype=f32",
                                       "--page-size=16", "--indexer=shared")
        served = layers.Served(package, weights, "f32", config["index_topk"])
        sequence, prompt = served.engine.sequence(), 130
        output, _ = served.step([sequence], [prompt], hidden[:prompt], "prefill",
                                selected[:prompt])
        self.assertLess(reference.relative_error(output, expected[:prompt]), layers.ALLOWED_F32)
        for token in range(prompt, len(hidden)):
            output, _ = served.step([sequence], [1], hidden[token:token + 1], "decode",
                                    selected[token:token + 1])
            self.assertLess(reference.relative_error(output, expected[token:token + 1]),
                            layers.ALLOWED_F32)

    def test_layers_in_single_precision_B30_B38(self):
        for name in self.names:
            with self.subTest(name):
                self.serve(name)

    def test_rows_that_are_no_numbers_change_no_others_B38(self):
        """Of another request, and of padding, which may hold anything: with heads that fill no tile
        of 16 the scores of a token are computed beside those of the next."""
        config, element, *_ = CASES["f32"]
        rng = np.random.default_rng(3)
        weights = layers.random_weights(rng, config)
        served = layers.Served(self.packages["f32"], weights, element, config["index_topk"])
        hidden = rng.standard_normal((82, config["hidden_size"]))
        sequences = [served.engine.sequence() for _ in range(2)]
        served.step(sequences, (40, 40), hidden[:80], "prefill", wants_selection=True)
        results = []
        for second in (1, np.nan):
            forks = [sequence.fork() for sequence in sequences]
            rows = hidden[80:] * [[1], [second]]
            results.append(served.step(forks, (1, 1), rows, "decode", wants_selection=True))
        for expected, got in zip(*results):
            np.testing.assert_array_equal(got[0], expected[0])

    def test_equals_dense_attention_up_to_topk(self):
        config = layers.config(topk=200)
        rng = np.random.default_rng(5)
        weights = layers.random_weights(rng, config)
        hidden = rng.standard_normal((150, config["hidden_size"]))
        outputs = []
        for indexer in ("full", "none"):
            package = layers.compile_layer(config, self.folder.name, indexer, "--dtype=f32",
                                           f"--indexer={indexer}")
            served = layers.Served(package, weights, "f32", 200, max_seq_len=200)
            output, _ = served.step([served.engine.sequence()], [len(hidden)], hidden, "prefill")
            outputs.append(output)
        self.assertLess(reference.relative_error(*outputs), layers.ALLOWED_F32)


if __name__ == "__main__":
    unittest.main()
