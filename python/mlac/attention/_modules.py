# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The operators in the mla dialect: rotate, append, attend."""

from __future__ import annotations

import re
from typing import NamedTuple

_FUNCTIONS = (("step", "?"), ("decode", "1"))


class Rope(NamedTuple):
    """By a table that is an input: [length, dim] of f32, cosines before sines, or, where `element` is
    said, [length, dim / 2, 2] of it."""

    order: str
    dim: int
    length: int
    element: str | None = None

    @property
    def table(self) -> str:
        if self.element is None:
            return f"tensor<{self.length}x{self.dim}xf32>"
        return f"tensor<{self.length}x{self.dim // 2}x2x{self.element}>"

    def argument(self) -> str:
        return f'%table: {self.table} {{mla.input = "table"}}'

    def rotate(self, result: str, rows: str, row_type: str) -> str:
        # The table is given: theta says nothing.
        rope = f"<order = {self.order}, dim = {self.dim}, theta = 1.0e4, length = {self.length}>"
        return (f"{result} = mla.rope {rows}, %table, %batch with {rope} : {row_type}, "
                f"{self.table}, !batch")


class Grouped(NamedTuple):
    """Keys and values of groups of heads, in pools of their own."""

    heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    page_size: int
    element: str
    scale: float
    window: int = 0
    softcap: float = 0.0
    rope: Rope | None = None


class Latent(NamedTuple):
    """Queries folded to latents, over a latent and a rope key for each token."""

    heads: int
    rank: int
    rope_dim: int
    page_size: int
    element: str
    cache_format: str
    scale: float
    rope: Rope | None = None


def _function(name: str, types: dict[str, str], arguments: list[str], pools: list[str],
              body: list[str]) -> str:
    """A function that returns %o and the pools."""
    aliases = [f"!{alias}_{name} = {text}" for alias, text in types.items()]
    places = [f"%{pool}: !{pool}" + (f' {{mla.pool = "{pool}"}}' if index else "")
              for index, pool in enumerate(pools)]
    results = ['!output {mla.output = "output"}', *(f"!{pool}" for pool in pools)]
    values = ["%o", *(f"%new_{pool}" for pool in pools)]
    returned = ", ".join(["!output", *(f"!{pool}" for pool in pools)])
    text = (f"func.func @{name}({', '.join([*arguments, '%batch: !batch', *places])}) -> "
            f"({', '.join(results)}) {{\n  " + "\n  ".join(body) +
            f"\n  return {', '.join(values)} : {returned}\n}}\n")
    text = re.sub(rf"!({'|'.join(types)})\b", rf"!\1_{name}", text)
    return "\n".join(aliases) + "\n" + text


def _inputs(names: dict[str, str]) -> list[str]:
    return [f'%{name}: !{kind} {{mla.input = "{name}"}}' for name, kind in names.items()]


def grouped_module(of: Grouped) -> str:
    """Inputs query, key, value and table, output `output`; pools of keys, then of values."""
    masks = f"window {of.window} " if of.window else ""
    masks += f"softcap {of.softcap:.17e} " if of.softcap else ""
    rows = "tensor<?x{}x{}x" + of.element + ">"
    cache = ("!mla.cache<page_size = " + str(of.page_size) + ", fields = [{}: {}x{}], element = "
             + of.element + ', format = "{}">')
    text = ""
    for name, length in _FUNCTIONS:
        types = {"query": rows.format(of.heads, of.key_dim),
                 "key": rows.format(of.kv_heads, of.key_dim),
                 "value": rows.format(of.kv_heads, of.value_dim),
                 "output": rows.format(of.heads, of.value_dim),
                 "batch": f"!mla.batch<query_len = {length}>",
                 "keys": cache.format("key", of.kv_heads, of.key_dim, "k_nhd"),
                 "vals": cache.format("value", of.kv_heads, of.value_dim, "v_nhd")}
        arguments, body = _inputs({"query": "query", "key": "key", "value": "value"}), []
        query, key = "%query", "%key"
        if of.rope:
            arguments.append(of.rope.argument())
            query, key = "%rotated", "%rotated_key"
            body = [of.rope.rotate(query, "%query", "!query"),
                    of.rope.rotate(key, "%key", "!key")]
        body += [f"%new_keys = mla.append {key} into %keys, %batch : !key into !keys, !batch",
                 "%new_vals = mla.append %value into %vals, %batch : !value into !vals, !batch",
                 f"%o = mla.grouped_attention query({query} : !query) keys(%new_keys : !keys) "
                 f"values(%new_vals : !vals) over %batch : !batch {masks}scale {of.scale:.17e} "
                 "-> !output"]
        text += _function(name, types, arguments, ["keys", "vals"], body)
    return text


def latent_module(of: Latent) -> str:
    """Inputs q_lat, q_pe, latent, k_pe and table, output `output`; one pool."""
    element = of.element
    text = ""
    for name, length in _FUNCTIONS:
        types = {"q_lat": f"tensor<?x{of.heads}x{of.rank}x{element}>",
                 "q_pe": f"tensor<?x{of.heads}x{of.rope_dim}x{element}>",
                 "latent": f"tensor<?x{of.rank}x{element}>",
                 "k_pe": f"tensor<?x{of.rope_dim}x{element}>",
                 "output": f"tensor<?x{of.heads}x{of.rank}x{element}>",
                 "batch": f"!mla.batch<query_len = {length}>",
                 "cache": f"!mla.cache<page_size = {of.page_size}, fields = [latent: {of.rank}, "
                          f"rope: {of.rope_dim}], element = {element}, rope_order = interleaved, "
                          f'format = "{of.cache_format}">'}
        names = {name: name for name in ("q_lat", "q_pe", "latent", "k_pe")}
        arguments, body = _inputs(names), []
        query, key = "%q_pe", "%k_pe"
        if of.rope:
            arguments.append(of.rope.argument())
            query, key = "%rotated", "%rotated_key"
            body = [of.rope.rotate(query, "%q_pe", "!q_pe"), of.rope.rotate(key, "%k_pe", "!k_pe")]
        body += [f"%new_cache = mla.append %latent, {key} into %cache, %batch : !latent, !k_pe "
                 "into !cache, !batch",
                 f"%o = mla.absorbed_attention query(%q_lat, {query} : !q_lat, !q_pe) over "
                 f"%new_cache, %batch : !cache, !batch scale {of.scale:.17e} -> !output"]
        text += _function(name, types, arguments, ["cache"], body)
    return text
