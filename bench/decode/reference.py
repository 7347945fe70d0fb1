# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention in float64 and the rules by which results are compared with it.

Rules and bounds are those of FlashMLA's own tests (mla.md section 14).
"""

import dataclasses

OUTPUT_ABS, OUTPUT_REL, OUTPUT_COSDIFF = 8e-4, 2.01 / 128, 5e-6
LSE_ABS, LSE_REL = 1e-6, 8.01 / 65536
# Keys that are codes: the reference rounds what they stand for to bf16, which is 1.9e-6 of the
# difference to kernels that do not (up to 32 rows).
CODES_COSDIFF = OUTPUT_COSDIFF + 2e-6


def attention(xp, queries, keys, rank, scale):
    """Output [T, N, rank] and LSE [T, N] of the last T tokens of one request.

    queries [T, N, W] and keys [L, W] in float64; query j sees L - T + j + 1 keys.
    """
    tokens, heads, width = queries.shape
    length = keys.shape[0]
    scores = (queries.reshape(tokens * heads, width) @ keys.T) * scale
    scores = scores.reshape(tokens, heads, length)
    for j in range(tokens - 1):
        scores[j, :, length - tokens + j + 1:] = -float("inf")
    largest = xp.amax(scores, axis=-1, keepdims=True)
    weights = xp.exp(scores - largest)
    total = weights.sum(axis=-1, keepdims=True)
    values = keys[:, :rank]
    output = weights.reshape(tokens * heads, length) @ values
    return output.reshape(tokens, heads, rank) / total, (largest + xp.log(total))[..., 0]


def score_size(xp, queries, keys, scale):
    """Sizes [T, N] that a score's float32 error is proportional to, at least 1: what the
    products of a score add up to without their signs, at most over the keys.

    The rule's absolute bound for LSEs is for N(0,1)/10 queries, where this is below 1. Queries
    a hundred times as large have LSEs near 0 out of sums of 15, whose rounding that bound forgets.
    """
    tokens, heads, width = queries.shape
    sums = (xp.abs(queries).reshape(tokens * heads, width) @ xp.abs(keys).T) * scale
    return xp.clip(xp.amax(sums, axis=-1), 1, None).reshape(tokens, heads)


@dataclasses.dataclass
class Errors:
    """How far results are from the reference."""

    cosdiff: float = 0.0
    output_bad: int = 0  # elements that break the rule
    output_worst: float = 0.0
    lse_bad: int = 0
    lse_worst: float = 0.0
    allowed_cosdiff: float = OUTPUT_COSDIFF

    @property
    def is_good(self):
        return (self.cosdiff <= self.allowed_cosdiff and self.output_bad == 0 and self.lse_bad == 0)

    def join(self, other):
        """The worse of both, for summaries."""
        return Errors(max(self.cosdiff, other.cosdiff), self.output_bad + other.output_bad,
                      max(self.output_worst, other.output_worst), self.lse_bad + other.lse_bad,
                      max(self.lse_worst, other.lse_worst),
                      max(self.allowed_cosdiff, other.allowed_cosdiff))

    def __str__(self):
        return (f"cosdiff {self.cosdiff:.1e}, output +-{self.output_worst:.1e} "
                f"({self.output_bad} bad), lse +-{self.lse_worst:.1e} ({self.lse_bad} bad)")


def _element_rule(xp, got, expected, largest_abs, largest_rel):
    """Number of elements that are off, and the largest difference."""
    finite = xp.isfinite(got) & xp.isfinite(expected)
    difference = xp.abs(xp.where(finite, got - expected, 0.0 * finite))
    is_near = (difference < largest_abs) | (difference / (xp.abs(expected) + 1e-6) < largest_rel)
    is_same = (got == expected) | (xp.isnan(got) & xp.isnan(expected))
    bad = ~xp.where(finite, is_near, is_same)
    worst = float("inf") if bool((~finite & ~is_same).any()) else float(difference.max())
    return int(bad.sum()), worst


def _cosdiff(got, expected):
    squares = float((got * got + expected * expected).sum())
    if not squares >= 1e-12:  # also where there are NaNs
        return 0.0 if squares == squares else float("inf")
    return 1 - 2 * float((got * expected).sum()) / squares


def compare(xp, output, lse, expected_output, expected_lse, scores=1, has_codes=False):
    """Errors of float64 results; `scores` is score_size or 1."""
    errors = Errors(allowed_cosdiff=CODES_COSDIFF if has_codes else OUTPUT_COSDIFF)
    if output.shape[0] == 0:
        return errors
    errors.output_bad, errors.output_worst = _element_rule(xp, output, expected_output, OUTPUT_ABS,
                                                           OUTPUT_REL)
    errors.lse_bad, errors.lse_worst = _element_rule(xp, lse, expected_lse, LSE_ABS * scores,
                                                     LSE_REL)
    errors.cosdiff = _cosdiff(output, expected_output)
    return errors
