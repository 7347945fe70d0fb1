# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers that hide keys in attention over caches: which do for sure, and which are refused.
MLAC_COMPILE names the compiler. Skips itself where torch is not installed."""

import os
import unittest

from attention_forms import Forms, causal
from cached_models import torch

os.environ.setdefault("MLAC_COMPILER", os.environ["MLAC_COMPILE"])

WAYS = {  # and the node that makes the mask
    "mul_7": lambda scores, depth: scores + (1.0 - causal(scores).float()) * depth,
    "triu": lambda scores, depth: scores + torch.full(scores.shape[-2:], depth).triu(1),
    "where": lambda scores, depth: torch.where(causal(scores), scores, depth),
    "masked_fill": lambda scores, depth: scores.masked_fill(~causal(scores), depth),
    "sub": lambda scores, depth: scores * causal(scores).float() - (
        1 - causal(scores).float()) * -depth,
}


def attention(hide, depth, softcap=None):
    def attend(q, k, v):
        k, v = (each.repeat_interleave(2, 1) for each in (k, v))
        scores = q @ k.transpose(-1, -2) * 0.25
        if softcap is not None:
            scores = (scores / softcap).tanh() * softcap
        return hide(scores, depth).softmax(-1) @ v

    return attend


@unittest.skipIf(torch is None, "torch is not installed")
class DepthsTest(Forms, unittest.TestCase):
    def test_D46_numbers_that_hide_keys(self):
        for node, hide in WAYS.items():
            for depth in (-65504.0, -1e9):
                with self.subTest(node, depth=depth):
                    self.check(attention(hide, depth), 2)

    def test_D46_numbers_that_may_not_hide_keys(self):
        """Beside scores of -1e4 and less."""
        for node, hide in WAYS.items():
            with self.subTest(node):
                self.refuse(attention(hide, -1e4), f"the mask of node '{node}' .* in Layer hides "
                                                   "keys by -10000, which may not hide them")

    def test_D46_softcaps_bound_scores(self):
        for node, hide in WAYS.items():
            with self.subTest(node):
                cached = self.check(attention(hide, -1e4, 30.0), 2)
                self.assertEqual(cached._attend._kinds[0]["softcap"], 30)
        self.refuse(attention(WAYS["where"], -1e4, 5e3), "the mask of node 'where' .* by -10000")

    def test_D46_infinite_products(self):
        """Eager's are not a number where a key is seen: 0 times -inf."""
        self.refuse(attention(WAYS["mul_7"], float("-inf")),
                    "not causal but a product with an infinite number")


if __name__ == "__main__":
    unittest.main()
