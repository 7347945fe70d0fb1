# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mlac.export: attention modules of transformers as they are, compiled from what torch.export
records of them, against eager.

Skips itself where torch or transformers are not installed. MLAC_COMPILE names the compiler."""

import json
import os
import pathlib
import tempfile
import unittest
import warnings

os.environ.setdefault("MLAC_COMPILER", os.environ["MLAC_COMPILE"])
try:
    import torch
    import transformers  # noqa: F401
except ImportError as error:
    raise unittest.SkipTest(f"not installed: {error.name}")

import mlac
from transformers import (
    DeepseekV2Config,
    DeepseekV3Config,
    Gemma2Config,
    GptOssConfig,
    LlamaConfig,
    MiniCPM3Config,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
)
from transformers.models.deepseek_v2 import modeling_deepseek_v2 as v2
from transformers.models.deepseek_v3 import modeling_deepseek_v3 as v3
from transformers.models.gemma2 import modeling_gemma2 as gemma2
from transformers.models.gpt_oss import modeling_gpt_oss as gpt_oss
from transformers.models.llama import modeling_llama as llama
from transformers.models.minicpm3 import modeling_minicpm3 as minicpm3
from transformers.models.mistral import modeling_mistral as mistral
from transformers.models.qwen2 import modeling_qwen2 as qwen2
from transformers.models.qwen3 import modeling_qwen3 as qwen3

TOKENS = 24
TOLERANCE = 1e-5  # f32 against f32, of a layer
DIMS = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4, "q_lora_rank": 48,
        "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
        "num_hidden_layers": 1, "max_position_embeddings": 512, "vocab_size": 32}
YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64,
        "rope_theta": 10000.0, "mscale": 1.0, "mscale_all_dim": 0.8, "beta_fast": 32,
        "beta_slow": 1}
# Without a name: what torch makes of the sizes of views (2.11 compares strides) must not narrow it.
OPEN = torch.export.Dim.AUTO
DYNAMIC = {"hidden_states": {1: OPEN}, "position_embeddings": ({1: OPEN},) * 2,
           "attention_mask": {2: OPEN, 3: OPEN}}


class Case:
    """A module of a model's, its arguments and what it gives."""

    def __init__(self, attention, rotary, config, implementation="eager", dtype=torch.float32,
                 window=0):
        torch.manual_seed(3)
        config._attn_implementation = implementation
        self.module = attention(config, 0).to(dtype).eval()
        for weight in self.module.parameters():
            torch.nn.init.normal_(weight, std=0.1 if weight.dim() == 1 else weight.shape[-1]**-0.5)
        hidden = torch.randn(1, TOKENS, config.hidden_size, dtype=dtype)
        tables = rotary(config)(hidden, torch.arange(TOKENS)[None])
        mask = torch.full((1, 1, TOKENS, TOKENS), float("-inf"), dtype=dtype)
        mask = mask.triu(1) + (mask.tril(-window) if window else 0)
        self.arguments = {"hidden_states": hidden, "position_embeddings": tables,
                          "attention_mask": mask}
        with torch.no_grad():
            self.output = self.module(**self.arguments)[0][0]


def deepseek_v3(implementation="eager", dtype=torch.float32, **changes):
    config = DeepseekV3Config(**{**DIMS, "rope_parameters": YARN, **changes})
    return Case(v3.DeepseekV3Attention, v3.DeepseekV3RotaryEmbedding, config, implementation, dtype)


def deepseek_v2(implementation="eager", **changes):
    config = DeepseekV2Config(**{**DIMS, **changes})
    return Case(v2.DeepseekV2Attention, v2.DeepseekV2RotaryEmbedding, config, implementation)


def minicpm(implementation="eager", **changes):
    config = MiniCPM3Config(**{**DIMS, **changes})
    return Case(minicpm3.MiniCPM3Attention, minicpm3.MiniCPM3RotaryEmbedding, config, implementation)


GROUPED = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
           "num_hidden_layers": 2, "max_position_embeddings": 512, "vocab_size": 32, "head_dim": 24}
WINDOW = 7
LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 64}


def grouped_llama(implementation="eager", **changes):
    config = LlamaConfig(**{**GROUPED, **changes})
    return Case(llama.LlamaAttention, llama.LlamaRotaryEmbedding, config, implementation)


def grouped_mistral():
    config = MistralConfig(**GROUPED, sliding_window=WINDOW)
    return Case(mistral.MistralAttention, mistral.MistralRotaryEmbedding, config, "sdpa",
                window=WINDOW)


def grouped_qwen2():
    return Case(qwen2.Qwen2Attention, qwen2.Qwen2RotaryEmbedding, Qwen2Config(**GROUPED), "sdpa")


def grouped_qwen3(implementation="eager"):
    config = Qwen3Config(**GROUPED)
    return Case(qwen3.Qwen3Attention, qwen3.Qwen3RotaryEmbedding, config, implementation)


def grouped_gemma2():
    config = Gemma2Config(**GROUPED, sliding_window=WINDOW, query_pre_attn_scalar=20,
                          attn_logit_softcapping=2.0)
    return Case(gemma2.Gemma2Attention, gemma2.Gemma2RotaryEmbedding, config, window=WINDOW)


def grouped_gpt_oss():
    config = GptOssConfig(**GROUPED, sliding_window=WINDOW)
    return Case(gpt_oss.GptOssAttention, gpt_oss.GptOssRotaryEmbedding, config, window=WINDOW)


class ExportTest(unittest.TestCase):
    """Each case: what is exported, and how."""

    CASES = {
        "DeepSeek-V3, YaRN": (deepseek_v3, {}),
        "DeepSeek-V3, SDPA": (lambda: deepseek_v3("sdpa"), {}),
        "DeepSeek-V3, any number of tokens": (deepseek_v3, {"dynamic_shapes": DYNAMIC}),
        "DeepSeek-V3, rope over halves": (lambda: deepseek_v3(rope_interleave=False), {}),
        "DeepSeek-V3, biases": (lambda: deepseek_v3(attention_bias=True), {}),
        "DeepSeek-V2, complex rope": (deepseek_v2, {}),
        "DeepSeek-V2, no query latent, SDPA": (lambda: deepseek_v2("sdpa", q_lora_rank=None), {}),
        "MiniCPM3": (minicpm, {}),
        "MiniCPM3, SDPA": (lambda: minicpm("sdpa"), {}),
        "Llama": (grouped_llama, {}),
        "Llama, any number of tokens": (lambda: grouped_llama("sdpa"), {"dynamic_shapes": DYNAMIC}),
        "Llama, rope of 3.1": (lambda: grouped_llama(rope_parameters=LLAMA3), {}),
        "Llama, one KV head, biases": (
            lambda: grouped_llama("sdpa", num_key_value_heads=1, attention_bias=True), {}),
        "Llama, a KV head for each": (lambda: grouped_llama("sdpa", num_key_value_heads=4), {}),
        "Mistral, window, SDPA": (grouped_mistral, {}),
        "Qwen2, biases, SDPA": (grouped_qwen2, {}),
        "Qwen3, norms of heads": (grouped_qwen3, {}),
        "Gemma2, window, softcap": (grouped_gemma2, {}),
        "gpt-oss, window, sinks": (grouped_gpt_oss, {}),
    }

    def run_layer(self, case, **options):
        """The module's output by mlac: the tokens as a prefill, the last two one by one."""
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's, about its own modules
            weights = pathlib.Path(folder) / "layer.safetensors"
            package = mlac.export(case.module, case.arguments, target="cpu", weights=weights,
                                  **options)
            engine = mlac.Engine(package, mlac.Device("cpu", 1), max_seq_len=64)
            engine.bind_safetensors(weights, prefix="self_attn.")
            engine.prepare()
        hidden = case.arguments["hidden_states"][0]
        sequence, plan = engine.sequence(), engine.plan()
        parts = []
        for part in hidden.split([TOKENS - 2, 1, 1]):
            plan.fill([sequence], [len(part)])
            parts.append(torch.as_tensor(plan.run(part.contiguous())).clone())
        return torch.cat(parts)

    def test_E7_modules_as_they_are(self):
        for name, (make, options) in self.CASES.items():
            with self.subTest(name):
                case = make()
                got = self.run_layer(case, **options)
                error = (got - case.output).norm() / case.output.norm()
                self.assertLess(error.item(), TOLERANCE)

    def test_E7_core_operators(self):
        for make in (deepseek_v3, lambda: deepseek_v3("sdpa"), minicpm,
                     lambda: grouped_qwen3("sdpa"), grouped_gemma2, grouped_gpt_oss):
            case = make()
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                program = torch.export.export(case.module, (), case.arguments, strict=False)
                program = program.run_decompositions()
            config, case.module = case.module.config, program
            error = (self.run_layer(case, config=config) - case.output).norm() / case.output.norm()
            self.assertLess(error.item(), TOLERANCE)

    def test_E7_layers_of_a_model(self):
        """The whole model's graph gives a package of its layers, which torch's model then calls."""
        torch.manual_seed(5)
        config = DeepseekV3Config(**{**DIMS, "num_hidden_layers": 2, "first_k_dense_replace": 2,
                                     "intermediate_size": 64, "rope_parameters": YARN})
        model = v3.DeepseekV3ForCausalLM(config).eval()
        mask = torch.full((1, 1, TOKENS, TOKENS), float("-inf")).triu(1)
        ids = torch.randint(0, DIMS["vocab_size"], (1, TOKENS))
        example = {"input_ids": ids, "attention_mask": mask, "use_cache": False}
        with torch.no_grad():
            expected = model(**example).logits
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            weights, regions = (pathlib.Path(folder) / name for name in ("w.safetensors", "r.json"))
            package = mlac.export(model, example, target="cpu", weights=weights, partial=regions)
            places = json.loads(regions.read_text())["regions"]
            engine = mlac.Engine(package, mlac.Device("cpu", 1), max_seq_len=64, num_layers=2)
            for layer in range(2):
                engine.bind_safetensors(weights, f"layers.{layer}.self_attn.", layer)
                engine.prepare(layer)
        self.assertEqual([place["module"] for place in places],
                         [f"model.layers.{layer}.self_attn.o_proj: Linear" for layer in range(2)])
        plan = engine.plan()
        plan.fill([engine.sequence()], [TOKENS])

        def attend(layer):
            def forward(hidden_states, **_):
                output = plan.run(hidden_states[0].contiguous(), layer=layer)
                return torch.as_tensor(output).clone()[None], None
            return forward

        for layer in range(2):
            model.model.layers[layer].self_attn.forward = attend(layer)
        with torch.no_grad():
            error = (model(**example).logits - expected).norm() / expected.norm()
        self.assertLess(error.item(), TOLERANCE)

    def test_E7_dtype_of_the_parameters(self):
        case = deepseek_v3(dtype=torch.bfloat16)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            package = mlac.export(case.module, case.arguments, target="cpu", functions=["decode"])
        self.assertIn("--dtype=bf16", package.info["options"])

    def test_E7_refusals(self):
        case = grouped_llama()
        with self.assertRaisesRegex(mlac.CompileError, "model_type = \"bert\""):
            mlac.export(case.module, case.arguments,
                        config={**case.module.config.to_dict(), "model_type": "bert"})
        with self.assertRaisesRegex(mlac.CompileError, "is not multi-head latent attention"):
            mlac.export(case.module, case.arguments, config=deepseek_v3().module.config)
        with self.assertRaisesRegex(mlac.CompileError, "is not attention by groups of heads"):
            mlac.export(deepseek_v3().module, deepseek_v3().arguments, config=case.module.config)
        case = deepseek_v3()
        other = {**case.module.config.to_dict(), "rms_norm_eps": 1e-6, "num_attention_heads": 2}
        with self.assertRaisesRegex(mlac.CompileError, "num_attention_heads = 4, the .* 2"):
            mlac.export(case.module, case.arguments, config=other)
        with self.assertRaisesRegex(mlac.InvalidArgument, "config: the module has none"):
            mlac.export(torch.nn.Linear(4, 4), (torch.zeros(1, 4),))
        for config, message in (("/nowhere/config.json", "/nowhere/config.json': No such file"),
                                (__file__ + "/config.json", "config.json': Not a directory"),
                                (os.path.dirname(__file__), "python/config.json': No such file")):
            with self.assertRaisesRegex(mlac.NotFound, f"config: cannot read '.*{message}"):
                mlac.export(case.module, case.arguments, config=config)
        with self.assertRaisesRegex(mlac.InvalidArgument, "config: expected a path, got an empty"):
            mlac.export(case.module, case.arguments, config="")
        with self.assertRaisesRegex(mlac.InvalidArgument, "module: expected .*, got function"):
            mlac.export(grouped_llama)
        # It was computed in bf16.
        with self.assertRaisesRegex(mlac.InvalidArgument, "module: weights of float64, expected "
                                    "bfloat16, float16 or float32"):
            mlac.export(torch.nn.Linear(4, 4).double(), (torch.zeros(1, 4).double(),))

    def test_E7_rope_tables_of_the_example(self):
        """Tables that are inputs are compared with the configuration's, which the package has."""
        other_theta = {"rope_type": "default", "rope_theta": 50000.0}
        yarn = {**YARN, "mscale_all_dim": 0.0}  # llama's scale of scores knows no mscale
        for make, fields, wrong in (
                (deepseek_v3, {**YARN, "rope_theta": 50000.0},
                 "inputs 'position_embeddings_0' and 'position_embeddings_1' .* column 1 turns by "
                 r"0\.05625, expected 0\.00835925"),
                (deepseek_v2, other_theta, r"input 'position_embeddings' .* turns by 0\.1, expected "
                 r"0\.066874, of the frequency 0\.066874"),
                (grouped_llama, other_theta, "turns by"),
                (grouped_llama, yarn, r"root of cos² \+ sin² of column 0 is 1, expected 1\.2")):
            case = make()
            config = {**case.module.config.to_dict(), "rope_parameters": fields}
            options = {"config": config, "functions": ["decode"]}
            with self.subTest(make.__name__), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with self.assertRaisesRegex(mlac.InvalidArgument, wrong):
                    mlac.export(case.module, case.arguments, **options)
                mlac.export(case.module, case.arguments, **options, check_tables=False)

    def test_E7_rope_tables_of_any_position(self):
        case = grouped_llama()
        rotary, hidden = llama.LlamaRotaryEmbedding(case.module.config), case.arguments["hidden_states"]

        def export(positions):
            tables = rotary(hidden[:, :len(positions)], torch.tensor(positions)[None])
            mask = case.arguments["attention_mask"][..., :len(positions), :len(positions)]
            arguments = {"hidden_states": hidden[:, :len(positions)], "position_embeddings": tables,
                         "attention_mask": mask}
            mlac.export(case.module, arguments, functions=["decode"], check_masks=False)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            export(list(range(400, 400 + TOKENS)))
            for positions in ([0, *range(TOKENS - 1)], list(reversed(range(TOKENS)))):
                with self.assertRaisesRegex(mlac.InvalidArgument, "token 0 to token 1"):
                    export(positions)
        with self.assertWarnsRegex(UserWarning, "of one token in the example"):
            export([3])

    def test_E7_module_stays_as_it_was(self):
        case = deepseek_v3()
        modes = [True, False, True]
        for part, mode in zip(case.module.modules(), modes):
            part.training = mode
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "config.json").write_text(case.module.config.to_json_string())
            mlac.export(case.module, case.arguments, config=folder, functions=["decode"])
        self.assertEqual([part.training for part in case.module.modules()][:3], modes)
        with self.assertRaises(mlac.CompileError) as caught:
            mlac.export(case.module, case.arguments, page_size=0)
        self.assertNotIn(tempfile.gettempdir(), str(caught.exception))


if __name__ == "__main__":
    unittest.main()
