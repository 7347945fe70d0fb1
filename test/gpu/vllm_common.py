# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the parts of vllm_engine.py share: models, and how an engine's processes are started."""

import itertools
import json
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = ROOT / "test/gpu"

CHUNK = 8192  # most tokens of a step
SMALL = {"vocab_size": 1024, "hidden_size": 512, "intermediate_size": 1024,
         "moe_intermediate_size": 256, "num_hidden_layers": 3, "num_attention_heads": 16,
         "num_key_value_heads": 16, "n_shared_experts": 1, "n_routed_experts": 4,
         "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 3,
         "q_lora_rank": 256, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
         "v_head_dim": 128, "max_position_embeddings": 32768, "bos_token_id": 0, "eos_token_id": 1,
         "tie_word_embeddings": False}
GRAPHS = {"compilation_config": {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY",
                                 "cudagraph_capture_sizes": [1, 2, 4, 8]}}
OURS, THEIRS = ("CUSTOM", "CUSTOM"), ("FLASHMLA", "FLASH_ATTN")

# What makes mlac the whole layer.
WHOLE = {"additional_config": {"mlac_layers": "whole"}}

_ports = itertools.count(29600)


def environment_of(options, more=()):
    paths = [str(ROOT / "python"), str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    given = {**os.environ, **dict(more), "PYTHONPATH": os.pathsep.join(paths)}
    if options.prepared:
        given |= {"MLAC_COMPILER": str(HERE / "prepared_compiler.py"),
                  "MLAC_PREPARED": str(options.prepared.resolve()),
                  "MLAC_RUNTIME_LIBRARY": os.environ.get(
                      "MLAC_RUNTIME_LIBRARY", str(options.prepared.resolve() / "libmla_runtime.so"))}
    return given


def commands_of(options, job, environment=()):
    """The command line and environment of each process of an engine: one for each rank where the
    job says how many are `parallel`, as torchrun would start them."""
    words = [sys.executable, "-B", str(HERE / "vllm_job.py"), json.dumps(job)]
    given, ranks = environment_of(options, environment), job.get("parallel", 1)
    if ranks == 1 or job["kind"] == "tokens":  # vLLM's own executor starts what it needs
        return [(words, given)]
    port = str(next(_ports))
    return [(words, {**given, "RANK": str(rank), "LOCAL_RANK": str(rank), "MASTER_PORT": port,
                     "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1"})
            for rank in range(ranks)]


def result_of(text):
    lines = [line for line in text.splitlines() if line.startswith("RESULT ")]
    return json.loads(lines[-1][len("RESULT "):]) if lines else None


def layer_file(fields, codes=False):
    """What the package of a model's whole layer is called among prepared ones."""
    end = "-codes" if codes else ""
    return f"layer-{fields['hidden_size']}-{fields['num_attention_heads']}{end}.mlac"


def environment_of_layers(options, fields, codes=False):
    """Where an engine of whole layers finds its package; without prepared ones it compiles it."""
    if not options.prepared:
        return {}
    return {"MLAC_VLLM_PACKAGE": str(options.prepared.resolve() / layer_file(fields, codes))}
