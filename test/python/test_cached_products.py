# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention that models write by products of three dimensions (torch.bmm, and what torch.einsum is
made of), over caches. MLAC_COMPILE names the compiler. Skips itself where torch is not installed."""

import os
import unittest

import mlac
from cached_models import LATENT, TINY, CachedModels, make_attention, run_chunks, torch
from mlac.sequence_info import SequenceInfo

os.environ.setdefault("MLAC_COMPILER", os.environ["MLAC_COMPILE"])
# Of a package's steps, and of an operator.
KINDS = ({"target": "cpu", "device": "cpu"}, {"attention": "PagedMultiHead"})


def weigh(scores):
    """[..., tokens, tokens]: each token's share of itself and of those before it."""
    mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    return scores.masked_fill(~mask, float("-inf")).softmax(-1)


def by_bmm(q, k, v):
    batch, heads, tokens, width = q.shape
    q, k, v = (each.reshape(batch * heads, tokens, width) for each in (q, k, v))
    scores = torch.bmm(q, k.transpose(1, 2)) * width**-0.5
    return torch.bmm(weigh(scores), v).view(batch, heads, tokens, width)


def by_einsum(q, k, v):
    """Tokens before heads, as attention that is written by einsum mostly has them."""
    q, k, v = (each.transpose(1, 2) for each in (q, k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1]**-0.5
    return torch.einsum("bhqk,bkhd->bqhd", weigh(scores), v).transpose(1, 2)


def by_einsum_of_heads(q, k, v):
    scores = torch.einsum("bhqd,bhkd->bhqk", q * q.shape[-1]**-0.5, k)
    return torch.einsum("bhqk,bhkd->bhqd", weigh(scores), v)


def with_one_key(q, k, v):
    """Both heads of queries over the first one of keys and values, which is repeated."""
    return by_bmm(q, *(each[:, :1].expand(-1, 2, -1, -1) for each in (k, v)))


def by_baddbmm(q, k, v):
    """The product's factor and what is added to it are its own."""
    batch, heads, tokens, width = q.shape
    q, k, v = (each.reshape(batch * heads, tokens, width) for each in (q, k, v))
    none = torch.empty(1, 1, 1)
    scores = torch.baddbmm(none, q, k.transpose(1, 2), beta=0, alpha=width**-0.5)
    return torch.bmm(weigh(scores), v).view(batch, heads, tokens, width)


def by_baddbmm_with_a_mask(q, k, v):
    batch, heads, tokens, width = q.shape
    q, k, v = (each.reshape(batch * heads, tokens, width) for each in (q, k, v))
    mask = torch.full((tokens, tokens), float("-inf")).triu(1)
    scores = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=width**-0.5)
    return torch.bmm(scores.softmax(-1), v).view(batch, heads, tokens, width)


def by_turned_matrices(q, k, v):
    return weigh(q @ k.mT * q.shape[-1]**-0.5) @ v


def by_swapped_dimensions(q, k, v):
    return weigh(q @ k.swapdims(-1, -2) * q.shape[-1]**-0.5) @ v


def one_head(q, k, v):
    """[batch, tokens, channels]: there are no heads to fold."""
    attend = lambda q, k, v: torch.bmm(weigh(torch.bmm(q, k.transpose(1, 2)) * 0.25), v)
    return torch.stack([attend(*(each[:, head] for each in (q, k, v))) for head in (0, 1)], 1)


@unittest.skipIf(torch is None, "torch is not installed")
class ProductsTest(CachedModels, unittest.TestCase):
    def make_layer(self, attend, **options):
        layer, auto = make_attention(attend).eval(), torch.export.Dim.AUTO
        if "device" in options:
            options["device"] = mlac.Device(options["device"], 1)
        info = SequenceInfo(max_seq_len=16, max_batch_size=2, page_size=4)
        return layer, mlac.cached(layer, (torch.randn(2, 5, 32),), info,
                                  dynamic_shapes=({0: auto, 1: auto},), **options)

    def test_D46_products_of_three_dimensions(self):
        for attend, heads in ((by_bmm, (2, 2)), (by_einsum, (2, 2)), (by_einsum_of_heads, (2, 2)),
                              (with_one_key, (2, 1)), (one_head, (1, 1)), (by_baddbmm, (2, 2)),
                              (by_baddbmm_with_a_mask, (2, 2)), (by_turned_matrices, (2, 2)),
                              (by_swapped_dimensions, (2, 2))):
            for options in KINDS:
                with self.subTest(attend.__name__, options=list(options)):
                    layer, cached = self.make_layer(attend, **options)
                    x = torch.randn(1, 7, 32)
                    with torch.no_grad():
                        torch.testing.assert_close(run_chunks(cached, x), layer(x), atol=1e-5,
                                                   rtol=1e-5)
                    self.assertFalse(self.names_left(cached) & {"bmm", "einsum", "softmax"})
                    if "target" in options:
                        (kind,) = cached._attend._kinds
                        self.assertEqual((kind["num_heads"], kind["num_kv_heads"]), heads)

    def test_D46_rows_of_a_batch(self):
        """Sequences of as many tokens each may stand in rows of their own."""
        for attend in (by_bmm, by_einsum):
            layer, cached = self.make_layer(attend, **KINDS[0])
            x, info = torch.randn(2, 5, 32), cached.info
            info.assign_cache_loc([[1, 3], [2, 0]])
            parts = []
            for begin, end in ((0, 4), (4, 5)):
                info.nest_sequences([[1] * (end - begin)] * 2)
                with torch.no_grad():
                    parts.append(cached(x[:, begin:end]))
                info.update_pos(end - begin)
            with torch.no_grad():
                torch.testing.assert_close(torch.cat(parts, 1), layer(x), atol=1e-5, rtol=1e-5)

    def test_D46_products_of_whole_models(self):
        """What torch makes of the products of models of transformers."""
        for kind, sizes in (("llama", TINY), ("deepseek_v3", LATENT)):
            with self.subTest(kind):
                model = self.make_model(kind, sizes, "eager")
                auto = torch.export.Dim.AUTO
                rows = {0: auto, 1: auto}
                example = self.export_arguments()
                program = torch.export.export(
                    model, (), example, strict=False,
                    dynamic_shapes={"input_ids": rows, "position_ids": rows, "use_cache": None})
                matmul = torch.ops.aten.matmul.default
                program = program.run_decompositions(
                    {matmul: torch.export.default_decompositions()[matmul]})
                self.assertIn("aten.bmm.default", {str(node.target) for node in program.graph.nodes})
                info = SequenceInfo(max_seq_len=32, max_batch_size=3, page_size=4)
                cached = mlac.cached(program, info=info, target="cpu", device=mlac.Device("cpu", 1))
                cached._kwargs = tuple(example)  # of a program they are not known
                self.assertEqual(self.generate(cached), self.expected(model))
                self.assertEqual(cached._attend._kinds[0]["latents"] is None, kind == "llama")

    def test_D46_mixed_tokens_before_a_product(self):
        """Queries of three dimensions are compared as those of four."""
        mixed = lambda q, k, v: by_bmm(q.roll(1, 2), k, v)
        with self.assertRaisesRegex(mlac.InvalidArgument, r"node 'roll' \(aten.roll.default\) in .* "
                                    "mixes tokens"):
            self.make_layer(mixed, **KINDS[0])

    def test_D46_masks_that_hide_too_little_are_refused(self):
        def multiplied(q, k, v):
            mask = torch.ones(q.shape[2], k.shape[2]).tril()
            scores = q @ k.transpose(2, 3) * 0.25
            return (scores * mask - 1e4 * (1 - mask)).softmax(-1) @ v

        with self.assertRaisesRegex(mlac.CompileError, r"node 'matmul_1' \(aten.matmul.default\) in .*: "
                                    "its attention cannot be cached: "):
            self.make_layer(multiplied, **KINDS[0])


if __name__ == "__main__":
    unittest.main()
