# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is timed: kernels of grouped heads, and batches for them."""

import dataclasses
import random


@dataclasses.dataclass(frozen=True)
class Kernel:
    heads: int
    kv_heads: int
    dim: int
    page: int
    window: int = 0  # 0: none
    queries: int = 1  # of each request; 0: any
    codes: int = 0  # 1: keys and values are e4m3 codes, with a scale each

    def name(self):
        window = f", window {self.window}" if self.window else ""
        queries = f", {self.queries} queries" if self.queries > 1 else ""
        codes = ", e4m3" if self.codes else ""
        return f"{self.heads}/{self.kv_heads} of {self.dim}, page {self.page}{window}{queries}{codes}"

    def file(self):
        return "-".join(str(value) for value in dataclasses.astuple(self)) + ".mlac"

    def module(self):
        kv, d = self.kv_heads, self.dim
        pool = f"!mla.cache<page_size = {self.page}, fields = [{{0}}: {kv}x{d}], element = bf16, " \
               f"format = \"{{1}}\">"
        query = f"tensor<?x{self.heads}x{d}xbf16>"
        batch = f"!mla.batch<query_len = {self.queries or '?'}>"
        window = f"window {self.window} " if self.window else ""
        caches = f"""!keys = {pool.format('key', 'k_nhd')}
!values = {pool.format('value', 'v_nhd')}"""
        arguments = '%k: !keys, %v: !values {mla.pool = "values"}'
        if self.codes:
            caches = f"""!keys = !mla.cache<page_size = {self.page}, fields = [key: {kv}x{d}, value: {kv}x{d}],
    element = bf16, format = "kv_nhd_fp8">
!values = !keys"""
            arguments = "%k: !keys"
        values = "%k" if self.codes else "%v"
        return f"""{caches}
func.func @attend(%q: {query} {{mla.input = "query"}}, %batch: {batch}, {arguments})
    -> ({query} {{mla.output = "output"}}) {{
  %o = mla.grouped_attention query(%q : {query}) keys(%k : !keys) values({values} : !values)
      over %batch : {batch} {window}scale {d ** -0.5:.17e} -> {query}
  return %o : {query}
}}
"""


@dataclasses.dataclass(frozen=True)
class Row:
    """A batch of a kernel: keys and queries of each request."""
    kernel: Kernel
    keys: tuple
    queries: tuple
    what: str

    def name(self):
        return f"{self.kernel.name()}: {self.what}"

    def pairs(self):
        """Queries times keys that they see, causal."""
        total = 0
        for keys, queries in zip(self.keys, self.queries):
            for end in (keys - queries + 1, keys):  # of the first and the last query
                total += queries * min(end, self.kernel.window or end) / 2
            # In between it is linear, but for where a window begins to cut.
            window = self.kernel.window
            first = keys - queries + 1
            if window and first < window < keys:
                rising = window - first
                total += (queries - rising) * rising / 2
        return total

    def flops(self):
        return 4 * self.pairs() * self.kernel.heads * self.kernel.dim

    def bytes(self):
        """Keys and values that some query sees, once; queries and outputs."""
        kernel = self.kernel
        seen = sum(min(keys, kernel.window + queries - 1) if kernel.window else keys
                   for keys, queries in zip(self.keys, self.queries))
        cached = seen * kernel.kv_heads / (2 if kernel.codes else 1)
        return 4 * kernel.dim * (cached + sum(self.queries) * kernel.heads)

    def is_prompt(self):
        return max(self.queries) > 64


def decodes(kernel, batch, keys):
    return Row(kernel, (keys,) * batch, (kernel.queries or 1,) * batch, f"{batch} x {keys}")


def prompts(kernel, batch, tokens, context=0):
    behind = f" behind {context}" if context else ""
    return Row(kernel, (context + tokens,) * batch, (tokens,) * batch,
               f"prompt {batch} x {tokens}{behind}")


def skewed(kernel, long, count, short):
    keys = (long,) + (short,) * (count - 1)
    return Row(kernel, keys, (1,) * count, f"{long} and {count - 1} x {short}")


def ragged(kernel, count, longest):
    lengths = tuple(random.Random(1).randint(1, longest) for _ in range(count))
    return Row(kernel, lengths, lengths, f"prompts {count} x 1..{longest}")


def mixed(kernel, count, keys, tokens):
    """Decodes beside a prompt, as engines schedule them."""
    return Row(kernel, (keys,) * count + (tokens,), (1,) * count + (tokens,),
               f"{count} x {keys} and a prompt of {tokens}")


def rows():
    for heads, kv in ((64, 8), (32, 8)):
        for page in (16, 64):
            kernel = Kernel(heads, kv, 128, page)
            yield decodes(kernel, 1, 4096)
            yield decodes(kernel, 64, 4096)
            if page == 64:
                yield from (decodes(kernel, *shape) for shape in
                            ((1, 32768), (4, 8192), (16, 4096), (128, 1024), (16, 32768)))
                yield skewed(kernel, 65536, 64, 1024)
            prompt = Kernel(heads, kv, 128, page, 0, 0)
            yield prompts(prompt, 1, 8192)
            if page == 64:
                yield from (prompts(prompt, *shape) for shape in
                            ((1, 2048), (1, 16384), (4, 2048), (1, 512, 16384), (1, 256, 4096)))
                yield ragged(prompt, 16, 2048)
    for kernel in (Kernel(8, 1, 128, 64), Kernel(64, 1, 128, 64), Kernel(32, 32, 128, 64),
                   Kernel(64, 8, 128, 64, 4096), Kernel(64, 8, 128, 64, 128)):
        keys = 32768 if kernel.window == 4096 else 4096
        yield from (decodes(kernel, batch, keys) for batch in (1, 16, 64))
    for kernel in (Kernel(64, 8, 128, 64, 4096, 0), Kernel(16, 16, 64, 16, 0, 0),
                   Kernel(40, 8, 128, 32, 0, 0), Kernel(16, 8, 256, 64, 0, 0)):
        yield prompts(kernel, 1, 8192)
    # Prompts of a rank's heads: few programs.
    for heads, kv in ((8, 1), (4, 1), (16, 2), (5, 1)):
        kernel = Kernel(heads, kv, 128, 64, 0, 0)
        yield from (prompts(kernel, *shape) for shape in
                    ((1, 512), (1, 2048), (1, 8192), (1, 512, 16384), (1, 128, 32768)))
        if heads == 8:
            yield from (prompts(kernel, *shape) for shape in ((4, 512, 4096), (16, 100, 4096)))
            yield ragged(kernel, 8, 2048)
            yield mixed(kernel, 32, 4096, 512)
    for heads, kv in ((64, 8), (32, 8), (8, 1)):
        for queries in (2, 4, 8, 16):
            kernel = Kernel(heads, kv, 128, 64, 0, queries)
            yield from (decodes(kernel, *shape) for shape in ((16, 4096), (1, 32768), (64, 4096)))
    # The last six are shapes that nobody tuned for.
    for heads, kv, dim, page, queries in (
            (64, 8, 128, 64, 1), (32, 8, 128, 64, 1), (64, 8, 128, 16, 1), (64, 8, 128, 64, 4),
            (64, 8, 128, 64, 8), (64, 8, 64, 16, 1), (8, 1, 128, 64, 1),
            (32, 32, 128, 64, 1), (40, 8, 128, 32, 1), (28, 4, 128, 64, 1), (16, 16, 64, 64, 1), (24, 8, 256, 64, 1),
            (64, 8, 64, 64, 1), (96, 8, 128, 64, 1)):
        kernel = Kernel(heads, kv, dim, page, 0, queries, 1)
        yield from (decodes(kernel, *shape) for shape in
                    ((1, 4096), (16, 4096), (64, 4096), (1, 32768), (16, 32768)))
        if queries == 1:
            yield skewed(kernel, 65536, 64, 1024)
    # Prompts over codes, beside those over values above.
    for heads, kv in ((64, 8), (32, 8)):
        kernel = Kernel(heads, kv, 128, 64, 0, 0, 1)
        yield from (prompts(kernel, *shape) for shape in
                    ((1, 2048), (1, 8192), (4, 2048), (1, 256, 4096), (1, 512, 16384)))
        yield ragged(kernel, 16, 2048)
    # Shapes that nobody tuned for, each over values and over codes.
    for heads, kv, dim, page, window in ((40, 8, 128, 32, 0), (16, 16, 64, 16, 0), (24, 8, 256, 64, 0),
                                         (64, 8, 64, 16, 128), (28, 4, 128, 16, 0)):
        for codes in (0, 1):
            kernel = Kernel(heads, kv, dim, page, window, 0, codes)
            yield prompts(kernel, 1, 4096)
            yield prompts(kernel, 2, 700, 3000)
    for codes in (0, 1):
        kernel = Kernel(64, 8, 128, 64, 0, 0, codes)
        yield from (mixed(kernel, *shape) for shape in
                    ((1, 4096, 2048), (8, 4096, 2048), (32, 1024, 2048), (4, 32768, 2048), (8, 1024, 512)))
    # No whole panels of 64 columns.
    yield from (decodes(Kernel(32, 8, 96, 64), batch, 4096) for batch in (1, 64))
    for heads, kv, dim in ((32, 32, 96), (32, 8, 80), (16, 16, 72)):
        kernel = Kernel(heads, kv, dim, 64)
        yield from (decodes(kernel, *shape) for shape in ((1, 4096), (16, 4096), (64, 4096), (1, 32768)))
        prompt = Kernel(heads, kv, dim, 64, 0, 0)
        yield prompts(prompt, 1, 4096)
        yield mixed(prompt, 32, 1024, 2048)
    for page in (32, 128, 256):  # 16 and 64 are above
        yield prompts(Kernel(64, 8, 128, page, 0, 0), 1, 8192)
