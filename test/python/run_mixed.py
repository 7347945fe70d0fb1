#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Serves random mixed batches and compares every row with the float64 reference.

Covers A03, A24, A25, A27, A33, A34, A35, A36, A37, A44, A45, B23, C05: decodes, speculative rows,
one-token tails, prefills with and without context, and requests without tokens in
one batch, in any order, as one call of `step` (or of `prefill`, or of whatever the
runtime chooses), with the least, a middle and the default workspace, hence any
chunking. Sequences grow, are cut back (rejected speculative tokens) and end between
batches, as in an engine. Unused cache rows and the workspace hold NaN; rows of the
output behind the batch's tokens must stay as they were. Some steps are padded (C15):
their sizes, and so what a graph captures, must not depend on the batch.

On the CPU in f32 at small dims:

    run_mixed.py --compiler build/bin/mla-compile [--batches 2048] [--seed 1]

On a GPU in bf16 at those of a DeepSeek-V3 rank, where padded steps are captured once and
then replayed as a CUDA graph; the packages may be built elsewhere (needs torch there):

    run_mixed.py --build DIR --compiler build/bin/mla-compile
    run_mixed.py --gpu DIR [--batches 500]
"""

import argparse
import dataclasses
import json
import multiprocessing
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))

import mlac  # noqa: E402
from mlac import reference  # noqa: E402

import random_cases  # noqa: E402

STORIES = 12  # sequences of known outputs that requests take their tokens from
PADDING, UNTOUCHED = 3, -77.0


@dataclasses.dataclass(frozen=True)
class Layer:
    heads: int
    rank: int
    rope: int
    q_rank: int
    page: int
    threshold: int
    absorb: str
    nope: int = 8
    value: int = 12
    hidden: int = 24
    splits: int = 0  # of each request's keys, or of a chunk's; 0: as many as pay, which is none here

    def config(self):
        return {"model_type": "deepseek_v3", "num_hidden_layers": 1, "hidden_size": self.hidden,
                "num_attention_heads": self.heads, "q_lora_rank": self.q_rank or None,
                "kv_lora_rank": self.rank, "qk_nope_head_dim": self.nope,
                "v_head_dim": self.value, "qk_rope_head_dim": self.rope, "rope_theta": 1e4,
                "rms_norm_eps": 1e-6, "max_position_embeddings": 1024}

    def options(self):
        return [f"--page-size={self.page}", f"--absorb={self.absorb}",
                "--functions=prefill,decode,step", f"--decode-threshold={self.threshold}",
                *([f"--num-splits={self.splits}"] if self.splits else [])]


class Cpu:
    """NumPy and f32."""

    layers = (Layer(3, 16, 4, 0, 4, 1, "online"), Layer(1, 32, 8, 16, 1, 4, "online"),
              Layer(4, 16, 0, 16, 16, 2, "half-query"), Layer(5, 24, 4, 16, 3, 3, "offline"),
              Layer(3, 16, 4, 0, 4, 2, "online", splits=3))
    options = ["--dtype=f32", "--target=cpu"]
    device = "cpu"
    requests, tokens, length = 6, 48, 48

    def array(self, values):
        return np.array(values, np.float32)

    def exact(self, array):
        """The values as the layer gets them."""
        return np.asarray(array, np.float32)

    def doubles(self, array):
        return array.astype(np.float64)

    def errors(self, got, wanted):
        """f32 against float64, as in run_random.py: relative, and the limit."""
        error = reference.relative_error(got, wanted)
        return error if np.isfinite(error) else np.inf, 1e-5

    def replay(self, graphs, key, plan, buffers):
        plan.run_bound(**buffers)


class Gpu:
    """torch and bf16; padded steps are captured once and then replayed."""

    layers = (Layer(16, 512, 64, 256, 64, 1, "online", 128, 128, 512),
              Layer(16, 512, 64, 256, 16, 4, "online", 128, 128, 512),
              Layer(128, 512, 64, 256, 64, 2, "online", 128, 128, 512),
              Layer(16, 512, 64, 256, 64, 2, "online", 128, 128, 512, splits=3))
    options = ["--dtype=bf16", "--target=sm_90a"]
    device = "cuda"
    requests, tokens, length = 8, 256, 320

    def __init__(self):
        import torch

        self.torch = torch
        self.stream = torch.cuda.Stream()

    def array(self, values):
        return self.torch.as_tensor(values).to(self.torch.bfloat16).cuda()

    def exact(self, array):
        return self.torch.as_tensor(array).to(self.torch.bfloat16).float().numpy()

    def doubles(self, array):
        self.torch.cuda.synchronize()
        return array.cpu().double().numpy()

    def errors(self, got, wanted):
        """mla.md section 14 for a whole layer in bf16: WMAPE, as a share of 0.01, and
        the cosine difference, of 5e-5."""
        wmape, cosine = reference.wmape(got, wanted), reference.cosine_difference(got, wanted)
        worst = max(wmape / 0.01, cosine / 5e-5)
        return worst if np.isfinite(worst) else np.inf, 1.0

    def replay(self, graphs, key, plan, buffers):
        """The graph holds its own buffers: the step's inputs are copied there."""
        torch = self.torch
        if key not in graphs:
            held = {name: torch.empty_like(buffer) for name, buffer in buffers.items()}
            graph = torch.cuda.CUDAGraph()
            torch.cuda.synchronize()
            with torch.cuda.graph(graph, stream=self.stream):
                plan.run_bound(stream=self.stream, **held)
            graphs[key] = graph, held
        graph, held = graphs[key]
        torch.cuda.synchronize()
        for name, buffer in buffers.items():
            held[name].copy_(buffer)
        graph.replay()
        torch.cuda.synchronize()
        for name, buffer in buffers.items():
            buffer.copy_(held[name])


def compile_layer(job):
    compiler, config, layer, options = job
    config.write_text(json.dumps(layer.config()))
    subprocess.run([compiler, config, *layer.options(), *options, "--quiet", "-o",
                    config.with_suffix(".mlac")], check=True)


def compile_layers(machine, compiler, directory):
    directory.mkdir(parents=True, exist_ok=True)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(compile_layer, [(compiler, directory / f"{index}.json", layer, machine.options)
                                 for index, layer in enumerate(machine.layers)])


class Request:
    """A sequence in the cache that follows one of the stories."""

    def __init__(self, engine, story):
        self.sequence, self.story = engine.sequence(), story

    def __len__(self):
        return len(self.sequence)


class Server:
    """Engines of one layer with different workspaces, and what their steps give."""

    def __init__(self, machine, layer, package, rng):
        self.machine, self.layer, self.rng = machine, layer, rng
        self.package = mlac.Package(package)
        weights = {name: machine.exact(w)
                   for name, w in random_cases.weights(rng, layer.config()).items()}
        self.stories = machine.exact(
            rng.standard_normal((STORIES, machine.length, layer.hidden)).astype(np.float32))
        config = reference.config_from_hf(layer.config())
        self.expected = [reference.attention_layer(config, weights, story)[0]
                         for story in self.stories]
        device = mlac.Device(machine.device)
        least = machine.requests * layer.page
        self.engines = []
        for workspace, processors in ((least, 1), (2 * least + 1, 16), (0, 0)):
            engine = mlac.Engine(self.package, device, max_num_requests=machine.requests,
                                 max_num_tokens=machine.tokens, max_seq_len=machine.length,
                                 workspace_tokens=workspace, num_sms=processors)
            engine.bind(self.checkpoint(weights))
            engine.prepare()
            # One plan for padded steps: graphs hold the addresses of its metadata.
            self.engines.append((engine, engine.plan(), engine.plan(), []))
        self.sizes = {}
        self.graphs = {}  # of padded steps, which end with the engines they read

    def checkpoint(self, weights):
        if self.machine.device == "cpu":
            return weights
        # Upper halves of f32: exact, since the values are bf16.
        return {name: (w.view(np.uint32) >> 16).astype(np.uint16) for name, w in weights.items()}

    def query_len(self, request, left):
        """Decode, speculative rows, nothing, or a piece of a prompt."""
        kind = self.rng.integers(8)
        most = min(left, self.machine.length - len(request))
        if kind < 3:
            length = 1
        elif kind == 3:
            length = 0
        elif kind < 6:
            length = int(self.rng.integers(1, self.layer.threshold + 2))
        else:
            length = int(self.rng.integers(1, self.machine.tokens // 2))
        return min(length, most)

    def choose(self, engine, alive):
        """A batch of old and new requests, and their query lengths."""
        rng, most = self.rng, self.machine.requests
        while len(alive) < most and rng.integers(3):
            alive.append(Request(engine, int(rng.integers(STORIES))))
        picked = [alive[i] for i in rng.permutation(len(alive))[:rng.integers(1, most + 1)]]
        left, lengths = self.machine.tokens, []
        for request in picked:
            lengths.append(self.query_len(request, left))
            left -= lengths[-1]
        return picked, lengths

    def shape(self, lengths):
        """A shape that the batch fits into, of few; None if there is none."""
        most, tokens = self.machine.requests, self.machine.tokens
        split = mlac.arrange_batch(lengths, self.layer.threshold, reorder=False)
        for decodes in (most // 2, most, 0):
            rows = min(decodes * self.layer.threshold, tokens)
            if (split.num_decodes <= decodes and split.num_decode_tokens <= rows and
                    split.num_prefills <= most - decodes and
                    split.num_prefill_tokens <= tokens - rows):
                return dict(num_requests=most, num_tokens=tokens, max_query_len=tokens,
                            max_seq_len=self.machine.length, num_decodes=decodes,
                            num_decode_tokens=rows)
        return None

    def step(self):
        """One batch: its error, the limit, and what it was."""
        rng = self.rng
        which = int(rng.integers(len(self.engines)))
        engine, plan, padded, alive = self.engines[which]
        picked, lengths = self.choose(engine, alive)
        if not picked:
            return 0.0, 1.0, "nothing"
        if rng.integers(3):  # else in an order in which decodes are not in front
            batch = mlac.arrange_batch(lengths, self.layer.threshold)
            picked, lengths = batch.apply(picked), batch.apply(lengths)
        starts = [len(request) for request in picked]
        rows = [(r.story, s, s + n) for r, s, n in zip(picked, starts, lengths)]
        shape = self.shape(lengths) if rng.integers(3) == 0 else None
        function = (None, "step", "step", "prefill")[rng.integers(4)]
        if shape:
            plan, function = padded, "step"
        plan.fill([request.sequence for request in picked], lengths, function, shape=shape)
        if shape:
            key = which, shape["num_decodes"]
            if self.sizes.setdefault(key, plan.dims) != plan.dims:
                return np.inf, 0.0, f"sizes of shape {shape} changed"
        engine.poison_cache()
        engine.poison_workspace()
        error, limit = self.run(plan, rows, shape, which)
        self.retire(alive, picked)
        name = "padded" if shape else plan.function
        return error, limit, f"{name} {list(zip(starts, lengths))}"

    def run(self, plan, rows, shape, which):
        parts = [self.stories[story][a:b] for story, a, b in rows]
        wanted = np.concatenate([self.expected[story][a:b] for story, a, b in rows])
        where = np.arange(len(wanted))
        total = len(wanted) + PADDING
        if shape:
            total = shape["num_tokens"]
            where = np.flatnonzero(np.array(plan.metadata("output_rows")) >= 0)
        hidden = np.full((total, self.layer.hidden), np.nan, np.float32)
        hidden[where] = np.concatenate(parts)
        buffers = dict(hidden=self.machine.array(hidden),
                       output=self.machine.array(np.full(hidden.shape, UNTOUCHED, np.float32)))
        if shape:
            self.machine.replay(self.graphs, (which, shape["num_decodes"]), plan, buffers)
        else:
            plan.run_bound(**buffers)
        output = self.machine.doubles(buffers["output"])
        if np.any(np.delete(output, where, axis=0) != UNTOUCHED):
            return np.inf, 0.0
        return self.machine.errors(output[where], wanted) if len(where) else (0.0, 1.0)

    def retire(self, alive, picked):
        """Rejected tokens are forgotten; requests end."""
        for request in picked:
            fate = self.rng.integers(8)
            if fate == 0 or len(request) == self.machine.length:
                request.sequence.free()
                alive.remove(request)
            elif fate == 1:
                request.sequence.truncate(max(0, len(request) - int(self.rng.integers(1, 4))))


def serve(machine, layer, package, count, seed):
    """Serves `count` batches; returns the number of failures."""
    server = Server(machine, layer, str(package), np.random.default_rng(seed))
    worst, served, failures = 0.0, {}, []
    for index in range(count):
        try:
            error, limit, what = server.step()
        except Exception as problem:  # a refused step is a failed batch
            error, limit, what = np.inf, 0.0, f"{type(problem).__name__}: {problem}"
        name = what.split()[0]
        served[name] = served.get(name, 0) + 1
        worst = max(worst, error)
        if not error <= limit:
            failures.append(f"batch {index}: error {error:.1e}, {what}")
    print(f"{layer}: largest error {worst:.1e}, {served}", flush=True)
    for failure in failures[:5]:
        print(f"    {failure}", flush=True)
    return len(failures)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", help="path of mla-compile")
    parser.add_argument("--build", type=pathlib.Path, help="only build packages for --gpu there")
    parser.add_argument("--gpu", type=pathlib.Path, help="folder with packages of --build")
    parser.add_argument("--batches", type=int)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    begin = time.monotonic()
    if options.build:
        compile_layers(Gpu, options.compiler, options.build)
        return 0
    machine = Gpu() if options.gpu else Cpu()
    batches = options.batches or (500 if options.gpu else 2048)
    share, failed = -(-batches // len(machine.layers)), 0
    with tempfile.TemporaryDirectory() as scratch:
        directory = options.gpu or pathlib.Path(scratch)
        if not options.gpu:
            compile_layers(machine, options.compiler, directory)
            print(f"compiled in {time.monotonic() - begin:.0f} s", flush=True)
        for index, layer in enumerate(machine.layers):
            failed += serve(machine, layer, directory / f"{index}.mlac", share,
                            options.seed + index)
    total = share * len(machine.layers)
    print(f"{time.monotonic() - begin:.0f} s")
    print(f"{total - failed} batches passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
