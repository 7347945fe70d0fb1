# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which layers of a model have a sliding window, and of how many tokens: what mla-compile reads off a
configuration, against the layers that transformers makes of it.

Skips itself where torch or transformers are not installed. MLAC_COMPILE names the compiler."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

try:
    import torch
    import transformers
except ImportError as error:
    raise unittest.SkipTest(f"not installed: {error.name}")

COMPILE = os.environ["MLAC_COMPILE"]
LAYERS = 4
DIMS = {"hidden_size": 32, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16,
        "intermediate_size": 16, "num_hidden_layers": LAYERS, "max_position_embeddings": 8192,
        "vocab_size": 32, "num_experts": 2, "num_experts_per_tok": 1, "num_local_experts": 2,
        "moe_intermediate_size": 16}
TYPES = {"mistral": transformers.MistralModel, "mixtral": transformers.MixtralModel,
         "qwen2": transformers.Qwen2Model, "qwen3": transformers.Qwen3Model,
         "qwen3_moe": transformers.Qwen3MoeModel, "gemma2": transformers.Gemma2Model,
         "gpt_oss": transformers.GptOssModel, "llama": transformers.LlamaModel,
         "ministral": transformers.MinistralModel, "ministral3": transformers.Ministral3Model}
SLIDES, FULL = "sliding_attention", "full_attention"
# What a configuration says of windows; a key that is not here is not in the file.
KEYS = [{}, {"sliding_window": 5}, {"sliding_window": None},
        {"sliding_window": 5, "use_sliding_window": True},
        {"use_sliding_window": True}, {"sliding_window": None, "use_sliding_window": True},
        {"sliding_window": 5, "use_sliding_window": True, "max_window_layers": 2},
        {"sliding_window": 5, "use_sliding_window": True, "max_window_layers": 1,
         "layer_types": [FULL, SLIDES, SLIDES, FULL]},
        {"sliding_window": 5, "layer_types": [FULL, SLIDES, SLIDES, FULL]},
        {"sliding_window": None, "layer_types": [FULL] * LAYERS},
        {"sliding_window": 5, "use_sliding_window": False, "layer_types": [FULL] * LAYERS}]


def windows_of_model(kind, keys):
    """The tokens that each layer's attention may see, of the masks that it is called with; 0: all.
    None where transformers refuses the configuration."""
    config = TYPES[kind].config_class(**DIMS, **keys)
    config._attn_implementation = "eager"
    model, seen = TYPES[kind](config).eval(), []

    def note(module, args, kwargs):
        mask = kwargs["attention_mask"]
        allowed = mask[0, 0] if mask.dtype == torch.bool else mask[0, 0] == 0
        seen.append(int(allowed[-1].sum()))

    for layer in model.layers:
        layer.self_attn.register_forward_pre_hook(note, with_kwargs=True)
    length = 8 + max(getattr(config, "sliding_window", None) or 0, 4)
    with torch.no_grad():
        try:
            model(torch.zeros(1, length, dtype=torch.int64), use_cache=False)
        except ValueError as error:
            if "sliding_window" not in str(error):
                raise
            return None
    return [0 if count == length else count for count in seen]


def windows_of_compiler(kind, keys, folder):
    """None where it refuses a layer."""
    path = pathlib.Path(folder) / "config.json"
    path.write_text(json.dumps({"model_type": kind, **DIMS, **keys}))
    windows = []
    for layer in range(LAYERS):
        done = subprocess.run([COMPILE, path, f"--layer={layer}", "--functions=decode", "--quiet",
                               "--emit=mla", "-o", "-"], text=True, capture_output=True)
        if done.returncode:
            # A list that asks for windows of types that have none is an error on purpose.
            assert re.search("needs a window|such models have no window", done.stderr), done.stderr
            return None
        attention = next(line for line in done.stdout.splitlines() if "grouped_attention" in line)
        window = re.search(r"window (\d+)", attention)
        windows.append(int(window.group(1)) if window else 0)
    return windows


class WindowsTest(unittest.TestCase):
    def test_E7_layers_slide_as_those_of_transformers(self):
        for kind in TYPES:
            for keys in KEYS:
                with self.subTest(f"{kind} {keys}"), tempfile.TemporaryDirectory() as folder:
                    got, expected = windows_of_compiler(kind, keys, folder), windows_of_model(kind, keys)
                    # It refuses any model of some types without a window, also one that has none.
                    is_listed = kind == "llama" and SLIDES in keys.get("layer_types", ())
                    allowed = [None] if is_listed else [expected] if expected else \
                        [None, [0] * LAYERS]
                    self.assertIn(got, allowed)


if __name__ == "__main__":
    unittest.main()
