# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A36, A37: decode rows first, prefill rows after, in one caller's buffers.

A mixed batch runs as two steps on one cache: the decode function writes the first
rows of the caller's output, the prefill function the rest, and neither touches what
lies behind the batch's tokens. The layer and its float64 reference are those of
test_lse. Needs no NumPy.
"""

import array
import unittest

from test_lse import H, N, TOLERANCE, LayerTest, flat

PADDING, UNTOUCHED = 3, -77.0


class MixedTest(LayerTest):
    def rows(self, tokens):
        return flat([self.hidden[s][t] for s, t in tokens])

    def check_rows(self, tokens, output, lse):
        for row, (s, t) in enumerate(tokens):
            expected_output, expected_lse = self.expected[s][t]
            for i in range(H):
                self.assertAlmostEqual(output[row * H + i], expected_output[i], delta=TOLERANCE)
            for head in range(N):
                self.assertAlmostEqual(lse[row * N + head], expected_lse[head], delta=TOLERANCE)

    def test_A36_two_paths_share_an_output(self):
        engine = self.make_engine("token_major", "auto", 132)
        decoding, arriving = engine.sequence(), engine.sequence()
        plan = engine.plan()
        plan.fill([decoding], [13])
        plan.run(self.rows([(0, t) for t in range(13)]), array.array("f", bytes(4 * 13 * H)),
                 lse=array.array("f", bytes(4 * 13 * N)))

        decodes, prefills = [(0, 13)], [(1, t) for t in range(8)]
        tokens = decodes + prefills
        hidden = self.rows(tokens)
        # Rows of N values start at multiples of 16 bytes only if N does: apart.
        output = array.array("f", [UNTOUCHED] * (len(tokens) + PADDING) * H)
        lses = [array.array("f", [UNTOUCHED] * (len(part) + PADDING) * N)
                for part in (decodes, prefills)]
        paths = [engine.plan(), engine.plan()]
        paths[0].fill([decoding], [1])
        paths[1].fill([arriving], [8])
        self.assertEqual([path.function for path in paths], ["decode", "prefill"])
        engine.poison_cache()
        engine.poison_workspace()
        split = len(decodes) * H
        whole = memoryview(output)
        # As in mla.md section 10: the prefill path first, then the decode path.
        paths[1].run(memoryview(hidden)[split:], whole[split:len(tokens) * H], lse=lses[1])
        self.assertEqual(set(output[:split]), {UNTOUCHED})
        paths[0].run(memoryview(hidden)[:split], whole[:split], lse=lses[0])
        self.check_rows(tokens, output, lses[0][:N] + lses[1][:8 * N])
        self.assertEqual(set(output[len(tokens) * H:]), {UNTOUCHED})
        for part, lse in zip((decodes, prefills), lses):
            self.assertEqual(set(lse[len(part) * N:]), {UNTOUCHED})

    def test_A37_rows_behind_the_tokens_stay(self):
        engine = self.make_engine("token_major", "auto", 132)
        sequences, plan = [engine.sequence(), engine.sequence()], engine.plan()
        for step, done in (((5, 2), (0, 0)), ((1, 1), (5, 2))):
            tokens = [(s, done[s] + j) for s in range(2) for j in range(step[s])]
            output = array.array("f", [UNTOUCHED] * (len(tokens) + PADDING) * H)
            lse = array.array("f", [UNTOUCHED] * (len(tokens) + PADDING) * N)
            hidden = self.rows(tokens)
            hidden.extend([float("nan")] * PADDING * H)
            plan.fill(sequences, step)
            engine.poison_cache()
            engine.poison_workspace()
            plan.run_bound(hidden=hidden, output=output, lse=lse)
            self.check_rows(tokens, output, lse)
            self.assertEqual(set(output[len(tokens) * H:]), {UNTOUCHED})
            self.assertEqual(set(lse[len(tokens) * N:]), {UNTOUCHED})


del LayerTest  # has no tests of its own

if __name__ == "__main__":
    unittest.main()
