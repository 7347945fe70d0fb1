# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The loop of an inference engine in Python: continuous batching with one layer on the CPU.

Requests arrive with prompts of different lengths, every step runs what is there, decodes in
front, and a request that has its tokens leaves. In the end each request's last output is computed
once more, alone and in one prefill, and compared.

    python engine.py LAYER.safetensors layers.0.self_attn/weights/

Needs mla-compile (MLAC_COMPILER, or on PATH) and NumPy.
"""

import sys
from dataclasses import dataclass

import mlac
import numpy as np

# (prompt length, the step in which it arrives, tokens that it wants)
REQUESTS = [(5, 0, 4), (9, 0, 2), (3, 2, 3)]


@dataclass
class Request:
    name: int
    sequence: mlac.Sequence
    hidden: np.ndarray  # [prompt + wanted, hidden_size]: as if the other layers had made them
    prompt: int
    last: np.ndarray | None = None  # output of the last token

    @property
    def query_len(self) -> int:
        return 1 if len(self.sequence) else self.prompt

    @property
    def done(self) -> bool:
        return len(self.sequence) == len(self.hidden)


def run_step(plan, requests):
    """One step of everybody: plan once for all layers, then run each layer."""
    query_lens = [request.query_len for request in requests]
    order = mlac.arrange_batch(query_lens)
    requests, query_lens = order.apply(requests), order.apply(query_lens)
    starts = [len(request.sequence) for request in requests]
    hidden = np.concatenate([request.hidden[start:start + count] for request, start, count
                             in zip(requests, starts, query_lens)])
    plan.fill([request.sequence for request in requests], query_lens)
    output = plan.run(hidden)
    for request, end in zip(requests, np.cumsum(query_lens)):
        request.last = np.array(output[end - 1])


def main(layer, prefix):
    package = mlac.compile(layer, target="cpu", dtype="f32")
    engine = mlac.Engine(package, mlac.Device("cpu"), max_num_requests=len(REQUESTS),
                         max_seq_len=32)
    engine.bind_safetensors(layer, prefix=prefix, allow_extra=True)
    engine.prepare()
    plan, random = engine.plan(), np.random.default_rng(0)
    running, finished, step = [], [], 0
    while len(finished) < len(REQUESTS):
        for name, (prompt, arrives, wanted) in enumerate(REQUESTS):
            if arrives == step:
                shape = (prompt + wanted - 1, engine.hidden_size)
                running.append(Request(name, engine.sequence(),
                                       random.standard_normal(shape, np.float32), prompt))
        run_step(plan, running)
        for request in [request for request in running if request.done]:
            print(f"step {step}: request {request.name} leaves with {len(request.hidden)} tokens")
            request.sequence.free()  # its pages are free again
            running.remove(request)
            finished.append(request)
        step += 1
    worst = 0.0
    for request in finished:
        alone = engine.sequence()
        plan.fill([alone], [len(request.hidden)])
        worst = max(worst, float(np.abs(plan.run(request.hidden)[-1] - request.last).max()))
        alone.free()
    print(f"worst difference from one prefill alone: {worst:.1e}")
    return 0 if worst < 1e-5 else 1


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
