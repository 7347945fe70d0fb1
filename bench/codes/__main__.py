#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks and times products with weights of codes next to those of bf16.

    python3 bench/codes build DIR                # the package; needs mla-compile, no GPU
    python3 bench/codes run DIR [--out FILE]     # correctness, then the table; needs a GPU and torch
    python3 bench/codes run DIR --check          # correctness alone
    python3 bench/codes run DIR --device cpu --rows 1 5 --check --only q_up_16    # the harness itself

DeepSeek-V3's projections, whole and as one of eight ranks has them. `bf16` multiplies dequantised
weights, `weights` codes by bf16 activations, `both` codes by activations that the step quantises
(which is in its time). Each is compared with float64 of what it is to multiply, so that `both`'s
activations are quantised here, too. Steps go over sets of weights that no L2 cache holds.
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path += [str(ROOT / folder) for folder in ("python", "bench/decode", "test/python", "bench")]

import module  # noqa: E402
import program  # noqa: E402

program.need("numpy")

import numpy as np  # noqa: E402
from narrow_floats import narrow, widen  # noqa: E402

KINDS = ("bf16", "weights", "both")
BLOCK = 128
# name: (columns of each result, depth). Two results are latents, which are normalised.
PRODUCTS = {"down": ((1536, 576), 7168), "q_up": ((24576,), 1536), "output": ((7168,), 16384),
            "q_up_16": ((3072,), 1536), "output_16": ((7168,), 2048)}
ROWS = (1, 16, 64, 128, 300, 4096)
# Of results beyond so many rows some are compared.
SAMPLED_ROWS = 16
# Weights of all sets: several times what the L2 cache holds, of the smallest product too.
SETS = 12
# Of the largest result: rounded to bf16 (half of 2^-8), and the order of sums; what has a norm
# behind it is rounded twice.
ALLOWED, ALLOWED_NORMED = 2 ** -8, 2 ** -8 + 2 ** -9
EPS = 1e-6


# ---------------------------------------------------------------------------
# What is compiled
# ---------------------------------------------------------------------------


def weight_name(product, number, kind):
    return f"{product}_{number}{'_values' if kind == 'bf16' else ''}.weight"


def function_text(product, kind):
    columns, depth = PRODUCTS[product]
    x, lines, arguments, results, types = f"tensor<?x{depth}xbf16>", [], [], [], []
    for number, width in enumerate(columns):
        name, w = weight_name(product, number, kind), f"tensor<{width}x{depth}xbf16>"
        if kind == "bf16":
            arguments.append(f'%w{number}: {w} {{mla.weight = "{name}"}}')
        else:
            codes = f"tensor<{width}x{depth}xf8E4M3FN>"
            scales = f"tensor<{-(-width // BLOCK)}x{depth // BLOCK}xf32>"
            arguments += [f'%c{number}: {codes} {{mla.weight = "{name}"}}',
                          f'%s{number}: {scales} {{mla.weight = "{name}_scale_inv"}}']
            lines.append(f"%w{number} = mla.scaled_weight %c{number}, %s{number} "
                         f"block [{BLOCK}, {BLOCK}] : {codes}, {scales} -> {w}")
    if kind == "both":
        lines.append(f"%a = mla.coded_rows %x group {BLOCK} : {x}")
    rows = "%a" if kind == "both" else "%x"
    if len(columns) == 1:
        types = [f"tensor<?x{columns[0]}xbf16>"]
        lines.append(f"%y0 = mla.project {rows}, %w0 : {x}, tensor<{columns[0]}x{depth}xbf16> "
                     f"-> {types[0]}")
        results = ["%y0"]
    else:  # a query's latent, and a key's with its rope columns
        rank = columns[1] - 64
        arguments += [f'%g{number}: tensor<{width}xbf16> {{mla.weight = "{product}_norm_{number}"}}'
                      for number, width in enumerate((columns[0], rank))]
        types = [f"tensor<?x{width}xbf16>" for width in (columns[0], rank, 64)]
        results = ["%y0", "%y1", "%y2"]
        lines += [f"%y0 = mla.latent_project {rows}, %w0, %g0 eps {EPS:.1e} : {x}, "
                  f"tensor<{columns[0]}x{depth}xbf16>, tensor<{columns[0]}xbf16> -> {types[0]}",
                  f"%y1, %y2 = mla.latent_project {rows}, %w1, %g1 eps {EPS:.1e} : {x}, "
                  f"tensor<{columns[1]}x{depth}xbf16>, tensor<{rank}xbf16> -> {types[1]}, {types[2]}"]
    outputs = ", ".join(f'{type} {{mla.output = "y{number}"}}' for number, type in enumerate(types))
    return (f'func.func @{product}_{kind}(%x: {x} {{mla.input = "x"}}, {", ".join(arguments)}) -> '
            f"({outputs}) {{\n  " + "\n  ".join(lines) +
            f'\n  return {", ".join(results)} : {", ".join(types)}\n}}\n')


def build_command(options):
    program.make_folder(options.directory, options.build_dir)
    source = options.directory / "codes.mlir"
    alias, placeholder = module.PLACEHOLDER.split("func.func", 1)  # types are named outside
    source.write_text(f"{alias}module attributes {{mla.weight_scales = array<i64: {BLOCK}, {BLOCK}>}} "
                      f"{{\nfunc.func{placeholder}" +
                      "".join(function_text(product, kind)
                              for product in PRODUCTS for kind in KINDS) + "}\n")
    subprocess.run([options.build_dir / "bin/mla-compile", source, "--quiet",
                    f"--target={options.target}", "-o", options.directory / "codes.mlac"],
                   check=True)
    source.unlink()
    shutil.copy(options.build_dir / "lib/libmla_runtime.so", options.directory)
    return 0


# ---------------------------------------------------------------------------
# Products
# ---------------------------------------------------------------------------


class Weights:
    """Of one product: codes with scales, the values that they stand for, and norms."""

    def __init__(self, product, rng):
        import mlac
        from mlac import reference
        columns, depth = PRODUCTS[product]
        self.bound, self.exact, self.rounded, self.norms = {}, [], [], []
        for number, width in enumerate(columns):
            values = rng.standard_normal((width, depth), dtype=np.float32) / depth ** 0.5
            codes, scales = mlac.quantize(values, (BLOCK, BLOCK))
            exact = reference.dequantise(codes, scales, (BLOCK, BLOCK))
            rounded = narrow(exact, "bf16")
            name = weight_name(product, number, "both")
            self.bound |= {name: codes, f"{name}_scale_inv": scales,
                           weight_name(product, number, "bf16"): rounded}
            self.exact.append(exact)
            self.rounded.append(rounded)
        if len(columns) == 2:
            for number, width in enumerate((columns[0], columns[1] - 64)):
                self.norms.append(narrow(rng.uniform(0.5, 1.5, width), "bf16"))
                self.bound[f"{product}_norm_{number}"] = self.norms[-1]

    def expected(self, rows, kind):
        """float64 results of rows of bf16 bits."""
        from mlac import reference
        x = widen(rows).astype(np.float64)
        if kind == "both":
            x = reference.quantise_groups(x)
        weights = map(widen, self.rounded) if kind == "bf16" else self.exact
        made = [x @ np.asarray(weight, np.float64).T for weight in weights]
        if not self.norms:
            return made
        gammas = [widen(gamma) for gamma in self.norms]
        rank = len(gammas[1])
        return [reference.rms_norm(made[0], gammas[0], EPS),
                reference.rms_norm(made[1][:, :rank], gammas[1], EPS), made[1][:, rank:]]


class Steps:
    """The package's steps on this device."""

    def __init__(self, options):
        import mlac
        self.device = options.device
        self.sets = SETS if self.device == "cuda" and not options.check else 1
        most = max(options.rows)
        package = mlac.Package(str(options.directory / "codes.mlac"))
        self.engine = mlac.Engine(package, mlac.Device(self.device), max_num_requests=1,
                                  max_num_tokens=most, max_seq_len=most, num_layers=self.sets,
                                  num_pages=len(KINDS) * (most // 64 + 2))
        self.rng, self.weights, self.sequences = np.random.default_rng(1), {}, []
        for product in PRODUCTS:
            if product in options.only:
                self.weights[product] = Weights(product, self.rng)
        bound = {name: self.zeros(weight) for weight in package.info["weights"]
                 for name in [weight["name"]]}  # an engine needs all of its package's
        for weights in self.weights.values():
            bound |= weights.bound
        for layer in range(self.sets):
            self.engine.bind(bound, layer=layer)
            self.engine.prepare(layer)

    @staticmethod
    def zeros(weight):
        types = {"e4m3": np.uint8, "bf16": np.uint16, "f32": np.float32}
        return np.zeros(weight["shape"], types[weight["dtype"]])

    def place(self, array):
        if self.device == "cpu":
            return array
        import torch
        return torch.from_numpy(array.view(np.int16)).cuda().view(torch.bfloat16)

    def take(self, buffer):
        if self.device == "cpu":
            return buffer
        import torch
        return buffer.view(torch.int16).cpu().numpy().view(np.uint16)

    def step(self, product, kind, rows):
        """A launch for each set of weights, x, and what the first one's results were."""
        columns, depth = PRODUCTS[product]
        widths = columns if len(columns) == 1 else (columns[0], columns[1] - 64, 64)
        plan = self.engine.plan()
        self.sequences.append(self.engine.sequence())
        plan.fill(self.sequences[-1:], [rows], f"{product}_{kind}")
        # Rows behind the inputs NaN, rows behind the results untouched.
        nan = lambda width: np.full((rows + 3, width), 0x7FC0, np.uint16)
        x = nan(depth)
        x[:rows] = narrow(np.random.default_rng(rows).standard_normal((rows, depth)), "bf16")
        buffers = {"x": self.place(x)} | {f"y{i}": self.place(nan(width))
                                          for i, width in enumerate(widths)}

        def launch(layer=0):
            stream = None
            if self.device != "cpu":
                import torch
                stream = torch.cuda.current_stream()
            plan.run_bound(layer=layer, stream=stream, **buffers)
        launch()
        made = [self.take(buffers[f"y{i}"]) for i in range(len(widths))]
        return [lambda layer=layer: launch(layer) for layer in range(self.sets)], x[:rows], made

    def end(self):
        """Of all steps so far."""
        while self.sequences:
            self.sequences.pop().free()

    def error(self, product, kind, x, made):
        """Largest error, relative to the largest result; NaN where a row is wrong altogether."""
        rows = len(x)
        picked = range(rows) if rows <= SAMPLED_ROWS else \
            sorted({0, 1, 63, 64, 127, rows // 2, rows - 2, rows - 1} & set(range(rows)))
        worst = 0.0
        for got, expected in zip(made, self.weights[product].expected(x[list(picked)], kind)):
            values = widen(got[:rows])
            if not np.isfinite(values).all() or not np.isnan(widen(got[rows:])).all():
                return float("nan")
            worst = max(worst, np.abs(values[list(picked)] - expected).max() /
                        np.abs(expected).max())
        return worst


# ---------------------------------------------------------------------------
# Times
# ---------------------------------------------------------------------------


def torch_launches(product, rows):
    """Products of the same shape by torch, bf16 and e4m3 with one scale each (cuBLAS)."""
    import torch
    columns, depth = PRODUCTS[product]
    x = torch.randn(rows, depth, device="cuda").bfloat16()
    weights = [torch.randn(sum(columns), depth, device="cuda").bfloat16() for _ in range(SETS)]
    launches = {"torch bf16": [lambda w=w: torch.matmul(x, w.T) for w in weights]}
    if rows >= 16:  # cuBLAS wants multiples of 16
        one = torch.ones((), device="cuda")
        a, coded = x.to(torch.float8_e4m3fn), [w.to(torch.float8_e4m3fn) for w in weights]
        by_codes = [lambda w=w: torch._scaled_mm(a, w.T, one, one, out_dtype=torch.bfloat16)
                    for w in coded]
        try:
            by_codes[0]()
            launches["torch e4m3"] = by_codes
        except RuntimeError as error:  # a peer that this torch does not have
            print(f"torch e4m3: {error}", file=sys.stderr)
    return launches


def time_row(steps, product, rows, options, stream):
    from turns import Contestant, run_rounds
    launches = {}
    for kind in KINDS:
        launches[kind], *_ = steps.step(product, kind, rows)
    contestants = [Contestant(name, each)
                   for name, each in (launches | torch_launches(product, rows)).items()]
    run_rounds(contestants, options.rounds)
    steps.end()
    times = {one.name: one.median for one in contestants}
    columns, depth = PRODUCTS[product]
    weights, flops = sum(columns) * depth, 2 * rows * sum(columns) * depth
    cells = [product, rows] + [f"{times[name] * 1e6:.1f}" if name in times else ""
                               for name in (*KINDS, "torch bf16", "torch e4m3")]
    for kind in ("weights", "both"):
        cells.append(f"{times['bf16'] / times[kind]:.2f}")
    cells += [f"{2 * weights / times['bf16'] / stream:.2f}"] + \
        [f"{weights / times[kind] / stream:.2f}" for kind in ("weights", "both")]
    cells.append(f"{flops / times['both'] / 1e12:.0f}")
    return cells, {"product": product, "rows": rows,
                   "times": {one.name: one.times for one in contestants}}


HEAD = ("product", "rows", *(f"{kind}, us" for kind in KINDS), "torch bf16", "torch e4m3",
        "weights over bf16", "both over bf16", "bf16 of stream", "weights of stream",
        "both of stream", "both, TFLOP/s")


def run_command(options):
    for folder in (options.directory, options.build_dir / "lib"):
        if (folder / "libmla_runtime.so").exists():
            os.environ.setdefault("MLAC_RUNTIME_LIBRARY",
                                  str((folder / "libmla_runtime.so").resolve()))
    steps, failures = Steps(options), 0
    for product in options.only:
        for rows in options.rows:
            for kind in KINDS:
                _, x, made = steps.step(product, kind, rows)
                steps.end()
                error = steps.error(product, kind, x, made)
                good = error <= (ALLOWED_NORMED if product == "down" else ALLOWED)
                failures += not good
                print(f"  {product:10} {rows:6} {kind:8} error {error:.1e}"
                      f"{'' if good else ' FAIL'}", flush=True)
    print(f"FAIL: {failures} products" if failures else "PASS", flush=True)
    if options.device == "cpu" or options.check:
        return int(failures > 0)
    import ceilings
    from turns import markdown
    stream, cells, raw = ceilings.measure_stream(options.rounds), [], []
    print(f"read stream {stream / 1e9:.0f} GB/s; medians of {options.rounds} rounds")
    for product in options.only:
        for rows in options.rows:
            row, times = time_row(steps, product, rows, options, stream)
            cells.append(row)
            raw.append(times)
            print(*row, flush=True)
    print("\n" + markdown(HEAD, cells))
    if options.out:
        options.out.write_text(json.dumps({"stream": stream, "rows": raw}, indent=1))
    return int(failures > 0)


def main():
    parser = program.make_parser(__doc__, prog="bench/codes")
    parser.add_argument("--target", default="sm_90a", help="of mla-compile, at build")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--only", nargs="*", default=list(PRODUCTS), choices=list(PRODUCTS),
                        help="names of products")
    parser.add_argument("--rows", nargs="*", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--check", action="store_true", help="no times")
    parser.add_argument("--out", type=pathlib.Path, help="raw times as JSON")
    options = parser.parse_args()
    return globals()[options.command + "_command"](options)


if __name__ == "__main__":
    program.run(main)
