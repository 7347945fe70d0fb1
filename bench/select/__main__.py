#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks the selection of the largest scores against a stable sort, and times it next to torch.topk.

    python3 bench/select build DIR                 # the package; needs mla-compile, no GPU
    python3 bench/select run DIR [--out FILE]      # correctness, then the table; needs a GPU
    python3 bench/select run DIR --check           # correctness alone
    python3 bench/select run DIR --check --device cpu   # the harness itself

B07: every K, rows that are hard to select from, lengths around K, few rows (which several programs
share) and many, every result entry by entry and twice.
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path += [str(ROOT / "python"), str(ROOT / "bench/decode"), str(ROOT / "bench")]

import module  # noqa: E402
import program  # noqa: E402
import turns  # noqa: E402

KINDS = ("gaussian", "zeros", "equal", "nan", "minus_inf", "rising", "falling", "bf16",
         "subnormal", "correlated")
# K, columns: short rows, such as are sampled, and such as are sampled by more values.
CHECKED = [(k, columns) for k in (1, 7, 64, 512, 1000, 2048, 4096) for columns in (8192, 30011)]
CHECKED += [(2048, 131072), (2048, 300001), (2048, 1048577)]
TIMED = [(128, 32768), (128, 131072), (1, 131072), (1, 1048576), (4096, 8192), (16, 8192),
         (1, 4096), (1, 8192), (128, 8192), (1, 32768)]
TIMED_K = 2048
COLD_BYTES = 200 << 20  # of inputs by turns: several times the L2 cache
POISON = 0x5A5A5A5A
MOST_ROWS = 4096

FUNCTION = """\
func.func @{name}(%s: tensor<?x{columns}xf32> {{mla.input = "scores"}},
                  %l: tensor<?xi32> {{mla.input = "lengths"}}, %batch: !mla.batch)
    -> (tensor<?x{k}xi32> {{mla.output = "positions"}}) {{
  %0 = mla.top_k %s lengths(%l : tensor<?xi32>) over %batch k {k}
      : tensor<?x{columns}xf32>, !mla.batch -> tensor<?x{k}xi32>
  return %0 : tensor<?x{k}xi32>
}}
"""


def name_of(k, columns):
    return f"top_{k}_of_{columns}"


def build_command(options):
    program.make_folder(options.directory, options.build_dir)
    source = options.directory / "select.mlir"
    pairs = sorted({*CHECKED, *((TIMED_K, columns) for _, columns in TIMED)})
    source.write_text(module.PLACEHOLDER + "".join(
        FUNCTION.format(name=name_of(k, columns), k=k, columns=columns) for k, columns in pairs))
    subprocess.run([options.build_dir / "bin/mla-compile", source, "--quiet",
                    f"--target={options.target}", *options.option,
                    "-o", options.directory / "select.mlac"], check=True)
    source.unlink()
    shutil.copy(options.build_dir / "lib/libmla_runtime.so", options.directory)
    return 0


class Selections:
    """An engine, and steps that select."""

    def __init__(self, options):
        import mlac
        import torch

        self.torch, self.device = torch, options.device
        self.engine = mlac.Engine(mlac.Package(str(options.directory / "select.mlac")),
                                  mlac.Device(self.device), max_num_requests=1,
                                  max_num_tokens=MOST_ROWS, max_seq_len=MOST_ROWS,
                                  num_pages=MOST_ROWS // 64 + 2)
        self.engine.prepare()
        self.plan, self.sequence = self.engine.plan(), None

    def fill(self, k, columns, rows, plan=None):
        if self.sequence is not None:
            self.sequence.free()
        self.sequence = self.engine.sequence()
        (plan or self.plan).fill([self.sequence], [rows], name_of(k, columns))

    def launch(self, plan, scores, lengths, positions):
        buffers = {"scores": scores, "lengths": lengths, "positions": positions}
        stream = None
        if self.device == "cpu":
            buffers = {name: tensor.numpy() for name, tensor in buffers.items()}
        else:
            stream = self.torch.cuda.current_stream()
        plan.run_bound(stream=stream, **buffers)

    def select(self, k, scores, lengths):
        """Positions, of rows that several programs may share."""
        torch = self.torch
        self.fill(k, scores.shape[1], len(scores))
        positions = torch.full((len(scores), k), POISON, dtype=torch.int32, device=self.device)
        self.engine.poison_workspace()
        self.launch(self.plan, scores, lengths, positions)
        return positions


def make_scores(torch, kind, rows, columns, device):
    x = torch.randn(rows, columns, device=device)
    coin = torch.rand(rows, columns, device=device)
    ramp = torch.arange(columns, device=device, dtype=torch.float32).expand(rows, columns)
    inf = float("inf")
    if kind == "zeros":
        return torch.where(coin < 0.5, torch.where(coin < 0.25, 0.0, -0.0), x)
    if kind == "equal":
        return torch.full_like(x, 0.25)
    if kind == "nan":
        return torch.where(coin < 0.995, float("nan"), torch.where(coin < 0.998, inf,
                           torch.where(coin < 0.999, -inf, x)))
    if kind == "minus_inf":
        return torch.where(coin < 0.5, -inf, x)
    if kind in ("rising", "falling"):
        return (ramp if kind == "rising" else -ramp).contiguous()
    if kind == "bf16":
        return x.bfloat16().float()
    if kind == "subnormal":
        return (coin * 10000 - 5000).int().abs().view(torch.float32) * torch.sign(x)
    if kind == "correlated":  # neighbours are near in value, over thousands of positions
        return torch.sin(ramp / 3000) + 0.01 * x
    return x


def expected(torch, k, scores, lengths):
    """By a stable sort of integers in the order of values."""
    bits = (scores + 0.0).view(torch.int32).long()
    bits = torch.where(scores == 0, 0, bits)  # where adding zero keeps the sign
    keys = torch.where(bits < 0, -(bits & 0x7FFFFFFF) - 1, bits)
    keys = torch.where(scores.isnan(), -(1 << 40), keys)
    columns = torch.arange(scores.shape[1], device=scores.device)
    keys = torch.where(columns < lengths[:, None], keys, -(1 << 41))
    order = torch.sort(keys, dim=1, descending=True, stable=True).indices[:, :k]
    order = torch.where(order < lengths[:, None], order, 1 << 40).sort(dim=1).values
    result = torch.full((len(scores), k), -1, dtype=torch.int32, device=scores.device)
    result[:, :order.shape[1]] = torch.where(order < 1 << 40, order, -1).int()
    return result


def lengths_of(k, columns):
    wanted = (0, 1, k - 1, k, k + 1, 2 * k, 2 * k + 77, columns // 2 + 1, columns - 1, columns)
    return sorted({length for length in wanted if 0 <= length <= columns})


def check_pair(selections, k, columns):
    """How many rows were compared, and the first that differ."""
    torch, device = selections.torch, selections.device
    compared, wrong = 0, []
    every = lengths_of(k, columns)
    if columns > 100000:
        every = [k + 1, columns // 2 + 1, columns]
    for kind in KINDS:
        lengths = torch.tensor(every, dtype=torch.int32, device=device)
        scores = make_scores(torch, kind, len(every), columns, device)
        wanted = expected(torch, k, scores, lengths)
        batches = [range(len(every)), [len(every) - 1], [len(every) - 1, 0, len(every) // 2]]
        if columns <= 8192 and device != "cpu":  # so many rows that each has one small program
            batches.append([i % len(every) for i in range(200)])
        for batch in batches:
            picked = torch.tensor(list(batch), device=device)
            rows, sizes = scores[picked].contiguous(), lengths[picked].contiguous()
            first = selections.select(k, rows, sizes)
            second = selections.select(k, rows, sizes)
            compared += len(picked)
            off = (first != wanted[picked]).any(dim=1) | (second != first).any(dim=1)
            wrong += [(kind, len(picked), int(sizes[i])) for i in off.nonzero().flatten().tolist()]
    return compared, wrong


def check(options):
    selections, failures, compared = Selections(options), 0, 0
    pairs = CHECKED if options.device != "cpu" else [p for p in CHECKED if p[1] <= 131072]
    for k, columns in pairs:
        count, wrong = check_pair(selections, k, columns)
        compared += count
        failures += len(wrong)
        if wrong:
            print(f"  top {k} of {columns}: {len(wrong)} of {count} rows differ, such as "
                  f"{wrong[:6]} (kind, rows, length)", flush=True)
    print(f"  {compared} rows, {failures} differ from the stable sort or from themselves")
    return failures


def sets_of(torch, selections, rows, columns, count):
    """Launches by mlac and by torch on tensors of their own."""
    ours, torchs, unsorted = [], [], []
    for _ in range(count):
        scores = torch.randn(rows, columns, device=selections.device)
        lengths = torch.full((rows,), columns, dtype=torch.int32, device=selections.device)
        positions = torch.empty(rows, TIMED_K, dtype=torch.int32, device=selections.device)
        ours.append(lambda s=scores, l=lengths, p=positions:
                    selections.launch(selections.plan, s, l, p))
        torchs.append(lambda s=scores: torch.topk(s, TIMED_K, dim=1))
        unsorted.append(lambda s=scores: torch.topk(s, TIMED_K, dim=1, sorted=False))
    return {"mlac": ours, "torch": torchs, "torch unsorted": unsorted}


def time_shape(selections, rows, columns, rounds):
    torch, results = selections.torch, {}
    selections.fill(TIMED_K, columns, rows)
    bytes_read = rows * columns * 4
    for heat, count in (("hot", 1), ("cold", max(2, -(-COLD_BYTES // bytes_read)))):
        count = min(count, 64)
        contestants = [turns.Contestant(name, launches) for name, launches
                       in sets_of(torch, selections, rows, columns, count).items()]
        turns.run_rounds(contestants, rounds)
        results[heat] = {one.name: one.times for one in contestants}
        torch.cuda.empty_cache()
    return results


def time_all(options):
    selections, table = Selections(options), []
    for rows, columns in TIMED:
        results = time_shape(selections, rows, columns, options.rounds)
        line = f"  [{rows:4}, {columns:7}]"
        for heat, times in results.items():
            us = {name: statistics.median(values) * 1e6 for name, values in times.items()}
            line += f"  {heat}: {us['mlac']:7.1f} us, {turns.ratio(times, 'torch'):5.2f} times " \
                    f"torch.topk ({us['torch']:6.1f}, unsorted {us['torch unsorted']:6.1f})"
        print(line, flush=True)
        table.append({"rows": rows, "columns": columns, "k": TIMED_K, "times": results})
    return table


def run_command(options):
    for folder in (options.directory, options.build_dir / "lib"):
        if (folder / "libmla_runtime.so").exists():
            os.environ.setdefault("MLAC_RUNTIME_LIBRARY",
                                  str((folder / "libmla_runtime.so").resolve()))
    failures = 0 if options.time else check(options)
    if not options.check and options.device != "cpu":
        table = time_all(options)
        if options.out:
            options.out.write_text(json.dumps(table, indent=1))
    print(f"FAIL: {failures} rows" if failures else "PASS")
    return 1 if failures else 0


def main():
    parser = program.make_parser(__doc__, prog="bench/select")
    parser.add_argument("--target", default="sm_90a", help="of mla-compile, at build")
    parser.add_argument("--option", action="append", default=[], help="for mla-compile")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--check", action="store_true", help="only correctness")
    parser.add_argument("--time", action="store_true", help="only times")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=pathlib.Path, help="raw times as JSON")
    options = parser.parse_args()
    return globals()[options.command + "_command"](options)


if __name__ == "__main__":
    program.run(main)
