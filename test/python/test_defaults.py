# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Keys that a configuration lacks, and what attention makes of those that it has: what mla-compile
reads off a file, against the configuration and the layer that transformers makes of it.

Skips itself where torch or transformers are not installed. MLAC_COMPILE names the compiler."""

import copy
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
    from transformers import CONFIG_MAPPING, MODEL_MAPPING
except ImportError as error:
    raise unittest.SkipTest(f"not installed: {error.name}")

COMPILE = os.environ["MLAC_COMPILE"]
GROUPED = ["gemma2", "gpt_oss", "llama", "ministral", "ministral3", "mistral", "mixtral", "qwen2",
           "qwen3", "qwen3_moe"]
LATENT = ["axk1", "deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite", "glm_moe_dsa",
          "longcat_flash", "minicpm3", "mistral4", "sarvam_mla", "youtu"]
# Heads of 96, so that no type's default is what would be derived.
DIMS = {"hidden_size": 6144, "num_attention_heads": 64}
LAYERS = 4
# Of DeepSeek-V4 a layer with entries, which is the kind that is stretched.
LAYER = {kind: 0 for kind in GROUPED} | {"deepseek_v4": 3}
# Keys that only other parts of a model read are left alone.
OTHERS = re.compile("model_type|.*(expert|moe|topk_|group|token|vocab|mlp|hidden_act|loss|hc_|"
                    "dropout|init|return_|output_|problem|label|chunk|tie_|use_cache|zero|route|ffn|"
                    "scale_|swiglu|scoring|intermediate).*")
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}


def known_types(types):
    return [kind for kind in types if kind in CONFIG_MAPPING]


def full(kind, keys):
    """The configuration that transformers makes of these keys; None where it refuses them."""
    keys = {key: value for key, value in copy.deepcopy(keys).items() if key != "model_type"}
    try:
        config = CONFIG_MAPPING[kind](**keys).to_dict()
    except Exception as error:  # its validation has several classes of its own
        if "validation" not in str(error).lower() and not isinstance(error, (KeyError, TypeError)):
            raise
        return None
    for key in ("transformers_version", "architectures", "dtype"):
        config.pop(key, None)
    return config


def base(kind):
    layers = "num_layers" if kind == "longcat_flash" else "num_hidden_layers"
    # Ministral's class derives no width of heads.
    width = {"head_dim": 96} if kind == "ministral" else {}
    return full(kind, {**DIMS, **width, layers: LAYERS})


def variants(keys):
    """Files that lack each key, that have null for it, and that say rope in each of its ways."""
    for key in keys:
        if not OTHERS.fullmatch(key):
            rest = {other: value for other, value in keys.items() if other != key}
            yield f"without {key}", rest
            yield f"{key} = null", {**rest, key: None}
    plain = {key: value for key, value in keys.items()
             if key not in ("rope_parameters", "rope_theta")}
    yield "old theta", {**plain, "rope_theta": 12345.0}
    yield "old yarn", {**plain, "rope_scaling": YARN}
    yield "old yarn and theta", {**plain, "rope_scaling": YARN, "rope_theta": 12345.0}
    yield "both places", {**keys, "rope_scaling": YARN}
    yield "empty parameters", {**keys, "rope_parameters": {}}
    yield "empty scaling", {**keys, "rope_scaling": {}}


class Compiler:
    """Modules of configurations, each made once."""

    def __init__(self, folder):
        self.path, self.made = pathlib.Path(folder) / "config.json", {}

    def module(self, kind, keys):
        """None where it refuses them."""
        text = json.dumps(keys, sort_keys=True)
        if text not in self.made:
            self.path.write_text(text)
            layer = [f"--layer={LAYER[kind]}"] if kind in LAYER else []
            done = subprocess.run([COMPILE, self.path, *layer, "--functions=decode", "--quiet",
                                   "--norm-eps-from-config", "--emit=mla", "-o", "-"],
                                  text=True, capture_output=True)
            assert done.returncode == 0 or "error: " in done.stderr, done.stderr
            self.made[text] = done.stdout if done.returncode == 0 else None
            self.warnings = done.stderr
        return self.made[text]


class DefaultsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.compiler = Compiler(folder.name)

    def test_E7_keys_that_a_file_lacks_are_what_transformers_makes_of_them(self):
        for kind in known_types([*GROUPED, *LATENT, "deepseek_v4"]):
            keys = base(kind)
            self.assertIsNotNone(self.compiler.module(kind, keys), kind)
            compared = 0
            for name, lacking in variants(keys):
                with self.subTest(f"{kind} {name}"):
                    got, expected = self.compiler.module(kind, lacking), full(kind, lacking)
                    # An error is no wrong number; and what transformers refuses has none.
                    if got is not None and expected is not None:
                        self.assertEqual(got, self.compiler.module(kind, expected))
                        compared += 1
            self.assertGreater(compared, 10, kind)

    def test_E7_other_factors_of_transformers_are_warned_of(self):
        from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

        one, all_dim = {"mscale": 0.7}, {"mscale_all_dim": 0.8}
        for kind in known_types(["deepseek_v3", "llama"]):
            for scales in ({}, one, {"mscale": 1.0}, all_dim, {**one, **all_dim},
                           {"mscale": 0.0, **all_dim}, {**all_dim, "attention_factor": 1.5}):
                with self.subTest(kind, scales=scales):
                    keys = {key: value for key, value in base(kind).items()
                            if key != "rope_parameters"}
                    keys["rope_scaling"] = {**YARN, **scales}
                    config = CONFIG_MAPPING[kind](**copy.deepcopy(keys))
                    expected = ROPE_INIT_FUNCTIONS["yarn"](config, "cpu")[1]
                    module = self.compiler.module(kind, keys)
                    got = float((re.findall("multiplier = ([\\d.e+-]+)", module) or [1])[0])
                    factors = re.findall(r"= ([\d.]+) here, and times g\(factor, 1.0\) = ([\d.]+) in "
                                         "transformers", self.compiler.warnings)
                    self.assertEqual(factors, [] if abs(got - expected) < 1e-6 else
                                     [(f"{got:.6f}", f"{expected:.6f}")])
                    self.assertEqual(len(factors), scales in (one, all_dim) or
                                     0.0 in scales.values())

    def test_E7_projections_have_the_shapes_and_biases_of_transformers(self):
        for kind in known_types([*GROUPED, *LATENT]):
            for bias in ({}, {"attention_bias": True}):
                with self.subTest(f"{kind} {bias}"):
                    keys = {**base(kind), **bias}
                    module = self.compiler.module(kind, keys)
                    weights = {name: tuple(map(int, shape.split("x")[:-1])) for shape, name in
                               re.findall(r'tensor<([\dx]+x)b?f\d+> {mla.weight = "([^"]+)"', module)}
                    self.assertEqual(weights, self.layer_of(kind, keys)[1])

    def test_E7_scores_have_the_scale_and_cap_of_transformers(self):
        for kind in known_types([*GROUPED, *LATENT]):
            with self.subTest(kind):
                keys = base(kind)
                module = self.compiler.module(kind, keys)
                attention, _ = self.layer_of(kind, keys)
                scales = {float(scale) for scale in
                          re.findall(r"_attention .* scale ([\d.e+-]+)", module)}
                caps = {float(cap) for cap in re.findall(r"softcap ([\d.e+-]+)", module)}
                self.assertEqual(len(scales), 1)
                self.assertAlmostEqual(scales.pop(), attention.scaling, delta=1e-12)
                cap = getattr(attention, "attn_logit_softcapping", None)
                self.assertEqual(caps, {cap} if cap else set())

    def layer_of(self, kind, keys):
        """The attention of the model's first layer, and the shapes of its weights."""
        config = CONFIG_MAPPING[kind](**{key: value for key, value in keys.items()
                                         if key != "model_type"})
        # Later versions count both attentions of LongCat's layers by the other key.
        setattr(config, "num_layers" if kind == "longcat_flash" else "num_hidden_layers", 1)
        with torch.device("meta"):
            attention = MODEL_MAPPING[type(config)](config).layers[0].self_attn
        if isinstance(attention, torch.nn.ModuleList):
            attention = attention[0]
        return attention, {name: tuple(weight.shape)
                           for name, weight in attention.named_parameters()}


if __name__ == "__main__":
    unittest.main()
