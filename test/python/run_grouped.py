#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares compiled attention of groups of heads with the float64 reference on random cases.

Heads from 1 to 64 in groups of 1 to 64, dims from 8 to 256, those of keys and of values apart,
pages of their own, windows, splits, requests without tokens and of lengths at page boundaries.
The pools are the caller's: context is written by NumPy, not by the kernels under test, NaN
everywhere else, in workspace and outputs too. Every row that a step leaves is compared, and all
of the pools' bytes. An engine with pools of its own, to which a step before appends the context,
gives the same bits.

    run_grouped.py --compiler build/bin/mla-compile [--layers 24] [--cases 8] [--seed 1]
"""

import argparse
import multiprocessing
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))

from mlac import reference  # noqa: E402

import grouped_cases  # noqa: E402
from narrow_floats import narrow, widen  # noqa: E402

# Of outputs, against float64 over the same stored numbers: f32 sums (mla.md section 14), or
# weights and results rounded to 8 or 11 bits.
ALLOWED = {"f32": 1e-5, "bf16": 8e-3, "f16": 1e-3}
# Of an LSE, absolutely, relative to its size where that is above 1: scores are f32 sums.
ALLOWED_LSE = 2e-5
MAX_REQUESTS, MAX_TOKENS, MAX_KEYS = 5, 96, 300
# Where every score is to be far below 0: exp of it is less than f32's smallest number, so that a
# maximum over keys that are not there, whose scores are 0, would leave nothing.
LOW_SCORE = -120.0


def compile_layer(job):
    compiler, layer, directory = job
    module = pathlib.Path(directory) / f"{layer.index}.mlir"
    package = module.with_suffix(".mlac")
    module.write_text(layer.module())
    done = subprocess.run([compiler, module, *layer.options(), "--quiet", "-o", package],
                          capture_output=True, text=True)
    return layer, package, done.stderr if done.returncode else None


def poisoned(shape, element):
    array = np.empty(shape, {"f32": np.float32, "f16": np.float16, "bf16": np.uint16}[element])
    array.view(np.uint8)[...] = 0xFF  # all bits set is a NaN in every type
    return array


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
    def __init__(self, layer, package, threads):
        import mlac

        self.layer = layer
        self.package = mlac.Package(str(package))
        self.engine = mlac.Engine(
            self.package, mlac.Device("cpu", threads=threads), max_num_requests=MAX_REQUESTS,
            max_seq_len=MAX_KEYS + MAX_TOKENS, max_num_tokens=MAX_TOKENS,
            external_pools=3 if layer.value_page else 1)
        self.engine.prepare()
        self.plan = self.engine.plan()
        self.own = mlac.Engine(
            self.package, mlac.Device("cpu", threads=threads), max_num_requests=MAX_REQUESTS,
            max_seq_len=MAX_KEYS + MAX_TOKENS, max_num_tokens=MAX_REQUESTS * MAX_KEYS)
        self.own.prepare()

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

    def make_pools(self, rng, case, rows):
        layer = self.layer
        fields = [(layer.kv_heads, layer.key_dim), (layer.kv_heads, layer.value_dim)]
        if layer.value_page:
            pools = [Pool(rng, page, [field], layer.element, case)
                     for page, field in zip((layer.key_page, layer.value_page), fields)]
        else:
            pools = [Pool(rng, layer.key_page, fields, layer.element, case)]
        places = [(pools[0], 0), (pools[-1], 0 if layer.value_page else 1)]
        for (pool, field), part in zip(places, rows):
            for request, context in enumerate(case.context):
                for position in range(context):
                    pool.row(pool.memory, request, position, field)[:] = \
                        part[request][position].reshape(-1)
        return pools, places

    def run(self, rng, case):
        """The worst errors of output and LSE, relative to what is allowed."""
        layer = self.layer
        query, rows = self.make_rows(rng, case)
        pools, places = self.make_pools(rng, case, rows)
        expected = [pool.memory.copy() for pool in pools]
        new = [np.concatenate([part[r][c:] for r, c in enumerate(case.context)]) for part in rows]
        for (pool, field), part in zip(places, rows):
            memory = expected[pools.index(pool)]
            for request, context in enumerate(case.context):
                for position in range(context, len(part[request])):
                    pool.row(memory, request, position, field)[:] = \
                        part[request][position].reshape(-1)
        for index, pool in enumerate(pools):
            self.engine.bind_pool(pool.array(), index=index)
        self.engine.poison_workspace()
        more = [(pool.table, pool.slots(case)) for pool in pools[1:]]
        self.plan.fill_tables(case.query, pools[0].lengths, pools[0].table, pools[0].slots(case),
                              case.function, pools=more)
        tokens = len(query)
        output = poisoned((tokens, layer.heads, layer.value_dim), layer.element)
        lse = poisoned((tokens, layer.heads), "f32")
        self.plan.run_bound(query=query, key=new[0], value=new[1], output=output, lse=lse)
        for pool, memory in zip(pools, expected):
            if pool.memory.tobytes() != memory.tobytes():
                return np.inf, np.inf
        if self.run_own(case, query, rows) != (output.tobytes(), lse.tobytes()):
            return np.inf, np.inf
        return self.compare(case, query, rows, output, lse)

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
            output = poisoned((tokens, self.layer.heads, self.layer.value_dim), self.layer.element)
            lse = poisoned((tokens, self.layer.heads), "f32")
            self.own.poison_workspace()
            plan.fill(sequences, counts, function)
            plan.run_bound(query=queries, key=new[0], value=new[1], output=output, lse=lse)
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
                widen(query[own]), *(widen(part[request]) for part in rows),
                self.layer.scale, self.layer.window)
            error = reference.relative_error(widen(output[own]), expected)
            off = np.abs(lse[own] - expected_lse) / np.maximum(1, np.abs(expected_lse))
            allowed = ALLOWED[self.layer.element]
            if case.are_scores_low:
                # A score is rounded a few times, and its exponential is off by as much.
                allowed = max(allowed, -LOW_SCORE * 2.0 ** -22)
            for index, value in enumerate((error / allowed, off.max() / ALLOWED_LSE)):
                worst[index] = max(worst[index], np.inf if np.isnan(value) else float(value))
        return worst


def run_layer(job):
    layer, package, seed, cases = job
    rng = np.random.default_rng((seed, layer.index))
    runner = Runner(layer, package, threads=int(rng.choice((1, 2, 5))))
    results = []
    for index in range(cases):
        case = grouped_cases.case(rng, layer, index, MAX_REQUESTS, MAX_TOKENS, MAX_KEYS)
        results.append((case, runner.run(rng, case)))
    return layer, results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--cases", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the index of one layer")
    args = parser.parse_args()
    started = time.time()
    all_layers = list(grouped_cases.layers(np.random.default_rng(args.seed), args.layers))
    if args.only is not None:
        all_layers = [all_layers[args.only]]
    failed, count, worst = 0, 0, [0.0, 0.0]
    with tempfile.TemporaryDirectory() as folder, multiprocessing.Pool(2) as processes:
        jobs = []
        for layer, package, error in processes.imap_unordered(
                compile_layer, [(args.compiler, layer, folder) for layer in all_layers]):
            if error:
                print(f"{layer.name()}: {error}")
                failed += 1
            else:
                jobs.append((layer, package, args.seed, args.cases))
        for layer, results in processes.imap_unordered(run_layer, jobs):
            for index, (case, errors) in enumerate(results):
                count += 1
                worst = [max(a, b) for a, b in zip(worst, errors)]
                if max(errors) > 1:
                    failed += 1
                    print(f"{layer.name()}, case {index}: {case}: {errors[0]:.3g} of what outputs "
                          f"may be off, {errors[1]:.3g} of what LSEs may")
    print(f"{count} cases of {len(all_layers)} layers in {time.time() - started:.1f} s: worst "
          f"{worst[0]:.2f} and {worst[1]:.2f} of what is allowed, {failed} failed")
    return 1 if failed or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
