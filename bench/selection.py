#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times an indexer's scores and the selection of the 2048 largest as one step, next to torch.topk.

    python3 bench/selection.py build DIR      # a package; needs mla-compile, no GPU
    python3 bench/selection.py run DIR        # needs a GPU and torch

Decodes over 131072 keys of each request, one CUDA graph over sets of pages that do not fit into L2 together; contestants
alternate in one process: scores and selection by mlac, scores by mlac and torch.topk (unsorted), and each part alone. DeepGEMM is not
run: its published times of the scores stand beside torch.topk's of the run. The positions are compared with torch.topk's of the same scores.
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench"), str(ROOT / "bench/decode")]

import compositions  # noqa: E402
import program  # noqa: E402
import scores  # noqa: E402
from turns import Contestant, run_rounds, sustain  # noqa: E402

TOP_K, KEYS = 2048, 131072
# Published times on an H200, us: DeepGEMM's scores, and these with torch.topk; what is wanted of the latter.
SCORES, BOTH = {1: 7.7, 16: 73.0, 128: 546.0}, {1: 60.0, 16: 153.0, 128: 800.0}
WANTED = {1: 3.6, 16: 1.75, 128: 1.35}
SET_BYTES, MOST_SETS = 240 << 20, 32


def build(options):
    text = scores.POOL.format(**scores.SIZES) + \
        scores.STEP.format(name="scores", query=1, **scores.SIZES) + \
        scores.SELECT.format(name="select", k=TOP_K, **scores.SIZES)
    compositions.compile_text(options, text, "selection")
    compositions.copy_runtime(options)


def make_launches(index, batch, sets):
    """Of each contestant, one for each set of pages; and how many rows of the last set differ from torch.topk's."""
    import torch

    ours, mixed, alone, topk = [], [], [], []
    for _ in range(sets):
        table = scores.random_table(torch, index.pages, batch, index.keys)
        values = index.scores_of(batch)
        positions = torch.full((batch, TOP_K), -1, dtype=torch.int32, device=index.device)
        largest = (torch.empty(batch, TOP_K, device=index.device),
                   torch.empty(batch, TOP_K, dtype=torch.int64, device=index.device))
        select = index.launch_of("select", table, positions=positions)
        score = index.launch_of("scores", table, scores=values)
        pick = lambda values=values, largest=largest: torch.topk(
            values, TOP_K, dim=1, sorted=False, out=largest)
        ours.append(select)
        alone.append(score)
        topk.append(pick)
        mixed.append(lambda score=score, pick=pick: (score(), pick()))
        for launch in (select, score, pick):
            launch()
    wanted = largest[1].sort(dim=1).values.int()
    wrong = int((positions != wanted).any(dim=1).sum())
    return {"mlac": ours, "mlac's scores, torch.topk": mixed, "scores": alone,
            "torch.topk": topk}, wrong


def run_batch(index, batch, options):
    keys = batch * index.keys * scores.ROW_BYTES
    sets = 1 if options.device == "cpu" else max(1, min(MOST_SETS, SET_BYTES // keys))
    launches, wrong = make_launches(index, batch, sets)
    row = {"batch": batch, "keys": index.keys, "sets": sets, "wrong": wrong}
    if options.device == "cpu":
        print(row, flush=True)
        return row
    contestants = [Contestant(name, each) for name, each in launches.items()]
    run_rounds(contestants, options.rounds)
    if options.sustain:
        sustain(contestants, options.sustain)
    times = compositions.times_of(contestants)
    row["us"] = {name: one._asdict() for name, one in times.items()}
    line = f"{batch:4} x {index.keys}, {sets} sets: {compositions.describe_times(times)}"
    line += f"; torch.topk behind them {times[list(times)[1]].cool / times['mlac'].cool:.2f}"
    if batch in SCORES and index.keys == KEYS:
        peer = SCORES[batch] + times["torch.topk"].cool
        line += f"; with DeepGEMM's published {SCORES[batch]} us {peer:.1f}: " \
            f"{peer / times['mlac'].cool:.2f}; published with torch.topk {BOTH[batch]}: " \
            f"{BOTH[batch] / times['mlac'].cool:.2f}, wanted {WANTED[batch]}"
    print(line + (f"  {wrong} rows WRONG" if wrong else ""), flush=True)
    return row


def run(options):
    compositions.use_runtime(options)
    import mlac
    import torch

    device, rows, most = mlac.Device(options.device), [], max(options.batch)
    pages = torch.empty(most * (options.keys // scores.PAGE), scores.PAGE * scores.ROW_BYTES,
                        dtype=torch.uint8, device=options.device)
    scores.fill_keys(torch, pages)
    index = scores.IndexSteps(options.directory / "selection.mlac", device, pages, most,
                              options.keys)
    print(device.info["name"], flush=True)
    for batch in options.batch:
        rows.append(run_batch(index, batch, options))
    if options.out:
        options.out.write_text(json.dumps({"device": device.info["name"], "rows": rows}, indent=1))
    wrong = sum(row["wrong"] for row in rows)
    print(f"FAIL: {wrong} rows" if wrong else "PASS")
    return int(bool(wrong))


def main():
    parser = program.make_parser(__doc__)
    program.add_step_options(parser, [1, 16, 128])
    parser.add_argument("--keys", type=int, default=KEYS, help="a multiple of 64")
    options = parser.parse_args()
    return build(options) if options.command == "build" else run(options)


if __name__ == "__main__":
    program.run(main)
