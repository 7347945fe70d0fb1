# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""DeepSeek-V4's layers: the float64 reference against the golden ones."""

import unittest

import numpy as np

from mlac import reference

import shared_key_layers as shared

# The golden layers are f64 with rotary tables in f32, stored in f32.
ALLOWED_REFERENCE = 1e-6


class ReferenceTest(unittest.TestCase):
    def check(self, kind):
        config, weights, hidden, expected, selected, entries = shared.read_golden(kind)
        shape = reference.shared_keys_from_hf(config, kind)
        output, _ = reference.shared_key_layer(shape, weights, hidden, selected)
        self.assertLess(reference.relative_error(output, expected), ALLOWED_REFERENCE)
        if entries is not None:
            own = reference.entries_of(shape, weights, "compressor.", hidden)
            self.assertLess(reference.relative_error(own, entries), ALLOWED_REFERENCE)

    def test_golden_window_V4_02_V4_03(self):
        self.check(shared.WINDOW_ONLY)

    def test_golden_selected_entries_V4_14(self):
        self.check(shared.SELECTED)

    def test_golden_all_entries_V4_13(self):
        self.check(shared.ALL)

    def test_own_selection_is_the_golden_one_V4_22(self):
        config, weights, hidden, _, stored, _ = shared.read_golden(shared.SELECTED)
        shape = reference.shared_keys_from_hf(config, shared.SELECTED)
        scores = reference.shared_key_scores(shape, weights, hidden)
        for row, chosen in enumerate(stored):
            seen = (row + 1) // shape.every
            chosen = chosen[(chosen >= 0) & (chosen < seen)]
            self.assertEqual(len(set(chosen)), min(seen, shape.indexer.topk))
            if len(chosen) < seen:  # ties, of zeros mostly, may be broken either way
                rest = np.setdiff1d(np.arange(seen), chosen)
                slack = 1e-5 * np.abs(scores[row, :seen]).max()
                self.assertGreaterEqual(scores[row, chosen].min() + slack,
                                        scores[row, rest].max())

    def test_kinds_of_layers_V4_46(self):
        flash = {"num_hidden_layers": 4, "compress_ratios": [0, None, 4, 128, 0]}
        named = {"num_hidden_layers": 3, "layer_types": [
            "sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"]}
        self.assertEqual([reference.entry_tokens(flash, i) for i in range(5)], [1, 1, 4, 128, 1])
        self.assertEqual([reference.entry_tokens(named, i) for i in range(4)], [1, 4, 128, 1])


if __name__ == "__main__":
    unittest.main()
