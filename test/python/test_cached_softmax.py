# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention over caches whose softmax is written by its parts, or guarded behind it against rows
that see no key. MLAC_COMPILE names the compiler. Skips itself where torch is not installed."""

import os
import unittest

from attention_forms import Forms, causal, weigh
from cached_models import torch

os.environ.setdefault("MLAC_COMPILER", os.environ["MLAC_COMPILE"])
MINUS_INF = float("-inf")


def attention(weights_of, masked=True):
    """By the weights of scores."""
    def attend(q, k, v):
        k, v = (each.repeat_interleave(2, 1) for each in (k, v))
        scores = q @ k.transpose(-1, -2) * 0.25
        if masked:
            scores = scores.masked_fill(~causal(scores), MINUS_INF)
        return weights_of(scores) @ v

    return attend


def exponentials(scores):
    return (scores - scores.amax(-1, keepdim=True)).exp()


def over_sum(weights):
    return weights / weights.sum(-1, keepdim=True)


def divided_behind(q, k, v):
    """The sum divides what the exponentials weigh."""
    k, v = (each.repeat_interleave(2, 1) for each in (k, v))
    scores = q @ k.transpose(-1, -2) * 0.25
    weights = exponentials(scores.masked_fill(~causal(scores), MINUS_INF))
    return (weights @ v) / weights.sum(-1, keepdim=True)


PARTS = {
    "plain": lambda scores: over_sum(scores.exp()),
    "largest": lambda scores: over_sum(exponentials(scores)),
    "values of max": lambda scores: over_sum((scores - scores.max(-1, keepdim=True).values).exp()),
    "clamped sum": lambda scores: exponentials(scores) /
        exponentials(scores).sum(-1, keepdim=True).clamp(min=1e-9),
    "tiny number": lambda scores: exponentials(scores) /
        (exponentials(scores).sum(-1, keepdim=True) + 1e-9),
    "clamped largest": lambda scores: over_sum(
        (scores - scores.amax(-1, keepdim=True).clamp(min=torch.finfo(torch.float32).min)).exp()),
    "logarithm": lambda scores: (scores - scores.logsumexp(-1, keepdim=True)).exp(),
    "log_softmax": lambda scores: scores.log_softmax(-1).exp(),
}
UNMASKED = {  # whose masks are of the exponentials
    "multiplied": lambda scores: over_sum(exponentials(scores) * causal(scores)),
    "filled": lambda scores: over_sum(exponentials(scores).masked_fill(~causal(scores), 0)),
    "chosen": lambda scores: over_sum(torch.where(causal(scores), exponentials(scores), 0.0)),
}


def hide_rows_of_nothing(scores):
    return scores.softmax(-1).masked_fill((~causal(scores)).all(-1, keepdim=True), 0)


def see_rows_of_something(scores):
    return torch.where(causal(scores).any(-1, keepdim=True), scores.softmax(-1), 0.0)


GUARDS = {
    "nan_to_num": lambda scores: scores.softmax(-1).nan_to_num(0.0),
    "filled": lambda scores: scores.softmax(-1).masked_fill(~causal(scores), 0.0),
    "multiplied": lambda scores: scores.softmax(-1) * causal(scores),
    "chosen": lambda scores: torch.where(causal(scores), scores.softmax(-1), 0.0),
    "rows of nothing": hide_rows_of_nothing,
    "rows of something": see_rows_of_something,
    "isnan": lambda scores: scores.softmax(-1).masked_fill(scores.softmax(-1).isnan(), 0.0),
}


@unittest.skipIf(torch is None, "torch is not installed")
class SoftmaxTest(Forms, unittest.TestCase):
    def check_weights(self, forms, masked=True):
        for name, weights_of in forms.items():
            with self.subTest(name):
                (kind,) = self.check(attention(weights_of, masked), 2)._attend._kinds
                self.assertEqual((kind["num_heads"], kind["num_kv_heads"], kind["window"]),
                                 (4, 2, 0))

    def test_D46_softmax_by_its_parts(self):
        self.check_weights(PARTS)
        self.check_weights(UNMASKED, masked=False)
        self.check(divided_behind, 2)

    def test_D46_weights_that_are_guarded(self):
        self.check_weights(GUARDS)

    def test_D46_weights_that_are_others(self):
        """Eager's are no softmax, by a part that f32 shows, or may not be."""
        matmul = r"node 'matmul_1' \(aten.matmul.default\) .*"
        for why, weights_of in (
                (matmul + "1e-06 is added to the sum that divides them",
                 lambda scores: exponentials(scores) /
                 (exponentials(scores).sum(-1, keepdim=True) + 1e-6)),
                (r"node 'clamp' .* its numbers may be below -10000",
                 lambda scores: over_sum(
                     (scores - scores.amax(-1, keepdim=True).clamp(min=-1e4)).exp())),
                (r"node 'clamp' .* its numbers may be below 2",
                 lambda scores: exponentials(scores) /
                 exponentials(scores).sum(-1, keepdim=True).clamp(min=2)),
                (r"node 'masked_fill_1' .* it takes weights of keys away behind a softmax",
                 lambda scores: scores.softmax(-1).masked_fill(~causal(scores).tril(-1), 0))):
            with self.subTest(why):
                self.refuse(attention(weights_of), why)
        self.refuse(attention(lambda scores: scores.softmax(-1).masked_fill(~causal(scores), 0),
                              masked=False), "node 'masked_fill' .* no longer sum to 1")
        self.refuse(attention(lambda scores: weigh(scores.nan_to_num(0.0)), masked=False),
                    "node 'nan_to_num' .* in others than a softmax's")


if __name__ == "__main__":
    unittest.main()
