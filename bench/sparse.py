#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks and times attention over lists of rows, DeepSeek-V3.2's decode and prompts, next to FlashMLA.

    python3 bench/sparse.py build DIR                # packages; needs mla-compile, no GPU
    python3 bench/sparse.py run DIR [--out FILE]     # needs a GPU and torch

Rows of 656 bytes (fp8_ds_mla) or of 576 bf16 elements at random places of a pool several times the L2 cache; each step of
a graph has lists of its own. Outputs of some tokens are compared with float64. FlashMLA (its sparse
decode takes 656 bytes and 64 or 128 heads; fewer are padded to 64) gets its metadata ahead of the graph, as in an engine, and its merge is
in its time, as ours is. Prompts are 4096 tokens whose lists are of the first 8,192 or 32,768 rows; FlashMLA's sparse prefill
takes rows of bf16. `floor` is, of decodes, gathered rows, queries and outputs once at the read stream of the same run, of prompts FLOPs at
a bf16 product's rate.
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

import formats  # noqa: E402
import program  # noqa: E402
import turns  # noqa: E402

LATENT, ROPE, PAGE = 512, 64, 64
SCALE = (LATENT + ROPE) ** -0.5
# Of FlashMLA's kernel; fewer are padded.
PEER_HEADS = (64, 128)
HEADS, TOP_K, BATCHES = (128, 64, 32, 16, 8), 2048, (1, 16, 64, 128)
# Of a prompt: tokens, and rows that its lists are of.
PROMPT, PROMPT_KEYS = 4096, (8192, 32768)
# Nobody tuned for these: (heads, top-k, tokens).
OTHERS = ((128, 512, 128), (128, 1000, 33), (48, 2048, 64), (64, 640, 200), (20, 2048, 100))
FORMATS = {"fp8_ds_mla": ', format = "fp8_ds_mla"', "bf16": ""}
POOL_ROWS, SET_BYTES, MOST_SETS, CHECKED = 1 << 20, 240 << 20, 32, 6
# Replays that must give the same bits: a race of the kernels shows in some of them.
REPEATS = 20
ALLOWED = 8e-3  # relative error: bf16 results, and keys that the peer rounds to bf16

FUNCTION = """
func.func @top_{k}(%q: tensor<?x{heads}x{latent}xbf16> {{mla.input = "q"}},
    %r: tensor<?x{heads}x{rope}xbf16> {{mla.input = "rope"}}, %rows: tensor<?x{k}xi32> {{mla.input = "rows"}},
    %batch: !mla.batch<query_len = 1>, %cache: !cache)
    -> (tensor<?x{heads}x{latent}xbf16> {{mla.output = "output"}}) {{
  %o = mla.sparse_attention query(%q, %r : tensor<?x{heads}x{latent}xbf16>, tensor<?x{heads}x{rope}xbf16>)
      rows(%rows : tensor<?x{k}xi32>) over %cache, %batch : !cache, !mla.batch<query_len = 1>
      scale {scale!r} -> tensor<?x{heads}x{latent}xbf16>
  return %o : tensor<?x{heads}x{latent}xbf16>
}}
"""
CACHE = """!cache = !mla.cache<page_size = {page}, fields = [latent: {latent}, rope: {rope}], element = bf16{format}>
"""

Row = collections.namedtuple("Row", "heads k tokens keys")


def make_rows(only, checks=("decode", "prompt")):
    rows = []
    if "decode" in checks:
        rows += [Row(heads, TOP_K, batch, POOL_ROWS) for heads in HEADS for batch in BATCHES]
        rows += [Row(*other, POOL_ROWS) for other in OTHERS]
    if "prompt" in checks:
        rows += [Row(heads, TOP_K, PROMPT, keys) for heads in HEADS for keys in PROMPT_KEYS]
    return [row for row in rows if not only or row.heads in only]


def peer_format(row):
    """What FlashMLA's kernel for such a row reads."""
    return "bf16" if row.tokens == PROMPT else "fp8_ds_mla"


def module_of(heads, form):
    sizes = {"heads": heads, "latent": LATENT, "rope": ROPE, "page": PAGE, "scale": SCALE,
             "format": FORMATS[form]}
    widths = sorted({row.k for row in make_rows([heads])})
    return CACHE.format(**sizes) + "".join(FUNCTION.format(k=k, **sizes) for k in widths)


def build_command(options):
    program.make_folder(options.directory, options.build_dir)
    for heads in sorted({row.heads for row in make_rows(options.only)}):
        for form in FORMATS:
            source = options.directory / "module.mlir"
            source.write_text(module_of(heads, form))
            subprocess.run([options.build_dir / "bin/mla-compile", source, "--quiet",
                            "--target=sm_90a", "-o",
                            options.directory / f"{form}-{heads}.mlac"], check=True)
            source.unlink()
    shutil.copy(options.build_dir / "lib/libmla_runtime.so", options.directory)
    return 0


class Problem:
    """Queries, and sets of lists over a pool."""

    def __init__(self, row, device, sets):
        import torch

        self.row, self.torch = row, torch
        generator = torch.Generator(device=device).manual_seed(1)
        self.query = (3 * torch.randn((row.tokens, row.heads, LATENT + ROPE), device=device,
                                      generator=generator)).bfloat16()
        self.lists = [torch.randint(0, row.keys, (row.tokens, row.k), generator=generator,
                                    device=device, dtype=torch.int32) for _ in range(sets)]

    def error(self, output, pool, form):
        """The worst of some tokens of the last set."""
        torch, worst = self.torch, 0.0
        tokens = {round(i * (self.row.tokens - 1) / (CHECKED - 1)) for i in range(CHECKED)}
        for token in tokens:
            rows = pool[self.lists[-1][token].long()]
            keys = (formats.decode(torch, rows, form) if form != "bf16" else rows).double()
            weights = (self.query[token].double() @ keys.T * SCALE).softmax(dim=1)
            wanted, got = weights @ keys[:, :LATENT], output[token].double()
            worst = max(worst, float((got - wanted).norm() / wanted.norm()))
        return worst if worst == worst else float("inf")


class Layer:
    """A package's engine over a pool, and its plans."""

    def __init__(self, path, heads, pool):
        import mlac

        tokens = max(row.tokens for row in make_rows([heads]))
        self.engine = mlac.Engine(mlac.Package(str(path)), mlac.Device("cuda"),
                                  max_num_requests=tokens, max_num_tokens=tokens,
                                  max_seq_len=PAGE, external_pools=1)
        self.engine.prepare()
        self.engine.bind_pool(pool.view(-1, PAGE, pool.shape[1]))

    def launches(self, problem):
        """And the output that they write."""
        import numpy as np
        import torch

        tokens = problem.row.tokens
        plan = self.engine.plan()
        plan.fill_tables([1] * tokens, [1] * tokens, np.zeros((tokens, 1), np.int32),
                         np.full(tokens, -1, np.int64), f"top_{problem.row.k}")
        query = problem.query[..., :LATENT].contiguous()
        rope = problem.query[..., LATENT:].contiguous()
        output = torch.full_like(query, float("nan"))
        return output, [lambda rows=rows: plan.run_bound(
            stream=torch.cuda.current_stream(), q=query, rope=rope, rows=rows, output=output)
            for rows in problem.lists]


def peer_prompts(ops, problem, pool):
    """FlashMLA's sparse prefill."""
    row, holder = problem.row, {}
    heads = next(count for count in PEER_HEADS if count >= row.heads)
    query = problem.query.new_zeros((row.tokens, heads, LATENT + ROPE))
    query[:, :row.heads] = problem.query
    keys = pool[:row.keys, None]

    def launch(rows):
        result = ops.sparse_prefill_fwd(query, keys, rows, SCALE, LATENT, None, None)
        holder["output"] = result[0][:, :row.heads]

    return holder, [lambda rows=rows[:, None]: launch(rows) for rows in problem.lists]


def peer_launches(ops, problem, pool):
    """FlashMLA's, and where its last output is."""
    import torch
    import vllm_ops

    row = problem.row
    if row.tokens == PROMPT:
        return peer_prompts(ops, problem, pool)
    heads = next(count for count in PEER_HEADS if count >= row.heads)
    query = problem.query.new_zeros((row.tokens, 1, heads, LATENT + ROPE))
    query[:, 0, :row.heads] = problem.query
    cache = pool.view(torch.float8_e4m3fn).view(-1, PAGE, 1, pool.shape[1])
    # Its lists are of whole blocks of 64; -1 names no row.
    width = -(-row.k // 64) * 64
    lists = [torch.nn.functional.pad(rows, (0, width - row.k), value=-1)[:, None].contiguous()
             for rows in problem.lists]
    attention, holder = vllm_ops.FlashMlaLists(ops, query, cache, SCALE), {}

    def launch(rows):
        holder["output"] = attention.decode(rows)[:, 0, :row.heads]

    return holder, [lambda rows=rows: launch(rows) for rows in lists]


def count_differing(contestant, output):
    """Of replays of the same inputs, those whose bits differ from the first one's."""
    import torch

    contestant.replay(is_timed=False)
    first, count = output.clone(), 0
    for _ in range(REPEATS):
        contestant.replay(is_timed=False)
        count += not torch.equal(first, output)
    return count


def is_right(result):
    return max(result["errors"].values()) <= ALLOWED and not any(result["differing"].values())


def run_row(row, layers, pools, ops, options):
    problem = Problem(row, pools["bf16"].device,
                      max(1, min(MOST_SETS, SET_BYTES // (row.tokens * row.k * 656))))
    errors, contestants, outputs = {}, [], {}
    for name, (form, layer) in layers.items():
        output, launches = layer.launches(problem)
        outputs[name] = output
        launches[-1]()
        errors[name] = problem.error(output, pools[form], form)
        contestants.append(turns.Contestant(name, launches))
    if ops:
        form = peer_format(row)
        holder, launches = peer_launches(ops, problem, pools[form])
        launches[-1]()
        errors["FlashMLA"] = problem.error(holder["output"], pools[form], form)
        contestants.append(turns.Contestant("FlashMLA", launches))
    turns.run_rounds(contestants, options.rounds)
    if options.sustain:
        turns.sustain(contestants, options.sustain)
    differing = {name: count_differing(one, outputs[name])
                 for one in contestants if (name := one.name) in outputs}
    return {**row._asdict(), "errors": errors, "differing": differing,
            "times": {one.name: one.times for one in contestants},
            "sustained": {one.name: one.sustained for one in contestants}}


def describe(result, measured):
    row = Row(result["heads"], result["k"], result["tokens"], result["keys"])
    moved = row.tokens * (row.k * 656 + row.heads * 2 * (2 * LATENT + ROPE))
    flops = 2 * row.tokens * row.k * row.heads * (2 * LATENT + ROPE)
    is_prompt = row.tokens == PROMPT
    floor = flops / measured["matmul_flops_per_s"] if is_prompt else \
        moved / measured["read_bytes_per_s"]
    text = f"{row.heads:4} heads, top {row.k:5}, {row.tokens:4} tokens of {row.keys:7} rows, " \
           f"floor {floor * 1e6:6.1f} us:"
    medians = {name: statistics.median(times) for name, times in result["times"].items()}
    for name, seconds in medians.items():
        text += f"  {name} {seconds * 1e6:6.1f} ({result['errors'][name]:.1e})"
    form = peer_format(row)
    ours = medians[form]
    text += f"  {floor / ours:.2f} of floor"
    if "FlashMLA" in medians:
        text += f", {medians['FlashMLA'] / ours:.2f} of FlashMLA"
        lasting = {name: statistics.median(times)
                   for name, times in result["sustained"].items() if times}
        if lasting:
            text += f", sustained {lasting['FlashMLA'] / lasting[form]:.2f}"
    return text + ("" if is_right(result) else f"  WRONG {result['differing']}")


def make_pools(torch):
    coded = torch.empty((POOL_ROWS, 656), dtype=torch.uint8, device="cuda")
    for piece in coded.split(formats.PIECE):
        formats.fill_codes(torch, piece, "fp8_ds_mla")
    plain = torch.empty((POOL_ROWS, LATENT + ROPE), dtype=torch.bfloat16, device="cuda")
    return {"fp8_ds_mla": coded, "bf16": plain.normal_().mul_(0.1)}


def run_on_gpu(options):
    import torch

    import ceilings
    import vllm_ops

    torch.manual_seed(1)
    measured = ceilings.measure_ceilings(ceilings.ReadStream())
    print(measured, flush=True)
    ops, pools, results = vllm_ops.load(vllm_ops.FLASHMLA, options.flashmla), make_pools(torch), []
    for heads in dict.fromkeys(row.heads for row in make_rows(options.only, options.check)):
        layers = {}
        for folder in (options.directory, *options.also):
            for form in FORMATS:
                path = folder / f"{form}-{heads}.mlac"
                name = form if folder == options.directory else f"{folder.name}:{form}"
                if path.exists():
                    layers[name] = (form, Layer(path, heads, pools[form]))
        for row in make_rows([heads], options.check) if layers else []:
            results.append(run_row(row, layers, pools, ops, options))
            print(describe(results[-1], measured), flush=True)
    return {"device": torch.cuda.get_device_name(), "ceilings": measured, "rows": results}


def run_command(options):
    library = options.directory / "libmla_runtime.so"
    os.environ.setdefault("MLAC_RUNTIME_LIBRARY", str(library.resolve()))
    results = run_on_gpu(options)
    if options.out:
        options.out.write_text(json.dumps(results))
    wrong = [row for row in results["rows"] if not is_right(row)]
    print("PASS" if not wrong else f"FAIL: {len(wrong)} rows")
    return int(bool(wrong))


def main():
    parser = program.make_parser(__doc__)
    parser.add_argument("--only", nargs="+", type=int, metavar="HEADS")
    parser.add_argument("--check", nargs="+", choices=("decode", "prompt"),
                        default=["decode", "prompt"], help="parts (both)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sustain", type=float, default=0.8, metavar="SECONDS",
                        help="that each contestant runs in turns without a pause; 0: not")
    parser.add_argument("--flashmla", metavar="LIBRARY", help="as bench/decode's")
    parser.add_argument("--also", nargs="*", type=pathlib.Path, default=[],
                        help="more folders of packages that run in the same rounds")
    parser.add_argument("--out", type=pathlib.Path, help="raw times as JSON")
    options = parser.parse_args()
    return build_command(options) if options.command == "build" else run_command(options)


if __name__ == "__main__":
    program.run(main)
