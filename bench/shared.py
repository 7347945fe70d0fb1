#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times decode steps whose requests share a prefix, with and without --mixed.

    python3 bench/shared.py build DIR    # packages; needs mla-compile, no GPU
    python3 bench/shared.py run DIR      # needs a GPU and torch

A step is a DeepSeek-V3 layer from hidden states to output, one new token a request, with 128
heads and with the 16 of one rank in eight. Requests are forks of one sequence with 256 tokens of
their own each. Both packages get the same weights and cache; their outputs are compared. The
last column is what --mixed=auto does.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "python"), str(ROOT / "bench"), str(ROOT / "bench/decode")]

import program  # noqa: E402
from chunked import ALLOWED, CONFIG, HIDDEN, PAGE, WIDTH, random_weights  # noqa: E402
from turns import race  # noqa: E402

OWN, PREFILL = 256, 4096
# Requests and shared tokens.
POINTS = {128: ((32, 8192), (64, 8192), (128, 8192), (160, 8192), (192, 8192), (256, 8192),
                (384, 8192), (512, 8192), (256, 512), (256, 2048), (512, 1024), (256, 32768)),
          16: ((32, 8192), (64, 8192), (96, 8192), (128, 8192), (256, 8192), (512, 8192),
               (256, 512), (256, 2048), (512, 32768))}
ROUNDS = 5


def build(options):
    folder = options.directory
    program.make_folder(folder, options.build_dir)
    config, path = json.loads(CONFIG.read_text()), folder / "config.json"
    for heads in POINTS:
        config.update(num_attention_heads=heads, num_key_value_heads=heads)
        path.write_text(json.dumps(config))
        for mode in ("never", "auto", "always"):
            subprocess.run([options.build_dir / "bin/mla-compile", path, "--target=sm_90a",
                            "--quiet", "--functions=prefill,decode", f"--mixed={mode}",
                            "-o", folder / f"h{heads}-{mode}.mlac"], check=True)
    path.unlink()
    shutil.copy(options.build_dir / "lib/libmla_runtime.so", folder)


class Layer:
    """A package's decode steps of requests that share a prefix."""

    def __init__(self, package, weights, requests, tokens):
        import mlac
        import torch
        from arrays import TorchArrays

        pages = tokens // PAGE + requests * (OWN // PAGE + 1)
        self.engine = mlac.Engine(mlac.Package(str(package)), mlac.Device("cuda"),
                                  max_num_requests=requests, max_num_tokens=PREFILL,
                                  max_seq_len=tokens + OWN + 1, num_pages=pages,
                                  workspace_tokens=tokens)
        if weights:
            self.engine.bind(weights)
            self.engine.prepare()
            torch.manual_seed(2)
            pool = TorchArrays().rows_at(self.engine.cache_data(), pages * PAGE, WIDTH, "bf16")
            pool.normal_().clamp_(-3, 3)
        self.plan = self.engine.plan()
        self.sequences = []

    def grow(self, sequences, tokens, at_once):
        """Only makes them longer: the rows are random already."""
        for done in range(0, tokens, at_once):
            self.plan.fill(sequences, [min(at_once, tokens - done)] * len(sequences), "prefill")

    def fill(self, requests, tokens):
        import torch

        self.plan.release_captures()  # the race before is over
        for sequence in self.sequences:
            sequence.free()
        root = self.engine.sequence()
        self.grow([root], tokens, PREFILL)
        forks = [root.fork(tokens) for _ in range(requests - 1)]
        self.sequences = [root, *forks]
        side_by_side = PREFILL // OWN
        for first in range(0, requests, side_by_side):
            self.grow(self.sequences[first:first + side_by_side], OWN, OWN)
        self.plan.fill(self.sequences, [1] * requests, "decode")
        torch.manual_seed(3)
        self.hidden = torch.randn(requests, HIDDEN, device="cuda").bfloat16()
        self.output = torch.full_like(self.hidden, float("nan"))
        return self.plan.dim("num_shared_tokens")

    def launch(self):
        import torch

        self.plan.run_bound(stream=torch.cuda.current_stream(), hidden=self.hidden,
                            output=self.output)


def compare(layers, heads, requests, tokens):
    taken = {mode: layer.fill(requests, tokens) for mode, layer in layers.items()}
    assert (taken["never"], taken["always"]) == (0, tokens), taken
    racers = {mode: layers[mode] for mode in ("never", "always")}
    times = {name: statistics.median(seconds) * 1e6
             for name, seconds in race({n: l.launch for n, l in racers.items()}, ROUNDS).items()}
    a, b = (layer.output.double() for layer in racers.values())
    error = float((a - b).norm() / a.norm())
    assert error <= ALLOWED, f"outputs differ by {error}"
    shares = taken["auto"] > 0
    is_right = shares == (times["always"] < times["never"])
    print(f"| {heads} | {requests} | {tokens} | {times['never']:.0f} | {times['always']:.0f} | "
          f"{times['never'] / times['always']:.2f} | {'shares' if shares else 'absorbed'}"
          f"{'' if is_right else ' (slower)'} | {error:.1e} |", flush=True)


def run(options):
    library = options.directory / "libmla_runtime.so"
    os.environ.setdefault("MLAC_RUNTIME_LIBRARY", str(library.resolve()))
    import torch

    print("| heads | requests | prefix | absorbed us | mixed us | speedup | auto | difference |")
    print("|---|---|---|---|---|---|---|---|")
    for heads, points in POINTS.items():
        weights = {name: tensor.cpu().view(torch.uint16).numpy()
                   for name, tensor in random_weights(heads).items()}
        layers = {mode: Layer(options.directory / f"h{heads}-{mode}.mlac",
                              weights if mode != "auto" else None,
                              max(requests for requests, _ in points),
                              max(tokens for _, tokens in points))
                  for mode in ("never", "auto", "always")}
        for point in points:
            compare(layers, heads, *point)
        for layer in layers.values():
            layer.engine.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(required=True)
    builder = commands.add_parser("build")
    builder.add_argument("--build-dir", type=pathlib.Path, default=ROOT / "build")
    builder.set_defaults(call=build)
    runner = commands.add_parser("run")
    runner.set_defaults(call=run)
    for command in (builder, runner):
        command.add_argument("directory", type=pathlib.Path)
    options = parser.parse_args()
    options.call(options)


if __name__ == "__main__":
    program.run(main)
