# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times decodes of grouped heads over pages: microseconds a step, and the rate at which the keys
and values that it sees are read.

A step is one of eight in a CUDA graph, each over pages of its own where they fit into --bytes,
so that none is read from the L2 cache. Checked against torch for a few requests. Needs torch.

    grouped.py --build DIR --compiler build/bin/mla-compile     anywhere
    grouped.py --run DIR [--only window]                         on a GPU
"""

import argparse
import dataclasses
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

STEPS, REPLAYS = 8, 9
# The worst relative error of bf16 outputs: weights and results of 8 bits.
ALLOWED = 8e-3


@dataclasses.dataclass(frozen=True)
class Kernel:
    heads: int
    kv_heads: int
    dim: int
    page: int
    window: int = 0
    queries: int = 1

    def name(self):
        window = f"window {self.window}" if self.window else "all"
        return (f"{self.heads}/{self.kv_heads} heads of {self.dim}, pages of {self.page}, "
                f"{self.queries} queries, {window}")

    def file(self):
        return "-".join(str(value) for value in dataclasses.astuple(self)) + ".mlac"

    def module(self):
        kv, d = self.kv_heads, self.dim
        pool = f"!mla.cache<page_size = {self.page}, fields = [{{0}}: {kv}x{d}], element = bf16, " \
               f"format = \"{{1}}\">"
        query = f"tensor<?x{self.heads}x{d}xbf16>"
        batch = f"!mla.batch<query_len = {self.queries or '?'}>"
        window = f"window {self.window} " if self.window else ""
        return f"""!keys = {pool.format('key', 'k_nhd')}
!values = {pool.format('value', 'v_nhd')}
func.func @attend(%q: {query} {{mla.input = "query"}}, %batch: {batch}, %k: !keys,
    %v: !values {{mla.pool = "values"}}) -> ({query} {{mla.output = "output"}}) {{
  %o = mla.grouped_attention query(%q : {query}) keys(%k : !keys) values(%v : !values)
      over %batch : {batch} {window}scale {d ** -0.5:.17e} -> {query}
  return %o : {query}
}}
"""


# What is timed: kernels, requests, keys.
def problems():
    for batch in (1, 16, 64):
        for window, keys in ((0, 32768), (4096, 32768), (0, 4096), (128, 4096)):
            yield Kernel(64, 8, 128, 64, window), batch, keys
    for page in (16, 64):
        yield Kernel(64, 8, 128, page), 64, 4096
    yield Kernel(32, 8, 128, 64), 64, 4096
    yield Kernel(32, 32, 128, 64), 64, 4096
    yield Kernel(64, 1, 128, 64), 64, 4096
    yield Kernel(64, 8, 128, 64, 0, 4), 16, 4096
    # A prompt: queries of any length.
    yield Kernel(32, 8, 128, 64, 0, 0), 1, 4096


def build(folder, compiler):
    folder.mkdir(parents=True, exist_ok=True)
    for kernel in dict.fromkeys(kernel for kernel, *_ in problems()):
        module = folder / kernel.file().replace(".mlac", ".mlir")
        module.write_text(kernel.module())
        subprocess.run([compiler, module, "--target=sm_90a", "--quiet", "-o",
                        folder / kernel.file()], check=True)


class Problem:
    """One engine, pools and plans for a kernel, requests and keys."""

    def __init__(self, folder, kernel, batch, keys, most_bytes):
        import mlac
        import numpy as np
        import torch

        self.torch, self.kernel, self.batch, self.keys = torch, kernel, batch, keys
        self.queries = kernel.queries or keys
        pages = batch * -(-keys // kernel.page)
        row = kernel.kv_heads * kernel.dim
        sets = max(1, min(STEPS, most_bytes // (pages * kernel.page * row * 4)))
        torch.manual_seed(1)
        self.pools = [torch.randn(sets * pages, kernel.page, row, device="cuda",
                                  dtype=torch.bfloat16) for _ in range(2)]
        tokens = batch * self.queries
        self.engine = mlac.Engine(mlac.Package(str(folder / kernel.file())), mlac.Device("cuda"),
                                  max_num_requests=batch, max_seq_len=keys,
                                  max_num_tokens=tokens, external_pools=3)
        self.engine.prepare()
        for index, pool in enumerate(self.pools):
            self.engine.bind_pool(pool, index=index)
        rng = np.random.default_rng(1)
        order = rng.permutation(sets * pages).astype(np.int32).reshape(sets, batch, -1)
        self.plans, self.tables = [], []
        for index in range(sets):
            table = np.concatenate([order[index], np.zeros((batch, 1), np.int32)], 1)
            slots = np.full(tokens, -1, np.int64)
            plan = self.engine.plan()
            plan.fill_tables([self.queries] * batch, [keys] * batch, table, slots, "attend",
                             pools=[(table, slots)])
            self.plans.append(plan)
            self.tables.append(table)
        shape = (tokens, kernel.heads, kernel.dim)
        self.query = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
        self.output = torch.empty_like(self.query)

    def run(self, index, stream):
        self.plans[index % len(self.plans)].run_bound(stream=stream, query=self.query,
                                                      output=self.output)

    def error(self):
        """Of the last set's first and last request, of each its last queries."""
        torch, kernel = self.torch, self.kernel
        table, worst = self.tables[(STEPS - 1) % len(self.plans)], 0.0
        group = kernel.heads // kernel.kv_heads
        for request in {0, self.batch - 1}:
            pages = torch.from_numpy(table[request, :-1]).cuda().long()
            rows = [pool[pages].reshape(-1, kernel.kv_heads, kernel.dim)[:self.keys].float()
                    for pool in self.pools]
            for query in range(max(0, self.queries - 4), self.queries):
                end = self.keys - self.queries + query + 1
                first = max(0, end - kernel.window) if kernel.window else 0
                k, v = (part[first:end].repeat_interleave(group, 1) for part in rows)
                q = self.query[request * self.queries + query].float()
                weights = torch.softmax(torch.einsum("hd,shd->hs", q, k) * kernel.dim ** -0.5, 1)
                wanted = torch.einsum("hs,shd->hd", weights, v)
                got = self.output[request * self.queries + query].float()
                worst = max(worst, float((got - wanted).norm() / wanted.norm()))
        return worst

    def time(self):
        torch = self.torch
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for index in range(len(self.plans)):
                self.run(index, stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for index in range(STEPS):
                self.run(index, stream)
        times = []
        for _ in range(REPLAYS + 2):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) * 1000 / STEPS)
        return sorted(times[2:])[REPLAYS // 2]


def measure(folder, most_bytes, only):
    isWrong = False
    for kernel, batch, keys in problems():
        if only not in kernel.name():
            continue
        problem = Problem(folder, kernel, batch, keys, most_bytes)
        time = problem.time()
        seen = min(keys, kernel.window + problem.queries - 1) if kernel.window else keys
        moved = batch * seen * kernel.kv_heads * kernel.dim * 4
        pairs = batch * problem.queries * (seen - (problem.queries - 1) / 2)
        flops = 4 * pairs * kernel.heads * kernel.dim
        error = problem.error()
        isWrong |= not error <= ALLOWED
        print(f"{kernel.name()}, {batch} x {keys}: {time:8.1f} us {moved / time / 1e6:6.2f} TB/s "
              f"{flops / time / 1e6:6.1f} TF  error {error:.1e}", flush=True)
        del problem
    return int(isWrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--compiler", default="build/bin/mla-compile")
    parser.add_argument("--run", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--bytes", type=int, default=32 << 30)
    args = parser.parse_args()
    if args.build:
        build(args.build, args.compiler)
    return measure(args.run, args.bytes, args.only) if args.run else 0


if __name__ == "__main__":
    sys.exit(main())
