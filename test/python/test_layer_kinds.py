# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One package of a model whose layers are of several kinds, and a checkpoint of all of them.

Four layers of DeepSeek-V4's three kinds are compiled at once, bound by name from a folder of
shards whose projections are e4m3 codes with a scale for each block, and served together; every
row of every layer is compared with the float64 reference of the dequantised weights.
"""

import json
import pathlib
import tempfile
import unittest

import numpy as np

import mlac
from mlac import reference

import shared_key_layers as shared
import sparse_layers as layers
from narrow_floats import narrow, widen
from test_weights import FP8, write_folder

KINDS = (shared.WINDOW_ONLY, shared.SELECTED, shared.ALL, shared.SELECTED)
NAMES = ("sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention")
BLOCK = (48, 56)  # of no extent of any matrix
CONFIG = shared.config(
    shared.WINDOW_ONLY, num_hidden_layers=len(KINDS), layer_types=[NAMES[kind] for kind in KINDS],
    quantization_config=FP8 | {"weight_block_size": list(BLOCK), "scale_fmt": "ue8m0"})
# Matrices that checkpoints keep as they are: those that make entries and weights of heads.
PLAIN = ("compressor.kv_proj", "compressor.gate_proj", "compressor.indexer.kv_proj",
         "compressor.indexer.gate_proj", "compressor.indexer.scorer.weights_proj")
OPTIONS = dict(max_num_requests=2, max_num_tokens=160, max_seq_len=320)
# Tokens of both requests, in steps that begin and end beside windows, entries and pages.
STEPS = (("prefill", (130, 20)), ("decode", (1, 1)), ("prefill", (7, 110)), ("decode", (1, 1)))


class Codes:
    """Random weights of one layer as a checkpoint holds them, and what they are in float64."""

    def __init__(self, seed, kind, names):
        rng = np.random.default_rng(seed)
        self.stored, self.values = [], {}
        for name, values in shared.random_weights(rng, CONFIG, kind).items():
            if name not in names:
                continue
            stem = name.removesuffix(".weight")
            if values.ndim == 2 and stem not in PLAIN and "position_bias" not in name:
                self.values[name] = self._store(name, values, is_power="o_" in stem)
            else:
                self.stored.append((name, "BF16", values.shape, narrow(values, "bf16").tobytes()))
                self.values[name] = values

    def _store(self, name, values, is_power):
        """Codes and scales: f32, or bytes that are exponents."""
        codes, scales = mlac.quantize(values, BLOCK)
        kind, content = "F32", scales
        if is_power:
            exponents = np.round(np.log2(scales)).astype(np.int32)
            scales = np.exp2(exponents).astype(np.float32)
            kind, content = "F8_E8M0", (exponents + 127).astype(np.uint8)
        self.stored.append((name, "F8_E4M3", codes.shape, codes.tobytes()))
        self.stored.append((name + "_scale_inv", kind, scales.shape, content.tobytes()))
        return reference.dequantise(codes, scales, BLOCK).astype(np.float64)

    def tensors(self, prefix):
        return [(prefix + name, *rest) for name, *rest in self.stored]


def expected_rows(layer, values, story):
    """Outputs of a layer, its selection scores (or None)."""
    shape = reference.shared_keys_from_hf(CONFIG, layer)
    scores = selected = None
    if shape.indexer:
        scores = reference.shared_key_scores(shape, values, story, reference.quantise)
        seen = (np.arange(len(story)) + 1) // shape.every
        selected = reference.top_k(scores, seen, shape.indexer.topk)
    return shape, reference.shared_key_layer(shape, values, story, selected)[0], scores


class LayerKindsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.package = layers.compile_layer(CONFIG, cls.folder.name, "model", "--dtype=f32",
                                           "--page-size=16", "--functions=prefill,decode")
        names = [{tensor["name"] for tensor in kind.info["weights"]} for kind in cls.package.kinds]
        cls.weights = [Codes(number, kind, names[kind]) for number, kind in enumerate(KINDS)]
        cls.checkpoint = pathlib.Path(cls.folder.name) / "checkpoint"
        cls.checkpoint.mkdir()
        write_folder(cls.checkpoint, CONFIG, cls.weights)

    def serve(self, **options):
        served = mlac.Layers(self.package, mlac.Device("cpu"), **{**OPTIONS, **options})
        self.addCleanup(served.close)
        return served

    def test_kinds_and_their_layers_V4_46(self):
        self.assertEqual([kind["name"] for kind in self.package.info["kinds"]], list(NAMES))
        self.assertEqual([kind.layers for kind in self.package.kinds], [[0], [1, 3], [2]])
        pools = [[pool["name"] for pool in kind.info["pools"]] for kind in self.package.kinds]
        self.assertEqual(pools, [["cache"], ["cache", "entries", "states", "index", "index_states"],
                                 ["cache", "entries", "states"]])
        self.assertIn("heavily_compressed_attention", repr(self.package))

    def test_layers_of_a_checkpoint_of_codes_V4_31_V4_46_V4_50(self):
        served = self.serve()
        served.bind_checkpoint(self.checkpoint)
        for engine in served.engines:
            for layer in range(engine.info["options"]["num_layers"]):
                engine.poison_cache(layer)
        rng = np.random.default_rng(5)
        story = layers.widen(layers.narrow(
            rng.standard_normal((200, CONFIG["hidden_size"])), "f32"))
        expected = [expected_rows(number, codes.values, story)
                    for number, codes in enumerate(self.weights)]
        sequences, plan = [served.sequence(), served.sequence()], served.plan()
        compared = 0
        for function, counts in STEPS:
            rows = np.concatenate([np.arange(len(sequence), len(sequence) + count)
                                   for sequence, count in zip(sequences, counts)])
            plan.fill(sequences, counts, function)
            for engine in served.engines:
                engine.poison_workspace()
            for layer, (shape, outputs, scores) in enumerate(expected):
                got = plan.run(story[rows].astype(np.float32), layer=layer)
                clear = np.ones(len(rows), bool) if scores is None else \
                    shared.clear_rows(shape, scores, rows, layers.SCORE_SLACK["f32"])
                self.assertTrue(np.isfinite(got).all())
                worst = layers.judge_output(got[clear], outputs[rows][clear], "f32")
                self.assertLess(worst, 1, f"layer {layer}, {function} of {counts}")
                compared += clear.sum()
        self.assertGreater(compared, 0.5 * len(expected) * sum(sum(c) for _, c in STEPS))

    def test_plans_are_of_steps_and_kinds_V4_31(self):
        """One plan of a kind serves its layers and any number of runs; without a step there is none."""
        served = self.serve()
        served.bind_checkpoint(self.checkpoint)
        hidden = np.random.default_rng(31).standard_normal((9, CONFIG["hidden_size"]))
        hidden, output = hidden.astype(np.float32), np.full_like(hidden, np.nan, np.float32)
        plan = served.plan()
        with self.assertRaisesRegex(mlac.WrongState, "plan"):
            plan.parts[1].run_bound(hidden=hidden, output=output)
        plan.fill([served.sequence()], [9])
        for layer in (1, 3):
            first = plan.run(hidden, layer=layer)
            self.assertEqual(plan.run(hidden, layer=layer).tobytes(), first.tobytes())
        with self.assertRaisesRegex(mlac.InvalidArgument, "layer = 2|layer 2"):
            plan.parts[1].run(hidden, output, 2)
        self.assertTrue(np.all(np.isnan(output)))

    def test_what_is_wrong_is_named(self):
        device = mlac.Device("cpu")
        with self.assertRaisesRegex(mlac.InvalidArgument, "layers are of 3 kinds .sliding_att.*: "
                                                          "mlac.Layers takes all of them"):
            mlac.Engine(self.package, device)
        kind = self.package.kinds[1]
        with self.assertRaisesRegex(mlac.InvalidArgument, "layers that are alike"):
            mlac.Layers(kind, device)
        with self.assertRaisesRegex(mlac.InvalidArgument, "num_layers"):
            self.serve(num_layers=2)
        served = self.serve()
        with self.assertRaisesRegex(mlac.InvalidArgument, "layer 4: .* 4 layers, from 0 to 3"):
            served.place(4)
        plan = served.plan()
        for sequences in (served.sequence(), [served.engines[0].sequence()]):
            with self.assertRaisesRegex(mlac.InvalidArgument, "sequences: expected a list of what "
                                                              r"mlac.Layers.sequence\(\) makes"):
                plan.fill(sequences, [1])
        with self.assertRaisesRegex(TypeError, r"query_lens\[0\]: expected an integer, got '4'"):
            plan.fill([served.sequence()], ["4"])
        engine = served.engines[1]
        with self.assertRaisesRegex(mlac.NotFound, "attention 2 of the package's kind, which has "
                                                   "2 layers"):
            engine.bind_checkpoint(self.checkpoint, attention=1)

    def test_layers_with_and_without_a_window_E7(self):
        """Of groups of heads: each layer's numbers are those of its own package."""
        config = {"model_type": "gemma2", "hidden_size": 32, "num_attention_heads": 2,
                  "num_key_value_heads": 1, "head_dim": 16, "num_hidden_layers": 3,
                  "max_position_embeddings": 512, "sliding_window": 8}

        def compiled(name, *options):
            return layers.compile_layer(config, self.folder.name, name, "--dtype=f32",
                                        "--functions=prefill,decode", *options)

        package = compiled("both")
        self.assertEqual([(kind["name"], kind["layers"]) for kind in package.info["kinds"]],
                         [("sliding_attention", [0, 2]), ("full_attention", [1])])
        rng, device = np.random.default_rng(6), mlac.Device("cpu")
        hidden = rng.standard_normal((40, 32)).astype(np.float32)
        weights = {weight["name"]: rng.standard_normal(weight["shape"]).astype(np.float32)
                   for weight in package.kinds[0].info["weights"]}
        served = mlac.Layers(package, device, max_seq_len=64)
        self.addCleanup(served.close)
        outputs = []
        for layer in range(3):
            number, index = served.place(layer)
            served.engines[number].bind(weights, index)
            served.engines[number].prepare(index)
        sequence, plan = served.sequence(), served.plan()
        plan.fill([sequence], [40])
        for layer in range(3):
            alone = mlac.Engine(compiled(f"layer{layer}", f"--layer={layer}"), device, max_seq_len=64)
            alone.bind(weights)
            alone.prepare()
            one = alone.plan()
            one.fill([alone.sequence()], [40])
            outputs.append(plan.run(hidden, layer=layer))
            self.assertEqual(outputs[layer].tobytes(), one.run(hidden).tobytes())
            alone.close()
        self.assertGreater(np.abs(outputs[0] - outputs[1])[8:].max(), 1e-3)
        np.testing.assert_allclose(outputs[0][:8], outputs[1][:8], rtol=1e-4, atol=1e-5)

    def test_a_checkpoint_of_fewer_layers(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            write_folder(folder, CONFIG, self.weights[:3])
            served = self.serve()
            with self.assertRaisesRegex(mlac.NotFound, "attention 3 of .*, which has 3"):
                served.bind_checkpoint(folder)

    def test_a_scale_that_is_no_number(self):
        served = self.serve()
        name = "o_b_proj.weight"
        with tempfile.TemporaryDirectory() as folder:
            weights = Codes(0, shared.WINDOW_ONLY, {t["name"] for t in
                                                    self.package.kinds[0].info["weights"]})
            weights.stored = [(stored, kind, shape, b"\xff" * len(data))
                              if stored == name + "_scale_inv" else (stored, kind, shape, data)
                              for stored, kind, shape, data in weights.stored]
            write_folder(pathlib.Path(folder), CONFIG, [weights])
            with self.assertRaisesRegex(mlac.InvalidArgument, "o_b_proj.weight_scale_inv.*"
                                                              "scale 0 is the byte 255"):
                served.engines[0].bind_checkpoint(pathlib.Path(folder))

    def test_pages_run_out_before_anything_advances(self):
        served = self.serve(num_pages=3)
        sequence, plan = served.sequence(), served.plan()
        with self.assertRaises(mlac.OutOfPages):
            plan.fill([sequence], [100])
        self.assertEqual([len(part) for part in sequence.parts], [0, 0, 0])
        plan.fill([sequence], [40])
        self.assertEqual([len(part) for part in sequence.parts], [40, 40, 40])
        sequence.truncate(38)
        self.assertEqual(len(sequence), 38)

    def test_a_refused_truncation_is_one_of_no_kind(self):
        """Kinds of different lengths would go on from different positions without a word."""
        served = self.serve()
        sequence, plan = served.sequence(), served.plan()
        plan.fill([sequence], [150])
        plan.fill([sequence], [1])
        for wrong, message in ((100, "cannot go back to 100 tokens"), (152, "152"), (-1, "-1")):
            with self.assertRaisesRegex(mlac.InvalidArgument, message):
                sequence.truncate(wrong)
            self.assertEqual([len(part) for part in sequence.parts], [151] * 3)
        free = [engine.cache_stats["free_pages"] for engine in served.engines]
        sequence.truncate(150)
        self.assertEqual([len(part) for part in sequence.parts], [150] * 3)
        self.assertEqual([engine.cache_stats["num_sequences"] for engine in served.engines],
                         [1] * 3)
        self.assertEqual([engine.cache_stats["free_pages"] for engine in served.engines], free)

    def test_a_step_that_a_kind_refuses_advances_none(self):
        """As of a graph that was captured of one kind and would not serve the step."""
        served = self.serve()
        sequences, plan = [served.sequence(), served.sequence()], served.plan()
        plan.fill(sequences, [150, 3])
        fill, last = plan.parts[2].fill, plan.parts[2]

        def refuse(*_):
            raise mlac.WrongState("captured")

        last.fill = refuse
        with self.assertRaisesRegex(mlac.WrongState, "captured"):
            plan.fill(sequences, [5, 1])
        last.fill = fill
        lengths = [[len(part) for part in sequence.parts] for sequence in sequences]
        self.assertEqual(lengths, [[150] * 3, [3] * 3])
        plan.fill(sequences, [1, 1])
        self.assertEqual([part.metadata("positions") for part in plan.parts], [[150, 3]] * 3)


class Fours(Codes):
    """Matrices as bytes of two e2m1 numbers, each 16 with a scale of e4m3, and one of the tensor."""

    VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])

    def _store(self, name, values, is_power):
        del is_power
        rows, columns = values.shape
        groups = values.reshape(rows, -1, 16)
        factor = np.float32(np.abs(values).max() / (6 * 448))
        scales = np.maximum(np.abs(groups).max(axis=-1) / 6 / factor, 2.0 ** -9)
        scale_codes = np.abs(reference.e4m3_values()[:127] - scales[..., None]).argmin(axis=-1)
        exact = (reference.e4m3_values().astype(np.float32)[scale_codes] * factor)[..., None]
        magnitudes = np.abs(np.abs(groups / exact)[..., None] - self.VALUES).argmin(axis=-1)
        fours = (magnitudes | np.where(groups < 0, 8, 0)).reshape(rows, columns).astype(np.uint8)
        stem = name.removesuffix("weight")
        self.stored += [(name, "U8", (rows, columns // 2), (fours[:, ::2] | fours[:, 1::2] << 4)
                         .tobytes()),
                        (stem + "weight_scale", "F8_E4M3", scale_codes.shape,
                         scale_codes.astype(np.uint8).tobytes()),
                        (stem + "weight_scale_2", "F32", (), factor.tobytes())]
        signs = np.where(groups < 0, -1, 1)
        return (signs * self.VALUES[magnitudes] * exact).reshape(rows, columns).astype(np.float64)


class FoursTest(unittest.TestCase):
    """NVFP4, dequantised when it is bound."""

    CONFIG = shared.config(shared.SELECTED, quantization_config={
        "quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16})

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.package = layers.compile_layer(self.CONFIG, self.folder, "layer", "--dtype=f32",
                                            "--indexer=shared", "--functions=prefill,decode")
        self.weights = Fours(50, shared.SELECTED,
                             {tensor["name"] for tensor in self.package.info["weights"]})
        self.engine = mlac.Engine(self.package, mlac.Device("cpu"), **OPTIONS)

    def bind(self):
        write_folder(self.folder, self.CONFIG, [self.weights])
        self.engine.bind_checkpoint(self.folder)

    def test_four_bits_a_number_V4_50(self):
        self.bind()
        rng = np.random.default_rng(6)
        story = rng.standard_normal((40, self.CONFIG["hidden_size"])).astype(np.float32)
        shape = reference.shared_keys_from_hf(self.CONFIG, 0)
        seen = (np.arange(len(story)) + 1) // shape.every
        scores = rng.standard_normal((len(story), len(story) // shape.every))
        selected = reference.top_k(scores, seen, shape.indexer.topk).astype(np.int32)
        expected, _ = reference.shared_key_layer(shape, self.weights.values, story, selected)
        self.engine.prepare()
        plan, output = self.engine.plan(), np.full(story.shape, np.nan, np.float32)
        plan.fill([self.engine.sequence()], [len(story)])
        plan.run_bound(hidden=story, output=output, selected=selected)
        self.assertLess(layers.judge_output(output, expected, "f32"), 1)

    def test_of_arrays_V4_50(self):
        """A mapping of arrays gives the layer that the checkpoint does; NumPy's bytes are numbers of
        four bits, or e4m3 where they are scales."""
        types = {"F32": np.float32, "BF16": np.uint16}
        arrays = {name: np.frombuffer(data, types.get(kind, np.uint8)).reshape(shape)
                  for name, kind, shape, data in self.weights.stored}
        other = mlac.Engine(self.package, mlac.Device("cpu"), **OPTIONS)
        other.bind(arrays)
        other.prepare()
        self.bind()
        rng, outputs = np.random.default_rng(7), []
        story = rng.standard_normal((20, self.CONFIG["hidden_size"])).astype(np.float32)
        selected = np.zeros((len(story), self.CONFIG["index_topk"]), np.int32)
        for engine in (self.engine, other):
            plan = engine.plan()
            plan.fill([engine.sequence()], [len(story)])
            outputs.append(np.full(story.shape, np.nan, np.float32))
            plan.run_bound(hidden=story, output=outputs[-1], selected=selected)
        np.testing.assert_array_equal(*outputs)

    def test_what_is_missing_is_named_V4_50(self):
        self.weights.stored = [tensor for tensor in self.weights.stored
                               if tensor[0] != "o_b_proj.weight_scale_2"]
        with self.assertRaisesRegex(mlac.NotFound, "'o_b_proj.weight': has numbers of four bits, and "
                                                   "lacks '.*o_b_proj.weight_scale_2'"):
            self.bind()

    def test_scales_of_other_groups_V4_50(self):
        self.weights.stored = [(name, kind, (shape[0], shape[1] // 2), data[:len(data) // 2])
                               if name == "q_a_proj.weight_scale" else (name, kind, shape, data)
                               for name, kind, shape, data in self.weights.stored]
        with self.assertRaisesRegex(mlac.InvalidArgument, r"scales of e4m3 and shape \[48, 6\].*"
                                                          r"got e4m3 \[48, 3\]"):
            self.bind()


if __name__ == "__main__":
    unittest.main()
