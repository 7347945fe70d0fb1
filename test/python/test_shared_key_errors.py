# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What DeepSeek-V4's layers refuse (v4.md section 15): by the compiler, or before anything is
launched, so that neither the output nor a row of any pool is written."""

import json
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np

import mlac
import shared_key_layers as shared
import sparse_layers as layers
from narrow_floats import narrow


class CompilerTest(unittest.TestCase):
    def refuse(self, message, *options, kind=shared.SELECTED, **more):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "config.json"
            source.write_text(json.dumps(shared.config(kind, **more)))
            done = subprocess.run([layers.COMPILE, source, "--target=cpu", "-o",
                                   source.with_suffix(".mlac"), *options],
                                  capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(message, done.stderr)
            self.assertFalse(source.with_suffix(".mlac").exists())

    def test_entries_of_other_lengths_V4_44(self):
        for ratio in (2, 64, 256):
            self.refuse(f"layers with entries of {ratio} tokens are not supported, expected 0, 1, "
                        "4 or 128", compress_ratios=[ratio])

    def test_too_many_heads_V4_44(self):
        self.refuse("129 heads on a rank, expected 1 to 128", num_attention_heads=129, o_groups=3)

    def test_formats_of_the_cache_V4_10_V4_44(self):
        self.refuse("cache format 'mla_fp8_tensor' is not supported for deepseek_v4, expected "
                    "model1_584 (fp8)", "--cache-format=mla_fp8_tensor")
        # A record has 448 codes and 64 columns as they are.
        self.refuse("cache format model1_584 has latent 448, got 112", "--cache-format=fp8")
        self.refuse("does not take elements of 'f32'", "--cache-format=fp8", "--dtype=f32",
                    head_dim=512, qk_rope_head_dim=64)

    def test_widths_of_the_indexer_V4_44(self):
        self.refuse("index_head_dim = 96, expected a multiple of 128", index_head_dim=96)
        self.refuse("index_head_dim = 80, expected a multiple of 32", "--index-format=mxfp4",
                    index_head_dim=80)

    def test_budget_of_scores_V4_48(self):
        self.refuse("--scores-budget: expected at least 1 byte, got 0", "--scores-budget=0")

    def test_formats_of_the_indexer_V4_19_V4_44(self):
        self.refuse("cache format index_k_mxfp4 does not take elements of 'f16'",
                    "--index-format=mxfp4", "--dtype=f16")
        self.refuse("--index-format", "--index-format=fp4")


class EngineTest(unittest.TestCase):
    """A layer that selects entries, its pools in records, on a CPU."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.config = shared.config(shared.SELECTED, head_dim=512, qk_rope_head_dim=64)
        cls.weights = shared.random_weights(np.random.default_rng(44), cls.config, shared.SELECTED)
        cls.package = layers.compile_layer(cls.config, cls.folder.name, "layer", "--dtype=bf16",
                                           "--cache-format=fp8", "--indexer=shared",
                                           "--functions=prefill,decode")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def setUp(self):
        self.served = layers.Served(self.package, self.weights, "bf16", self.config["index_topk"])
        self.engine = self.served.engine
        self.hidden = narrow(np.random.default_rng(1).standard_normal(
            (9, self.config["hidden_size"])), "bf16")
        self.output = np.full_like(self.hidden, 0xFFFF)
        self.selected = np.zeros((9, self.config["index_topk"]), np.int32)

    def read(self):
        rows = []
        for pool in range(len(self.package.info["pools"])):
            stats = self.engine.pool_stats(pool)
            rows.append(self.engine.read_cache(0, stats["num_pages"] * stats["page_size"],
                                               pool=pool))
        return rows

    def refuse(self, error, message, run):
        before = self.read()
        with self.assertRaisesRegex(error, message):
            run()
        self.assertEqual(self.read(), before)
        self.assertTrue(np.all(self.output == 0xFFFF))

    def plan(self):
        self.served.plan.fill([self.engine.sequence()], [9], "prefill")
        return self.served.plan

    def test_step_without_metadata_V4_44(self):
        """No plan of the step is an error, never the sign of a layer without a window."""
        plan = self.engine.plan()
        self.refuse(mlac.WrongState, "plan", lambda: plan.run_bound(
            hidden=self.hidden, output=self.output, selected=self.selected))

    def test_output_of_another_size_or_type_V4_44(self):
        plan = self.plan()
        self.refuse(mlac.InvalidArgument, "output", lambda: plan.run_bound(
            hidden=self.hidden, output=self.output[:8], selected=self.selected))
        self.refuse(mlac.InvalidArgument, "output: expected dtype bf16, got f32", lambda: plan.run(
            self.hidden, self.output.astype(np.float32), selected=self.selected))

    def test_selection_missing_V4_44(self):
        plan = self.plan()
        self.refuse(mlac.InvalidArgument, "selected", lambda: plan.run_bound(
            hidden=self.hidden, output=self.output))

    def test_tables_of_entries_missing_V4_44(self):
        plan = self.engine.plan()
        table, slots = np.zeros((1, 4), np.int32), np.full(9, -1, np.int64)
        self.refuse(mlac.InvalidArgument, "num_pools = 0, expected 2", lambda: plan.fill_tables(
            [9], [9], table, slots, "prefill"))
        self.refuse(mlac.WrongState, "plan", lambda: plan.run_bound(
            hidden=self.hidden, output=self.output, selected=self.selected))

    def test_strides_of_pages_V4_08_V4_09_V4_44(self):
        """Pages of the caller's: multiples of 576 bytes, and a row of the view is no token."""
        engine = mlac.Engine(self.package, mlac.Device("cpu"), max_num_requests=1, max_seq_len=64,
                             max_num_tokens=16, external_pools=1)
        pages, least = 3, 37440

        def pool(stride):
            memory = np.zeros(pages * stride, np.uint8)
            return np.lib.stride_tricks.as_strided(memory, (pages, 64, 584), (stride, 584, 1))

        for stride in (64 * 584, least + 16):
            with self.assertRaisesRegex(mlac.InvalidArgument, f"page stride of {stride} bytes, format "
                                        f"model1_584 needs at least {least} and a multiple of 576"):
                engine.bind_pool(pool(stride))
        for stride in (least, least + 576):
            engine.bind_pool(pool(stride))


if __name__ == "__main__":
    unittest.main()
