#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times the forms of a decode step that engines capture: plain, any mix, padded to a shape.

    python3 bench/padded.py build DIR    # packages; needs mla-compile, no GPU
    python3 bench/padded.py run DIR      # builds what is missing; needs a GPU and torch

A step is a DeepSeek-V3 layer from hidden states to output, one new token a request, in a CUDA
graph, with 128 heads and with the 16 of one rank in eight. Contestants alternate in one process:
`decode`, `step` of decodes alone, and `step` padded: to a shape that the batch fills, to one of
twice as many places, and half of the requests in the shape of all. Requests are forks of the same
sequences, and all outputs are compared. The engine and the shape allow for more tokens a request
than there are, as an engine that captures once must.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "python"), str(ROOT / "bench"), str(ROOT / "bench/decode")]

import program  # noqa: E402
from chunked import ALLOWED, CONFIG, HIDDEN, PAGE, WIDTH, random_weights  # noqa: E402
from turns import Contestant, markdown, ratio, run_rounds, sustain  # noqa: E402

HEADS, BATCHES, CONTEXTS = (128, 16), (1, 16, 64, 128), (1024, 4096)
MAX_SEQ_LEN = 8192
FORMS = ("decode", "step", "padded", "half-filled", "half of them")
PADDED_FORMS = FORMS[2:]
# At most so many times as slow: step of decode, a full shape of decode, half-filled ones of full.
STEP, PADDED, HALF = 1.02, 1.04, 1.0
HEAD = ("heads", "batch", "context", "decode µs", "step", "padded, full", "in twice the places",
        "half of them", "step / decode", "padded / decode", "twice / full", "half / full",
        "padded / decode, sustained", "difference", "")


def shape_of(places, max_seq_len):
    """The shape of a step of decodes alone: so many places of one token each."""
    return {"num_requests": places, "num_tokens": places, "max_query_len": 1,
            "max_seq_len": max_seq_len, "num_decodes": places, "num_decode_tokens": places}


class Form:
    """One way to plan a step, with sequences of its own; padded ones have so many places."""

    def __init__(self, name, engine, sequences, places, max_seq_len):
        self.name, self.count = name, len(sequences)
        self.sequences, self.plan = sequences, engine.plan()
        shape = shape_of(places, max_seq_len) if name in PADDED_FORMS else None
        self.plan.fill(sequences, [1] * self.count, "decode" if name == "decode" else "step",
                       shape=shape)

        self.places = places if shape else self.count

    def bind(self, arrays, hidden, dtype):
        """Its tensors: of all places, also those that stay empty."""
        self.arrays, self.hidden = arrays, hidden[:self.places]
        self.output = arrays.nan(self.hidden.shape, dtype)

    def launch(self):
        self.plan.run_bound(stream=self.arrays.stream(), hidden=self.hidden, output=self.output)

    def difference(self, reference):
        """Of the outputs' norm from the plain step's; infinite where a place without a
        request was written."""
        double = self.arrays.double
        if not self.arrays.xp.isnan(self.output[self.count:]).all():
            return float("inf")
        a, b = double(reference.output[:self.count]), double(self.output[:self.count])
        return float(((a - b) ** 2).sum() / (a ** 2).sum()) ** 0.5


class Batch:
    """Forms of one step over the same cached tokens."""

    def __init__(self, engine, arrays, pool, page, batch, context, max_seq_len):
        """pool [pages, page, width]: the cache's rows."""
        self.engine, self.page, self.context, self.batch = engine, page, context, batch
        self.filling = engine.plan()
        kept = (context - 1) // page * page  # whole pages, which forks share
        self.roots = [self.longer(engine.sequence(), kept) for _ in range(batch)]
        names = FORMS if batch > 1 else FORMS[:-1]  # one request has no half
        self.forms = [self.make(name, kept, max_seq_len) for name in names]
        self.repeat_last_page(arrays, pool)

    def longer(self, sequence, tokens):
        """Only plans: the cache's rows are random already."""
        if tokens:
            self.filling.fill([sequence], [tokens], "prefill")
        return sequence

    def make(self, name, kept, max_seq_len):
        roots = self.roots[:self.batch // 2] if name == "half of them" else self.roots
        forks = [self.longer(root.fork(kept), self.context - 1 - kept) for root in roots]
        places = 2 * self.batch if name == "half-filled" else self.batch
        return Form(name, self.engine, forks, places, max_seq_len)

    def last_pages(self, arrays, form):
        table = arrays.ints(form.plan.metadata_view("block_table"))
        table = table.reshape(form.plan.dim("num_requests"), -1)
        return table[:form.count, (self.context - 1) // self.page]

    def repeat_last_page(self, arrays, pool):
        """Each fork's own page gets the rows of the first form's."""
        first = self.last_pages(arrays, self.forms[0])
        for form in self.forms[1:]:
            pool[self.last_pages(arrays, form)] = pool[first[:form.count]]

    def bind(self, arrays, hidden_size, dtype):
        hidden = arrays.random((2 * self.batch, hidden_size), dtype, 3, 1.0, 4.0)
        for form in self.forms:
            form.bind(arrays, hidden, dtype)

    def free(self):
        for form in self.forms:
            for sequence in form.sequences:
                sequence.free()
        for root in self.roots:
            root.free()


def derive(result):
    """Adds ratios, and whether all targets are met, to the raw numbers."""
    times = result["times"]
    slower = lambda name, base, times=times: ratio(times, name, base)
    result.update(step_ratio=slower("step", "decode"), padded_ratio=slower("padded", "decode"),
                  twice_ratio=slower("half-filled", "padded"),
                  half_ratio=slower("half of them", "padded"),
                  sustained_ratio=slower("padded", "decode", result["sustained"]))
    limits = ((result["step_ratio"], STEP), (result["padded_ratio"], PADDED),
              (result["twice_ratio"], HALF), (result["half_ratio"], HALF))
    is_met = all(value is None or value <= limit for value, limit in limits)
    result["verdict"] = ("WRONG" if not result["difference"] <= result["allowed"]
                         else "met" if is_met else "missed")


def cells(result):
    text = lambda value, form: form.format(value) if value is not None else ""
    us = lambda name: text(result["seconds"].get(name) and result["seconds"][name] * 1e6, "{:.1f}")
    return (result["heads"], result["batch"], result["context"], *map(us, FORMS),
            *(text(result[f"{name}_ratio"], "{:.3f}")
              for name in ("step", "padded", "twice", "half", "sustained")),
            f"{result['difference']:.1e}", result["verdict"])


def build(options):
    folder = options.directory
    program.make_folder(folder, options.build_dir)
    config, path = json.loads(CONFIG.read_text()), folder / "config.json"
    for heads in HEADS:
        config.update(num_attention_heads=heads, num_key_value_heads=heads)
        path.write_text(json.dumps(config))
        subprocess.run([options.build_dir / "bin/mla-compile", path, "--target=sm_90a", "--quiet",
                        "--functions=prefill,decode,step", *options.option,
                        "-o", folder / f"h{heads}.mlac"], check=True)
    path.unlink()
    shutil.copy(options.build_dir / "lib/libmla_runtime.so", folder)


class Engine:
    """A package on the GPU with random weights and a random cache."""

    def __init__(self, path, heads, arrays):
        import mlac
        import torch

        requests, longest = max(BATCHES), max(CONTEXTS)
        # The sequences, and for each form of them a last page of its own and the next.
        pages = requests * (longest // PAGE + 1 + 2 * len(FORMS)) + 1
        self.engine = mlac.Engine(mlac.Package(str(path)), mlac.Device("cuda"),
                                  max_num_requests=2 * requests, max_num_tokens=longest,
                                  max_seq_len=MAX_SEQ_LEN, num_pages=pages,
                                  workspace_tokens=MAX_SEQ_LEN)
        self.engine.bind({name: tensor.cpu().view(torch.uint16).numpy()
                          for name, tensor in random_weights(heads).items()})
        self.engine.prepare()
        pool = arrays.rows_at(self.engine.cache_data(), pages * PAGE, WIDTH, "bf16")
        for piece in pool.split(1 << 20):
            piece.normal_().clamp_(-3, 3)
        self.pool = pool.view(pages, PAGE, WIDTH)


def run_batch(engine, arrays, heads, batch, context, options):
    forms = Batch(engine.engine, arrays, engine.pool, PAGE, batch, context, MAX_SEQ_LEN)
    forms.bind(arrays, HIDDEN, "bf16")
    contestants = [Contestant(form.name, [form.launch]) for form in forms.forms]
    run_rounds(contestants, options.rounds)
    if options.sustain:
        sustain(contestants, options.sustain)
    first = forms.forms[0]
    result = {"heads": heads, "batch": batch, "context": context, "allowed": ALLOWED,
              "difference": max(form.difference(first) for form in forms.forms),
              "times": {one.name: one.times for one in contestants},
              "seconds": {one.name: one.median for one in contestants},
              "sustained": {one.name: one.sustained for one in contestants if one.sustained},
              "dims": {form.name: form.plan.dims for form in forms.forms}}
    derive(result)
    print("  ", *cells(result), flush=True)
    del contestants
    forms.free()
    return result


def run(options):
    if not options.directory.exists():
        build(options)
    library = options.directory / "libmla_runtime.so"
    os.environ.setdefault("MLAC_RUNTIME_LIBRARY", str(library.resolve()))
    import torch
    from arrays import TorchArrays

    arrays, results = TorchArrays(), []
    for heads in options.heads:
        engine = Engine(options.directory / f"h{heads}.mlac", heads, arrays)
        for batch in options.batch:
            for context in CONTEXTS:
                results.append(run_batch(engine, arrays, heads, batch, context, options))
        engine.engine.close()
        torch.cuda.empty_cache()
    print(markdown(HEAD, map(cells, results)))
    print(f"(targets: step <= {STEP} of decode, padded <= {PADDED}, half-filled shapes <= {HALF} of full)")
    if options.out:
        options.out.write_text(json.dumps({"device": torch.cuda.get_device_name(),
                                           "rows": results}, indent=1))
    return int(any(result["verdict"] == "WRONG" for result in results))


def main():
    parser = program.make_parser(__doc__)
    parser.add_argument("--option", action="append", default=[], help="for mla-compile")
    parser.add_argument("--heads", nargs="*", type=int, default=HEADS, choices=HEADS)
    parser.add_argument("--batch", nargs="*", type=int, default=BATCHES)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--sustain", type=float, default=0.8, metavar="SECONDS",
                        help="that each contestant runs in turns without a pause; 0: not at all")
    parser.add_argument("--out", type=pathlib.Path, help="raw numbers as JSON")
    options = parser.parse_args()
    return build(options) if options.command == "build" else run(options)


if __name__ == "__main__":
    program.run(main)
