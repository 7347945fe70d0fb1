#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks and times the products of a prefill next to torch.matmul.

    python3 bench/products build DIR                # the package; needs mla-compile, no GPU
    python3 bench/products run DIR [--out FILE]     # correctness, then the table; needs a GPU
    python3 bench/products run DIR --device cpu --rows 200   # the harness itself

DeepSeek-V3's projections, whole and as one of eight ranks has them (16 heads). Both
contestants multiply the same random tensors, alternating in one process.
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
from turns import race  # noqa: E402

# name: (columns of the result, depth)
PRODUCTS = {"q_down": (1536, 7168), "kv_down": (576, 7168), "q_up": (24576, 1536),
            "kv_up": (32768, 512), "output": (7168, 16384),
            "q_up_16": (3072, 1536), "kv_up_16": (4096, 512), "output_16": (7168, 2048)}
ROWS = (2048, 4096, 8192, 65536)
# Results beyond this are left out: they would not fit beside torch's.
MOST_RESULT_BYTES = 16 << 30

FUNCTION = """\
func.func @{name}(%x: tensor<?x{depth}xbf16> {{mla.input = "x"}},
                  %w: tensor<{columns}x{depth}xbf16> {{mla.weight = "{name}"}})
    -> (tensor<?x{columns}xbf16> {{mla.output = "y"}}) {{
  %y = mla.project %x, %w : tensor<?x{depth}xbf16>, tensor<{columns}x{depth}xbf16>
      -> tensor<?x{columns}xbf16>
  return %y : tensor<?x{columns}xbf16>
}}
"""


def build_command(options):
    program.make_folder(options.directory, options.build_dir)
    source = options.directory / "products.mlir"
    source.write_text(module.PLACEHOLDER + "".join(
        FUNCTION.format(name=name, columns=columns, depth=depth)
        for name, (columns, depth) in PRODUCTS.items()))
    subprocess.run([options.build_dir / "bin/mla-compile", source, "--quiet",
                    f"--target={options.target}", *options.option,
                    "-o", options.directory / "products.mlac"], check=True)
    source.unlink()
    shutil.copy(options.build_dir / "lib/libmla_runtime.so", options.directory)
    return 0


class Products:
    """An engine with random weights, torch's copies of them, and inputs."""

    def __init__(self, options, path):
        import mlac
        import torch

        self.torch, self.device = torch, options.device
        torch.manual_seed(1)
        self.weights = {name: (torch.randn(shape, device=self.device) / shape[1] ** 0.5).bfloat16()
                        for name, shape in PRODUCTS.items()}
        most = max(options.rows)
        self.engine = mlac.Engine(mlac.Package(str(path)), mlac.Device(self.device),
                                  max_num_requests=1, max_num_tokens=most, max_seq_len=most,
                                  num_pages=most // 64 + 2)
        self.engine.bind({name: tensor.cpu().view(torch.uint16).numpy()
                          for name, tensor in self.weights.items()})
        self.engine.prepare()
        self.sequence = None

    def step(self, name, rows):
        """A launch by mlac, one by torch, and the tensors x and y. Ends the step before."""
        torch, (columns, depth) = self.torch, PRODUCTS[name]
        if self.sequence is not None:
            self.sequence.free()
        plan, self.sequence = self.engine.plan(), self.engine.sequence()
        plan.fill([self.sequence], [rows], name)
        x = torch.randn(rows, depth, device=self.device).bfloat16()
        # Rows behind the inputs NaN, rows behind the results untouched.
        nan = lambda width: torch.full((rows + 3, width), float("nan"), dtype=torch.bfloat16,
                                       device=self.device)
        inputs, y = nan(depth), nan(columns)
        inputs[:rows] = x
        buffers = {"x": inputs, "y": y}
        if self.device == "cpu":
            buffers = {key: value.view(torch.uint16).numpy() for key, value in buffers.items()}
        stream = lambda: torch.cuda.current_stream() if self.device != "cpu" else None
        out, weight = torch.empty(rows, columns, dtype=torch.bfloat16, device=self.device), \
            self.weights[name]
        return (lambda: plan.run_bound(stream=stream(), **buffers),
                lambda: torch.matmul(x, weight.T, out=out), x, y)

    def error(self, name, x, y):
        """Largest error of sampled rows, relative to the largest result, in float64."""
        torch, rows = self.torch, len(x)
        picked = torch.tensor(sorted({0, 63, 64, 127, rows // 2, rows - 1} & set(range(rows))),
                              device=self.device)
        expected = x[picked].double() @ self.weights[name].double().T
        got = y[picked].double()
        off = float((got - expected).abs().max() / expected.abs().max())
        inside = bool(y[:rows].isfinite().all()) and bool(y[rows:].isnan().all())
        return off if inside else float("nan")


# Results are rounded to bf16: half of 2^-8, and the order of the sums.
ALLOWED = 2 ** -8


def run_command(options):
    for folder in (options.directory, options.build_dir / "lib"):
        if (folder / "libmla_runtime.so").exists():
            os.environ.setdefault("MLAC_RUNTIME_LIBRARY",
                                  str((folder / "libmla_runtime.so").resolve()))
    import torch

    paths = [options.directory / "products.mlac", *options.also]
    engines = {path.parent.name if index else "mlac": Products(options, path)
               for index, path in enumerate(paths)}
    failures, rows_out = 0, []
    for name, (columns, depth) in PRODUCTS.items():
        for rows in options.rows:
            if rows * columns * 2 > MOST_RESULT_BYTES or (options.only and name not in options.only):
                continue
            launches, errors = {}, {}
            for contestant, products in engines.items():
                launch, by_torch, x, y = products.step(name, rows)
                launch()
                errors[contestant] = products.error(name, x, y)
                launches[contestant] = launch
            launches["torch"] = by_torch
            good = all(error <= ALLOWED for error in errors.values())
            failures += not good
            line = f"  {name:10} {rows:6} x {columns:5} x {depth:5}  error {errors['mlac']:.1e}"
            line += "" if good else " FAIL"
            if options.device != "cpu":
                flops = 2 * rows * columns * depth
                rates = {key: [flops / seconds for seconds in times]
                         for key, times in race(launches, options.rounds).items()}
                median = {key: statistics.median(value) for key, value in rates.items()}
                for key in engines:
                    ratio = statistics.median(a / b for a, b in zip(rates[key], rates["torch"]))
                    line += (f"  {key} {flops / median[key] * 1e6:8.1f} us "
                             f"{median[key] / 1e12:6.1f} TFLOP/s {ratio:.3f} of torch")
                line += f"  (torch {median['torch'] / 1e12:.1f})"
                rows_out.append({"name": name, "rows": rows, "columns": columns, "depth": depth,
                                 "rates": rates, "errors": errors})
            print(line, flush=True)
            launches = by_torch = x = y = None
            if options.device != "cpu":
                torch.cuda.empty_cache()
    if options.out:
        options.out.write_text(json.dumps(rows_out, indent=1))
    print(f"FAIL: {failures} products" if failures else "PASS")
    return 1 if failures else 0


def main():
    parser = program.make_parser(__doc__, prog="bench/products")
    parser.add_argument("--target", default="sm_90a", help="of mla-compile, at build")
    parser.add_argument("--option", action="append", default=[], help="for mla-compile")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--also", nargs="*", type=pathlib.Path, default=[],
                        help="packages of other builds, in the same rounds")
    parser.add_argument("--only", nargs="*", default=[], help="names of products")
    parser.add_argument("--rows", nargs="*", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=pathlib.Path, help="raw rates as JSON")
    options = parser.parse_args()
    return globals()[options.command + "_command"](options)


if __name__ == "__main__":
    program.run(main)
