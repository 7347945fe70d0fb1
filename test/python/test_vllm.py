# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mlac.vllm: its kernels over a cache of the caller's, and what it refuses. The tests of kernels
need torch, those of a real engine vLLM (test_vllm_engine.py)."""

import dataclasses
import importlib.util
import math
import os
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import mlac
import mlac.vllm
from mlac.vllm import Shape, layer_package, package_for

COMPILE = os.environ.get("MLAC_COMPILE", "")
GPU = Path(__file__).resolve().parent.parent / "gpu"
SHAPE = Shape(heads=4, rank=64, rope=16, block_size=16, scale=0.1, dtype="f32", query_len=3)


class ShapeTest(unittest.TestCase):
    def test_sizes_that_are_none_are_named(self):
        """The compiler says of them what its types say, in a file that nobody wrote."""
        for fields, message in (
                ({"heads": 0}, "heads: expected at least 1, got 0"),
                ({"heads": 1.5}, "heads: expected an integer, got 1.5"),
                ({"rank": -64}, "rank: expected at least 1, got -64"),
                ({"query_len": 0}, "query_len: expected at least 1, got 0"),
                ({"topk": -1}, "topk: expected at least 0, got -1"),
                ({"value": 32}, "nope and value: expected both, .* got 0 and 32"),
                ({"query_width": 8}, r"query_width: expected 0 or at least 16 \(rope\), got 8"),
                ({"dtype": "bfloat16"}, "dtype: expected bf16 or f16 or f32, got 'bfloat16'"),
                ({"cache": "fp4"}, "cache: expected auto or fp8 or fp8_ds_mla, got 'fp4'"),
                ({"scale": math.nan}, "scale: expected a number above 0, got nan"),
                ({"scale": "0.1"}, "scale: expected a number above 0, got '0.1'")):
            with self.subTest(fields), self.assertRaisesRegex(mlac.InvalidArgument, message):
                dataclasses.replace(SHAPE, **fields)
        # 1 is a number of MLIR's integers, not of its floats.
        self.assertIn("scale 1.0 ", dataclasses.replace(SHAPE, scale=1).module())


class VersionTest(unittest.TestCase):
    def test_other_versions_are_named(self):
        self.assertIsNone(mlac.vllm.unsupported_version("0.26.0"))
        self.assertIsNone(mlac.vllm.unsupported_version("0.26.1.dev3+g12"))
        self.assertIsNone(mlac.vllm.unsupported_version("0.33.0"))
        for version in ("0.25.2", "0.34.0", "1.0", "dev"):
            self.assertRegex(mlac.vllm.unsupported_version(version),
                             f"vLLM {version}: expected 0.26 to 0.33, ")


@unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
class CheckTest(unittest.TestCase):
    """How test/gpu/vllm_job.py assigns logits: batches are in an order of the runner's own."""

    def force(self, runner, prepare=None):
        """Logits [requests][steps, vocabulary] that are kept, and the tokens that are forced."""
        import torch

        with mock.patch.object(sys, "path", [*sys.path, str(GPU)]):
            import vllm_job

        def make_request():
            return SimpleNamespace(num_computed_tokens=2, num_prompt_tokens=2)

        scheduler = SimpleNamespace(running=[make_request()],
                                    requests=dict.fromkeys(("first", "second", "third")))
        worker = SimpleNamespace(worker=SimpleNamespace(model_runner=runner))
        core = SimpleNamespace(engine_core=SimpleNamespace(scheduler=scheduler))
        llm = SimpleNamespace(llm_engine=SimpleNamespace(
            model_executor=SimpleNamespace(driver_worker=worker), engine_core=core))

        class Model:
            def compute_logits(self, hidden):
                return hidden

        forced = vllm_job.Forced(torch, llm, Model)
        forced.begin([[5, 6], [3, 2], [1, 4]])
        chosen = []
        for names in (["third", "first", "second"], ["first", "second", "third"]):
            if prepare:
                self.assertEqual(runner.prepare_inputs(names).req_ids, names)
            else:
                runner.input_batch.req_ids = names
            rows = [["first", "second", "third"].index(name) for name in names]
            logits = Model().compute_logits(torch.tensor(rows).float().view(3, 1).expand(3, 8))
            chosen.append(dict(zip(rows, logits.argmax(-1).tolist())))
        return forced.end(), chosen

    def test_rows_are_those_of_the_batch(self):
        prepare = lambda names: SimpleNamespace(req_ids=names)
        for runner, how in ((SimpleNamespace(input_batch=SimpleNamespace()), None),
                            (SimpleNamespace(prepare_inputs=prepare), prepare)):
            kept, chosen = self.force(runner, how)
            self.assertEqual(kept[:, :, 0].tolist(), [[0, 0], [1, 1], [2, 2]])
            self.assertEqual(chosen, [{0: 5, 1: 3, 2: 1}, {0: 6, 1: 2, 2: 4}])


@unittest.skipUnless(os.path.exists(COMPILE), "MLAC_COMPILE is not there")
@unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
class KernelsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.package = os.path.join(cls.folder.name, "decode.mlac")
        with mock.patch.dict(os.environ, MLAC_COMPILER=COMPILE):
            package_for(SHAPE, "cpu", cls.package)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def kernels(self, layers=2, shape=SHAPE, package=None, **options):
        import torch
        from mlac.vllm._kernels import Kernels

        with mock.patch.dict(os.environ, MLAC_VLLM_PACKAGE=package or self.package):
            return Kernels(shape, [f"layer{index}" for index in range(layers)],
                           torch.device("cpu"), max_num_requests=4, max_seq_len=64, **options)

    def compile(self, shape, name):
        path = os.path.join(self.folder.name, name)
        with mock.patch.dict(os.environ, MLAC_COMPILER=COMPILE):
            package_for(shape, "cpu", path)
        return path

    def test_equals_reference_over_blocks_anywhere(self):
        self.check_reference(self.kernels(), "float32", 1e-5)

    def test_rope_queries_are_the_ends_of_rows(self):
        shape = dataclasses.replace(SHAPE, query_width=24 + SHAPE.rope)
        kernels = self.kernels(shape=shape, package=self.compile(shape, "rows.mlac"))
        self.check_reference(kernels, "float32", 1e-5)
        self.check_reference(kernels, "float32", 1e-5, query_width=shape.query_width)
        # Packages of the other kind have an input of another name.
        with self.assertRaisesRegex(mlac.InvalidArgument, "inputs of decode: expected rope_rows "
                                                          "among them, got .*rope_query"):
            self.kernels(shape=shape)

    def test_rows_that_end_in_columns(self):
        import torch
        from mlac.vllm._kernels import rows_that_end_in

        rows = torch.randn(5, 4, 40)
        for tokens in (slice(None), slice(0, 1), slice(2, 4)):
            part = rows[tokens, :, 24:]
            found = rows_that_end_in(part, 40)
            self.assertEqual(found.data_ptr(), rows[tokens].data_ptr())
            self.assertTrue(torch.equal(found, rows[tokens]))
        # Dense ones, those of wider rows, those of a storage that ends before, and none.
        narrow = torch.randn(5, 4, 24)[..., 8:]
        for part in (torch.randn(5, 4, 16), rows[..., 16:32], rows[:, :3, 24:], narrow,
                     rows[:0, :, 24:]):
            found = rows_that_end_in(part, 40)
            self.assertEqual(found.shape, (*part.shape[:2], 40))
            self.assertTrue(torch.equal(found[..., 24:], part))

    def test_narrow_types(self):
        # Of the rows as they are stored; outputs and weights of the softmax are rounded once each.
        for dtype, name, bound in (("bf16", "bfloat16", 2**-7), ("f16", "float16", 2**-10)):
            with self.subTest(dtype):
                shape = dataclasses.replace(SHAPE, dtype=dtype)
                kernels = self.kernels(shape=shape, package=self.compile(shape, f"{dtype}.mlac"))
                self.check_reference(kernels, name, bound)

    def test_codes_with_a_scale_for_each_layer(self):
        for dtype, name, bound in (("f32", "float32", 1e-5), ("bf16", "bfloat16", 2**-7)):
            with self.subTest(dtype):
                shape = dataclasses.replace(SHAPE, dtype=dtype, cache="fp8")
                kernels = self.kernels(shape=shape, package=self.compile(shape, f"{dtype}-fp8.mlac"))
                self.check_reference(kernels, name, bound, scales=[0.125, 0.5])

    def check_reference(self, kernels, dtype, bound, scales=(), query_width=0):
        """query_width: elements of the rows whose last columns the rope queries are."""
        import torch

        dtype = getattr(torch, dtype)
        codes = torch.float8_e4m3fn
        random = torch.Generator().manual_seed(1)
        stored, unwritten = (torch.uint8, 0x7F) if scales else (dtype, math.nan)  # NaN in both
        # Blocks farther apart than they are long, as vLLM's may be; rows that nobody wrote are NaN.
        memory = [torch.full((12, 20, 80), unwritten, dtype=stored) for _ in range(2)]
        caches = [each[:, :16] for each in memory]
        kernels.bind(caches, scales)

        def make_row(layer):
            row = torch.randn(80, generator=random)
            return (row / scales[layer]).to(codes).view(stored) if scales else row.to(dtype)

        def read_row(layer, block, place):
            row = caches[layer][block, place]
            return row.view(codes).double() * scales[layer] if scales else row.double()

        for query_len, lengths in ((1, [33, 1, 64]), (3, [3, 47]), (1, [16, 0, 17, 64])):
            table = torch.full((len(lengths), 4), 11, dtype=torch.int32)
            blocks = torch.randperm(11, generator=random)
            taken = 0
            for row, length in enumerate(lengths):
                pages = -(-length // 16)
                table[row, :pages] = blocks[taken:taken + pages]
                taken += pages
                for position in range(length):
                    for layer, cache in enumerate(caches):
                        cache[table[row, position // 16], position % 16] = make_row(layer)
            bounds = [min(length + 5, 64) for length in lengths]
            plan = kernels.plan([query_len] * len(lengths), bounds,
                                torch.tensor(lengths, dtype=torch.int32), table)
            for layer in range(len(caches)):
                tokens = len(lengths) * query_len
                query = torch.randn(4, tokens, 64, generator=random).to(dtype).transpose(0, 1)
                rope = torch.randn(tokens, 4, query_width or 16, generator=random)[..., -16:].to(dtype)
                output, lse = kernels.run(plan, f"layer{layer}", query, rope)
                for row, length in enumerate(lengths):
                    for step in range(query_len if length else 0):
                        token = row * query_len + step
                        seen = length - query_len + step + 1
                        rows = torch.stack([read_row(layer, table[row, at // 16], at % 16)
                                            for at in range(seen)])
                        scores = torch.cat([query[token], rope[token]], -1).double() @ rows.T * 0.1
                        wanted = scores.softmax(-1) @ rows[:, :64]
                        error = (output[token].double() - wanted).norm() / wanted.norm()
                        self.assertLess(error.item(), bound)
                        if dtype == "float32":
                            torch.testing.assert_close(output[token].double(), wanted,
                                                       rtol=1e-5, atol=1e-5)
                        torch.testing.assert_close(lse[token].double(), scores.logsumexp(-1),
                                                   rtol=1e-5, atol=1e-5)

    def compile_kernels(self, name, **fields):
        """Kernels of one layer, and their shape."""
        import torch
        from mlac.vllm._kernels import Kernels

        shape = dataclasses.replace(SHAPE, query_len=1, **fields)
        with mock.patch.dict(os.environ, MLAC_VLLM_PACKAGE=self.compile(shape, name)):
            return shape, Kernels(shape, ["layer0"], torch.device("cpu"), max_num_requests=4,
                                  max_seq_len=256, max_num_tokens=128)

    def make_cache(self, lengths, dtype, random):
        """A cache of dense rows in blocks anywhere, its block table and the rows of each request;
        blocks that nobody has are NaN."""
        import torch

        pages = [-(-length // 16) for length in lengths]
        cache = torch.full((sum(pages) + 2, 16, 80), math.nan, dtype=dtype)
        blocks = torch.randperm(len(cache), generator=random)
        table = torch.full((len(lengths), 16), int(blocks[-1]), dtype=torch.int32)
        rows, taken = [], 0
        for request, (length, count) in enumerate(zip(lengths, pages)):
            table[request, :count] = blocks[taken:taken + count]
            taken += count
            rows.append(torch.randn(length, 80, generator=random).to(dtype))
            for at, row in enumerate(rows[-1]):
                cache[table[request, at // 16], at % 16] = row
        return cache, table, rows

    def test_prefills_over_cached_context(self):
        import torch

        for dtype, name, bound in (("f32", "float32", 1e-5), ("bf16", "bfloat16", 2**-6)):
            with self.subTest(dtype):
                torch_dtype = getattr(torch, name)
                shape, kernels = self.compile_kernels(f"prefill-{dtype}.mlac", dtype=dtype, nope=24,
                                                      value=40)
                random = torch.Generator().manual_seed(2)
                up = (torch.randn(4 * 64, 64, generator=random) / 8).to(torch_dtype)
                kernels.bind_weight("layer0", up)
                for query_lens, lengths in (([5, 33], [5, 33]), ([17, 1, 40, 2], [17, 100, 57, 256])):
                    cache, table, rows = self.make_cache(lengths, torch_dtype, random)
                    kernels.bind([cache])
                    plan = kernels.plan_prefills(query_lens, lengths, table)
                    # As vLLM has them: parts of wider tensors.
                    query = torch.randn(sum(query_lens), 5, 40, generator=random)[:, 1:]
                    query = query.to(torch_dtype)
                    new = torch.cat([row[-count:] for row, count in zip(rows, query_lens)])
                    output = torch.full((sum(query_lens), 4, 40), math.nan, dtype=torch_dtype)
                    given = kernels.run_prefill(plan, "layer0", query, new[:, :64],
                                                new[:, 64:].unsqueeze(1), output)
                    self.assertIs(given, output)
                    again = kernels.run_prefill(plan, "layer0", query, new[:, :64],
                                                new[:, 64:].unsqueeze(1))
                    self.assertTrue(torch.equal(again, output))
                    heads, token = up.double().view(4, 64, 64), 0
                    for row, count in zip(rows, query_lens):
                        latent, rope = row.double().split([64, 16], -1)
                        keys = torch.cat([torch.einsum("sl,hpl->hsp", latent, heads[:, :24]),
                                          rope.expand(4, -1, -1)], -1)
                        values = torch.einsum("sl,hvl->hsv", latent, heads[:, 24:])
                        mask = torch.ones(count, len(row), dtype=torch.bool).tril(len(row) - count)
                        scores = torch.einsum("thd,hsd->hts", query[token:token + count].double(),
                                              keys) * 0.1
                        scores = scores.masked_fill(~mask, -math.inf)
                        wanted = torch.einsum("hts,hsv->thv", scores.softmax(-1), values)
                        got = output[token:token + count].double()
                        self.assertLess(((got - wanted).norm() / wanted.norm()).item(), bound)
                        token += count

    def test_selected_keys_of_decodes_and_prompts(self):
        import torch

        shape, kernels = self.compile_kernels("select.mlac", topk=9)
        random = torch.Generator().manual_seed(3)
        for query_lens, lengths in (([1, 1, 1], [33, 1, 64]), ([1, 1, 20, 7], [40, 2, 20, 90])):
            cache, table, rows = self.make_cache(lengths, torch.float32, random)
            kernels.bind([cache])
            seen = [length - count + step + 1 for count, length in zip(query_lens, lengths)
                    for step in range(count)]
            positions = torch.full((len(seen), 9), -1, dtype=torch.int32)
            for token, most in enumerate(seen):
                chosen = torch.randperm(most, generator=random)[:token % 10]
                places = torch.randperm(9, generator=random)[:len(chosen)]
                positions[token, places] = chosen.int()  # any order, -1 anywhere
            plan = kernels.plan(query_lens, lengths, torch.tensor(lengths, dtype=torch.int32), table)
            query = torch.randn(len(seen), 4, 64, generator=random)
            rope = torch.randn(len(seen), 4, 16, generator=random)
            output, lse = kernels.run(plan, "layer0", query, rope, positions=positions)
            requests = [row for row, count in zip(rows, query_lens) for _ in range(count)]
            for token, row in enumerate(requests):
                chosen = positions[token][positions[token] >= 0].long()
                keys = row[chosen].double()
                scores = torch.cat([query[token], rope[token]], -1).double() @ keys.T * 0.1
                wanted = scores.softmax(-1) @ keys[:, :64] if len(chosen) else torch.zeros(4, 64)
                torch.testing.assert_close(output[token].double(), wanted.double(), rtol=1e-5,
                                           atol=1e-5)
                torch.testing.assert_close(lse[token].double(), scores.logsumexp(-1), rtol=1e-5,
                                           atol=1e-5)

    def test_ranks_of_context_parallelism(self):
        # Tokens go to two ranks in turns; of one token the second rank has none. What they give is
        # weighted by their log-sum-exps, as vLLM does, and equals one rank with all of the tokens.
        import torch

        lengths, ranks = [37, 1, 4, 0], 2
        rows, table, cache, query, rope = self.make_ranks(lengths)
        outputs, lses = [], []
        for rank in range(ranks):
            kernels = self.kernels(layers=1, may_lack_keys=True)
            part = torch.full_like(cache, math.nan)
            for request, length in enumerate(lengths):
                mine = rows[request, :length][rank::ranks]
                for index, row in enumerate(mine):
                    part[table[request, index // 16], index % 16] = row
            kernels.bind([part])
            local = torch.tensor([len(range(rank, length, ranks)) for length in lengths]).int()
            plan = kernels.plan([1] * len(lengths), [-(-length // ranks) for length in lengths],
                                local, table)
            output, lse = kernels.run(plan, "layer0", query, rope)
            outputs.append(output.double())
            lses.append(lse.double())
        self.assertEqual(lses[1][1:2].tolist(), [[-math.inf] * SHAPE.heads])
        self.assertTrue(torch.isfinite(torch.stack(outputs)).all())
        both = torch.logaddexp(*lses)
        got = sum((lse - both).exp().unsqueeze(-1) * output
                  for lse, output in zip(lses, outputs))[:3]
        scores = (torch.einsum("bhc,btc->bht", query.double(), rows[:, :, :SHAPE.rank].double())
                  + torch.einsum("bhc,btc->bht", rope.double(), rows[:, :, SHAPE.rank:].double()))
        hidden = torch.arange(rows.shape[1]) >= torch.tensor(lengths).unsqueeze(-1)
        scores = (scores * SHAPE.scale).masked_fill(hidden.unsqueeze(1), -math.inf)[:3]
        wanted = scores.softmax(-1) @ rows[:3, :, :SHAPE.rank].double()
        self.assertLess((got - wanted).norm() / wanted.norm(), 1e-5)

    def make_ranks(self, lengths):
        """Keys of requests, a block table, a cache, and queries."""
        import torch

        count, columns = len(lengths), SHAPE.rank + SHAPE.rope
        table = torch.randperm(count * 4).view(count, 4).int()
        return (torch.randn(count, max(lengths), columns), table,
                torch.empty(count * 4, SHAPE.block_size, columns),
                torch.randn(count, SHAPE.heads, SHAPE.rank),
                torch.randn(count, SHAPE.heads, SHAPE.rope))

    def test_package_without_prefills_is_named(self):
        other = dataclasses.replace(SHAPE, nope=24, value=40)
        with self.assertRaisesRegex(mlac.InvalidArgument, "has_prefills: expected True, got False"):
            self.kernels(shape=other)

    def test_cache_that_moved_is_taken(self):
        import torch

        kernels = self.kernels(layers=1)
        outputs = []
        for value in (1.0, 2.0):
            cache = torch.full((4, 16, 80), value)
            kernels.bind([cache])
            plan = kernels.plan([1], [5], torch.tensor([5], dtype=torch.int32),
                                torch.zeros(1, 4, dtype=torch.int32))
            output, _ = kernels.run(plan, "layer0", torch.ones(1, 4, 64), torch.ones(1, 4, 16))
            outputs.append(output.mean().item())
        self.assertAlmostEqual(outputs[0], 1.0, places=5)
        self.assertAlmostEqual(outputs[1], 2.0, places=5)

    def test_two_plans_take_turns_whatever_the_batch(self):
        import torch

        kernels = self.kernels(layers=1)
        kernels.bind([torch.zeros(4, 16, 80)])
        plans = [kernels.plan([1] * count, [5] * count, torch.full((count,), 5, dtype=torch.int32),
                              torch.zeros(count, 4, dtype=torch.int32))
                 for count in (1, 2, 3, 4)]
        self.assertIs(plans[2], plans[0])
        self.assertIs(plans[3], plans[1])
        self.assertIsNot(plans[1], plans[0])

    def test_a_plan_serves_until_requests_outgrow_it(self):
        import torch
        from mlac._plan import Plan
        from mlac.vllm._kernels import SLACK

        kernels, filled = self.kernels(layers=1), []
        random = torch.Generator().manual_seed(7)
        cache, table, rows = self.make_cache([60, 40], torch.float32, random)
        table = table[:, :4].contiguous()
        kernels.bind([cache])
        lengths = torch.tensor([20, 3], dtype=torch.int32)
        fill = Plan.fill_device

        def count(plan, query_lens, bounds, **arrays):
            filled.append(bounds)
            fill(plan, query_lens, bounds, **arrays)

        def step(bounds, **more):
            """Whether a plan was made, and its outputs are right."""
            before = len(filled)
            plan = kernels.plan([1, 1], bounds, more.get("lengths", lengths), more.get("table", table))
            query = torch.randn(4, 2, 64, generator=random).transpose(0, 1)
            rope = torch.randn(2, 4, 16, generator=random)
            output, _ = kernels.run(plan, "layer0", query, rope)
            for request, length in enumerate(lengths.tolist()):
                keys = rows[request][:length].double()
                scores = torch.cat([query[request], rope[request]], -1).double() @ keys.T * 0.1
                torch.testing.assert_close(output[request].double(),
                                           scores.softmax(-1) @ keys[:, :64], rtol=1e-5, atol=1e-5)
            return len(filled) > before

        with mock.patch.object(Plan, "fill_device", count):
            made = []
            for _ in range(2 * SLACK + 2):
                made.append(step(lengths.tolist()))
                lengths += 1
            self.assertEqual(made, ([True] + [False] * SLACK) * 2)
            lengths -= 1
            # Bounds as a tensor, of the last plan.
            self.assertFalse(step(lengths.clone()))
            # Another batch in the same places: much shorter, or elsewhere.
            lengths[1] = 1
            self.assertTrue(step(lengths))
            self.assertEqual(filled[-1][1], 1 + SLACK)
            self.assertFalse(step(lengths))
            self.assertTrue(step(lengths, table=table.clone()))
            self.assertTrue(step(lengths, lengths=lengths.clone()))
            kernels.bind([cache.clone()])
            self.assertTrue(step(lengths, lengths=lengths))
            # Never beyond the longest that there may be.
            lengths[:] = torch.tensor([60, 40])
            self.assertTrue(step([60, 40]))
            self.assertEqual(filled[-1], [64, 40 + SLACK])
            # Nor beyond the table.
            lengths[:] = torch.tensor([45, 40])
            self.assertTrue(step([45, 40], table=table[:, :3].contiguous()))
            self.assertEqual(filled[-1], [48, 48])

    def test_graphs_of_padded_batches(self):
        """What a graph of four requests was captured from serves two and the padding behind them."""
        import torch

        kernels = self.kernels(layers=1)
        random = torch.Generator().manual_seed(5)
        cache, table, rows = self.make_cache([33, 7, 20, 1], torch.float32, random)
        kernels.bind([cache])
        lengths = torch.ones(4, dtype=torch.int32)  # persistent, as an engine's are
        bounds = [64, 64, 64, 64]
        captured = kernels.plan([1] * 4, bounds, lengths, table, is_capture=True)
        self.assertTrue(kernels.is_captured([1, 1, 0, 0]))
        self.assertFalse(kernels.is_captured([1, 1, 1]))
        for step in range(3):
            lengths[:] = torch.tensor([31 + step, 5 + step, 0, 0])
            plan = kernels.plan([1, 1, 0, 0], [33, 7, 0, 0], lengths, table)
            self.assertIs(plan, captured)
            query = torch.randn(4, 4, 64, generator=random)
            rope = torch.randn(4, 4, 16, generator=random)
            output, _ = kernels.run(plan, "layer0", query, rope)
            for request in range(2):
                keys = rows[request][:int(lengths[request])].double()
                scores = torch.cat([query[request], rope[request]], -1).double() @ keys.T * 0.1
                torch.testing.assert_close(output[request].double(),
                                           scores.softmax(-1) @ keys[:, :64], rtol=1e-5, atol=1e-5)
        self.assertIsNot(kernels.plan([1] * 3, bounds[:3], lengths[:3], table[:3]), captured)
        # A cache elsewhere: the graphs are gone.
        kernels.bind([cache.clone()])
        self.assertFalse(kernels.is_captured([1] * 4))

    def test_package_of_another_model_is_named(self):
        other = dataclasses.replace(SHAPE, heads=8, block_size=32)
        with self.assertRaisesRegex(mlac.InvalidArgument, "heads: expected 8, got 4; block_size: "
                                                          "expected 32, got 16"):
            self.kernels(shape=other)

    def test_package_of_another_model_of_the_same_sizes_is_named(self):
        """A rank of DeepSeek-V3 has the sizes of V2-Lite, but another scale."""
        prefills = dataclasses.replace(SHAPE, nope=24, value=40)
        lists = dataclasses.replace(SHAPE, topk=9, query_len=1)
        packages = {SHAPE: self.package, prefills: self.compile(prefills, "same-sizes.mlac"),
                    lists: self.compile(lists, "lists.mlac")}
        for shape, fields, message in (
                (SHAPE, {"scale": 0.2}, "scale: expected 0.2, got 0.1$"),
                (SHAPE, {"query_len": 4}, "query_len of decode: expected 4, got 3; query_len of dec"),
                (SHAPE, {"topk": 9}, "inputs of decode: expected positions, rope_query among them"),
                (lists, {"topk": 0}, "inputs of decode: .* got positions, query, rope_query"),
                (prefills, {"nope": 16}, "rows of kv_b_proj.weight: expected 224, got 256")):
            with self.subTest(fields):
                with self.assertRaisesRegex(mlac.InvalidArgument, message):
                    self.kernels(shape=dataclasses.replace(shape, **fields),
                                 package=packages[shape])
        # One for more rows of drafts serves fewer.
        self.kernels(shape=dataclasses.replace(SHAPE, query_len=2))

    def test_packages_of_layers_and_of_attention_are_told_apart(self):
        config = {"model_type": "deepseek_v3", "hidden_size": 64, "num_hidden_layers": 1,
                  "num_attention_heads": 8,
                  "num_key_value_heads": 8, "q_lora_rank": 32, "kv_lora_rank": SHAPE.rank,
                  "qk_rope_head_dim": SHAPE.rope, "qk_nope_head_dim": 16, "v_head_dim": 16,
                  "rms_norm_eps": 1e-6, "max_position_embeddings": 256,
                  "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
        path = os.path.join(self.folder.name, "layer.mlac")
        options = dict(dtype="f32", block_size=SHAPE.block_size)
        with mock.patch.dict(os.environ, MLAC_COMPILER=COMPILE):
            layer_package(config, SHAPE.heads, "cpu", output=path, **options)
        with self.assertRaisesRegex(mlac.InvalidArgument, r"weights: expected \[\], got \['q_a_proj"):
            self.kernels(package=path)
        from mlac.vllm._whole import load_layer

        def load(package, heads=SHAPE.heads, scale=32**-0.5, **changes):
            with mock.patch.dict(os.environ, MLAC_VLLM_PACKAGE=package):
                return load_layer(config | changes, heads, "cpu", scale=scale, **options)

        self.assertEqual(load(path).info["model"]["num_heads"], SHAPE.heads)
        with self.assertRaisesRegex(mlac.InvalidArgument, "hidden_size: expected 64, got"):
            load(self.package)
        with self.assertRaisesRegex(mlac.InvalidArgument, "num_heads: expected 8, got 4"):
            load(path, heads=8)
        with self.assertRaisesRegex(mlac.InvalidArgument, "scale of scores: expected 0.5, got"):
            load(path, scale=0.5)
        with self.assertRaisesRegex(mlac.InvalidArgument, "rope_theta: expected 50000.0, got 10000.0; "
                                                          "rms_norm_eps: expected 1e-05, got 1e-06"):
            load(path, rms_norm_eps=1e-5,
                 rope_parameters={"rope_type": "default", "rope_theta": 50000.0})
        # In the places of before.
        load(path, rope_parameters=None, rope_theta=10000, rope_scaling=None)

    def test_cache_of_another_shape_is_refused(self):
        import torch

        with self.assertRaisesRegex(mlac.InvalidArgument, r"\[pages, 16, 80\], got \[4, 32, 80\]"):
            self.kernels(layers=1).bind([torch.zeros(4, 32, 80)])


if __name__ == "__main__":
    unittest.main()
