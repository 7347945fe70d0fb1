# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is timed, and the table of it."""

import dataclasses
import random
import statistics

from turns import better, markdown, ratio

PEERS = ("fa3", "cudnn")
# Of the better peer, cool and sustained; of the byte floor, where it is above the FLOPs' one.
BEST, FLOOR = 1.05, 0.85
# A matrix product in the same rounds: the ceiling of FLOPs.
PRODUCT_SIZE = 8192
PRODUCT, PRODUCT_FLOPS = f"bf16 {PRODUCT_SIZE}^3", 2 * PRODUCT_SIZE ** 3


def ragged(tokens, longest, seed=1):
    """Lengths of 1 to `longest` that add up to `tokens`."""
    generator, lengths = random.Random(seed), []
    while sum(lengths) < tokens:
        lengths.append(min(generator.randint(1, longest), tokens - sum(lengths)))
    return tuple(lengths)


@dataclasses.dataclass(frozen=True)
class Row:
    """New tokens of each request; with `context` over a chunk of cached tokens, else causal."""

    heads: int
    query_lens: tuple
    label: str
    context: tuple = None

    @property
    def name(self):
        return f"h{self.heads} {self.label}"


def equal(heads, batch, length):
    return Row(heads, (length,) * batch, f"{batch}x{length}")


SHAPES = ((1, 2048), (1, 4096), (1, 8192), (1, 16384), (4, 4096), (8, 2048), (16, 1024),
          (32, 512), (64, 256), (128, 128))
RAGGED = ragged(16384, 2048)
CAUSAL = tuple(row for heads in (128, 16) for row in
               (*(equal(heads, *shape) for shape in SHAPES),
                Row(heads, RAGGED, f"ragged {len(RAGGED)}x1..2048")))
# One chunk of context.
CHUNK = (Row(128, (8192,), "chunk 8192x65536", (65536,)),)


def chunk(heads, query_lens, contexts):
    label = "+".join(f"{n}x{m}" for n, m in zip(query_lens, contexts))
    return Row(heads, query_lens, f"chunk {label}", contexts)


# Few new tokens of a rank's heads, or of a small model's: fewer tiles of queries than the machine
# has multiprocessors. Nobody tuned for 8, 20 and 40 heads.
FEW = tuple(equal(*shape) for shape in ((16, 1, 512), (16, 1, 1024), (8, 1, 512), (8, 1, 1024),
                                        (8, 1, 2048), (8, 1, 4096), (8, 4, 1024), (20, 1, 1024),
                                        (20, 1, 2048), (40, 1, 512), (40, 1, 1024))) + tuple(chunk(heads, (new,), (keys,)) for heads in (16, 8, 20)
            for new, keys in ((128, 4096), (256, 4096), (512, 4096), (256, 16384), (512, 16384),
                              (1024, 16384), (1536, 16384), (512, 65536))) + (
    chunk(40, (128,), (16384,)), chunk(40, (512,), (16384,)),
    chunk(16, (100,) * 4, (8192,) * 4), chunk(16, (300, 40, 700), (20000, 500, 9000)),
    chunk(128, (64,), (32768,)), chunk(128, (192,), (32768,)))
ROWS = CAUSAL + CHUNK + FEW

HEAD = ("work", "µs", "TFLOP/s", "of bf16", "FA3 µs", "cuDNN µs", "over FA3", "over cuDNN",
        "over the better", "sustained", "of the byte floor", "bound by", "copy of k_pe µs", "")


def derive(result, read_bytes_per_s):
    """Adds what follows from the times to the raw numbers."""
    times, seconds = result["times"], result["seconds"]
    by_bytes = result["bytes"] / read_bytes_per_s
    by_flops = result["flops"] / PRODUCT_FLOPS * seconds[PRODUCT]
    peer, sustained = better(times, PEERS), better(result["sustained"], PEERS)
    result.update(best_ratio=peer and ratio(times, peer),
                  sustained_ratio=sustained and ratio(result["sustained"], sustained),
                  byte_fraction=by_bytes / seconds["mlac"],
                  product_fraction=by_flops / seconds["mlac"],
                  bound="bytes" if by_bytes > by_flops else "FLOPs")
    result["verdict"] = verdict(result)


def verdict(result):
    if not result["is_right"]:
        return "WRONG"
    if result["best_ratio"] is None:
        return "no peer"
    ratios = [value for value in (result["best_ratio"], result["sustained_ratio"])
              if value is not None]
    is_met = min(ratios) >= BEST
    if result["bound"] == "bytes":
        is_met = is_met and result["byte_fraction"] >= FLOOR
    return "met" if is_met else "missed"


def _text(value, form):
    return form.format(value) if value is not None else ""


def cells(result):
    seconds = result["seconds"]
    us = lambda name: _text(seconds.get(name) and seconds[name] * 1e6, "{:.1f}")
    over = lambda name: _text(ratio(result["times"], name), "{:.3f}")
    return (result["name"], us("mlac"), f"{result['flops'] / seconds['mlac'] / 1e12:.0f}",
            f"{result['product_fraction']:.3f}", us("fa3"), us("cudnn"), over("fa3"),
            over("cudnn"), _text(result["best_ratio"], "{:.3f}"),
            _text(result["sustained_ratio"], "{:.3f}"), f"{result['byte_fraction']:.3f}",
            result["bound"], us("copy of k_pe"), result["verdict"])


def print_table(results):
    rows = results["rows"]
    if not rows:
        return
    read = max(one["read_bytes_per_s"] for one in results["ceilings"])
    print(f"== causal attention on one {results['device']}: medians; ratios per round, alternating")
    print(f"   read stream {read / 1e9:.0f} GB/s, bf16 product 8192^3 "
          f"{PRODUCT_FLOPS / statistics.median(r['seconds'][PRODUCT] for r in rows) / 1e12:.0f} "
          "TFLOP/s")
    for result in rows:
        derive(result, read)
    print(markdown(HEAD, map(cells, rows)))
    print(f"(targets: {BEST} of the better peer cool and sustained, {FLOOR} of the byte floor where "
          "bytes bound; peers also need k_pe copied to every head of K, shown apart)")
    lost = [row for row in rows if row["verdict"] == "missed"]
    print(f"missed: {len(lost)} of {len(rows)} rows")
