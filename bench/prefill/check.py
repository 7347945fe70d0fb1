# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ragged batches against float64: outputs, LSE, and what must stay untouched."""

import layers
import reference
import torch
from steps import Engine, Problem

# Around tiles of 64 and 128 rows and blocks of 128 keys.
CAUSAL = ([1], [63], [64], [65], [127, 128, 129], [300, 5, 1, 700], [0, 257, 64], [2048, 130],
          [1] * 40, [1000])
# (queries, keys of the chunk)
CHUNKS = (([1], [1]), ([70, 3, 130], [300, 0, 128]), ([64, 128], [129, 2000]), ([257], [64]),
          ([5, 1], [0, 3]), ([5, 200], [4000, 3000]), ([130], [4096]), ([1, 64], [1, 4095]))
MOST_ROWS = 96  # of a request, compared with float64


def sample(count):
    """All rows, or the first, the last and some between."""
    if count <= MOST_ROWS:
        return torch.arange(count, device="cuda")
    edges = [0, 1, 62, 63, 64, 65, count - 1, count - 2, max(count // 128 * 128, 1) - 1,
             min(count // 128 * 128, count - 1)]
    more = torch.randint(count, (MOST_ROWS - len(edges),)).tolist()
    return torch.tensor(sorted(set(edges + more)), device="cuda")


def errors_of(problem, requests=None, output=None, lse=None):
    """The worst errors of the sampled rows of all heads (of large problems: some), of the
    problem's results or of a peer's for the same rows."""
    worst = reference.Errors()
    output = problem.output if output is None else output
    lse = problem.lse if lse is None else lse
    heads = range(problem.spec.heads)
    if problem.flops() > 1e12:
        heads = (0, 1, problem.spec.heads - 1)
    for request, count in enumerate(problem.query_lens):
        if not count or (requests is not None and request not in requests):
            continue
        first, rows = sum(problem.query_lens[:request]), sample(count)
        got = [(output[first + rows, head].double(), lse[first + rows, head].double(),
                *problem.reference(request, rows, head)) for head in heads]
        stack = [torch.stack([one[i] for one in got], 1) for i in range(4)]
        worst = worst.join(reference.compare(torch, *stack))
    return worst


def report(name, problem, errors):
    touched = problem.is_guard_touched()
    is_right = errors.is_good and not touched
    print(f"  {name:52} {errors} {'rows behind written' if touched else ''}"
          f"{'ok' if is_right else 'FAIL'}", flush=True)
    return is_right


def run_case(engine, name, problem, requests=None):
    plan, _sequences = engine.plan(problem.function, problem.query_lens, problem.contexts)
    problem.launch(plan)
    torch.cuda.synchronize()
    return report(name, problem, errors_of(problem, requests))


def run_spec(directory, spec):
    """Failures of one package."""
    engine = Engine(directory / f"check-{spec.name}.mlac", 40, 4096, 8192)
    print(f"{spec.name}", flush=True)
    results = []
    for index, lens in enumerate(CAUSAL):
        problem = Problem(spec, lens, seed=index, is_sharp=bool(index % 2))
        results.append(run_case(engine, f"causal {lens}"[:52], problem))
    for index, (lens, keys) in enumerate(CHUNKS):
        problem = Problem(spec, lens, keys, seed=index, is_sharp=bool(index % 2))
        results.append(run_case(engine, f"chunk {lens} x {keys}"[:52], problem))
    # A neighbour's NaN stay its own.
    problem = Problem(spec, [130, 70, 200])
    for name in ("k", "v") + (("k_pe",) if spec.rope else ()):
        problem.inputs[name][130:200] = float("nan")
    results.append(run_case(engine, "causal, the second of three is NaN", problem, (0, 2)))
    engine.close()
    return results.count(False)


def run(directory, only):
    return sum(run_spec(directory, spec) for spec in layers.CHECKED
               if not only or any(word in spec.name for word in only))
