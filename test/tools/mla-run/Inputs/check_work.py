# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""bench-work_C20.test: FLOPs and bytes of steps, counted key by key here."""

import json
import pathlib
import subprocess
import sys

COMPILE, RUN, FOLDER = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
BATCH, HIDDEN, HEADS = 2, 512, 8
LATENT = {"model_type": "deepseek_v3", "num_hidden_layers": 2, "hidden_size": HIDDEN,
          "num_attention_heads": HEADS, "q_lora_rank": 64, "kv_lora_rank": 96, "qk_nope_head_dim": 48,
          "qk_rope_head_dim": 16, "v_head_dim": 32, "rope_theta": 1e4, "rms_norm_eps": 1e-6,
          "max_position_embeddings": 4096}
SELECTED = LATENT | {"model_type": "deepseek_v32", "index_n_heads": 4, "index_head_dim": 128,
                     "index_topk": 16}
SHARED = {"model_type": "deepseek_v4", "num_hidden_layers": 3, "compress_ratios": [0, 4, 128],
          "hidden_size": HIDDEN, "num_attention_heads": HEADS, "num_key_value_heads": 1,
          "head_dim": 128, "qk_rope_head_dim": 32, "q_lora_rank": 64, "o_groups": 2,
          "o_lora_rank": 64, "sliding_window": 21, "rope_theta": 1e4, "compress_rope_theta": 1.6e5,
          "rms_norm_eps": 1e-6, "max_position_embeddings": 4096, "index_n_heads": 8,
          "index_head_dim": 128, "index_topk": 16}
GROUPED = {"model_type": "gemma2", "num_hidden_layers": 2, "hidden_size": HIDDEN,
           "num_attention_heads": HEADS, "num_key_value_heads": 2, "head_dim": 64,
           "sliding_window": 21, "query_pre_attn_scalar": 64, "rope_theta": 1e4,
           "rms_norm_eps": 1e-6, "max_position_embeddings": 4096}


def products_of(*shapes):
    return sum(rows * columns for rows, columns in shapes)


def latent(seen, keys, tokens, selected=None):
    up, width = HEADS * 96 * (48 + 32), HEADS * (48 + 16)
    weights = products_of((64, HIDDEN), (width, 64), (96 + 16, HIDDEN), (HIDDEN, HEADS * 32))
    if selected is None:
        pairs = sum(seen)
        attention = min(keys * up + HEADS * (48 + 16 + 32) * pairs,
                        tokens * up + HEADS * (2 * 96 + 16) * pairs)
        return weights * tokens + attention, 2 * (96 + 16) * keys, weights + HEADS * 80 * 96
    weights += products_of((4 * 128, 64), (128, HIDDEN), (4, HIDDEN))
    pairs = sum(min(s, selected) for s in seen)
    attention = tokens * up + HEADS * (2 * 96 + 16) * pairs + 4 * 128 * sum(seen)
    rows = 2 * (96 + 16) * min(keys, pairs) + 132 * min(keys, sum(seen))
    return weights * tokens + attention, rows, weights + HEADS * 80 * 96


def shared(seen, keys, tokens, ratio):
    window, selected = 21, 16 if ratio == 4 else 1 << 30
    weights = products_of((64, HIDDEN), (HEADS * 128, 64), (128, HIDDEN), (2 * 64, HEADS * 128 // 2),
                          (HIDDEN, 2 * 64))
    pairs, rows, index = sum(min(s, window) for s in seen), 0, 0
    rows += 2 * 128 * min(keys, pairs)
    if ratio:
        entries = [s // ratio for s in seen]
        picked = sum(min(e, selected) for e in entries)
        rows += 2 * 128 * min(keys // ratio, picked)
        pairs += picked
        width = (2 if ratio == 4 else 1) * 128
        weights += products_of((width, HIDDEN), (width, HIDDEN))
        rows += 4 * ratio * width  # the compressor's biases of positions
        if ratio == 4:
            weights += products_of((256, HIDDEN), (256, HIDDEN), (8 * 128, 64), (8, HIDDEN))
            index = 8 * 128 * sum(entries)
            rows += 132 * min(keys // ratio, sum(entries))
    return weights * tokens + HEADS * 2 * 128 * pairs + index, rows, weights


def grouped(seen, keys, tokens, window):
    pairs = sum(min(s, window) for s in seen)
    weights = products_of((HEADS * 64, HIDDEN), (2 * 64, HIDDEN), (2 * 64, HIDDEN),
                          (HIDDEN, HEADS * 64))
    return weights * tokens + HEADS * 128 * pairs, 2 * 2 * 128 * min(keys, pairs), weights


def check(name, config, options, count, context, query):
    source, package = FOLDER / f"{name}.json", FOLDER / f"{name}.mlac"
    source.write_text(json.dumps(config))
    subprocess.run([COMPILE, source, "--quiet", "--dtype=bf16", *options, "-o", package], check=True)
    text = subprocess.run([RUN, "bench", package, "--iters=1", "--no-ceilings", "--json",
                           f"--batch={BATCH}", f"--context={context}", f"--query-len={query}"],
                          check=True, capture_output=True, text=True).stdout
    measured = json.loads(text)
    seen = [context + i for i in range(1, query + 1)] * BATCH
    products, rows, weights = count(seen, BATCH * (context + query), BATCH * query)
    least = rows + 2 * weights + 2 * 2 * BATCH * query * HIDDEN
    assert measured["flops"] == 2 * products, (name, query, measured["flops"], 2 * products)
    # Norms' weights, biases of positions and sinks are counted, too, and few.
    assert least <= measured["bytes"] <= 1.03 * least, (name, query, measured["bytes"], least)


for context, query in ((200, 1), (0, 70)):
    check("latent", LATENT, [], latent, context, query)
    check("selected", SELECTED, [], lambda *of: latent(*of, selected=16), context, query)
    for layer, ratio in enumerate((0, 4, 128)):
        check(f"shared_{ratio}", SHARED, [f"--layer={layer}"],
              lambda *of, ratio=ratio: shared(*of, ratio), context, query)
    check("window", GROUPED, ["--layer=0"], lambda *of: grouped(*of, 21), context, query)
    check("whole", GROUPED, ["--layer=1"], lambda *of: grouped(*of, 1 << 30), context, query)
