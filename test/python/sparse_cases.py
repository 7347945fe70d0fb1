# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random attentions over lists of rows, and batches for them.

A *layer* is a module that attends to the rows that lists name, over a pool or over a workspace. It
has a second function, `dense`, the absorbed attention of the same queries over the pool. A *case* is
one run over a batch of tokens. Everything derives from one seed.
"""

import dataclasses

import numpy as np

HEADS = (1, 2, 3, 8, 16, 17, 40, 64, 100, 128)
WIDTHS = (1, 2, 31, 64, 65, 100, 200, 512, 2048)
LATENTS = (16, 32, 64, 96, 128)
ROPES = (0, 16, 32, 64)
PAGES = (1, 4, 16, 64)
SPLITS = (0, 1, 3, 7)
# Of every element type each format that stores it.
KINDS = (("f32", ""), ("bf16", ""), ("f16", ""), ("bf16", "fp8_ds_mla"), ("f32", ""),
         ("bf16", "mla_fp8_tensor"), ("f16", "mla_fp8_tensor"))
MOST_ROWS = 400
# Products of a token that a case may have: heads times entries times columns.
MOST_WORK = 1 << 21
HOSTILE = np.array([-2 ** 31, -1, 2 ** 31 - 1], np.int32)
ITEM_BYTES = {"f32": 4, "bf16": 2, "f16": 2}


@dataclasses.dataclass(frozen=True)
class Layer:
    index: int
    element: str
    format: str  # "": as they are
    heads: int
    latent: int
    rope: int
    width: int  # of a list
    page: int  # 0: rows of a workspace
    padding: int  # rows between pages
    splits: int
    has_lengths: bool
    has_sink: bool
    wants_row_results: bool

    @property
    def columns(self):
        return self.latent + self.rope

    @property
    def scale(self):
        return self.columns ** -0.5

    def name(self):
        return (f"layer {self.index}: {self.element} {self.format}, {self.heads} heads, "
                f"{self.latent} + {self.rope} columns, lists of {self.width}, pages of {self.page}, "
                f"splits {self.splits}, lengths {self.has_lengths}, sink {self.has_sink}")

    def options(self, target):
        return [f"--target={target}", f"--num-splits={self.splits}"]

    def inputs(self):
        """Names and types of what the caller binds, and which of them the op takes."""
        n, e = self.heads, self.element
        inputs = {"q_lat": f"tensor<?x{n}x{self.latent}x{e}>"}
        if self.rope:
            inputs["q_pe"] = f"tensor<?x{n}x{self.rope}x{e}>"
        inputs["rows"] = f"tensor<?x{self.width}xi32>"
        if self.has_lengths:
            inputs["lengths"] = "tensor<?xi32>"
        if self.has_sink:
            inputs["sink"] = f"tensor<{n}xf32>"
        if not self.page:
            inputs["latent"] = f"tensor<{MOST_ROWS}x{self.latent}x{e}>"
            if self.rope:
                inputs["k_pe"] = f"tensor<{MOST_ROWS}x{self.rope}x{e}>"
        return inputs

    def outputs(self):
        n = self.heads
        outputs = {"output": f"tensor<?x{n}x{self.latent}x{self.element}>"}
        if self.wants_row_results:
            outputs["lse"] = (f"tensor<?x{n}xf32, #mla.lse<base = e, layout = token_major, "
                              "empty = neg_inf>>")
            outputs["max_logits"] = f"tensor<?x{n}xf32>"
        return outputs

    def cache(self):
        fields = f"latent: {self.latent}" + (f", rope: {self.rope}" if self.rope else "")
        stored = f', format = "{self.format}"' if self.format else ""
        return (f"!mla.cache<page_size = {max(self.page, 1)}, fields = [{fields}], "
                f"element = {self.element}{stored}>")

    def _function(self, name, inputs, outputs, operation):
        arguments = [f'%{key}: {kind} {{mla.input = "{key}"}}' for key, kind in inputs.items()]
        arguments += ["%batch: !mla.batch", f"%cache: {self.cache()}"]
        results = [f'{kind} {{mla.output = "{key}"}}' for key, kind in outputs.items()]
        values = ", ".join("%" + key for key in outputs)
        return (f"func.func @{name}({', '.join(arguments)}) -> ({', '.join(results)}) {{\n"
                f"  {values} = {operation}\n"
                f"  return {values} : {', '.join(outputs.values())}\n}}\n")

    def module(self):
        inputs, outputs = self.inputs(), self.outputs()
        group = lambda *names: (f"({', '.join('%' + n for n in names if n in inputs)} : "
                                f"{', '.join(inputs[n] for n in names if n in inputs)})")
        query = "query" + group("q_lat", "q_pe")
        over = f"over %cache, %batch : {self.cache()}, !mla.batch"
        operation = f"mla.sparse_attention {query} rows{group('rows')} "
        operation += f"lengths{group('lengths')} " if self.has_lengths else ""
        operation += f"sink{group('sink')} " if self.has_sink else ""
        operation += over if self.page else f"keys{group('latent', 'k_pe')}"
        operation += f" scale {self.scale:.17e} -> {outputs['output']}"
        if self.wants_row_results:
            operation += f" lse {outputs['lse']} max_logits {outputs['max_logits']}"
        text = self._function("sparse", inputs, outputs, operation)
        queries = {key: kind for key, kind in inputs.items() if key.startswith("q_")}
        return text + self._function(
            "dense", queries, {"output": outputs["output"]},
            f"mla.absorbed_attention {query} {over} scale {self.scale:.17e} -> {outputs['output']}")


def layers(rng, count, kinds=KINDS):
    """Cycles of different lengths, so that each value appears early, in changing company."""
    for index in range(count):
        element, kind = kinds[index % len(kinds)]
        is_wide = kind == "fp8_ds_mla" or index % 11 == 10
        latent, rope = (512, 64) if is_wide else (int(rng.choice(LATENTS)), int(rng.choice(ROPES)))
        heads = HEADS[index % len(HEADS)]
        fitting = [k for k in WIDTHS if heads * k * (latent + rope) <= MOST_WORK]
        page = 0 if index % 4 == 3 and not kind else int(rng.choice(PAGES))
        yield Layer(index, element, kind, heads, latent, rope, int(rng.choice(fitting)), page,
                    int(rng.integers(0, 3)) if page else 0, SPLITS[(index // 2) % len(SPLITS)],
                    bool(rng.random() < 0.5), bool(rng.random() < 0.5), bool(rng.random() < 0.7))


@dataclasses.dataclass(frozen=True)
class Case:
    """query[r] new tokens see context[r] cached ones and themselves, where `is_dense`; else a
    token's list names any rows."""

    context: tuple
    query: tuple
    is_dense: bool
    is_permuted: bool  # run once more with every list in another order


def case(rng, layer, index):
    is_dense = bool(layer.page) and index % 5 == 4 and not layer.has_sink
    requests = int(rng.integers(1, 4))
    query = [int(rng.integers(0, 4)) for _ in range(requests)]
    if not any(query):
        query[0] = 1
    most = min(layer.width, 90) if is_dense else 30
    context = [max(0, int(rng.integers(0, most + 1)) - q) for q in query]
    if is_dense:  # every visible token has an entry
        query = [min(q, layer.width) for q in query]
    return Case(tuple(context), tuple(query), is_dense, index % 3 == 1)


def entries(rng, layer, capacity, length):
    """A token's list: rows that are there or invalid codes of every kind; a fifth of the tokens
    has none that is valid. What is behind `length` is not of the list."""
    kind = rng.random()
    valid = rng.integers(0, capacity, layer.width)
    if capacity >= layer.width and rng.random() < 0.8:
        valid = rng.permutation(capacity)[:layer.width]
    share = 0 if kind < 0.2 else 1 if kind < 0.5 else rng.random()
    codes = np.where(rng.random(layer.width) < 0.3, capacity, rng.choice(HOSTILE, layer.width))
    return np.where(rng.random(layer.width) < share, valid, codes).astype(np.int32)
