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

On a GPU in bf16 and f16; the packages may be built elsewhere (needs torch there):

    run_grouped.py --build DIR --compiler build/bin/mla-compile
    run_grouped.py --gpu DIR
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
PROCESSES = 2


class Cpu:
    """NumPy's memory."""

    elements = grouped_cases.ELEMENTS
    target = "cpu"

    def __init__(self, threads):
        import mlac

        self.device = mlac.Device("cpu", threads=threads)

    def put(self, array):
        return array

    def get(self, buffer):
        return buffer


class Gpu:
    """torch's; bf16 is moved as its bits."""

    elements = ("bf16", "f16")
    target = "sm_90a"

    def __init__(self, _):
        import mlac
        import torch

        self.torch = torch
        self.device = mlac.Device("cuda")

    def put(self, array):
        if array.dtype != np.uint16:
            return self.torch.from_numpy(array).cuda()
        bits = self.torch.from_numpy(array.view(np.int16)).cuda()
        return bits.view(self.torch.bfloat16)

    def get(self, buffer):
        self.torch.cuda.synchronize()
        if buffer.dtype != self.torch.bfloat16:
            return buffer.cpu().numpy()
        return buffer.view(self.torch.int16).cpu().numpy().view(np.uint16)


def package_of(layer, directory):
    return pathlib.Path(directory) / f"{layer.index}.mlac"


def compile_layer(job):
    compiler, layer, target, directory = job
    package = package_of(layer, directory)
    module = package.with_suffix(".mlir")
    module.write_text(layer.module())
    done = subprocess.run([compiler, module, *layer.options(target), "--quiet", "-o", package],
                          capture_output=True, text=True)
    return layer, done.stderr if done.returncode else None


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
    def __init__(self, layer, package, machine):
        import mlac

        self.layer, self.machine = layer, machine
        self.package = mlac.Package(str(package))
        self.engine = mlac.Engine(
            self.package, machine.device, max_num_requests=MAX_REQUESTS,
            max_seq_len=MAX_KEYS + MAX_TOKENS, max_num_tokens=MAX_TOKENS,
            external_pools=3 if layer.value_page else 1)
        self.engine.prepare()
        self.plan = self.engine.plan()
        self.own = mlac.Engine(
            self.package, machine.device, max_num_requests=MAX_REQUESTS,
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
    layer, directory, machine, seed, cases = job
    rng = np.random.default_rng((seed, layer.index))
    runner = Runner(layer, package_of(layer, directory), machine(int(rng.choice((1, 2, 5)))))
    results = []
    for index in range(cases):
        case = grouped_cases.case(rng, layer, index, MAX_REQUESTS, MAX_TOKENS, MAX_KEYS)
        results.append((case, runner.run(rng, case)))
    return layer, results


def compile_layers(processes, compiler, layers, target, directory):
    """The layers that compiled."""
    compiled = []
    for layer, error in processes.imap_unordered(
            compile_layer, [(compiler, layer, target, directory) for layer in layers]):
        if error:
            print(f"{layer.name()}: {error}")
        else:
            compiled.append(layer)
    return compiled


def run_layers(processes, layers, directory, machine, args):
    """Runs all cases; how many there were, how many failed."""
    count, failed, worst = 0, 0, [0.0, 0.0]
    jobs = [(layer, directory, machine, args.seed, args.cases) for layer in layers]
    for layer, results in processes.imap_unordered(run_layer, jobs):
        for index, (case, errors) in enumerate(results):
            count += 1
            worst = [max(a, b) for a, b in zip(worst, errors)]
            if max(errors) > 1:
                failed += 1
                print(f"{layer.name()}, case {index}: {case}: {errors[0]:.3g} of what outputs "
                      f"may be off, {errors[1]:.3g} of what LSEs may")
    print(f"worst {worst[0]:.2f} and {worst[1]:.2f} of what is allowed")
    return count, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compiler")
    parser.add_argument("--build", type=pathlib.Path, help="only build packages for --gpu there")
    parser.add_argument("--gpu", type=pathlib.Path, help="folder with packages of --build")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--cases", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the index of one layer")
    args = parser.parse_args()
    started = time.time()
    machine = Gpu if args.build or args.gpu else Cpu
    layers = list(grouped_cases.layers(np.random.default_rng(args.seed), args.layers,
                                       machine.elements))
    if args.only is not None:
        layers = [layers[args.only]]
    compiled, count, failed = layers, 0, 0
    with tempfile.TemporaryDirectory() as scratch, \
            multiprocessing.get_context("spawn").Pool(PROCESSES) as processes:
        directory = args.build or args.gpu or scratch
        if not args.gpu:
            pathlib.Path(directory).mkdir(parents=True, exist_ok=True)
            compiled = compile_layers(processes, args.compiler, layers, machine.target, directory)
        if not args.build:
            count, failed = run_layers(processes, compiled, directory, machine, args)
    failed += len(layers) - len(compiled)
    print(f"{count} cases of {len(layers)} layers in {time.time() - started:.1f} s, "
          f"{failed} failed")
    return 1 if failed or not (count or args.build) else 0


if __name__ == "__main__":
    sys.exit(main())
