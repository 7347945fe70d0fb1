#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares compiled layers with the float64 reference on random cases.

Covers C02 (head counts that are no multiple of 16) and C03 (ranks and rope
widths) together with both forms (A01, A02), all absorption modes (A06-A08),
ragged chunked prefill (A24, A25, A33) and decode. Each layer is compiled for
the CPU in f32; each case runs two steps over a paged cache whose unused rows,
like the workspace, hold NaN, and compares every row of both steps.

    run_random.py --compiler build/bin/mla-compile [--layers 32] [--cases 16] [--seed 1]
"""

import argparse
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

from mlac import reference  # noqa: E402

import random_cases  # noqa: E402

# f32 against float64 (mla.md section 14); the largest error seen is 1e-6.
ALLOWED = 1e-5
MAX_REQUESTS, MAX_TOKENS, MAX_SEQ_LEN = 4, 1024, 512


def compile_layer(job):
    """Package path of a layer, or the compiler's message."""
    compiler, layer, directory = job
    config = pathlib.Path(directory) / f"{layer.index}.json"
    package = config.with_suffix(".mlac")
    config.write_text(json.dumps(layer.config))
    done = subprocess.run([compiler, config, *layer.options(), "--quiet", "-o", package],
                          capture_output=True, text=True)
    return layer, package, done.stderr if done.returncode else None


class Runner:
    """Engines of one layer: one with the default workspace, one so small that the
    context needs many chunks and with enough processors for many splits."""

    def __init__(self, layer, package, weights):
        import mlac

        self.layer, self.weights = layer, weights
        self.config = reference.config_from_hf(layer.config)
        self.package = mlac.Package(str(package))
        self.device = mlac.Device("cpu")
        sizes = dict(max_num_requests=MAX_REQUESTS, max_num_tokens=MAX_TOKENS,
                     max_seq_len=MAX_SEQ_LEN)
        small = dict(workspace_tokens=MAX_REQUESTS * layer.page_size, num_sms=64)
        self.engines = {}
        for is_small in (False, True):
            engine = mlac.Engine(self.package, self.device, **sizes, **(small if is_small else {}))
            engine.bind(weights)
            engine.prepare()
            self.engines[is_small] = (engine, engine.plan())

    def step(self, engine, plan, sequences, lengths, hidden, function):
        plan.fill(sequences, lengths, function)
        engine.poison_cache()
        engine.poison_workspace()
        return plan.run(hidden)

    def run(self, case, rng):
        """Largest relative error over the requests' rows of both steps."""
        engine, plan = self.engines[case.small_workspace]
        hidden = [rng.standard_normal((c + q, self.config.hidden_size)).astype(np.float32)
                  for c, q in zip(case.context, case.query)]
        sequences = [engine.sequence() for _ in hidden]
        outputs = [[] for _ in hidden]
        starts = [0] * len(hidden)
        for lengths, function in ((case.context, "prefill"), (case.query, case.function)):
            rows = [h[s:s + n] for h, s, n in zip(hidden, starts, lengths)]
            if sum(lengths):
                result = self.step(engine, plan, sequences, lengths, np.concatenate(rows), function)
                for into, part in zip(outputs, np.split(result, np.cumsum(lengths)[:-1])):
                    into.append(part)
            starts = [s + n for s, n in zip(starts, lengths)]
        for sequence in sequences:
            sequence.free()
        worst = 0.0
        for h, got in zip(hidden, outputs):
            if len(h):
                expected, _ = reference.attention_layer(self.config, self.weights, h)
                error = reference.relative_error(np.concatenate(got), expected)
                worst = max(worst, error if np.isfinite(error) else np.inf)
        return worst


def run_layer(job):
    """(layer, [(case, error or message)]) of one compiled layer."""
    layer, package, count, seed = job
    rng = np.random.default_rng([seed, layer.index])
    runner = Runner(layer, package, random_cases.weights(rng, layer.config))
    results = []
    for case in random_cases.cases(rng, layer.page_size, count):
        try:
            results.append((case, runner.run(case, rng)))
        except Exception as error:  # a refused step is a failed case
            results.append((case, f"{type(error).__name__}: {error}"))
    return layer, results


def report(results):
    failures = 0
    for layer, cases in results:
        errors = [error for _, error in cases if not isinstance(error, str)]
        bad = [(case, error) for case, error in cases
               if isinstance(error, str) or not error <= ALLOWED]
        failures += len(bad)
        print(f"{layer.name():88} {len(cases):3} cases, largest error {max(errors, default=0):.1e}"
              f"{'  FAIL' if bad else ''}", flush=True)
        for case, error in bad[:3]:
            print(f"    {case}: {error}", flush=True)
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", required=True, help="path of mla-compile")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--cases", type=int, default=16, help="cases of each layer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="index of the one layer to run")
    options = parser.parse_args()
    begin = time.monotonic()
    layers = list(random_cases.layers(np.random.default_rng(options.seed), options.layers))
    if options.only is not None:
        layers = [layer for layer in layers if layer.index == options.only]
    with tempfile.TemporaryDirectory() as directory:
        with multiprocessing.get_context("spawn").Pool() as pool:
            compiled = list(pool.imap(compile_layer, [(options.compiler, layer, directory)
                                                      for layer in layers]))
        for layer, _, message in compiled:
            if message:
                print(f"{layer.name()}: does not compile\n{message}")
        print(f"compiled {len(layers)} layers in {time.monotonic() - begin:.0f} s", flush=True)
        ready = [(layer, package) for layer, package, message in compiled if not message]
        total = failures = len(layers) - len(ready)
        for layer, package in ready:
            result = run_layer((layer, package, options.cases, options.seed))
            total += len(result[1])
            failures += report([result])
    print(f"{time.monotonic() - begin:.0f} s, allowed relative error {ALLOWED:g}")
    print(f"{total - failures} passed, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
