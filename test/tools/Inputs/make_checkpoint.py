# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a Hugging Face folder of fp8 layers with random weights, in two shards.

    make_checkpoint.py CONFIG FOLDER LAYERS ROWS COLUMNS

CONFIG is a configuration without quantization_config; weights are e4m3 codes with a scale
for each ROWS x COLUMNS. The folder's config.json says so. Needs no NumPy.
"""

import json
import math
import pathlib
import random
import struct
import sys


def matrices(config):
    heads, rank = config["num_attention_heads"], config["kv_lora_rank"]
    nope, rope, value = (config[key] for key in
                         ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
    hidden, query = config["hidden_size"], config["q_lora_rank"]
    return {"q_a_proj": (query, hidden), "q_b_proj": (heads * (nope + rope), query),
            "kv_a_proj_with_mqa": (rank + rope, hidden),
            "kv_b_proj": (heads * (nope + value), rank), "o_proj": (hidden, heads * value)}


def layer(config, prefix, block):
    """(name, type, shape, bytes) of one attention's tensors."""
    for name in ("q_a_layernorm", "kv_a_layernorm"):
        width = config["q_lora_rank" if name[0] == "q" else "kv_lora_rank"]
        yield prefix + name + ".weight", "BF16", [width], struct.pack("<H", 0x3f80) * width
    for name, shape in matrices(config).items():
        # Numbers of about 1: exponents of e4m3 from 2^-3 to 2^0, either sign.
        codes = bytes(random.randrange(0x20, 0x40) | random.choice((0, 0x80))
                      for _ in range(shape[0] * shape[1]))
        grid = [-(-extent // size) for extent, size in zip(shape, block)]
        scales = [random.uniform(1, 2) / math.sqrt(shape[1]) for _ in range(grid[0] * grid[1])]
        yield prefix + name + ".weight", "F8_E4M3", list(shape), codes
        yield (prefix + name + ".weight_scale_inv", "F32", grid,
               struct.pack(f"<{len(scales)}f", *scales))


def write_shard(path, tensors):
    header, data = {}, b""
    for name, dtype, shape, content in tensors:
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    config = json.loads(pathlib.Path(sys.argv[1]).read_text())
    folder, layers, block = pathlib.Path(sys.argv[2]), int(sys.argv[3]), [int(a) for a in sys.argv[4:6]]
    random.seed(1)
    folder.mkdir()
    config["quantization_config"] = {"quant_method": "fp8", "fmt": "e4m3",
                                     "activation_scheme": "dynamic", "weight_block_size": block}
    (folder / "config.json").write_text(json.dumps(config))
    shards, index = {"1.safetensors": [], "2.safetensors": []}, {}
    for number in range(layers):
        for tensor in layer(config, f"model.layers.{number}.self_attn.", block):
            shard = random.choice(list(shards))
            shards[shard].append(tensor)
            index[tensor[0]] = shard
    for name, tensors in shards.items():
        write_shard(folder / name, tensors)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))


main()
