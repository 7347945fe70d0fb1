# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A layer of 4 heads, mostly under rope, whose attention is given, and what runs it over caches."""

import mlac
from cached_models import torch
from mlac.sequence_info import SequenceInfo

HEADS, WIDTH, COLUMNS = 4, 16, 64


def causal(scores):
    """[tokens, tokens]: which keys a query sees."""
    return torch.ones(scores.shape[-2:], dtype=torch.bool).tril()


def weigh(scores):
    return scores.masked_fill(~causal(scores), float("-inf")).softmax(-1)


def rotate(heads, positions, frequencies):
    angles = positions[:, None, :, None] * frequencies
    angles = torch.cat([angles, angles], -1)
    first, second = heads.chunk(2, -1)
    return heads * angles.cos() + torch.cat([-second, first], -1) * angles.sin()


def make_layer(attend, kv_heads, has_rope):
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            linear, columns = torch.nn.Linear, kv_heads * WIDTH
            self.q, self.out = linear(COLUMNS, HEADS * WIDTH), linear(HEADS * WIDTH, COLUMNS)
            self.k, self.v = linear(COLUMNS, columns), linear(COLUMNS, columns)
            self.register_buffer("frequencies", 1e4**-(torch.arange(0, WIDTH, 2) / WIDTH))

        def forward(self, x, positions):
            q, k, v = (each(x).unflatten(-1, (-1, WIDTH)).transpose(1, 2)
                       for each in (self.q, self.k, self.v))
            if has_rope:
                q, k = (rotate(each, positions, self.frequencies) for each in (q, k))
            return self.out(attend(q, k, v).transpose(1, 2).flatten(2))

    torch.manual_seed(3)
    return Layer().eval()


class Forms:
    """Of attention [batch, heads, tokens, channels], by name."""

    def cache(self, attend, kv_heads, has_rope=True, **options):
        options = options or {"target": "cpu", "device": mlac.Device("cpu", 1)}
        layer, auto = make_layer(attend, kv_heads, has_rope), torch.export.Dim.AUTO
        example = torch.randn(2, 5, COLUMNS), torch.arange(5).repeat(2, 1)
        info = SequenceInfo(max_seq_len=16, max_batch_size=2, page_size=4)
        return layer, mlac.cached(layer, example, info,
                                  dynamic_shapes=({0: auto, 1: auto},) * 2, **options)

    def check(self, attend, kv_heads, **options):
        """A prompt's chunks and single tokens, over caches and by eager; returns what is cached."""
        layer, cached = self.cache(attend, kv_heads, **options)
        x, info, parts = torch.randn(1, 9, COLUMNS), cached.info, []
        info.assign_cache_loc([[2, 0, 1]])
        with torch.no_grad():
            for begin, end in ((0, 4), (4, 7), (7, 8), (8, 9)):
                info.nest_sequences([[1] * (end - begin)])
                parts.append(cached(x[:, begin:end], torch.arange(begin, end)[None]))
                info.update_pos(end - begin)
            torch.testing.assert_close(torch.cat(parts, 1), layer(x, torch.arange(9)[None]),
                                       atol=1e-5, rtol=1e-5)
        return cached

    def refuse(self, attend, why, kv_heads=2):
        with self.assertRaisesRegex(mlac.CompileError, why):
            self.cache(attend, kv_heads)
