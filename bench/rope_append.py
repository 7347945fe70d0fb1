#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times the rotation of queries and keys of groups of heads with the append of keys and values.

It is one launch, beside the same apart, and beside torch's copy of as many bytes. A step is one of eight in a CUDA graph, each to slots of its own. Checked against torch. Needs torch.

    rope_append.py --build DIR --compiler build/bin/mla-compile     anywhere
    rope_append.py --run DIR                                         on a GPU
"""

import argparse
import errno
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import typing

import program

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

STEPS, REPLAYS = 8, 9
PAGE, LENGTH = 64, 1 << 15
TOKENS = (1, 16, 128, 1024, 8192)


class Shape(typing.NamedTuple):
    heads: int
    kv_heads: int
    dim: int = 128
    order: str = "half"

    def __str__(self):
        return f"{self.heads}-{self.kv_heads}-{self.dim}-{self.order}"


# Of the interleaved ones, the first two have the RoPE part of DeepSeek-V3's queries, whole and a
# rank's.
SHAPES = (Shape(32, 8), Shape(64, 8), Shape(32, 32), Shape(8, 1), Shape(28, 4), Shape(24, 8, 96),
          Shape(128, 1, 64, "interleaved"), Shape(16, 1, 64, "interleaved"),
          Shape(40, 8, 128, "interleaved"))
# Rotated numbers of bf16, rounded once.
ALLOWED = 8e-3


def module(shape, is_apart):
    """Rotations by two tables, which may be one, are not made one launch."""
    heads, kv_heads, dim, order = shape
    rows = lambda count: f"tensor<?x{count}x{dim}xbf16>"
    cache = (f"!mla.cache<page_size = {PAGE}, fields = [{{0}}: {kv_heads}x{dim}], element = bf16, "
             'format = "{1}">')
    table = f"tensor<{LENGTH}x{dim}xf32>"
    rope = f"<order = {order}, dim = {dim}, theta = 1.0e4, length = {LENGTH}>"
    second = f', %u: {table} {{mla.input = "table_of_keys"}}' if is_apart else ""
    return f"""!q = {rows(heads)}
!k = {rows(kv_heads)}
!b = !mla.batch<query_len = ?>
!keys = {cache.format('key', 'k_nhd')}
!vals = {cache.format('value', 'v_nhd')}
func.func @step(%q: !q {{mla.input = "q"}}, %k: !k {{mla.input = "k"}}, %v: !k {{mla.input = "v"}},
    %t: {table} {{mla.input = "table"}}{second}, %b: !b, %keys: !keys,
    %vals: !vals {{mla.pool = "vals"}}) -> (!q {{mla.output = "rotated"}}, !keys, !vals) {{
  %rq = mla.rope %q, %t, %b with {rope} : !q, {table}, !b
  %rk = mla.rope %k, %{"u" if is_apart else "t"}, %b with {rope} : !k, {table}, !b
  %0 = mla.append %rk into %keys, %b : !k into !keys, !b
  %1 = mla.append %v into %vals, %b : !k into !vals, !b
  return %rq, %0, %1 : !q, !keys, !vals
}}
"""


def path_of(folder, shape, is_apart):
    return folder / f"{shape}-{'apart' if is_apart else 'fused'}.mlac"


def build(folder, compiler):
    if not shutil.which(compiler):  # before there is an empty folder
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), compiler)
    folder.mkdir(parents=True, exist_ok=True)
    for shape in SHAPES:
        for is_apart in (False, True):
            package = path_of(folder, shape, is_apart)
            source = package.with_suffix(".mlir")
            source.write_text(module(shape, is_apart))
            subprocess.run([compiler, source, "--target=sm_90a", "--quiet", "-o", package],
                           check=True)


def median_us(torch, launch):
    """Of one of the graph's launches."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for index in range(STEPS):
            launch(index, stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for index in range(STEPS):
            launch(index, stream)
    times = []
    for _ in range(REPLAYS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / STEPS)
    return statistics.median(times)


class Problem:
    """Plans of one package that write to slots of their own."""

    def __init__(self, torch, package, shape, tokens):
        import mlac
        import numpy as np

        self.torch, self.tokens, self.shape = torch, tokens, shape
        heads, kv_heads, dim, _ = shape
        pages = STEPS * -(-tokens // PAGE)
        self.pools = [torch.full((pages, PAGE, kv_heads * dim), float("nan"), device="cuda",
                                 dtype=torch.bfloat16) for _ in range(2)]
        self.engine = mlac.Engine(mlac.Package(str(package)), mlac.Device("cuda"),
                                  max_num_requests=1, max_seq_len=max(TOKENS),
                                  max_num_tokens=tokens, external_pools=3)
        self.engine.prepare()
        for index, pool in enumerate(self.pools):
            self.engine.bind_pool(pool, index=index)
        rng = np.random.default_rng(1)
        self.slots = rng.permutation(pages * PAGE)[:STEPS * tokens].reshape(STEPS, tokens)
        table = np.zeros((1, -(-tokens // PAGE)), np.int32)
        self.plans = [self.engine.plan() for _ in range(STEPS)]
        for plan, slots in zip(self.plans, self.slots):
            plan.fill_tables([tokens], [tokens], table, slots, "step", pools=[(table, slots)])
        draw = lambda count: torch.randn(tokens, count, dim, device="cuda").bfloat16()
        self.buffers = {"q": draw(heads), "k": draw(kv_heads), "v": draw(kv_heads)}
        phi = torch.outer(torch.arange(LENGTH, device="cuda").double(),
                          10000.0 ** (-torch.arange(0, dim, 2, device="cuda").double() / dim))
        self.buffers["table"] = torch.cat([phi.cos(), phi.sin()], 1).float()
        if "apart" in package.name:
            self.buffers["table_of_keys"] = self.buffers["table"]
        self.buffers["rotated"] = torch.full_like(self.buffers["q"], float("nan"))

    def run(self, index, stream):
        self.plans[index].run_bound(stream=stream, **self.buffers)

    def error(self):
        """Of the last step's rows."""
        torch, table = self.torch, self.buffers["table"][:self.tokens, None]
        cos, sin = table.chunk(2, -1)

        def rotated(rows):
            if self.shape.order == "interleaved":
                a, b = rows.float().unflatten(-1, (-1, 2)).unbind(-1)
                return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
            a, b = rows.float().chunk(2, -1)
            return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
        slots = torch.from_numpy(self.slots[-1]).cuda()
        stored = [pool.flatten(0, 1)[slots].view_as(self.buffers["k"]) for pool in self.pools]
        worst = 0.0
        for got, wanted in ((self.buffers["rotated"], rotated(self.buffers["q"])),
                            (stored[0], rotated(self.buffers["k"])),
                            (stored[1], self.buffers["v"].float())):
            error = float((got.float() - wanted).norm() / wanted.norm())
            worst = max(worst, error if error == error else float("inf"))
        return worst


def measure(folder):
    import torch

    is_wrong = False
    # Clocks rise in the first tenths of a second.
    matrix = torch.randn(4096, 4096, device="cuda")
    for _ in range(200):
        matrix @ matrix
    torch.cuda.synchronize()
    for shape in SHAPES:
        for tokens in TOKENS:
            moved = 2 * tokens * (shape.heads + 2 * shape.kv_heads) * shape.dim * 2
            source = torch.empty(moved // 2, dtype=torch.uint8, device="cuda")
            target = torch.empty_like(source)
            copy = median_us(torch, lambda *_: target.copy_(source))
            times, errors = [], []
            for is_apart in (False, True):
                problem = Problem(torch, path_of(folder, shape, is_apart), shape, tokens)
                times.append(median_us(torch, problem.run))
                errors.append(problem.error())
            is_wrong |= not max(errors) <= ALLOWED
            print(f"{shape} {tokens:5} tokens: fused {times[0]:8.2f} us, "
                  f"apart {times[1]:8.2f} us, copy {copy:8.2f} us: {copy / times[0]:.2f} of the copy; "
                  f"error {max(errors):.1e}", flush=True)
    return int(is_wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, metavar="DIR", help="make packages in it")
    parser.add_argument("--compiler", default="build/bin/mla-compile")
    parser.add_argument("--run", type=pathlib.Path, metavar="DIR", help="time those in it")
    args = parser.parse_args()
    if not args.build and not args.run:
        parser.error("expected --build DIR or --run DIR")
    if args.build:
        build(args.build, args.compiler)
    return measure(args.run) if args.run else 0


if __name__ == "__main__":
    program.run(main)
