# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A24, A25, A27, A33: any workspace gives what one pass over all keys gives.

One batch holds requests with much, little and no cached context. It runs with every
workspace from the least to one that holds all context at once, by `prefill` in the
expanded form and by `step`; each output row is compared with the float64 sums of
test_lse. Below the least workspace there is an error. Needs no NumPy.
"""

import array
import os
import subprocess
import unittest

import mlac

from test_lse import COMPILE, H, OPT, PAGE, SHAPES, TOLERANCE, LayerTest, flat

# (sequence of test_lse, cached tokens, new tokens)
BATCH = ((0, 13, 1), (0, 14, 6), (1, 0, 5), (1, 3, 0), (1, 1, 8), (0, 7, 2))
REQUESTS = len(BATCH)
MAX_SEQ_LEN = 24


class ChunksTest(LayerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        text = subprocess.run(
            [OPT, os.devnull, f"--mla-import-config=config={cls.path('config.json')} dtype=f32 "
             f"page-size={PAGE} decode-threshold=1"],
            check=True, capture_output=True, text=True).stdout
        cls.packages = {}
        for name, form in (("prefill", "expanded"), ("step", "auto")):
            with open(cls.path("m.mlir"), "w", encoding="utf-8") as file:
                file.write(text)
            package = cls.path(f"{name}.mlac")
            subprocess.run([COMPILE, cls.path("m.mlir"), f"--form={form}", "--quiet",
                            f"--functions={name}", "-o", package], check=True)
            cls.packages[name] = mlac.Package(package)
        cls.device = mlac.Device("cpu")

    def make(self, function, workspace):
        engine = mlac.Engine(self.packages[function], self.device, max_num_requests=REQUESTS,
                             max_num_tokens=64, max_seq_len=MAX_SEQ_LEN,
                             workspace_tokens=workspace)
        engine.bind({name: memoryview(flat(rows)).cast("B").cast("f", SHAPES[name])
                     for name, rows in self.weights.items()})
        engine.prepare()
        return engine

    def fill_step(self, engine, sequences, plan, lengths, starts, function):
        hidden = flat(self.hidden[s][t] for (s, _, _), start, length in
                      zip(BATCH, starts, lengths) for t in range(start, start + length))
        plan.fill(sequences, lengths, function)
        engine.poison_cache()
        engine.poison_workspace()
        return plan.run(hidden, array.array("f", bytes(4 * len(hidden))))

    def check(self, function, workspace, with_context):
        engine = self.make(function, workspace)
        sequences, plan = [engine.sequence() for _ in BATCH], engine.plan()
        contexts = [context for _, context, _ in BATCH]
        self.fill_step(engine, sequences, plan, contexts, [0] * REQUESTS, function)
        output = self.fill_step(engine, sequences, plan, [new for *_, new in BATCH], contexts,
                                function)
        capacity = workspace // with_context // PAGE * PAGE
        self.assertEqual(plan.dim("chunk_capacity"), capacity)
        self.assertEqual(plan.dim("num_chunks"), -(-14 // capacity))
        self.assertLessEqual(plan.dim("chunk_tokens"), workspace)
        rows = [(s, context + j) for s, context, new in BATCH for j in range(new)]
        for row, (s, t) in enumerate(rows):
            for value, expected in zip(output[row * H:(row + 1) * H], self.expected[s][t][0]):
                self.assertAlmostEqual(value, expected, delta=TOLERANCE)

    def test_A24_A25_A33_every_workspace_of_prefill(self):
        for workspace in range(5 * PAGE, 5 * 16 + 2, 3):
            with self.subTest(workspace=workspace):
                self.check("prefill", workspace, 5)

    def test_A24_A25_A33_every_workspace_of_step(self):
        # The first request is a decode: it takes no part in the chunks.
        for workspace in range(4 * PAGE, 4 * 16 + 2, 3):
            with self.subTest(workspace=workspace):
                self.check("step", workspace, 4)

    def test_A27_below_a_page_for_each_is_an_error(self):
        engine = self.make("prefill", 5 * PAGE - 1)
        sequences, plan = [engine.sequence() for _ in BATCH], engine.plan()
        plan.fill(sequences, [context for _, context, _ in BATCH], "prefill")
        with self.assertRaisesRegex(mlac.InvalidArgument, "workspace_tokens = 19 is smaller than "
                                    "one page .4 tokens. for each of 5 requests with context"):
            plan.fill(sequences, [new for *_, new in BATCH], "prefill")
        self.assertEqual([len(s) for s in sequences], [context for _, context, _ in BATCH])


del LayerTest  # has no tests of its own

if __name__ == "__main__":
    unittest.main()
