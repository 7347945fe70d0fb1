# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Masks that are inputs of models over caches, which steps do not read: they must say what steps do.
MLAC_COMPILE names the compiler. Skips itself where torch and transformers are not installed."""

import os
import pathlib
import subprocess
import tempfile
import unittest
import warnings

import mlac
from cached_models import TINY, CachedModels, make_attention, run_chunks, torch
from mlac.sequence_info import SequenceInfo

os.environ.setdefault("MLAC_COMPILER", os.environ["MLAC_COMPILE"])
HIDDEN = float("-inf")


def make_mask(tokens, seen):
    """[1, 1, tokens, tokens], by which keys a query sees."""
    query, key = torch.arange(tokens)[:, None], torch.arange(tokens)
    return torch.where(seen(query, key), 0.0, HIDDEN)[None, None]


def see_past(query, key):
    return key <= query


def make_model(own=None):
    """One attention, whose mask is an input, or that of a function where it may be left out."""

    def attend(q, k, v, mask):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    class Required(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = make_attention(attend)

        def forward(self, x, mask):
            return self.attention(x, mask)

    class Optional(Required):
        def forward(self, x, mask=None):
            return self.attention(x, own(x) if mask is None else mask)

    torch.manual_seed(5)
    return (Optional() if own else Required()).eval()


@unittest.skipIf(torch is None, "torch and transformers are not installed")
class MasksTest(unittest.TestCase):
    """Of a small model, by the operator of a descriptor."""

    def make_cached(self, model, mask, **options):
        auto, info = torch.export.Dim.AUTO, SequenceInfo(16, 2, page_size=4)
        tokens = mask.shape[-1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return mlac.cached(model, (torch.randn(1, tokens, 32), mask), info,
                               attention="PagedMultiHead",
                               dynamic_shapes=({0: auto, 1: auto},
                                               {mask.dim() - 2: auto, mask.dim() - 1: auto}), **options)

    def refuse(self, message, model, mask, **options):
        with self.assertRaisesRegex(mlac.InvalidArgument, message):
            self.make_cached(model, mask, **options)

    def test_D46_examples_that_are_not_causal(self):
        named = r"input 'mask', the mask of node '\w+' in attention: Attention, "
        for difference, seen in (
                ("token 0 sees token 1", lambda query, key: key + query >= 0),
                ("token 0 sees token 1", lambda query, key: (key <= query) | (key < 3)),
                ("token 3 does not see token 0", lambda query, key: (key <= query) & (key > query - 3)),
                ("token 2 does not see token 1", lambda query, key: (key <= query) & (key != 1))):
            if difference.startswith("token 2"):  # its own row does not see it, either
                difference = "token 1 does not see token 1"
            with self.subTest(difference):
                self.refuse(f"{named}is not the causal one in the example: {difference}. Over caches .*"
                            "leave the mask out", make_model(), make_mask(5, seen))
        causal = make_mask(5, see_past)
        self.refuse(f"{named}holds -2: expected truth values, or 0", make_model(),
                    causal - torch.arange(5.0).flip(0) * 0.5 * (causal == 0))
        # Of padding, for all queries.
        self.refuse(named + r"is of \[1, 1, 1, 5\] in the example, expected \[.., tokens, tokens\] of two",
                    make_model(), torch.zeros(1, 1, 1, 5))
        with self.assertRaisesRegex(mlac.CompileError, r"input 'mask' is no mask \[batch, heads, tokens, "
                                    r"keys\]; leave it out, and the graph makes its own"):
            self.make_cached(make_model(), torch.zeros(1, 1, 5))

    def test_D46_examples_that_are_causal(self):
        model, x = make_model(), torch.randn(1, 7, 32)
        with torch.no_grad():
            expected = model(x, make_mask(7, see_past))
        for mask in (make_mask(5, see_past), make_mask(5, see_past) == 0,
                     make_mask(5, see_past).clamp(min=-65504)):
            with self.subTest(mask.dtype, least=float(mask.min())):
                cached = self.make_cached(model, mask)
                info, parts = cached.info, []
                info.assign_cache_loc([[2, 0, 1]])
                # At a call, none is as good as the causal one.
                for begin, end, given in ((0, 5, make_mask(5, see_past)), (5, 6, None), (6, 7, None)):
                    info.nest_sequences([[1] * (end - begin)])
                    with torch.no_grad():
                        parts.append(cached(x[:, begin:end], given))
                    info.update_pos(end - begin)
                torch.testing.assert_close(torch.cat(parts, 1), expected, atol=1e-5, rtol=1e-5)

    def test_D46_masks_of_calls(self):
        cached = self.make_cached(make_model(), make_mask(5, see_past))
        cached.info.assign_cache_loc([[0], [1]])
        cached.info.nest_sequences([[1, 1, 1], [1, 1]])
        x = torch.randn(1, 5, 32)
        own = make_mask(5, lambda query, key: (key <= query) & ((key < 3) == (query < 3)))
        for mask in (make_mask(5, see_past), own):
            cached(x, mask)
        for message, mask in (
                ("mask: token 0 sees token 1, and steps over caches do not read masks: each token sees "
                 "itself and all before it in its sequence; leave it out", torch.zeros(1, 1, 5, 5)),
                ("mask: token 2 does not see token 0, and",
                 make_mask(5, lambda query, key: (key <= query) & (key > query - 2))),
                (r"mask: expected \[.., 5, 5\], of the new tokens, got \[1, 1, 4, 4\]",
                 make_mask(4, see_past))):
            with self.subTest(message), self.assertRaisesRegex(mlac.InvalidArgument, message):
                cached(x, mask)

    def test_D46_what_a_model_does_without_its_mask(self):
        """By a second export."""
        causal = make_mask(5, see_past)
        near = lambda x: make_mask(x.shape[1], lambda query, key: (key <= query) & (key > query - 3))
        refused = (r"input 'mask', the mask of node '\w+' in attention: Attention, makes all tokens before "
                   "a token be seen. Without it, the attention in attention: Attention sees the last 3 "
                   "alone: leave the mask out, and the model makes its own, or check_masks=False takes the "
                   "input as it is")
        self.refuse(refused, make_model(near), causal)
        self.make_cached(make_model(near), causal, check_masks=False)
        # A mask among others, as transformers takes one for each type of layers.
        model = make_model(near)
        by_type, model.forward = model.forward, lambda x, masks=None: by_type(x, (masks or {}).get("near"))
        auto = torch.export.Dim.AUTO
        with self.assertRaisesRegex(mlac.InvalidArgument, "input 'masks_near', the mask of .* sees the last "
                                    "3 alone"):
            mlac.cached(model, {"x": torch.randn(2, 3, 32), "masks": {"near": make_mask(3, see_past)}},
                        SequenceInfo(16, 2, page_size=4), attention="PagedMultiHead",
                        dynamic_shapes={"x": {0: auto, 1: auto}, "masks": {"near": {2: auto, 3: auto}}})
        model = make_model(near)
        once, twice = model.forward, make_attention()
        model.forward = lambda x, mask=None: once(x if mask is not None else twice(x), mask)
        self.refuse("input 'mask': the model attends 1 times with it, and 2 times without: leave", model,
                    causal)
        odd = lambda x: torch.where(torch.rand(x.shape[1], x.shape[1]) > 0.5, 0.0, HIDDEN)
        self.refuse("input 'mask': whether the model's layers see other tokens where the mask is left out "
                    r"is not known, since its own masks are not understood:\n.*node 'rand\w*'(.|\n)*"
                    "check_masks=False takes the input as causal", make_model(odd), causal)
        # Its own is the same, or it has none: then it is the input that makes it causal.
        self.make_cached(make_model(lambda x: make_mask(x.shape[1], see_past)), causal)
        self.make_cached(make_model(lambda x: None), causal)

    def test_D46_masks_of_exported_programs(self):
        auto = torch.export.Dim.AUTO
        export = lambda mask: torch.export.export(
            make_model(), (torch.randn(1, 5, 32), mask),
            dynamic_shapes=({0: auto, 1: auto}, {2: auto, 3: auto}))
        info = SequenceInfo(16, 1, page_size=4)
        with self.assertRaisesRegex(mlac.InvalidArgument, "is not the causal one in the example"):
            mlac.cached(export(torch.zeros(1, 1, 5, 5)), (), info, target="cpu")
        program = export(make_mask(5, see_past))
        mlac.cached(program, (), info, target="cpu")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.pt2"
            torch.export.save(program, path)
            command = [os.environ["MLAC_COMPILE"], path, "--quiet", f"--cached={folder}/plan.json",
                       "-o", f"{folder}/model.mlac"]
            run = lambda *options: subprocess.run([*command, *options], capture_output=True, text=True)
            self.assertRegex(run().stderr, "warning: input 'mask' is the mask of node .* in attention: "
                             "Attention, and is taken as causal without a window, whatever it will hold")
            self.assertEqual(run("--graph-checked").stderr, "")


def past(scores, tokens_before=0):
    """Truth values [tokens, tokens]."""
    ones = torch.ones(scores.shape[-2:], dtype=torch.bool)
    return ones.tril() if tokens_before == 0 else ones.triu(-tokens_before)


# Masks that a graph makes of its own: of scores, what a softmax takes.
OWN_MASKS = {
    "the rest of ones, times a number": lambda s: s + (1 - past(s).float()) * -1e9,
    "multiplied": lambda s: s * past(s) - 1e10 * (1 - past(s).float()),
    "truth of numbers": lambda s: s.masked_fill(
        torch.ones(s.shape[-2:]).tril().bool().logical_not(), HIDDEN),
}
OWN_WINDOWS = {
    "one fill behind the other": lambda s: s.masked_fill(~past(s), HIDDEN).masked_fill(
        ~past(s, 2), HIDDEN),
    "the window first": lambda s: s.masked_fill(~past(s, 2), HIDDEN).masked_fill(~past(s), HIDDEN),
    "two sums": lambda s: s + torch.full(s.shape[-2:], HIDDEN).triu(1) +
                torch.full(s.shape[-2:], HIDDEN).tril(-3),
    "a product": lambda s: s.masked_fill(past(s).float() * past(s, 2).float() == 0, HIDDEN),
}
# And what is none, with what is said of it.
NO_MASKS = {
    "ones added": (lambda s: s + past(s).float(), "its mask is no input of the graph and not causal"),
    "the mean taken off": (lambda s: (s - s.mean(-1, keepdim=True)).masked_fill(~past(s), HIDDEN),
                           "expected scores of queries and keys, got a sum of node 'mean'"),
}


@unittest.skipIf(torch is None, "torch is not installed")
class OwnMasksTest(unittest.TestCase):
    def make_layer(self, attend):
        layer, auto = make_attention(attend).eval(), torch.export.Dim.AUTO
        info = SequenceInfo(max_seq_len=16, max_batch_size=1, page_size=4)
        return layer, mlac.cached(layer, (torch.randn(2, 5, 32),), info, target="cpu",
                                  device=mlac.Device("cpu", 1), dynamic_shapes=({0: auto, 1: auto},))

    @staticmethod
    def attend_by(mask, behind=lambda weights: weights):
        return lambda q, k, v: behind(mask(q @ k.transpose(2, 3) * 0.25).softmax(-1)) @ v

    def test_D46_masks_of_the_graph(self):
        for window, masks in ((0, OWN_MASKS), (3, OWN_WINDOWS)):
            for name, mask in masks.items():
                with self.subTest(name):
                    layer, cached = self.make_layer(self.attend_by(mask))
                    self.assertEqual([kind["window"] for kind in cached._attend._kinds], [window])
                    x = torch.randn(1, 7, 32)
                    with torch.no_grad():
                        torch.testing.assert_close(run_chunks(cached, x), layer(x), atol=1e-5,
                                                   rtol=1e-5)

    def test_D46_what_is_no_mask(self):
        for name, (mask, error) in NO_MASKS.items():
            with self.subTest(name), self.assertRaisesRegex(mlac.CompileError, error):
                self.make_layer(self.attend_by(mask))

    def test_D46_numbers_are_added(self):
        """Ones and zeros as truth values are a mask, as numbers they are added to scores."""

        def attend(q, k, v, dtype):
            ones = torch.ones(q.shape[2], q.shape[2], dtype=dtype).tril()
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=ones)

        self.make_layer(lambda q, k, v: attend(q, k, v, torch.bool))
        with self.assertRaisesRegex(mlac.CompileError, r"node 'scaled_dot_product_attention' .* its mask "
                                    "is no input of the graph and not causal"):
            self.make_layer(lambda q, k, v: attend(q, k, v, torch.float32))

    def test_D46_what_weights_become(self):
        """The node that makes something else of weights is named, where nothing attends."""
        causal = lambda s: s.masked_fill(~past(s), HIDDEN)
        for node, behind in (("clamp", lambda weights: weights.clamp(max=0.5)),
                             ("matmul_1", lambda weights: weights * 2)):
            with self.subTest(node), self.assertRaisesRegex(
                    mlac.CompileError, rf"node '{node}' .* in Attention: what it makes of scores of queries "
                    "and keys is not understood: "):
                self.make_layer(self.attend_by(causal, behind))

    def test_D46_numbers_of_sizes(self):
        with self.assertRaisesRegex(mlac.CompileError, "node 'sym_float' makes a number of a call's sizes"):
            self.make_layer(self.attend_by(lambda s: (s * s.shape[-1]**0.5).masked_fill(~past(s), HIDDEN)))


@unittest.skipIf(torch is None, "torch and transformers are not installed")
class ModelMasksTest(CachedModels, unittest.TestCase):
    """Of models of transformers."""

    def test_D46_tokens_of_a_model_with_a_causal_mask(self):
        model = self.make_model("llama", {**TINY, "num_hidden_layers": 2}, "sdpa")
        info = SequenceInfo(max_seq_len=32, max_batch_size=3, page_size=4)
        example = self.export_arguments(attention_mask=make_mask(5, see_past).expand(2, 1, 5, 5))
        cached = self.make_cached(model, info, example, device=mlac.Device("cpu", 1), target="cpu")
        # Calls leave it out.
        self.assertEqual(self.generate(cached), self.expected(model))

    def test_D46_windows_behind_a_mask(self):
        model = self.make_model("mistral", {**TINY, "sliding_window": 7}, "sdpa")
        info = SequenceInfo(max_seq_len=32, max_batch_size=3, page_size=4)
        example = self.export_arguments(attention_mask=make_mask(5, see_past).expand(2, 1, 5, 5))
        with self.assertRaisesRegex(mlac.InvalidArgument, "input 'attention_mask', the mask of node .* in "
                                    r"model.layers.0.self_attn: MistralAttention, makes all .* the "
                                    r"attention in model.layers.0.self_attn: MistralAttention sees the last "
                                    "7 alone: leave the mask out"):
            self.make_cached(model, info, example, attention="PagedMultiHead")


if __name__ == "__main__":
    unittest.main()
