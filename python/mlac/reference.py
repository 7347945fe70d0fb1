# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a multi-head latent attention layer computes, in NumPy float64.

Written from the papers' formulas, for clarity, and sharing nothing with the
compiler: this is the meaning that tests compare every back end with. Because
attention is causal, one call over a whole sequence also gives the answer of
every decode step and of every chunking of its prefill.

Symbols: S tokens, H hidden size, N heads, P/R/V nope, rope and value head
dims, Lq/Lkv query and KV latent ranks.
"""

import dataclasses
import math

import numpy as np


@dataclasses.dataclass(frozen=True)
class Rope:
    """Frequencies [R/2] (float32), factor on cos and sin, and the pairing."""

    inv_freq: np.ndarray
    multiplier: float
    interleaved: bool


@dataclasses.dataclass(frozen=True)
class Config:
    hidden_size: int
    num_heads: int
    q_lora_rank: int | None
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    softmax_scale: float
    rope: Rope | None
    eps: float = 1e-6
    q_multiplier: float = 1.0
    kv_multiplier: float = 1.0


def yarn_gain(factor, mscale):
    """g(s, m): the attention temperature of YaRN."""
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0


def yarn_inv_freq(dim, theta, factor, original, beta_fast, beta_slow):
    """Frequencies between extrapolation (fast) and interpolation (slow)."""
    def correction(rotations):
        return dim * math.log(original / (2 * math.pi * rotations)) / (2 * math.log(theta))

    low = max(math.floor(correction(beta_fast)), 0)
    high = min(math.ceil(correction(beta_slow)), dim - 1)
    if low == high:
        high += 0.001
    plain = theta ** (-np.arange(0, dim, 2, dtype=np.float64) / dim)
    ramp = np.clip((np.arange(dim // 2) - low) / (high - low), 0, 1)
    return plain / factor * ramp + plain * (1 - ramp)


def rope_and_scale(hf):
    """Rope and softmax scale of a Hugging Face configuration (old or new fields)."""
    p, r = hf["qk_nope_head_dim"], hf["qk_rope_head_dim"]
    scale = (p + r) ** -0.5
    fields = dict(hf.get("rope_scaling") or {})
    fields.update(hf.get("rope_parameters") or {})
    theta = float(fields.get("rope_theta", hf.get("rope_theta", 10000.0)))
    kind = fields.get("rope_type", fields.get("type", "default"))
    interleaved = hf.get("rope_interleave", hf["model_type"] != "minicpm3")
    multiplier = 1.0
    inv_freq = theta ** (-np.arange(0, r, 2, dtype=np.float64) / max(r, 1))
    if hf["model_type"] == "kimi_linear":  # positions rotate nothing
        return Rope(np.zeros(r // 2, np.float32), multiplier, bool(interleaved)) if r else None, scale
    if kind == "yarn":
        factor, original = float(fields["factor"]), fields["original_max_position_embeddings"]
        if r:
            inv_freq = yarn_inv_freq(r, theta, factor, original, fields.get("beta_fast", 32),
                                     fields.get("beta_slow", 1))
        all_dim = yarn_gain(factor, fields.get("mscale_all_dim", 0))
        multiplier = fields.get("attention_factor",
                                yarn_gain(factor, fields.get("mscale", 1)) / all_dim)
        scale *= all_dim ** 2
    elif kind not in ("default", None):
        raise ValueError(f"rope type: expected default or yarn, got {kind!r}")
    rope = Rope(inv_freq.astype(np.float32), multiplier, bool(interleaved)) if r else None
    return rope, scale


def config_from_hf(hf):
    """Config of a Hugging Face configuration with the model's published keys."""
    rope, scale = rope_and_scale(hf)
    longcat = hf["model_type"] == "longcat_flash"
    hidden, lq, lkv = hf["hidden_size"], hf.get("q_lora_rank"), hf["kv_lora_rank"]
    return Config(hidden, hf["num_attention_heads"], lq, lkv, hf["qk_nope_head_dim"],
                  hf["qk_rope_head_dim"], hf["v_head_dim"], scale, rope,
                  q_multiplier=math.sqrt(hidden / lq) if longcat else 1.0,
                  kv_multiplier=math.sqrt(hidden / lkv) if longcat else 1.0)


def e4m3_values():
    """The numbers of the 256 codes of e4m3 ("fn": no infinity, NaN at 0x7f and 0xff)."""
    code = np.arange(256)
    exponent, mantissa = (code >> 3) & 15, code & 7
    magnitude = np.where(exponent > 0, (8 + mantissa) * 2.0 ** (exponent - 10.0),
                         mantissa * 2.0 ** -9)
    magnitude[(code & 127) == 127] = np.nan
    return np.where(code < 128, magnitude, -magnitude)


def dequantise(codes, scales, block):
    """Values [out, in] of e4m3 codes with a scale for each `block` of rows and columns (0: all
    of them): the products in float32, as every serving system forms them."""
    scales = np.asarray(scales, np.float32)
    rows, columns = (size or extent for size, extent in zip(block, codes.shape))
    grid = scales.reshape(-(-codes.shape[0] // rows), -(-codes.shape[1] // columns))
    spread = grid.repeat(rows, axis=0)[:codes.shape[0]].repeat(columns, axis=1)
    return e4m3_values().astype(np.float32)[codes] * spread[:, :codes.shape[1]]


def round_e4m3(x):
    """The nearest numbers of e4m3; of two that are equally near the one with an even code."""
    magnitudes = e4m3_values()[:127]
    exact = np.minimum(np.abs(x), magnitudes[-1])
    above = np.clip(np.searchsorted(magnitudes, exact), 1, 126)
    low, high = magnitudes[above - 1], magnitudes[above]
    takes_high = (exact - low > high - exact) | ((exact - low == high - exact) & (above % 2 == 0))
    return np.where(takes_high, high, low) * np.sign(x)


def quantise(rows, amax_floor=1e-4, power_of_two=True):
    """Numbers that e4m3 codes times a scale per row stand for: what an indexer's cache holds of its
    keys, and what is multiplied of its queries."""
    scale = np.maximum(np.abs(rows).max(axis=-1, keepdims=True), amax_floor) / 448
    if power_of_two:
        scale = 2.0 ** np.ceil(np.log2(scale))
    return round_e4m3(rows / scale) * scale


# Magnitudes of e2m1 codes, and columns that share an exponent in MXFP4.
E2M1_MAGNITUDES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
MXFP4_BLOCK = 32


def quantise_mxfp4(rows):
    """The numbers of MXFP4 that are nearest: of two that are as near the one with an even code."""
    blocks = np.asarray(rows, np.float64).reshape(*np.shape(rows)[:-1], -1, MXFP4_BLOCK)
    most = np.maximum(np.abs(blocks).max(axis=-1, keepdims=True), 6 * 2.0 ** -126)
    scale = 2.0 ** np.ceil(np.log2(most / 6))
    size = np.abs(blocks / scale)
    above = np.clip(np.searchsorted(E2M1_MAGNITUDES, size), 1, 7)
    low, high = E2M1_MAGNITUDES[above - 1], E2M1_MAGNITUDES[above]
    takes_high = (size - low > high - size) | ((size - low == high - size) & (above % 2 == 0))
    return (np.where(takes_high, high, low) * np.sign(blocks) * scale).reshape(np.shape(rows))


def rms_norm(x, gamma, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * gamma


def rotate(x, rope, positions):
    """Rotates x [S, ..., R] by its token's position, keeping the pairing order.

    Angles are formed in float32, as every serving system does; an exact angle
    would differ by up to 1e-3 at position 131071.
    """
    angle = positions.astype(np.float32)[:, None] * rope.inv_freq[None, :]
    cos = np.cos(angle).astype(np.float32).astype(np.float64) * rope.multiplier
    sin = np.sin(angle).astype(np.float32).astype(np.float64) * rope.multiplier
    shape = (x.shape[0],) + (1,) * (x.ndim - 2) + (x.shape[-1] // 2,)
    cos, sin = cos.reshape(shape), sin.reshape(shape)
    out = np.empty_like(x)
    if rope.interleaved:
        first, second = (slice(0, None, 2), slice(1, None, 2))
    else:
        half = x.shape[-1] // 2
        first, second = (slice(0, half), slice(half, None))
    a, b = x[..., first], x[..., second]
    out[..., first] = a * cos - b * sin
    out[..., second] = a * sin + b * cos
    return out


def quantise_groups(rows, group=128, scale_floor=1e-12):
    """Activations [T, I] as products of codes multiply them: e4m3 with a float32 scale for each
    group of a token (mla.md section 7)."""
    grouped = np.asarray(rows, np.float64).reshape(len(rows), -1, group)
    most = np.abs(grouped).max(axis=-1, keepdims=True).astype(np.float32)
    scale = np.maximum(most / np.float32(448), np.float32(scale_floor))
    codes = round_e4m3((grouped.astype(np.float32) / scale).astype(np.float64))
    return (codes * scale.astype(np.float64)).reshape(np.shape(rows))


def quantise_rows(rows, scale_floor=1e-12):
    """The same with one scale for a token, beside weights without blocks of columns."""
    return quantise_groups(rows, np.shape(rows)[-1], scale_floor)


def as_they_are(rows):
    return rows


def latents(config, weights, hidden, positions):
    """The cached row of each token: normalised latent [S, Lkv] and rotated key [S, R]."""
    raw = hidden @ weights["kv_a_proj_with_mqa.weight"].T
    lkv = config.kv_lora_rank
    c = rms_norm(raw[:, :lkv], weights["kv_a_layernorm.weight"], config.eps) * config.kv_multiplier
    k_pe = raw[:, lkv:]
    return c, (rotate(k_pe, config.rope, positions) if config.rope else k_pe)


def queries(config, weights, hidden, positions, multiplied=as_they_are):
    """q_nope [S, N, P] and rotated q_pe [S, N, R]; `multiplied`: see attention_layer."""
    if config.q_lora_rank:
        x = rms_norm(hidden @ weights["q_a_proj.weight"].T, weights["q_a_layernorm.weight"],
                     config.eps) * config.q_multiplier
        q = multiplied(x) @ weights["q_b_proj.weight"].T
    else:
        q = hidden @ weights["q_proj.weight"].T
    p = config.qk_nope_head_dim
    q = q.reshape(len(hidden), config.num_heads, p + config.qk_rope_head_dim)
    q_pe = q[..., p:]
    return q[..., :p], (rotate(q_pe, config.rope, positions) if config.rope else q_pe)


@dataclasses.dataclass(frozen=True)
class Indexer:
    """What selects the keys of a sparse layer (DeepSeek-V3.2, GLM-5)."""

    num_heads: int
    head_dim: int
    topk: int
    rope: Rope


def indexer_from_hf(hf):
    """Indexer of a configuration: the frequencies of the attention, pairs of its own."""
    interleaved = hf.get("indexer_rope_interleave", hf["model_type"] == "glm_moe_dsa")
    rope = dataclasses.replace(rope_and_scale(hf)[0], interleaved=bool(interleaved))
    return Indexer(hf["index_n_heads"], hf["index_head_dim"], hf["index_topk"], rope)


def layer_norm(x, gamma, beta, eps):
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + eps) * gamma + beta


def index_rows(config, indexer, weights, hidden, positions):
    """What index scores are made of: queries [S, Hi, Di], keys [S, Di] and head weights [S, Hi].
    Only the first columns are rotated, as many as the attention's rope has."""
    latent = rms_norm(hidden @ weights["q_a_proj.weight"].T, weights["q_a_layernorm.weight"],
                      config.eps) * config.q_multiplier
    queries = (latent @ weights["indexer.wq_b.weight"].T).reshape(
        len(hidden), indexer.num_heads, indexer.head_dim)
    keys = layer_norm(hidden @ weights["indexer.wk.weight"].T, weights["indexer.k_norm.weight"],
                      weights["indexer.k_norm.bias"], 1e-6)
    width = config.qk_rope_head_dim
    for rows in (queries, keys):
        rows[..., :width] = rotate(rows[..., :width], indexer.rope, positions)
    factor = (indexer.num_heads * indexer.head_dim) ** -0.5
    return queries, keys, factor * (hidden @ weights["indexer.weights_proj.weight"].T)


def index_scores(queries, keys, head_weights):
    """[S, S]: sum over heads of w * relu(q . k)."""
    scores = np.zeros((len(queries), len(keys)))
    for head in range(queries.shape[1]):
        scores += head_weights[:, head, None] * np.maximum(queries[:, head] @ keys.T, 0)
    return scores


def top_k(scores, lengths, k):
    """Positions [rows, k] of the k largest of each row's first `length` scores, ascending, -1
    behind them: of equal scores the lower position, NaN last, -0 like 0."""
    selected = np.full((len(scores), k), -1, np.int32)
    for row, length in enumerate(lengths):
        values = np.where(np.isnan(scores[row, :length]), -np.inf, scores[row, :length])
        order = np.lexsort((np.arange(length), np.isnan(scores[row, :length]), -values))
        chosen = np.sort(order[:k])
        selected[row, :len(chosen)] = chosen
    return selected


def sparse_attention_layer(config, indexer, weights, hidden, selected=None):
    """A whole causal layer in which each token attends to the keys that its index scores select, or
    to those given: [S, K] positions, of which those behind the token and negative ones do not
    count. Returns output [S, H] and the selection."""
    weights = {name: np.asarray(w, np.float64) for name, w in weights.items()}
    hidden = np.asarray(hidden, np.float64)
    tokens, n = len(hidden), config.num_heads
    p, v = config.qk_nope_head_dim, config.v_head_dim
    positions = np.arange(tokens)
    if selected is None:
        scores = index_scores(*index_rows(config, indexer, weights, hidden, positions))
        selected = top_k(scores, positions + 1, indexer.topk)
    selected = np.where(selected <= positions[:, None], selected, -1)
    c, k_pe = latents(config, weights, hidden, positions)
    q_nope, q_pe = queries(config, weights, hidden, positions)
    up = weights["kv_b_proj.weight"].reshape(n, p + v, config.kv_lora_rank)
    query = np.concatenate([np.einsum("tnp,npl->tnl", q_nope, up[:, :p]), q_pe], axis=-1)
    output, _, _ = gathered_attention(query, np.concatenate([c, k_pe], axis=-1), c, selected,
                                      config.softmax_scale)
    heads = np.einsum("tnl,nvl->tnv", output, up[:, p:])
    return heads.reshape(tokens, n * v) @ weights["o_proj.weight"].T, selected


def attention_layer(config, weights, hidden, first_row=0, multiplied=as_they_are):
    """Output rows [first_row:] of one causal layer over a whole sequence.

    hidden [S, H] float64, weights by their checkpoint names ([out, in], float64);
    returns output [S - first_row, H] and lse [N, S - first_row] (natural log).
    multiplied: what the projections from hidden states and query latents and the output's take for
    their rows (quantise_groups where they multiply codes); kv_b's takes rows as they are.
    """
    weights = {name: np.asarray(w, np.float64) for name, w in weights.items()}
    hidden = multiplied(np.asarray(hidden, np.float64))
    tokens, n = len(hidden), config.num_heads
    p, v = config.qk_nope_head_dim, config.v_head_dim
    positions = np.arange(tokens)
    c, k_pe = latents(config, weights, hidden, positions)
    q_nope, q_pe = queries(config, weights, hidden[first_row:], positions[first_row:], multiplied)
    up = weights["kv_b_proj.weight"].reshape(n, p + v, config.kv_lora_rank)
    output = np.empty((tokens - first_row, n, v))
    lse = np.empty((n, tokens - first_row))
    future = np.arange(tokens)[None, :] > positions[first_row:][:, None]
    for head in range(n):
        k_nope, value = c @ up[head, :p].T, c @ up[head, p:].T
        scores = config.softmax_scale * (q_nope[:, head] @ k_nope.T + q_pe[:, head] @ k_pe.T)
        scores[future] = -np.inf
        top = scores.max(axis=1, keepdims=True)
        numerators = np.exp(scores - top)
        total = numerators.sum(axis=1, keepdims=True)
        output[:, head] = numerators @ value / total
        lse[head] = (top + np.log(total))[:, 0]
    flat = output.reshape(tokens - first_row, n * v)
    return multiplied(flat) @ weights["o_proj.weight"].T, lse


# Of what a sink of +inf becomes, as kernels know it (mla.grouped_attention).
LARGEST_LSE = 1e29


def grouped_attention(query, keys, values, scale, window=0, softcap=0, sink=None):
    """The last queries of one request over its keys: query head n reads KV head n // g.

    query [Q, N, Dk], keys [S, Nkv, Dk], values [S, Nkv, Dv] with Q <= S and g = N / Nkv: query j
    stands at position S - Q + j and sees the keys up to it, with a window the last so many of
    them. A softcap t makes scores t tanh(score / t); a sink [N] is one more score, of no value.
    Returns output [Q, N, Dv] and lse [Q, N] (natural log), the sink's share in it.
    """
    query, keys, values = (np.asarray(x, np.float64) for x in (query, keys, values))
    group = query.shape[1] // keys.shape[1]
    # The masked ones are taken out before anything is multiplied: they may be NaN.
    output = np.empty(query.shape[:2] + values.shape[2:])
    lse = np.empty(query.shape[:2])
    for j in range(len(query)):
        end = len(keys) - len(query) + j + 1
        seen = slice(max(0, end - window) if window else 0, end)
        for head in range(query.shape[1]):
            scores = scale * (keys[seen, head // group] @ query[j, head])
            if softcap:
                scores = softcap * np.tanh(scores / softcap)
            own = np.float64(-np.inf if sink is None else sink[head])
            top = max(scores.max(), own)
            if np.isposinf(top):
                output[j, head], lse[j, head] = 0, top
                continue
            numerators = np.exp(scores - top)
            total = numerators.sum() + np.exp(own - top)
            output[j, head] = numerators @ values[seen, head // group] / total
            lse[j, head] = top + np.log(total)
    return output, lse


def gathered_attention(query, rows, values, lists, scale, sink=None):
    """Queries over the rows that a list names, token by token (sparse.md sections 7 to 9).

    query [T, N, D], rows [S, D], values [S, V], lists: T arrays of row numbers, of which those
    outside of 0 .. S - 1 contribute nothing; sink [N]. Returns output [T, N, V], lse [T, N] and
    max_logits [T, N] (natural log), of which the latter two know nothing of the sink.
    """
    query, rows, values = (np.asarray(x, np.float64) for x in (query, rows, values))
    output = np.zeros(query.shape[:2] + values.shape[1:])
    lse, top = np.full(query.shape[:2], -np.inf), np.full(query.shape[:2], -np.inf)
    for token, entries in enumerate(lists):
        entries = np.asarray(entries, np.int64)
        entries = entries[(entries >= 0) & (entries < len(rows))]
        if len(entries) == 0:
            continue
        scores = scale * (query[token] @ rows[entries].T)
        top[token] = scores.max(axis=1)
        numerators = np.exp(scores - top[token][:, None])
        total = numerators.sum(axis=1)
        lse[token] = top[token] + np.log(total)
        output[token] = numerators @ values[entries] / total[:, None]
    if sink is not None:
        with np.errstate(over="ignore"):
            odds = np.exp(np.asarray(sink, np.float64) - np.where(np.isinf(lse), 0, lse))
        output /= 1 + odds[:, :, None]
    return output, lse, top


@dataclasses.dataclass(frozen=True)
class SharedKeys:
    """A layer whose keys are values too (DeepSeek-V4): a window of tokens and entries of `every`
    tokens each (1: none). Entries of 4 tokens are made of the 4 before, too, and selected."""

    hidden_size: int
    num_heads: int
    head_dim: int
    rope_dim: int
    q_lora_rank: int
    window: int
    every: int
    groups: int
    group_rank: int
    rope: Rope
    eps: float
    indexer: Indexer | None

    @property
    def overlaps(self):
        return self.every == 4


def entry_tokens(hf, layer):
    """Tokens of a layer's entries; 1 where it has none."""
    if layer >= hf["num_hidden_layers"]:
        return 1
    if "compress_ratios" in hf:
        return max(hf["compress_ratios"][layer] or 1, 1)
    kind = hf["layer_types"][layer]
    rates = {"sliding_attention": 1, "compressed_sparse_attention": 4,
             "heavily_compressed_attention": 128, **hf.get("compress_rates", {})}
    return max(rates[kind], 1)


def shared_keys_from_hf(hf, layer):
    """What layer `layer` of a DeepSeek-V4 configuration computes."""
    every, width = entry_tokens(hf, layer), hf["qk_rope_head_dim"]
    fields = dict(hf.get("rope_parameters", {}).get("compress" if every > 1 else "main", {}))
    if every > 1 and not fields:
        fields = dict(hf.get("rope_scaling") or {})
    key = "compress_rope_theta" if every > 1 else "rope_theta"
    theta = float(fields.get("rope_theta", hf.get(key, 10000.0)))
    inv_freq = theta ** (-np.arange(0, width, 2, dtype=np.float64) / width)
    if every > 1 and fields.get("rope_type", fields.get("type", "default")) == "yarn":
        inv_freq = yarn_inv_freq(width, theta, float(fields["factor"]),
                                 fields["original_max_position_embeddings"],
                                 fields.get("beta_fast", 32), fields.get("beta_slow", 1))
    rope = Rope(inv_freq.astype(np.float32), 1.0, True)
    indexer = Indexer(hf["index_n_heads"], hf["index_head_dim"], hf["index_topk"], rope)
    return SharedKeys(hf["hidden_size"], hf["num_attention_heads"], hf["head_dim"], width,
                      hf["q_lora_rank"], hf["sliding_window"], every, hf["o_groups"],
                      hf["o_lora_rank"], rope, hf.get("rms_norm_eps", 1e-6),
                      indexer if every == 4 else None)


def rotate_last(x, rope, positions, inverse=False):
    """Rotates the last columns of x [S, ..., D], as many as the rope has."""
    if inverse:
        rope = dataclasses.replace(rope, inv_freq=-rope.inv_freq)
    first = x.shape[-1] - 2 * len(rope.inv_freq)
    return np.concatenate([x[..., :first], rotate(x[..., first:], rope, positions)], axis=-1)


def entries_of(config, weights, prefix, hidden):
    """Rows [S // r, D] of what `prefix` makes of whole runs of r tokens: of each column a mean, by
    a softmax over the tokens, normalised and rotated as the first token of the run is."""
    r = config.every
    kv = hidden @ weights[f"{prefix}kv_proj.weight"].T
    gate = hidden @ weights[f"{prefix}gate_proj.weight"].T
    gate += weights[f"{prefix}position_bias"][np.arange(len(hidden)) % r]
    width = kv.shape[1] // (2 if config.overlaps else 1)
    rows = np.zeros((len(hidden) // r, width))
    for entry in range(len(rows)):
        run = slice(entry * r, entry * r + r)
        values, scores = kv[run, -width:], gate[run, -width:]
        if config.overlaps and entry > 0:
            before = slice(entry * r - r, entry * r)
            values = np.concatenate([kv[before, :width], values])
            scores = np.concatenate([gate[before, :width], scores])
        shares = np.exp(scores - scores.max(axis=0))
        rows[entry] = (shares * values).sum(axis=0) / shares.sum(axis=0)
    rows = rms_norm(rows, weights[f"{prefix}kv_norm.weight"], config.eps)
    return rotate_last(rows, config.rope, np.arange(len(rows)) * r)


def shared_key_scores(config, weights, hidden, stored=lambda rows: rows):
    """Index scores [S, S // r]; `stored` says what becomes of queries and keys first."""
    positions, indexer = np.arange(len(hidden)), config.indexer
    latent = rms_norm(hidden @ weights["q_a_proj.weight"].T, weights["q_a_norm.weight"], config.eps)
    prefix = "compressor.indexer."
    queries = (latent @ weights[f"{prefix}q_b_proj.weight"].T).reshape(
        len(hidden), indexer.num_heads, indexer.head_dim)
    queries = rotate_last(queries, config.rope, positions)
    keys = entries_of(config, weights, prefix, hidden)
    factor = (indexer.num_heads * indexer.head_dim) ** -0.5
    heads = factor * (hidden @ weights[f"{prefix}scorer.weights_proj.weight"].T)
    return index_scores(stored(queries), stored(keys), heads)


def shared_key_layer(config, weights, hidden, selected=None, stored=as_they_are,
                     multiplied=as_they_are):
    """A whole layer over a sequence: output [S, H] and, of a layer that selects entries, which
    [S, K] each token does; with `selected` those, where they are complete at the token. `stored`
    says what pools make of rows of keys, `multiplied` what becomes of groups of heads [S, G, I] in
    front of their product."""
    weights = {name: np.asarray(w, np.float64) for name, w in weights.items()}
    hidden = np.asarray(hidden, np.float64)
    count, n, dim = len(hidden), config.num_heads, config.head_dim
    positions = np.arange(count)
    latent = rms_norm(hidden @ weights["q_a_proj.weight"].T, weights["q_a_norm.weight"], config.eps)
    query = (latent @ weights["q_b_proj.weight"].T).reshape(count, n, dim)
    query = rotate_last(rms_norm(query, 1.0, config.eps), config.rope, positions)
    keys = rms_norm(hidden @ weights["kv_proj.weight"].T, weights["kv_norm.weight"], config.eps)
    keys = rotate_last(keys, config.rope, positions)
    lists = [list(range(max(p + 1 - config.window, 0), p + 1)) for p in positions]
    if config.every > 1:
        seen = (positions + 1) // config.every
        if config.indexer and selected is None:
            selected = top_k(shared_key_scores(config, weights, hidden), seen, config.indexer.topk)
        for p, own in enumerate(lists):
            chosen = range(seen[p]) if selected is None else selected[p]
            own.extend(count + entry for entry in chosen if 0 <= entry < seen[p])
        keys = np.concatenate([keys, entries_of(config, weights, "compressor.", hidden)])
    keys = stored(keys)
    output, _, _ = gathered_attention(query, keys, keys, lists, dim ** -0.5, weights["sinks"])
    output = rotate_last(output, config.rope, positions, inverse=True)
    groups = output.reshape(count, config.groups, n // config.groups * dim)
    down = weights["o_a_proj.weight"].reshape(config.groups, config.group_rank, -1)
    latents_out = np.einsum("tgi,goi->tgo", multiplied(groups), down).reshape(count, -1)
    return latents_out @ weights["o_b_proj.weight"].T, selected


def cosine_difference(a, b):
    """1 - 2 sum(ab) / sum(a^2 + b^2); 0 for a zero reference."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if np.sum(b * b) < 1e-12:
        return 0.0
    return 1 - 2 * np.sum(a * b) / np.sum(a * a + b * b)


def wmape(a, reference):
    """sum |a - reference| / sum |reference|."""
    a, reference = np.asarray(a, np.float64), np.asarray(reference, np.float64)
    return np.sum(np.abs(a - reference)) / np.sum(np.abs(reference))


def relative_error(a, reference):
    """||a - reference|| / ||reference||."""
    a, reference = np.asarray(a, np.float64), np.asarray(reference, np.float64)
    return np.linalg.norm(a - reference) / np.linalg.norm(reference)
