# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole models' graphs whose attention becomes that of a package over caches. MLAC_COMPILE names the
compiler. What needs torch and transformers skips itself where they are not installed."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest
import warnings

import numpy as np

import mlac
from mlac.sequence_info import SequenceInfo

os.environ.setdefault("MLAC_COMPILER", os.environ["MLAC_COMPILE"])
COMPILE = os.environ["MLAC_COMPILE"]
GOLDEN = pathlib.Path(__file__).parent.parent / "data/golden"
TOLERANCE = 1e-5  # f32 against f32 or f64, of a layer

try:
    import torch
    import transformers
except ImportError:
    torch = transformers = None


def compile_cached(archive, *options):
    """A package and the plan of an archive's attention, or the compiler's error."""
    with tempfile.TemporaryDirectory() as folder:
        package, plan = (pathlib.Path(folder) / name for name in ("model.mlac", "plan.json"))
        done = subprocess.run([COMPILE, archive, "--quiet", "--target=cpu", "--dtype=f32",
                               f"--cached={plan}", "-o", package, *options],
                              capture_output=True, text=True)
        if done.returncode:
            return None, done.stderr
        return mlac.Package(package.read_bytes()), json.loads(plan.read_text())


def read_golden(name):
    content = (GOLDEN / name).read_bytes()
    size = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8:8 + size]), content[8 + size:]
    tensors = {}
    for key, tensor in header.items():
        if key == "__metadata__":
            continue
        raw = data[slice(*tensor["data_offsets"])]
        values = np.frombuffer(raw, np.float32) if tensor["dtype"] == "F32" else \
            (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32)
        tensors[key] = values.reshape(tensor["shape"]).astype(np.float64)
    return tensors


class ArchiveTest(unittest.TestCase):
    """Without torch: NumPy does what is not attention."""

    def test_D46_golden_layer(self):
        package, plan = compile_cached(GOLDEN / "llama_gqa_dynamic.pt2", "--page-size=16")
        (place,), (kind,) = plan["attention"], plan["kinds"]
        # Tables that are inputs leave rope to the graph.
        self.assertEqual(place["operands"], {"query": "add", "key": "reshape", "group": 4,
                                             "key_is_transposed": False})
        self.assertEqual((place["operands"], kind["rope"]), (place["turned"], None))
        self.assertEqual((place["value"], place["group"]), ("reshape_1", 4))
        self.assertEqual((kind["num_heads"], kind["num_kv_heads"], kind["head_dim"]), (8, 2, 48))
        golden = read_golden("llama_gqa.safetensors")
        hidden, cos, sin = (golden[name][0] for name in ("hidden_states", "cos", "sin"))
        heads = lambda name: (hidden @ golden[f"weights/{name}.weight"].T).reshape(40, -1, 48)
        turned = lambda x: np.concatenate([-x[..., 24:], x[..., :24]], -1)
        rope = lambda x: x * cos[:, None] + turned(x) * sin[:, None]
        rows = dict(query=rope(heads("q_proj")), key=rope(heads("k_proj")), value=heads("v_proj"))
        rows = {name: np.ascontiguousarray(x, np.float32) for name, x in rows.items()}
        engine = mlac.Engine(package, mlac.Device("cpu", 1), max_seq_len=64)
        engine.prepare()
        engine.poison_cache()
        sequence, plan, parts = engine.sequence(), engine.plan(), []
        for begin, end in ((0, 17), (17, 39), (39, 40)):
            output = np.full((end - begin, 8, 48), np.nan, np.float32)
            plan.fill([sequence], [end - begin], kind["decode" if end - begin == 1 else "step"])
            plan.run_bound(output=output, **{n: x[begin:end] for n, x in rows.items()})
            parts.append(output)
        got = np.concatenate(parts).reshape(40, -1) @ golden["weights/o_proj.weight"].T
        error = np.linalg.norm(got - golden["output"][0]) / np.linalg.norm(golden["output"])
        self.assertLess(error, TOLERANCE)

    def test_D46_every_layer_of_a_model(self):
        _, plan = compile_cached(GOLDEN / "deepseek_v3_tiny_model.pt2")
        places = [place["module"] for place in plan["attention"]]
        self.assertEqual(places, [f"model.model.layers.{layer}.self_attn: DeepseekV3Attention"
                                  for layer in range(2)])
        # Keys of latents, in full for each head, and values of other widths. No value of the graph
        # has those keys before rope.
        (kind,) = plan["kinds"]
        self.assertEqual((kind["num_heads"], kind["num_kv_heads"], kind["head_dim"],
                          kind["value_dim"]), (4, 4, 24, 16))
        self.assertEqual((kind["step"], kind["decode"]), ("step", "decode"))

    def test_D46_refusals(self):
        _, error = compile_cached(GOLDEN / "llama_gqa_decomposed.pt2")
        self.assertRegex(error, r"node 'bmm_1' \(aten.bmm.default\) in attn: LlamaAttention: its "
                         r"attention cannot be cached: its operands are not \[batch, heads, "
                         r"tokens, channels\]")
        _, error = compile_cached(GOLDEN / "llama_gqa.pt2", "--config=config.json")
        self.assertIn("--config does not apply", error)
        done = subprocess.run([COMPILE, GOLDEN / "llama_gqa.pt2", "--cached=/nowhere/plan.json"],
                              capture_output=True, text=True)
        self.assertRegex(done.stderr, "--cached: .*/nowhere/plan.json")
        _, error = compile_cached(GOLDEN / "llama_gqa.pt2", "--functions=prefill")
        self.assertIn("no function 'prefill'; there are: step decode", error)


TINY = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
        "num_key_value_heads": 2, "num_hidden_layers": 3, "max_position_embeddings": 128,
        "vocab_size": 40, "head_dim": 24}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
LATENT = {**{key: value for key, value in TINY.items() if key != "head_dim"},
          "num_key_value_heads": 4, "q_lora_rank": 48, "kv_lora_rank": 32,
          "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "num_hidden_layers": 2,
          "first_k_dense_replace": 2}


@unittest.skipIf(torch is None, "torch and transformers are not installed")
class ModelTest(unittest.TestCase):
    """Small whole models of transformers: the same tokens as eager."""

    PROMPTS = [[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5], [2, 7, 1, 8, 2, 8], [1]]
    NEW_TOKENS = 10

    def make_model(self, kind, sizes, implementation):
        torch.manual_seed(11)
        config = transformers.AutoConfig.for_model(kind, **sizes)
        config._attn_implementation = implementation
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
        for weight in model.parameters():
            if weight.dim() > 1:
                torch.nn.init.normal_(weight, std=2 * weight.shape[-1]**-0.5)
        return model

    def make_cached(self, model, info, **options):
        """Batch and tokens are open; the mask is an input that nothing reads any more."""
        # What torch makes of the sizes of views must not narrow them, so they have no names.
        batch = tokens = torch.export.Dim.AUTO
        ids = torch.ones(2, 5, dtype=torch.long)
        mask = torch.full((2, 1, 5, 5), float("-inf")).triu(1)
        shapes = {"input_ids": {0: batch, 1: tokens}, "position_ids": {0: batch, 1: tokens},
                  "attention_mask": {0: batch, 2: tokens, 3: tokens}, "use_cache": None}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return mlac.cached(
                model, {"input_ids": ids, "position_ids": torch.arange(5).expand(2, 5),
                        "attention_mask": mask, "use_cache": False},
                info, dynamic_shapes=shapes, **options)

    def step(self, cached, sequences):
        """The last logits of each sequence whose next tokens are given."""
        info = cached.info
        info.nest_sequences(sequences)
        positions = [np.arange(start, start + len(own))
                     for start, own in zip(info.input_pos, sequences)]
        shape = info.input_ids.shape
        with torch.no_grad():
            logits = cached(input_ids=torch.from_numpy(info.input_ids).long(),
                            position_ids=torch.from_numpy(np.concatenate(positions)).view(shape),
                            attention_mask=torch.zeros(shape[0], 1, shape[1], shape[1]),
                            use_cache=False).logits
        info.update_pos([len(own) for own in sequences])
        return [rows[-1] for rows in info.unnest_sequences(logits.numpy())]

    def generate(self, cached):
        """Greedy, all prompts in one batch; pages are not in the order of their tokens."""
        info, tokens = cached.info, [list(prompt) for prompt in self.PROMPTS]
        info.update_pos(0, reset=True)
        info.assign_cache_loc([range(own, info.num_pages, 3) for own in (2, 0, 1)])
        for cache in cached.caches:
            cache.fill_(float("nan"))
        new = tokens
        for _ in range(self.NEW_TOKENS):
            new = [[int(row.argmax())] for row in self.step(cached, new)]
            tokens = [old + own for old, own in zip(tokens, new)]
        return tokens

    def expected(self, model):
        """By eager, without a cache."""
        result = []
        for prompt in self.PROMPTS:
            tokens = list(prompt)
            for _ in range(self.NEW_TOKENS):
                with torch.no_grad():
                    logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits
                tokens.append(int(logits[0, -1].argmax()))
            result.append(tokens)
        return result

    def test_D46_tokens_of_whole_models(self):
        for kind, sizes, implementation in (
                ("llama", TINY, "sdpa"), ("llama", TINY, "eager"), ("qwen3", TINY, "sdpa"),
                ("llama", {**TINY, "rope_scaling": YARN}, "sdpa"),
                ("llama", {**TINY, "rope_scaling": LLAMA3}, "sdpa"),
                ("deepseek_v3", LATENT, "sdpa")):
            with self.subTest(kind, implementation=implementation,
                              rope=sizes.get("rope_scaling")):
                model = self.make_model(kind, sizes, implementation)
                info = SequenceInfo(max_seq_len=32, max_batch_size=3, page_size=4)
                cached = self.make_cached(model, info, device=mlac.Device("cpu", 1),
                                          target="cpu")
                self.assertEqual(len(cached.caches), sizes["num_hidden_layers"])
                self.assertEqual(self.generate(cached), self.expected(model))
                # Nothing of attention is left to torch, rope neither; but that of latents' keys.
                left = {str(node.target) for node in cached._graph.graph.nodes}
                self.assertNotIn("aten.scaled_dot_product_attention.default", left)
                self.assertEqual("aten.cos.default" in left, kind == "deepseek_v3")

    def test_D46_tokens_by_the_operator_of_a_descriptor(self):
        """Chosen by name, also one that is registered here; buffers are made once."""
        from mlac.attention import AttentionRegistry, PagedMultiHead

        made = []

        class Counted(PagedMultiHead):
            @classmethod
            def get_global_buffer_initializers(cls, get_info):
                ((name, make),) = super().get_global_buffer_initializers(get_info).items()
                return {name: lambda info: made.append(name) or make(info)}

        AttentionRegistry.register("Counted")(Counted)
        self.addCleanup(AttentionRegistry._descriptors.pop, "Counted")
        model = self.make_model("llama", TINY, "sdpa")
        expected = self.expected(model)
        for name, page in (("Counted", 4), ("PagedMultiHead", 4), ("MultiHead", 0),
                           ("TritonWithFlattenedInputs", 0)):
            with self.subTest(name):
                info = SequenceInfo(max_seq_len=32, max_batch_size=3, page_size=page)
                cached = self.make_cached(model, info, attention=name)
                self.assertIsNone(cached.package)
                self.assertEqual(len(cached.caches), 2 * TINY["num_hidden_layers"])
                self.assertEqual(self.generate(cached), expected)
        self.assertEqual(made, ["freqs_cis_None_10000_0_1_0"])
        # Keys of other widths than values; eager's products.
        model = self.make_model("deepseek_v3", LATENT, "eager")
        info = SequenceInfo(max_seq_len=32, max_batch_size=3, page_size=4)
        cached = self.make_cached(model, info, attention="PagedMultiHead")
        self.assertEqual(self.generate(cached), self.expected(model))

    def test_D43_D46_canonical_node(self):
        """torch.ops.attention.scaled_dot_product_attention is an attention."""
        import mlac.attention.torch  # noqa: F401

        class Layer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.joined, self.out = torch.nn.Linear(32, 96), torch.nn.Linear(32, 32)

            def forward(self, x):
                q, k, v = (part.unflatten(-1, (2, 16)).transpose(1, 2)
                           for part in self.joined(x).split(32, -1))
                o = torch.ops.attention.scaled_dot_product_attention(q, k, v, is_causal=True,
                                                                     scale=0.3)
                return self.out(o.transpose(1, 2).flatten(2))

        layer, x = Layer().eval(), torch.randn(1, 7, 32)
        info = SequenceInfo(max_seq_len=16, max_batch_size=1, page_size=4)
        cached = mlac.cached(layer, (torch.randn(2, 5, 32),), info, attention="PagedMultiHead",
                             dynamic_shapes=({0: torch.export.Dim("batch", max=8),
                                              1: torch.export.Dim("tokens", max=16)},))
        info.assign_cache_loc([[2, 0, 1]])
        parts = []
        for begin, end in ((0, 5), (5, 6), (6, 7)):
            info.nest_sequences([[1] * (end - begin)])
            with torch.no_grad():
                parts.append(cached(x[:, begin:end]))
            info.update_pos(end - begin)
        with torch.no_grad():
            torch.testing.assert_close(torch.cat(parts, 1), layer(x), atol=1e-5, rtol=1e-5)

    def test_D46_refusals_of_descriptors(self):
        model = self.make_model("llama", TINY, "sdpa")
        info = SequenceInfo(max_seq_len=32, max_batch_size=3, page_size=4)
        with self.assertRaisesRegex(LookupError, "no attention 'Other' is registered"):
            self.make_cached(model, info, attention="Other")
        with self.assertRaisesRegex(ValueError, "MultiHead has no pages: page_size is 4"):
            self.make_cached(model, info, attention="MultiHead")
        with self.assertRaisesRegex(ValueError, "option 'target' is of packages"):
            self.make_cached(model, info, attention="PagedMultiHead", target="cpu")


if __name__ == "__main__":
    unittest.main()
