# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is compiled, checked and timed: packages, the correctness grid, the speed table."""

import dataclasses
import functools
import itertools
import random

import formats

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
    format: str = ""  # of the cache, where rows are not elements of `dtype`

    @property
    def width(self):
        return self.rank + self.rope

    @property
    def row(self):
        """Elements of a cache row, and their type."""
        return (formats.ROW_BYTES[self.format], "u8") if self.format else (self.width, self.dtype)

    @property
    def scale(self):
        return self.width ** -0.5

    @property
    def name(self):
        tail = ("-invariant" if self.invariant else "") + (f"-{self.format}" if self.format else "")
        return f"h{self.heads}-r{self.rank}-{self.rope}-p{self.page}-{self.dtype}{tail}"


# Latents and rotations that end within a panel of 64 columns, or have an odd number of them.
ODD_SPECS = (Spec(40, 288), Spec(64, 192, 64, 16), Spec(40, 256, 120, 1, "f16"), Spec(33, 160, 0))


def grid_specs():
    """Every head count with every page size; ranks and dtypes turn beside them so that
    each pair of any two axes occurs; every head count in the plain case; and odd widths."""
    specs = {}
    for (i, heads), (j, page) in itertools.product(enumerate(HEADS), enumerate(PAGES)):
        rank, rope = RANKS[(i + j) % len(RANKS)]
        spec = Spec(heads, rank, rope, page, DTYPES[(i + j // 2) % len(DTYPES)])
        specs[spec.name] = spec
    for spec in (*map(Spec, HEADS), *ODD_SPECS):
        specs[spec.name] = spec
    return list(specs.values())


def invariant_specs():
    return [Spec(heads, invariant=True) for heads in (128, 16)]


# A first selection: rows on both sides of 64, every page size, every rank, f16.
EARLY_SPECS = (Spec(128), Spec(16), Spec(9, 256, 32, 16), Spec(64, 512, 0, 128),
               Spec(20, 512, 64, 1, "f16"), Spec(128, invariant=True))


@dataclasses.dataclass(frozen=True)
class Batch:
    """Cached tokens of each request, the new ones counted; some requests may begin with
    the same `shared` tokens: the first `sharing` ones."""

    name: str
    lengths: tuple
    shared: int = 0
    sharing: int = 0

    @property
    def cached(self):
        """Tokens in the cache, shared ones once."""
        return sum(self.lengths) - self.shared * max(self.sharing - 1, 0)


@functools.lru_cache
def equal(batch, kv):
    return Batch(f"({batch},{kv})", (kv,) * batch)


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the speed tables. `goal` says how `target` is meant:

    peer    at least `target` times as fast as FlashMLA
    best    at least `target` times as fast as the better of FlashMLA and FlashAttention-3
    us      at most `target` microseconds
    stream  at least `target` of the read stream
    line    at most `target` times the line through the neighbouring head counts
    page    at most `target` times the time with pages of 64 tokens
    plain   at most `target` times the time of rows of bf16
    """

    heads: int
    requests: Batch
    query_len: int
    goal: str
    target: float
    page: int = 64
    format: str = ""

    @property
    def spec(self):
        return Spec(self.heads, page=self.page, format=self.format)

    @property
    def name(self):
        page = f" page {self.page}" if self.page != 64 else ""
        form = f" {self.format}" if self.format else ""
        return f"h{self.heads} s_q{self.query_len} {self.requests.name}{page}{form}"

    @property
    def lengths(self):
        return self.requests.lengths

    @property
    def batch(self):
        return len(self.lengths)

    @property
    def flops(self):
        """Products of every query with every key; the causal edge is not subtracted."""
        return 2 * self.query_len * self.heads * sum(self.lengths) * (576 + 512)

    @property
    def bytes(self):
        """Cache rows, queries and outputs, each once."""
        rows = self.batch * self.query_len * self.heads
        return self.kv_bytes + 2 * rows * (576 + 512)

    @property
    def kv_bytes(self):
        row = formats.ROW_BYTES[self.format] if self.format else 2 * 576
        return row * self.requests.cached


def row(heads, batch, kv, query_len, goal, target, page=64):
    """A line of equal lengths."""
    return Row(heads, equal(batch, kv), query_len, goal, target, page)


# At most this over the line of the neighbours: launch noise, no padding step.
LINE = 1.05
# Of the better peer, in short replays on a cool card and for long at its power limit.
BEST, BEST_SUSTAINED = 1.0, 0.99

# The shapes that schedules were tuned on, then those that nobody tuned for.
SPEED_ROWS = (
    row(128, 32, 32768, 1, "peer", 1.05), row(128, 128, 8192, 1, "peer", 1.05),
    row(128, 128, 4096, 1, "peer", 1.03), row(128, 64, 4096, 1, "peer", 1.03),
    row(128, 16, 8192, 1, "peer", 1.10), row(128, 128, 1024, 1, "peer", 1.10),
    row(128, 128, 4096, 2, "peer", 1.05), row(128, 128, 8192, 2, "peer", 1.05),
    row(128, 1, 4096, 1, "us", 9.5), row(128, 1, 32768, 1, "us", 20),
    row(64, 128, 4096, 1, "stream", 0.95), row(64, 32, 32768, 1, "stream", 0.95),
    row(16, 128, 4096, 1, "stream", 0.95), row(16, 32, 32768, 1, "stream", 0.95),
    row(16, 1, 4096, 1, "us", 7),
    *(row(heads, 64, 8192, 1, "line", LINE) for heads in (8, 12, 16, 20, 40, 64, 96, 128)),
    *(row(heads, 128, 4096, 1, "page", target, page)
      for heads in (128, 16) for page, target in ((16, 1.10), (1, 1.25))),
    *(row(heads, batch, kv, 1, "best", BEST) for heads in (128, 64, 16)
      for batch, kv in ((48, 6000), (7, 3000), (200, 700))),
    *(row(heads, batch, kv, 1, "best", BEST) for heads in (24, 32, 40, 80, 96)
      for batch, kv in ((16, 8192), (48, 6000), (128, 1024))),
    *(row(heads, 16, 8192, 1, "best", BEST) for heads in (64, 16)),
    row(64, 1, 32768, 1, "best", BEST), row(16, 1, 32768, 1, "best", BEST),
)


# Rows of codes, which are fewer bytes and more work than bf16's.
CODE_ROWS = tuple(
    Row(heads, equal(batch, kv), 1, "plain", target, format=form)
    for form in formats.ROW_BYTES for batch, kv in ((64, 4096), (16, 8192), (128, 1024))
    for heads, target in ((128, 1.0), (64, 0.85), (16, 0.65))) + tuple(
    # Nobody tuned for these.
    Row(heads, equal(batch, kv), 1, "plain", 1.0, format=form)
    for form in formats.ROW_BYTES
    for heads, batch, kv in ((32, 64, 4096), (24, 64, 4096), (8, 64, 4096), (32, 1, 16384),
                             (16, 1, 16384), (24, 7, 3000), (16, 200, 700)))


def skewed(count, long, others, short, place):
    """`count` long requests among short ones: the first, in the middle, or the last."""
    before = {"first": 0, "middle": others // 2, "last": others}[place]
    lengths = (short,) * before + (long,) * count + (short,) * (others - before)
    return Batch(f"{count}x{long}+{others}x{short} {place}", lengths)


def lognormal(batch, median, seed=1):
    """What a server's requests look like: most short, a few many times as long."""
    generator = random.Random(seed)
    lengths = tuple(min(max(round(generator.lognormvariate(0, 1) * median), 1), 65536)
                    for _ in range(batch))
    return Batch(f"lognormal {batch}x{median}", lengths)


def bimodal(batch, short, long, seed=1):
    lengths = [short, long] * (batch // 2)
    random.Random(seed).shuffle(lengths)
    return Batch(f"bimodal {batch}x{short}/{long}", tuple(lengths))


def sharing(batch, count, shared, own):
    """`count` of the requests begin with the same tokens, the others have as many of their own."""
    return Batch(f"shared {count} of {batch}x({shared}+{own})", (shared + own,) * batch, shared,
                 count)


def skewed_rows():
    best = lambda heads, batch, page=64: Row(heads, batch, 1, "best", BEST, page)
    one = lambda place: skewed(1, 131072, 63, 512, place)
    four = lambda place: skewed(4, 32768, 60, 1024, place)
    wide = lambda place: skewed(1, 32768, 127, 1024, place)
    batches = (one("last"), four("first"), wide("middle"), lognormal(128, 1024),
               bimodal(128, 512, 8192))
    yield from (best(heads, batch) for heads in (128, 64, 32, 16, 8) for batch in batches)
    yield from (best(heads, batch) for heads in (128, 64)
                for batch in (one("first"), one("middle"), four("middle"), four("last")))
    yield from (best(heads, batch) for heads in (128, 16)
                for batch in (wide("first"), wide("last"), lognormal(32, 8192),
                              skewed(1, 16384, 7, 256, "last")))
    yield from (best(heads, batch, page) for heads in (128, 16) for page in (1, 16, 128)
                for batch in (one("last"), lognormal(128, 1024)))
    yield from (best(heads, four("first")) for heads in (96, 80, 40, 24))
    yield from (best(heads, batch) for heads in (128, 16)
                for batch in (sharing(8, 8, 8192, 512), sharing(32, 32, 8192, 512),
                              sharing(128, 128, 8192, 256), sharing(128, 64, 4096, 256)))


SKEWED_ROWS = tuple(skewed_rows())

# Cold compilation of one decode kernel, in seconds.
COMPILE_TARGET = 1.0


def specs_of(which):
    """The packages of a selection: early, grid, speed or all."""
    speed = list(dict.fromkeys(row.spec for row in SPEED_ROWS + SKEWED_ROWS + CODE_ROWS))
    choices = {"early": list(EARLY_SPECS), "grid": grid_specs() + invariant_specs(),
               "speed": speed}
    choices["all"] = list(dict.fromkeys(choices["grid"] + speed))
    return choices[which]
