#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a call costs around a step of almost no work: one row, written nowhere.

    MLAC_TORCH_LIBRARY=none python3 bench/torch_calls.py
    MLAC_TORCH_LIBRARY=build/lib/libmlac_torch.so python3 bench/torch_calls.py

Prints microseconds of CPU time a call, the least of many repetitions, so that other work on
the machine counts little. The table in docs/python.md is made of both.
"""

import sys
import tempfile
import time
import timeit
from pathlib import Path

import program

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
if "--help" in sys.argv or "-h" in sys.argv:
    sys.exit(print(__doc__.strip()))
program.need("torch", "numpy")

import torch  # noqa: E402

import mlac  # noqa: E402
import mlac.torch  # noqa: E402
from mlac._library import Binding, library  # noqa: E402

CALLS, REPETITIONS = 500, 80
PAGES, PAGE, LATENT, ROPE = 1, 16, 64, 16
TEXT = f"""
!cache = !mla.cache<page_size = {PAGE}, fields = [latent: {LATENT}, rope: {ROPE}], element = bf16,
                    rope_order = interleaved>
!batch = !mla.batch<query_len = ?>
func.func @append(%c: tensor<?x{LATENT}xbf16> {{mla.input = "latent"}},
    %k: tensor<?x{ROPE}xbf16> {{mla.input = "k_pe"}}, %batch: !batch, %cache: !cache) -> !cache {{
  %0 = mla.append %c, %k into %cache, %batch
      : tensor<?x{LATENT}xbf16>, tensor<?x{ROPE}xbf16> into !cache, !batch
  return %0 : !cache
}}
"""


def make_plan():
    """A filled plan over a pool of the caller's, and its handle."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "append.mlir"
        path.write_text(TEXT)
        package = mlac.compile(path, target="cpu")
    engine = mlac.Engine(package, mlac.Device("cpu", 1), max_seq_len=PAGE, external_pools=1)
    engine.prepare()
    cache = torch.zeros(PAGES, PAGE, LATENT + ROPE, dtype=torch.bfloat16)
    engine.bind_pool(cache)
    plan = engine.plan()
    plan.fill_tables([1], [1], torch.zeros(1, 1, dtype=torch.int32), torch.tensor([-1]))
    return plan, cache, mlac.torch.handle(plan)


def least(function):
    times = timeit.repeat(function, number=CALLS, repeat=REPETITIONS, timer=time.thread_time)
    return min(times) / CALLS * 1e6


def main():
    plan, cache, handle = make_plan()
    latent = torch.zeros(1, LATENT, dtype=torch.bfloat16)
    rope = torch.zeros(1, ROPE, dtype=torch.bfloat16)
    bits_of_latent, bits_of_rope = (tensor.view(torch.int16).numpy().view("u2")
                                    for tensor in (latent, rope))
    bindings = (Binding * 2)(Binding(b"latent", latent.data_ptr(), latent.nbytes),
                             Binding(b"k_pe", rope.data_ptr(), rope.nbytes))
    kind = "libmlac_torch.so" if mlac.torch.is_native() else "Python"
    op = torch.ops.mlac.append.default
    rows = {
        "mla_step_run_bound by ctypes, bindings at hand":
            lambda: library.mla_step_run_bound(plan._value, 0, bindings, 2, None),
        f"torch.ops.mlac.append.default, {kind}": lambda: op(cache, latent, rope, handle, 0),
        f"torch.ops.mlac.append, {kind}":
            lambda: torch.ops.mlac.append(cache, latent, rope, handle, 0),
        "Plan.run_bound, tensors": lambda: plan.run_bound(latent=latent, k_pe=rope),
        "Plan.run_bound, arrays of NumPy":
            lambda: plan.run_bound(latent=bits_of_latent, k_pe=bits_of_rope),
    }
    for name, function in rows.items():
        print(f"{least(function):6.2f}  {name}")


if __name__ == "__main__":
    program.run(main)
