#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares compiled attention over lists of rows with the float64 reference on random batches.

Heads from 1 to 128, lists of 1 to 2048 entries, pools of every format with pages further apart
than they are long, and workspaces; lengths, sinks (a third each minus and plus infinity), splits.
Rows that no valid entry names hold NaN, and so do outputs and workspace before a run; invalid
entries are of every kind, and some tokens have nothing else. Each step runs twice, with the same bits;
every third once more with its lists in another order. Where a request has no more keys than a list has
entries, attention over all of them by a list is the dense one.

    run_sparse.py --compiler build/bin/mla-compile [--layers 24] [--cases 84] [--seed 1]

On a GPU in bf16 and f16; the packages may be built elsewhere (needs torch there):

    run_sparse.py --build DIR --compiler build/bin/mla-compile
    run_sparse.py --gpu DIR
"""

import sys

import numpy as np

import random_layers
import sparse_cases
from narrow_floats import narrow, widen
from random_layers import ALLOWED, ALLOWED_LSE, package_of, poisoned

from mlac import reference

MAX_REQUESTS, MAX_TOKENS, MAX_KEYS = 3, 16, 128
POISON = 0xFF  # all bits set is a NaN in every type
GROUP = 128  # columns of a row of 656 bytes that share a scale


# Operands of sm_90a's kernels are so many times what codes with scales of rows stand for.
CODE_FACTOR = np.float32(16)


class Rows:
    """How a layer's pool stores a row, and the numbers that kernels then multiply: rounded to the
    activations' type, or, of codes with scales of rows on sm_90a, as f16."""

    def __init__(self, layer):
        self.layer = layer
        self.values = np.array(reference.e4m3_values(), np.float32)
        item = sparse_cases.ITEM_BYTES[layer.element]
        self.bytes = {"": layer.columns * item, "mla_fp8_tensor": layer.columns,
                      "fp8_ds_mla": layer.latent + layer.latent // GROUP * 4 + layer.rope * 2
                      }[layer.format]
        self.dtype = {"f32": np.float32, "f16": np.float16,
                      "bf16": np.uint16}[layer.element] if not layer.format else np.uint8
        self.layer_scale = 2.0 ** -8

    def _codes(self, rng, count):
        """Finite ones; 0x7f is NaN."""
        return (rng.integers(0, 0x7F, count) | rng.integers(0, 2, count) << 7).astype(np.uint8)

    def _scaled(self, codes, scale):
        product = self.values[codes] * np.float32(scale)
        return widen(narrow(product, self.layer.element))

    def _operands(self, codes, scales):
        """The scale is rounded, and the product."""
        product = self.values[codes] * (scales * CODE_FACTOR).astype(np.float16)
        return product.astype(np.float16) / CODE_FACTOR

    def draw(self, rng):
        """Bytes of a row, and its numbers in both forms."""
        layer = self.layer
        if not layer.format:
            row = narrow(rng.standard_normal(layer.columns), layer.element)
            return row.view(np.uint8), widen(row), widen(row)
        if layer.format == "mla_fp8_tensor":
            codes = self._codes(rng, layer.columns)
            numbers = self._scaled(codes, self.layer_scale)
            return codes, numbers, numbers
        codes = self._codes(rng, layer.latent)
        scales = rng.uniform(2.0 ** -9, 2.0 ** -7, layer.latent // GROUP).astype(np.float32)
        rope = narrow(rng.standard_normal(layer.rope), "bf16")
        repeated = np.repeat(scales, GROUP)
        forms = self._scaled(codes, repeated), self._operands(codes, repeated)
        return (np.concatenate([codes, scales.view(np.uint8), rope.view(np.uint8)]),
                *(np.concatenate([form, widen(rope)]) for form in forms))


class Memory:
    """Rows of a pool or of a workspace: poison where nothing was put."""

    def __init__(self, rng, layer, rows, pages):
        self.rng, self.layer, self.rows = rng, layer, rows
        self.page_rows = max(layer.page, 1) + layer.padding
        count = pages * self.page_rows if layer.page else sparse_cases.MOST_ROWS
        self.capacity = count - layer.padding if layer.page else count
        self.bytes = np.full((count, rows.bytes), POISON, np.uint8)
        self.numbers = np.full((2, count, layer.columns), np.nan)

    def put(self, index):
        if np.isnan(self.numbers[0, index, 0]):
            self.bytes[index], *self.numbers[:, index] = self.rows.draw(self.rng)

    def pool(self, machine):
        typed = np.ascontiguousarray(self.bytes).view(self.rows.dtype)
        typed = typed.reshape(-1, self.page_rows, typed.shape[1])
        return machine.put(typed)[:, :max(self.layer.page, 1)]

    def workspace(self):
        item = self.bytes.shape[1] // self.layer.columns * self.layer.latent
        part = lambda array: np.ascontiguousarray(array).view(self.rows.dtype)
        parts = {"latent": part(self.bytes[:, :item])}
        if self.layer.rope:
            parts["k_pe"] = part(self.bytes[:, item:])
        return parts


class Batch:
    """The inputs of one step, and what it may read."""

    def __init__(self, rng, layer, rows, case):
        self.layer, self.case, self.tokens = layer, case, sum(case.query)
        self.lens = [c + q for c, q in zip(case.context, case.query)]
        self.page = max(layer.page, 1)
        pages = max(2, sum(-(-n // self.page) for n in self.lens) + 1,
                    int(rng.integers(2, 1 + max(2, sparse_cases.MOST_ROWS // self.page))))
        self.memory = Memory(rng, layer, rows, min(pages, sparse_cases.MOST_ROWS))
        self.fill_table(rng)
        self.lengths = rng.integers(-3, layer.width + 4, self.tokens).astype(np.int32)
        if case.is_dense or not layer.has_lengths:
            self.lengths[:] = layer.width
        lists = self.dense_lists(rng) if case.is_dense else [
            sparse_cases.entries(rng, layer, self.memory.capacity, length)
            for length in self.lengths]
        self.lists = np.stack(list(lists))
        for entries in self.seen():
            for entry in entries[(entries >= 0) & (entries < self.memory.capacity)]:
                self.memory.put(entry)
        shape = (self.tokens, layer.heads)
        self.query = narrow(rng.standard_normal((*shape, layer.columns)), layer.element)
        self.sink = rng.standard_normal(layer.heads).astype(np.float32)
        third = rng.integers(0, 3, layer.heads)
        self.sink[third == 1], self.sink[third == 2] = -np.inf, np.inf

    def seen(self):
        """The entries of every token's list."""
        return [entries[:np.clip(length, 0, self.layer.width)]
                for entries, length in zip(self.lists, self.lengths)]

    def fill_table(self, rng):
        order = rng.permutation(len(self.memory.bytes) // self.memory.page_rows)
        self.table = np.zeros((len(self.lens), 1 + max(-(-n // self.page) for n in self.lens)),
                              np.int32)
        used = 0
        for request, length in enumerate(self.lens):
            count = -(-length // self.page) if self.layer.page else 0
            self.table[request, :count] = order[used:used + count]
            used += count

    def dense_lists(self, rng):
        for request, (context, query) in enumerate(zip(self.case.context, self.case.query)):
            places = np.arange(context + query)
            rows = (self.table[request, places // self.page] * self.memory.page_rows
                    + places % self.page)
            for token in range(query):
                entries = np.full(self.layer.width, -1, np.int32)
                entries[:context + token + 1] = rows[:context + token + 1]
                yield rng.permutation(entries)

    def inputs(self, lists):
        layer, split = self.layer, lambda x: np.ascontiguousarray(x)
        inputs = {"q_lat": split(self.query[:, :, :layer.latent]), "rows": lists}
        if layer.rope:
            inputs["q_pe"] = split(self.query[:, :, layer.latent:])
        if layer.has_lengths:
            inputs["lengths"] = self.lengths
        if layer.has_sink:
            inputs["sink"] = self.sink
        if not layer.page:
            inputs.update(self.memory.workspace())
        return inputs

    def expected(self, form=0):
        numbers = self.memory.numbers[form, :self.memory.capacity]
        return reference.gathered_attention(
            widen(self.query), numbers, numbers[:, :self.layer.latent], self.seen(),
            self.layer.scale, self.sink if self.layer.has_sink else None)


class Runner:
    def __init__(self, layer, package, machine):
        import mlac

        self.layer, self.machine, self.rows = layer, machine, Rows(layer)
        self.engine = mlac.Engine(
            mlac.Package(str(package)), machine.device, max_num_requests=MAX_REQUESTS,
            max_seq_len=MAX_KEYS, max_num_tokens=MAX_TOKENS, external_pools=1)
        self.engine.prepare()
        if layer.format == "mla_fp8_tensor":
            self.engine.set_cache_scale(self.rows.layer_scale)
        self.plan = self.engine.plan()

    def step(self, batch, function, inputs):
        layer, tokens = self.layer, batch.tokens
        self.engine.poison_workspace()
        slots = np.full(tokens, -1, np.int64)
        self.plan.fill_tables(batch.case.query, batch.lens, batch.table, slots, function)
        outputs = {"output": poisoned((tokens, layer.heads, layer.latent), layer.element)}
        if layer.wants_row_results and function == "sparse":
            outputs["lse"] = poisoned((tokens, layer.heads), "f32")
            outputs["max_logits"] = poisoned((tokens, layer.heads), "f32")
        buffers = {name: self.machine.put(array) for name, array in {**inputs, **outputs}.items()}
        self.plan.run_bound(**buffers)
        return {name: self.machine.get(buffers[name]) for name in outputs}

    def run(self, rng, case):
        """The worst error, relative to what is allowed."""
        layer = self.layer
        batch = Batch(rng, layer, self.rows, case)
        pool = batch.memory.pool(self.machine) if layer.page else self.machine.put(
            np.zeros((1, 1, self.rows.bytes // np.dtype(self.rows.dtype).itemsize),
                     self.rows.dtype))
        self.engine.bind_pool(pool)
        got = self.step(batch, "sparse", batch.inputs(batch.lists))
        again = self.step(batch, "sparse", batch.inputs(batch.lists))
        if any(got[name].tobytes() != again[name].tobytes() for name in got):
            return np.inf
        # All of a package's kernels have one form; lengths and maxima of scores tell which.
        forms = [batch.expected(form) for form in range(1 if self.is_plain() else 2)]
        output, lse, top = min(forms, key=lambda form: self.compare(got, *form))
        worst = self.compare(got, output, lse, top)
        if case.is_permuted:
            lists = batch.lists.copy()
            for entries, length in zip(lists, batch.lengths):
                own = entries[:np.clip(length, 0, layer.width)]
                own[:] = rng.permutation(own)
            worst = max(worst, self.compare(self.step(batch, "sparse", batch.inputs(lists)),
                                            output, lse, top))
        if case.is_dense:
            queries = {name: array for name, array in batch.inputs(batch.lists).items()
                       if name.startswith("q_")}
            worst = max(worst, self.compare(self.step(batch, "dense", queries), output, lse, top))
        return worst

    def is_plain(self):
        return self.layer.format != "fp8_ds_mla" or self.machine.target == "cpu"

    def compare(self, got, output, lse, top):
        result = widen(got["output"])
        is_empty = np.isinf(lse)
        if np.any(result[is_empty] != 0) or np.any(np.isnan(result)):
            return np.inf
        worst = 0.0
        if np.linalg.norm(output) > 0:
            worst = reference.relative_error(result, output) / ALLOWED[self.layer.element]
        for name, expected in (("lse", lse), ("max_logits", top)):
            if name not in got:
                continue
            if np.any(got[name][is_empty] != -np.inf):
                return np.inf
            value, expected = got[name][~is_empty], expected[~is_empty]
            off = np.abs(value - expected) / np.maximum(1, np.abs(expected))
            worst = max(worst, off.max(initial=0) / ALLOWED_LSE)
        return np.inf if np.isnan(worst) else float(worst)


def run_layer(job):
    layer, directory, machine, seed, cases = job
    rng = np.random.default_rng((seed, layer.index))
    runner = Runner(layer, package_of(layer, directory),
                    machine(int(rng.choice((1, 2, 5)))))
    results = []
    for index in range(cases):
        case = sparse_cases.case(rng, layer, index)
        results.append((case, [runner.run(rng, case)]))
    return layer, results


def make_layers(rng, count, machine):
    kinds = [kind for kind in sparse_cases.KINDS if kind[0] in machine.elements]
    return sparse_cases.layers(rng, count, kinds)


if __name__ == "__main__":
    sys.exit(random_layers.main(__doc__, make_layers, run_layer, layers=24, cases=84))
