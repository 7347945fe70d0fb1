# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random models of transformers with multi-head latent attention, a few hundred kilobytes each."""

import copy

import torch
from transformers import (AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText,
                          Mistral4ForCausalLM)

torch.set_num_threads(1)  # more only wait for one another at these sizes

VOCABULARY = 97
_COMMON = {"vocab_size": VOCABULARY, "hidden_size": 48, "num_attention_heads": 4,
           "num_key_value_heads": 4, "q_lora_rank": 24, "kv_lora_rank": 32,
           "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
           "max_position_embeddings": 512, "pad_token_id": 0, "bos_token_id": 1,
           "eos_token_id": 2}
_LAYERS = {"num_hidden_layers": 3, "intermediate_size": 64}
_EXPERTS = {"moe_intermediate_size": 16, "n_routed_experts": 4, "num_experts_per_tok": 2}
_GROUPS = {"n_group": 1, "topk_group": 1}
_INDEXER = {"index_n_heads": 2, "index_head_dim": 16, "index_topk": 64}
_YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "mscale": 1.0,
         "mscale_all_dim": 1.0, "original_max_position_embeddings": 128}
_LONGROPE = {"rope_type": "longrope", "rope_theta": 10000.0, "factor": 1.0,
             "short_factor": [1.0, 1.1, 1.3, 2.0], "long_factor": [1.0, 1.2, 1.5, 3.0],
             "original_max_position_embeddings": 512}
# A bound of the sequences, from which on queries would be scaled.
_MISTRAL = {**_YARN, "llama_4_scaling_beta": 0.1}
CONFIGS = {
    "axk1": {**_LAYERS, **_EXPERTS, **_GROUPS, "first_k_dense_replace": 2},
    "deepseek_v2": {**_LAYERS, **_EXPERTS, "q_lora_rank": None, "first_k_dense_replace": 3},
    "deepseek_v3": {**_LAYERS, **_EXPERTS, **_GROUPS, "first_k_dense_replace": 2,
                    "rope_parameters": _YARN},
    "deepseek_v32": {**_LAYERS, **_EXPERTS, **_GROUPS, **_INDEXER, "first_k_dense_replace": 3},
    "glm4_moe_lite": {**_LAYERS, **_EXPERTS, **_GROUPS},
    "glm_moe_dsa": {**_LAYERS, **_EXPERTS, **_GROUPS, **_INDEXER,
                    "mlp_layer_types": ["dense"] * 3},
    "kimi_k25": {},  # deepseek_v3 behind eyes; see make_config
    "longcat_flash": {"num_layers": 2, "ffn_hidden_size": 64, "expert_ffn_hidden_size": 16,
                      "n_routed_experts": 4, "zero_expert_num": 2, "moe_topk": 2, "head_dim": 8},
    "minicpm3": {**_LAYERS, "rope_parameters": _LONGROPE},
    "mistral4": {**_LAYERS, **_EXPERTS, **_GROUPS, "first_k_dense_replace": 2,
                 "rope_parameters": _MISTRAL},
    "sarvam_mla": {**_LAYERS, **_EXPERTS, "q_lora_rank": None, "first_k_dense_replace": 2},
    "youtu": _LAYERS,
}


def make_config(kind, **changes):
    if kind == "kimi_k25":
        return AutoConfig.for_model(
            kind, text_config=make_config("deepseek_v3", **changes).to_dict(),
            vision_config={"num_hidden_layers": 1, "hidden_size": 16, "intermediate_size": 16,
                           "num_attention_heads": 1},
            projection_hidden_size=16, tie_word_embeddings=False)
    return AutoConfig.for_model(kind, **{**_COMMON, **CONFIGS[kind], **changes})


def make_model(kind, seed=0, dtype=torch.float32, **changes):
    """A model whose tokens vary: the default weights repeat one token for ever."""
    config = make_config(kind, **changes)
    known = AutoModelForImageTextToText if kind == "kimi_k25" else AutoModelForCausalLM
    # transformers knows Mistral 4 as the language model of others only.
    make = Mistral4ForCausalLM._from_config if kind == "mistral4" else known.from_config
    model = make(config, attn_implementation="eager", dtype=torch.float32).eval()
    randomise(model, seed)
    return model.to(dtype)


def randomise(model, seed=0):
    """Weights of a width's size."""
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        if weight.dim() > 1:
            gain = 3.6 if "embed" in name else 1.2
            weight.data.copy_(noise * gain / weight.shape[-1] ** 0.5)
        elif "norm" in name:
            weight.data.copy_(1 + 0.1 * noise)


def narrowed(model, dtype):
    """A copy with weights in `dtype`. Frequencies stay in f32, as in models that are loaded, which
    model.to() would round."""
    copied = copy.deepcopy(model)
    for weight in copied.parameters():
        weight.data = weight.data.to(dtype)
    return copied


def random_prompts(batch, length, seed=5):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, VOCABULARY, (batch, length), generator=generator)
