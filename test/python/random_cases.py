# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random layers and batches for the comparison with the float64 reference.

A *layer* is a model configuration with compile options; a *case* is two steps
over one ragged batch: first each request's context, then new tokens on top of
it. Everything derives from one seed, so a failing case can be run alone.
"""

import dataclasses

import numpy as np

HEADS = (1, 3, 8, 16, 20, 40, 64, 128)
RANKS = (32, 256, 512)
ROPES = (0, 8, 32, 64)
PAGES = (1, 16, 64, 128)
FORMS = ("auto", "expanded", "absorbed")
ABSORPTIONS = ("online", "offline", "half-query", "half-output")


@dataclasses.dataclass(frozen=True)
class Layer:
    """Configuration keys of Hugging Face and the options of mla-compile."""

    index: int
    config: dict
    page_size: int
    form: str
    absorb: str

    def options(self):
        return [f"--page-size={self.page_size}", f"--form={self.form}", f"--absorb={self.absorb}",
                "--dtype=f32", "--target=cpu", "--tp=1"]

    def name(self):
        c = self.config
        return (f"layer {self.index}: N={c['num_attention_heads']} Lkv={c['kv_lora_rank']} "
                f"R={c['qk_rope_head_dim']} P={c['qk_nope_head_dim']} V={c['v_head_dim']} "
                f"Lq={c['q_lora_rank']} page={self.page_size} {self.form} {self.absorb}")


@dataclasses.dataclass(frozen=True)
class Case:
    """context[r] tokens are cached by a first step, query[r] are new in the second."""

    context: tuple
    query: tuple
    function: str
    small_workspace: bool


def layers(rng, count):
    """`count` layers that together cover every head count, rank, rope width, page
    size, form and absorption mode."""
    for index in range(count):
        # Cycles of different lengths: each value appears early, in changing company.
        heads = HEADS[index % len(HEADS)]
        rank = RANKS[index % len(RANKS)]
        rope = ROPES[(index // 3) % len(ROPES)]
        nope, value = (int(rng.choice((16, 24, 64, 128))) for _ in range(2))
        config = {
            "model_type": "minicpm3" if index % 5 == 4 else "deepseek_v3",
            "num_hidden_layers": 1,
            "hidden_size": int(rng.choice((40, 64, 96))),
            "num_attention_heads": heads,
            "q_lora_rank": None if index % 4 == 3 else int(rng.choice((24, 48, 64))),
            "kv_lora_rank": rank,
            "qk_nope_head_dim": nope,
            "qk_rope_head_dim": rope,
            "v_head_dim": value,
            "rope_theta": 10000.0,
            "max_position_embeddings": 4096,
            "rms_norm_eps": 1e-6,
        }
        if index % 4 == 1:
            # The softmax scale has YaRN's gain also where nothing is rotated (R = 0).
            config["rope_scaling"] = {"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1,
                                      "mscale": 1.0, "mscale_all_dim": 1.0,
                                      "original_max_position_embeddings": 4096}
        form = FORMS[(index + index // len(FORMS)) % len(FORMS)]
        # Nothing is absorbed where only the expanded form exists.
        absorb = "online" if form == "expanded" else ABSORPTIONS[(index // 3) % len(ABSORPTIONS)]
        page_size = PAGES[(index + index // len(HEADS)) % len(PAGES)]
        yield Layer(index, config, page_size, form, absorb)


def cases(rng, page_size, count):
    """`count` ragged batches with empty requests, single tokens and page boundaries."""
    edges = [0, 1, page_size - 1, page_size, page_size + 1, 2 * page_size + 1, 33]
    for index in range(count):
        requests = int(rng.integers(1, 5))
        context = tuple(int(min(rng.choice(edges), 140)) for _ in range(requests))
        if index % 2:
            yield Case(context, (1,) * requests, "decode", False)
            continue
        query = [int(rng.choice((0, 1, 2, 5, page_size, page_size + 1))) for _ in range(requests)]
        query[int(rng.integers(requests))] = int(rng.integers(1, 40))
        yield Case(context, tuple(query), "prefill", bool(index % 4))


def weight_shapes(config):
    heads, rank = config["num_attention_heads"], config["kv_lora_rank"]
    p, r, v = (config[k] for k in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
    hidden, q_rank = config["hidden_size"], config["q_lora_rank"]
    shapes = {
        "kv_a_proj_with_mqa.weight": (rank + r, hidden),
        "kv_a_layernorm.weight": (rank,),
        "kv_b_proj.weight": (heads * (p + v), rank),
        "o_proj.weight": (hidden, heads * v),
    }
    if q_rank is None:
        shapes["q_proj.weight"] = (heads * (p + r), hidden)
    else:
        shapes["q_a_proj.weight"] = (q_rank, hidden)
        shapes["q_a_layernorm.weight"] = (q_rank,)
        shapes["q_b_proj.weight"] = (heads * (p + r), q_rank)
    return shapes


def weights(rng, config):
    """Normal weights scaled by 1/sqrt(fan_in); norm weights near one."""
    out = {}
    for name, shape in weight_shapes(config).items():
        w = rng.standard_normal(shape)
        w = 1 + 0.1 * w if len(shape) == 1 else w / np.sqrt(shape[1])
        out[name] = w.astype(np.float32)
    return out
