# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mlac's packages, FlashAttention-3 and the read stream by turns, cool and sustained."""

import math
import statistics

import numpy as np
import torch

from decode import ceilings, turns, vllm_ops
import mlac

# Sets of pages in turn, so that none is read from the L2 cache (50 MB): so many, and until this much
# is read, as far as memory goes.
SETS, MOST_SETS, COLD_BYTES, MOST_BYTES = 8, 64, 480 << 20, 16 << 30
# The worst relative error of bf16 outputs: weights and results of 8 bits.
ALLOWED = 8e-3
# Of codes of keys and of values; powers of two, so that what they stand for is exact in bf16.
SCALES = (0.5, 2.0)
# FlashAttention-3's pieces of a request: its heuristic, none, and vLLM's setting in graphs.
FA3_SPLITS = (0, 1, 32)


def count_sets(row, pool_bytes):
    """Of pages; pool_bytes: of one in bf16."""
    if row.is_prompt():
        return 1
    cold = max(SETS, min(MOST_SETS, math.ceil(COLD_BYTES / row.bytes())))
    return max(1, min(cold, MOST_BYTES // pool_bytes))


class Problem:
    """Pools and tables of a row, and an engine with a plan for each set of pages. With `like`, another
    build's problem of the row, pools and queries are that one's."""

    def __init__(self, folder, row, device="cuda", like=None):
        self.row, kernel, self.device = row, row.kernel, device
        counts = [-(-keys // kernel.page) for keys in row.keys]
        pages, batch = sum(counts), len(row.keys)
        row_elements = kernel.kv_heads * kernel.dim
        sets = count_sets(row, pages * kernel.page * row_elements * 4)
        torch.manual_seed(1)
        if like:
            self.pools, self.bound = like.pools, like.bound
        else:
            self.pools = [torch.randn(sets * pages, kernel.page, row_elements, device=device,
                                      dtype=torch.bfloat16) for _ in range(2)]
            self.bound = self.as_codes() if kernel.codes else self.pools
        bound = self.bound
        tokens = sum(row.queries)
        self.engine = mlac.Engine(mlac.Package(str(folder / kernel.file())), mlac.Device(device),
                                  max_num_requests=batch, max_seq_len=max(row.keys),
                                  max_num_tokens=tokens, external_pools=(1 << len(bound)) - 1)
        if kernel.codes:
            self.engine.set_cache_scale(SCALES)
        self.engine.prepare()
        for index, pool in enumerate(bound):
            self.engine.bind_pool(pool, index=index)
        order = np.random.default_rng(1).permutation(sets * pages).astype(np.int32)
        starts = np.concatenate([[0], np.cumsum(counts)])
        slots = np.full(tokens, -1, np.int64)
        self.plans, self.tables = [], []
        for index in range(sets):
            own = order[index * pages:(index + 1) * pages]
            table = np.zeros((batch, max(counts) + 1), np.int32)
            for request, count in enumerate(counts):
                table[request, :count] = own[starts[request]:starts[request] + count]
            plan = self.engine.plan()
            plan.fill_tables(list(row.queries), list(row.keys), table, slots, "attend",
                             pools=[(table, slots)] * (len(bound) - 1))
            self.plans.append(plan)
            self.tables.append(table)
        shape = (tokens, kernel.heads, kernel.dim)
        self.query = like.query if like else torch.randn(shape, device=device,
                                                         dtype=torch.bfloat16)
        self.output = torch.full_like(self.query, float("nan"))

    def as_codes(self):
        """One pool, in whose pages the keys of all tokens stand before the values; `pools` become what
        they stand for, which the peer reads, and float64."""
        codes = [(pool / scale).to(torch.float8_e4m3fn) for pool, scale in zip(self.pools, SCALES)]
        self.pools = [code.to(torch.bfloat16) * scale for code, scale in zip(codes, SCALES)]
        pages = torch.cat([code.view(torch.uint8).flatten(1) for code in codes], 1)
        return [pages.view(*self.pools[0].shape[:2], -1)]

    def launches(self):
        def launch(plan):
            stream = torch.cuda.current_stream() if self.device == "cuda" else None
            plan.run_bound(stream=stream, query=self.query, output=self.output)
        return [lambda plan=plan: launch(plan) for plan in self.plans]

    def error(self, output):
        """Of the last set's first and last request, of each its first and last queries."""
        row, kernel, table, worst = self.row, self.row.kernel, self.tables[-1], 0.0
        group = kernel.heads // kernel.kv_heads
        first = np.concatenate([[0], np.cumsum(row.queries)])
        for request in {0, len(row.keys) - 1}:
            keys, queries = row.keys[request], row.queries[request]
            pages = torch.from_numpy(table[request, :-(-keys // kernel.page)])
            pages = pages.to(self.device).long()
            rows = [pool[pages].reshape(-1, kernel.kv_heads, kernel.dim)[:keys].double()
                    for pool in self.pools]
            for query in {0, queries // 2, max(0, queries - 2), queries - 1}:
                end = keys - queries + query + 1
                begin = max(0, end - kernel.window) if kernel.window else 0
                k, v = (part[begin:end].repeat_interleave(group, 1) for part in rows)
                q = self.query[first[request] + query].double()
                weights = torch.softmax(torch.einsum("hd,shd->hs", q, k) * kernel.dim ** -0.5, 1)
                wanted = torch.einsum("hs,shd->hd", weights, v)
                got = output[first[request] + query].double()
                worst = max(worst, float((got - wanted).norm() / wanted.norm()))
        return worst


class Fa3:
    """FlashAttention-3 over the same pages."""

    def __init__(self, ops, problem, splits):
        row, kernel = problem.row, problem.row.kernel
        self.ops, self.problem, self.splits = ops, problem, splits
        self.pools = [pool.view(-1, kernel.page, kernel.kv_heads, kernel.dim)
                      for pool in problem.pools]
        self.tables = [torch.from_numpy(table[:, :-1]).cuda().contiguous()
                       for table in problem.tables]
        self.seq_lens = torch.tensor(row.keys, dtype=torch.int32, device="cuda")
        starts = [0, *np.cumsum(row.queries).tolist()]
        self.starts = torch.tensor(starts, dtype=torch.int32, device="cuda")
        self.output = torch.full_like(problem.query, float("nan"))
        window = (kernel.window - 1, 0) if kernel.window else (-1, -1)
        self.made = ops.get_scheduler_metadata(
            len(row.keys), max(row.queries), max(row.keys), kernel.heads, kernel.kv_heads,
            kernel.dim, kernel.dim, torch.bfloat16, self.seq_lens, self.starts, None, None, None,
            None, kernel.page, 0, True, *window, False, splits, None, 0)

    def launches(self):
        row, kernel = self.problem.row, self.problem.row.kernel

        def launch(table):
            vllm_ops.fa3_forward(
                self.ops, self.problem.query, *self.pools, self.output, kernel.dim ** -0.5,
                query_starts=self.starts, seq_lens=self.seq_lens, query_len=max(row.queries),
                longest=max(row.keys), table=table, made=self.made, splits=self.splits,
                window=kernel.window)
        return [lambda table=table: launch(table) for table in self.tables]


def best_fa3(ops, problem):
    """The setting that is fastest in a few replays; no engine picks that well."""
    made = []
    for splits in FA3_SPLITS[:1] if problem.row.is_prompt() else FA3_SPLITS:
        peer = Fa3(ops, problem, splits)
        made.append((turns.Contestant("fa3", peer.launches()), peer))
    turns.run_rounds([one for one, _ in made], 2)
    return min(made, key=lambda pair: pair[0].median)


def run_row(folder, row, fa3, options):
    problem = Problem(folder, row)
    own = turns.Contestant("mlac", problem.launches())
    contestants, errors = [own], {}
    others = [(also.name, Problem(also, row, like=problem)) for also in options.also or ()
              if (also / row.kernel.file()).exists()]
    for name, other in others:
        contestants.append(turns.Contestant(name, other.launches()))
    if fa3:
        contestant, peer = best_fa3(fa3, problem)
        contestants.append(contestant)
    turns.run_rounds(contestants, options.rounds)
    if options.sustain:
        turns.sustain(contestants, options.sustain)
    own.replay(is_timed=False)
    errors["mlac"] = problem.error(problem.output)
    for (name, other), contestant in zip(others, contestants[1:]):
        contestant.replay(is_timed=False)
        errors[name] = other.error(other.output)
    if fa3:
        errors["fa3"] = problem.error(peer.output)
    return {"name": row.name(), "flops": row.flops(), "bytes": row.bytes(), "errors": errors,
            "is_right": errors["mlac"] <= ALLOWED,
            "times": {one.name: one.times for one in contestants},
            "sustained": {one.name: one.sustained for one in contestants if one.sustained}}


def describe(result, stream):
    """A line of the table: microseconds, rates, and how many times as fast as the peer."""
    times, sustained = result["times"], result["sustained"]
    seconds = statistics.median(times["mlac"])
    text = f"{result['name']:56} {seconds * 1e6:8.1f} us {result['flops'] / seconds / 1e12:6.0f} TF " \
           f"{result['bytes'] / seconds / stream:5.2f} of the stream"
    if "fa3" in times:
        text += f"  fa3 {statistics.median(times['fa3']) * 1e6:8.1f} us, over it " \
                f"{turns.ratio(times, 'fa3'):5.2f}"
        if sustained:
            text += f", sustained {turns.ratio(sustained, 'fa3'):5.2f}"
    for name in times.keys() - {"mlac", "fa3"}:
        text += f"  {name} {statistics.median(times[name]) * 1e6:8.1f} us, over it " \
                f"{turns.ratio(times, name):5.2f}"
        if sustained:
            text += f", sustained {turns.ratio(sustained, name):5.2f}"
    worst = ", ".join(f"{name} {error:.1e}" for name, error in result["errors"].items())
    return f"{text}  error {worst}" + ("" if result["is_right"] else "  WRONG")


def run(folder, rows, options):
    fa3 = vllm_ops.load(vllm_ops.FA3, options.fa3)
    if not fa3:
        print("fa3 is not installed: mlac runs alone (bench/README.md)")
    measured = ceilings.measure_ceilings(ceilings.ReadStream())
    print(measured, flush=True)
    results = []
    for row in rows:
        if options.only and not any(word in row.name() for word in options.only):
            continue
        results.append(run_row(folder, row, fa3, options))
        print(describe(results[-1], measured["read_bytes_per_s"]), flush=True)
        torch.cuda.empty_cache()
    return {"device": torch.cuda.get_device_name(), "ceilings": measured, "rows": results}
