# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights as checkpoints have them: e4m3 codes with scales, in folders of shards.

Layers of which no extent is a multiple of a block of scales, compiled from configurations in
the spellings of those who write checkpoints. An engine with codes must give the bits of
one whose weights were dequantised here, and both agree with the float64 reference of the
dequantised values. Needs NumPy.
"""

import io
import json
import os
import pathlib
import struct
import subprocess
import tempfile
import unittest
import warnings

import numpy as np

import mlac
from mlac import reference

import random_cases
from narrow_floats import narrow, widen

COMPILE = os.environ.get("MLAC_COMPILE", "")
# P + V = 64 rows a head of kv_b: with blocks of 48 a scale belongs to two heads.
CONFIG = {"model_type": "deepseek_v3", "hidden_size": 200, "num_attention_heads": 6,
          "num_hidden_layers": 3, "q_lora_rank": 72, "kv_lora_rank": 96,
          "qk_nope_head_dim": 40, "qk_rope_head_dim": 16, "v_head_dim": 24, "rope_theta": 1e4,
          "max_position_embeddings": 512, "rms_norm_eps": 1e-6}
TOKENS, PREFILL = 70, 66
# mla.md section 14: (cosine difference, WMAPE) of a layer against float64. f16 rounds where bf16
# does, eight times finer.
ALLOWED = {"f32": (1e-9, 1e-5), "f16": (5e-5 / 64, 0.01 / 8), "bf16": (5e-5, 0.01)}

FP8 = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic"}


def compressed(strategy, **weights):
    numbers = {"type": "float", "num_bits": 8, "symmetric": True, "dynamic": False}
    return {"quant_method": "compressed-tensors", "format": "float-quantized",
            "ignore": ["lm_head"],
            "config_groups": {"group_0": {
                "targets": ["Linear"], "weights": numbers | {"strategy": strategy} | weights,
                "input_activations": {"type": "float", "num_bits": 8, "strategy": "token",
                                      "dynamic": True}}}}


# name: quantization_config, its block, names of codes and scales, options.
STRATEGIES = {
    "block": (FP8 | {"weight_block_size": [48, 56]}, (48, 56),
              ("weight", "weight_scale_inv"), ["--dtype=f32"]),
    "deepseek": (FP8 | {"weight_block_size": [128, 128], "scale_fmt": "ue8m0"}, (128, 128),
                 ("weight", "weight_scale_inv"), ["--dtype=bf16"]),
    "tensor": (FP8 | {"activation_scheme": "static"}, (0, 0),
               ("weight", "weight_scale"), ["--dtype=f32"]),
    "compressed_channel": (compressed("channel"), (1, 0),
                           ("weight_packed", "weight_scale"), ["--dtype=bf16"]),
    "compressed_block": (compressed("block", block_structure=[48, 56]), (48, 56),
                         ("weight", "weight_scale"), ["--dtype=f16"]),
    "compressed_tensor": (compressed("tensor"), (0, 0), ("qweight", "weight_scale"),
                          ["--dtype=f16"]),
    "fbgemm": ({"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0,
                "modules_to_not_convert": ["lm_head"]}, (1, 0),
               ("weight", "weight_scale"), ["--dtype=f32"]),
    "modelopt": ({"quant_method": "modelopt", "quant_algo": "FP8"}, (0, 0),
                 ("weight", "weight_scale"), ["--dtype=bf16"]),
}


class Layer:
    """Random weights in four ways: codes with scales, dequantised, and float64 of these."""

    def __init__(self, seed, block, names, dtype, config=CONFIG):
        rng = np.random.default_rng(seed)
        self.codes, self.plain = {}, {}
        for name, values in random_cases.weights(rng, config).items():
            if values.ndim == 1:
                self.codes[name] = self.plain[name] = narrow(values, dtype)
                continue
            codes, scales = mlac.quantize(values, block)
            stem = name.removesuffix("weight")
            self.codes[stem + names[0]], self.codes[stem + names[1]] = codes, scales
            self.plain[name] = narrow(reference.dequantise(codes, scales, block), dtype)
        self.values = {name: widen(array) for name, array in self.plain.items()}

    def tensors(self, prefix):
        """As a safetensors file has them: name, type, shape, bytes."""
        types = {"uint8": "F8_E4M3", "uint16": "BF16", "float16": "F16", "float32": "F32"}
        return [(prefix + name, types[str(array.dtype)], array.shape, array.tobytes())
                for name, array in self.codes.items()]


def write_shard(path, tensors):
    header, data = {}, io.BytesIO()
    for name, dtype, shape, content in tensors:
        begin = data.tell()
        data.write(content)
        header[name] = {"dtype": dtype, "shape": list(shape),
                        "data_offsets": [begin, data.tell()]}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data.getvalue())


def write_folder(folder, config, layers):
    """As Hugging Face publishes models: two shards, each with a part of every layer."""
    (folder / "config.json").write_text(json.dumps(config))
    shards, index = ([], []), {}
    for number, layer in enumerate(layers):
        for place, tensor in enumerate(layer.tensors(f"model.layers.{number}.self_attn.")):
            shards[place % 2].append(tensor)
            index[tensor[0]] = f"model-{place % 2 + 1:05}-of-00002.safetensors"
    for number, tensors in enumerate(shards, 1):
        write_shard(folder / f"model-{number:05}-of-00002.safetensors", tensors)
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": 1}, "weight_map": index}))


def compile_package(source, options):
    with tempfile.TemporaryDirectory() as folder:
        package = pathlib.Path(folder) / "layer.mlac"
        subprocess.run([COMPILE, source, "--quiet", "--target=cpu", "--page-size=16", *options,
                        "-o", package], check=True)
        return mlac.Package(str(package))


def make_engine(package, **options):
    return mlac.Engine(package, mlac.Device("cpu"), max_num_requests=1, max_num_tokens=TOKENS,
                       max_seq_len=TOKENS, **options)


def run(engine, hidden, layer=0):
    """A prompt and then tokens one by one; every row."""
    engine.poison_cache(layer)
    plan, sequence, rows = engine.plan(), engine.sequence(), []
    for begin, end in [(0, PREFILL)] + [(i, i + 1) for i in range(PREFILL, TOKENS)]:
        plan.fill([sequence], [end - begin])
        rows.append(plan.run(np.ascontiguousarray(hidden[begin:end]), layer=layer).copy())
    return np.concatenate(rows)


def make_hidden(dtype, seed=3):
    return narrow(np.random.default_rng(seed).standard_normal((TOKENS, CONFIG["hidden_size"])),
                    dtype)


class WeightsTest(unittest.TestCase):
    def compile(self, quantization, options):
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "config.json"
            config.write_text(json.dumps(CONFIG | {"quantization_config": quantization}))
            return compile_package(config, options)

    def check(self, output, hidden, values, dtype, what):
        expected, _ = reference.attention_layer(reference.config_from_hf(CONFIG), values,
                                                widen(hidden))
        cosine, wmape = ALLOWED[dtype]
        self.assertLess(reference.cosine_difference(widen(output), expected), cosine, what)
        self.assertLess(reference.wmape(widen(output), expected), wmape, what)

    def check_strategy(self, name, *more):
        quantization, block, names, options = STRATEGIES[name]
        dtype = options[0].removeprefix("--dtype=")
        package = self.compile(quantization, [*options, *more])
        self.assertEqual(package.info["weight_scales"]["block"], list(block))
        layer, hidden = Layer(1, block, names, dtype), make_hidden(dtype)
        outputs = []
        for weights in (layer.codes, layer.plain):
            engine = make_engine(package)
            engine.bind(weights)
            engine.prepare()
            outputs.append(run(engine, hidden))
        self.assertEqual(outputs[0].tobytes(), outputs[1].tobytes(), name)
        self.check(outputs[0], hidden, layer.values, dtype, name)

    def test_A11_A14_A46_B32_B33_every_strategy_is_its_dequantised_weights(self):
        for name in STRATEGIES:
            with self.subTest(name):
                self.check_strategy(name)

    def test_A13_absorbed_weights_are_products_of_dequantised_ones(self):
        for name in ("block", "deepseek"):
            with self.subTest(name):
                self.check_strategy(name, "--form=absorbed", "--absorb=offline")

    def test_A11_A17_ranks_take_their_share_of_codes_and_scales(self):
        # Shares of 128 rows of kv_b and 48 columns of o, in blocks of 48 and 56.
        quantization, block, names, options = STRATEGIES["block"]
        package = self.compile(quantization, [*options, "--tp=3"])
        layer, hidden = Layer(2, block, names, "f32"), make_hidden("f32")
        total = np.zeros(hidden.shape)
        for rank in range(3):
            engine = make_engine(package, tensor_parallel_rank=rank)
            engine.bind(layer.codes)
            engine.prepare()
            total += run(engine, hidden)
        self.check(total.astype(np.float32), hidden, layer.values, "f32", "3 ranks")

    def test_A14_dequantised_weights_take_no_codes(self):
        quantization, block, names, options = STRATEGIES["deepseek"]
        package = self.compile(quantization, [*options, "--dequantised-weights"])
        self.assertIsNone(package.info["weight_scales"])
        layer = Layer(1, block, names, "bf16")
        engine = make_engine(package)
        with self.assertRaisesRegex(mlac.InvalidArgument, "compiled for weights without scales"):
            engine.bind(layer.codes)
        with self.assertRaisesRegex(mlac.WrongState, "weights are not bound: q_a_proj.weight"):
            engine.prepare()
        engine.bind(layer.plain)
        engine.prepare()

    def test_A47_scales_of_activations_are_ignored(self):
        quantization, block, names, options = STRATEGIES["tensor"]
        package = self.compile(quantization, options)
        layer, hidden = Layer(1, block, names, "f32"), make_hidden("f32")
        outputs = []
        for scales in ({}, {"o_proj.input_scale": np.array([3e-3], np.float32)}):
            engine = make_engine(package)
            engine.bind(layer.codes | scales)
            engine.prepare()
            outputs.append(run(engine, hidden).tobytes())
        self.assertEqual(*outputs)

    def test_codes_of_other_libraries(self):
        layer = Layer(1, (0, 0), ("weight", "weight_scale"), "f32")
        codes = layer.codes["o_proj.weight"]
        engine = make_engine(self.compile(*(STRATEGIES["tensor"][i] for i in (0, 3))))
        try:
            import ml_dtypes
            engine.bind({"o_proj.weight": codes.view(ml_dtypes.float8_e4m3fn),
                         "o_proj.weight_scale": layer.codes["o_proj.weight_scale"]})
        except ImportError:
            pass
        try:
            import torch
        except ImportError:
            return
        engine.bind({"o_proj.weight": torch.from_numpy(codes).view(torch.float8_e4m3fn),
                     "o_proj.weight_scale": torch.from_numpy(layer.codes["o_proj.weight_scale"])})


class KeptCodesTest(unittest.TestCase):
    """Products that read codes (--keep-codes), against float64 of codes times scales: no weight of
    a projection is rounded."""

    # Whole tiles of 64 rows and 128 columns; kv_a's last block of rows is half of one.
    CONFIG = CONFIG | {"hidden_size": 256, "q_lora_rank": 128, "kv_lora_rank": 128,
                       "qk_nope_head_dim": 64, "qk_rope_head_dim": 64, "v_head_dim": 64}
    CODED = ["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "o_proj"]
    KEPT = "--keep-codes"
    NAMES = ("deepseek", "tensor", "compressed_channel", "compressed_tensor", "fbgemm", "modelopt")
    RANKED = ("deepseek", "fbgemm")

    def compile(self, name, *more):
        quantization, block, names, options = STRATEGIES[name]
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "config.json"
            config.write_text(json.dumps(self.CONFIG | {"quantization_config": quantization}))
            package = compile_package(config, [*options, self.KEPT, *more])
        dtype = package.info["model"]["activation_dtype"]
        layer = Layer(5, block, names, dtype, self.CONFIG)
        self.exact(package, layer, names, block)
        hidden = narrow(np.random.default_rng(6).standard_normal((TOKENS, 256)), dtype)
        return package, layer, hidden, dtype

    def exact(self, package, layer, names, block):
        """What projections multiply: codes times scales, not rounded."""
        layer.coded = {}
        # As activations have scales where they are codes (mla.md section 7).
        layer.multiplied = reference.quantise_rows if block[1] == 0 else reference.quantise_groups
        for weight in package.info["weights"]:
            if weight["dtype"] == "e4m3":
                stem = weight["name"].removesuffix("weight")
                layer.values[weight["name"]] = layer.coded[weight["name"]] = reference.dequantise(
                    layer.codes[stem + names[0]], layer.codes[stem + names[1]], block)

    def bound(self, package, weights, **options):
        engine = make_engine(package, **options)
        engine.bind(weights)
        engine.prepare()
        return engine

    def check(self, output, layer, hidden, dtype):
        expected, _ = reference.attention_layer(reference.config_from_hf(self.CONFIG),
                                                layer.values, widen(hidden))
        cosine, wmape = ALLOWED[dtype]
        self.assertLess(reference.cosine_difference(widen(output), expected), cosine)
        self.assertLess(reference.wmape(widen(output), expected), wmape)

    def types(self, package):
        return {weight["name"]: weight["dtype"] for weight in package.info["weights"]}

    def test_A16_A46_every_strategy_is_its_codes_times_scales(self):
        for name in self.NAMES:
            with self.subTest(name):
                package, layer, hidden, dtype = self.compile(name)
                types = self.types(package)
                for stem in self.CODED:
                    self.assertEqual(types[stem + ".weight"], "e4m3")
                    self.assertEqual(types[stem + ".weight_scale_inv"], "f32")
                self.assertEqual(types["kv_b_proj.weight"], dtype)
                self.check(run(self.bound(package, layer.codes), hidden), layer, hidden, dtype)

    def test_A46_other_blocks_are_dequantised(self):
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "config.json"
            quantization, _, _, options = STRATEGIES["block"]
            config.write_text(json.dumps(self.CONFIG | {"quantization_config": quantization}))
            package = compile_package(config, [*options, "--keep-codes"])
        self.assertEqual(set(self.types(package).values()), {"f32"})

    def test_A12_A13_absorbed_weights_stay_in_the_activations_type(self):
        package, layer, hidden, dtype = self.compile("deepseek", "--form=absorbed",
                                                     "--absorb=offline")
        types = self.types(package)
        self.assertEqual((types["q_a_proj.weight"], types["q_b_proj.weight"],
                          types["o_proj.weight"]), ("e4m3", "bf16", "bf16"))
        self.check(run(self.bound(package, layer.codes), hidden), layer, hidden, dtype)

    def test_A17_ranks_take_their_share_of_codes_and_scales(self):
        for name in self.RANKED:
            with self.subTest(name):
                # 256 of q_b's 768 rows and 128 of o's 384 columns are whole blocks.
                package, layer, hidden, dtype = self.compile(name, "--tp=3")
                for stem in self.CODED:
                    self.assertEqual(self.types(package)[stem + ".weight"], "e4m3")
                total = sum(widen(run(self.bound(package, layer.codes, tensor_parallel_rank=rank),
                                      hidden)) for rank in range(3))
                self.check(narrow(total, "f32"), layer, hidden, dtype)

    def test_A47_scales_of_activations_are_ignored(self):
        package, layer, hidden, _ = self.compile("tensor")
        outputs = [run(self.bound(package, layer.codes | scales), hidden).tobytes() for scales in
                   ({}, {"o_proj.input_scale": np.array([3e-3], np.float32)})]
        self.assertEqual(*outputs)

    def test_a_folder(self):
        quantization, block, names, options = STRATEGIES["deepseek"]
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            layers = [Layer(seed, block, names, "bf16", self.CONFIG) for seed in (1, 2, 3)]
            write_folder(folder, self.CONFIG | {"quantization_config": quantization}, layers)
            package = compile_package(folder, [*options, self.KEPT])
            engine = make_engine(package)
            engine.bind_checkpoint(folder, attention=1)
            hidden = narrow(np.random.default_rng(6).standard_normal((TOKENS, 256)), "bf16")
            self.assertEqual(run(engine, hidden).tobytes(),
                             run(self.bound(package, layers[1].codes), hidden).tobytes())

    def test_A14_what_is_no_code_is_refused(self):
        package, layer, _, _ = self.compile("deepseek")
        engine = make_engine(package)
        with self.assertRaisesRegex(mlac.InvalidArgument,
                                    "weight 'o_proj.weight': expected dtype e4m3, got .*keep-codes"):
            engine.bind({"o_proj.weight": layer.plain["o_proj.weight"]})
        with self.assertRaisesRegex(mlac.NotFound, "'o_proj.weight': .*lacks its scales"):
            engine.bind({"o_proj.weight": layer.codes["o_proj.weight"]})
        wrong = {name: layer.codes[name].copy()
                 for name in ("o_proj.weight", "o_proj.weight_scale_inv")}
        wrong["o_proj.weight"][3, 5] = 0x7f
        with self.assertRaisesRegex(mlac.InvalidArgument, r"element \[3, 5\] is NaN"):
            engine.bind(wrong)
        wrong = {"o_proj.weight": layer.codes["o_proj.weight"],
                 "o_proj.weight_scale_inv": np.ones((3, 3), np.float32)}
        with self.assertRaisesRegex(mlac.InvalidArgument, r"expected shape \[2, 3\]"):
            engine.bind(wrong)


class CodedActivationsTest(KeptCodesTest):
    """Products of codes and codes (--keep-codes=both), against float64 of what both stand for:
    activations have a scale for 128 columns of a token, or for a token where weights have no blocks."""

    KEPT = "--keep-codes=both"
    RANKED = ("deepseek",)  # a rank's share of a token has one scale, not the token
    # e4m3 rounds to 2^-4: of what an activation's neighbours round to, a share of 2^-9 / 2^-4
    # moves to the next code, which is 2^-3 away. The bound of bf16 for what does not.
    MOVED = 2 ** -3 * (2 ** -5) ** 0.5

    def check(self, output, layer, hidden, dtype):
        config, rows = reference.config_from_hf(self.CONFIG), widen(hidden)
        plain, _ = reference.attention_layer(config, layer.values, rows)
        if layer.values["o_proj.weight"] is layer.coded.get("o_proj.weight"):
            expected, _ = reference.attention_layer(config, layer.values, rows,
                                                    multiplied=layer.multiplied)
        else:  # absorbed: codes are multiplied by hidden states alone
            expected, _ = reference.attention_layer(config, layer.values, layer.multiplied(rows))
        wmape, quantised = (reference.wmape(widen(output), expected),
                            reference.wmape(expected, plain))
        print(f"WMAPE of codes and codes: {wmape:.2e}, of the quantisation alone {quantised:.2e}")
        self.assertLess(wmape, ALLOWED[dtype][1] + self.MOVED)
        # Nearer to what is modelled than that is to the layer without codes of activations.
        self.assertLess(wmape, quantised / 2)
        self.assertLess(reference.wmape(widen(output), plain), 2 * quantised)

    def test_A46_other_blocks_are_dequantised(self):
        """Blocks that are no groups of the activations' columns are refused, by their name."""
        quantization, _, _, options = STRATEGIES["block"]
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "config.json"
            config.write_text(json.dumps(self.CONFIG | {"quantization_config": quantization}))
            done = subprocess.run([COMPILE, config, "--quiet", *options, self.KEPT, "-o",
                                   pathlib.Path(folder) / "x.mlac"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--keep-codes=both supports the strategies tensor, channel and block of N x "
                      "128, whose columns agree with the activations' groups, not block of 48 x 56; "
                      "--keep-codes=weights takes it", done.stderr)

    def test_A12_A47_channels_and_tensors_have_products_of_codes_on_a_gpu(self):
        """Every product of codes has the product schedule, whose tiles may be codes: of the
        projections, of latents, and with absorbed weights."""
        for name in ("compressed_channel", "tensor", "modelopt"):
            quantization, _, _, options = STRATEGIES[name]
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                config = pathlib.Path(folder) / "config.json"
                config.write_text(json.dumps(self.CONFIG | {
                    "qk_nope_head_dim": 128, "v_head_dim": 128,  # depths of absorbed products
                    "quantization_config": quantization}))
                done = subprocess.run([COMPILE, config, "--quiet", "--dtype=bf16", self.KEPT,
                                       "--absorbed=codes", "--target=sm_90a", "--emit=tile",
                                       "-o", "-"], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                products = [line for line in done.stdout.splitlines()
                            if "tile.kernel @linear_coded_" in line]
                self.assertGreaterEqual(len(products), 8)
                for line in products:
                    self.assertIn("tile.schedule = #tile.product<", line)

    def test_A47_scales_of_activations_are_ignored(self):
        for name in ("deepseek", "tensor"):  # "tensor" is of a checkpoint that has such scales
            with self.subTest(name):
                package, layer, hidden, _ = self.compile(name)
                outputs = [run(self.bound(package, layer.codes | scales), hidden).tobytes()
                           for scales in
                           ({}, {"o_proj.input_scale": np.array([3e-3], np.float32)})]
                self.assertEqual(*outputs)

    def test_A47_a_token_has_one_scale_beside_channels_and_tensors(self):
        """What a token's codes are depends on it alone: rows by themselves are those of a batch."""
        for name in ("compressed_channel", "tensor"):
            with self.subTest(name):
                package, layer, hidden, dtype = self.compile(name)
                together = run(self.bound(package, layer.codes), hidden)
                louder = widen(hidden).astype(np.float32)
                louder[PREFILL - 1] *= 8  # of the prompt's tokens the last: none sees it
                apart = run(self.bound(package, layer.codes), narrow(louder, dtype))
                self.assertEqual(together[:PREFILL - 1].tobytes(), apart[:PREFILL - 1].tobytes())


class FolderTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name) / "DeepSeek"
        self.folder.mkdir()
        quantization, block, names, options = STRATEGIES["block"]
        self.layers = [Layer(seed, block, names, "f32") for seed in (1, 2, 3)]
        write_folder(self.folder, CONFIG | {"quantization_config": quantization}, self.layers)
        self.package = compile_package(self.folder, options)
        self.hidden = make_hidden("f32")

    def tearDown(self):
        self.temporary.cleanup()

    def expected(self, number):
        engine = make_engine(self.package)
        engine.bind(self.layers[number].codes)
        engine.prepare()
        return run(engine, self.hidden).tobytes()

    def test_rope_of_another_configuration(self):
        """A package of a model whose sizes are the same (Kimi K2's releases differ in rope's factor) was
        bound without a word."""
        path = self.folder / "config.json"
        config = json.loads(path.read_text())

        def bind(checkpoint):
            engine = make_engine(self.package, num_layers=3)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                engine.bind_checkpoint(checkpoint)
            return [(str(each.message), each.filename) for each in caught]
        self.assertEqual(bind(self.folder), [])
        for whole in (config | {"rope_theta": 5e4}, {"text_config": config | {"rope_theta": 5e4},
                      "quantization_config": config["quantization_config"]}):
            path.write_text(json.dumps(whole))
            with mlac.Checkpoint(self.folder) as opened:
                for checkpoint in (self.folder, opened):
                    ((message, place),) = bind(checkpoint)
                    self.assertRegex(message, r"config.json: rope_theta = 50000.0 \(compiled: 10000.0\)")
                    self.assertEqual(place, __file__)

    def test_all_layers_in_one_call(self):
        engine, seen = make_engine(self.package, num_layers=3), []
        engine.bind_checkpoint(self.folder, progress=lambda *step: seen.append(step))
        self.assertEqual(seen, [(done, 6) for done in range(1, 7)])
        for number in range(3):
            self.assertEqual(run(engine, self.hidden, number).tobytes(), self.expected(number))

    def test_any_layer(self):
        engine = make_engine(self.package, num_layers=2)
        with mlac.Checkpoint(self.folder) as checkpoint:
            self.assertEqual(checkpoint.attentions[2], "model.layers.2.self_attn.")
            engine.bind_checkpoint(checkpoint, layer=1)
            engine.bind_checkpoint(checkpoint, layer=0, attention=2)
        self.assertEqual(run(engine, self.hidden, 0).tobytes(), self.expected(2))
        self.assertEqual(run(engine, self.hidden, 1).tobytes(), self.expected(1))

    def test_what_is_missing_is_named_and_nothing_is_bound(self):
        engine = make_engine(self.package, num_layers=3)
        shard = self.folder / "model-00002-of-00002.safetensors"
        content = shard.read_bytes()
        shard.unlink()
        with self.assertRaisesRegex(mlac.NotFound, "shard of tensor .*00002-of-00002"):
            engine.bind_checkpoint(self.folder)
        shard.write_bytes(content[:len(content) // 2])
        with self.assertRaisesRegex(mlac.Corrupt, "truncated"):
            engine.bind_checkpoint(self.folder)
        for layer in range(3):
            with self.assertRaisesRegex(mlac.WrongState, "weights are not bound: q_a_proj.weight"):
                engine.prepare(layer)
        shard.write_bytes(content)
        index = self.folder / "model.safetensors.index.json"
        index.write_text(index.read_text()[:-5])
        with self.assertRaisesRegex(mlac.Corrupt, "index.json: is no JSON object"):
            mlac.Checkpoint(self.folder)

    def test_a_folder_without_a_configuration(self):
        (self.folder / "config.json").unlink()
        done = subprocess.run([COMPILE, self.folder, "--quiet", "-o", self.folder / "x.mlac"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "DeepSeek/config.json.*cannot be read")

    def test_what_progress_raises_comes_out(self):
        engine = make_engine(self.package, num_layers=1)

        for kind in (KeyError, KeyboardInterrupt):
            def fail(*_):
                raise kind("stop")
            with self.assertRaises(kind):
                engine.bind_checkpoint(self.folder, progress=fail)
        self.assertEqual(run(engine, self.hidden).tobytes(), self.expected(0))


class QuantizeTest(unittest.TestCase):
    def test_B34_one_scale_for_a_matrix(self):
        values = np.random.default_rng(1).standard_normal((37, 53)).astype(np.float32)
        codes, scales = mlac.quantize(values)
        self.assertEqual(scales.shape, (1, 1))
        self.assertEqual(scales[0, 0], np.abs(values).max() / np.float32(448))
        self.assertEqual(np.abs(reference.dequantise(codes, scales, (0, 0))).max(),
                         np.abs(values).max())
        zero, least = mlac.quantize(np.zeros((3, 4)))
        self.assertFalse(zero.any())
        self.assertEqual(least[0, 0], np.float32(1e-10) / np.float32(448))

    def test_B34_blocks_that_are_none(self):
        """A third number was taken for the address of the codes."""
        for block in ((2, 2, 2), (2,), (), (-2, 2), 128):
            with self.subTest(block), self.assertRaisesRegex(mlac.InvalidArgument, "^block: "):
                mlac.quantize(np.ones((4, 4)), block)
        codes, scales = mlac.quantize(np.ones((4, 4)), np.array([2, 0]))
        self.assertEqual(scales.shape, (2, 1))


if __name__ == "__main__":
    unittest.main()
