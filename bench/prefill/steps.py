# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A package's steps on random tensors, and their meaning in float64."""

import mlac
import torch

# Rows behind the tensors' own: NaN where they are read, untouched where written.
GUARD_ROWS = 3


def random(shape, generator, factor=0.1, limit=1.0):
    """Of the size that the rules of comparison are for (bench/decode/reference.py)."""
    values = torch.randn(shape, generator=generator, device="cuda")
    return (values * factor).clamp(-limit, limit).bfloat16()


def with_guard(tensor, more=0):
    guard = torch.full((GUARD_ROWS + more, *tensor.shape[1:]), float("nan"), dtype=tensor.dtype,
                       device="cuda")
    return torch.cat((tensor, guard))


class Engine:
    """An engine for steps of at most so many tokens."""

    def __init__(self, path, max_requests, max_tokens, max_context):
        pages = (max_tokens + max_context) // 64 + 2 * max_requests + 1
        self.engine = mlac.Engine(mlac.Package(str(path)), mlac.Device("cuda"),
                                  max_num_requests=max_requests,
                                  max_num_tokens=max(max_tokens, max_context),
                                  max_seq_len=max_tokens + max_context, num_pages=pages,
                                  workspace_tokens=max(max_context, 64 * max_requests))
        self.engine.prepare()

    def plan(self, function, query_lens, contexts):
        """A filled plan, and the sequences that it needs."""
        sequences = [self.engine.sequence() for _ in query_lens]
        grown = [(s, n) for s, n in zip(sequences, contexts) if n]
        advancing, plan = self.engine.plan(), self.engine.plan()
        if grown:
            advancing.fill([s for s, _ in grown], [n for _, n in grown], "advance")
        plan.fill(sequences, query_lens, function)
        return plan, sequences

    def close(self):
        self.engine.close()


class Problem:
    """Tensors of one step. Without `contexts` causal, else over a chunk of context."""

    def __init__(self, spec, query_lens, contexts=None, seed=1, is_sharp=False):
        self.spec, self.query_lens = spec, query_lens
        self.is_causal = contexts is None
        self.contexts = contexts or [0] * len(query_lens)
        self.key_lens = query_lens if self.is_causal else contexts
        generator = torch.Generator("cuda").manual_seed(seed)
        tokens, keys, heads = sum(query_lens), sum(self.key_lens), spec.heads
        # The runtime takes inputs of as many rows as the step has tokens, or more.
        make = lambda rows, *widths, **factors: with_guard(
            random((rows, *widths), generator, **factors), max(0, tokens - rows))
        # Large queries: scores spread by more than 1, and the softmax has peaks.
        size = {"factor": 10.0, "limit": 40.0} if is_sharp else {"factor": 1.0, "limit": 4.0}
        self.inputs = {"q": make(tokens, heads, spec.nope, **size),
                       "k": make(keys, heads, spec.nope),
                       "v": make(keys, heads, spec.value)}
        if spec.rope:
            self.inputs["q_pe"] = make(tokens, heads, spec.rope, **size)
            self.inputs["k_pe"] = make(keys, spec.rope)
        self.tokens = tokens
        self.make_outputs()

    @property
    def function(self):
        return "causal" if self.is_causal else "chunk"

    def make_outputs(self):
        rows, heads = self.tokens + GUARD_ROWS, self.spec.heads
        nan = lambda shape, dtype: torch.full(shape, float("nan"), dtype=dtype, device="cuda")
        dtype = torch.bfloat16 if self.is_causal else torch.float32
        self.output = nan((rows, heads, self.spec.value), dtype)
        self.lse = nan((rows, heads), torch.float32)

    def launch(self, plan):
        plan.run_bound(stream=torch.cuda.current_stream(), output=self.output, lse=self.lse,
                       **self.inputs)

    def is_guard_touched(self):
        return not (self.output[self.tokens:].isnan().all() and self.lse[self.tokens:].isnan().all())

    def flops(self):
        return self.spec.flops(self.query_lens, self.key_lens, self.is_causal)

    def bytes(self):
        return self.spec.bytes(self.query_lens, self.key_lens, self.is_causal)

    def reference(self, request, rows, head):
        """Output [rows, value] and LSE [rows] of some rows of a request, in float64."""
        first, first_key = sum(self.query_lens[:request]), sum(self.key_lens[:request])
        keys = slice(first_key, first_key + self.key_lens[request])
        at = lambda name, index: self.inputs[name][index, head].double()
        scores = at("q", first + rows) @ at("k", keys).T
        if self.spec.rope:
            scores += at("q_pe", first + rows) @ self.inputs["k_pe"][keys].double().T
        scores *= self.spec.scale
        if self.is_causal:
            position = torch.arange(self.key_lens[request], device="cuda")
            scores.masked_fill_(position > rows[:, None], -float("inf"))
        if not scores.shape[1]:
            return (torch.zeros(len(rows), self.spec.value, dtype=torch.float64, device="cuda"),
                    torch.full((len(rows),), -float("inf"), dtype=torch.float64, device="cuda"))
        lse = torch.logsumexp(scores, 1)
        return torch.exp(scores - lse[:, None]) @ at("v", keys), lse
