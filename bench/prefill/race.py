# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mlac's packages, cuDNN (torch) and a matrix product, alternating in one process."""

import statistics

import check
import layers
import torch
from steps import Engine, Problem
from torch.nn.attention import SDPBackend, sdpa_kernel

# (queries, keys of the chunk or None: causal)
ROWS = ((2048, None), (8192, None), (16384, None), (8192, 65536))
ROUND_SECONDS = 4e-3  # of launches between two events, at least one


class Contestant:
    def __init__(self, name, launch, flops):
        self.name, self.launch, self.flops, self.rates = name, launch, flops, []
        launch()
        seconds = self.time(1)
        self.repeats = max(1, round(ROUND_SECONDS / seconds))

    def time(self, repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(repeats):
            self.launch()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / repeats

    def run(self):
        self.rates.append(self.flops / self.time(self.repeats))

    @property
    def rate(self):
        return statistics.median(self.rates)


def make_cudnn(problem):
    """torch's SDPA by cuDNN on the same tensors; keys with RoPE made before."""
    inputs, tokens = problem.inputs, problem.tokens
    keys, heads = problem.key_lens[0], problem.spec.heads
    query = torch.cat((inputs["q"][:tokens], inputs["q_pe"][:tokens]), -1)
    rope = inputs["k_pe"][:keys, None].expand(-1, heads, -1)
    key = torch.cat((inputs["k"][:keys], rope), -1)
    arguments = [t.transpose(0, 1)[None] for t in (query, key, inputs["v"][:keys])]

    def launch():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(
                *arguments, is_causal=problem.is_causal, scale=problem.spec.scale)

    return launch


def make_product():
    a, b = (torch.randn(8192, 8192, device="cuda").bfloat16() for _ in range(2))
    return Contestant("bf16 8192^3", lambda: a @ b.T, 2 * 8192 ** 3)


def make_mlac(path, problem):
    engine = Engine(path, 1, problem.tokens, problem.contexts[0])
    plan, sequences = engine.plan(problem.function, problem.query_lens, problem.contexts)

    def launch(keep=(engine, sequences)):
        problem.launch(plan)

    return Contestant(path.stem.removeprefix("speed-"), launch, problem.flops())


def check_row(problem, contestant):
    problem.output.fill_(float("nan"))
    problem.lse.fill_(float("nan"))
    contestant.launch()
    torch.cuda.synchronize()
    return check.errors_of(problem)


def run_row(directory, queries, keys, rounds):
    problem = Problem(layers.DEEPSEEK, [queries], None if keys is None else [keys])
    print(f"== {'causal' if keys is None else 'chunk'} {queries} x {keys or queries}, 128 heads",
          flush=True)
    contestants = [make_mlac(path, problem) for path in sorted(directory.glob("speed-*.mlac"))]
    failures = 0
    for contestant in contestants:
        errors = check_row(problem, contestant)
        failures += not errors.is_good
        print(f"  {contestant.name:24} {errors} {'ok' if errors.is_good else 'FAIL'}", flush=True)
    try:
        contestants.append(Contestant("cuDNN", make_cudnn(problem), problem.flops()))
    except RuntimeError as error:
        print(f"  cuDNN: {str(error)[:200]}")
    contestants.append(make_product())
    for index in range(rounds):
        # The first of a round runs on the coolest chip: take turns.
        for contestant in contestants[::1 if index % 2 else -1]:
            contestant.run()
    rates = {one.name: one.rates for one in contestants}
    ratio = lambda one, other: statistics.median(a / b for a, b in zip(one, rates[other]))
    for one in contestants:
        versus = f"{ratio(one.rates, 'cuDNN'):.3f} of cuDNN" if "cuDNN" in rates else ""
        print(f"  {one.name:24} {one.flops / one.rate * 1e6:10.1f} us {one.rate / 1e12:7.1f} TFLOP/s"
              f"  {ratio(one.rates, 'bf16 8192^3'):.3f} of bf16  {versus}", flush=True)
    return failures, {"queries": queries, "keys": keys, "rates": rates}


def run(directory, rounds, only):
    failures, rows = 0, []
    for queries, keys in ROWS:
        if only and not any(word in f"{queries}x{keys or 'causal'}" for word in only):
            continue
        failed, row = run_row(directory, queries, keys, rounds)
        failures += failed
        rows.append(row)
        torch.cuda.empty_cache()
    return failures, rows
