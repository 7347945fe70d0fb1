# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Groups of heads over a pool that keeps a window only: an engine serves a prompt and many steps,
and takes back the pages that the window has left. Against the float64 reference."""

import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np

import mlac
from mlac import reference

COMPILE = os.environ["MLAC_COMPILE"]
HEADS, KV_HEADS, DIM, WINDOW, PAGE = 6, 2, 16, 16, 4
# Keys keep every token, as a package's first pool does; values keep what the window sees.
MODULE = f"""
!keys = !mla.cache<page_size = 32, fields = [key: {KV_HEADS}x{DIM}], element = f32, format = "k_nhd">
!values = !mla.cache<page_size = {PAGE}, fields = [value: {KV_HEADS}x{DIM}], element = f32,
                     format = "v_nhd", window = {WINDOW}>
!row = tensor<?x{KV_HEADS}x{DIM}xf32>
!query = tensor<?x{HEADS}x{DIM}xf32>
!batch = !mla.batch<query_len = ?>
func.func @step(%q: !query {{mla.input = "query"}}, %k: !row {{mla.input = "key"}},
    %v: !row {{mla.input = "value"}}, %batch: !batch, %keys: !keys,
    %values: !values {{mla.pool = "values"}})
    -> (!query {{mla.output = "output"}}, !keys, !values) {{
  %0 = mla.append %k into %keys, %batch : !row into !keys, !batch
  %1 = mla.append %v into %values, %batch : !row into !values, !batch
  %o = mla.grouped_attention query(%q : !query) keys(%0 : !keys) values(%1 : !values)
      over %batch : !batch window {WINDOW} scale 0.25 -> !query
  return %o, %0, %1 : !query, !keys, !values
}}
"""
# f32 against float64 (mla.md section 14).
ALLOWED = 1e-5
STEPS = ((37, 5), (1, 1), (7, 30), *[(1, 1)] * 24)


SWAPS, SWAPPED_PAGES = (1, 3, 4, 17), 8


def compile_engine(folder):
    module = pathlib.Path(folder) / "window.mlir"
    module.write_text(MODULE)
    package = module.with_suffix(".mlac")
    subprocess.run([COMPILE, module, "--quiet", "--target=cpu", "-o", package], check=True)
    engine = mlac.Engine(mlac.Package(str(package)), mlac.Device("cpu"),
                         max_num_requests=2, max_seq_len=128, max_num_tokens=64)
    engine.prepare()
    engine.poison_cache()
    return engine


class GroupedTest(unittest.TestCase):
    def test_a_pool_that_keeps_the_window(self):
        with tempfile.TemporaryDirectory() as folder:
            engine = compile_engine(folder)
        rng = np.random.default_rng(3)
        sequences = [engine.sequence() for _ in range(2)]
        kept = [[np.empty((0, KV_HEADS, DIM), np.float32)] * 2 for _ in sequences]
        plan, swap, most = engine.plan(), engine.swap_space(SWAPPED_PAGES), 0
        for step, counts in enumerate(STEPS):
            tokens = sum(counts)
            if step in SWAPS:
                self.swap(engine, swap, sequences)
            query, key, value, output = (
                rng.standard_normal((tokens, heads, DIM)).astype(np.float32)
                for heads in (HEADS, KV_HEADS, KV_HEADS, HEADS))
            plan.fill(sequences, counts, "step")
            engine.poison_workspace()
            plan.run_bound(query=query, key=key, value=value, output=output)
            first = 0
            for rows, count in zip(kept, counts):
                own = slice(first, first + count)
                first += count
                rows[:] = [np.concatenate([old, new[own]]) for old, new in zip(rows, (key, value))]
                expected, _ = reference.grouped_attention(query[own], *rows, 0.25, WINDOW)
                self.assertLess(reference.relative_error(output[own], expected), ALLOWED)
            stats = engine.pool_stats(1)
            most = max(most, stats["num_pages"] - stats["free_pages"])
        # Of 105 tokens 27 pages; each window begins and ends within one.
        stats = engine.pool_stats(1)
        self.assertLessEqual(stats["num_pages"] - stats["free_pages"],
                             2 * (WINDOW // PAGE + 1))
        self.assertGreater(most, 2 * (WINDOW // PAGE + 1))


    def swap(self, engine, swap, sequences):
        """All out and back; in between their pages hold something else."""
        lengths = [len(sequence) for sequence in sequences]
        tickets = [swap.swap_out(sequence) for sequence in sequences]
        for pool in range(2):
            stats = engine.pool_stats(pool)
            self.assertEqual(stats["free_pages"], stats["num_pages"])
        self.assertLess(swap.stats["free_pages"], SWAPPED_PAGES)
        engine.poison_cache()
        for ticket, sequence in zip(reversed(tickets), reversed(sequences)):
            swap.swap_in(ticket, sequence)
        self.assertEqual([len(sequence) for sequence in sequences], lengths)
        self.assertEqual(swap.stats["free_pages"], SWAPPED_PAGES)
        engine.cache.check()

    def test_swaps_take_all_pools_or_none(self):
        with tempfile.TemporaryDirectory() as folder:
            engine = compile_engine(folder)
        rows = [np.ones((40, heads, DIM), np.float32) for heads in (HEADS, KV_HEADS, KV_HEADS, HEADS)]
        plan, sequence = engine.plan(), engine.sequence()
        plan.fill([sequence], [40], "step")
        plan.run_bound(**dict(zip(("query", "key", "value", "output"), rows)))
        # A page of keys is of 32 tokens, as eight of values are.
        small, swap = engine.swap_space(1), engine.swap_space(2)
        free = [engine.pool_stats(pool)["free_pages"] for pool in range(2)]
        with self.assertRaises(mlac.OutOfPages):
            small.swap_out(sequence)
        self.assertEqual(small.stats, {"num_pages": 1, "free_pages": 1, "num_tickets": 0})
        self.assertEqual([engine.pool_stats(pool)["free_pages"] for pool in range(2)], free)
        ticket = swap.swap_out(sequence)
        self.assertEqual(swap.stats, {"num_pages": 2, "free_pages": 0, "num_tickets": 1})
        # 40 tokens are not to be had now, of the pool of values.
        blockers = [engine.sequence() for _ in range(2)]
        blockers[0].reserve(engine.pool_stats(1)["free_pages"] * PAGE - 36)
        before = [engine.pool_stats(pool)["free_pages"] for pool in range(2)]
        self.assertGreaterEqual(before[0], 2)
        with self.assertRaises(mlac.OutOfPages):
            swap.swap_in(ticket, sequence)
        self.assertEqual([engine.pool_stats(pool)["free_pages"] for pool in range(2)], before)
        self.assertEqual((len(sequence), swap.length(ticket)), (0, 40))
        for blocker in blockers:
            blocker.free()
        self.assertEqual(len(swap.swap_in(ticket, sequence)), 40)
        swap.swap_out(sequence)
        swap.drop(ticket + 1)
        self.assertEqual(swap.stats, {"num_pages": 2, "free_pages": 2, "num_tickets": 0})
        engine.cache.check()


CODES_MODULE = f"""
!cache = !mla.cache<page_size = 4, fields = [key: {KV_HEADS}x{DIM}, value: {KV_HEADS}x{DIM}],
                    element = f32, format = "kv_nhd_fp8">
func.func @step(%k: !row {{mla.input = "key"}}, %v: !row {{mla.input = "value"}}, %batch: !batch,
    %cache: !cache) -> !cache {{
  %0 = mla.append %k, %v into %cache, %batch : !row, !row into !cache, !batch
  return %0 : !cache
}}
"""


class CodesTest(unittest.TestCase):
    """Scales of a cache of codes."""

    def test_scales_that_do_not_fit_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            plain = compile_engine(folder)
            module = pathlib.Path(folder) / "codes.mlir"
            types = [line for line in MODULE.splitlines() if line.startswith(("!row", "!batch"))]
            module.write_text("\n".join(types) + CODES_MODULE)
            package = module.with_suffix(".mlac")
            subprocess.run([COMPILE, module, "--quiet", "--target=cpu", "-o", package], check=True)
            engine = mlac.Engine(mlac.Package(str(package)), mlac.Device("cpu"))
        engine.prepare()
        for given, message in (((0.5,), "count = 1, rows of this pool have 2 scales"),
                               ((), "count = 0"), (0.0, "scale = 0"), ((1.0, -1.0), "scale = -1"),
                               ((float("nan"), 1.0), "scale = ")):
            with self.subTest(given=given), self.assertRaisesRegex(mlac.InvalidArgument, message):
                engine.set_cache_scale(given)
        engine.set_cache_scale(0.5)
        engine.set_cache_scale((0.5, 2.0))
        for given in (1.0, (1.0,), (1.0, 1.0)):
            with self.assertRaisesRegex(mlac.InvalidArgument,
                                        "'k_nhd' have no scale of their layer"):
                plain.set_cache_scale(given)


if __name__ == "__main__":
    unittest.main()
