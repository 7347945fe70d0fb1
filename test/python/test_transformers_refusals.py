# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What mlac.transformers does not take, by name; the model is then as it was.

Skips itself where torch or transformers are not installed. MLAC_COMPILE names the compiler."""

import os
import unittest
import warnings
from unittest import mock

os.environ.setdefault("MLAC_COMPILER", os.environ["MLAC_COMPILE"])
try:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache
except ImportError as error:
    raise unittest.SkipTest(f"not installed: {error.name}")

import mlac
from mlac.transformers import patch
from mlac.transformers._versions import check_versions
from tiny_models import make_model, random_prompts

IDS = random_prompts(2, 6)


class PatchTest(unittest.TestCase):
    """Refusals of patch(), mostly before anything is compiled."""

    def refuses(self, model, kind, text, *args, **options):
        with self.assertRaisesRegex(kind, text):
            patch(model, *args, **options)
        if hasattr(model, "model"):
            self.assertNotIn("forward", model.model.__dict__)

    def test_what_is_no_model(self):
        for wrong, kind in ((None, "NoneType"), ({}, "dict"), ("DeepSeek-V3", "str")):
            with self.assertRaisesRegex(mlac.InvalidArgument,
                                        f"model: expected a torch.nn.Module, got {kind}"):
                mlac.transformers.patch(wrong)

    def test_other_attention(self):
        config = AutoConfig.for_model("llama", vocab_size=9, hidden_size=16, num_hidden_layers=1,
                                      intermediate_size=16, num_attention_heads=2)
        self.refuses(AutoModelForCausalLM.from_config(config), mlac.InvalidArgument,
                     "no layer with multi-head latent attention in LlamaForCausalLM")

    def test_other_model_type(self):
        model = make_model("deepseek_v3")
        model.config.model_type = "new_mla"
        self.refuses(model, mlac.Unsupported, "'new_mla': expected one of axk1, deepseek_v2, deepseek_v3")

    def test_fp8_without_scales(self):
        for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
            model = make_model("deepseek_v3")
            weight = model.model.layers[1].self_attn.q_b_proj.weight
            weight.requires_grad = False
            weight.data = weight.data.to(dtype)
            self.refuses(model, mlac.Unsupported, "layer 1, q_b_proj: expected fp8 weights in "
                         f"torch.float8_e4m3fn with weight_scale_inv or .*, got {dtype} in Linear")

    def test_other_numbers(self):
        """Of a package that is compiled of the configuration as mla-compile reads it, while the
        class ignores a key or reads it otherwise; of a class that computes something else."""
        yarn = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "mscale": 0.7,
                "original_max_position_embeddings": 128}
        doubled = make_model("deepseek_v3")
        own = doubled.model.layers[0].self_attn.forward
        doubled.model.layers[0].self_attn.forward = \
            lambda *args, **kwargs: tuple(2 * x if x is not None else x
                                          for x in own(*args, **kwargs))
        for name, model in (
                ("ignored", make_model("deepseek_v2", rope_interleave=False)),
                ("ignored, bf16", make_model("deepseek_v2", dtype=torch.bfloat16,
                                             rope_interleave=False)),
                ("other default", make_model("deepseek_v3", rope_parameters=yarn)),
                ("other class", doubled)):
            with self.subTest(name):
                attention = model.model.layers[0].self_attn
                before = dict(attention.__dict__)
                self.refuses(model, mlac.Unsupported, "attention gives other numbers than the "
                             "package, a relative error of .* in 64 random rows")
                self.assertEqual(attention.__dict__, before)
                logits = model(input_ids=IDS).logits  # its own, as before
                self.assertTrue(logits.isfinite().all())
        zeros = make_model("deepseek_v3")
        for weight in zeros.parameters():
            weight.data.zero_()
        patch(zeros).unpatch()

    def test_factors_of_long_sequences(self):
        """transformers takes them where a sequence is long, an engine where one may be: the tokens of
        short ones were others."""
        rope = {"rope_type": "longrope", "rope_theta": 1e4, "factor": 2.0,
                "short_factor": [1.0, 1.1, 1.3, 2.0], "long_factor": [2.0, 3.0, 4.0, 5.0],
                "original_max_position_embeddings": 16}
        model = make_model("minicpm3", rope_parameters=rope)
        self.refuses(model, mlac.InvalidArgument, "max_seq_len = 64: expected 1 to 16, "
                     "original_max_position_embeddings: longer sequences turn by long_factor",
                     max_seq_len=64)
        expected = model(input_ids=IDS).logits
        with torch.no_grad(), patch(model) as patched:
            self.assertEqual(patched.engine.info["options"]["max_seq_len"], 16)
            self.assertLess((model(input_ids=IDS).logits - expected).abs().max().item(), 1e-4)
        model = make_model("minicpm3", rope_parameters={**rope, "long_factor": rope["short_factor"]})
        with patch(model, max_seq_len=64) as patched:
            self.assertEqual(patched.engine.info["options"]["max_seq_len"], 64)

    def test_adapters(self):
        model = make_model("deepseek_v3")

        class Adapted(torch.nn.Linear):
            pass

        model.model.layers[2].self_attn.o_proj = Adapted(64, 48, bias=False)
        self.refuses(model, mlac.Unsupported, "layer 2, o_proj: expected torch.nn.Linear.*Adapted")

    def test_devices(self):
        model = make_model("deepseek_v3")
        model.model.layers[0].self_attn.to("meta")
        self.refuses(model, mlac.Unsupported, "on the CPU or on one GPU, got cpu, meta")

    def test_dtype(self):
        self.refuses(make_model("deepseek_v3", dtype=torch.float64), mlac.InvalidArgument,
                     "got torch.float64")

    def test_quantised_configuration(self):
        model = make_model("deepseek_v3")
        model.config.quantization_config = {"quant_method": "awq"}
        self.refuses(model, mlac.CompileError, "quantization_config.quant_method.*awq")

    def test_other_package(self):
        model = make_model("minicpm3")
        package = mlac.compile(model, target="cpu", functions="decode")
        for changes, text in (({"num_attention_heads": 2, "num_key_value_heads": 2},
                               "num_heads is 4, the model's is 2"),
                              ({"qk_nope_head_dim": 24}, "softmax_scale is"),
                              ({"rope_parameters": {**model.config.rope_parameters,
                                                    "rope_theta": 5e5}}, "rope_theta is 10000.0"),
                              ({"kv_lora_rank": 24}, "expected shape")):
            with self.subTest(text=text):
                self.refuses(make_model("minicpm3", **changes), mlac.InvalidArgument, text, package)
        self.refuses(make_model("minicpm3", dtype=torch.bfloat16), mlac.InvalidArgument,
                     "activation_dtype is f32, the model's is bf16", package)
        self.refuses(make_model("deepseek_v3"), mlac.InvalidArgument,
                     "model_type is minicpm3", package)
        biased = make_model("minicpm3", attention_bias=True)
        self.refuses(biased, mlac.InvalidArgument, "the model has a bias", package)

    def test_sparse_is_dense_up_to_topk(self):
        # Not assertWarns, which looks into every module: transformers imports what it can.
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            patch(make_model("deepseek_v32"), num_pages=1).unpatch()
        self.assertIn("index_topk = 64", str(caught[0].message))
        self.refuses(make_model("deepseek_v32"), mlac.InvalidArgument,
                     "max_seq_len = 128: expected 1 to 64, the model's index_topk: its attention is dense",
                     max_seq_len=128)

    def test_versions(self):
        for version in ("5.16.2", "4.57.0", "6.0.0"):
            with mock.patch("importlib.metadata.version", return_value=version):
                with self.assertRaisesRegex(mlac.Unsupported, f"{version}: expected 5.17"):
                    check_versions()
        for version in ("5.17.0", "5.20.1"):
            with mock.patch("importlib.metadata.version", return_value=version):
                check_versions()


class CallTest(unittest.TestCase):
    """Refusals of calls of a patched model, which change nothing."""

    @classmethod
    def setUpClass(cls):
        cls.model = make_model("deepseek_v3")
        cls.package = mlac.compile(cls.model, target="cpu", functions="prefill,decode")

    def setUp(self):
        self.patched = patch(self.model, self.package, max_seq_len=64)
        self.addCleanup(self.patched.unpatch)
        self.cache = self.patched.cache()

    def call(self, ids=IDS, **kwargs):
        with torch.no_grad():
            return self.model(ids, past_key_values=self.cache, **kwargs)

    def refuses(self, kind, text, *args, **kwargs):
        length = self.cache.get_seq_length()
        with self.assertRaisesRegex(kind, text):
            self.call(*args, **kwargs)
        self.assertEqual(self.cache.get_seq_length(), length)

    def test_twice(self):
        with self.assertRaisesRegex(mlac.WrongState, "patched already"):
            patch(self.model, self.package)

    def test_training(self):
        self.model.train()
        self.addCleanup(self.model.eval)
        self.refuses(mlac.Unsupported, "does not train")

    def test_gradients(self):
        with self.assertRaisesRegex(mlac.Unsupported, "no gradients"):
            self.model(IDS)
        # Trained attention alone: no input wants gradients, the weights do.
        self.addCleanup(self.model.requires_grad_, True)
        self.model.requires_grad_(False)
        self.model(IDS)
        self.model.model.layers[0].self_attn.o_proj.requires_grad_(True)
        with self.assertRaisesRegex(mlac.Unsupported, "no gradients"):
            self.model(IDS)

    def test_inputs(self):
        for text, given in ((r"input_ids: .*2 dimensions \(batch, tokens\), got \[6\]", (IDS[0],)),
                            ("input_ids: .*got NoneType", ()), ("input_ids: .*got list", ([[1]],))):
            with torch.no_grad(), self.assertRaisesRegex(mlac.InvalidArgument, text):
                self.model(*given)
        with torch.no_grad(), self.assertRaisesRegex(
                mlac.InvalidArgument, r"inputs_embeds: .*3 dimensions .*got \[6, 48\]"):
            self.model(inputs_embeds=torch.zeros(6, 48))

    def test_adapters_of_a_patched_model(self):
        attention = self.model.model.layers[1].self_attn
        plain = attention.o_proj

        class Adapted(torch.nn.Linear):
            pass

        attention.o_proj = Adapted(64, 48, bias=False)
        self.addCleanup(setattr, attention, "o_proj", plain)
        self.refuses(mlac.Unsupported, "layer 1, o_proj: expected torch.nn.Linear.*Adapted")

    def test_attention_weights(self):
        self.refuses(mlac.Unsupported, "output_attentions", output_attentions=True)
        with self.assertRaisesRegex(mlac.Unsupported, "output_attentions"):
            self.model.generate(IDS, output_attentions=True, return_dict_in_generate=True,
                                max_new_tokens=2)

    def test_masks(self):
        self.refuses(mlac.Unsupported, "causal and padding.*got 4 dimensions",
                     attention_mask=torch.ones(2, 1, 6, 6))
        self.refuses(mlac.Unsupported, "got dict", attention_mask={"full": None})
        self.refuses(mlac.InvalidArgument, r"expected shape \[2, 6\] \(0 cached\), got \[2, 7\]",
                     attention_mask=torch.ones(2, 7))
        self.call()
        hidden = torch.ones(2, 12)
        hidden[1, 2] = 0
        self.refuses(mlac.Unsupported, "row 1, token 2 is cached as a token",
                     attention_mask=hidden)

    def test_positions(self):
        positions = torch.arange(6).repeat(2, 1)
        positions[1, 4:] += 3
        self.refuses(mlac.Unsupported, "row 1, token 4 is at position 7, expected 4",
                     position_ids=positions)
        self.refuses(mlac.InvalidArgument, r"position_ids: expected shape \[2, 6\]",
                     position_ids=torch.zeros(3, 2, 6, dtype=torch.int64))
        # Padding behind a prompt is a gap, unless the positions say otherwise.
        mask = torch.ones(2, 6, dtype=torch.int64)
        mask[1, 4:] = 0
        self.call(attention_mask=mask)
        mask = torch.cat([mask, mask.new_ones(2, 1)], 1)
        self.refuses(mlac.Unsupported, "row 1, token 0 is at position 6, expected 4",
                     IDS[:, :1], attention_mask=mask)
        self.call(IDS[:, :1], attention_mask=mask, position_ids=torch.tensor([[6], [4]]))

    def test_caches(self):
        with self.assertRaisesRegex(mlac.InvalidArgument, "got DynamicCache"):
            self.model(IDS, past_key_values=DynamicCache())
        other = patch(make_model("deepseek_v3"), self.package, max_seq_len=64)
        with self.assertRaisesRegex(mlac.InvalidArgument, "another patched model's"):
            self.model(IDS, past_key_values=other.cache())
        with self.assertRaisesRegex(mlac.Unsupported, "keys: a cache under this name is not known"):
            self.model.model(IDS, keys=self.cache)
        with self.assertRaisesRegex(mlac.Unsupported, "cache_implementation='static'"):
            self.model.generate(IDS, cache_implementation="static", max_new_tokens=2)
        with self.assertRaisesRegex(mlac.Unsupported, "was not patched"):
            self.cache.update(None, None, 0)
        self.call()
        for row in (2, -3):
            with self.assertRaisesRegex(mlac.InvalidArgument, f"row {row}: the cache has 2"):
                self.cache.batch_select_indices(torch.tensor([0, row]))
        with self.assertRaisesRegex(mlac.InvalidArgument, "repeats: expected at least 0, got -1"):
            self.cache.batch_repeat_interleave(-1)

    def test_batch(self):
        self.call()
        self.refuses(mlac.InvalidArgument, "expected a batch of 2 rows, got 1", IDS[:1])

    def test_models_that_were_moved(self):
        """All of it, or what hands the layers their input alone."""
        embeddings = self.model.model.embed_tokens
        for part, text in ((self.model, "model: expected torch.float32, as of .*, got torch.bfloat16"),
                           (embeddings, "(model|hidden states): expected torch.float32")):
            part.to(torch.bfloat16)
            self.addCleanup(self.model.to, torch.float32)
            self.refuses(mlac.WrongState, rf"{text}.*: unpatch\(\) it before model.to\(\)")
            part.to(torch.float32)
            self.call()
            self.cache.reset()

    def test_a_layer_by_itself(self):
        with torch.no_grad(), self.assertRaisesRegex(mlac.WrongState, "called by itself"):
            self.model.model.layers[0].self_attn(torch.zeros(1, 2, 48))

    def test_unpatched(self):
        self.call()
        self.patched.unpatch()
        for use in (lambda: self.cache.crop(-1), lambda: self.cache.batch_repeat_interleave(2),
                    self.patched.cache):
            with self.assertRaisesRegex(mlac.WrongState, "was unpatched"):
                use()


if __name__ == "__main__":
    unittest.main()
