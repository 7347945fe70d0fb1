# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers of DeepSeek-V4 for tests: the three golden ones and random ones of each kind."""

import numpy as np

import sparse_layers as layers
from mlac import reference
from narrow_floats import narrow, widen

GOLDEN = layers.DATA / "golden/deepseek_v4_attention.safetensors"
WINDOW_ONLY, SELECTED, ALL = range(3)  # kinds, and the golden file's layers


def read_golden(layer):
    """Configuration, weights, input, output, selection and entries (or None) of a layer."""
    config, _, tensors = layers.read_golden(GOLDEN)
    module = f"layers.{layer}.self_attn"
    weights = layers.read_weights(GOLDEN, module)
    hidden = tensors[f"{module}/arg0"][0].astype(np.float64)
    selected = tensors.get(f"{module}.compressor.indexer/output")
    entries = tensors.get(f"{module}.compressor/output.0")
    return (config, weights, hidden, tensors[f"{module}/output.0"][0],
            None if selected is None else selected[0].astype(np.int32),
            None if entries is None else entries[0, 0])


def config(kind, **more):
    """Of tiny dims, groups of 3 heads and lists of no round numbers."""
    names = ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"]
    return {"model_type": "deepseek_v4", "num_hidden_layers": 1, "layer_types": [names[kind]],
            "hidden_size": 96, "num_attention_heads": 6, "num_key_value_heads": 1, "head_dim": 144,
            "qk_rope_head_dim": 32, "q_lora_rank": 48, "o_groups": 2, "o_lora_rank": 24,
            "sliding_window": 21, "rope_theta": 1e4, "compress_rope_theta": 1.6e5,
            "rms_norm_eps": 1e-6, "max_position_embeddings": 4096, "index_n_heads": 3,
            "index_head_dim": 128, "index_topk": 11, **more}


def random_weights(rng, config, kind):
    """By their names, all that a layer of any kind may have."""
    h, n, d, lq = (config[k] for k in ("hidden_size", "num_attention_heads", "head_dim",
                                       "q_lora_rank"))
    groups, rank = config["o_groups"], config["o_lora_rank"]
    hi, di = config["index_n_heads"], config["index_head_dim"]
    shapes = {"q_a_proj": (lq, h), "q_b_proj": (n * d, lq), "kv_proj": (d, h),
              "o_a_proj": (groups * rank, n // groups * d), "o_b_proj": (h, groups * rank)}
    norms, biases = {"q_a_norm": lq, "kv_norm": d}, {}
    runs, every = {SELECTED: (2, 4), ALL: (1, 128)}.get(kind, (0, 0))
    if kind == SELECTED:
        shapes.update({"compressor.indexer.q_b_proj": (hi * di, lq),
                       "compressor.indexer.scorer.weights_proj": (hi, h)})
    for prefix, width in (("compressor", d), ("compressor.indexer", di)):
        shapes.update({f"{prefix}.kv_proj": (runs * width, h),
                       f"{prefix}.gate_proj": (runs * width, h)})
        norms[f"{prefix}.kv_norm"] = width
        biases[f"{prefix}.position_bias"] = (every, runs * width)
    weights = {f"{name}.weight": rng.standard_normal(shape) * shape[1] ** -0.5
               for name, shape in shapes.items()}
    weights.update({f"{name}.weight": 1 + 0.1 * rng.standard_normal(width)
                    for name, width in norms.items()})
    weights.update({name: rng.standard_normal(shape) for name, shape in biases.items()})
    weights["sinks"] = rng.standard_normal(n)
    return {name: widen(narrow(w, "bf16")) for name, w in weights.items()}


# Columns of a record that are codes, and those that have one scale (v4.md section 4).
CODES, GROUP = 448, 64


def record_bytes(bits):
    """Rows [n, 512] of bf16 bits as records [n, 584]: codes, columns as they are, exponents, a
    zero."""
    values = widen(bits[:, :CODES]).astype(np.float32).reshape(len(bits), -1, GROUP)
    largest = np.maximum(np.abs(values).max(axis=-1), np.float32(1e-4)) / np.float32(448)
    words = largest.view(np.uint32)  # up to a power of two, on bits
    exponents = ((words >> 23) + ((words & 0x7FFFFF) != 0)).astype(np.uint8)
    scaled = values.astype(np.float64) * 2.0 ** (127.0 - exponents[..., None])
    rounded = reference.round_e4m3(scaled)
    codes = np.searchsorted(reference.e4m3_values()[:127], np.abs(rounded)).astype(np.uint8)
    codes |= np.signbit(values).astype(np.uint8) << 7
    return np.concatenate([codes.reshape(len(bits), CODES),
                           np.ascontiguousarray(bits[:, CODES:]).view(np.uint8), exponents,
                           np.zeros((len(bits), 1), np.uint8)], axis=1)


def records(rows):
    """What readers of records see of rows [n, 512]."""
    bits = narrow(rows, "bf16")
    stored = record_bytes(bits)
    exponents = stored[:, -8:-1].astype(np.float64)
    codes = reference.e4m3_values()[stored[:, :CODES]].reshape(len(rows), -1, GROUP)
    return np.concatenate([(codes * 2.0 ** (exponents[..., None] - 127)).reshape(len(rows), CODES),
                           widen(bits[:, CODES:])], axis=1)


def clear_rows(shape, scores, rows, slack):
    """Of each of `rows` whether its selection stands whatever roundings of `slack` do."""
    clear = []
    for row in rows:
        seen = (row + 1) // shape.every
        ordered = np.sort(scores[row, :seen])[::-1]
        limit = slack * np.abs(ordered).max(initial=0)
        k = shape.indexer.topk
        clear.append(seen <= k or ordered[k - 1] - ordered[k] > 2 * limit)
    return np.array(clear)
