# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A small causal model with latent attention in the form in which models' repositories had it before
transformers did: tables of angles for all positions that are stored and indexed, neighbours sorted
into halves by views, queries and keys copied into new memory, an eager product."""

import torch


class Norm(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(1 + torch.randn(width) / 8)

    def forward(self, x):
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class Rotary(torch.nn.Module):
    """Cosines and sines [positions, width] of both halves."""

    def __init__(self, width, positions, theta=10000.0):
        super().__init__()
        frequencies = theta**(-torch.arange(0, width, 2, dtype=torch.float64) / width)
        angles = torch.outer(torch.arange(positions, dtype=torch.float64), frequencies)
        both = torch.cat([angles, angles], -1).float()
        self.register_buffer("cos_cached", both.cos(), persistent=False)
        self.register_buffer("sin_cached", both.sin(), persistent=False)


def turn(x, cos, sin):
    batch, heads, tokens, width = x.shape
    x = x.view(batch, heads, tokens, width // 2, 2).transpose(4, 3).reshape(batch, heads, tokens, width)
    turned = torch.cat((-x[..., width // 2:], x[..., :width // 2]), -1)
    return x * cos.unsqueeze(1) + turned * sin.unsqueeze(1)


class Attention(torch.nn.Module):
    def __init__(self, hidden, heads, rank, nope, rope, value, positions, takes_tables):
        super().__init__()
        self.sizes = heads, rank, nope, rope, value
        self.q_proj = torch.nn.Linear(hidden, heads * (nope + rope), bias=False)
        self.kv_a_proj_with_mqa = torch.nn.Linear(hidden, rank + rope, bias=False)
        self.kv_a_layernorm = Norm(rank)
        self.kv_b_proj = torch.nn.Linear(rank, heads * (nope + value), bias=False)
        self.o_proj = torch.nn.Linear(heads * value, hidden, bias=False)
        if not takes_tables:
            self.rotary_emb = Rotary(rope, positions)

    def forward(self, x, positions, tables, mask):
        heads, rank, nope, rope, value = self.sizes
        batch, tokens, _ = x.shape
        q = self.q_proj(x).view(batch, tokens, heads, nope + rope).transpose(1, 2)
        q_nope, q_pe = torch.split(q, [nope, rope], -1)
        latent, k_pe = torch.split(self.kv_a_proj_with_mqa(x), [rank, rope], -1)
        k_pe = k_pe.view(batch, tokens, 1, rope).transpose(1, 2)
        kv = self.kv_b_proj(self.kv_a_layernorm(latent))
        kv = kv.view(batch, tokens, heads, nope + value).transpose(1, 2)
        k_nope, values = torch.split(kv, [nope, value], -1)
        cos, sin = tables if tables else (self.rotary_emb.cos_cached[positions],
                                          self.rotary_emb.sin_cached[positions])
        query, key = (k_pe.new_empty(batch, heads, tokens, nope + rope) for _ in range(2))
        query[:, :, :, :nope], query[:, :, :, nope:] = q_nope, turn(q_pe, cos, sin)
        key[:, :, :, :nope], key[:, :, :, nope:] = k_nope, turn(k_pe, cos, sin)
        scores = torch.matmul(query, key.transpose(2, 3)) * (nope + rope)**-0.5 + mask
        weights = torch.softmax(scores, -1, dtype=torch.float32).to(query.dtype)
        weights = torch.nn.functional.dropout(weights, p=0.0, training=self.training)
        output = torch.matmul(weights, values).transpose(1, 2).contiguous()
        return self.o_proj(output.reshape(batch, tokens, heads * value))


class Model(torch.nn.Module):
    """Logits of tokens; with `takes_tables` cosines and sines of the tokens are inputs."""

    SIZES = dict(hidden=48, heads=3, rank=24, nope=12, rope=8, value=20)

    def __init__(self, vocabulary=40, layers=3, positions=64, takes_tables=False):
        super().__init__()
        hidden = self.SIZES["hidden"]
        self.embed = torch.nn.Embedding(vocabulary, hidden)
        self.attention = torch.nn.ModuleList(
            Attention(**self.SIZES, positions=positions, takes_tables=takes_tables)
            for _ in range(layers))
        self.norms = torch.nn.ModuleList(Norm(hidden) for _ in range(2 * layers + 1))
        self.mlps = torch.nn.ModuleList(torch.nn.Sequential(
            torch.nn.Linear(hidden, 2 * hidden), torch.nn.SiLU(), torch.nn.Linear(2 * hidden, hidden))
            for _ in range(layers))
        self.head = torch.nn.Linear(hidden, vocabulary, bias=False)

    def forward(self, input_ids, position_ids, attention_mask, tables=None):
        x = self.embed(input_ids)
        for layer, (attention, mlp) in enumerate(zip(self.attention, self.mlps)):
            x = x + attention(self.norms[2 * layer](x), position_ids, tables, attention_mask)
            x = x + mlp(self.norms[2 * layer + 1](x))
        return self.head(self.norms[-1](x))
