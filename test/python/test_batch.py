# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A34, A35, B23: decodes in front of prefills, from Python."""

import unittest

import mlac


class ArrangeTest(unittest.TestCase):
    def test_A34_order_and_counts_come_back(self):
        batch = mlac.arrange_batch([7, 1, 1, 5, 1])
        self.assertEqual(batch.order, (4, 1, 2, 3, 0))
        self.assertEqual((batch.num_decodes, batch.num_prefills), (3, 2))
        self.assertEqual((batch.num_decode_tokens, batch.num_prefill_tokens), (3, 12))
        self.assertEqual(batch.num_swaps, 1)
        names = list("abcde")
        self.assertEqual(batch.apply(names), list("ebcda"))
        self.assertEqual(batch.apply(batch.apply(names)), names)

    def test_A35_speculative_rows_are_decodes(self):
        self.assertEqual(mlac.arrange_batch([9, 4, 1], decode_threshold=4).order, (2, 1, 0))

    def test_B23_uniform_groups(self):
        batch = mlac.arrange_batch([2, 2, 1, 8], 3, reorder=False, require_uniform=True)
        self.assertEqual((batch.num_decodes, batch.num_swaps), (2, 0))

    def test_bad_lengths_are_refused(self):
        with self.assertRaisesRegex(ValueError, "request 1: query length -1 is negative"):
            mlac.arrange_batch([1, -1])


if __name__ == "__main__":
    unittest.main()
