# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models of every size with options of every value: compiled, or refused by a plain error."""

import json
import pathlib
import random
import tempfile

import common

# Odd sizes find what is not masked; multiples of 16 that no published model has find what
# schedules derive wrongly.
SIZES = {
    "num_attention_heads": [1, 2, 3, 5, 7, 8, 13, 16, 17, 24, 33, 48, 64, 96, 127, 128],
    "kv_lora_rank": [1, 2, 8, 16, 17, 31, 32, 40, 96, 128, 192, 257, 320, 448, 512, 513, 576, 1024],
    "qk_rope_head_dim": [0, 2, 4, 6, 8, 10, 16, 32, 34, 48, 64, 96, 128, 256],
    "qk_nope_head_dim": [1, 3, 8, 16, 24, 33, 64, 80, 96, 128, 192],
    "v_head_dim": [1, 2, 8, 16, 17, 40, 64, 80, 100, 128, 160, 256],
    "q_lora_rank": [None, 1, 8, 17, 48, 96, 768, 1000, 1536],
    "hidden_size": [1, 8, 63, 64, 65, 100, 128, 257, 512, 4096],
}
# Of models whose layers select keys.
INDEXER = {
    "index_n_heads": [1, 4, 7, 32, 64, 129],
    "index_head_dim": [16, 64, 96, 128, 192, 256, 384],
    "index_topk": [1, 5, 64, 512, 2048, 4096, 4097],
}
ROPES = [{"rope_type": "default", "rope_theta": 1e4},
         {"rope_type": "yarn", "rope_theta": 1e4, "factor": 40, "beta_fast": 32, "beta_slow": 1,
          "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096}]
OPTIONS = {
    "form": ["auto", "expanded", "absorbed"],
    "absorb": ["online", "offline", "half-query", "half-output", "auto"],
    "cache-format": ["auto", "mla_fp8_tensor", "fp8_ds_mla", "split_ckv_kpe"],
    "page-size": [1, 2, 3, 7, 16, 63, 64, 65, 100, 128, 1000, 65536],
    "tp": [1, 2, 3, 4, 8], "functions": ["prefill", "decode", "step", "prefill,decode,step"],
    "scale-rule": ["raw", "power_of_two"], "mixed": ["never", "auto", "always"],
    "decode-threshold": [1, 2, 8, 64, 65536], "num-splits": [0, 1, 2, 7, 65536],
}
SPARSE = {"indexer": ["full", "shared", "none"], "sparse-mode": ["auto", "mixed", "separate"]}
CPU = {"dtype": ["bf16", "f16", "f32"]}
GPU = {"batch-invariant": [1, 3, 1 << 20], "schedule": ["auto", "simple", "relay", "stream",
                                                       "pingpong"], "item-cost": [0, 1 << 20]}
STAGES = [0, 1, 2, 3, 9, 113, 114, 1 << 62]
SCHEDULE = {
    "left-stages": STAGES, "right-stages": STAGES, "rope-stages": STAGES, "stages": STAGES,
    "key-stages": STAGES, "early": [-1, 0, 1, 5, 113], "gate": ["none", "left", "right", "both"],
    "issue": ["before-softmax", "after-exp", "after-store"], "steps-per-turn": [1, 2, 3],
    "registers": ["168/168/168", "1/1/1", "240/240/24", "24/240/240", "160/168/168"],
    "lazy-threshold": ["0", "15", "16", "nan"], "part-columns": [64, 65, 128, 576, 1792, 4096],
    "key-block": [0, 16, 40, 64, 80, 256, 272],
}


def draw_sizes(numbers, config, sizes):
    for key, values in sizes.items():
        if numbers.random() < 0.7:
            config[key] = numbers.choice(values)


def make_model(numbers, base):
    config = dict(base)
    draw_sizes(numbers, config, SIZES)
    if "index_topk" in config:
        draw_sizes(numbers, config, INDEXER)
    config["num_key_value_heads"] = config["num_attention_heads"]
    config["qk_head_dim"] = config["qk_nope_head_dim"] + config["qk_rope_head_dim"]
    config.pop("head_dim", None)
    config.pop("rope_scaling", None)
    config["rope_parameters"] = numbers.choice(ROPES)
    config["rope_interleave"] = numbers.random() < 0.5
    config["attention_bias"] = numbers.random() < 0.3
    return config


def draw(numbers, options, chance):
    return [f"--{name}={numbers.choice(values)}" for name, values in options.items()
            if numbers.random() < chance]


def make_options(numbers, is_sparse):
    options = draw(numbers, OPTIONS, 0.2)
    if is_sparse:
        options += draw(numbers, SPARSE, 0.3)
    if numbers.random() < 0.4:
        # Machine code takes longest and finds what nothing before it sees.
        level = numbers.choice(["tile", "tile", "llvm", "package"])
        return options + draw(numbers, CPU, 0.5) + [f"--emit={level}"]
    options += draw(numbers, GPU, 0.2) + ["--target=sm_90a"]
    for name in numbers.sample(sorted(SCHEDULE), numbers.choice([0, 0, 1, 2])):
        options.append(f"--schedule-option={name}={numbers.choice(SCHEDULE[name])}")
    return options + [f"--emit={numbers.choice(['tile', 'sm90', 'nvvm', 'ptx'])}"]


def fuzz(arguments, report):
    compiler = common.tool(arguments, "mla-compile")
    configs = common.ROOT / "test/data/configs"
    dense, sparse = (json.loads((configs / f"{name}.json").read_text())
                     for name in ("deepseek_v3_tiny", "deepseek_v32"))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.json"
        for number in arguments.numbers:
            numbers = random.Random(f"{arguments.seed}/options/{number}")
            model = make_model(numbers, sparse if numbers.random() < 0.3 else dense)
            path.write_text(json.dumps(model, indent=1))
            command = [compiler, str(path), "--quiet", "-o", "/dev/null",
                       *make_options(numbers, "index_topk" in model)]
            code, error = common.run(command)
            why = common.judge(code, error, [path.name])
            report.count("compiled" if code == 0 else "refused")
            if why:
                report.fail(number, why, path, command)
