# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mlac's packages, FlashAttention-3, cuDNN and a matrix product, alternating in one process.

Each is a CUDA graph. torch offers cuDNN over ragged lengths only by an operator that cannot
be captured and takes 50 to 80 ms for each call, so these rows are without it. Peers take K
with the rope columns copied to every head; that copy is timed apart.
"""

import itertools

import ceilings
import check
import layers
import rows
import torch
import vllm_ops
from steps import Engine, Problem
from torch.nn.attention import SDPBackend, sdpa_kernel
from turns import Contestant, run_rounds, sustain


class PeerTensors:
    """A problem's tensors as peers take them: rope columns behind the others, in every head."""

    def __init__(self, problem):
        inputs, spec = problem.inputs, problem.spec
        self.problem, self.scale = problem, spec.scale
        tokens, keys = problem.tokens, sum(problem.key_lens)
        self.query = torch.cat((inputs["q"][:tokens], inputs["q_pe"][:tokens]), -1)
        self.values = inputs["v"][:keys]
        self.nope, self.rope = inputs["k"][:keys], inputs["k_pe"][:keys]
        self.keys = torch.empty(keys, spec.heads, spec.nope + spec.rope, dtype=torch.bfloat16,
                                device="cuda")
        self.copy()
        self.starts, self.longest = self.starts_of(problem.query_lens), max(problem.query_lens)
        self.key_starts, self.longest_keys = None, None  # causal
        if not problem.is_causal:
            self.key_starts = self.starts_of(problem.key_lens)
            self.longest_keys = max(problem.key_lens)

    @staticmethod
    def starts_of(lengths):
        ends = itertools.accumulate(lengths, initial=0)
        return torch.tensor(list(ends), dtype=torch.int32, device="cuda")

    def copy(self):
        """What a peer needs before it can start, and mlac does not."""
        nope = self.nope.shape[-1]
        self.keys[..., :nope].copy_(self.nope)
        self.keys[..., nope:].copy_(self.rope[:, None].expand(-1, self.keys.shape[1], -1))


class Fa3:
    def __init__(self, ops, tensors):
        self.call = vllm_ops.Fa3Prefill(ops, tensors.query, tensors.keys, tensors.values,
                                        tensors.starts, tensors.longest, tensors.scale,
                                        tensors.key_starts, tensors.longest_keys)
        self.contestant = Contestant("fa3", [self.call.launch])

    def results(self):
        return self.call.output, self.call.lse


class Cudnn:
    """torch's SDPA by cuDNN over equal lengths."""

    def __init__(self, tensors):
        self.problem = tensors.problem
        batch = len(self.problem.query_lens)
        arguments = [tensor.unflatten(0, (batch, -1)).transpose(1, 2)
                     for tensor in (tensors.query, tensors.keys, tensors.values)]

        def launch():
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                self.output = torch.nn.functional.scaled_dot_product_attention(
                    *arguments, is_causal=self.problem.is_causal, scale=tensors.scale)

        self.contestant = Contestant("cudnn", [launch])

    def results(self):
        # SDPA gives no LSE: the outputs alone are compared.
        return self.output.transpose(1, 2).flatten(0, 1), self.problem.lse


def make_peers(problem, tensors, fa3):
    """What can run; a peer that refuses the shape is named with its reason."""
    made = []
    makers = []
    if fa3:
        makers.append((Fa3, (fa3, tensors)))
    if len(set(problem.query_lens)) == len(set(problem.key_lens)) == 1:
        makers.append((Cudnn, (tensors,)))
    for make, arguments in makers:
        try:
            made.append(make(*arguments))
        except RuntimeError as error:
            print(f"  {make.__name__} cannot: {str(error)[:200]}", flush=True)
    return made


def make_product():
    size = (rows.PRODUCT_SIZE,) * 2
    a, b = (torch.randn(size, device="cuda").bfloat16() for _ in range(2))
    return Contestant(rows.PRODUCT, [lambda: a @ b.T])


def make_mlac(path, problem, name):
    # Equal shares of the workspace hold each request's keys, so that there is one chunk.
    engine = Engine(path, len(problem.query_lens), problem.tokens,
                    max(problem.contexts) * len(problem.contexts))
    plan, sequences = engine.plan(problem.function, problem.query_lens, problem.contexts)

    def launch(keep=(engine, sequences)):
        problem.launch(plan)

    return Contestant(name, [launch])


def checked_requests(lengths):
    """First, last, longest and shortest."""
    return {0, len(lengths) - 1, lengths.index(max(lengths)), lengths.index(min(lengths))}


def errors_of(problem, contestant):
    problem.output.fill_(float("nan"))
    problem.lse.fill_(float("nan"))
    contestant.replay(is_timed=False)
    return check.errors_of(problem, checked_requests(problem.query_lens))


def names_of(directory, heads):
    """Packages by contestant: the plain one is "mlac", a variant has its name behind it."""
    found = {}
    for path in sorted(directory.glob(f"speed-h{heads}-*.mlac")):
        variant = path.stem.split("-", 2)[2]
        found["mlac" if variant == "auto" else f"mlac:{variant}"] = path
    return found


def run_row(directory, row, fa3, options):
    problem = Problem(layers.TIMED[row.heads], list(row.query_lens),
                      None if row.context is None else list(row.context))
    own = [make_mlac(path, problem, name) for name, path in names_of(directory, row.heads).items()]
    errors = {one.name: errors_of(problem, one) for one in own}
    tensors = PeerTensors(problem)
    peers = make_peers(problem, tensors, fa3)
    beside = [Contestant("copy of k_pe", [tensors.copy]), make_product()]
    contestants = [*own, *(peer.contestant for peer in peers)]
    run_rounds([*contestants, *beside], options.rounds)
    if options.sustain:
        sustain(contestants, options.sustain)
    requests = checked_requests(problem.query_lens)
    for peer in peers:
        errors[peer.contestant.name] = check.errors_of(problem, requests, *peer.results())
    result = {"name": row.name, "heads": row.heads, "query_lens": row.query_lens,
              "context": row.context, "flops": problem.flops(), "bytes": problem.bytes(),
              "is_right": all(errors[one.name].is_good for one in own),
              "errors": {name: str(one) for name, one in errors.items()},
              "times": {one.name: one.times for one in [*contestants, *beside]},
              "seconds": {one.name: one.median for one in [*contestants, *beside]},
              "sustained": {one.name: one.sustained for one in contestants if one.sustained}}
    off = [f"{name} is off: {one}" for name, one in errors.items() if not one.is_good]
    print(f"  {row.name:28} " + "  ".join(f"{name} {seconds * 1e6:.1f} us" for name, seconds
                                          in result["seconds"].items()), *off, sep="\n      ",
          flush=True)
    return result


def run(directory, options):
    fa3 = vllm_ops.load(vllm_ops.FA3, options.fa3)
    if not fa3:
        print("fa3 is not installed: its columns stay empty (bench/README.md)")
    stream = ceilings.ReadStream()
    results = {"device": torch.cuda.get_device_name(),
               "ceilings": [ceilings.measure_ceilings(stream)], "rows": []}
    for row in rows.ROWS:
        if options.only and not any(word in row.name for word in options.only):
            continue
        results["rows"].append(run_row(directory, row, fa3, options))
        torch.cuda.empty_cache()
    results["ceilings"].append(ceilings.measure_ceilings(stream))
    rows.print_table(results)
    return sum(not row["is_right"] for row in results["rows"]), results
