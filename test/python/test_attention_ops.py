# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators of attention over caches against float64 (paged-cache.md sections 9, 10, 12, 13)."""

import os
import unittest
from concurrent.futures import ThreadPoolExecutor

import numpy as np

os.environ.setdefault("MLAC_COMPILER", os.environ["MLAC_COMPILE"])

from mlac import attention, reference  # noqa: E402

from attention_steps import Sizes, Step, angle_table, rotate_neighbours  # noqa: E402
from narrow_floats import narrow, widen  # noqa: E402

# Of outputs against float64 over the same stored numbers (random_layers.py), and of rotated keys.
ALLOWED = {"f32": 1e-5, "f16": 1e-3, "bf16": 8e-3}
MOST_TOKENS = 40  # of a sequence: rows of contiguous caches

# Groups, widths that are no powers of two, values of another width than keys.
SHAPES = (Sizes(8, 2, 16, 16, 4), Sizes(6, 2, 24, 40, 16, "f16"), Sizes(5, 1, 48, 32, 8, "bf16"),
          Sizes(4, 4, 32, 16, 1))
# Cached and new tokens of each sequence; at pages' boundaries, in the middle of pages, none at all.
MIXED = (((0, 7, 4, 33), (5, 3, 0, 1)), ((16, 15, 1), (17, 1, 16)), ((3,), (9,)))
GENERATE = ((0, 3, 4, 31), (1, 1, 1, 1))


class OpsTest(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.default_rng()
        self.seed = int(self.rng.integers(1 << 31))
        self.rng = np.random.default_rng(self.seed)

    def compare(self, step, output, expected):
        """Rows of the step, and every number of the caches."""
        allowed = ALLOWED[step.sizes.element]
        rows, k_cache, v_cache = expected
        error = reference.relative_error(widen(output).reshape(rows.shape), rows)
        self.assertLess(error, allowed, f"seed {self.seed}, {step.sizes}")
        np.testing.assert_array_equal(np.isnan(widen(step.k_cache)), np.isnan(k_cache))
        np.testing.assert_array_equal(widen(step.v_cache), v_cache)
        np.testing.assert_allclose(np.nan_to_num(widen(step.k_cache)), np.nan_to_num(k_cache),
                                   atol=4 * allowed)

    def contiguous(self, sizes, cached, lengths):
        """A page is a row, which holds a sequence."""
        whole = Sizes(**{**vars(sizes), "page": MOST_TOKENS})
        step = Step(self.rng, whole, cached, lengths, max_pages=1)
        return step, step.table[step.rows, 0]

    def rows(self, step, is_generate, is_flat=True):
        """[b, 1, ...] or [1, s, ...] with channels of all heads beside each other, or not."""
        lead = (len(step.lengths), 1) if is_generate else (1, len(step.q))
        return [x.reshape(*lead, -1) if is_flat else x.reshape(*lead, *x.shape[1:])
                for x in (step.q, step.k, step.v)]

    def table(self, sizes, element="f32"):
        table = narrow(angle_table(self.rng, MOST_TOKENS + 2, sizes.key_dim // 2), element)
        return table, widen(table)

    def test_D20_D47_flattened_over_rows(self):
        for sizes in SHAPES:
            for cached, lengths in (*MIXED, GENERATE):
                step, rows = self.contiguous(sizes, cached, lengths)
                is_generate = (cached, lengths) == GENERATE
                expected = step.expected()
                q, k, v = self.rows(step, is_generate, is_flat=False)
                output = attention.flattened_mha_with_cache(
                    q, k, v, step.lengths, step.positions, rows, step.starts, step.k_cache,
                    step.v_cache)
                # Erratum 3: as wide as values.
                self.assertEqual(output.shape, (*q.shape[:2], sizes.heads * sizes.value_dim))
                self.assertEqual(output.dtype, q.dtype)
                self.compare(step, output, expected)

    def test_D12_scale_window_and_softcap_are_constants(self):
        step, rows = self.contiguous(SHAPES[0], *MIXED[0])
        expected = step.expected(scale=0.4, window=3, softcap=2.5)
        output = attention.flattened_mha_with_cache(
            *self.rows(step, False), step.lengths, step.positions, rows, step.starts,
            step.k_cache, step.v_cache, 0.4, 3, 2.5)
        self.compare(step, output, expected)

    def test_D13_D14_D15_D20_rope_from_a_table(self):
        for sizes in SHAPES[:3]:
            for cached, lengths in (MIXED[0], GENERATE):
                step, rows = self.contiguous(sizes, cached, lengths)
                table, numbers = self.table(sizes, "f16" if sizes.element == "f16" else "f32")
                expected = step.expected(numbers)
                q, k, v = self.rows(step, lengths == GENERATE[1])
                output = attention.fused_flattened_mha_with_cache(
                    q, k, v, step.lengths, step.positions, rows, step.starts, step.k_cache,
                    step.v_cache, table)
                self.compare(step, output, expected)

    def test_D21_operands_of_the_rope_fused_operator(self):
        """Erratum 4: its metadata is in another order, with a table and without."""
        for has_table in (True, False):
            step, rows = self.contiguous(SHAPES[0], *MIXED[0])
            table, numbers = self.table(SHAPES[0])
            expected = step.expected(numbers if has_table else None)
            output = attention.fused_flattened_mha_with_cache_rope_fusion(
                *self.rows(step, False), step.positions, rows, step.lengths, step.starts,
                step.k_cache, step.v_cache, table if has_table else None)
            self.compare(step, output, expected)

    def test_D15_no_table_is_no_rope(self):
        for table in (None, np.zeros(0, np.float32), np.zeros((0, 8, 2), np.float32)):
            step, rows = self.contiguous(SHAPES[0], *MIXED[2])
            expected = step.expected()
            output = attention.fused_flattened_mha_with_cache(
                *self.rows(step, False), step.lengths, step.positions, rows, step.starts,
                step.k_cache, step.v_cache, table)
            self.compare(step, output, expected)

    def test_D19_fused_over_equal_lengths(self):
        for cached, lengths in (((0, 0, 0), (9, 9, 9)), ((5, 0, 38), (1, 1, 1))):
            step, _ = self.contiguous(SHAPES[0], cached, lengths)
            # Rows of the caches are those of the batch.
            order = step.table[step.rows, 0]
            caches = [cache[order].copy() for cache in (step.k_cache, step.v_cache)]
            table, numbers = self.table(SHAPES[0])
            rows, *after = step.expected(numbers)
            q, k, v = (x.reshape(3, -1, x.shape[1] * x.shape[2]) for x in (step.q, step.k, step.v))
            # Where there are several tokens, nothing is cached: positions are not read.
            positions = step.positions if lengths[0] == 1 else np.full(3, 99, np.int32)
            output = attention.fused_mha_with_cache(q, k, v, positions, *caches, table)
            step.k_cache[order], step.v_cache[order] = caches
            self.compare(step, output, (rows, *after))

    def test_D16_D17_D18_D22_fused_over_pages(self):
        for sizes in SHAPES:
            for cached, lengths in (*MIXED, GENERATE):
                most = -(-MOST_TOKENS // sizes.page)
                step = Step(self.rng, sizes, cached, lengths, most)
                table, numbers = self.table(sizes)
                expected = step.expected(numbers)
                q, k, v = self.rows(step, (cached, lengths) == GENERATE)
                output = attention.fused_mha_with_paged_cache(
                    q, k, v, step.positions, step.rows, step.lengths, step.starts, step.table,
                    MOST_TOKENS, step.k_cache, step.v_cache, table)
                self.compare(step, output, expected)

    def test_D35_caches_of_another_type(self):
        for element in ("f16", "bf16"):
            step, rows = self.contiguous(Sizes(8, 2, 16, 16, 4, element), *MIXED[0])
            expected = step.expected()
            q, k, v = (widen(x).astype(np.float32) for x in self.rows(step, False))
            output = attention.flattened_mha_with_cache(
                q, k, v, step.lengths, step.positions, rows, step.starts, step.k_cache,
                step.v_cache)
            self.assertEqual(output.dtype, np.float32)
            self.compare(step, output, expected)

    def test_D20_tokens_of_padding_change_nothing(self):
        step, rows = self.contiguous(SHAPES[0], (5, 9), (1, 1))
        expected = step.expected()
        q, k, v = (np.concatenate([x, x], 0) for x in self.rows(step, True))
        ends = lambda x, value: np.concatenate([x, np.full(2, value, x.dtype)])
        output = attention.flattened_mha_with_cache(
            q, k, v, ends(step.lengths, 1), ends(step.positions, 0), ends(rows, -1),
            ends(step.starts, 0), step.k_cache, step.v_cache)
        self.compare(step, output[:2], expected)

    def story(self, seed, pages):
        """One sequence, token by token: the largest error, over caches of so many pages."""
        rng, width = np.random.default_rng(seed), 16
        caches = [np.full((pages, 4, 2, width), np.nan, np.float32) for _ in range(2)]
        rows, worst = [[], []], 0.0
        of = lambda *numbers: np.array(numbers, np.int32)
        for position in range(20):
            q, *new = (rng.standard_normal((1, 1, heads, width)).astype(np.float32)
                       for heads in (4, 2, 2))
            for known, row in zip(rows, new):
                known.append(np.repeat(row[0, 0], 2, 0))
            output = attention.paged_mha_with_cache(q, *new, of(1), of(position), of(0), of(0),
                                                    np.arange(5, dtype=np.int32)[None], *caches,
                                                    None)
            keys, values = map(np.stack, rows)
            weights = np.exp(np.einsum("hd,thd->ht", q[0, 0], keys) * width**-0.5)
            expected = np.einsum("ht,thd->hd", weights / weights.sum(1, keepdims=True), values)
            worst = max(worst, np.abs(output.reshape(expected.shape) - expected).max())
            yield worst

    def test_D22_caches_of_other_sizes_in_the_same_step(self):
        """Which a plan of the one does not fit."""
        for worst in zip(self.story(1, 5), self.story(2, 9)):
            self.assertLess(max(worst), 1e-5)

    def test_D22_threads_have_caches_of_their_own(self):
        """And one module's kernels."""
        with ThreadPoolExecutor(4) as pool:
            for worst in pool.map(lambda seed: max(self.story(seed, 5)), range(12)):
                self.assertLess(worst, 1e-5)

    def test_D20_nothing_to_do(self):
        step, rows = self.contiguous(SHAPES[0], (5,), (0,))
        before = step.k_cache.tobytes()
        output = attention.flattened_mha_with_cache(
            *self.rows(step, False, is_flat=False), step.lengths, step.positions, rows,
            step.starts, step.k_cache, step.v_cache)
        self.assertEqual(output.shape, (1, 0, 128))
        self.assertEqual(step.k_cache.tobytes(), before)


class LatentTest(unittest.TestCase):
    HEADS, RANK, ROPE, SCALE = 5, 32, 16, 0.17

    def run_step(self, rng, element, has_rope, cached, lengths):
        """Latents are keys and values: heads of one row of the cache."""
        width = self.RANK + self.ROPE
        sizes = Sizes(self.HEADS, 1, width, width, 8, element)
        step = Step(rng, sizes, cached, lengths, max_pages=6)
        phi = rng.uniform(-np.pi, np.pi, (48, self.ROPE // 2))
        cos, sin = np.cos(phi).astype(np.float32), np.sin(phi).astype(np.float32)
        lead = (1, len(step.q)) if not all(n == 1 for n in lengths) else (len(lengths), 1)
        q = step.q.reshape(*lead, self.HEADS, width)
        k = step.k.reshape(*lead, width)
        cache = step.k_cache[:, :, 0].copy()
        operands = (q[..., :self.RANK], q[..., self.RANK:], k[..., :self.RANK],
                    k[..., self.RANK:])
        given = (cos, sin) if has_rope else (None, None)
        output = attention.mla_with_cache(
            *operands, step.lengths, step.positions, step.rows, step.starts, step.table, cache,
            *given, self.SCALE, self.RANK, "mla_f32" if element == "f32" else "mla_16")
        if has_rope:
            at = step.token_positions()
            for name in ("q", "k"):
                rows = widen(getattr(step, name))
                rows[..., self.RANK:] = rotate_neighbours(rows[..., self.RANK:], at, cos, sin)
                setattr(step, name, rows)
        step.v, step.v_cache = step.k, step.k_cache
        rows, k_cache, _ = step.expected(scale=self.SCALE)
        return output, cache, rows[..., :self.RANK], k_cache[:, :, 0]

    def test_D48_latents_against_float64(self):
        rng = np.random.default_rng()
        for element in ("f32", "f16", "bf16"):
            for has_rope in (True, False):
                for cached, lengths in (((0, 7, 8, 33), (5, 3, 0, 1)), GENERATE):
                    output, cache, rows, expected = self.run_step(rng, element, has_rope, cached,
                                                                  lengths)
                    error = reference.relative_error(widen(output).reshape(rows.shape), rows)
                    self.assertLess(error, ALLOWED[element])
                    np.testing.assert_array_equal(np.isnan(widen(cache)), np.isnan(expected))
                    np.testing.assert_allclose(np.nan_to_num(widen(cache)),
                                               np.nan_to_num(expected), atol=4 * ALLOWED[element])


class ReferenceTest(unittest.TestCase):
    def test_D43_attention_without_a_cache(self):
        rng = np.random.default_rng()
        q, k, v = (rng.standard_normal((2, 3, n, d)).astype(np.float32)
                   for n, d in ((5, 8), (7, 8), (7, 6)))
        mask = rng.standard_normal((5, 7)).astype(np.float32)
        seen = rng.random((2, 1, 5, 7)) < 0.7
        seen[0, 0, 2] = False  # a query that sees nothing
        for given, scale, added in (({}, None, 0.0), ({"scale": 0.3}, 0.3, 0.0),
                                    ({"attn_mask": mask}, None, mask),
                                    ({"attn_mask": seen}, None, np.where(seen, 0, -np.inf)),
                                    ({"is_causal": True}, None,
                                     np.where(np.arange(7) <= np.arange(5)[:, None], 0, -np.inf))):
            output = attention.scaled_dot_product_attention(q, k, v, **given)
            scores = np.einsum("bnqd,bnkd->bnqk", q.astype(np.float64), k) * (scale or 8**-0.5)
            weights = np.exp(scores + added)
            total = weights.sum(-1, keepdims=True)
            expected = np.einsum("bnqk,bnkd->bnqd", weights, v) / np.where(total > 0, total, 1)
            np.testing.assert_allclose(output, expected, atol=1e-6)
        with self.assertRaisesRegex(ValueError, "dropout_p is 0.5, expected 0"):
            attention.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
        with self.assertRaisesRegex(ValueError, "attn_mask and is_causal are both given"):
            attention.scaled_dot_product_attention(q, k, v, mask, is_causal=True)
        with self.assertRaisesRegex(ValueError, "expected 8 channels as of query, got 6"):
            attention.scaled_dot_product_attention(q, v, v)

    def test_D43_sizes_that_do_not_fit_are_named(self):
        attend = attention.scaled_dot_product_attention
        q, k, v = (np.ones((2, 4, n, d), np.float32) for n, d in ((5, 8), (7, 8), (7, 6)))
        for operands, message in (
                ((q, k[:, :2], v), "key: expected 4 heads as of query, or 1, got 2"),
                ((q, k, v[:, :3]), "value: expected 4 heads as of query, or 1, got 3"),
                ((q[:1], k, v), "key: expected 1 sequences as of query, or 1, got 2"),
                ((q, k[0], v), "key: expected 4 axes as of query, got 3"),
                ((q, k, v[:, :, :5]), "value: expected 7 tokens as of key, got 5"),
                ((q[0, 0, 0], k, v), "query: expected ...., tokens, channels., got .8."),
                ((q, k, v, np.ones((7, 5), bool)), "attn_mask: expected .2, 4, 5, 7. as of the "
                                                   "scores, or 1 of an axis, got .7, 5."),
                ((q, k, v, np.ones((5, 7), np.int64)), "expected f32, f16 or bf16, got i64")):
            with self.assertRaisesRegex(ValueError, message):
                attend(*operands)
        # One head of keys serves all, a mask may be bits of bf16, and there may be no key.
        np.testing.assert_allclose(attend(q, k[:, :1], v[:, :1]), np.ones((2, 4, 5, 6)))
        low = narrow(np.where(np.arange(7) < 3, 0.0, -1e30), "bf16")
        v[:, :, 3:] = 9
        np.testing.assert_allclose(attend(q, k, v, low), np.ones((2, 4, 5, 6)))
        np.testing.assert_array_equal(attend(q, k[:, :, :0], v[:, :, :0]), np.zeros((2, 4, 5, 6)))


if __name__ == "__main__":
    unittest.main()
