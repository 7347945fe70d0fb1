#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles products of many sizes for a target and says which are refused.

mla-compile refuses kernels that spill registers or that the assembler warns of, so a model whose sizes nobody
tried may have no package. This tries sizes of models, odd ones among them, in each form that weights have:

    values      16-bit weights, bf16 or f16, with a bias or without
    weights     codes of weights, by block, row and block, row (channel) or tensor
    both        these and codes of activations
    heads       a weight for each head, as absorbed ones are
    latents     a norm behind the product; of codes, with codes of its rows

    sweep_products.py                            every form and size: half an hour to an hour on two cores
    sweep_products.py --columns 2880 --depth 4096 --forms values

Exits with 1 if a product is refused. `--schedules` lists the kernels that are not of the product schedule.
"""

import argparse
import collections
import concurrent.futures
import itertools
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Hidden sizes, ranks and heads of models: whole tiles of 256, 192, 128 and 64 columns, halves of them
# (2880 = 22.5 * 128), rows that TMA copies and that are no whole panel (1000), rows that it does not (1001).
COLUMNS = (64, 192, 576, 768, 1000, 1536, 2112, 2304, 2880, 3584, 5120, 7168)
DEPTHS = (128, 1000, 2304, 2880, 4096, 7168)
UNALIGNED = 1001
HEADS = 16
HEAD_SIZES = ((512, 128), (128, 512), (512, 192), (256, 512), (96, 256), (64, 256))
LATENTS = (256, 512, 576, 768, 1536, 2048)
SCALES = {"block": (128, 128), "narrow": (64, 128), "row_block": (1, 128), "channel": (1, 0), "tensor": (0, 0)}

Case = collections.namedtuple("Case", "form columns depth dtype bias scales both")


def grid(size, step):
    return -(-size // step) if step else 1


def argument(name, shape, element, kind="weight"):
    return f"%{name}: tensor<{'x'.join(map(str, shape))}x{element}> {{mla.{kind} = \"{name}\"}}"


def weight(case, rows):
    """The arguments of a weight of so many rows, and what makes %w of them."""
    if not case.scales:
        return [argument("w", (rows, case.depth), case.dtype)], ""
    block = SCALES[case.scales]
    scales = (grid(rows, block[0]), grid(case.depth, block[1]))
    return (
        [argument("c", (rows, case.depth), "f8E4M3FN"), argument("s", scales, "f32")],
        f"  %w = mla.scaled_weight %c, %s block [{block[0]}, {block[1]}] : tensor<{rows}x{case.depth}xf8E4M3FN>, "
        f"tensor<{scales[0]}x{scales[1]}xf32> -> tensor<{rows}x{case.depth}x{case.dtype}>\n",
    )


def module(case):
    """A function of one product in the mla dialect."""
    heads = HEADS if case.form == "heads" else 1
    rows = heads * case.columns
    shape = (lambda size: f"tensor<?x{heads}x{size}x{case.dtype}>") if heads > 1 else (
        lambda size: f"tensor<?x{size}x{case.dtype}>")
    x, y, matrix = shape(case.depth), shape(case.columns), f"tensor<{rows}x{case.depth}x{case.dtype}>"
    arguments, body = weight(case, rows)
    source = "%x"
    if case.both:
        group = 128 if SCALES[case.scales][1] else heads * case.depth
        body += f"  %a = mla.coded_rows %x group {group} : {x}\n"
        source = "%a"
    if case.form == "latents":
        arguments.append(argument("g", (case.columns,), case.dtype))
        gamma = f"tensor<{case.columns}x{case.dtype}>"
        body += f"  %y = mla.latent_project {source}, %w, %g eps 1.0e-6 : {x}, {matrix}, {gamma} -> {y}\n"
    elif case.form == "heads":
        split = f"tensor<{heads}x{case.columns}x{case.depth}x{case.dtype}>"
        body += (f"  %e = tensor.expand_shape %w [[0, 1], [2]] output_shape [{heads}, {case.columns}, {case.depth}] : "
                 f"{matrix} into {split}\n  %y = mla.head_project {source}, %e : {x}, {split} -> {y}\n")
    else:
        bias = ""
        if case.bias:
            arguments.append(argument("b", (case.columns,), case.dtype))
            bias = f" bias(%b : tensor<{case.columns}x{case.dtype}>)"
        body += f"  %y = mla.project {source}, %w{bias} : {x}, {matrix} -> {y}\n"
    return (f"func.func @step(%x: {x} {{mla.input = \"x\"}}, {', '.join(arguments)}) -> ({y} {{mla.output = \"y\"}}) "
            f"{{\n{body}  return %y : {y}\n}}\n")


def fits_codes(case):
    """What the compiler keeps as codes: whole panels of columns, the depth in whole blocks."""
    return case.columns % 64 == 0 and case.depth % 128 == 0


def list_cases(options):
    sizes = list(itertools.product(options.columns, options.depth))
    odd = [(UNALIGNED, 2048), (2048, UNALIGNED)] if options.odd else []
    cases = []
    for form in options.forms:
        if form == "values":
            cases += [Case("plain", *size, dtype, bias, None, False) for size in sizes + odd
                      for dtype, bias in (("bf16", False), ("bf16", True), ("f16", True))]
        elif form == "heads":
            kinds = [(None, False), ("block", False), ("block", True), ("channel", False), ("tensor", True)]
            cases += [Case("heads", *size, "bf16", False, *kind) for size in HEAD_SIZES for kind in kinds]
        elif form == "latents":
            kinds = [(None, False)] + [(scales, both) for scales in ("block", "channel") for both in (False, True)]
            cases += [Case("latents", columns, depth, "bf16", False, *kind)
                      for columns in LATENTS for depth in options.depth for kind in kinds]
        else:
            cases += [Case("plain", *size, "bf16", True, scales, form == "both") for size in sizes
                      for scales in SCALES]
    return [case for case in cases if not case.scales or fits_codes(case)]


def describe(case):
    kind = "".join((f" {case.scales}" if case.scales else "", " both" if case.both else "",
                    " bias" if case.bias else ""))
    return f"{case.form} {case.columns} x {case.depth} {case.dtype}{kind}"


def compile_case(options, case, folder):
    """The compiler's errors, and the kernels that the product schedule did not take."""
    path = folder / (describe(case).replace(" ", "_") + ".mlir")
    path.write_text(module(case))
    command = [options.compiler, path, f"--target={options.target}", "--quiet"]
    done = subprocess.run([*command, "--emit=cubin", "-o", path.with_suffix("")], text=True, capture_output=True)
    errors = [line for line in done.stderr.splitlines() if "error:" in line] if done.returncode else []
    if done.returncode and not errors:
        errors = [f"exit {done.returncode}: {done.stderr[-200:]}"]
    others = []
    if options.schedules and not errors:
        text = subprocess.run([*command, "--emit=tile", "-o", "-"], text=True, capture_output=True, check=True).stdout
        others = [line.split("@")[1].split("(")[0] for line in text.splitlines()
                  if "tile.kernel @linear_" in line and "#tile.product" not in line]
    return errors, others


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default=ROOT / "build/bin/mla-compile")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--forms", nargs="+", default=["values", "weights", "both", "heads", "latents"],
                        choices=["values", "weights", "both", "heads", "latents"])
    parser.add_argument("--columns", nargs="+", type=int, default=COLUMNS)
    parser.add_argument("--depth", nargs="+", type=int, default=DEPTHS)
    parser.add_argument("--odd", action="store_true", help=f"and rows of {UNALIGNED} elements, which TMA cannot copy")
    parser.add_argument("--schedules", action="store_true", help="list kernels of other schedules")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()

    cases, refused = list_cases(options), 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = pool.map(lambda case: compile_case(options, case, pathlib.Path(folder)), cases)
        for case, (errors, others) in zip(cases, results):
            refused += bool(errors)
            for line in errors:
                print(f"{describe(case)}: {line}", flush=True)
            if others:
                print(f"{describe(case)}: not of the product schedule: {' '.join(others)}", flush=True)
    print(f"{len(cases)} products, {refused} refused")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
