#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times attention over a window and compressed entries, DeepSeek-V4's, beside simple schedules and FlashMLA.

    python3 bench/shared_keys.py build DIR                # packages; needs mla-compile, no GPU
    python3 bench/shared_keys.py run DIR [--out FILE]     # needs a GPU and torch

Rows of 512 bf16 elements are keys and values. A token's window is a run of rows of one pool, its entries are random
rows of another; every set of lists, of which a graph has several, names other rows. Outputs of some tokens are compared
with float64. FlashMLA has 64 or 128 heads (fewer are padded); its decode reads records of 584 bytes, codes with RoPE keys
of bf16, about half of our bytes, and its prefill, which has one list, rows of bf16. Its metadata is made ahead of the graph. The floor is the larger of two times: gathered rows, queries and outputs once at the read stream, and FLOPs at a bf16
product's rate, both of the same run.
"""

import collections
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "bench"), str(ROOT / "bench/decode")]

import program  # noqa: E402

WIDTH, WINDOW, PAGE = 512, 128, 64
SCALE = WIDTH ** -0.5
HEADS, SCHEDULES = (16, 64, 128), ("auto", "simple")
# Entries of a token: none, all of 8,192 and 131,072 tokens at 128 each, and what an indexer selects.
KINDS = {"window": 0, "ratio128_8k": 64, "ratio4": 512, "ratio128_131k": 1024}
BATCHES, PROMPT = (1, 16, 64, 128), 4096
POOL_ROWS, SET_BYTES, MOST_SETS, CHECKED = 1 << 19, 480 << 20, 64, 6
ALLOWED = 8e-3  # relative error: bf16 weights and results
PEER_HEADS = (64, 128)
# A record of FlashMLA's: codes of 448 columns, 64 columns of bf16, and a scale for each 64 codes.
CODED, GROUP, RECORD_BYTES, SCALE_BYTES = 448, 64, 576, 8

HEAD = """
!q = tensor<?x{heads}x{width}xbf16>
!cache = !mla.cache<page_size = {page}, fields = [latent: {width}], element = bf16, rope_order = interleaved>
"""
STEP = """
func.func @{name}(%q: !q {{mla.input = "q"}}, %rows: tensor<?x{window}xi32> {{mla.input = "rows"}},
    %len: tensor<?xi32> {{mla.input = "lengths"}}, %sink: tensor<{heads}xf32> {{mla.input = "sink"}}{arguments},
    %batch: !mla.batch<query_len = 1>, %near: !cache, %far: !cache {{mla.pool = "far"}}) -> (!q {{mla.output = "output"}}) {{
  %o = mla.sparse_attention query(%q : !q) rows(%rows : tensor<?x{window}xi32>) lengths(%len : tensor<?xi32>)
      sink(%sink : tensor<{heads}xf32>) over %near, %batch : !cache, !mla.batch<query_len = 1>
      {beside} scale {scale!r} -> !q
  return %o : !q
}}
"""
ARGUMENTS = """,
    %others: tensor<?x{entries}xi32> {{mla.input = "others"}}, %counts: tensor<?xi32> {{mla.input = "counts"}}"""
BESIDE = "beside(%others, %counts, %far : tensor<?x{entries}xi32>, tensor<?xi32>, !cache)"

Row = collections.namedtuple("Row", "kind heads tokens")


def module_of(heads):
    sizes = {"heads": heads, "width": WIDTH, "page": PAGE, "window": WINDOW, "scale": SCALE}
    text = HEAD.format(**sizes)
    for name, entries in KINDS.items():
        parts = {"arguments": ARGUMENTS, "beside": BESIDE} if entries else \
                {"arguments": "", "beside": ""}
        parts = {key: part.format(entries=entries) for key, part in parts.items()}
        text += STEP.format(name=name, **sizes, **parts)
    return text


def build_command(options):
    program.make_folder(options.directory, options.build_dir)
    for heads in HEADS:
        source = options.directory / "module.mlir"
        source.write_text(module_of(heads))
        for schedule in SCHEDULES:
            subprocess.run([options.build_dir / "bin/mla-compile", source, "--quiet",
                            f"--schedule={schedule}", "--target=sm_90a", "-o",
                            options.directory / f"{schedule}-{heads}.mlac"], check=True)
        source.unlink()
    shutil.copy(options.build_dir / "lib/libmla_runtime.so", options.directory)
    return 0


class Problem:
    """Queries, and sets of lists over two pools."""

    def __init__(self, row, pools, sets):
        import torch

        self.row, self.pools, self.torch = row, pools, torch
        entries, device, count = KINDS[row.kind], pools[0].device, len(pools[0])
        generator = torch.Generator(device=device).manual_seed(1)

        def draw(*shape):
            return torch.randint(0, count - WINDOW, shape, generator=generator, device=device,
                                 dtype=torch.int32)

        shape = (row.tokens, row.heads, WIDTH)
        self.query = (3 * torch.randn(shape, generator=generator, device=device)).bfloat16()
        self.sink = torch.randn(row.heads, generator=generator, device=device)
        self.output = torch.full_like(self.query, float("nan"))
        run = torch.arange(WINDOW, device=device, dtype=torch.int32)
        self.lists = []
        for _ in range(sets):
            lists = {"rows": draw(row.tokens, 1) + run}
            if entries:
                lists["others"] = draw(row.tokens, entries)
            self.lists.append(lists)
        self.lengths = torch.full((row.tokens,), WINDOW, device=device, dtype=torch.int32)
        self.counts = torch.full_like(self.lengths, entries)

    def inputs(self, lists):
        inputs = {"q": self.query, "sink": self.sink, "lengths": self.lengths,
                  "output": self.output, **lists}
        return {**inputs, "counts": self.counts} if "others" in lists else inputs

    def error(self, output=None, pools=None):
        """The worst of some tokens of the last set."""
        torch, worst = self.torch, 0.0
        output = self.output if output is None else output
        pools = self.pools if pools is None else pools
        tokens = {round(i * (self.row.tokens - 1) / (CHECKED - 1)) for i in range(CHECKED)}
        for token in tokens:
            names = zip(("rows", "others"), pools)
            keys = torch.cat([pool[self.lists[-1][name][token].long()].double()
                              for name, pool in names if name in self.lists[-1]])
            scores = self.query[token].double() @ keys.T * SCALE
            sum_of_all = torch.logaddexp(scores.logsumexp(1), self.sink.double())
            wanted = (scores - sum_of_all[:, None]).exp() @ keys
            got = output[token].double()
            worst = max(worst, float((got - wanted).norm() / wanted.norm()))
        return worst if worst == worst else float("inf")


class Layer:
    """A package's engine over the pools, and its plans."""

    def __init__(self, options, schedule, heads, pools):
        import mlac

        self.tokens = max(*BATCHES, PROMPT)
        self.engine = mlac.Engine(
            mlac.Package(str(options.directory / f"{schedule}-{heads}.mlac")),
            mlac.Device("cuda"), max_num_requests=self.tokens,
            max_num_tokens=self.tokens, max_seq_len=PAGE, external_pools=3)
        self.engine.prepare()
        for index, pool in enumerate(pools):
            self.engine.bind_pool(pool.view(-1, PAGE, WIDTH), index=index)

    def launches(self, problem):
        import numpy as np
        import torch

        tokens = problem.row.tokens
        table, slots = np.zeros((tokens, 2), np.int32), np.full(tokens, -1, np.int64)
        plan = self.engine.plan()
        plan.fill_tables([1] * tokens, [1] * tokens, table, slots, problem.row.kind,
                         pools=[(table, slots)])
        return [lambda lists=lists: plan.run_bound(stream=torch.cuda.current_stream(),
                                             **problem.inputs(lists))
                for lists in problem.lists]


class Records:
    """A pool as FlashMLA's decode reads it: pages of records, then of their scales."""

    def __init__(self, pool):
        import torch

        groups = pool[:, :CODED].float().view(len(pool), -1, GROUP)
        most = torch.finfo(torch.float8_e4m3fn).max
        power = (groups.abs().amax(2) / most).log2().ceil()
        codes = (groups / power.exp2()[..., None]).to(torch.float8_e4m3fn)
        self.keys = torch.cat([(codes.float() * power.exp2()[..., None]).flatten(1),
                               pool[:, CODED:].float()], 1)
        records = torch.cat([codes.flatten(1).view(torch.uint8),
                             pool[:, CODED:].contiguous().view(torch.uint8)], 1)
        scales = torch.nn.functional.pad((power + 127).to(torch.uint8),
                                         (0, SCALE_BYTES - power.shape[1]))
        self.pages = torch.cat([part.view(-1, PAGE * part.shape[1]) for part in (records, scales)],
                               1).view(torch.float8_e4m3fn).view(
                                   -1, PAGE, 1, RECORD_BYTES + SCALE_BYTES)


def pad_heads(problem):
    heads = next(count for count in PEER_HEADS if count >= problem.row.heads)
    query = problem.query.new_zeros((problem.row.tokens, heads, WIDTH))
    query[:, :problem.row.heads] = problem.query
    sink = problem.sink.new_zeros(heads)
    sink[:problem.row.heads] = problem.sink
    return query, sink


def peer_prompts(ops, problem, both):
    """FlashMLA's sparse prefill of one list over rows of one memory, `both` pools."""
    import torch

    query, sink = pad_heads(problem)
    holder, half = {}, len(both) // 2

    def launch(rows):
        result = ops.sparse_prefill_fwd(query, both[:, None], rows, SCALE, WIDTH, sink, None)
        holder["output"] = result[0][:, :problem.row.heads]

    lists = [torch.cat([lists["rows"], *(lists[name] + half for name in ("others",)
                                         if name in lists)], 1)[:, None].contiguous()
             for lists in problem.lists]
    return holder, [lambda rows=rows: launch(rows) for rows in lists]


def peer_decodes(ops, problem, records):
    """FlashMLA's decode over two lists of records."""
    import vllm_ops

    query, sink = pad_heads(problem)
    has_far, holder = "others" in problem.lists[0], {}
    attention = vllm_ops.FlashMlaLists(
        ops, query[:, None], records[0].pages, SCALE, problem.lengths, sink,
        records[1].pages if has_far else None, problem.counts if has_far else None, "V4")

    def launch(lists):
        far = lists["others"][:, None] if has_far else None
        output = attention.decode(lists["rows"][:, None], far)
        holder["output"] = output[:, 0, :problem.row.heads]

    return holder, [lambda lists=lists: launch(lists) for lists in problem.lists]


def floor_of(row, measured):
    """Seconds for the bytes and for the FLOPs."""
    keys = row.tokens * (WINDOW + KINDS[row.kind])
    moved = keys * 2 * WIDTH + 4 * row.tokens * row.heads * WIDTH
    return (moved / measured["read_bytes_per_s"],
            keys * row.heads * 4 * WIDTH / measured["matmul_flops_per_s"])


def make_rows(only):
    rows = [Row(kind, heads, batch) for heads in HEADS for kind in KINDS for batch in BATCHES]
    rows += [Row(kind, heads, PROMPT) for heads in HEADS for kind in ("window", "ratio4")]
    return [row for row in rows if not only or {row.kind, str(row.heads)} & set(only)]


def make_peer(ops, problem, both, records):
    """FlashMLA as a contestant, and its error."""
    import turns

    is_prompt = problem.row.tokens == PROMPT
    holder, launches = peer_prompts(ops, problem, both) if is_prompt else \
        peer_decodes(ops, problem, records)
    launches[-1]()
    keys = None if is_prompt else [one.keys for one in records]
    error = problem.error(holder["output"], keys)  # ahead of the graph, whose output is another
    return turns.Contestant("FlashMLA", launches), error


def run_row(row, layers, both, records, ops, options):
    import turns

    pools = both.chunk(2)

    row_bytes = row.tokens * (WINDOW + KINDS[row.kind]) * 2 * WIDTH
    problem = Problem(row, pools, max(1, min(MOST_SETS, SET_BYTES // row_bytes)))
    errors, contestants = {}, []
    for schedule, layer in layers.items():
        launches = layer.launches(problem)
        problem.output.fill_(float("nan"))
        launches[-1]()
        errors[schedule] = problem.error()
        contestants.append(turns.Contestant(schedule, launches))
    if ops:
        peer, errors["FlashMLA"] = make_peer(ops, problem, both, records)
        contestants.append(peer)
    turns.run_rounds(contestants, options.rounds)
    if options.sustain:
        turns.sustain(contestants, options.sustain)
    return {**row._asdict(), "errors": errors,
            "times": {one.name: one.times for one in contestants},
            "sustained": {one.name: one.sustained for one in contestants}}


def describe(result, measured):
    row = Row(result["kind"], result["heads"], result["tokens"])
    floor = max(floor_of(row, measured))
    text = f"{row.kind:14} {row.heads:4} heads {row.tokens:5} tokens, floor {floor * 1e6:7.1f} us:"
    medians = {name: statistics.median(times) for name, times in result["times"].items()}
    for name, seconds in medians.items():
        text += f"  {name} {seconds * 1e6:7.1f} us ({floor / seconds:.2f})" \
                f" error {result['errors'][name]:.1e}"
    for name in ("simple", "FlashMLA"):
        if name in medians:
            text += f"  {medians[name] / medians['auto']:.2f} of {name}"
    lasting = {name: statistics.median(times) for name, times in result["sustained"].items() if times}
    if "FlashMLA" in lasting:
        text += f", sustained {lasting['FlashMLA'] / lasting['auto']:.2f}"
    return text + ("" if max(result["errors"].values()) <= ALLOWED else "  WRONG")


def run_on_gpu(options):
    import torch

    import ceilings
    import vllm_ops

    measured = ceilings.measure_ceilings(ceilings.ReadStream())
    print(measured, flush=True)
    torch.manual_seed(1)
    ops = vllm_ops.load(vllm_ops.FLASHMLA, options.flashmla)
    both = torch.randn(2 * POOL_ROWS, WIDTH, device="cuda").bfloat16()
    pools, results = both.chunk(2), []
    records = [Records(pool) for pool in pools] if ops else []
    for heads in HEADS:
        layers = {schedule: Layer(options, schedule, heads, pools) for schedule in options.schedules
                  if (options.directory / f"{schedule}-{heads}.mlac").exists()}
        for row in make_rows(options.only) if layers else []:
            if row.heads != heads:
                continue
            results.append(run_row(row, layers, both, records, ops, options))
            print(describe(results[-1], measured), flush=True)
    return {"device": torch.cuda.get_device_name(), "ceilings": measured, "rows": results}


def run_command(options):
    library = options.directory / "libmla_runtime.so"
    os.environ.setdefault("MLAC_RUNTIME_LIBRARY", str(library.resolve()))
    results = run_on_gpu(options)
    if options.out:
        options.out.write_text(json.dumps(results))
    wrong = [row for row in results["rows"] if max(row["errors"].values()) > ALLOWED]
    print("PASS" if not wrong else f"FAIL: {len(wrong)} rows beyond {ALLOWED}")
    return int(bool(wrong))


def main():
    parser = program.make_parser(__doc__)
    parser.add_argument("--only", nargs="+", metavar="WORD", help="kinds of rows, numbers of heads")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sustain", type=float, default=0.8, metavar="SECONDS",
                        help="that each contestant runs in turns without a pause; 0: not")
    parser.add_argument("--flashmla", metavar="LIBRARY", help="as bench/decode's")
    parser.add_argument("--schedules", nargs="+", choices=SCHEDULES, default=SCHEDULES)
    parser.add_argument("--out", type=pathlib.Path, help="raw times as JSON")
    options = parser.parse_args()
    return build_command(options) if options.command == "build" else run_command(options)


if __name__ == "__main__":
    program.run(main)
