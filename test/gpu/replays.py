#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""C15: graphs of decode steps, replayed while lengths change, on a GPU.

    replays.py build DIR     # packages; needs mla-compile, no GPU
    replays.py run DIR       # needs a GPU and torch

A DeepSeek-V3 layer, with 128 heads and with the 16 of one rank in eight, over requests whose
lengths are lognormal, or one of which is far longer than the others; they grow by 1 to 500
tokens, come and go. Every output of a replay is compared, request by request, with a plain
step of the same tokens on a plan of its own. A plain plan's graph is replayed only where the
plan took the refill; both kinds of refill must occur.
"""

import os
import pathlib
import random
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path += [str(ROOT / "python"), str(ROOT / "bench"), str(ROOT / "bench/decode")]

import padded  # noqa: E402
import program  # noqa: E402

PLACES, LONGEST, ROUNDS = 64, 8000, 40
MOST_TOKENS = max(padded.CONTEXTS)  # of a step of padded.Engine
# Of the norm of a request's output: bf16, summed in another order.
ALLOWED = 0.02


def lognormal(generator, count):
    return [min(max(round(generator.lognormvariate(0, 1.2) * 700), 1), LONGEST)
            for _ in range(count)]


def skewed(generator, count):
    lengths = [generator.randint(1, 512) for _ in range(count)]
    lengths[generator.randrange(count)] = LONGEST
    return lengths


class Requests:
    """Sequences of random rows, and what happens to them."""

    def __init__(self, engine, generator):
        self.engine, self.generator = engine, generator
        self.filling, self.sequences = engine.plan(), []

    def grow(self, sequence, tokens):
        """Only plans: the cache's rows are random already."""
        for done in range(0, tokens, MOST_TOKENS):
            self.filling.fill([sequence], [min(tokens - done, MOST_TOKENS)], "prefill")

    def start(self, lengths):
        for sequence in self.sequences:
            sequence.free()
        self.sequences = [self.engine.sequence() for _ in lengths]
        for sequence, length in zip(self.sequences, lengths):
            self.grow(sequence, length)

    def change(self):
        """Each grows by 1 to 500 tokens, or ends and makes room for another."""
        for index, sequence in enumerate(self.sequences):
            tokens = self.generator.randint(1, 500)
            if len(sequence) + tokens > LONGEST or self.generator.random() < 0.1:
                sequence.free()
                self.sequences[index] = sequence = self.engine.sequence()
            self.grow(sequence, tokens)


class Machine:
    """A layer on the GPU, its tensors, and a plan that is never captured."""

    def __init__(self, path, heads):
        import torch
        from arrays import TorchArrays

        self.torch, self.arrays = torch, TorchArrays()
        self.engine = padded.Engine(path, heads, self.arrays).engine
        self.plain = self.engine.plan()
        self.hidden = self.arrays.random((PLACES, padded.HIDDEN), "bf16", 3, 1.0, 4.0)

    def new_output(self):
        return self.arrays.nan(self.hidden.shape, "bf16")

    def capture(self, plan, output):
        rows = plan.dim("num_tokens")
        launch = lambda: plan.run_bound(stream=self.arrays.stream(), hidden=self.hidden[:rows],
                                        output=output[:rows])
        launch()
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            launch()
        return graph

    def expected(self, sequences):
        """The same tokens by a plain step: the last token of each again."""
        for sequence in sequences:
            sequence.truncate(len(sequence) - 1)
        self.plain.fill(sequences, [1] * len(sequences), "decode")
        output, count = self.new_output(), len(sequences)
        self.plain.run_bound(stream=self.arrays.stream(), hidden=self.hidden[:count],
                             output=output[:count])
        return self.arrays.double(output[:count])

    def worst(self, output, sequences):
        """The largest relative error of a request."""
        got, expected = self.arrays.double(output[:len(sequences)]), self.expected(sequences)
        error = (((got - expected) ** 2).sum(1) / (expected ** 2).sum(1)).sqrt().max().item()
        return error if error == error else float("inf")  # NaN: not written


def check_padded(machine, generator, lengths_of):
    """One graph for every number of requests and all their lengths."""
    plan, output = machine.engine.plan(), machine.new_output()
    requests, graph, worst = Requests(machine.engine, generator), None, 0.0
    shape = padded.shape_of(PLACES, padded.MAX_SEQ_LEN)
    for round in range(ROUNDS):
        if round % 8 == 0:
            requests.start(lengths_of(generator, generator.randint(1, PLACES)))
        requests.change()
        count = len(requests.sequences)
        plan.fill(requests.sequences, [1] * count, "step", shape=shape)
        graph = graph or machine.capture(plan, output)
        output.fill_(float("nan"))
        graph.replay()
        worst = max(worst, machine.worst(output, requests.sequences))
        if not machine.torch.isnan(output[count:]).all():
            return float("inf"), "wrote rows of padding"
    requests.start([])
    return worst, f"{ROUNDS} replays of one graph"


def check_plain(machine, generator, lengths_of):
    """A graph of exact sizes: refills that it cannot serve are refused."""
    import mlac

    plan, output = machine.engine.plan(), machine.new_output()
    requests, worst, served = Requests(machine.engine, generator), 0.0, 0
    lengths, graph = lengths_of(generator, PLACES), None
    for round in range(ROUNDS):
        if round % 2:
            requests.change()
        else:
            requests.start(lengths)  # in other pages
        try:
            plan.fill(requests.sequences, [1] * PLACES, "decode")
        except mlac.WrongState:
            if round % 2 == 0:
                return float("inf"), "refused the lengths that were captured"
            continue
        served += 1
        graph = graph or machine.capture(plan, output)
        output.fill_(float("nan"))
        graph.replay()
        worst = max(worst, machine.worst(output, requests.sequences))
    requests.start([])
    what = f"{served} of {ROUNDS} refills taken"
    return (worst if served < ROUNDS else float("inf")), what


def check_device(machine, generator, lengths_of):
    """Lengths, tables and slots that only the device knows; one graph, planned for bounds."""
    torch, page = machine.torch, padded.PAGE
    plan, output = machine.engine.plan(), machine.new_output()
    requests, graph, worst = Requests(machine.engine, generator), None, 0.0
    columns = -(-padded.MAX_SEQ_LEN // page)
    make = lambda shape, dtype: torch.zeros(shape, dtype=dtype, device="cuda")
    arrays = {"seq_lens": make(PLACES, torch.int32),
              "block_table": make((PLACES, columns), torch.int32),
              "slot_mapping": make(PLACES, torch.int64), "positions": make(PLACES, torch.int64)}
    for round in range(ROUNDS):
        if round % 8 == 0:
            requests.start(lengths_of(generator, generator.randint(1, PLACES)))
        requests.change()
        sequences = requests.sequences
        machine.expected(sequences)  # takes the pages of what follows
        lengths = [len(s) for s in sequences] + [0] * (PLACES - len(sequences))
        pages = [s.pages for s in sequences] + [[]] * (PLACES - len(sequences))
        table = [own + [0] * (columns - len(own)) for own in pages]
        slots = [own[(n - 1) // page] * page + (n - 1) % page if n else -1
                 for n, own in zip(lengths, pages)]
        for name, values in (("seq_lens", lengths), ("block_table", table),
                             ("slot_mapping", slots),
                             ("positions", [max(n - 1, 0) for n in lengths])):
            arrays[name].copy_(torch.tensor(values, dtype=arrays[name].dtype))
        bounds = [min(max(n, 1) + generator.randint(0, 700), padded.MAX_SEQ_LEN) for n in lengths]
        plan.fill_device([1] * PLACES, bounds, function="step", **arrays)
        graph = graph or machine.capture(plan, output)
        output.fill_(float("nan"))
        graph.replay()
        worst = max(worst, machine.worst(output, sequences))
    requests.start([])
    return worst, f"{ROUNDS} replays of one graph"


def run(options):
    os.environ.setdefault("MLAC_RUNTIME_LIBRARY",
                          str((options.directory / "libmla_runtime.so").resolve()))
    is_right = True
    for heads in padded.HEADS:
        machine = Machine(options.directory / f"h{heads}.mlac", heads)
        for check in (check_padded, check_plain, check_device):
            for lengths_of in (lognormal, skewed):
                worst, what = check(machine, random.Random(heads), lengths_of)
                is_right &= worst <= ALLOWED
                print(f"  {heads:3} heads, {check.__name__[6:]:6} {lengths_of.__name__:9}: {what}, "
                      f"worst request {worst:.1e}", "ok" if worst <= ALLOWED else "WRONG",
                      flush=True)
        machine.engine.close()
        machine.torch.cuda.empty_cache()
    print("PASS" if is_right else "FAIL")
    return 0 if is_right else 1


def main():
    parser = program.make_parser(__doc__)
    parser.set_defaults(option=[])
    options = parser.parse_args()
    return padded.build(options) if options.command == "build" else run(options)


if __name__ == "__main__":
    sys.exit(main())
