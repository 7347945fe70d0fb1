# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is compiled, checked and timed: packages, the correctness grid, the speed table."""

import dataclasses
import itertools

BATCHES = (1, 2, 6, 64, 128)
HEADS = (1, 3, 8, 9, 12, 16, 20, 40, 63, 64, 96, 126, 128)
QUERY_LENS = (1, 2, 3, 4)
PAGES = (1, 16, 64, 128)
RANKS = ((512, 64), (256, 32), (512, 0))
DTYPES = ("bf16", "f16")

# Longest query of each decode function in a package: a step of s_q tokens runs the
# smallest that takes it, as in an engine with that many speculative tokens.
FUNCTION_QUERY_LENS = (1, 2, 4)


@dataclasses.dataclass(frozen=True)
class Spec:
    """One package: attention of `heads` heads over a paged latent cache."""

    heads: int
    rank: int = 512
    rope: int = 64
    page: int = 64
    dtype: str = "bf16"
    invariant: bool = False  # results do not depend on the other requests

    @property
    def width(self):
        return self.rank + self.rope

    @property
    def scale(self):
        return self.width ** -0.5

    @property
    def name(self):
        tail = "-invariant" if self.invariant else ""
        return f"h{self.heads}-r{self.rank}-{self.rope}-p{self.page}-{self.dtype}{tail}"


def grid_specs():
    """Every head count with every page size; ranks and dtypes turn beside them so that
    each pair of any two axes occurs; and every head count in the plain case."""
    specs = {}
    for (i, heads), (j, page) in itertools.product(enumerate(HEADS), enumerate(PAGES)):
        rank, rope = RANKS[(i + j) % len(RANKS)]
        spec = Spec(heads, rank, rope, page, DTYPES[(i + j // 2) % len(DTYPES)])
        specs[spec.name] = spec
    for heads in HEADS:
        spec = Spec(heads)
        specs[spec.name] = spec
    return list(specs.values())


def invariant_specs():
    return [Spec(heads, invariant=True) for heads in (128, 16)]


# A first selection: rows on both sides of 64, every page size, every rank, f16.
EARLY_SPECS = (Spec(128), Spec(16), Spec(9, 256, 32, 16), Spec(64, 512, 0, 128),
               Spec(20, 512, 64, 1, "f16"), Spec(128, invariant=True))


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the speed table. `goal` says how `target` is meant:

    peer    at least `target` times as fast as FlashMLA
    us      at most `target` microseconds
    stream  at least `target` of the read stream
    line    at most `target` times the line through the neighbouring head counts
    page    at most `target` times the time with pages of 64 tokens
    """

    heads: int
    batch: int
    kv: int
    query_len: int
    goal: str
    target: float
    page: int = 64

    @property
    def spec(self):
        return Spec(self.heads, page=self.page)

    @property
    def name(self):
        page = f" page {self.page}" if self.page != 64 else ""
        return f"h{self.heads} s_q{self.query_len} ({self.batch},{self.kv}){page}"

    @property
    def flops(self):
        """Products of every query with every key; the causal edge is not subtracted."""
        return 2 * self.batch * self.query_len * self.heads * self.kv * (576 + 512)

    @property
    def bytes(self):
        """Cache rows, queries and outputs, each once."""
        rows = self.batch * self.query_len * self.heads
        return 2 * (self.batch * self.kv * 576 + rows * (576 + 512))

    @property
    def kv_bytes(self):
        return 2 * self.batch * self.kv * 576


# At most this over the line of the neighbours: launch noise, no padding step.
LINE = 1.05

SPEED_ROWS = (
    Row(128, 32, 32768, 1, "peer", 1.05), Row(128, 128, 8192, 1, "peer", 1.05),
    Row(128, 128, 4096, 1, "peer", 1.03), Row(128, 64, 4096, 1, "peer", 1.03),
    Row(128, 16, 8192, 1, "peer", 1.10), Row(128, 128, 1024, 1, "peer", 1.10),
    Row(128, 128, 4096, 2, "peer", 1.05), Row(128, 128, 8192, 2, "peer", 1.05),
    Row(128, 1, 4096, 1, "us", 9.5), Row(128, 1, 32768, 1, "us", 20),
    Row(64, 128, 4096, 1, "stream", 0.95), Row(64, 32, 32768, 1, "stream", 0.95),
    Row(16, 128, 4096, 1, "stream", 0.95), Row(16, 32, 32768, 1, "stream", 0.95),
    Row(16, 1, 4096, 1, "us", 7),
    *(Row(heads, 64, 8192, 1, "line", LINE) for heads in (8, 12, 16, 20, 40, 64, 96, 128)),
    *(Row(heads, 128, 4096, 1, "page", target, page)
      for heads in (128, 16) for page, target in ((16, 1.10), (1, 1.25))),
)

# Cold compilation of one decode kernel, in seconds.
COMPILE_TARGET = 1.0


def specs_of(which):
    """The packages of a selection: early, grid, speed or all."""
    speed = list(dict.fromkeys(row.spec for row in SPEED_ROWS))
    choices = {"early": list(EARLY_SPECS), "grid": grid_specs() + invariant_specs(),
               "speed": speed}
    choices["all"] = list(dict.fromkeys(choices["grid"] + speed))
    return choices[which]
