# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A48: layers from their latents on, which is where engines hand over to an attention back end, against
whole layers and float64."""

import os
import subprocess
import tempfile
import unittest

import numpy as np

import mlac
import random_cases
import sparse_layers
from mlac import reference

COMPILE = os.environ.get("MLAC_COMPILE", "")
CONFIGS = {
    "deepseek_v3": {"model_type": "deepseek_v3", "q_lora_rank": 48, "hidden_size": 80},
    # Without query latents the queries come from hidden states.
    "deepseek_v2": {"model_type": "deepseek_v2", "q_lora_rank": None, "hidden_size": 80},
    # Factors of latents, half-split rope.
    "longcat_flash": {"model_type": "longcat_flash", "q_lora_rank": 48, "hidden_size": 96},
    "minicpm3": {"model_type": "minicpm3", "q_lora_rank": 48, "hidden_size": 80},
}
COMMON = {"num_hidden_layers": 1, "num_attention_heads": 4, "kv_lora_rank": 64,
          "qk_nope_head_dim": 24, "qk_rope_head_dim": 16, "v_head_dim": 20, "rope_theta": 1e4,
          "rms_norm_eps": 1e-6, "max_position_embeddings": 512}
STEPS = (("prefill", (5, 40, 17)), ("step", (1, 1, 9)), ("decode", (1, 1, 1)), ("step", (1, 0, 3)))


class BoundaryTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def compile(self, config, name, *options):
        return sparse_layers.compile_layer(config, self.folder, name, "--dtype=f32",
                                           "--page-size=16", "--functions=prefill,decode,step",
                                           *options)

    def bind(self, package, weights):
        engine = mlac.Engine(package, mlac.Device("cpu"), max_num_requests=4, max_num_tokens=128,
                             max_seq_len=128)
        names = {tensor["name"] for tensor in package.info["weights"]}
        engine.bind({name: w.astype(np.float32) for name, w in weights.items() if name in names})
        engine.prepare()
        engine.poison_cache()
        return engine

    def inputs(self, shape, weights, hidden):
        """Of the boundary: normalised latents, and rope keys before their rotation."""
        positions = np.zeros(len(hidden), int)
        latent, rope = reference.latents(shape, weights, hidden, positions)
        given = {"latent": latent, "k_pe": rope}  # position 0 rotates nothing
        if shape.q_lora_rank:
            given["q_latent"] = reference.rms_norm(
                hidden @ weights["q_a_proj.weight"].T, weights["q_a_layernorm.weight"],
                shape.eps) * shape.q_multiplier
        else:
            given["hidden"] = hidden
        return {name: np.ascontiguousarray(rows, np.float32) for name, rows in given.items()}

    def test_equals_the_whole_layer_A48(self):
        for name, own in CONFIGS.items():
            with self.subTest(name):
                config = {**COMMON, **own}
                rng = np.random.default_rng(len(name))
                weights = random_cases.weights(rng, config)
                shape = reference.config_from_hf(config)
                packages = [self.compile(config, name + str(i), f"--inputs={inputs}")
                            for i, inputs in enumerate(("hidden", "latents"))]
                own = {tensor["name"] for tensor in packages[1].info["weights"]}
                self.assertFalse([each for each in own if each.startswith(("q_a_", "kv_a_"))])
                self.assertEqual(packages[1].info["model"]["hidden_size"], config["hidden_size"])
                self.assertEqual(packages[1].info["model"]["q_lora_rank"],
                                 packages[0].info["model"]["q_lora_rank"])
                engines = [self.bind(package, weights) for package in packages]
                sequences = [[engine.sequence() for _ in range(3)] for engine in engines]
                plans = [engine.plan() for engine in engines]
                for function, counts in STEPS:
                    hidden = rng.standard_normal((sum(counts), config["hidden_size"]))
                    outputs = []
                    given = ({"hidden": hidden.astype(np.float32)},
                             self.inputs(shape, weights, hidden))
                    for engine, plan, own, buffers in zip(engines, plans, sequences, given):
                        plan.fill(own, counts, function)
                        engine.poison_workspace()
                        output = np.full(hidden.shape, np.nan, np.float32)
                        plan.run_bound(output=output, **buffers)
                        outputs.append(output)
                    self.assertLess(reference.relative_error(outputs[1], outputs[0]),
                                    sparse_layers.ALLOWED_F32, function)
                for first in ("latent", "rope"):
                    parts = [np.asarray(engine.cache_part(first)) for engine in engines]
                    self.assertEqual(parts[0].shape, parts[1].shape)

    def test_a_sparse_layer_needs_hidden_states_too_A48(self):
        package = self.compile(sparse_layers.config(), "sparse", "--inputs=latents")
        step = next(each for each in package.info["targets"][0]["functions"]
                    if each["name"] == "step")
        self.assertEqual({buffer["name"] for buffer in step["buffers"] if buffer["kind"] == "Input"},
                         {"hidden", "q_latent", "latent", "k_pe"})

    def test_what_is_missing_is_named_A48(self):
        config = {**COMMON, **CONFIGS["deepseek_v3"]}
        package = self.compile(config, "named", "--inputs=latents")
        engine = self.bind(package, random_cases.weights(np.random.default_rng(1), config))
        plan = engine.plan()
        plan.fill([engine.sequence()], [2], "prefill")
        rows = np.zeros((2, 80), np.float32)
        with self.assertRaisesRegex(mlac.Error, "q_latent|latent|k_pe|hidden"):
            plan.run(rows)
        with self.assertRaisesRegex(mlac.Error, "k_pe"):
            plan.run_bound(output=rows, q_latent=np.zeros((2, 48), np.float32),
                           latent=np.zeros((2, 64), np.float32))

    def test_rows_of_another_width_are_refused_A48(self):
        """They were read as more rows, at wrong places: bytes are enough."""
        config = {**COMMON, **CONFIGS["deepseek_v3"]}
        package = self.compile(config, "wide", "--inputs=latents")
        engine = self.bind(package, random_cases.weights(np.random.default_rng(3), config))
        widths = {"q_latent": 48, "latent": 64, "k_pe": 16, "output": 80}
        good = {name: np.ones((5, width), np.float32) for name, width in widths.items()}
        plan = engine.plan()
        plan.fill([engine.sequence()], [5])
        for _ in range(2):  # the second time names are at hand
            plan.run_bound(**good)
            plan.run_bound(**{**good, "k_pe": good["k_pe"][:, None]})
            for name, width in widths.items():
                wide = np.ones((5, width + 16), np.float32)
                with self.subTest(name), self.assertRaisesRegex(
                        mlac.InvalidArgument, f"{name}: expected rows of {width} columns, got shape "
                                              rf"\[5, {width + 16}\]"):
                    plan.run_bound(**{**good, name: wide})
        sparse = sparse_layers.config()
        package = self.compile(sparse, "selected", "--indexer=shared")
        engine = self.bind(package, sparse_layers.random_weights(np.random.default_rng(4), sparse))
        plan = engine.plan()
        plan.fill([engine.sequence()], [5])
        rows = np.ones((5, sparse["hidden_size"]), np.float32)
        with self.assertRaisesRegex(mlac.InvalidArgument, "selected: expected rows of 16 columns"):
            plan.run_bound(hidden=rows, output=rows.copy(), selected=np.zeros((5, 17), np.int32))

    def test_modules_say_what_they_take_A48(self):
        done = subprocess.run([COMPILE, "x.mlir", "--inputs=latents"], capture_output=True, text=True,
                              check=False)
        self.assertIn("--inputs is for configurations", done.stderr)


if __name__ == "__main__":
    unittest.main()
