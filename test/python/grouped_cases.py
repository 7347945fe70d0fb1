# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random attentions of groups of heads, and batches for them.

A *layer* is a module with two functions, each of which appends new rows and attends: `mixed` takes
queries of any length, `decode` one of each request. A *case* is one run of one of them over a
ragged batch with cached context. Everything derives from one seed.
"""

import dataclasses

import numpy as np

KV_HEADS = (1, 2, 3, 4, 8)
GROUPS = (1, 2, 3, 4, 5, 7, 8, 12, 16, 33, 64)
MOST_HEADS = 64
DIMS = (8, 16, 24, 40, 64, 72, 80, 96, 112, 128, 136, 192, 248, 256)
PAGES = (1, 4, 16, 32, 48, 64, 128, 512)  # the last holds a whole sequence: a contiguous cache
WINDOWS = (0, 0, 1, 5, 16, 64, 100)
SPLITS = (0, 1, 3, 7)
SOFTCAPS = (0, 0, 15.0, 0, 2.5)
ELEMENTS = ("f32", "f32", "bf16", "f16")
ROW_ALIGNMENT = 16  # bytes, of a pool's rows
SCALES = (1.0, 0.03125, 0.013)  # of codes; the second a power of two


@dataclasses.dataclass(frozen=True)
class Layer:
    """One pool where both pages are None's, else keys and values have their own."""

    index: int
    element: str
    kv_heads: int
    group: int
    key_dim: int
    value_dim: int
    key_page: int
    value_page: int  # 0: one pool
    window: int
    splits: int
    softcap: float
    has_sink: bool
    scales: tuple  # of keys and values that are codes; empty: as they are

    @property
    def heads(self):
        return self.kv_heads * self.group

    @property
    def scale(self):
        return self.key_dim ** -0.5

    def name(self):
        pages = f"{self.key_page} and {self.value_page}" if self.value_page else self.key_page
        return (f"layer {self.index}: {self.element}, {self.heads} heads on {self.kv_heads}, "
                f"dims {self.key_dim}/{self.value_dim}, pages of {pages}, window {self.window}, "
                f"splits {self.splits}, softcap {self.softcap}, sink {self.has_sink}, "
                f"scales of codes {self.scales}")

    def options(self, target):
        return [f"--target={target}", f"--num-splits={self.splits}"]

    def module(self):
        n, e = self.heads, self.element
        key = f"key: {self.kv_heads}x{self.key_dim}"
        value = f"value: {self.kv_heads}x{self.value_dim}"
        codes = "_fp8" if self.scales else ""
        cache = (f"!mla.cache<page_size = {{}}, fields = [{{}}], element = {e}, "
                 f"format = \"{{}}{codes}\">")
        if self.value_page:
            types = {"keys": cache.format(self.key_page, key, "k_nhd"),
                     "values": cache.format(self.value_page, value, "v_nhd")}
        else:
            types = {"both": cache.format(self.key_page, f"{key}, {value}", "kv_nhd")}
        masks = f"sink(%sink : tensor<{n}xf32>) " if self.has_sink else ""
        masks += f"window {self.window} " if self.window else ""
        masks += f"softcap {self.softcap:.17e} " if self.softcap else ""
        query, out = f"tensor<?x{n}x{self.key_dim}x{e}>", f"tensor<?x{n}x{self.value_dim}x{e}>"
        lse = f"tensor<?x{n}xf32, #mla.lse<base = e, layout = token_major, empty = neg_inf>>"
        rows = {"key": f"tensor<?x{self.kv_heads}x{self.key_dim}x{e}>",
                "value": f"tensor<?x{self.kv_heads}x{self.value_dim}x{e}>"}
        text = [f"!{name} = {text}" for name, text in types.items()]
        pools = list(types)
        for function, length in (("mixed", "?"), ("decode", "1")):
            batch = f"!mla.batch<query_len = {length}>"
            arguments = [f'%query: {query} {{mla.input = "query"}}']
            arguments += [f'%{row}: {rows[row]} {{mla.input = "{row}"}}' for row in rows]
            if self.has_sink:
                arguments += [f'%sink: tensor<{n}xf32> {{mla.input = "sink"}}']
            arguments += [f"%batch: {batch}"]
            # The first pool goes without a name.
            arguments += [f"%{pools[0]}: !{pools[0]}"]
            arguments += [f'%{pool}: !{pool} {{mla.pool = "{pool}"}}' for pool in pools[1:]]
            body = []
            if self.value_page:
                for row, pool in (("key", "keys"), ("value", "values")):
                    body.append(f"%new_{pool} = mla.append %{row} into %{pool}, %batch : "
                                f"{rows[row]} into !{pool}, {batch}")
                reads = "keys(%new_keys : !keys) values(%new_values : !values)"
            else:
                body.append(f"%new_both = mla.append %key, %value into %both, %batch : "
                            f"{rows['key']}, {rows['value']} into !both, {batch}")
                reads = "keys(%new_both : !both) values(%new_both : !both)"
            body.append(f"%o, %l = mla.grouped_attention query(%query : {query}) {reads} over %batch "
                        f": {batch} {masks}scale {self.scale:.17e} -> {out}, {lse}")
            results = ", ".join(f"!{pool}" for pool in pools)
            returned = ", ".join(f"%new_{pool}" for pool in pools)
            body.append(f"return %o, %l, {returned} : {out}, {lse}, {results}")
            text.append(f"func.func @{function}({', '.join(arguments)}) -> "
                        f'({out} {{mla.output = "output"}}, {lse} {{mla.output = "lse"}}, {results}) {{')
            text += [f"  {line}" for line in body] + ["}"]
        return "\n".join(text) + "\n"


@dataclasses.dataclass(frozen=True)
class Case:
    """context[r] tokens are cached, query[r] are new."""

    function: str
    context: tuple
    query: tuple
    are_scores_low: bool  # every valid score far below 0


def _dim(rng, kv_heads, element, has_codes):
    """A width whose rows, of all heads, have whole multiples of the alignment."""
    item = 1 if has_codes else 4 if element == "f32" else 2
    fitting = [d for d in DIMS if kv_heads * d * item % ROW_ALIGNMENT == 0]
    return int(rng.choice(fitting))


def layers(rng, count, elements=ELEMENTS):
    """Cycles of different lengths, so that each value appears early, in changing company."""
    for index in range(count):
        group = GROUPS[index % len(GROUPS)]
        kv_heads = min(KV_HEADS[index % len(KV_HEADS)], MOST_HEADS // group)
        element = elements[index % len(elements)]
        has_codes = index % 5 == 1
        key_dim = _dim(rng, kv_heads, element, has_codes)
        value_dim = key_dim if index % 3 == 0 else _dim(rng, kv_heads, element, has_codes)
        scales = tuple(float(rng.choice(SCALES)) for _ in range(2)) if has_codes else ()
        yield Layer(index, element, kv_heads, group, key_dim, value_dim, int(rng.choice(PAGES)),
                    0 if index % 4 == 3 or has_codes else int(rng.choice(PAGES)), int(rng.choice(WINDOWS)),
                    SPLITS[(index // 2) % len(SPLITS)], SOFTCAPS[index % len(SOFTCAPS)],
                    index % 3 == 1, scales)


def _length(rng, page, most):
    """Often at a page's or a block's boundary, or one off."""
    edge = int(rng.choice((page, 64))) * int(rng.integers(1, 4)) + int(rng.integers(-1, 2))
    plain = int(rng.integers(0, most + 1))
    return int(np.clip(edge if rng.random() < 0.5 else plain, 0, most))


def case(rng, layer, index, most_requests, most_tokens, most_keys):
    function = ("mixed", "decode")[index % 2]
    requests = int(rng.integers(1, most_requests + 1))
    page = layer.key_page if index % 4 < 2 or not layer.value_page else layer.value_page
    # Some may have nothing to do: padding of a graph.
    query = [int(rng.random() < 0.9) for _ in range(requests)]
    if function == "mixed":
        share = most_tokens // requests
        query = [int(rng.choice((0, 1, 2, 3, int(rng.integers(0, share + 1))))) for _ in query]
    if not any(query):
        query[0] = 1
    context = [max(0, _length(rng, page, most_keys) - q) for q in query]
    return Case(function, tuple(context), tuple(query), bool(rng.random() < 0.2))


def prompt_case(rng, page, most_tokens, most_keys):
    """Queries of a request that fill a GPU, whole or behind a context; often others beside it, which
    have few, or enough for tiles of their own."""
    room = most_tokens // 8  # of each of the others
    query = [int(rng.integers(most_tokens // 2, most_tokens - 4 * room + 1))]
    while len(query) < 5 and rng.random() < 0.6:
        query.insert(int(rng.integers(0, len(query) + 1)),
                     int(rng.choice((int(rng.integers(0, 4)), int(rng.integers(0, room + 1))))))
    query = tuple(query)
    context = tuple(int(rng.random() < 0.7) * _length(rng, page, most_keys - most_tokens)
                    for _ in query)
    return Case("mixed", context, query, bool(rng.random() < 0.2))
