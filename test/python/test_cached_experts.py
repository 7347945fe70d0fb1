# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models whose experts stand between attentions over caches: what torch is left with may write to
memory of its own and sort tokens, but not change what stays, nor mix tokens. MLAC_COMPILE names the
compiler. Skips itself where torch and transformers are not installed."""

import os
import unittest
import warnings

import mlac
from cached_models import LATENT, TINY, CachedModels, make_attention, run_chunks, torch
from mlac.sequence_info import SequenceInfo

os.environ.setdefault("MLAC_COMPILER", os.environ["MLAC_COMPILE"])
GROUPS = {"n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 4, "topk_group": 2,
          "moe_intermediate_size": 32, "n_shared_experts": 1, "first_k_dense_replace": 1}
PLAIN = {**TINY, "num_hidden_layers": 2, "moe_intermediate_size": 32, "num_experts_per_tok": 2,
         "num_experts": 8, "num_local_experts": 4}


class Experts(CachedModels):
    """Tiny models of transformers generate what eager does."""

    def check(self, kind, sizes, implementation="sdpa", experts="grouped_mm", **options):
        model = self.make_model(kind, sizes, implementation)
        model.config._experts_implementation = experts
        info = SequenceInfo(max_seq_len=32, max_batch_size=3, page_size=4)
        if "attention" not in options:
            options.update(device=mlac.Device("cpu", 1), target="cpu")
        cached = self.make_cached(model, info, **options)
        self.assertEqual(self.generate(cached), self.expected(model))
        left = self.names_left(cached)
        # Experts are torch's, attention is not, and nothing writes.
        self.assertIn("topk", left)
        self.assertFalse(left & {"scaled_dot_product_attention", "cos", "sin", "scatter_"})
        return cached


@unittest.skipIf(torch is None, "torch and transformers are not installed")
class ExpertsTest(Experts, unittest.TestCase):
    def test_D46_experts_of_deepseek_v2(self):
        """Without a query latent."""
        cached = self.check("deepseek_v2", {**LATENT, **GROUPS, "q_lora_rank": None,
                                            "topk_method": "group_limited_greedy"})
        self.assertEqual({cache.shape[2] for cache in cached.caches}, {LATENT["kv_lora_rank"] + 8})

    def test_D46_experts_of_deepseek_v3(self):
        cached = self.check("deepseek_v3", {**LATENT, **GROUPS})
        self.assertEqual({cache.shape[2] for cache in cached.caches}, {LATENT["kv_lora_rank"] + 8})
        self.assertEqual(self.weights_left(cached, "kv_b_proj"), [])

    def test_D46_experts_of_mixtral(self):
        """By products of each row's experts, before the operator of a descriptor."""
        self.check("mixtral", PLAIN, experts="batched_mm", attention="PagedMultiHead")

    def test_D46_experts_of_qwen3_moe(self):
        self.check("qwen3_moe", PLAIN)

    def test_D46_experts_of_glm4_moe(self):
        self.check("glm4_moe", {**TINY, **GROUPS, "num_hidden_layers": 2})


    def test_D46_experts_of_gpt_oss(self):
        """And layers with two masks."""
        yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
        cached = self.check("gpt_oss", {**PLAIN, "sliding_window": 7, "rope_scaling": yarn,
                                        "layer_types": ["sliding_attention", "full_attention"]},
                            "eager")
        self.assertEqual([kind["window"] for kind in cached._attend._kinds], [7, 0])


def make_model(block):
    """Two attentions with a block between them."""

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.places = torch.nn.Linear(32, 4), torch.nn.Embedding(64, 32)
            self.up = torch.nn.Parameter(torch.randn(4, 32, 32) / 6)
            self.register_buffer("seen", torch.zeros(32))

        def forward(self, x):
            return block(self, x)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.block, self.last = make_attention(), Block(), make_attention()

        def forward(self, x):
            hidden = x + self.first(x)
            hidden = hidden + self.block(hidden)
            return hidden + self.last(hidden)

    torch.manual_seed(5)
    return Model().eval()


def route(self, rows):
    """Each row's expert, in place, and what all experts make of the rows."""
    best = torch.zeros(rows.shape[0], 4).scatter_(1, self.gate(rows).argmax(-1, keepdim=True), 1.0)
    return best, torch.einsum("th,te,eho->to", rows, best, self.up)


def write_own_memory(self, x):
    """Into new memory, views of it, and values that nothing else reads; rows are sorted by their
    experts between."""
    rows = x.flatten(0, 1)
    order = self.gate(rows).argmax(-1).argsort()
    best, rows = route(self, rows[order])
    total = torch.zeros_like(rows)
    for part in rows.clamp_(-3, 3).split(16, -1):
        total[:, :16].add_(part)
    back = torch.empty_like(rows)
    back[order] = total.masked_fill_(best[:, :1] > 0, 0.5)
    return back.view_as(x)


def drop_behind(self, x):
    """No more than 8 rows of an expert, which the rows in front decide."""
    best, rows = route(self, x.flatten(0, 1))
    place = (best.cumsum(0) * best).sum(-1, keepdim=True)
    return (rows * (place <= 8)).view_as(x)


def count_rows(self, x):
    self.seen.add_(x.sum((0, 1)))
    return x


def sum_tokens(self, x):
    total = torch.zeros_like(x[:, :1])
    return x + total.add_(x.sum(1, keepdim=True))


MIXES = (("roll", lambda self, x: x.roll(1, 1)), ("cumsum", lambda self, x: x.cumsum(1)),
         ("add", sum_tokens), ("cumsum", drop_behind),
         ("mean", lambda self, x: x - x.mean(0, keepdim=True)),
         ("arange", lambda self, x: x + self.places(torch.arange(x.shape[1]))))


@unittest.skipIf(torch is None, "torch is not installed")
class BlocksTest(unittest.TestCase):
    """What stands between attentions, by the operator of a descriptor."""

    def make_cached(self, module, dtype=torch and torch.float32, example=None, **options):
        auto = torch.export.Dim.AUTO
        info = SequenceInfo(max_seq_len=16, max_batch_size=1, page_size=4)
        options.setdefault("dynamic_shapes", ({0: auto, 1: auto},))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return mlac.cached(module, example or (torch.randn(2, 5, 32, dtype=dtype),), info,
                               attention="PagedMultiHead", **options)

    def test_D46_writes_to_memory_of_the_block(self):
        model, x = make_model(write_own_memory), torch.randn(1, 7, 32)
        cached = self.make_cached(model)
        self.assertTrue(any(node.target is torch.ops.aten.masked_fill.Scalar
                            for node in cached._graph.graph.nodes))
        with torch.no_grad():
            torch.testing.assert_close(run_chunks(cached, x), model(x), atol=1e-5, rtol=1e-5)

    def test_D46_writes_that_stay_are_refused(self):
        with self.assertRaisesRegex(mlac.InvalidArgument, r"the model changes block.seen "
                                    r"\(BUFFER_MUTATION\) to node 'add\w*' \(aten.add.Tensor\) in block: "
                                    "Block, which steps over caches would not"):
            self.make_cached(make_model(count_rows))

        class Doubled(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = make_model(lambda self, x: x)

            def forward(self, x):
                return self.model(x.mul_(2))

        with self.assertRaisesRegex(mlac.InvalidArgument, r"the model changes x \(USER_INPUT_MUTATION\) "
                                    r"to node 'mul\w*' \(aten.mul.Tensor\)"):
            self.make_cached(Doubled())

    def test_D46_blocks_that_mix_tokens_are_refused(self):
        for node, block in MIXES:
            with self.subTest(node, block=block):
                with self.assertRaisesRegex(
                        mlac.InvalidArgument, rf"^node '{node}\w*' \(aten.{node}.\w+\) in block: Block "
                        r"mixes tokens: with random inputs, the row of token \d in sequence \d of 12 is "
                        r"another among \d of them: off by .* steps over caches compute new tokens alone" +
                        ("$" if node != "arange" else
                         ". It numbers the tokens of a call from 0: let positions be an input of the model$")):
                    self.make_cached(make_model(block))

    def test_D46_positions_of_one_sequence_are_refused(self):
        """Of a batch, whose sequences go on from places of their own."""

        class Placed(torch.nn.Module):
            def __init__(self, first):
                super().__init__()
                self.model, self.first = make_model(lambda self, x: x), first

            def forward(self, x, positions):
                rows = positions[0] if self.first else positions
                return self.model(x + rows[..., None] / 7)

        example = torch.randn(2, 5, 32), torch.arange(5).expand(2, 5).contiguous()
        auto = torch.export.Dim.AUTO
        shapes = ({0: auto, 1: auto},) * 2
        self.make_cached(Placed(False), example=example, dynamic_shapes=shapes)
        with self.assertRaisesRegex(mlac.InvalidArgument, r"^node 'select\w*' \(aten.select.int\) in Placed "
                                    "mixes tokens: .* in sequence 1 "):
            self.make_cached(Placed(True), example=example, dynamic_shapes=shapes)

    def test_D46_rows_that_are_conjugated(self):
        """Which torch leaves to whoever reads them."""

        def turn(self, x):
            turns = torch.view_as_complex(x.unflatten(-1, (16, 2)))
            return torch.view_as_real(turns.conj() * turns).flatten(-2)

        model, x = make_model(turn), torch.randn(1, 7, 32)
        with torch.no_grad():
            torch.testing.assert_close(run_chunks(self.make_cached(model), x), model(x), atol=1e-5,
                                       rtol=1e-5)

    def test_D46_operators_without_doubles(self):
        """Of another library: they run in f32, or in the graph's type."""
        for name, types in (("short", (torch.float32, torch.bfloat16)), ("half", (torch.bfloat16,))):
            @torch.library.custom_op(f"cached_experts::{name}", mutates_args=())
            def shrink(x: torch.Tensor) -> torch.Tensor:
                if x.dtype not in types:
                    raise ValueError(f"no {x.dtype}")
                return x.sigmoid() * x

            shrink.register_fake(torch.empty_like)
            with self.subTest(name):
                model = make_model(lambda self, x: shrink(x)).to(torch.bfloat16)
                self.make_cached(model, torch.bfloat16)
                mixed = make_model(lambda self, x: shrink(x).roll(1, 1)).to(torch.bfloat16)
                with self.assertRaisesRegex(mlac.InvalidArgument, "node 'roll'"):
                    self.make_cached(mixed, torch.bfloat16)

    def test_D46_mixed_tokens_are_wrong_and_may_be_had(self):
        """What check_rows=False gives is what the check is for."""
        model, x = make_model(MIXES[0][1]), torch.randn(1, 7, 32)
        cached = self.make_cached(model, check_rows=False)
        with torch.no_grad():
            self.assertGreater((run_chunks(cached, x) - model(x)).abs().max(), 0.1)

    def test_D46_fixed_numbers_of_tokens_are_refused(self):
        auto = torch.export.Dim.AUTO
        with self.assertRaisesRegex(mlac.InvalidArgument, "in first: Attention: its graph is of 5 tokens "
                                    "alone; dynamic_shapes must leave their number open"):
            self.make_cached(make_model(lambda self, x: x), dynamic_shapes=None)
        ten = make_model(lambda self, x: x + torch.zeros(len(x.flatten(0, 1)), 32).view_as(x))
        with self.assertRaisesRegex(mlac.InvalidArgument, r"node 'view\w*' .* in block: Block does not run "
                                    r"on \[2, 6\] tokens: shape '\[2, 6, 32\]' is invalid for input of size 320"):
            self.make_cached(ten)
        # A batch may be fixed.
        self.make_cached(make_model(write_own_memory), dynamic_shapes=({1: auto},))
        with self.assertRaisesRegex(mlac.InvalidArgument, r"node 'roll' .* mixes tokens"):
            self.make_cached(make_model(MIXES[0][1]), dynamic_shapes=({1: auto},))


if __name__ == "__main__":
    unittest.main()
