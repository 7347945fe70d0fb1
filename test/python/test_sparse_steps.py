# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of sparse layers as engines make them: speculative decodes, decodes alone, plans that layers
share, one buffer for selections."""

import unittest

import numpy as np

import mlac
import sparse_layers as layers
from test_sparse import CASES, ServedTest

TOPK = 16


class SparseStepsTest(ServedTest):
    names = ("speculative",)

    def serve_layers(self, count, **options):
        """An engine with so many layers of different weights, and the weights."""
        config, element, _, _ = CASES["speculative"]
        every = [layers.random_weights(np.random.default_rng(seed), config)
                 for seed in range(count)]
        served = layers.Served(self.packages["speculative"], every[0], element, TOPK,
                               num_layers=count, **options)
        names = {tensor["name"] for tensor in self.packages["speculative"].info["weights"]}
        for layer in range(1, count):
            served.engine.bind({name: layers.narrow(w, element)
                                for name, w in every[layer].items() if name in names}, layer=layer)
            served.engine.prepare(layer=layer)
            served.engine.poison_cache(layer=layer)
        return served, every

    def test_uniform_queries_of_several_tokens_B22_B23(self):
        """Up to three tokens are a decode; a longer query, or a tail behind it, a prefill."""
        # Of this story, rounding queries and keys to bf16 moves two scores of one row by 2.7% of the
        # largest each, towards each other.
        self.serve("speculative", (("prefill", (5, 17, 90, 64)), ("step", (3, 3, 3, 3)),
                                   ("step", (2, 1, 4, 1)), ("step", (3, 3, 40, 20))), slack=0.1)

    def test_parts_of_a_step_B23(self):
        served, _ = self.serve_layers(1)
        sequences = [served.engine.sequence() for _ in range(4)]
        for counts, decodes in (((3, 3, 3, 3), 4), ((2, 1, 4, 1), 2), ((4, 1, 1, 1), 0)):
            served.plan.fill(sequences, counts, "step")
            self.assertEqual(served.plan.dim("num_decodes"), decodes, counts)
            self.assertEqual(served.plan.dim("num_prefills"), 4 - decodes, counts)

    def test_decodes_alone_write_the_callers_output_B24(self):
        """There are no rows of prefills then, and the runtime skips launches without programs."""
        served, _ = self.serve_layers(1)
        sequences = [served.engine.sequence() for _ in range(2)]
        hidden = np.random.default_rng(3).standard_normal((46, CASES["speculative"][0]["hidden_size"]))
        served.step(sequences, (20, 20), hidden[:40], "prefill", wants_selection=True)
        for counts, first in (((1, 1), 40), ((1, 3), 42)):
            rows = hidden[first:first + sum(counts)]
            output, _ = served.step(sequences, counts, rows, "step", wants_selection=True)
            dims = served.plan.dims
            self.assertEqual([dims[name] for name in ("num_prefills", "num_prefill_rows", "num_gathers",
                                                      "gather_rows")], [0] * 4)
            self.assertTrue(np.isfinite(output).all())

    def test_layers_share_a_plan_B28(self):
        """Two layers on one plan give what each gives on a plan of its own."""
        served, every = self.serve_layers(2)
        config, element, _, _ = CASES["speculative"]
        alone = [layers.Served(self.packages["speculative"], weights, element, TOPK)
                 for weights in every]
        hidden = np.random.default_rng(4).standard_normal((60, config["hidden_size"]))
        together = [served.engine.sequence() for _ in range(3)]
        apart = [[each.engine.sequence() for _ in range(3)] for each in alone]
        begin = 0
        for function, counts in (("prefill", (9, 30, 1)), ("step", (1, 2, 7)), ("decode", (1, 1, 1))):
            rows = hidden[begin:begin + sum(counts)]
            begin += sum(counts)
            served.plan.fill(together, counts, function)
            for layer, own in enumerate(alone):
                buffers = {"hidden": layers.narrow(rows, element),
                           "output": np.full(rows.shape, 0xFFFF, np.uint16),
                           "selected": np.full((len(rows), TOPK), 1 << 30, np.int32)}
                served.engine.poison_workspace()
                placed = {name: layers.put(array) for name, array in buffers.items()}
                served.plan.run_bound(layer=layer, **placed)
                output, selected = own.step(apart[layer], counts, rows, function,
                                            wants_selection=True)
                np.testing.assert_array_equal(layers.get(placed["selected"]), selected)
                np.testing.assert_array_equal(layers.widen(layers.get(placed["output"])), output)

    def test_one_buffer_of_selections_for_all_steps_B30(self):
        """As large as the largest step; each step writes the rows of its own tokens."""
        served, _ = self.serve_layers(1)
        config, element, _, _ = CASES["speculative"]
        buffer = layers.put(np.full((layers.MOST_TOKENS, TOPK), 77, np.int32))
        hidden = np.random.default_rng(5).standard_normal((40, config["hidden_size"]))
        sequence = served.engine.sequence()
        for function, count in (("prefill", 33), ("step", 5), ("decode", 1)):
            buffer[:] = 77
            served.plan.fill([sequence], [count], function)
            rows = layers.narrow(hidden[:count], element)
            served.plan.run_bound(hidden=layers.put(rows), output=layers.put(rows.copy()),
                                  selected=buffer)
            selected = layers.get(buffer)
            self.assertTrue((selected[:count] != 77).any(axis=1).all())
            self.assertTrue((selected[:count] < 39).all())
            self.assertTrue((selected[count:] == 77).all())
        with self.assertRaisesRegex(mlac.Error, "selected"):
            served.plan.run_bound(hidden=layers.put(rows), output=layers.put(rows.copy()),
                                  selected=layers.put(np.zeros((1, TOPK - 1), np.int32)))


if __name__ == "__main__":
    unittest.main()
