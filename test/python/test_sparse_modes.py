# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The separate mode of sparse layers: prefills read a workspace that whole requests are gathered into."""

import json
import unittest

import numpy as np

import mlac
import sparse_layers as layers
from test_sparse import CASES, STEPS, ServedTest


class SeparateTest(ServedTest):
    names = ("separate", "separate_tensor", "fp8_ds_mla")

    def test_in_one_chunk_B12_B18(self):
        self.serve("separate")

    def test_in_chunks_of_requests_B12_B19(self):
        """A workspace of 100 rows: the prefills of 5, 17, 90 and 64 keys are three chunks."""
        self.serve("separate", workspace_tokens=100)

    def test_rows_of_one_scale_B09_B13(self):
        self.serve("separate_tensor", workspace_tokens=110)

    def test_equals_mixed_B14(self):
        config, element, cache, _ = CASES["separate"]
        rng = np.random.default_rng(14)
        weights = layers.random_weights(rng, config)
        hidden = rng.standard_normal((700, config["hidden_size"]))
        served = [layers.Served(self.packages[name], weights, element, config["index_topk"],
                                workspace_tokens=200) for name in ("separate", "fp8_ds_mla")]
        sequences = [[each.engine.sequence() for _ in STEPS[0][1]] for each in served]
        begin = 0
        for function, counts in STEPS:
            rows = hidden[begin:begin + sum(counts)]
            begin += sum(counts)
            separate, mixed = (each.step(own, counts, rows, function, wants_selection=True)
                               for each, own in zip(served, sequences))
            np.testing.assert_array_equal(separate[1], mixed[1])
            # The workspace's rows are rounded once more, to 16 bits.
            self.assertLess(layers.judge_output(separate[0], mixed[0], element), 1, function)


class WorkspaceTest(ServedTest):
    """Of engines: what they reserve, and what they refuse. Nothing is launched."""

    names = ("separate",)

    def engine(self, **options):
        return mlac.Engine(self.packages["separate"], mlac.Device("cpu"),
                           **{**dict(max_num_requests=8, max_num_tokens=256, max_seq_len=128),
                              **options})

    def test_five_of_the_longest_sequences_B18(self):
        self.assertEqual(self.engine().info["options"]["workspace_tokens"], 5 * 128)
        few = self.engine(max_num_requests=2).info["options"]
        self.assertEqual(few["workspace_tokens"], 2 * 128)

    def test_a_longer_request_is_refused_B20(self):
        engine = self.engine(workspace_tokens=100)
        sequences = [engine.sequence(), engine.sequence()]
        plan = engine.plan()
        with self.assertRaisesRegex(mlac.Error, "prefill 1 has 101 keys.*workspace of 100 rows"):
            plan.fill(sequences, [100, 101], "prefill")
        self.assertEqual([len(sequence) for sequence in sequences], [0, 0])
        plan.fill(sequences, [100, 100], "prefill")

    def test_a_step_has_one_record_B25_B42(self):
        package, engine = self.packages["separate"], self.engine(workspace_tokens=100)
        sequences = [engine.sequence() for _ in range(4)]
        plan = engine.plan()
        plan.fill(sequences, [40, 3, 0, 60], "prefill")
        plan.fill(sequences, [1, 1, 7, 20], "step")
        self.assertEqual([pool["page_size"] for pool in package.info["pools"]], [64, 64])
        self.assertIn("--sparse-mode=separate", package.info["options"])
        self.assertEqual(json.loads(package.info["model"]["config"])["index_topk"], 16)
        self.assertEqual(plan.metadata("req_id_per_token"), [0, 1] + [2] * 7 + [3] * 20)
        pages = [sequence.pages for sequence in sequences]
        slots = [64 * own[token // 64] + token % 64
                 for own, tokens in zip(pages, ((40,), (3,), range(7), range(60, 80)))
                 for token in tokens]
        for pool in ("", "index/"):
            self.assertEqual(plan.metadata(pool + "slot_mapping"), slots)
        dims = plan.dims
        self.assertEqual([dims[name] for name in
                          ("num_decodes", "num_prefills", "num_gathers", "gather_rows",
                           "gather_tokens")], [2, 2, 1, 87, 27])
        self.assertEqual(plan.metadata("gather_starts"), [0, 7])
        self.assertEqual(plan.metadata("gather_query_loc"), [2, 29])

    def test_shapes_fix_no_gathers_B18(self):
        engine = self.engine()
        sequence = engine.sequence()
        plan = engine.plan()
        decodes = dict(num_requests=2, num_tokens=2, max_query_len=1, max_seq_len=128,
                       num_decodes=2, num_decode_tokens=2)
        plan.fill([sequence], [1], "step", shape=decodes)
        mixed = dict(decodes, num_requests=3, num_tokens=18, max_query_len=16)
        with self.assertRaisesRegex(mlac.Error, "gathers prefills whole, of which the step may have 1"):
            plan.fill([sequence], [1], "step", shape=mixed)


if __name__ == "__main__":
    unittest.main()
