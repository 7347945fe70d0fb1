# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers of f16 against the float64 reference, and what f16 cannot hold. Needs NumPy."""

import json
import pathlib
import tempfile
import unittest

import numpy as np

import mlac
from mlac import reference

from narrow_floats import narrow, widen
from test_weights import ALLOWED, CONFIG, Layer, compile_package, make_engine, make_hidden, run


class HalfTest(unittest.TestCase):
    """Activations, weights, inputs, outputs and cache of f16."""

    def check(self, *options, allowed=1):
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "config.json"
            config.write_text(json.dumps(CONFIG))
            package = compile_package(config, ["--dtype=f16", *options])
        layer, hidden = Layer(4, (0, 0), ("weight", "weight_scale"), "f16"), make_hidden("f16")
        engine = make_engine(package)
        engine.bind(layer.plain)
        engine.prepare()
        output = run(engine, hidden)
        self.assertEqual(output.dtype, np.float16)
        expected, _ = reference.attention_layer(reference.config_from_hf(CONFIG), layer.values,
                                                hidden)
        cosine, wmape = (bound * allowed for bound in ALLOWED["f16"])
        self.assertLess(reference.cosine_difference(output, expected), cosine)
        self.assertLess(reference.wmape(output, expected), wmape)
        return package, engine, layer, hidden

    def test_A49_forms_and_caches(self):
        package, engine, *_ = self.check("--form=absorbed", "--absorb=offline")
        self.assertEqual(package.info["model"]["activation_dtype"], "f16")
        self.assertEqual(engine.cache_part("latent").dtype, "f16")
        self.check("--form=expanded", "--cache-format=split_ckv_kpe")
        # Rows of e4m3 change the output by more than f16 rounds.
        self.check("--cache-format=mla_fp8_tensor", allowed=40)

    def test_errors_of_conversion_and_of_kernels_apart_C19(self):
        """Of the layer as it was trained, of what f16 holds of it, and of what kernels make of that."""
        package, engine, layer, hidden = self.check()
        shape = reference.config_from_hf(CONFIG)
        rng = np.random.default_rng(19)
        trained = {name: values * (1 + rng.uniform(-1, 1, values.shape) * 2.0 ** -11)
                   for name, values in layer.values.items()}
        held = {name: widen(narrow(values, "f16")) for name, values in trained.items()}
        engine.bind({name: narrow(values, "f16") for name, values in trained.items()})
        engine.prepare()
        exact, _ = reference.attention_layer(shape, trained, hidden)
        converted, _ = reference.attention_layer(shape, held, hidden)
        computed = run(engine, hidden).astype(np.float64)
        conversion = reference.wmape(converted, exact)
        kernels, both = reference.wmape(computed, converted), reference.wmape(computed, exact)
        print(f"WMAPE of f16: conversion {conversion:.2e}, kernels {kernels:.2e}, both {both:.2e}")
        self.assertGreater(conversion, 1e-5)
        self.assertLess(conversion, ALLOWED["f16"][1])
        self.assertLess(kernels, ALLOWED["f16"][1])
        scale = np.abs(converted).sum() / np.abs(exact).sum()
        self.assertLess(both, 1.01 * (conversion + scale * kernels))

    def test_A49_overflow_is_infinity_and_bf16_weights_fit(self):
        package, engine, layer, hidden = self.check()
        weights = dict(layer.values)
        # Values alone: larger keys would make one-hot weights, which amplify rounding.
        heads = weights["kv_b_proj.weight"].reshape(6, 40 + 24, 96).copy()
        heads[:, 40:] *= 16
        weights["kv_b_proj.weight"] = heads.reshape(6 * 64, 96)
        weights["o_proj.weight"] = weights["o_proj.weight"] * 2.0 ** 15
        expected, _ = reference.attention_layer(reference.config_from_hf(CONFIG), {
            name: widen(narrow(array, "bf16")) for name, array in weights.items()}, hidden)
        engine.bind({name: narrow(array, "bf16") for name, array in weights.items()})
        engine.prepare()
        output = run(engine, hidden)
        largest = 65504
        above, below = np.abs(expected) > 1.05 * largest, np.abs(expected) < 0.95 * largest
        self.assertGreater(above.sum(), 100)
        self.assertGreater(below.sum(), 100)
        self.assertTrue(np.array_equal(output[above], np.sign(expected[above]) * np.inf))
        self.assertTrue(np.isfinite(output[below]).all())
        self.assertLess(np.abs(output[below] - expected[below]).max(), 0.02 * largest)

        wrong = narrow(weights["o_proj.weight"] * 2.0 ** 12, "bf16")
        with self.assertRaisesRegex(mlac.InvalidArgument, "o_proj.*is beyond the largest f16, 65504"):
            engine.bind({"o_proj.weight": wrong})


if __name__ == "__main__":
    unittest.main()
