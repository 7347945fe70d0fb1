#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares compiled attention of groups of heads with the float64 reference on random cases.

Heads from 1 to 64 in groups of 1 to 64, dims from 8 to 256, those of keys and of values apart,
pages of their own, windows, splits, sinks, capped scores, caches of codes, requests without tokens and of lengths at
page boundaries.
The pools are the caller's: context is written by NumPy, not by the kernels under test, NaN
everywhere else, in workspace and outputs too. Every row that a step leaves is compared, and all
of the pools' bytes. An engine with pools of its own, to which a step before appends the context,
gives the same bits.

    run_grouped.py --compiler build/bin/mla-compile [--layers 24] [--cases 8] [--seed 1]

On a GPU in bf16 and f16; the packages may be built elsewhere (needs torch there):

    run_grouped.py --build DIR --compiler build/bin/mla-compile
    run_grouped.py --gpu DIR
"""

import sys

import numpy as np

import grouped_cases
import random_layers
from random_layers import ALLOWED, ALLOWED_LSE, package_of, poisoned
from narrow_floats import narrow, of_codes, to_codes, widen

from mlac import reference

MAX_REQUESTS, MAX_TOKENS, MAX_KEYS = 5, 96, 300
# On a GPU, whose many multiprocessors take so many queries before prompts have their own kernel:
# 704 of 8 heads.
PROMPT_TOKENS, PROMPT_KEYS = 1600, 2200
# Where every score is to be far below 0: exp of it is less than f32's smallest number, so that a
# maximum over keys that are not there, whose scores are 0, would leave nothing.
LOW_SCORE = -120.0
# Sums are f32: beside an ordinary sink such scores leave exact zeros.
SMALLEST = np.finfo(np.float32).smallest_subnormal


class Pool:
    """Pages of the caller's with the rows of one or two fields, and each request's table."""

    def __init__(self, rng, page, fields, element, case):
        self.page, self.widths = page, [heads * columns for heads, columns in fields]
        self.lengths = [c + q for c, q in zip(case.context, case.query)]
        needed = [length // page + 1 for length in self.lengths]
        self.memory = poisoned((sum(needed) + 3, page * sum(self.widths)), element)
        self.free = list(rng.permutation(len(self.memory)))
        self.columns = max(needed) + 1
        # What lies behind a request's pages is never read.
        self.table = np.full((len(needed), self.columns), 1 << 20, np.int32)
        for request, length in enumerate(self.lengths):
            for entry in range(-(-length // page)):
                self.table[request, entry] = self.free.pop()

    def array(self):
        """As the engine takes it: a row has the fields beside each other."""
        return self.memory.reshape(len(self.memory), self.page, sum(self.widths))

    def row(self, memory, request, position, field):
        page = memory[self.table[request, position // self.page]]
        start = self.page * sum(self.widths[:field])
        rows = page[start:start + self.page * self.widths[field]].reshape(self.page, -1)
        return rows[position % self.page]

    def slots(self, case):
        return np.array([self.table[r, p // self.page] * self.page + p % self.page
                         for r, (c, q) in enumerate(zip(case.context, case.query))
                         for p in range(c, c + q)], np.int64)


class Runner:
    def __init__(self, layer, package, machine):
        import mlac

        self.layer, self.machine = layer, machine
        self.has_prompts = machine.target != "cpu"
        tokens, keys = (PROMPT_TOKENS, PROMPT_KEYS) if self.has_prompts else (MAX_TOKENS, MAX_KEYS)
        self.package = mlac.Package(str(package))
        self.engine = mlac.Engine(
            self.package, machine.device, max_num_requests=MAX_REQUESTS,
            max_seq_len=keys + tokens, max_num_tokens=tokens,
            external_pools=3 if layer.value_page else 1)
        self.set_scales(self.engine)
        self.engine.prepare()
        self.plan = self.engine.plan()
        self.own = mlac.Engine(
            self.package, machine.device, max_num_requests=MAX_REQUESTS,
            max_seq_len=keys + tokens, max_num_tokens=MAX_REQUESTS * keys)
        self.set_scales(self.own)
        self.own.prepare()

    def set_scales(self, engine):
        """Those of the layer's codes."""
        if self.layer.scales:
            engine.set_cache_scale(self.layer.scales)

    def store(self, rows, field):
        """Rows as the pool holds them."""
        return to_codes(widen(rows), self.layer.scales[field]) if self.layer.scales else rows

    def read(self, rows, field):
        """The numbers of stored rows as attention reads them."""
        stored = self.store(rows, field)
        if self.layer.scales:
            stored = of_codes(stored, self.layer.scales[field], self.layer.element)
        return widen(stored)

    def make_sink(self, rng):
        """A third each is none, beside which there is nothing else, and a usual one."""
        sink = rng.standard_normal(self.layer.heads).astype(np.float32)
        third = rng.integers(0, 3, self.layer.heads)
        sink[third == 1], sink[third == 2] = -np.inf, np.inf
        return sink if self.layer.has_sink else None

    def make_rows(self, rng, case):
        """New and cached rows of every request, and the queries."""
        layer = self.layer
        shapes = ((layer.kv_heads, layer.key_dim), (layer.kv_heads, layer.value_dim))
        lengths = [c + q for c, q in zip(case.context, case.query)]
        rows = [[rng.standard_normal((length, *shape)) for length in lengths] for shape in shapes]
        query = rng.standard_normal((sum(case.query), layer.heads, layer.key_dim))
        if case.are_scores_low:
            size = (-LOW_SCORE / (layer.scale * layer.key_dim)) ** 0.5
            query = size + 0.01 * query
            rows[0] = [-size + 0.01 * keys for keys in rows[0]]
        store = lambda x: narrow(x, layer.element)
        return store(query), [[store(x) for x in part] for part in rows]

    def make_pools(self, rng, case, stored):
        layer = self.layer
        fields = [(layer.kv_heads, layer.key_dim), (layer.kv_heads, layer.value_dim)]
        element = "e4m3" if layer.scales else layer.element
        if layer.value_page:
            pools = [Pool(rng, page, [field], element, case)
                     for page, field in zip((layer.key_page, layer.value_page), fields)]
        else:
            pools = [Pool(rng, layer.key_page, fields, element, case)]
        places = [(pools[0], 0), (pools[-1], 0 if layer.value_page else 1)]
        for (pool, field), part in zip(places, stored):
            for request, context in enumerate(case.context):
                for position in range(context):
                    pool.row(pool.memory, request, position, field)[:] = \
                        part[request][position].reshape(-1)
        return pools, places

    def run(self, rng, case):
        """The worst errors of output and LSE, relative to what is allowed."""
        layer = self.layer
        query, rows = self.make_rows(rng, case)
        self.sink = self.make_sink(rng)
        stored = [[self.store(part, field) for part in parts] for field, parts in enumerate(rows)]
        pools, places = self.make_pools(rng, case, stored)
        expected = [pool.memory.copy() for pool in pools]
        new = [np.concatenate([part[r][c:] for r, c in enumerate(case.context)]) for part in rows]
        for (pool, field), part in zip(places, stored):
            memory = expected[pools.index(pool)]
            for request, context in enumerate(case.context):
                for position in range(context, len(part[request])):
                    pool.row(memory, request, position, field)[:] = \
                        part[request][position].reshape(-1)
        memories = [self.machine.put(pool.array()) for pool in pools]
        for index, memory in enumerate(memories):
            self.engine.bind_pool(memory, index=index)
        self.engine.poison_workspace()
        more = [(pool.table, pool.slots(case)) for pool in pools[1:]]
        self.plan.fill_tables(case.query, pools[0].lengths, pools[0].table, pools[0].slots(case),
                              case.function, pools=more)
        output, lse = self.run_plan(self.plan, query, new)
        for memory, wanted in zip(memories, expected):
            if self.machine.get(memory).tobytes() != wanted.tobytes():
                return np.inf, np.inf
        if self.run_own(case, query, rows) != (output.tobytes(), lse.tobytes()):
            return np.inf, np.inf
        return self.compare(case, query, rows, output, lse)

    def run_plan(self, plan, query, new):
        """Output and LSE of a filled plan, for queries and new rows."""
        output = poisoned((len(query), self.layer.heads, self.layer.value_dim), self.layer.element)
        lse = poisoned((len(query), self.layer.heads), "f32")
        buffers = dict(query=query, key=new[0], value=new[1], output=output, lse=lse)
        if self.layer.has_sink:
            buffers["sink"] = self.sink
        buffers = {name: self.machine.put(buffer) for name, buffer in buffers.items()}
        plan.run_bound(**buffers)
        return self.machine.get(buffers["output"]), self.machine.get(buffers["lse"])

    def run_own(self, case, query, rows):
        """The same with sequences of an engine that has the pools; bytes of output and LSE."""
        self.own.poison_cache()
        sequences = [self.own.sequence() for _ in case.query]
        plan = self.own.plan()
        for function, starts, counts in (("mixed", [0] * len(sequences), case.context),
                                         (case.function, case.context, case.query)):
            new = [np.concatenate([part[r][s:s + c] for r, (s, c) in
                                   enumerate(zip(starts, counts))]) for part in rows]
            tokens = len(new[0])
            if tokens == 0:
                continue
            queries = query if counts is case.query else query[np.zeros(tokens, np.int64)]
            self.own.poison_workspace()
            plan.fill(sequences, counts, function)
            output, lse = self.run_plan(plan, queries, new)
        for sequence in sequences:
            sequence.free()
        return output.tobytes(), lse.tobytes()

    def compare(self, case, query, rows, output, lse):
        first, worst = 0, [0.0, 0.0]
        for request, count in enumerate(case.query):
            own = slice(first, first + count)
            first += count
            if count == 0:
                continue
            expected, expected_lse = reference.grouped_attention(
                widen(query[own]), *(self.read(part[request], field)
                                     for field, part in enumerate(rows)),
                self.layer.scale, self.layer.window, self.layer.softcap, self.sink)
            got = widen(output[own])
            expected[np.abs(expected) < SMALLEST] = 0
            # All sinks may be infinite, or all scores low beside them: then nothing but zeros is right.
            error = reference.relative_error(got, expected) if expected.any() \
                else (0.0 if np.array_equal(got, expected) else np.inf)
            # Sinks stay finite, so that merges can tell them from nothing.
            got = np.where(lse[own] > reference.LARGEST_LSE, np.inf, lse[own])
            off = np.zeros(got.shape)
            np.subtract(got, expected_lse, where=got != expected_lse, out=off)
            off = np.abs(off) / np.maximum(1, np.abs(expected_lse))
            allowed = ALLOWED[self.layer.element]
            if case.are_scores_low:
                # A score is rounded a few times, and its exponential is off by as much.
                allowed = max(allowed, -LOW_SCORE * 2.0 ** -22)
            for index, value in enumerate((error / allowed, off.max() / ALLOWED_LSE)):
                worst[index] = max(worst[index], np.inf if np.isnan(value) else float(value))
        return worst


def run_layer(job):
    layer, directory, machine, seed, cases = job
    rng = np.random.default_rng((seed, layer.index))
    runner = Runner(layer, package_of(layer, directory), machine(int(rng.choice((1, 2, 5)))))
    results = []
    for index in range(cases):
        if runner.has_prompts and index % 4 == 2:
            case = grouped_cases.prompt_case(rng, layer.key_page, PROMPT_TOKENS, PROMPT_KEYS)
        else:
            case = grouped_cases.case(rng, layer, index, MAX_REQUESTS, MAX_TOKENS, MAX_KEYS)
        results.append((case, runner.run(rng, case)))
    return layer, results


def make_layers(rng, count, machine):
    # f32 twice as often as the others, where there is any.
    elements = grouped_cases.ELEMENTS if "f32" in machine.elements else machine.elements
    return grouped_cases.layers(rng, count, elements)


if __name__ == "__main__":
    sys.exit(random_layers.main(__doc__, make_layers, run_layer, layers=24, cases=8))
