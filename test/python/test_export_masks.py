# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention by groups of heads as people write it in PyTorch: masks that the graph makes, or takes as
an input, windows, sinks, softcaps, joined projections. What is exported and compiled against the module
itself.

Skips itself where torch is not installed. MLAC_COMPILE names the compiler."""

import os
import pathlib
import tempfile
import unittest
import warnings

os.environ.setdefault("MLAC_COMPILER", os.environ["MLAC_COMPILE"])
try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    raise unittest.SkipTest(f"not installed: {error.name}")

import mlac

HIDDEN, HEADS, KV_HEADS, DIM, TOKENS = 32, 4, 2, 8, 12
TOLERANCE = 1e-5  # f32 against f32, of a layer


def positions(tokens):
    at = torch.arange(tokens)
    return at[:, None], at[None, :]


def by_triangles(tokens, window):
    seen = torch.ones(tokens, tokens, dtype=torch.bool).tril()
    return seen & ~torch.ones(tokens, tokens, dtype=torch.bool).tril(-window) if window else seen


def by_infinities(tokens, window):
    mask = torch.full((tokens, tokens), float("-inf")).triu(1)
    return mask + torch.full((tokens, tokens), float("-inf")).tril(-window) if window else mask


def by_comparison(tokens, window):
    query, key = positions(tokens)
    return (key <= query) & (key > query - window) if window else key <= query


def by_distance(tokens, window):
    query, key = positions(tokens)
    distance = query - key
    return (distance >= 0) & (distance < window) if window else distance >= 0


def by_filling(tokens, window):
    query, key = positions(tokens)
    hidden = (key > query) | (query - key >= window) if window else key > query
    return torch.zeros(tokens, tokens).masked_fill(hidden, float("-inf"))


def by_choice(tokens, window):
    query, key = positions(tokens)
    hidden = torch.logical_or(key > query, key <= query - window) if window else key > query
    return torch.where(hidden, torch.finfo(torch.float32).min, 0.0)


def by_numbers(tokens, _):
    return (1 - torch.ones(tokens, tokens).tril()) * -1e9


def of_the_future(tokens, _):
    query, key = positions(tokens)
    return key >= query


class Attention(torch.nn.Module):
    """mask: a function, or None for is_causal."""

    def __init__(self, mask=None, window=0, is_eager=False, softcap=0.0, has_sinks=False,
                 has_joined=False, rotated=DIM, gqa="repeat"):
        super().__init__()
        self.mask, self.window, self.is_eager, self.softcap = mask, window, is_eager, softcap
        self.rotated, self.gqa = rotated, gqa
        self.widths = [HEADS * DIM, KV_HEADS * DIM, KV_HEADS * DIM]
        self.qkv_proj = torch.nn.Linear(HIDDEN, sum(self.widths)) if has_joined else None
        if not has_joined:
            self.q_proj, self.k_proj, self.v_proj = (
                torch.nn.Linear(HIDDEN, width, bias=False) for width in self.widths)
        self.o_proj = torch.nn.Linear(HEADS * DIM, HIDDEN, bias=False)
        self.sinks = torch.nn.Parameter(torch.randn(HEADS)) if has_sinks else None
        if rotated:
            self.register_buffer("inv_freq", 1e4 ** (-torch.arange(0, rotated, 2) / rotated))

    def rotate(self, x):
        if not self.rotated:
            return x
        angles = torch.arange(x.shape[2])[:, None].float() * self.inv_freq
        angles = torch.cat([angles, angles], -1)
        y, rest = x[..., :self.rotated], x[..., self.rotated:]
        first, second = y.chunk(2, dim=-1)
        y = y * angles.cos() + torch.cat([-second, first], -1) * angles.sin()
        return torch.cat([y, rest], -1) if self.rotated < DIM else y

    def attend(self, query, key, mask):
        scores = query @ key.transpose(-1, -2) / DIM ** 0.5
        if self.softcap:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        is_bool = mask.dtype == torch.bool
        scores = scores.masked_fill(~mask, float("-inf")) if is_bool else scores + mask
        if self.sinks is None:
            return scores.softmax(-1)
        sinks = self.sinks.view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, sinks], -1)
        scores = scores - scores.amax(dim=-1, keepdim=True)
        return scores.softmax(-1)[..., :-1]

    def forward(self, hidden_states, mask=None):
        """`mask`: the one of all, if there is no function."""
        batch, tokens, _ = hidden_states.shape
        parts = self.qkv_proj(hidden_states).split(self.widths, dim=-1) if self.qkv_proj else \
            (self.q_proj(hidden_states), self.k_proj(hidden_states), self.v_proj(hidden_states))
        query, key, value = (x.view(batch, tokens, -1, DIM).transpose(1, 2) for x in parts)
        query, key = self.rotate(query), self.rotate(key)
        if self.gqa == "repeat":
            key, value = (x.repeat_interleave(HEADS // KV_HEADS, dim=1) for x in (key, value))
        if self.is_eager:
            output = self.attend(query, key, self.mask(tokens, self.window)) @ value
        else:
            mask = self.mask(tokens, self.window) if self.mask else mask
            output = F.scaled_dot_product_attention(query, key, value, attn_mask=mask,
                                                    is_causal=mask is None,
                                                    enable_gqa=self.gqa == "enable")
        return self.o_proj(output.transpose(1, 2).reshape(batch, tokens, -1))

    def config(self):
        """Of the known type whose layers are such."""
        kind = "gpt_oss" if self.sinks is not None else "gemma2" if self.softcap else \
            "qwen2" if self.qkv_proj else "mistral" if self.window else "llama"
        config = {"model_type": kind, "hidden_size": HIDDEN, "num_hidden_layers": 2,
                  "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": DIM,
                  "max_position_embeddings": 64, "partial_rotary_factor": self.rotated / DIM,
                  "attention_bias": False, "sliding_window": self.window or None}
        if self.softcap:
            config |= {"attn_logit_softcapping": self.softcap, "query_pre_attn_scalar": DIM}
        if self.sinks is not None:
            config["rope_parameters"] = {"rope_type": "default", "rope_theta": 10000.0}
        return config


class MasksTest(unittest.TestCase):
    CASES = {
        "is_causal, enable_gqa": dict(gqa="enable"),
        "is_causal": dict(),
        "joined projections with biases": dict(has_joined=True),
        "half of the channels rotated": dict(rotated=DIM // 2),
        "no rope": dict(rotated=0),
        "triangles": dict(mask=by_triangles),
        "triangles, window, softcap": dict(mask=by_triangles, window=5, is_eager=True, softcap=2.0),
        "infinities, window": dict(mask=by_infinities, window=5),
        "comparison, window, sinks": dict(mask=by_comparison, window=5, is_eager=True,
                                          has_sinks=True),
        "distance": dict(mask=by_distance, is_eager=True),
        "filling, window": dict(mask=by_filling, window=5),
        "choice, window": dict(mask=by_choice, window=5, is_eager=True),
        "numbers": dict(mask=by_numbers),
    }
    # What torch makes of the sizes of views (2.11 compares strides) must not narrow it: no name.
    OPEN = {"hidden_states": {1: torch.export.Dim.AUTO}}

    def export(self, module, folder, dynamic_shapes=None, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's, about its own modules
            with torch.no_grad():
                program = torch.export.export(module, (torch.randn(1, TOKENS, HIDDEN),),
                                              dynamic_shapes=dynamic_shapes, strict=False)
            self.assertEqual(bool(program.range_constraints), dynamic_shapes is not None)
            return mlac.export(program, config=module.config(), target="cpu", dtype="f32",
                               **options)

    def run_layer(self, module, hidden, **options):
        with tempfile.TemporaryDirectory() as folder:
            weights = pathlib.Path(folder) / "layer.safetensors"
            package = self.export(module, folder, weights=weights, **options)
            engine = mlac.Engine(package, mlac.Device("cpu", 1), max_seq_len=64)
            engine.bind_safetensors(weights, prefix="self_attn.")
            engine.prepare()
        sequence, plan, parts = engine.sequence(), engine.plan(), []
        for part in hidden.split([TOKENS - 1, 1]):
            plan.fill([sequence], [len(part)])
            parts.append(torch.as_tensor(plan.run(part.contiguous())).clone())
        return torch.cat(parts)

    def test_E7_masks_that_graphs_make(self):
        for name, arguments in self.CASES.items():
            for shapes in (None, self.OPEN):
                with self.subTest(name, is_open=shapes is not None):
                    torch.manual_seed(7)
                    module, hidden = Attention(**arguments).eval(), torch.randn(TOKENS, HIDDEN)
                    with torch.no_grad():
                        expected = module(hidden[None])[0]
                    got = self.run_layer(module, hidden, dynamic_shapes=shapes)
                    self.assertLess(((got - expected).norm() / expected.norm()).item(), TOLERANCE)

    def test_E7_masks_that_are_refused(self):
        for arguments, message in (
                (dict(mask=of_the_future), "mask is no input of the graph but a mask of keys from "
                 "any to 0 tokens before the query"),
                (dict(mask=by_distance, window=5), "a window of 5 tokens, the configuration 4")):
            module = Attention(**arguments).eval()
            config = {**module.config(), "sliding_window": 4}
            with self.assertRaisesRegex(mlac.CompileError, message):
                mlac.export(module, (torch.randn(1, TOKENS, HIDDEN),), config=config,
                            target="cpu", dtype="f32")


class MaskInputsTest(unittest.TestCase):
    """The package has the configuration's mask, whatever one that is an input holds: so the example's
    must be that one."""

    def setUp(self):
        torch.manual_seed(7)
        self.hidden = torch.randn(1, TOKENS, HIDDEN)

    def export(self, mask, window=0, **options):
        """`mask`: its last dimensions."""
        module, mask = Attention(window=window).eval(), mask.view((1,) * (4 - mask.dim()) + mask.shape)
        return mlac.export(module, (self.hidden, mask), **{
            "config": module.config(), "target": "cpu", "dtype": "f32", "functions": ["decode"],
            **options})

    def refuse(self, message, mask, window=0, **options):
        with self.assertRaisesRegex(mlac.InvalidArgument, message):
            self.export(mask, window, **options)

    def test_E7_mask_inputs_that_are_the_configuration_s(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            for make in (by_triangles, by_infinities, by_choice):
                for window in (0, 5):
                    self.export(make(TOKENS, window), window)
        # No example of 12 tokens shows a window of 12, which is said.
        with self.assertWarnsRegex(UserWarning, "input 'mask', the mask of the attention before node "
                                   r"'linear_\d' in o_proj: Linear, is of 12 tokens in the example, which "
                                   "do not show the window of 12 that the configuration says"):
            self.export(by_infinities(TOKENS, 0), 12)

    def test_E7_mask_inputs_that_are_others(self):
        where = r"input 'mask', the mask of the attention before node 'linear_\d' in o_proj: Linear, "
        causal = by_infinities(TOKENS, 0)
        self.refuse(where + "is not the causal one in the example: token 5 does not see token 0. The "
                    "configuration has no window", by_infinities(TOKENS, 5))
        self.refuse(where + "is not the causal one with a window of 5 tokens in the example: token 5 sees "
                    "token 0. The package has the configuration's window, whatever the mask holds: .* "
                    "where layers differ, layer=", causal, 5)
        self.refuse("a window of 5 tokens in the example: token 4 does not see token 0",
                    by_infinities(TOKENS, 4), 5)
        self.refuse("token 0 sees token 1", torch.zeros(TOKENS, TOKENS))
        # Of a batch, and padding.
        padded = causal.expand(2, 1, -1, -1).clone()
        padded[1, :, :, 0] = float("-inf")
        self.hidden = self.hidden.expand(2, -1, -1)
        self.refuse("token 0 does not see token 0", padded)
        self.hidden = self.hidden[:1]
        # Distances as ALiBi has them.
        biased = causal - 0.5 * (torch.arange(TOKENS)[:, None] - torch.arange(TOKENS)).abs()
        self.refuse("holds -0.5: expected truth values, or 0 and numbers up to -65504", biased)
        self.refuse(r"is of \[1, 1, 12, 1\] in the example, expected \[.., tokens, tokens\]", causal[:, :1])
        self.export(causal, 5, check_masks=False)

    def test_E7_mask_inputs_of_programs(self):
        module = Attention().eval()
        program = torch.export.export(module, (self.hidden, by_infinities(TOKENS, 5)[None, None]))
        options = {"config": module.config(), "target": "cpu", "dtype": "f32", "functions": ["decode"]}
        with self.assertRaisesRegex(mlac.InvalidArgument, "token 5 does not see token 0"):
            mlac.export(program, **options)
        # Of layers in a model, too.
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(mlac.InvalidArgument, "token 5 does not see token 0"):
                mlac.export(program, partial=f"{folder}/regions.json", **options)
        program.example_inputs = None
        with self.assertRaisesRegex(mlac.InvalidArgument, "no example inputs, which say what the mask "
                                    "'mask' holds"):
            mlac.export(program, **options)
        mlac.export(program, check_masks=False, **options)


if __name__ == "__main__":
    unittest.main()
