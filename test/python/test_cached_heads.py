# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention over caches whose products have heads in several dimensions, or beside their tokens.
MLAC_COMPILE names the compiler. Skips itself where torch is not installed."""

import os
import unittest

from attention_forms import Forms, weigh
from cached_models import torch

os.environ.setdefault("MLAC_COMPILER", os.environ["MLAC_COMPILE"])


def split(q, k):
    """Queries [batch, KV heads, group, tokens, channels]."""
    return q.unflatten(1, (k.shape[1], -1))


def by_groups(q, k, v):
    k, v = k.unsqueeze(2), v.unsqueeze(2)
    return (weigh(split(q, k) @ k.transpose(-1, -2) * 0.25) @ v).flatten(1, 2)


def by_einsum_of_groups(q, k, v):
    scores = torch.einsum("bgrqd,bgkd->bgrqk", split(q, k), k) * 0.25
    return torch.einsum("bgrqk,bgkd->bgrqd", weigh(scores), v).flatten(1, 2)


def by_einsum_of_tokens(q, k, v):
    q, k, v = (each.transpose(1, 2) for each in (q, k, v))
    q = q.unflatten(2, (k.shape[2], -1))
    scores = torch.einsum("bqgrd,bkgd->bgrqk", q, k) * 0.25
    return torch.einsum("bgrqk,bkgd->bqgrd", weigh(scores), v).flatten(2, 3).transpose(1, 2)


def by_sdpa_of_groups(q, k, v):
    q = split(q, k)
    k, v = (each.unsqueeze(2).expand(-1, -1, q.shape[2], -1, -1) for each in (k, v))
    attend = torch.nn.functional.scaled_dot_product_attention
    return attend(q, k, v, is_causal=True).flatten(1, 2)


def by_rows_of_groups(q, k, v):
    """A group's rows one behind the other, times the keys that they share."""
    batch, heads, tokens, width = q.shape
    rows = q.reshape(batch, k.shape[1], -1, width)
    scores = (rows @ k.transpose(-1, -2) * 0.25).view(batch, heads, tokens, tokens)
    return (weigh(scores).view(batch, k.shape[1], -1, tokens) @ v).view(q.shape)


def by_rows_of_heads(q, k, v):
    batch, heads, tokens, width = q.shape
    scores = torch.bmm(q.reshape(batch, -1, width), k.squeeze(1).transpose(1, 2)) * 0.25
    weights = weigh(scores.view(batch, heads, tokens, tokens))
    return torch.bmm(weights.view(batch, -1, tokens), v.squeeze(1)).view(q.shape)


def by_rows_of_tokens(q, k, v):
    batch, heads, tokens, width = q.shape
    q = q.transpose(1, 2)
    scores = torch.bmm(q.reshape(batch, -1, width), k.squeeze(1).transpose(1, 2)) * 0.25
    weights = weigh(scores.view(batch, tokens, heads, tokens).transpose(1, 2)).transpose(1, 2)
    rows = torch.bmm(weights.reshape(batch, -1, tokens), v.squeeze(1))
    return rows.view(q.shape).transpose(1, 2)


def weigh_rows(q, k, v, rows_of):
    """Masked as rows: of [batch, heads * tokens, channels], or of tokens before heads."""
    scores = torch.bmm(q, k.squeeze(1).transpose(1, 2)) * 0.25
    seen = torch.ones(scores.shape[-1], scores.shape[-1], dtype=torch.bool).tril()
    weights = scores.masked_fill(~rows_of(seen), float("-inf")).softmax(-1)
    return torch.bmm(weights, v.squeeze(1))


def by_masked_rows_of_heads(q, k, v):
    rows = q.reshape(q.shape[0], -1, q.shape[-1])
    return weigh_rows(rows, k, v, lambda seen: seen.repeat(4, 1)).view(q.shape)


def by_masked_rows_of_tokens(q, k, v):
    q = q.transpose(1, 2)
    rows = q.reshape(q.shape[0], -1, q.shape[-1])
    made = weigh_rows(rows, k, v, lambda seen: seen.repeat_interleave(4, 0))
    return made.view(q.shape).transpose(1, 2)


def by_einsum_of_one_key(q, k, v):
    scores = torch.einsum("bhqd,bkd->bhqk", q, k[:, 0]) * 0.25
    return torch.einsum("bhqk,bkd->bhqd", weigh(scores), v[:, 0])


@unittest.skipIf(torch is None, "torch is not installed")
class HeadsTest(Forms, unittest.TestCase):
    def check_heads(self, attend, kv_heads, **options):
        cached = self.check(attend, kv_heads, **options)
        names = {str(node.target) for node in cached._graph.graph.nodes}
        self.assertFalse([name for name in names if "softmax" in name or "bmm" in name])
        return cached

    def test_D46_heads_of_several_dimensions(self):
        for attend, kv_heads in ((by_groups, 2), (by_einsum_of_groups, 2),
                                 (by_einsum_of_tokens, 2), (by_sdpa_of_groups, 2),
                                 (by_rows_of_groups, 2), (by_rows_of_heads, 1),
                                 (by_rows_of_tokens, 1), (by_einsum_of_one_key, 1),
                                 (by_masked_rows_of_heads, 1), (by_masked_rows_of_tokens, 1)):
            with self.subTest(attend.__name__):
                (kind,) = self.check_heads(attend, kv_heads)._attend._kinds
                self.assertEqual((kind["num_heads"], kind["num_kv_heads"]), (4, kv_heads))
                self.assertEqual(kind["rope"]["dim"], 16)

    def test_D46_heads_without_rope(self):
        """The values are those of the products, with which operators do as a package's steps."""
        for attend, kv_heads in ((by_groups, 2), (by_einsum_of_groups, 2), (by_rows_of_tokens, 1)):
            for options in ({}, {"attention": "PagedMultiHead"}):
                with self.subTest(attend.__name__, **options):
                    self.check_heads(attend, kv_heads, has_rope=False, **options)

    def test_D46_groups_in_another_order(self):
        """Head h of the queries is of KV head h % 2, which no operator has."""
        def turned(q, k, v):
            k, v = k.unsqueeze(1), v.unsqueeze(1)
            return (weigh(q.unflatten(1, (2, 2)) @ k.transpose(-1, -2) * 0.25) @ v).flatten(1, 2)

        self.refuse(turned, r"node 'matmul_1' .* the scores of head 1 are not those of its query "
                            "and key")


if __name__ == "__main__":
    unittest.main()
