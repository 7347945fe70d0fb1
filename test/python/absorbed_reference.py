# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A layer in the absorbed form in float64, whose absorbed weights may be other numbers: those that
codes stand for."""

import numpy as np

from mlac import reference


def requantise(matrix, block, scale_floor=1e-12):
    """Numbers that e4m3 codes of a matrix [O, I] stand for, with a float32 scale for each `block` of
    rows and columns (0: all of them): largest magnitude / 448 (mla.md section 7)."""
    matrix = np.asarray(matrix, np.float64)
    rows, columns = (size or extent for size, extent in zip(block, matrix.shape))
    grid = [-(-extent // size) for extent, size in zip(matrix.shape, (rows, columns))]
    padded = np.zeros((grid[0] * rows, grid[1] * columns))
    padded[:matrix.shape[0], :matrix.shape[1]] = matrix
    blocks = padded.reshape(grid[0], rows, grid[1], columns)
    most = np.abs(blocks).max(axis=(1, 3), keepdims=True).astype(np.float32)
    scale = np.maximum(most / np.float32(448), np.float32(scale_floor)).astype(np.float64)
    quotients = blocks.astype(np.float32) / scale.astype(np.float32)
    codes = reference.round_e4m3(quotients.astype(np.float64))
    return (codes * scale).reshape(padded.shape)[:matrix.shape[0], :matrix.shape[1]]


def absorbed_layer(config, weights, hidden, stored, folds=(False, False),
                   multiplied=reference.as_they_are):
    """The rows of attention_layer in the absorbed form (mla.md section 6), whose products multiply by
    what `stored` makes of their matrices [out, in]: W_UK and W_UV of all heads, one below the other,
    or, folded into the query's or the output's projection, W_Q_UK and W_UV_O. `multiplied` (see
    attention_layer) is of the latents' projections, of these products, and, where nothing is folded,
    of the query's and the output's."""
    weights = {name: np.asarray(w, np.float64) for name, w in weights.items()}
    hidden = multiplied(np.asarray(hidden, np.float64))
    tokens, n, lkv = len(hidden), config.num_heads, config.kv_lora_rank
    p, v = config.qk_nope_head_dim, config.v_head_dim
    positions = np.arange(tokens)
    c, k_pe = reference.latents(config, weights, hidden, positions)
    projected = reference.as_they_are if any(folds) else multiplied
    q_nope, q_pe = reference.queries(config, weights, hidden, positions, projected)
    up = weights["kv_b_proj.weight"].reshape(n, p + v, lkv)
    w_uk, w_uv = up[:, :p], up[:, p:]
    if folds[0]:
        raw = reference.rms_norm(hidden @ weights["q_a_proj.weight"].T,
                                 weights["q_a_layernorm.weight"], config.eps)
        raw *= config.q_multiplier
        w_uq = weights["q_b_proj.weight"].reshape(n, -1, raw.shape[1])[:, :p]
        folded = np.einsum("npl,npq->nlq", w_uk, w_uq).reshape(n * lkv, -1)
        q_lat = (multiplied(raw) @ stored(folded).T).reshape(tokens, n, lkv)
    else:
        turned = stored(w_uk.transpose(0, 2, 1).reshape(n * lkv, p)).reshape(n, lkv, p)
        rows = multiplied(q_nope.reshape(tokens, n * p)).reshape(tokens, n, p)
        q_lat = np.einsum("tnp,nlp->tnl", rows, turned)
    scores = config.softmax_scale * (np.einsum("tnl,sl->nts", q_lat, c) +
                                     np.einsum("tnr,sr->nts", q_pe, k_pe))
    scores[:, positions[None, :] > positions[:, None]] = -np.inf
    shares = np.exp(scores - scores.max(axis=2, keepdims=True))
    shares /= shares.sum(axis=2, keepdims=True)
    o_lat = multiplied(np.einsum("nts,sl->tnl", shares, c).reshape(tokens, n * lkv))
    w_o = weights["o_proj.weight"]
    if folds[1]:
        folded = np.einsum("nvl,hnv->hnl", w_uv, w_o.reshape(-1, n, v)).reshape(-1, n * lkv)
        return o_lat @ stored(folded).T
    w_uv = stored(w_uv.reshape(n * v, lkv)).reshape(n, v, lkv)
    heads = np.einsum("tnl,nvl->tnv", o_lat.reshape(tokens, n, lkv), w_uv)
    return projected(heads.reshape(tokens, n * v)) @ w_o.T
