#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks and times the indexer's scores (mla.index_scores) over a paged pool.

    python3 bench/index build DIR                # packages; needs mla-compile, no GPU
    python3 bench/index run DIR [--out FILE]     # exactness and bandwidth; needs a GPU
    python3 bench/index run DIR --device cpu     # the harness itself, few keys

Codes, weights and scales are small integers and powers of two, so that every score is exact
and any difference from the reference is an error.
"""

import ctypes
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench")]

import program  # noqa: E402
from scores import HEADS, PAGE, POOL, ROW_BYTES, SIZES, STEP, WIDTH  # noqa: E402

SCHEDULES = ("scores", "simple")
# Requests and keys of decodes; new tokens and keys of one prompt.
DECODES = [(1, 32768), (1, 131072), (16, 32768), (16, 131072), (128, 32768), (128, 131072)]
PROMPTS = [(4096, 4096), (2048, 32768), (4096, 32768), (4, 131072), (1025, 5000)]
DISTINCT = 4096  # pages of content


def build_command(options):
    program.make_folder(options.directory, options.build_dir)
    text = POOL.format(**SIZES) + STEP.format(name="decode", query=1, **SIZES) \
        + STEP.format(name="prefill", query="?", **SIZES)
    source = options.directory / "scores.mlir"
    source.write_text(text)
    for schedule in SCHEDULES if options.target != "cpu" else ("simple",):
        chosen = [] if options.target == "cpu" else [f"--schedule={schedule}"]
        subprocess.run([options.build_dir / "bin/mla-compile", source, "--quiet", *chosen,
                        f"--target={options.target}", "-o",
                        options.directory / f"{schedule}.mlac"], check=True)
    source.unlink()
    shutil.copy(options.build_dir / "lib/libmla_runtime.so", options.directory)
    return 0


class _Memory:
    def __init__(self, address, count):
        self.__cuda_array_interface__ = {"data": (address, False), "shape": (count,),
                                         "typestr": "|u1", "version": 3}


class Scores:
    """A step over a pool of random keys: `requests` with `new` of `keys` tokens each."""

    def __init__(self, options, schedule, requests, keys, new):
        import mlac
        import torch

        self.torch, self.device = torch, options.device
        self.requests, self.keys, self.new = requests, keys, new
        pages = requests * (-(-keys // PAGE) + 1)
        self.engine = mlac.Engine(
            mlac.Package(str(options.directory / f"{schedule}.mlac")), mlac.Device(options.device),
            max_num_requests=requests, max_num_tokens=requests * new, max_seq_len=keys,
            num_pages=pages)
        self.engine.prepare()
        sequences = [self.engine.sequence() for _ in range(requests)]
        self.engine.cache.append([s._id for s in sequences], [0] * requests,
                                 [keys - new] * requests)
        self.plan = self.engine.plan()
        self.plan.fill(sequences, [new] * requests, "decode" if new == 1 else "prefill")
        self.pool = self._fill(pages)
        self.table = [list(sequence.pages) for sequence in sequences]
        generator = torch.Generator().manual_seed(1)
        self.query = torch.randint(-4, 5, (requests * new, HEADS, WIDTH), generator=generator)
        self.weights = torch.randint(-3, 4, (requests * new, HEADS), generator=generator)
        columns = -(-keys // 64) * 64
        self.buffers = {
            "q": self.query.float().to(torch.float8_e4m3fn).view(torch.uint8).to(self.device),
            "w": self.weights.float().to(self.device),
            "scores": torch.full((requests * new, columns), float("nan"), device=self.device)}

    def _fill(self, pages):
        """Random pages on the device, codes of integers, then scales: the same again after
        `DISTINCT`."""
        torch = self.torch
        distinct = min(pages, DISTINCT)
        generator = torch.Generator().manual_seed(2)
        codes = torch.randint(-4, 5, (distinct, PAGE * WIDTH), generator=generator).float()
        exponents = torch.randint(-2, 3, (distinct, PAGE), generator=generator)
        content = torch.cat([codes.to(torch.float8_e4m3fn).view(torch.uint8),
                             torch.exp2(exponents.float()).view(torch.uint8)], 1).contiguous()
        count = pages * PAGE * ROW_BYTES
        if self.device == "cpu":
            pool = torch.frombuffer((ctypes.c_uint8 * count).from_address(
                self.engine.cache_data()), dtype=torch.uint8)
        else:
            pool = torch.as_tensor(_Memory(self.engine.cache_data(), count), device=self.device)
        pool, source = pool.view(pages, -1), content.to(self.device)
        for first in range(0, pages, distinct):
            part = pool[first:first + distinct]
            part.copy_(source[:len(part)])
        return content

    def run(self):
        buffers = self.buffers
        stream = None
        if self.device == "cpu":
            buffers = {name: tensor.numpy() for name, tensor in buffers.items()}
        else:
            stream = self.torch.cuda.current_stream()
        self.plan.run_bound(stream=stream, **buffers)

    def count_wrong(self, requests):
        """Scores that differ from float64 of the first `requests`, on rows of each."""
        torch, wrong = self.torch, 0
        got = self.buffers["scores"].cpu()
        for request in range(requests):
            pages = self.pool[[page % len(self.pool) for page in self.table[request]]]
            codes = pages[:, :PAGE * WIDTH].contiguous().view(torch.float8_e4m3fn).float()
            scales = pages[:, PAGE * WIDTH:].contiguous().view(torch.float32).flatten()
            keys = codes.reshape(-1, WIDTH)[:self.keys].to(self.device)
            for token in sorted({0, self.new // 2, self.new - 1}):
                row, seen = request * self.new + token, self.keys - self.new + token + 1
                products = keys[:seen] @ self.query[row].float().to(self.device).T
                total = (products.relu() * self.weights[row].to(self.device)).sum(1).cpu()
                wrong += int((got[row, :seen] != total * scales[:seen]).sum())
        return wrong


def seconds_of(torch, launch, repeats=9, inner=8):
    """Median seconds of one launch; `inner` launches in a graph."""
    launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(inner):
            launch()
    times = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3 / inner)
    return statistics.median(times)


def measure(options, schedule, requests, keys, new):
    import torch

    scores = Scores(options, schedule, requests, keys, new)
    scores.run()
    wrong = scores.count_wrong(min(requests, 3))
    result = {"schedule": schedule, "requests": requests, "keys": keys, "new": new, "wrong": wrong}
    line = f"  {schedule:7} {requests:>4} x {keys:>7} keys, {new:>5} new: {wrong} wrong"
    if options.device != "cpu" and not options.check:
        seconds = seconds_of(torch, scores.run)
        pairs = requests * sum(keys - new + j + 1 for j in range(new))
        result |= {"us": seconds * 1e6, "GB/s": requests * keys * ROW_BYTES / seconds / 1e9,
                   "TFLOP/s": 2 * pairs * HEADS * WIDTH / seconds / 1e12}
        line += f", {result['us']:9.2f} us, {result['GB/s']:6.0f} GB/s of keys, " \
                f"{result['TFLOP/s']:6.1f} TFLOP/s"
    print(line, flush=True)
    return result


def run_command(options):
    if (options.directory / "libmla_runtime.so").exists():
        os.environ.setdefault("MLAC_RUNTIME_LIBRARY",
                              str((options.directory / "libmla_runtime.so").resolve()))
    cases = [(requests, keys, 1) for requests, keys in DECODES] + \
            [(1, keys, new) for new, keys in PROMPTS]
    if options.device == "cpu":
        cases = [(3, 200, 1), (2, 200, 70)]
    results = [measure(options, schedule, *case) for case in cases for schedule in SCHEDULES
               if (options.directory / f"{schedule}.mlac").exists()]
    if options.out:
        options.out.write_text(json.dumps(results, indent=1))
    wrong = sum(result["wrong"] for result in results)
    print("PASS" if wrong == 0 else f"FAIL: {wrong} differences")
    return 0 if wrong == 0 else 1


def main():
    parser = program.make_parser(__doc__)
    parser.add_argument("--target", default="sm_90a", help="of build: sm_90a or cpu")
    parser.add_argument("--device", default="cuda", help="of run: cuda or cpu")
    parser.add_argument("--check", action="store_true", help="no times")
    parser.add_argument("--out", type=pathlib.Path, help="results as JSON")
    options = parser.parse_args()
    return build_command(options) if options.command == "build" else run_command(options)


if __name__ == "__main__":
    program.run(main)
