# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mlac.vllm: how latent queries of decodes lie in memory, which are read as they lie, and which are
copied. Needs torch."""

import dataclasses
import importlib.util
import math
import os
import tempfile
import unittest
from unittest import mock

import mlac
from mlac.vllm import Shape, package_for

COMPILE = os.environ.get("MLAC_COMPILE", "")
SHAPE = Shape(heads=4, rank=64, rope=16, block_size=16, scale=0.1, dtype="f32")
BY_TOKEN, BY_HEAD = "decode", "decode_of_heads"


@unittest.skipUnless(os.path.exists(COMPILE), "MLAC_COMPILE is not there")
@unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
class QueriesTest(unittest.TestCase):
    def setUp(self):
        import torch

        self.random = torch.Generator().manual_seed(11)
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def start(self, lengths, **fields):
        """Kernels over a cache of requests of these lengths, blocks in any order; what nobody wrote
        is NaN."""
        import torch
        from mlac.vllm._kernels import Kernels

        shape = self.shape = dataclasses.replace(SHAPE, **fields)
        path = os.path.join(self.folder.name, "decode.mlac")
        with mock.patch.dict(os.environ, MLAC_COMPILER=COMPILE):
            package_for(shape, "cpu", path)
        with mock.patch.dict(os.environ, MLAC_VLLM_PACKAGE=path):
            self.kernels = Kernels(shape, ["layer0"], torch.device("cpu"), max_num_requests=8,
                                   max_seq_len=64, max_num_tokens=64)
        cache = torch.full((4 * len(lengths) + 1, 16, 80), math.nan)
        blocks = torch.randperm(len(cache), generator=self.random)
        self.table = blocks[:4 * len(lengths)].view(-1, 4).int()
        self.rows = [torch.randn(length, 80, generator=self.random) for length in lengths]
        for blocks, rows in zip(self.table, self.rows):
            for at, row in enumerate(rows):
                cache[blocks[at // 16], at % 16] = row
        self.kernels.bind([cache])
        self.lengths = torch.tensor(lengths, dtype=torch.int32)

    def make_queries(self, tokens, function):
        import torch

        heads, rank = self.shape.heads, self.shape.rank
        if function == BY_HEAD:
            return torch.randn(heads, tokens, rank, generator=self.random).transpose(0, 1)
        return torch.randn(tokens, heads, rank, generator=self.random)

    def step(self, query, counts=None, plan=None):
        """Runs queries of which each request has so many (1); the function that ran, and whether it
        read them where they are. Outputs are compared with float64."""
        import torch
        from mlac._plan import Plan

        counts = counts or [self.shape.query_len] * len(self.rows)
        bound = {}
        run = Plan.run_bound

        def watch(plan, layer, stream, **buffers):
            bound.update(buffers)
            run(plan, layer, stream, **buffers)

        plan = plan or self.plan(counts)
        rope = torch.randn(len(query), self.shape.heads, 16, generator=self.random)
        more, first = {}, torch.arange(self.shape.topk, dtype=torch.int32)
        if self.shape.topk:  # of each token, which is its request's only one, the first keys
            lengths = self.lengths[:len(query), None]
            more["positions"] = torch.where(first < lengths, first, first.new_tensor(-1))
        with mock.patch.object(Plan, "run_bound", watch):
            output, lse = self.kernels.run(plan, "layer0", query, rope, **more)
        token = 0
        for rows, count in zip(self.rows, counts):
            for own in range(count):
                seen = len(rows) - count + own + 1
                keys = rows[:min(seen, self.shape.topk or seen)].double()
                scores = torch.cat([query[token], rope[token]], -1).double() @ keys.T * 0.1
                torch.testing.assert_close(output[token].double(), scores.softmax(-1) @ keys[:, :64],
                                           rtol=1e-5, atol=1e-5)
                torch.testing.assert_close(lse[token].double(), scores.logsumexp(-1), rtol=1e-5,
                                           atol=1e-5)
                token += 1
        return plan.function, bound["query"].data_ptr() == query.data_ptr()

    def plan(self, counts, **options):
        count = len(counts)
        return self.kernels.plan(counts, [64] * count, self.lengths[:count], self.table[:count],
                                 **options)

    def test_queries_are_read_as_they_lie(self):
        for fields in ({}, {"query_len": 3}, {"heads": 128}, {"heads": 20}, {"topk": 9}):
            with self.subTest(fields):
                self.start([33, 4, 64, 17], **fields)
                tokens = 4 * self.shape.query_len
                for _ in range(2):  # a step of vLLM 0.26
                    self.assertEqual(self.step(self.make_queries(tokens, BY_HEAD)), (BY_HEAD, True))
                # Another engine's: copied once, then planned for.
                for expected in ((BY_HEAD, False), (BY_TOKEN, True), (BY_TOKEN, True)):
                    self.assertEqual(self.step(self.make_queries(tokens, BY_TOKEN)), expected)
                for expected in ((BY_TOKEN, False), (BY_HEAD, True)):
                    self.assertEqual(self.step(self.make_queries(tokens, BY_HEAD)), expected)

    def test_other_strides_are_copied(self):
        import torch

        self.start([33, 4])
        self.assertEqual(self.step(self.make_queries(2, BY_HEAD)), (BY_HEAD, True))
        # Columns of wider rows, heads of more, tokens of more: nothing is planned for such.
        for query in (torch.randn(2, 4, 80, generator=self.random)[..., :64],
                      torch.randn(2, 6, 64, generator=self.random)[:, :4],
                      torch.randn(4, 5, 64, generator=self.random).transpose(0, 1)[1:3]):
            self.assertEqual(self.step(query), (BY_HEAD, False))

    def test_one_token_is_never_copied(self):
        self.start([33])
        for function in (BY_TOKEN, BY_HEAD, BY_TOKEN):
            self.assertEqual(self.step(self.make_queries(1, function)), (BY_HEAD, True))

    def test_heads_that_no_box_holds_are_copied(self):
        # 20 heads of two tokens: a tile of 64 rows ends within a token.
        self.start([33, 4], heads=20, query_len=2)
        self.assertEqual(self.shape.decodes, [BY_TOKEN])
        self.assertEqual(self.step(self.make_queries(4, BY_HEAD)), (BY_TOKEN, False))
        self.assertEqual(self.step(self.make_queries(4, BY_TOKEN)), (BY_TOKEN, True))

    def test_more_rows_than_planned_are_copied(self):
        # Heads are as far apart as there are rows, which must be those of the plan.
        self.start([33, 4])
        self.assertEqual(self.step(self.make_queries(5, BY_HEAD)), (BY_HEAD, False))

    def test_graphs_keep_the_function_that_they_repeat(self):
        self.start([33, 4, 20, 9])
        captured = self.plan([1] * 4, is_capture=True)
        self.assertEqual(captured.function, BY_HEAD)
        # Steps without a graph change to the other function, those of the graph do not.
        for _ in range(2):
            self.step(self.make_queries(3, BY_TOKEN), counts=[1] * 3, plan=self.plan([1] * 3))
        self.assertEqual(self.plan([1] * 3).function, BY_TOKEN)
        again = self.plan([1, 1, 0, 0])
        self.assertIs(again, captured)
        self.assertEqual(again.function, BY_HEAD)
        # Captured anew, it is of the new one.
        self.assertEqual(self.plan([1] * 4, is_capture=True).function, BY_TOKEN)

    def test_packages_without_the_function_serve(self):
        decodes = property(lambda shape: [BY_TOKEN])
        with mock.patch.object(Shape, "decodes", decodes):
            self.start([33, 4])
        self.assertEqual(self.step(self.make_queries(2, BY_HEAD)), (BY_TOKEN, False))


if __name__ == "__main__":
    unittest.main()
