#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks and times a decode step's products of few rows next to torch.matmul.

    python3 bench/few_rows.py build DIR               # a package of each; needs mla-compile, no GPU
    python3 bench/few_rows.py run DIR [--out FILE]    # correctness, then the table; needs a GPU and torch
    python3 bench/few_rows.py run DIR --also OTHER    # with another build's in the same rounds

Projections, and products of groups of heads, as models have them and as no model has. Steps go over sets
of weights that no L2 cache holds, in a CUDA graph; every result is compared with float64.
"""

import json
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / folder) for folder in ("python", "bench/decode", "bench")]

import compositions  # noqa: E402
import module  # noqa: E402
import program  # noqa: E402

# name: columns and depth, or groups of heads, columns and depth.
PRODUCTS = {
    "v3_query_up": (24576, 1536), "v3_output": (7168, 16384), "v3_down": (2112, 7168),
    "v3_query_latents": (128, 512, 128), "v3_values": (128, 128, 512),
    "v4_down": (1536, 4096), "v4_query_up": (32768, 1024), "v4_groups": (8, 1024, 4096),
    "v4_output": (4096, 8192), "v4_compressor": (4096, 4096),
    "glm_query_up": (5120, 768), "glm_output": (2048, 5120), "longcat_output": (6144, 8192),
    "odd_up": (11520, 1408), "odd_output": (3584, 5632), "odd_groups": (20, 192, 448),
}
ROWS = (1, 16, 48, 64, 96, 128)
# Weights of all sets are several times what the L2 cache holds, and one card holds them.
SET_BYTES, MOST_SETS = 400 << 20, 64
ALLOWED = 2 ** -8  # of the largest result: one rounding to bf16


def shapes_of(product):
    """Of a row of the operand, the weight, a row of the result."""
    *groups, columns, depth = PRODUCTS[product]
    return [*groups, depth], [*groups, columns, depth], [*groups, columns]


def function_text(product):
    def tensor(sizes):
        return f"tensor<{'x'.join(map(str, sizes))}xbf16>"

    x, w, y = shapes_of(product)
    op = "head_project" if len(w) == 3 else "project"
    types = tensor(["?", *x]), tensor(w), tensor(["?", *y])
    return (f'func.func @{product}(%x: {types[0]} {{mla.input = "x"}}, '
            f'%w: {types[1]} {{mla.weight = "{product}"}}) -> ({types[2]} {{mla.output = "y"}}) {{\n'
            f"  %y = mla.{op} %x, %w : {types[0]}, {types[1]} -> {types[2]}\n"
            f"  return %y : {types[2]}\n}}\n")


def build(options):
    for product in options.only:
        compositions.compile_text(options, module.PLACEHOLDER + function_text(product), product)
    compositions.copy_runtime(options)


class Product:
    """Sets of one product's weights, and an engine of each folder's package that has them."""

    def __init__(self, product, options):
        import torch

        x, w, y = shapes_of(product)
        elements = torch.Size(w).numel()
        self.count = max(2, min(MOST_SETS, -(-SET_BYTES // (2 * elements))))
        self.name, self.device, self.rows = product, options.device, max(options.rows)
        torch.manual_seed(len(product))
        self.weights = [(torch.randn(*w, device=self.device) / x[-1] ** 0.5).bfloat16()
                        for _ in range(self.count)]
        self.x = torch.randn(self.rows, *x, device=self.device).bfloat16()
        self.y_shape = y
        self.engines = {folder: self.make_engine(folder)
                        for folder in [options.directory, *options.also]}

    def make_engine(self, folder):
        import mlac

        engine = mlac.Engine(mlac.Package(str(folder / f"{self.name}.mlac")),
                             mlac.Device(self.device), max_num_requests=1,
                             max_num_tokens=self.rows, max_seq_len=self.rows,
                             num_layers=self.count, num_pages=len(ROWS) * (self.rows // 64 + 2))
        for layer, weight in enumerate(self.weights):
            engine.bind(compositions.on_host({self.name: weight}), layer=layer)
            engine.prepare(layer)
        return engine

    def launches(self, folder, rows):
        """One for each set of weights, and what they write."""
        import torch

        engine = self.engines[folder]
        plan, sequence = engine.plan(), engine.sequence()
        plan.fill([sequence], [rows], self.name)
        y = torch.full((rows + 3, *self.y_shape), float("nan"), device=self.device).bfloat16()

        def launch(layer):
            stream = torch.cuda.current_stream() if self.device == "cuda" else None
            plan.run_bound(layer=layer, stream=stream, x=self.x[:rows], y=y)

        return [lambda layer=layer: launch(layer) for layer in range(self.count)], y

    def torch_launches(self, rows):
        import torch

        x = self.x[:rows]
        if len(self.y_shape) == 1:
            return [lambda w=w: torch.matmul(x, w.T) for w in self.weights]
        x = x.transpose(0, 1)  # [groups, rows, depth], as a view
        return [lambda w=w: torch.bmm(x, w.transpose(1, 2)) for w in self.weights]

    def error(self, rows, launches, y):
        """The largest of the last set's, relative to the largest result; NaN where rows behind are touched."""
        import torch

        y.fill_(float("nan"))
        launches[-1]()
        sums = torch.einsum("tnk,nok->tno" if len(self.y_shape) == 2 else "tk,ok->to",
                            self.x[:rows].double(), self.weights[-1].double())
        if not y[rows:].isnan().all():
            return float("nan")
        return ((y[:rows].double() - sums).abs().max() / sums.abs().max()).item()


def run_rows(product, rows, stream, options):
    """Whether results are right, a row of the table, raw times."""
    import turns

    contestants, errors = [], []
    for folder in product.engines:
        launches, y = product.launches(folder, rows)
        errors.append(product.error(rows, launches, y))
        contestants.append(turns.Contestant(str(folder), launches))
    contestants.append(turns.Contestant("torch", product.torch_launches(rows)))
    turns.run_rounds(contestants, options.rounds)
    if options.sustain:
        turns.sustain(contestants, options.sustain)
    cool = [one.median * 1e6 for one in contestants]
    hot = [statistics.median(one.sustained) * 1e6 for one in contestants if one.sustained]
    floor = product.weights[0].numel() * 2 / stream * 1e6
    cells = [product.name, rows, f"{floor:.1f}", *(f"{us:.1f}" for us in cool),
             *(f"{cool[-1] / us:.2f}" for us in cool[:-1]),
             *(f"{hot[-1] / us:.2f}" for us in hot[:-1]), f"{max(errors):.1e}"]
    raw = {"product": product.name, "rows": rows, "errors": errors,
           "cool": {one.name: one.times for one in contestants},
           "sustained": {one.name: one.sustained for one in contestants}}
    return max(errors) <= ALLOWED, cells, raw


def run(options):
    compositions.use_runtime(options)
    import torch
    import turns

    failures, cells, raw = 0, [], []
    if options.device == "cuda":
        import ceilings
        stream = ceilings.measure_stream(options.rounds)
        print(torch.cuda.get_device_name(), f"read stream {stream / 1e9:.0f} GB/s", flush=True)
    for name in options.only:
        product = Product(name, options)
        for rows in options.rows:
            if options.device != "cuda":
                launches, y = product.launches(options.directory, rows)
                error = product.error(rows, launches, y)
                failures += not error <= ALLOWED
                print(f"{name:18} {rows:4} error {error:.1e}", flush=True)
                continue
            good, row, times = run_rows(product, rows, stream, options)
            failures += not good
            cells.append(row)
            raw.append(times)
            print(*row, "" if good else "WRONG", flush=True)
    if cells:
        packages = [str(folder) for folder in product.engines]
        hot = [f"{one}, sustained" for one in packages] if options.sustain else []
        print("\n" + turns.markdown(["product", "rows", "floor, us", *packages, "torch",
                                     *(f"{one} over torch" for one in packages), *hot, "error"],
                                    cells))
    if options.out:
        options.out.write_text(json.dumps(raw, indent=1))
    print(f"FAIL: {failures} products" if failures else "PASS")
    return int(failures > 0)


def main():
    parser = program.make_parser(__doc__)
    parser.add_argument("--target", default="sm_90a", help="of build: sm_90a or cpu")
    parser.add_argument("--device", default="cuda", help="of run: cuda, or cpu without times")
    parser.add_argument("--also", nargs="*", type=pathlib.Path, default=[], metavar="DIR",
                        help="folders of other builds")
    parser.add_argument("--only", nargs="*", choices=list(PRODUCTS), default=list(PRODUCTS))
    parser.add_argument("--rows", nargs="*", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sustain", type=float, default=0, metavar="SECONDS",
                        help="that each runs in turns without a pause; 0: not at all")
    parser.add_argument("--out", type=pathlib.Path, help="raw numbers as JSON")
    options = parser.parse_args()
    return build(options) if options.command == "build" else run(options)


if __name__ == "__main__":
    program.run(main)
