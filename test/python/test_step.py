# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A35, A36, A37, B23, B24, C15: one function takes any mix, padded or not.

`step` of a small layer, with an "lse" result: decodes and speculative rows attend in the
absorbed form, prefills in the expanded one. A padded step has the sizes of its shape,
whatever the batch: what a captured graph repeats. The layer and its float64 reference
are those of test_lse. Needs no NumPy.
"""

import array
import json
import os
import subprocess
import unittest

import mlac

from test_lse import CONFIG, H, N, OPT, PAGE, TOLERANCE, LayerTest

UNTOUCHED = -77.0
THRESHOLD = 3


class StepCase(LayerTest):
    """Steps of the layer with `step`."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.module = subprocess.run(
            [OPT, os.devnull, f"--mla-import-config=config={cls.path('config.json')} dtype=f32 "
             f"page-size={PAGE} decode-threshold={THRESHOLD}"],
            check=True, capture_output=True, text=True).stdout

    def start(self, layout="token_major", processors=2):
        self.engine = self.make_engine(layout, "auto", processors)
        self.plan = self.engine.plan()
        return [self.engine.sequence(), self.engine.sequence()]

    def rows_of(self, batch, done):
        """(sequence, token) of every row of a batch of (sequence, query length)."""
        return [(s, done[s] + j) for s, length in batch for j in range(length)]

    def run_plan(self, places, total, layout="token_major"):
        """Runs with `places` {row: (sequence, token)} of `total` rows; checks every row."""
        hidden = array.array("f", [float("nan")] * total * H)
        output = array.array("f", [UNTOUCHED] * total * H)
        lse = array.array("f", [UNTOUCHED] * total * N)
        for row, (s, t) in places.items():
            hidden[row * H:(row + 1) * H] = array.array("f", self.hidden[s][t])
        self.engine.poison_cache()
        self.engine.poison_workspace()
        self.plan.run_bound(hidden=hidden, output=output, lse=lse)
        for row in range(total):
            got = output[row * H:(row + 1) * H]
            got_lse = [lse[row * N + n if layout == "token_major" else n * total + row]
                       for n in range(N)]
            if row not in places:
                self.assertEqual(set(got), {UNTOUCHED}, f"row {row} is padding")
                continue
            s, t = places[row]
            for value, expected in zip(got, self.expected[s][t][0]):
                self.assertAlmostEqual(value, expected, delta=TOLERANCE)
            for value, expected in zip(got_lse, self.expected[s][t][1]):
                self.assertAlmostEqual(value, expected, delta=TOLERANCE)

    def check(self, sequences, batch, done, function, layout="token_major"):
        self.plan.fill([sequences[s] for s, _ in batch], [length for _, length in batch], function)
        rows = self.rows_of(batch, done)
        self.run_plan(dict(enumerate(rows)), len(rows), layout)
        for s, length in batch:
            done[s] += length


class StepTest(StepCase):
    def serve(self, layout, processors):
        sequences, done = self.start(layout, processors), [0, 0]
        self.check(sequences, [(0, 6)], done, "step", layout)  # a prompt
        self.check(sequences, [(0, 1), (1, 4)], done, "step", layout)  # decode beside a prompt
        self.assertEqual((self.plan.dim("num_decodes"), self.plan.dim("num_prefills")), (1, 1))
        # Speculative rows beside a piece of a prompt with context.
        self.check(sequences, [(1, 3), (0, 5)], done, "step", layout)
        self.assertEqual(self.plan.dim("num_decode_tokens"), 3)
        self.assertGreater(self.plan.dim("num_chunks"), 0)
        # A decode behind a prefill is attended to as a prefill.
        self.check(sequences, [(0, 4), (1, 1)], done, "step", layout)
        self.assertEqual(self.plan.dim("num_decodes"), 0)
        self.check(sequences, [(1, 1), (0, 1)], done, "step", layout)  # decodes only
        self.assertEqual(self.plan.dim("num_prefill_rows"), 0)
        self.assertEqual(self.plan.metadata("req_id_per_token"), [0, 1])

    def test_A35_A36_any_mix_in_one_call(self):
        self.serve("token_major", 2)

    def test_A36_in_splits(self):
        self.serve("token_major", 132)

    def test_A36_head_major(self):
        self.serve("head_major", 2)

    def test_B23_mixed_batches_choose_step(self):
        sequences, done = self.start(), [0, 0]
        for batch, function in (([(0, 6)], "prefill"), ([(0, 2), (1, 5)], "step"),
                                ([(0, 1), (1, 1)], "decode")):
            self.check(sequences, batch, done, None)
            self.assertEqual(self.plan.function, function)

    def test_B24_decodes_launch_nothing_of_prefills(self):
        sequences, done = self.start(), [0, 0]
        self.check(sequences, [(0, 6), (1, 4)], done, "step")
        self.check(sequences, [(0, 1), (1, 2)], done, "step")
        self.assertEqual([self.plan.dim(name) for name in (
            "num_prefills", "num_prefill_rows", "num_chunks", "chunk_tokens")], [0, 0, 0, 0])


class PaddedTest(StepCase):
    SHAPE = dict(num_requests=2, num_tokens=12, max_query_len=9, max_seq_len=24, num_decodes=1,
                 num_decode_tokens=3)

    def padded(self, sequences, decodes, prefills, done):
        """One padded step; returns what a captured graph would have fixed."""
        batch = decodes + prefills
        self.plan.fill([sequences[s] for s, _ in batch], [length for _, length in batch],
                       shape=self.SHAPE)
        places = dict(enumerate(self.rows_of(decodes, done)))
        places.update(enumerate(self.rows_of(prefills, done), self.SHAPE["num_decode_tokens"]))
        self.run_plan(places, self.SHAPE["num_tokens"])
        for s, length in batch:
            done[s] += length
        return self.plan.dims

    def test_C15_A37_lengths_change_and_sizes_do_not(self):
        sequences, done = self.start(), [0, 0]
        fixed = self.padded(sequences, [], [(0, 6)], done)
        self.assertEqual(fixed["is_padded"], 1)
        for decodes, prefills in (([(0, 1)], [(1, 7)]),  # a prompt beside a decode
                                  ([(0, 3)], []), ([(1, 2)], [(0, 4)]), ([(0, 1)], []),
                                  ([], [(0, 4)])):
            self.assertEqual(self.padded(sequences, decodes, prefills, done), fixed)
        # An unpadded step on the same plan.
        self.check(sequences, [(0, 1)], done, "step")
        self.assertEqual(self.plan.dim("is_padded"), 0)

    def test_B25_C15_tables_of_padding(self):
        sequences, done = self.start(), [0, 0]
        self.plan.fill([sequences[1], sequences[0]], [2, 5], shape=self.SHAPE)
        self.assertEqual(self.plan.metadata("decode_query_start_loc"), [0, 2])
        self.assertEqual(self.plan.metadata("prefill_query_start_loc"), [3, 8])
        self.assertEqual(self.plan.metadata("output_rows"),
                         [0, 1, -1, 3, 4, 5, 6, 7, -1, -1, -1, -1])
        self.assertEqual([slot < 0 for slot in self.plan.metadata("slot_mapping")],
                         [row < 0 for row in self.plan.metadata("output_rows")])
        # A tail of zeros.
        self.assertEqual(self.plan.metadata("req_id_per_token"), [0] * 3 + [1] * 5 + [0] * 4)

    def test_C15_what_does_not_fit_is_refused(self):
        sequences = self.start()
        for lengths, change, message in (
                ([10], {}, "num_tokens = 12, expected 13 to"),
                ([1, 1], {}, "num_decodes = 1, expected 2 to"),
                ([4], {"max_query_len": 3}, "max_query_len = 3, expected 4 to"),
                ([4], {"max_seq_len": 33}, "max_seq_len = 33, expected 1 to 32"),
                ([4], {"num_requests": 3}, "num_requests = 3, expected 1 to 2"),
                ([4], {"num_decode_tokens": 13}, "num_decode_tokens = 13, expected 0 to 12"),
                ([4], {"num_tokens": 32, "num_decode_tokens": 29},
                 "num_tokens = 32: its decodes and the batch take 33, limit 32")):
            with self.assertRaisesRegex(mlac.InvalidArgument, message):
                self.plan.fill(sequences[:len(lengths)], lengths, shape={**self.SHAPE, **change})
            self.assertEqual([len(s) for s in sequences], [0, 0])
        with self.assertRaisesRegex(mlac.Unsupported, "'prefill' does not split its batch"):
            self.plan.fill(sequences[:1], [4], "prefill", shape=self.SHAPE)


class OptionsTest(StepCase):
    def test_A38_dry_run(self):
        self.start()
        output = array.array("f", [UNTOUCHED] * 2 * H)
        self.assertEqual(set(self.engine.dry_run(output)), {0.0})
        output = array.array("f", [UNTOUCHED] * (2 * H - 1))  # of which one row was filled
        with self.assertRaisesRegex(mlac.InvalidArgument, rf"output: expected shape \[tokens, {H}\], "
                                    rf"got \[{2 * H - 1}\]"):
            self.engine.dry_run(output)
        self.assertEqual(set(output), {UNTOUCHED})

    def test_what_is_of_another_kind(self):
        sequences = self.start()
        engine, plan = self.engine, self.plan
        tables = memoryview(array.array("i", [0])).cast("B").cast("i", [1, 1]), array.array("q", [0])
        for kind, text, call in (
                (mlac.InvalidArgument, "shape: expected a dict with some of num_requests, .*got 5",
                 lambda: plan.fill(sequences[:1], [1], shape=5)),
                (mlac.InvalidArgument, "pools: expected a list of .*, got 5",
                 lambda: plan.fill_tables([1], [1], *tables, pools=5)),
                (mlac.InvalidArgument, r"pools\[0\]: expected a list of .*, got 5",
                 lambda: plan.fill_tables([1], [1], *tables, pools=[5])),
                (mlac.InvalidArgument, r"pools\[0\]: expected \(block_table, slot_mapping\), got ",
                 lambda: plan.fill_tables([1], [1], *tables, pools=[(1, 2, 3)])),
                (TypeError, "index: expected an integer, got 'x'",
                 lambda: engine.bind_pool(array.array("f", [0]), index="x")),
                (TypeError, "scale: expected a number, got None", lambda: engine.set_cache_scale(None)),
                (TypeError, r"scale\[0\]: expected a number, got 'x'",
                 lambda: engine.set_cache_scale("x")),
                (TypeError, "function: expected one to call, got 5",
                 lambda: engine.set_all_reduce(5)),
                (TypeError, "checkpoint: expected the name of a file, got 5",
                 lambda: engine.bind_checkpoint(5)),
                (TypeError, "progress: expected True or a function of done and total, got 5",
                 lambda: engine.bind_checkpoint("model.safetensors", progress=5)),
                (TypeError, "output: expected the name of a file, got 5",
                 lambda: mlac.compile("config.json", output=5)),
                (mlac.InvalidArgument, "engine: expected a mlac.Engine, got 5",
                 lambda: mlac.Sequence(5)),
                (mlac.InvalidArgument, "engine: expected a mlac.Engine, got 5", lambda: mlac.Plan(5))):
            with self.subTest(text), self.assertRaisesRegex(kind, f"^{text}"):
                call()

    def test_A41_cascade_is_unsupported(self):
        sequences = self.start()
        with self.assertRaisesRegex(mlac.Unsupported, "common_prefix_len = 8"):
            self.plan.fill(sequences[:1], [1], common_prefix_len=8)

    def test_A17_two_ranks_sum_to_the_layer(self):
        """Each rank has some heads; the hook adds the other's output."""
        config = self.path("tp.json")
        with open(config, "w", encoding="utf-8") as file:
            json.dump({**CONFIG, "num_attention_heads": 2 * N}, file)
        package = self.path("tp.mlac")
        subprocess.run([os.environ["MLAC_COMPILE"], config, "--tp=2", "--dtype=f32",
                        f"--page-size={PAGE}", "--functions=step", "--quiet", "-o", package],
                       check=True)
        engine = mlac.Engine(mlac.Package(package), mlac.Device("cpu"), max_num_requests=2,
                             max_num_tokens=32, max_seq_len=32)
        engine.bind({name: memoryview(array.array("f", [v for row in rows for v in row])).cast("B")
                     .cast("f", tuple(engine_shape))
                     for (name, rows), engine_shape in zip(
                         self.weights.items(), self.shapes_of(engine))})
        engine.prepare()
        plan, sequence, calls = engine.plan(), engine.sequence(), []
        output = array.array("f", bytes(4 * 3 * H))
        other = [float(i) for i in range(3 * H)]

        def add(address, elements, dtype, stream):
            calls.append((address, elements, dtype, stream))
            for i in range(elements):
                output[i] += other[i]

        hidden = array.array("f", [v for row in self.hidden[0][:3] for v in row])
        plan.fill([sequence], [3])
        plan.run(hidden, output)
        alone = list(output)
        engine.set_all_reduce(add)
        sequence.truncate(0)
        plan.fill([sequence], [3])
        plan.run(hidden, output)
        self.assertEqual(calls, [(output.buffer_info()[0], 3 * H, "f32", None)])
        for value, mine, theirs in zip(output, alone, other):
            self.assertAlmostEqual(value, mine + theirs, delta=TOLERANCE)

        for kind in (RuntimeError, KeyboardInterrupt):
            def fail(*_):
                raise kind("no such rank")

            engine.set_all_reduce(fail)
            with self.assertRaisesRegex(kind, "no such rank"):
                plan.run(hidden, output)
        with self.assertRaisesRegex(mlac.InvalidArgument, "nothing to reduce"):
            self.start()
            self.engine.set_all_reduce(add)

    def shapes_of(self, engine):
        shapes = {w["name"]: w["shape"] for w in engine.package_info["weights"]}
        return [shapes[name] for name in self.weights]


del LayerTest, StepCase  # have no tests of their own

if __name__ == "__main__":
    unittest.main()
