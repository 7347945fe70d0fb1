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

import numpy as np

import mlac
from cached_models import (LATENT, LLAMA3, TINY, YARN, CachedModels, make_attention, run_chunks,
                           torch)
from mlac.sequence_info import SequenceInfo

os.environ.setdefault("MLAC_COMPILER", os.environ["MLAC_COMPILE"])
COMPILE = os.environ["MLAC_COMPILE"]
GOLDEN = pathlib.Path(__file__).parent.parent / "data/golden"
TOLERANCE = 1e-5  # f32 against f32 or f64, of a layer


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
        # Tables are inputs, and rope the step's all the same: queries and keys are from before it.
        self.assertEqual(place["turned"], {"query": "add", "key": "reshape", "group": 4,
                                           "key_is_transposed": False})
        self.assertNotEqual(place["operands"]["query"], "add")
        self.assertEqual((place["operands"]["group"], place["latents"]), (1, None))
        self.assertEqual((kind["rope"]["order"], kind["rope"]["dim"], kind["rope"]["frequencies"]),
                         ("half", 48, []))
        # Both halves are columns of their own of an input.
        self.assertEqual(sorted(place["tables"]), ["cos", "repeated", "sin"])
        self.assertTrue(place["tables"]["repeated"])
        self.assertEqual((place["value"], place["group"]), ("reshape_1", 4))
        self.assertEqual((kind["num_heads"], kind["num_kv_heads"], kind["head_dim"]), (8, 2, 48))
        golden = read_golden("llama_gqa.safetensors")
        hidden, cos, sin = (golden[name][0] for name in ("hidden_states", "cos", "sin"))
        heads = lambda name: (hidden @ golden[f"weights/{name}.weight"].T).reshape(40, -1, 48)
        rows = dict(query=heads("q_proj"), key=heads("k_proj"), value=heads("v_proj"),
                    angles=np.concatenate([cos[:, :24], sin[:, :24]], -1))
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

    def test_D46_products_of_three_dimensions(self):
        """The same layer in torch's own operators; scales of its operands are behind rope."""
        _, plan = compile_cached(GOLDEN / "llama_gqa_decomposed.pt2")
        (kind,), (place,) = plan["kinds"], plan["attention"]
        self.assertEqual(place["node"], "bmm_1")
        self.assertEqual(place["turned"], {"query": "view_11", "key": "view_12", "group": 4,
                                           "key_is_transposed": True})
        self.assertEqual((place["value"], place["group"], place["mask"]), ("view_15", 4, "mask"))
        self.assertEqual((kind["num_heads"], kind["num_kv_heads"], kind["head_dim"], kind["scale"]),
                         (8, 2, 48, 1))

    def test_D46_every_layer_of_a_model(self):
        package, plan = compile_cached(GOLDEN / "deepseek_v3_tiny_model.pt2")
        places = [place["module"] for place in plan["attention"]]
        self.assertEqual(places, [f"model.model.layers.{layer}.self_attn: DeepseekV3Attention"
                                  for layer in range(2)])
        (kind,) = plan["kinds"]
        self.assertEqual((kind["num_heads"], kind["num_kv_heads"], kind["head_dim"],
                          kind["value_dim"]), (4, 4, 24, 16))
        self.assertEqual((kind["step"], kind["decode"]), ("step", "decode"))
        # A latent of each token and a rope key, which the step turns; no keys of heads.
        latents = kind["latents"]
        self.assertEqual((latents["rank"], latents["rope_first"], latents["rope_dim"]), (32, 16, 8))
        self.assertEqual((latents["rope"]["order"], kind["rope"]), ("interleaved", None))
        self.assertEqual([place["latents"]["weight"] for place in plan["attention"]],
                         [f"model.model.layers.{layer}.self_attn.kv_b_proj.weight" for layer in range(2)])
        self.assertEqual([(field["name"], field["columns"])
                          for field in package.info["pools"][0]["fields"]],
                         [("latent", 32), ("rope", 8)])

    def test_D46_refusals(self):
        _, error = compile_cached(GOLDEN / "llama_gqa.pt2", "--config=config.json")
        self.assertIn("--config does not apply", error)
        done = subprocess.run([COMPILE, GOLDEN / "llama_gqa.pt2", "--cached=/nowhere/plan.json"],
                              capture_output=True, text=True)
        self.assertRegex(done.stderr, "--cached: .*/nowhere/plan.json")
        _, error = compile_cached(GOLDEN / "llama_gqa.pt2", "--functions=prefill")
        self.assertIn("no function 'prefill'; there are: step decode", error)


@unittest.skipIf(torch is None, "torch and transformers are not installed")
class ModelTest(CachedModels, unittest.TestCase):
    """Small whole models of transformers: the same tokens as eager."""

    def test_D46_tokens_of_whole_models(self):
        for kind, sizes, implementation in (
                ("llama", TINY, "sdpa"), ("llama", TINY, "eager"), ("qwen3", TINY, "sdpa"),
                ("llama", {**TINY, "rope_scaling": YARN}, "sdpa"),
                ("llama", {**TINY, "rope_scaling": LLAMA3}, "sdpa")):
            with self.subTest(kind, implementation=implementation,
                              rope=sizes.get("rope_scaling")):
                model = self.make_model(kind, sizes, implementation)
                info = SequenceInfo(max_seq_len=32, max_batch_size=3, page_size=4)
                cached = self.make_cached(model, info, device=mlac.Device("cpu", 1),
                                          target="cpu")
                self.assertEqual(len(cached.caches), sizes["num_hidden_layers"])
                self.assertEqual(self.generate(cached), self.expected(model))
                with self.assertRaisesRegex(mlac.InvalidArgument, "expected 3 arg.*exported, got 4"):
                    cached(torch.ones(2, 1), input_ids=None, position_ids=None, use_cache=False)
                # Nothing of attention is left to torch, rope neither.
                self.assertFalse(self.names_left(cached) &
                                 {"scaled_dot_product_attention", "softmax", "cos", "sin"})

    def test_D46_tokens_of_models_over_latents(self):
        """Caches of one latent and one rope key for each token."""
        for kind, sizes, implementation, form in (
                ("deepseek_v3", LATENT, "eager", "auto"),
                # Over keys and values that the step makes of cached latents.
                ("deepseek_v3", LATENT, "sdpa", "expanded"),
                ("deepseek_v3", {**LATENT, "rope_scaling": YARN}, "sdpa", "auto"),
                ("minicpm3", LATENT, "sdpa", "auto")):
            with self.subTest(kind, implementation=implementation, sizes=sizes, form=form):
                model = self.make_model(kind, sizes, implementation)
                info = SequenceInfo(max_seq_len=32, max_batch_size=3, page_size=4)
                cached = self.make_cached(model, info, device=mlac.Device("cpu", 1),
                                          target="cpu", form=form)
                self.assertEqual({tuple(cache.shape) for cache in cached.caches},
                                 {(info.num_pages, 4, LATENT["kv_lora_rank"] + 8)})
                self.assertEqual(self.generate(cached), self.expected(model))
                # Keys and values of heads are not made, nor memory for them.
                self.assertFalse(self.names_left(cached) &
                                 {"scaled_dot_product_attention", "cos", "new_empty", "copy_"})
                self.assertEqual(self.weights_left(cached, "kv_b_proj"), [])
                self.assertTrue(self.weights_left(cached, "kv_a_layernorm"))

    def export_form(self, model, tables):
        """The model of latent_models, batch and tokens open."""
        batch, tokens = (torch.export.Dim(name, min=2, max=most)
                         for name, most in (("batch", 8), ("tokens", 64)))
        rows = {0: batch, 1: tokens}
        example = (torch.ones(3, 5, dtype=torch.long), torch.arange(5).expand(3, 5).contiguous(),
                   torch.full((3, 1, 5, 5), float("-inf")).triu(1), tables(torch.arange(5).expand(3, 5)))
        shapes = (rows, rows, {0: batch, 2: tokens, 3: tokens},
                  (rows, rows) if example[-1] else None)
        return example, shapes

    def test_D46_latents_in_an_older_form(self):
        """Angles that are inputs, or rows of stored tables: a row of each token is the step's."""
        from latent_models import Model, Rotary

        stored = Rotary(Model.SIZES["rope"], 64)
        for takes_tables in (False, True):
            with self.subTest(takes_tables=takes_tables):
                tables = lambda at: ((stored.cos_cached[at], stored.sin_cached[at])
                                     if takes_tables else None)
                torch.manual_seed(3)
                model = Model(takes_tables=takes_tables).eval()
                example, shapes = self.export_form(model, tables)
                info = SequenceInfo(max_seq_len=32, max_batch_size=4, page_size=8)
                cached = mlac.cached(model, example, info, dynamic_shapes=shapes, target="cpu",
                                     device=mlac.Device("cpu", 1))
                self.assertEqual(tuple(cached.caches[0].shape[2:]), (24 + 8,))
                self.assertFalse(self.names_left(cached) & {"new_empty", "softmax", "matmul"})
                self.assertEqual(self.weights_left(cached, "kv_b_proj"), [])

                def logits(ids, positions):
                    mask = torch.full((1, 1, ids.shape[1], ids.shape[1]), float("-inf")).triu(1)
                    return model(ids, positions, mask, tables(positions))

                at = lambda tokens: torch.arange(len(tokens))[None]
                expected = self.expected_of(lambda tokens: logits(torch.tensor([tokens]), at(tokens)))
                self.assertEqual(self.generate_form(cached, tables), expected)
                if not takes_tables:
                    continue
                # What a graph cannot say of its inputs is looked at in a first step.
                cached = mlac.cached(model, example, info, dynamic_shapes=shapes, target="cpu",
                                     device=mlac.Device("cpu", 1))
                with self.assertRaisesRegex(mlac.InvalidArgument, r"^\w+, whose rows turn the "
                                            "attention of node .* in attention.0: Attention: columns "
                                            "4 to 7 are not those before them again"):
                    self.generate_form(cached, lambda at: tuple(
                        table * torch.arange(1, 9) for table in tables(at)))

    def generate_form(self, cached, tables):
        """Each prompt beside those of others; rows of equal lengths, as the export has them."""
        info, tokens = cached.info, self.begin(cached)
        new = tokens
        for _ in range(self.NEW_TOKENS):
            info.nest_sequences(new)
            positions = np.concatenate([np.arange(start, start + len(own))
                                        for start, own in zip(info.input_pos, new)])
            shape = info.input_ids.shape
            positions = torch.from_numpy(positions).view(shape)
            with torch.no_grad():
                logits = cached(torch.from_numpy(info.input_ids).long(), positions, None,
                                tables(positions))
            info.update_pos([len(own) for own in new])
            rows = [rows[-1] for rows in info.unnest_sequences(logits.numpy())]
            new = [[int(row.argmax())] for row in rows]
            tokens = [old + own for old, own in zip(tokens, new)]
        return tokens

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
        # One table of angles for all layers, once.
        self.assertEqual(made, ["freqs_cis_rope_10000_0_1_0"])

    def test_D46_rope_by_the_operator_of_a_descriptor(self):
        """Where it rotates as the graph does, angles are a buffer that all layers share."""
        whole, half = {**TINY, "rope_theta": 5e5}, {**TINY, "rope_scaling": LLAMA3}
        for sizes, name, page, buffers in (
                (whole, "PagedMultiHead", 4, {"freqs_cis_rope_500000_0_1_0": (64, 12, 2)}),
                (whole, "TritonWithFlattenedInputs", 0,
                 {"freqs_cis_rope_500000_0_1_0": (64, 12, 2)}),
                (whole, "MultiHead", 0, {}),
                # Frequencies that are no theta's are the graph's.
                (half, "PagedMultiHead", 4, {"freqs_cis_None_10000_0_1_0": (0,)})):
            with self.subTest(name, buffers=buffers):
                model = self.make_model("llama", sizes, "sdpa")
                info = SequenceInfo(max_seq_len=32, max_batch_size=3, page_size=page)
                cached = self.make_cached(model, info, attention=name)
                nodes = cached._attend.nodes
                self.assertEqual({key: tuple(each.shape) for key, each in nodes.buffers.items()},
                                 buffers)
                self.assertEqual("cos" in self.names_left(cached),
                                 not any("rope" in key for key in buffers))
                self.assertEqual(self.generate(cached), self.expected(model))

    def test_D46_D48_latents_by_the_operator_of_a_descriptor(self):
        """Queries are folded before it and outputs unfolded behind it, by torch."""
        for implementation, name, columns in (("sdpa", "MultiHeadLatent", (40,)),
                                              # Keys of other widths than values; eager's products.
                                              ("eager", "PagedMultiHead", (4, 24))):
            with self.subTest(name):
                model = self.make_model("deepseek_v3", LATENT, implementation)
                info = SequenceInfo(max_seq_len=32, max_batch_size=3, page_size=4)
                cached = self.make_cached(model, info, attention=name)
                self.assertEqual(tuple(cached.caches[0].shape[2:]), columns)
                self.assertEqual("cos" in self.names_left(cached), name == "PagedMultiHead")
                self.assertEqual(sorted(cached._attend.nodes.buffers),
                                 ["cos_rope_10000_0_1_0", "sin_rope_10000_0_1_0"]
                                 if name == "MultiHeadLatent" else ["freqs_cis_None_10000_0_1_0"])
                self.assertEqual(self.generate(cached), self.expected(model))

    def test_D43_D46_canonical_node(self):
        """torch.ops.attention.scaled_dot_product_attention is an attention."""
        import mlac.attention.torch  # noqa: F401

        attend = lambda q, k, v: torch.ops.attention.scaled_dot_product_attention(
            q, k, v, is_causal=True, scale=0.3)
        layer, x = make_attention(attend).eval(), torch.randn(1, 7, 32)
        info = SequenceInfo(max_seq_len=16, max_batch_size=1, page_size=4)
        cached = mlac.cached(layer, (torch.randn(2, 5, 32),), info, attention="PagedMultiHead",
                             dynamic_shapes=({0: torch.export.Dim("batch", max=8),
                                              1: torch.export.Dim("tokens", max=16)},))
        with torch.no_grad():
            torch.testing.assert_close(run_chunks(cached, x), layer(x), atol=1e-5, rtol=1e-5)

    def test_D46_attention_to_attention(self):
        """Without a projection between: the second one was left to torch, on new tokens alone."""
        from cached_models import attend_to_past

        twice = lambda q, k, v: attend_to_past(k, q, attend_to_past(q, k, v))
        layer, x = make_attention(twice).eval(), torch.randn(1, 7, 32)
        auto = torch.export.Dim.AUTO
        for options in ({"attention": "PagedMultiHead"},
                        {"target": "cpu", "device": mlac.Device("cpu", 1)}):
            info = SequenceInfo(max_seq_len=16, max_batch_size=1, page_size=4)
            cached = mlac.cached(layer, (torch.randn(2, 5, 32),), info,
                                 dynamic_shapes=({0: auto, 1: auto},), **options)
            self.assertEqual(len(cached._attend.inputs), 2)
            with torch.no_grad():
                torch.testing.assert_close(run_chunks(cached, x), layer(x), atol=1e-5, rtol=1e-5)

    def test_D46_type_of_most_weights(self):
        """Integers and a few numbers of another type, as a router has, are not what attention is in."""
        for dtype in (torch.float32, torch.float16):
            layer = make_attention().to(dtype).eval()
            layer.first = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
            layer.register_buffer("table", torch.arange(100000))
            layer.register_parameter("a_bias", torch.nn.Parameter(torch.zeros(4)))
            x, auto = torch.randn(1, 7, 32, dtype=dtype), torch.export.Dim.AUTO
            for options in ({"attention": "PagedMultiHead"},
                            {"target": "cpu", "device": mlac.Device("cpu", 1)}):
                with self.subTest(dtype=dtype, options=list(options)):
                    info = SequenceInfo(max_seq_len=16, max_batch_size=1, page_size=4)
                    cached = mlac.cached(layer, (torch.randn(2, 5, 32, dtype=dtype),), info,
                                         dynamic_shapes=({0: auto, 1: auto},), **options)
                    with torch.no_grad():
                        torch.testing.assert_close(run_chunks(cached, x), layer(x), atol=2e-3,
                                                   rtol=2e-3)

    def test_D46_example_of_one_sequence(self):
        """torch.export takes a size of one for fixed: prompts, one row, run, and a batch of tokens does
        not, which failed in a view of the graph, or none."""
        model = self.make_model("llama", TINY, "sdpa")
        info = SequenceInfo(max_seq_len=32, max_batch_size=3, page_size=4)
        ids, places = torch.ones(1, 5, dtype=torch.long), torch.arange(5)[None]
        cached = self.make_cached(model, info, self.arguments(ids, places), device=mlac.Device("cpu", 1),
                                  target="cpu")
        new = self.step(cached, self.begin(cached))
        with self.assertRaisesRegex(mlac.InvalidArgument, r"^input_ids: expected \[1, \*\], as exported, "
                                    r"got \[3, 1\] \(torch.export takes a batch of one .* two sequences"):
            self.step(cached, [[int(row.argmax())] for row in new])
        with self.assertRaisesRegex(mlac.InvalidArgument, r"^position_ids: expected \[1, \*\], as "
                                    r"exported, got \[5\]$"):
            cached(**self.arguments(ids, places[0]))
        with self.assertRaisesRegex(mlac.InvalidArgument, r"^expected the arguments \['input_ids', "
                                    r"'position_ids', 'use_cache'\] by name, as exported, got "
                                    r"\['use_cache'\] and 2 without a name$"):
            cached(ids, places, use_cache=False)

    def test_D46_values_of_a_call_are_those_of_the_example(self):
        """What is no tensor is a part of the graph: another value would change nothing."""
        model = self.make_model("llama", TINY, "sdpa")
        info = SequenceInfo(max_seq_len=32, max_batch_size=3, page_size=4)
        example = {**self.export_arguments(), "attention_mask": None, "logits_to_keep": 1}
        cached = self.make_cached(model, info, example, device=mlac.Device("cpu", 1), target="cpu")
        info.assign_cache_loc([[0]])
        info.nest_sequences([[1, 2, 3]])
        call = {**self.arguments(torch.ones(1, 3, dtype=torch.long), torch.arange(3)[None]),
                "attention_mask": None, "logits_to_keep": 1}
        self.assertEqual(cached(**call).logits.shape[:2], (1, 1))
        for name, value, message in (
                ("logits_to_keep", 0, "expected 1, as exported, got 0"),
                ("use_cache", True, "expected False, as exported, got True"),
                ("attention_mask", torch.ones(1, 3), "expected None, as exported, got a tensor")):
            with self.assertRaisesRegex(mlac.InvalidArgument, f"^{name}: {message}$"):
                cached(**{**call, name: value})

    def test_D46_tokens_of_a_call_are_those_of_info(self):
        """Behind the last of info nothing is computed, and rows of other sequences are others'."""
        model = self.make_model("llama", TINY, "sdpa")
        for options in ({}, {"attention": "PagedMultiHead"}):
            info = SequenceInfo(max_seq_len=64, max_batch_size=4, page_size=16, max_num_tokens=64)
            cached = self.make_cached(model, info, **options)
            info.assign_cache_loc([[2], [0]])
            for new, shape, message in (
                    ([[1, 2, 3]], (1, 5), r"the tokens of info, \[1, 3\], got \[1, 5\]: call"),
                    ([[1, 2, 3]], (3, 1), r"the tokens of info, \[1, 3\], got \[3, 1\]: call"),
                    ([[1, 2, 3], [4]], (2, 2), r"the tokens of info, \[1, 4\], got \[2, 2\]: call"),
                    ([[1] * 4, [2] * 4], (4, 2), r"\[1, 8\] or \[2, 4\], got \[4, 2\]"),
                    ([[1], [2]], (3, 1), r"\[1, 2\] or \[2, 1\], got \[3, 1\]")):
                with self.subTest(options=options, shape=shape):
                    info.nest_sequences(new)
                    ids = torch.ones(shape, dtype=torch.long)
                    with self.assertRaisesRegex(mlac.InvalidArgument, message):
                        cached(**self.arguments(ids, torch.arange(shape[1]).expand(shape)))
        # Of as many tokens each, sequences may have rows of their own.
        info = SequenceInfo(max_seq_len=64, max_batch_size=4, page_size=16, max_num_tokens=64)
        cached = self.make_cached(model, info)
        info.assign_cache_loc([[2], [0]])
        info.nest_sequences([[5, 6, 7], [8, 9, 10]])
        ids = torch.tensor([[5, 6, 7], [8, 9, 10]])
        with torch.no_grad():
            got = cached(**self.arguments(ids, torch.arange(3).expand(2, 3))).logits
            torch.testing.assert_close(got, model(ids).logits, rtol=1e-4, atol=1e-4)

    def test_D46_what_torch_does_not_export(self):
        """Its errors have hundreds of lines, of which one is of use, or none."""
        model = self.make_model("llama", TINY, "sdpa")
        info = SequenceInfo(max_seq_len=32, max_batch_size=3, page_size=4)
        example = {**self.export_arguments(), "use_cache": True}
        with self.assertRaisesRegex(mlac.InvalidArgument, r"^module: torch.export does not take it: it "
                                    r"returns a cache, .* give use_cache=False, .* \(RuntimeError: "
                                    r"Found .*DynamicCache") as caught:
            self.make_cached(model, info, example)
        self.assertNotIn("\n", str(caught.exception))
        rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
        model = self.make_model("llama", {**TINY, "rope_parameters": rope}, "sdpa")
        with self.assertRaisesRegex(mlac.InvalidArgument, r"numbers that are known when it runs, as rope "
                                    r"of type 'dynamic'.* \(GuardOnDataDependentSymNode: "):
            self.make_cached(model, info)
        with self.assertRaisesRegex(mlac.InvalidArgument, "not take it: TypeError: "):
            mlac.cached(torch.nn.Linear(4, 4), {"other": torch.zeros(1, 4)}, info)

    def test_D46_what_is_no_info(self):
        for wrong, kind in ((None, "NoneType"), (3, "int")):
            with self.assertRaisesRegex(mlac.InvalidArgument, "info: expected a SequenceInfo, whose "
                                        f"batch and pages are used, got {kind}"):
                mlac.cached(torch.nn.Linear(4, 4), (torch.zeros(1, 4),), wrong)

    def test_D46_refusals_of_descriptors(self):
        model = self.make_model("llama", TINY, "sdpa")
        info = SequenceInfo(max_seq_len=32, max_batch_size=3, page_size=4)
        with self.assertRaisesRegex(LookupError, "no attention 'Other' is registered"):
            self.make_cached(model, info, attention="Other")
        with self.assertRaisesRegex(ValueError, "MultiHead has no pages: page_size is 4"):
            self.make_cached(model, info, attention="MultiHead")
        with self.assertRaisesRegex(ValueError, "option 'target' is of packages"):
            self.make_cached(model, info, attention="PagedMultiHead", target="cpu")
        with self.assertRaisesRegex(ValueError, "in model.layers.0.self_attn: LlamaAttention has "
                                    "keys and values of heads, and the operator of "
                                    "'MultiHeadLatent' takes latents"):
            self.make_cached(model, info, attention="MultiHeadLatent")


if __name__ == "__main__":
    unittest.main()
