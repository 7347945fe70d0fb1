# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random steps over caches that NumPy fills, and what they should give in float64: all that the
operators of mlac.attention take is drawn here, by none of their code."""

import dataclasses

import numpy as np

from mlac import reference
from narrow_floats import narrow, widen


def rotate_halves(rows, positions, table):
    """rows [tokens, heads, D], table [positions, D / 2, 2] of cosines and sines, as numbers a + ib."""
    half = rows.shape[-1] // 2
    turned = (rows[..., :half] + 1j * rows[..., half:]) * \
        (table[positions, :, 0] + 1j * table[positions, :, 1])[:, None]
    return np.concatenate([turned.real, turned.imag], -1)


def rotate_neighbours(rows, positions, cos, sin):
    turned = (rows[..., ::2] + 1j * rows[..., 1::2]) * (cos + 1j * sin)[positions][:, None]
    return np.stack([turned.real, turned.imag], -1).reshape(rows.shape)


def angle_table(rng, length, pairs):
    """Not of any theta."""
    phi = rng.uniform(-np.pi, np.pi, (length, pairs))
    return np.stack([np.cos(phi), np.sin(phi)], -1)


@dataclasses.dataclass
class Sizes:
    heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    page: int
    element: str = "f32"


class Step:
    """Sequences with history in caches by pages, NaN everywhere else."""

    def __init__(self, rng, sizes, cached, lengths, max_pages):
        self.sizes, self.lengths = sizes, np.asarray(lengths, np.int32)
        self.positions = np.asarray(cached, np.int32)
        self.ends = self.positions + self.lengths
        self.starts = (np.cumsum(self.lengths) - self.lengths).astype(np.int32)
        count = len(cached) * max_pages + 2
        free = rng.permutation(count).astype(np.int32)
        # Rows of the table are not in the order of the sequences, and there are more.
        self.rows = rng.permutation(len(cached) + 1).astype(np.int32)[:len(cached)]
        self.table = np.full((len(cached) + 1, max_pages), 1 << 20, np.int32)
        for index, row in enumerate(self.rows):
            used = -(-int(self.ends[index]) // sizes.page)
            self.table[row, :used] = free[index * max_pages:index * max_pages + used]
        draw = lambda *shape: narrow(rng.standard_normal(shape), sizes.element)
        tokens = int(self.lengths.sum())
        self.q = draw(tokens, sizes.heads, sizes.key_dim)
        self.k = draw(tokens, sizes.kv_heads, sizes.key_dim)
        self.v = draw(tokens, sizes.kv_heads, sizes.value_dim)
        nan = lambda columns: narrow(np.full((count, sizes.page, sizes.kv_heads, columns), np.nan),
                                     sizes.element)
        self.k_cache, self.v_cache = nan(sizes.key_dim), nan(sizes.value_dim)
        for index in range(len(cached)):
            for position in range(int(self.positions[index])):
                at = self.place(index, position)
                self.k_cache[at] = draw(sizes.kv_heads, sizes.key_dim)
                self.v_cache[at] = draw(sizes.kv_heads, sizes.value_dim)

    def place(self, index, position):
        return (self.table[self.rows[index], position // self.sizes.page],
                position % self.sizes.page)

    def token_positions(self):
        return np.concatenate([np.arange(p, e) for p, e in zip(self.positions, self.ends)]).astype(int)

    def own(self, index):
        return slice(self.starts[index], self.starts[index] + self.lengths[index])

    def expected(self, table=None, scale=None, window=0, softcap=0.0):
        """Outputs [tokens, heads, value_dim], and both caches after the step, in float64."""
        q, k, v = widen(self.q), widen(self.k), widen(self.v)
        if table is not None:
            q, k = (rotate_halves(x, self.token_positions(), table) for x in (q, k))
        k_cache, v_cache = widen(self.k_cache), widen(self.v_cache)
        outputs = []
        for index in range(len(self.lengths)):
            own = self.own(index)
            for offset, position in enumerate(range(self.positions[index], self.ends[index])):
                at = self.place(index, position)
                k_cache[at], v_cache[at] = k[own][offset], v[own][offset]
            if not self.lengths[index]:
                continue
            places = [self.place(index, position) for position in range(self.ends[index])]
            keys, values = (np.stack([cache[at] for at in places]) for cache in (k_cache, v_cache))
            outputs.append(reference.grouped_attention(
                q[own], keys, values, scale or self.sizes.key_dim**-0.5, window, softcap)[0])
        return np.concatenate(outputs), k_cache, v_cache
