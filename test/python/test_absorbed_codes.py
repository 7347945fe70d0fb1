# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Absorbed weights that are codes (--absorbed=codes), against a float64 layer in the absorbed form
whose weights are quantised again as the engine does it: per head or folded, in the blocks of the
checkpoint, alone and beside activations that are codes. Needs NumPy; with MLAC_TEST_DEVICE=cuda
and torch OnDeviceTest runs on a GPU.
"""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np

import mlac
from mlac import reference

from absorbed_reference import absorbed_layer, requantise
from narrow_floats import narrow, widen
from sparse_layers import DEVICE, TARGETS, get, put
from test_weights import (ALLOWED, CONFIG, PREFILL, STRATEGIES, TOKENS, Layer, compile_package,
                          make_engine, run)

COMPILE = os.environ.get("MLAC_COMPILE", "")
# What a product of codes contracts is whole 128s: heads of 128 columns, latents of 128 and 256.
SHAPE = CONFIG | {"hidden_size": 256, "q_lora_rank": 128, "kv_lora_rank": 256,
                  "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 64,
                  "num_attention_heads": 4}
FOLDS = {"online": (False, False), "offline": (True, True), "half-query": (True, False),
         "half-output": (False, True)}


def expect(layer, hidden, dtype, block, folds, multiplied, keeps):
    """The layer with weights quantised again, and with those that they stand for."""
    values = dict(layer.values)
    if keeps:  # codes times scales, which nobody rounds
        for stem in keeps:
            values[stem + ".weight"] = reference.dequantise(
                layer.codes[f"{stem}.{layer.names[0]}"], layer.codes[f"{stem}.{layer.names[1]}"],
                block)
    config = reference.config_from_hf(SHAPE)

    def again(matrix):
        return requantise(widen(narrow(matrix, dtype)), block)

    return [absorbed_layer(config, values, widen(hidden), stored, folds, rows)
            for stored, rows in ((again, multiplied),
                                 (reference.as_they_are, reference.as_they_are))]


class AbsorbedCodesTest(unittest.TestCase):
    def compile(self, name, *options, dtype=None):
        quantization, _, _, own = STRATEGIES[name]
        own = [f"--dtype={dtype}"] if dtype else own
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "config.json"
            config.write_text(json.dumps(SHAPE | {"quantization_config": quantization}))
            return compile_package(config, [*own, "--form=absorbed", "--absorbed=codes", *options])

    def check(self, name, mode, *options, dtype=None, multiplied=reference.as_they_are, keeps=(),
              moved=0.0):
        _, block, names, _ = STRATEGIES[name]
        package = self.compile(name, f"--absorb={mode}", *options, dtype=dtype)
        dtype = package.info["model"]["activation_dtype"]
        layer = Layer(7, block, names, dtype, SHAPE)
        layer.names = names
        hidden = narrow(np.random.default_rng(8).standard_normal((TOKENS, 256)), dtype)
        engine = make_engine(package)
        engine.bind(layer.codes)
        engine.prepare()
        output = widen(run(engine, hidden))
        expected, plain = expect(layer, hidden, dtype, block, FOLDS[mode], multiplied, keeps)
        wmape, quantised = (reference.wmape(output, expected), reference.wmape(expected, plain))
        print(f"{name} {mode} {options}: WMAPE {wmape:.2e}, of the quantisation {quantised:.2e}")
        self.assertLess(wmape, ALLOWED[dtype][1] + moved)
        # What is compared with is nearer than a layer without it.
        self.assertLess(wmape, quantised / 2)
        return package

    def test_A12_weights_are_quantised_again_in_the_checkpoints_blocks(self):
        # Sums of a fold are rounded to f32 in another order, which moves some codes.
        for name, modes, moved in (("deepseek", FOLDS, 0), ("tensor", ("online", "offline"), 1e-4),
                                   ("compressed_channel", ("online", "offline"), 0)):
            for mode in modes:
                with self.subTest(f"{name} {mode}"):
                    package = self.check(name, mode, moved=moved)
                    derived = {t["name"]: t["dtype"] for t in package.info["derived"]}
                    for fold, stems in zip(FOLDS[mode], (("w_uk", "w_q_uk"), ("w_uv", "w_uv_o"))):
                        self.assertEqual((derived[stems[fold]], derived[stems[fold] + "_scales"]),
                                         ("e4m3", "f32"))
                    self.assertEqual(len(derived), 4)

    def test_A12_A46_beside_projections_that_are_codes(self):
        self.check("deepseek", "online", "--keep-codes",
                   keeps=("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "o_proj"))
        self.check("deepseek", "offline", "--keep-codes", keeps=("q_a_proj", "kv_a_proj_with_mqa"))

    def test_A12_A16_A47_times_activations_that_are_codes(self):
        # In f32, where few activations move to the next code: one in 2^24 / 2^4 at each of five
        # products, by an eighth of itself. In 16 bits a layer's heads differ by more than a code.
        moved = 2 ** -3 * (5 * 2 ** -20) ** 0.5
        for name, multiplied in (("deepseek", reference.quantise_groups),
                                 ("compressed_channel", reference.quantise_rows)):
            with self.subTest(name):
                self.check(name, "online", "--keep-codes=both", dtype="f32", moved=moved,
                           multiplied=multiplied,
                           keeps=("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "o_proj"))
                self.check(name, "offline", "--keep-codes=both", dtype="f32", moved=moved,
                           multiplied=multiplied, keeps=("q_a_proj", "kv_a_proj_with_mqa"))

    def test_A12_A46_decodes_beside_prefills_in_the_expanded_form(self):
        """Prompts read kv_b as it is (a 16-bit copy) beside what absorption has quantised again."""
        quantization, block, names, own = STRATEGIES["deepseek"]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "config.json"
            path.write_text(json.dumps(SHAPE | {"quantization_config": quantization}))
            package = compile_package(path, [*own, "--absorbed=codes"])
        layer = Layer(7, block, names, "bf16", SHAPE)
        layer.names = names
        hidden = narrow(np.random.default_rng(8).standard_normal((TOKENS, 256)), "bf16")
        engine = make_engine(package)
        engine.bind(layer.codes)
        engine.prepare()
        output = widen(run(engine, hidden))
        absorbed, _ = expect(layer, hidden, "bf16", block, (False, False),
                                  reference.as_they_are, ())
        expanded, _ = reference.attention_layer(reference.config_from_hf(SHAPE), layer.values,
                                                widen(hidden))
        allowed = ALLOWED["bf16"][1]
        self.assertLess(reference.wmape(output[:PREFILL], expanded[:PREFILL]), allowed)
        self.assertLess(reference.wmape(output[PREFILL:], absorbed[PREFILL:]), allowed)
        self.assertGreater(reference.wmape(expanded[PREFILL:], absorbed[PREFILL:]), 2 * allowed)

    def test_A12_zeros_have_codes_of_zero(self):
        package = self.compile("deepseek")
        _, block, names, _ = STRATEGIES["deepseek"]
        layer = Layer(7, block, names, "bf16", SHAPE)
        layer.codes["kv_b_proj.weight"][:] = 0
        engine = make_engine(package)
        engine.bind(layer.codes)
        engine.prepare()
        hidden = narrow(np.random.default_rng(8).standard_normal((TOKENS, 256)), "bf16")
        self.assertEqual(np.abs(widen(run(engine, hidden))).max(), 0)

    def test_A12_groups_of_other_weights_must_match(self):
        """q, kv_b and o have the blocks that the package was compiled for, or are refused by name."""
        package = self.compile("deepseek")
        _, block, names, _ = STRATEGIES["deepseek"]
        layer = Layer(7, block, names, "bf16", SHAPE)
        for stem in ("q_b_proj", "kv_b_proj", "o_proj"):
            codes = layer.codes[stem + ".weight"]
            other = {stem + ".weight": codes,
                     stem + ".weight_scale_inv": np.ones((codes.shape[0], 1), np.float32)}
            with self.subTest(stem), self.assertRaisesRegex(mlac.InvalidArgument, stem):
                make_engine(package).bind(layer.codes | other)

    def test_A12_what_cannot_be_codes_is_refused_by_name(self):
        quantization = STRATEGIES["deepseek"][0]
        for changes, expected in (
                ({"qk_nope_head_dim": 192}, "cannot requantise W_UK: expected a product of a "
                 "multiple of 64 columns with a depth that is a multiple of 128, got 256 with 192"),
                ({"v_head_dim": 96}, "cannot requantise W_UV: expected a product of a multiple of "
                 "64 columns with a depth that is a multiple of 128, got 96 with 256"),
                ({"quantization_config": quantization | {"weight_block_size": [48, 56]}},
                 "got blocks of 48 x 56")):
            with self.subTest(changes), tempfile.TemporaryDirectory() as folder:
                config = pathlib.Path(folder) / "config.json"
                config.write_text(json.dumps(SHAPE | {"quantization_config": quantization} | changes))
                done = subprocess.run([COMPILE, config, "--quiet", "--form=absorbed",
                                       "--absorbed=codes", "-o", pathlib.Path(folder) / "x.mlac"],
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, 1)
                self.assertIn(expected, done.stderr)


ALL_KEPT = ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "o_proj")
# Strategy, form, options, what is done to rows, and projections that stay codes.
ON_DEVICE = {
    "online": ("deepseek", "online", (), reference.as_they_are, ()),
    "offline": ("deepseek", "offline", (), reference.as_they_are, ()),
    "kept": ("deepseek", "online", ("--keep-codes",), reference.as_they_are, ALL_KEPT),
    "both": ("deepseek", "online", ("--keep-codes=both",), reference.quantise_groups, ALL_KEPT),
    "channels": ("compressed_channel", "online", ("--keep-codes=both",), reference.quantise_rows,
                 ALL_KEPT),
}


class OnDeviceTest(unittest.TestCase):
    """The same in bf16 where MLAC_TEST_DEVICE says, whose products of codes are other kernels."""

    @classmethod
    def setUpClass(cls):
        cls.packages = {}
        for case, (name, mode, options, _, _) in ON_DEVICE.items():
            with tempfile.TemporaryDirectory() as folder:
                source, package = (pathlib.Path(folder) / file for file in ("c.json", "c.mlac"))
                source.write_text(json.dumps(SHAPE | {"quantization_config": STRATEGIES[name][0]}))
                subprocess.run([COMPILE, source, f"--target={TARGETS[DEVICE]}", "--page-size=16",
                                "--dtype=bf16", "--form=absorbed", "--absorbed=codes",
                                f"--absorb={mode}", *options, "--quiet", "-o", package], check=True)
                cls.packages[case] = mlac.Package(str(package))

    def run_steps(self, case, layer, hidden):
        """A prompt and then tokens one by one; every row."""
        engine = mlac.Engine(self.packages[case], mlac.Device(DEVICE), max_num_requests=1,
                             max_num_tokens=TOKENS, max_seq_len=TOKENS)
        engine.bind(layer.codes)
        engine.prepare()
        engine.poison_cache()
        plan, sequence, rows = engine.plan(), engine.sequence(), []
        for begin, end in [(0, PREFILL)] + [(i, i + 1) for i in range(PREFILL, TOKENS)]:
            plan.fill([sequence], [end - begin])
            step = put(np.ascontiguousarray(hidden[begin:end]))
            output = put(np.full((end - begin, 256), 0xFFFF, np.uint16))  # NaN
            engine.poison_workspace()
            plan.run_bound(hidden=step, output=output)
            rows.append(get(output))
        return widen(np.concatenate(rows))

    def test_A12_A16_A46_A47_products_of_codes_beside_float64(self):
        for case, (name, mode, _, multiplied, keeps) in ON_DEVICE.items():
            _, block, names, _ = STRATEGIES[name]
            layer = Layer(7, block, names, "bf16", SHAPE)
            layer.names = names
            hidden = narrow(np.random.default_rng(8).standard_normal((TOKENS, 256)), "bf16")
            expected, plain = expect(layer, hidden, "bf16", block, FOLDS[mode], multiplied, keeps)
            output = self.run_steps(case, layer, hidden)
            wmape, quantised = (reference.wmape(output, expected),
                                reference.wmape(expected, plain))
            print(f"{case} on {DEVICE}: WMAPE {wmape:.2e}, of the quantisation {quantised:.2e}")
            with self.subTest(case):
                # Of activations in 16 bits many move to the next code.
                if multiplied is not reference.as_they_are:
                    self.assertLess(wmape, 0.85 * quantised)
                    continue
                self.assertLess(wmape, ALLOWED["bf16"][1])
                self.assertLess(wmape, quantised / 2)


if __name__ == "__main__":
    unittest.main()
