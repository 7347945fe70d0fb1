# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random modules that are compiled, run on the CPU or a GPU, and compared case by case.

A script says what a layer is and how its cases are run; what is here compiles layers, here or
for a GPU elsewhere, and runs them in processes of their own.
"""

import argparse
import multiprocessing
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))

# Of outputs, against float64 over the same stored numbers: f32 sums (mla.md section 14), or
# weights and results rounded to 8 or 11 bits.
ALLOWED = {"f32": 1e-5, "bf16": 8e-3, "f16": 1e-3}
# Of an LSE, absolutely, relative to its size where that is above 1: scores are f32 sums.
ALLOWED_LSE = 2e-5
PROCESSES = 2


class Cpu:
    """NumPy's memory."""

    elements = ("f32", "bf16", "f16")
    target = "cpu"

    def __init__(self, threads):
        import mlac

        self.device = mlac.Device("cpu", threads=threads)

    def put(self, array):
        return array

    def get(self, buffer):
        return buffer


class Gpu:
    """torch's; bf16 is moved as its bits."""

    elements = ("bf16", "f16")
    target = "sm_90a"

    def __init__(self, _):
        import mlac
        import torch

        self.torch = torch
        self.device = mlac.Device("cuda")

    def put(self, array):
        if array.dtype != np.uint16:
            return self.torch.from_numpy(array).cuda()
        bits = self.torch.from_numpy(array.view(np.int16)).cuda()
        return bits.view(self.torch.bfloat16)

    def get(self, buffer):
        self.torch.cuda.synchronize()
        if buffer.dtype != self.torch.bfloat16:
            return buffer.cpu().numpy()
        return buffer.view(self.torch.int16).cpu().numpy().view(np.uint16)


def package_of(layer, directory):
    return pathlib.Path(directory) / f"{layer.index}.mlac"


def compile_layer(job):
    compiler, layer, target, directory = job
    package = package_of(layer, directory)
    module = package.with_suffix(".mlir")
    module.write_text(layer.module())
    done = subprocess.run([compiler, module, *layer.options(target), "--quiet", "-o", package],
                          capture_output=True, text=True)
    return layer, done.stderr if done.returncode else None


def poisoned(shape, element):
    array = np.empty(shape, {"f32": np.float32, "f16": np.float16, "bf16": np.uint16,
                             "e4m3": np.uint8}[element])
    array.view(np.uint8)[...] = 0xFF  # all bits set is a NaN in every type
    return array


def compile_layers(processes, compiler, layers, target, directory):
    """The layers that compiled."""
    compiled = []
    for layer, error in processes.imap_unordered(
            compile_layer, [(compiler, layer, target, directory) for layer in layers]):
        if error:
            print(f"{layer.name()}: {error}")
        else:
            compiled.append(layer)
    return compiled


def run_layers(processes, layers, run_layer, directory, machine, args):
    """Runs all cases; how many there were, how many failed. `run_layer` gives a case and its
    errors, each relative to what is allowed, for every one of a layer."""
    count, failed, worst = 0, 0, 0.0
    jobs = [(layer, directory, machine, args.seed, args.cases) for layer in layers]
    for layer, results in processes.imap_unordered(run_layer, jobs):
        for index, (case, errors) in enumerate(results):
            count += 1
            worst = max(worst, *errors)
            if max(errors) > 1:
                failed += 1
                told = ", ".join(f"{error:.3g}" for error in errors)
                print(f"{layer.name()}, case {index}: {case}: {told} of what is allowed")
    print(f"worst {worst:.2f} of what is allowed")
    return count, failed


def main(description, make_layers, run_layer, layers, cases):
    """`make_layers(rng, count, machine)`; the numbers are those that run unless told otherwise."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--compiler")
    parser.add_argument("--build", type=pathlib.Path, help="only build packages for --gpu there")
    parser.add_argument("--gpu", type=pathlib.Path, help="folder with packages of --build")
    parser.add_argument("--layers", type=int, default=layers)
    parser.add_argument("--cases", type=int, default=cases)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the index of one layer")
    args = parser.parse_args()
    started = time.time()
    machine = Gpu if args.build or args.gpu else Cpu
    chosen = list(make_layers(np.random.default_rng(args.seed), args.layers, machine))
    if args.only is not None:
        chosen = [chosen[args.only]]
    compiled, count, failed = chosen, 0, 0
    with tempfile.TemporaryDirectory() as scratch, \
            multiprocessing.get_context("spawn").Pool(PROCESSES) as processes:
        directory = args.build or args.gpu or scratch
        if not args.gpu:
            pathlib.Path(directory).mkdir(parents=True, exist_ok=True)
            compiled = compile_layers(processes, args.compiler, chosen, machine.target, directory)
        if not args.build:
            count, failed = run_layers(processes, compiled, run_layer, directory, machine, args)
    failed += len(chosen) - len(compiled)
    print(f"{count} cases of {len(chosen)} layers in {time.time() - started:.1f} s, "
          f"{failed} failed")
    return 1 if failed or not (count or args.build) else 0
