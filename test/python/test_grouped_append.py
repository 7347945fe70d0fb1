# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Queries and keys of groups of heads rotated, keys and values appended, in one kernel
(paged-cache.md sections 9 and 10), against float64: parts of the channels, both orders of pairs,
both forms of tables, one pool and two, slots that are not written, caches of codes. With MLAC_TEST_DEVICE=cuda and
torch on a GPU."""

import dataclasses
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import numpy as np

import mlac
from mlac import reference

from attention_steps import rotate_halves, rotate_neighbours
from narrow_floats import narrow, widen
from random_layers import Cpu, Gpu

COMPILE = os.environ["MLAC_COMPILE"]
MACHINE = {"cpu": Cpu, "cuda": Gpu}[os.environ.get("MLAC_TEST_DEVICE", "cpu")]
LENGTH, PAGES = 64, 9
# Of rotated numbers of about 1: two products and a sum, rounded once.
ALLOWED = {"f32": 1e-6, "f16": 2e-3, "bf16": 1.6e-2}


@dataclasses.dataclass
class Case:
    heads: int
    kv_heads: int
    dim: int
    value_dim: int
    offset: int
    rope_dim: int
    order: str
    element: str
    page: int
    value_page: int  # 0: one pool
    table: str  # element type of pairs, or empty: cosines before sines
    scales: tuple = ()  # of keys and values that are stored as codes

    def table_type(self):
        return f"tensor<{LENGTH}x{self.rope_dim // 2}x2x{self.table}>" if self.table else \
            f"tensor<{LENGTH}x{self.rope_dim}xf32>"

    def module(self):
        """What the pass makes one operation of."""
        e, nkv = self.element, self.kv_heads
        query, key, value = (f"tensor<?x{h}x{d}x{e}>" for h, d in (
            (self.heads, self.dim), (nkv, self.dim), (nkv, self.value_dim)))
        fields = [f"key: {nkv}x{self.dim}", f"value: {nkv}x{self.value_dim}"]
        codes = "_fp8" if self.scales else ""
        cache = (f"!mla.cache<page_size = {{}}, fields = [{{}}], element = {e}, "
                 f"format = \"{{}}{codes}\">")
        rope = (f"<order = {self.order}, dim = {self.rope_dim}, theta = 1.0e4, length = {LENGTH}> "
                f"offset {self.offset}")
        if self.value_page:
            types = {"keys": cache.format(self.page, fields[0], "k_nhd"),
                     "vals": cache.format(self.value_page, fields[1], "v_nhd")}
            append = ("%1 = mla.append %rk into %keys, %b : !key into !keys, !b\n"
                      "  %2 = mla.append %v into %vals, %b : !value into !vals, !b\n"
                      "  return {query}%1, %2 : {query_type}!keys, !vals")
        else:
            types = {"keys": cache.format(self.page, ", ".join(fields), "kv_nhd")}
            append = ("%1 = mla.append %rk, %v into %keys, %b : !key, !value into !keys, !b\n"
                      "  return {query}%1 : {query_type}!keys")
        more = ', %vals: !vals {mla.pool = "vals"}' if self.value_page else ""
        types.update(query=query, key=key, value=value, b="!mla.batch<query_len = ?>",
                     table=self.table_type())
        pools = f"!keys{', !vals' if more else ''}"
        # Without queries there is nothing to fuse.
        alone = append.format(query="", query_type="")
        apart = "" if not self.scales else f"""
func.func @apart(%k: !key {{mla.input = "k"}}, %v: !value {{mla.input = "v"}},
    %t: !table {{mla.input = "table"}}, %b: !b, %keys: !keys{more}) -> ({pools}) {{
  %rk = mla.rope %k, %t, %b with {rope} : !key, !table, !b
  {alone}
}}
"""
        append = append.format(query="%rq, ", query_type="!query, ")
        return "\n".join([*(f"!{name} = {text}" for name, text in types.items()), f"""
func.func @step(%q: !query {{mla.input = "q"}}, %k: !key {{mla.input = "k"}},
    %v: !value {{mla.input = "v"}}, %t: !table {{mla.input = "table"}}, %b: !b,
    %keys: !keys{more}) -> (!query {{mla.output = "rotated"}}, {pools}) {{
  %rq = mla.rope %q, %t, %b with {rope} : !query, !table, !b
  %rk = mla.rope %k, %t, %b with {rope} : !key, !table, !b
  {append}
}}
{apart}"""])

    def expected(self, rows, positions, cos, sin):
        rows = widen(rows)
        own = slice(self.offset, self.offset + self.rope_dim)
        turned = rotate_neighbours(rows[..., own], positions, cos, sin) \
            if self.order == "interleaved" else \
            rotate_halves(rows[..., own], positions, np.stack([cos, sin], -1))
        rows[..., own] = turned
        return rows


CASES = (
    Case(8, 2, 64, 64, 0, 64, "half", "f32", 4, 0, ""),
    Case(8, 2, 64, 32, 0, 64, "half", "bf16", 16, 4, "f16"),
    Case(6, 2, 48, 40, 16, 24, "interleaved", "f32", 4, 8, "f32"),
    Case(5, 1, 40, 24, 8, 32, "half", "f16", 1, 0, "f16"),
    Case(12, 4, 24, 24, 0, 8, "interleaved", "bf16", 4, 0, ""),
    # More tiles of queries than of keys.
    Case(72, 2, 32, 16, 8, 16, "half", "bf16", 4, 0, ""),
    # Of many tokens heads are folded, and more tiles are of queries than of keys.
    Case(40, 3, 144, 80, 8, 128, "interleaved", "bf16", 16, 0, ""),
)
# Enough tokens for programs of as many pairs as they hold, on a GPU.
MANY = (LENGTH,) * 17
# Rows that are rounded, divided and rounded again: whatever a quotient is, above 448 among them.
CODES = (
    Case(8, 2, 64, 64, 0, 64, "half", "bf16", 16, 0, "", (0.03125, 0.013)),
    Case(6, 2, 48, 40, 16, 24, "interleaved", "f32", 4, 0, "f32", (0.005, 1.0)),
    Case(5, 1, 48, 32, 8, 32, "half", "f16", 1, 0, "f16", (0.013, 0.0625)),
)


class GroupedAppendTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.packages = [cls.compile(case) for case in CASES]
        cls.codes = [cls.compile(case) for case in CODES]

    @staticmethod
    def compile(case):
        with tempfile.TemporaryDirectory() as folder:
            module = pathlib.Path(folder) / "append.mlir"
            module.write_text(case.module())
            package = module.with_suffix(".mlac")
            subprocess.run([COMPILE, module, "--quiet", f"--target={MACHINE.target}", "-o",
                            package], check=True)
            return mlac.Package(package.read_bytes())

    def run_step(self, case, package, rng, lengths, cached, pages=PAGES):
        kernels = [kernel["name"] for kernel in package.info["targets"][0]["kernels"]]
        name = f"rope_{case.rope_dim}_append"
        self.assertIn(kernels, ([name], [name, f"{name}_many"]))
        pools = 1 + bool(case.value_page)
        machine = MACHINE(2)
        engine = mlac.Engine(package, machine.device, max_num_requests=len(lengths),
                             max_num_tokens=sum(lengths), max_seq_len=LENGTH,
                             external_pools=(1 << pools) - 1)
        engine.prepare()
        draw = lambda *shape: narrow(rng.standard_normal(shape), case.element)
        tokens = sum(lengths)
        q, k, v = draw(tokens, case.heads, case.dim), draw(tokens, case.kv_heads, case.dim), \
            draw(tokens, case.kv_heads, case.value_dim)
        phi = rng.uniform(-np.pi, np.pi, (LENGTH, case.rope_dim // 2))
        table = narrow(np.stack([np.cos(phi), np.sin(phi)], -1), case.table or "f32")
        cos, sin = np.moveaxis(widen(table), -1, 0)
        if not case.table:
            table = np.concatenate([cos, sin], 1).astype(np.float32)
        widths = [case.kv_heads * case.dim, case.kv_heads * case.value_dim]
        memories = [narrow(np.full((pages, page, width), np.nan), case.element)
                    for page, width in zip(
            (case.page, case.value_page), widths if case.value_page else [sum(widths)])]
        # Any slots, of which some are not written.
        slots = [rng.permutation(memory.shape[0] * memory.shape[1])[:tokens].astype(np.int64)
                 for memory in memories]
        for own in slots:
            own[0], own[3:4] = -1, -7
        memories = [machine.put(memory) for memory in memories]
        for index, memory in enumerate(memories):
            engine.bind_pool(memory, index=index)
        blocks = np.zeros((len(lengths), LENGTH), np.int32)
        plan, rotated = engine.plan(), machine.put(narrow(np.full(q.shape, np.nan), case.element))
        ends = [c + n for c, n in zip(cached, lengths)]
        plan.fill_tables(lengths, ends, blocks, slots[0], "step",
                         pools=[(blocks, own) for own in slots[1:]])
        inputs = {"q": q, "k": k, "v": v, "table": table}
        plan.run_bound(rotated=rotated, **{name: machine.put(x) for name, x in inputs.items()})
        positions = np.concatenate([np.arange(c, e) for c, e in zip(cached, ends)]).astype(int)
        self.compare(case, widen(machine.get(rotated)), case.expected(q, positions, cos, sin))
        keys = case.expected(k, positions, cos, sin)
        self.check_pools(case, [machine.get(memory) for memory in memories], slots, keys, v)

    def test_codes_are_those_of_a_rotation_and_an_append_apart(self):
        rng = np.random.default_rng()
        for case, package in zip(CODES, self.codes):
            with self.subTest(case=case):
                self.run_codes(case, package, rng)

    def run_codes(self, case, package, rng):
        """Both functions leave the same bytes, which stand for what was rotated."""
        lengths, cached, machine = (5, 0, 2), (0, 7, 59), MACHINE(2)
        tokens = sum(lengths)
        draw = lambda *shape: narrow(rng.standard_normal(shape), case.element)
        inputs = {"q": draw(tokens, case.heads, case.dim),
                  "k": draw(tokens, case.kv_heads, case.dim),
                  "v": draw(tokens, case.kv_heads, case.value_dim)}
        phi = rng.uniform(-np.pi, np.pi, (LENGTH, case.rope_dim // 2))
        table = narrow(np.stack([np.cos(phi), np.sin(phi)], -1), case.table or "f32")
        cos, sin = np.moveaxis(widen(table), -1, 0)
        inputs["table"] = table if case.table else np.concatenate([cos, sin], 1).astype(np.float32)
        shape = (PAGES, case.page, case.kv_heads * (case.dim + case.value_dim))
        slots = rng.permutation(PAGES * case.page)[:tokens].astype(np.int64)
        slots[3] = -1
        ends = [c + n for c, n in zip(cached, lengths)]
        blocks = np.zeros((len(lengths), LENGTH), np.int32)
        left = []
        for function in ("step", "apart"):
            engine = mlac.Engine(package, machine.device, max_num_requests=len(lengths),
                                 max_num_tokens=tokens, max_seq_len=LENGTH,
                                 external_pools=1)
            engine.set_cache_scale(case.scales)
            engine.prepare()
            memory = machine.put(np.full(shape, 0xFF, np.uint8))
            engine.bind_pool(memory)
            plan = engine.plan()
            plan.fill_tables(lengths, ends, blocks, slots, function)
            bound = {name: machine.put(x) for name, x in inputs.items()
                     if function == "step" or name != "q"}
            if function == "step":
                bound["rotated"] = machine.put(narrow(np.full(inputs["q"].shape, np.nan),
                                                      case.element))
            plan.run_bound(**bound)
            left.append(machine.get(memory))
        np.testing.assert_array_equal(*left, err_msg=str(case))
        positions = np.concatenate([np.arange(c, e) for c, e in zip(cached, ends)]).astype(int)
        self.check_codes(case, left[0], slots, case.expected(inputs["k"], positions, cos, sin),
                         widen(inputs["v"]))

    def check_codes(self, case, memory, slots, keys, values):
        """Within half an ulp of e4m3 and what the rotation is off by; nothing else is written."""
        width = case.kv_heads * case.dim
        flat, written = memory.reshape(len(memory), -1), slots >= 0
        parts = flat[:, :case.page * width], flat[:, case.page * width:]
        for part, rows, scale in zip(parts, (keys, values), case.scales):
            got = part.reshape(PAGES * case.page, -1)
            new = reference.e4m3_values()[got[slots[written]]].reshape(-1, *rows.shape[1:]) * scale
            wanted = np.clip(rows[written], -448 * scale, 448 * scale)
            off = np.abs(new - wanted)
            self.assertTrue((off <= np.abs(wanted) / 16 + scale * 2.0 ** -10 +
                             ALLOWED[case.element] * 2).all(), (case, off.max()))
            self.assertTrue((np.delete(got, slots[written], 0) == 0xFF).all(), case)

    def compare(self, case, got, expected):
        np.testing.assert_allclose(got, expected, rtol=0, atol=ALLOWED[case.element] *
                                   max(1.0, np.abs(expected).max() / 2), err_msg=str(case))

    def check_pools(self, case, memories, slots, keys, values):
        """Rows of one pool: keys of all of a page's tokens, then values."""
        width = case.kv_heads * case.dim
        flat = [memory.reshape(len(memory), -1) for memory in memories]
        parts = [flat[0][:, :case.page * width], flat[0][:, case.page * width:]]
        if case.value_page:
            parts = flat
        pages = (case.page, case.value_page or case.page)
        for part, own, page, rows, is_exact in zip(parts, (slots[0], slots[-1]), pages,
                                                   (keys, values), (False, True)):
            got = part.reshape(len(memories[0]) * page, -1)
            written = own >= 0
            new = got[own[written]].reshape(-1, *rows.shape[1:])
            if is_exact:
                np.testing.assert_array_equal(new, rows[written], err_msg=str(case))
            else:
                self.compare(case, widen(new), rows[written])
            rest = np.delete(got, own[written], 0)
            self.assertTrue(np.isnan(widen(rest)).all(), case)

    def test_D13_D14_D15_against_float64(self):
        rng = np.random.default_rng()
        for case, package in zip(CASES, self.packages):
            with self.subTest(case=case):
                self.run_step(case, package, rng, (5, 0, 1), (0, 7, 59))
                self.run_step(case, package, rng, (1, 1), (63, 0))
                if MACHINE is Gpu:
                    self.run_step(case, package, rng, MANY, (0,) * len(MANY), pages=sum(MANY))


class SimulatorTest(unittest.TestCase):
    """The kernels for a GPU, without one."""

    def test_D13_no_defect_and_the_bits_of_the_cpu(self):
        for case in (*CASES, CODES[0]):
            with self.subTest(case=case), tempfile.TemporaryDirectory() as folder:
                module = pathlib.Path(folder) / "append.mlir"
                module.write_text(case.module())
                done = subprocess.run(
                    [COMPILE, module, "--quiet", "--target=sm_90a", "--simulate-step=2:20:3",
                     f"--simulate=rope_{case.rope_dim}_append"], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("no defect, and the same bits under 2 orders", done.stdout)
                errors = re.findall("relative error (\\S+) of", done.stdout)
                self.assertEqual(set(errors), {"0.00e+00"})
                self.assertEqual(len(errors), 2 + bool(case.value_page))


if __name__ == "__main__":
    unittest.main()
