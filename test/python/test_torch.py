# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torch.ops.mlac against the same steps by Plan.run and run_bound, opcheck and torch.compile.

Skips itself where torch is not installed. MLAC_COMPILE names the compiler; MLAC_TORCH_LIBRARY
is a built libmlac_torch.so, or "none" for the operators in Python."""

import gc
import os
import pathlib
import unittest
from concurrent.futures import ThreadPoolExecutor

try:
    import numpy as np
    import torch
except ImportError as error:
    raise unittest.SkipTest(f"not installed: {error.name}")

import external_caller
import shared_key_layers as shared
import mlac
import mlac.torch

COMPILE = os.environ["MLAC_COMPILE"]
TINY = pathlib.Path(__file__).parent.parent / "data/configs/deepseek_v3_tiny.json"
LAYERS, TOKENS = 2, 3
# Of external_caller.ATTENTION: heads, widths, page.
N, LATENT, ROPE, PAGE, PAGES = 4, 64, 16, 16, 4


def compile_text(text):
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "attention.mlir"
        path.write_text(text)
        return mlac.compile(path, target="cpu", compiler=COMPILE)


def random(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


class LayerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.package = mlac.compile(TINY, target="cpu", dtype="f32", compiler=COMPILE)

    def setUp(self):
        self.engine = mlac.Engine(self.package, mlac.Device("cpu", 1), max_seq_len=64,
                                  num_layers=LAYERS)
        for layer in range(LAYERS):
            generator = torch.Generator().manual_seed(layer)
            self.engine.bind({w["name"]: torch.randn(w["shape"], generator=generator) / 8
                              for w in self.package.info["weights"]}, layer)
            self.engine.prepare(layer)
        self.plan = self.engine.plan()
        self.sequence = self.engine.sequence()
        self.handle = mlac.torch.handle(self.plan)
        self.fill()

    def fill(self, tokens=TOKENS):
        self.plan.fill([self.sequence], [tokens])
        self.hidden = random(tokens, self.engine.hidden_size, dtype=torch.float32)

    def run_op(self, hidden=None, layer=0):
        output = torch.full_like(self.hidden, torch.nan)
        torch.ops.mlac.layer(output, self.hidden if hidden is None else hidden, self.handle,
                             layer)
        return output

    def test_equals_plan(self):
        for tokens in (TOKENS, 1):
            for layer in range(LAYERS):
                self.assertTrue(torch.equal(self.run_op(layer=layer),
                                            self.plan.run(self.hidden, layer=layer)))
            self.fill(1)

    def test_opcheck(self):
        output = torch.zeros_like(self.hidden)
        torch.library.opcheck(torch.ops.mlac.layer.default,
                              (output, self.hidden, self.handle, 1))

    def test_fullgraph(self):
        """Compiled once, the step refilled between calls: decodes after a prompt."""
        def model(hidden):
            for layer in range(LAYERS):
                output = torch.empty_like(hidden)
                torch.ops.mlac.layer(output, hidden * 0.5, self.handle, layer)
                hidden = hidden + output
            return hidden

        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        for tokens in (TOKENS, 1, 1):
            expected = model(self.hidden)  # a step that runs again gives the same
            torch.testing.assert_close(compiled(self.hidden), expected)
            self.fill(tokens)

    def test_refusals(self):
        for text, hidden in (("hidden: expected the package's dtype", self.hidden.half()),
                             ("hidden: expected a contiguous tensor",
                              torch.zeros(64, TOKENS).T),
                             ("hidden: expected rows for the 3 tokens of the step",
                              self.hidden[:2]),
                             ("hidden: expected rows", self.hidden[:, :32].contiguous()),
                             ("hidden: expected rows of 64 columns", torch.zeros(TOKENS, 128)),
                             ("hidden: expected rows of 64 columns", torch.zeros(2 * TOKENS, 32))):
            with self.subTest(text=text), self.assertRaisesRegex(Exception, text):
                self.run_op(hidden)
        with self.assertRaisesRegex(Exception, "layer 2"):
            self.run_op(layer=2)
        with self.assertRaisesRegex(Exception, "cache: layer 0 had no pool of one tensor"):
            torch.ops.mlac.append(self.hidden, self.hidden, None, self.handle)
        with self.assertRaisesRegex(Exception, "query: expected no such tensor"):
            torch.ops.mlac.attend(self.hidden, None, None, self.hidden, None, None, None,
                                  self.handle)
        with self.assertRaisesRegex(mlac.InvalidArgument, "unknown tensor 'key'"):
            mlac.torch.handle(self.plan, key="k")
        with self.assertRaisesRegex(mlac.InvalidArgument, "no buffer 'x', expected one of"):
            mlac.torch.handle(self.plan, hidden="x")
        for call, kind in ((mlac.torch.handle, "Plan"), (mlac.torch.handles, "LayersPlan")):
            with self.assertRaisesRegex(mlac.InvalidArgument, f"plan: expected a mlac.{kind}, got 5"):
                call(5)
        # The fake kernel took them, and the output stayed as it was.
        with self.assertRaisesRegex(mlac.InvalidArgument, "tensors on one device, got cpu, meta"):
            self.run_op(self.hidden.to("meta"))
        meta = self.hidden.to("meta")
        torch.ops.mlac.layer(meta, meta, self.handle)

    def test_plan_ends(self):
        handle = mlac.torch.handle(self.engine.plan())
        gc.collect()
        with self.assertRaisesRegex(Exception, "of a plan that lives"):
            torch.ops.mlac.layer(self.hidden.clone(), self.hidden, handle)
        self.plan.close()
        with self.assertRaisesRegex(Exception, "plan"):
            self.run_op()

    def test_threads(self):
        """Handles come and go while others are used."""
        def use(_):
            plan = self.engine.plan()
            sequence = self.engine.sequence()
            plan.fill([sequence], [TOKENS])
            handle = mlac.torch.handle(plan)
            output = torch.empty_like(self.hidden)
            torch.ops.mlac.layer(output, self.hidden, handle)
            return output

        expected = self.run_op()
        with ThreadPoolExecutor(4) as pool:
            for output in pool.map(use, range(32)):
                self.assertTrue(torch.equal(output, expected))


class LayerKindsTest(unittest.TestCase):
    """V4-44: layers of all kinds of DeepSeek-V4, each an operator that writes its output alone."""

    KINDS = (shared.WINDOW_ONLY, shared.SELECTED, shared.ALL, shared.SELECTED)

    @classmethod
    def setUpClass(cls):
        names = [shared.config(kind)["layer_types"][0] for kind in cls.KINDS]
        cls.config = shared.config(shared.WINDOW_ONLY, num_hidden_layers=len(names),
                                   layer_types=names)
        cls.package = mlac.compile(cls.config, target="cpu", dtype="f32", compiler=COMPILE)

    def setUp(self):
        self.served = mlac.Layers(self.package, mlac.Device("cpu", 1), max_seq_len=320)
        self.addCleanup(self.served.close)
        for layer, kind in enumerate(self.KINDS):
            number, index = self.served.place(layer)
            engine = self.served.engines[number]
            weights = shared.random_weights(np.random.default_rng(layer), self.config, kind)
            engine.bind({w["name"]: torch.from_numpy(weights[w["name"]].astype(np.float32))
                         for w in self.package.kinds[number].info["weights"]}, index)
            engine.prepare(index)
        self.plan, self.sequence = self.served.plan(), self.served.sequence()
        self.handles = mlac.torch.handles(self.plan)
        self.fill(140)

    def fill(self, tokens):
        self.plan.fill([self.sequence], [tokens])
        self.hidden = random(tokens, self.served.hidden_size, dtype=torch.float32)

    def model(self, hidden):
        for layer in sorted(self.handles):
            output = torch.empty_like(hidden)
            torch.ops.mlac.layer(output, hidden * 0.5, *self.handles[layer])
            hidden = hidden + output
        return hidden

    def test_equals_plan_V4_44(self):
        self.assertEqual(sorted(self.handles), [0, 1, 2, 3])
        for tokens in (1, 30, 1):
            for layer, place in self.handles.items():
                given, output = self.hidden.clone(), torch.full_like(self.hidden, torch.nan)
                torch.ops.mlac.layer(output, given, *place)
                self.assertTrue(torch.equal(output, self.plan.run(self.hidden, layer=layer)))
                self.assertTrue(torch.equal(given, self.hidden))
            self.fill(tokens)

    def test_opcheck_V4_44(self):
        for place in self.handles.values():
            torch.library.opcheck(torch.ops.mlac.layer.default,
                                  (torch.zeros_like(self.hidden), self.hidden, *place))

    def test_fullgraph_V4_44(self):
        """One graph of all kinds, refilled between calls."""
        compiled = torch.compile(self.model, fullgraph=True, backend="aot_eager")
        for tokens in (1, 1, 1):
            torch.testing.assert_close(compiled(self.hidden), self.model(self.hidden))
            self.fill(tokens)

    def test_refusals_V4_44(self):
        """Before anything is written."""
        output = torch.full_like(self.hidden, torch.nan)
        for place, hidden, text in (
                ((self.handles[1][0], 2), self.hidden, "layer 2"),
                (self.handles[0], self.hidden[:3], "hidden: expected rows for the 140 tokens"),
                (self.handles[2], self.hidden.half(), "hidden: expected the package's dtype")):
            with self.subTest(text=text), self.assertRaisesRegex(Exception, text):
                torch.ops.mlac.layer(output, hidden, *place)
        self.assertTrue(output.isnan().all())


class AttentionTest(unittest.TestCase):
    """Attention alone, over a cache that is a tensor."""

    @classmethod
    def setUpClass(cls):
        cls.attention = compile_text(external_caller.ATTENTION)

    def setUp(self):
        self.engine = mlac.Engine(self.attention, mlac.Device("cpu", 1), max_seq_len=64,
                                  external_pools=1, max_num_requests=2)
        self.engine.prepare()
        self.cache = random(PAGES, PAGE, LATENT + ROPE)
        self.engine.bind_pool(self.cache)
        self.plan = self.engine.plan()
        self.handle = mlac.torch.handle(self.plan)
        table = torch.tensor([[2, 0], [1, 3]], dtype=torch.int32)
        lengths = [21, 9]
        self.slots = torch.tensor([0 * PAGE + 3, 0 * PAGE + 4, PAGE + 7, PAGE + 8])
        self.plan.fill_tables([2, 2], lengths, table, self.slots)
        self.inputs = {"q_lat": random(4, N, LATENT), "q_pe": random(4, N, ROPE),
                       "latent": random(4, LATENT), "k_pe": random(4, ROPE)}

    def outputs(self):
        return (torch.zeros(4, N, LATENT, dtype=torch.bfloat16), torch.zeros(4, N))

    def run_op(self, cache, output, lse):
        torch.ops.mlac.attend(output, lse, cache, *self.inputs.values(), self.handle)
        return output, lse

    def run_plan(self):
        output, lse = self.outputs()
        self.plan.run_bound(output=output, lse=lse, **self.inputs)
        return output, lse

    def test_equals_plan(self):
        before = self.cache.clone()
        expected = self.run_plan()
        written, self.cache[:] = self.cache.clone(), before
        for result, other in zip(self.run_op(self.cache, *self.outputs()), expected):
            self.assertTrue(torch.equal(result, other))
        self.assertTrue(torch.equal(self.cache, written))
        self.assertFalse(torch.equal(self.cache, before))

    def test_copy_of_the_cache(self):
        """What torch passes where it keeps the operator free of side effects: the copy is
        written, not the pool, which stays bound."""
        before = self.cache.clone()
        copy = self.cache.clone()
        result = self.run_op(copy, *self.outputs())
        self.assertTrue(torch.equal(self.cache, before))
        self.assertFalse(torch.equal(copy, before))
        for output, expected in zip(result, self.run_plan()):
            self.assertTrue(torch.equal(output, expected))
        self.assertTrue(torch.equal(self.cache, copy))

    def test_opcheck(self):
        torch.library.opcheck(torch.ops.mlac.attend.default,
                              (*self.outputs(), self.cache, *self.inputs.values(), self.handle))

    def test_fullgraph(self):
        def model(cache, q_lat):
            output, lse = self.outputs()
            inputs = {**self.inputs, "q_lat": q_lat * 2}
            torch.ops.mlac.attend(output, lse, cache, *inputs.values(), self.handle)
            return output.float() + lse[:, :, None], cache.sum()

        before = self.cache.clone()
        expected = model(self.cache, self.inputs["q_lat"])
        self.cache[:] = before
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(self.cache, self.inputs["q_lat"]), expected)
        self.assertFalse(torch.equal(self.cache, before))

    def test_other_pools_are_refused(self):
        with self.assertRaisesRegex(Exception, "has 2 pages"):
            self.run_op(self.cache[:2].clone(), *self.outputs())
        self.run_plan()  # the pool is bound as before


class AppendTest(unittest.TestCase):
    """Rows alone, into the pool of a package that only appends."""

    TEXT = f"""
!cache = {external_caller.LATENTS}
!batch = !mla.batch<query_len = ?>
func.func @append(%c: tensor<?x64xbf16> {{mla.input = "rows"}},
    %k_pe: tensor<?x16xbf16> {{mla.input = "k_pe"}}, %batch: !batch, %cache: !cache) -> !cache {{
  %0 = mla.append %c, %k_pe into %cache, %batch
      : tensor<?x64xbf16>, tensor<?x16xbf16> into !cache, !batch
  return %0 : !cache
}}
"""

    def setUp(self):
        engine = mlac.Engine(compile_text(self.TEXT), mlac.Device("cpu", 1), max_seq_len=64,
                             external_pools=1)
        engine.prepare()
        self.cache = torch.zeros(PAGES, PAGE, LATENT + ROPE, dtype=torch.bfloat16)
        engine.bind_pool(self.cache)
        self.plan = engine.plan()
        self.handle = mlac.torch.handle(self.plan, latent="rows")
        self.plan.fill_tables([3], [3], torch.tensor([[1]], dtype=torch.int32),
                              torch.tensor([PAGE, -1, PAGE + 2]))
        self.rows = random(3, LATENT), random(3, ROPE)

    def test_rows(self):
        torch.ops.mlac.append(self.cache, *self.rows, self.handle)
        expected = torch.zeros_like(self.cache)
        for row in (0, 2):
            expected[1, row] = torch.cat([part[row] for part in self.rows])
        self.assertTrue(torch.equal(self.cache, expected))

    def test_opcheck(self):
        torch.library.opcheck(torch.ops.mlac.append.default,
                              (self.cache, *self.rows, self.handle))

    def test_functional(self):
        """A graph that appends and reads sees what it wrote."""
        def model(cache):
            torch.ops.mlac.append(cache, *self.rows, self.handle)
            return cache[1, 2] * 2

        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        self.assertTrue(torch.equal(compiled(self.cache),
                                    torch.cat([part[2] for part in self.rows]) * 2))
        self.assertTrue(torch.equal(self.cache[1, 2], torch.cat([part[2] for part in self.rows])))


if __name__ == "__main__":
    unittest.main()
