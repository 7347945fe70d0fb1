# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention by groups of heads as people write it in PyTorch: masks that the graph makes, windows,
sinks, softcaps, joined projections. What is exported and compiled against the module itself.

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

    def forward(self, hidden_states):
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
            mask = self.mask and self.mask(tokens, self.window)
            output = F.scaled_dot_product_attention(query, key, value, attn_mask=mask,
                                                    is_causal=self.mask is None,
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


if __name__ == "__main__":
    unittest.main()
