# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A real vLLM engine on the CPU whose decodes, or decodes and prefills, are mlac's: tokens equal to transformers' eager
attention in f32. Skipped where vLLM or transformers are not installed; vllm_cpu stands for what
vLLM's wheel cannot do without a GPU."""

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

COMPILE = os.environ.get("MLAC_COMPILE", "")
HERE = Path(__file__).resolve().parent
TOKENS = 12
ENTRY_POINTS = """[vllm.general_plugins]
mlac = mlac.vllm:register
vllm_cpu = vllm_cpu:register
[vllm.platform_plugins]
vllm_cpu = vllm_cpu:platform_plugin
"""
# Rows of 320 columns: vLLM takes these and 576.
CONFIG = dict(
    vocab_size=256, hidden_size=64, intermediate_size=128, moe_intermediate_size=32,
    num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4, n_shared_experts=1,
    n_routed_experts=4, kv_lora_rank=256, q_lora_rank=32, qk_rope_head_dim=64, v_head_dim=32,
    qk_nope_head_dim=32, n_group=1, topk_group=1, num_experts_per_tok=2, first_k_dense_replace=2,
    max_position_embeddings=512, bos_token_id=0, eos_token_id=1, tie_word_embeddings=False)


def make_prompt(length, first):
    return [(7 * i * first + 3 * i * i + first) % 250 + 2 for i in range(length)]


def free_port():
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


# Whether vLLM cuts a traced graph at a layer, with its operator among the places and without it.
CUTS = """
import torch
from types import SimpleNamespace
from torch.fx.experimental.proxy_tensor import make_fx
from vllm.compilation.partition_rules import should_split
from mlac.vllm.layer import OPERATOR, cut_at_layers

def model(hidden):
    output = torch.zeros_like(hidden)
    torch.ops.mlac_vllm.layer(hidden, output, "layer")
    return output

graph = make_fx(model, tracing_mode="fake")(torch.zeros(2, 4)).graph
config = SimpleNamespace(splitting_ops=["vllm::unified_mla_attention_with_output"])
cut_at_layers(config)
cut_at_layers(config)
for places in (config.splitting_ops, config.splitting_ops[:1]):
    print([any(should_split(node, places) for node in graph.nodes)])
print(config.splitting_ops.count(OPERATOR))
whole = SimpleNamespace(splitting_ops=[])
cut_at_layers(whole)
print(len(whole.splitting_ops))
"""

PROMPTS = [make_prompt(length, index + 1) for index, length in enumerate((5, 33, 64, 17))]


def make_rounding_cache():
    """A cache of transformers that keeps rows as e4m3."""
    import torch
    from transformers import DynamicCache

    def rounded(rows):
        return rows.to(torch.float8_e4m3fn).to(rows.dtype)

    class RoundingCache(DynamicCache):
        def update(self, latents, ropes, layer_idx, *args, **kwargs):
            kept = super().update(rounded(latents), rounded(ropes), layer_idx, *args, **kwargs)
            new = latents.shape[-2]
            if new == 1:
                return kept
            return tuple(torch.cat([old[..., :-new, :], rows], -2)
                         for old, rows in zip(kept, (latents, ropes)))

    return RoundingCache()


BLOCK = 128  # rows and columns of codes with one scale


def to_codes(weight):
    """A matrix as e4m3 codes, and a scale for each block, the last ones of fewer rows and columns."""
    import torch

    scales = torch.stack([torch.stack([block.abs().max() / 448 for block in rows.split(BLOCK, 1)])
                          for rows in weight.split(BLOCK)])
    return (weight / spread(scales, weight)).to(torch.float8_e4m3fn), scales


def spread(scales, weight):
    rows, columns = weight.shape
    return scales.repeat_interleave(BLOCK, 0)[:rows].repeat_interleave(BLOCK, 1)[:, :columns]


def quantise(module, arguments):
    """What a projection reads as codes with a scale for 128 columns of a token, in their place."""
    import torch

    groups = arguments[0].unflatten(-1, (-1, BLOCK))
    scales = groups.abs().amax(-1, keepdim=True).clamp(min=448e-12) / 448
    return ((groups / scales).to(torch.float8_e4m3fn).float() * scales).flatten(-2)


def save_codes_of_both(model, folder):
    """The same, with activations that are codes where mlac keeps those of a weight."""
    save_codes(model, folder)
    for name, module in model.named_modules():
        if "self_attn" in name and name.endswith(("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "o_proj")):
            module.register_forward_pre_hook(quantise)


def save_codes(model, folder):
    """Saves a model whose projections around attention are codes, which it computes with from now on."""
    import safetensors.torch
    import torch

    state = {}
    for name, weight in model.state_dict().items():
        state[name] = weight.contiguous()
        if "self_attn" in name and weight.dim() == 2:
            codes, scales = to_codes(weight)
            state |= {name: codes, f"{name}_scale_inv": scales}
            with torch.no_grad():
                model.get_parameter(name).copy_(codes.float() * spread(scales, codes))
    model.save_pretrained(folder)
    safetensors.torch.save_file(state, Path(folder) / "model.safetensors", {"format": "pt"})
    parts = [f"model.layers.{layer}.mlp.{part}_proj" for layer in range(CONFIG["num_hidden_layers"])
             for part in ("gate", "up", "down")]
    path = Path(folder) / "config.json"
    quantised = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
                 "weight_block_size": [BLOCK, BLOCK], "modules_to_not_convert": ["lm_head", *parts]}
    path.write_text(json.dumps({**json.loads(path.read_text()), "quantization_config": quantised}))


def make_model(folder, make_cache=lambda: None, kind="DeepseekV3", save=None, **fields):
    """Saves a model whose tokens depend on everything; its greedy tokens after each prompt."""
    import torch
    import transformers

    torch.manual_seed(3)
    make_config = getattr(transformers, f"{kind}Config")
    config = make_config(**{**CONFIG, **fields}, attn_implementation="eager")
    model = getattr(transformers, f"{kind}ForCausalLM")(config).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, (3 if "embed" in name else 1.2) / parameter.shape[-1] ** 0.5)
    save(model, folder) if save else model.save_pretrained(folder)
    wanted = []
    for prompt in PROMPTS:
        ids = torch.tensor([prompt])
        done = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS,
                              past_key_values=make_cache(), do_sample=False, eos_token_id=None, pad_token_id=0)
        wanted.append(done[0, len(prompt):].tolist())
    return wanted


@unittest.skipUnless(os.path.exists(COMPILE), "MLAC_COMPILE is not there")
@unittest.skipUnless(importlib.util.find_spec("vllm"), "vLLM is not installed")
@unittest.skipUnless(importlib.util.find_spec("transformers"), "transformers is not installed")
class EngineTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = os.path.join(cls.folder.name, "model")
        cls.wanted = make_model(cls.model)
        info = Path(cls.folder.name) / "site" / "mlac_test-0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mlac-test\nVersion: 0\n")
        (info / "entry_points.txt").write_text(ENTRY_POINTS)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def start(self, rounds, options, prefill, model=None, ranks=1, **more):
        job = {"model": model or self.model, "tokens": TOKENS, "rounds": rounds,
               "options": {"max_model_len": 256, "max_num_seqs": 4, "block_size": 16,
                           "gpu_memory_utilization": 0.1, "kv_cache_memory_bytes": 1 << 26,
                           "enable_prefix_caching": False, **options}}
        paths = [str(info) for info in (Path(self.folder.name) / "site", HERE)]
        environment = {**os.environ, "MLAC_COMPILER": COMPILE, "VLLM_CPU_PREFILL": prefill,
                       "PYTHONPATH": os.pathsep.join([*paths, os.environ["PYTHONPATH"]]), **more}
        if ranks > 1:  # as torchrun starts them
            job["options"] |= {"tensor_parallel_size": ranks,
                               "distributed_executor_backend": "external_launcher"}
            environment |= {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
                            "MASTER_PORT": str(free_port())}
        started = [subprocess.Popen(
            [sys.executable, "-m", "vllm_cpu.generate", json.dumps(job)],
            env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)} if ranks > 1
            else environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for rank in range(ranks)]
        with ThreadPoolExecutor(ranks) as pool:
            said = list(pool.map(lambda process: process.communicate(timeout=600), started))
        return subprocess.CompletedProcess([], started[0].returncode, *said[0])

    def generate(self, rounds, prefill="torch", model=None, ranks=1, environment=(), **options):
        done = self.start(rounds, options, prefill, model, ranks, **dict(environment))
        lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        self.assertTrue(lines, done.stdout[-2000:] + done.stderr[-4000:])
        result = json.loads(lines[0][len("RESULT "):])
        is_whole = prefill == "layers"
        runs = result["run_layer" if is_whole else "run"]
        self.assertGreater(len(runs), TOKENS, "mlac's kernels did not run")
        self.assertEqual(bool(result["run_prefill"]), prefill == "mlac")
        self.assertEqual(bool(result["run"]), not is_whole)
        return result["tokens"]

    def test_batch(self):
        self.assertEqual(self.generate([PROMPTS]), [self.wanted])

    def test_prompts_in_chunks(self):
        # Decodes and pieces of prompts share steps.
        self.assertEqual(self.generate([PROMPTS], max_num_batched_tokens=24,
                                       enable_chunked_prefill=True), [self.wanted])

    def test_prefix_caching(self):
        # The second round finds its prompts' blocks in the cache.
        self.assertEqual(self.generate([PROMPTS, PROMPTS], enable_prefix_caching=True),
                         [self.wanted, self.wanted])

    def test_preemption(self):
        # 9 blocks, one of them vLLM's own, for requests that need 12: some are thrown out and
        # computed again.
        self.assertEqual(self.generate([PROMPTS], max_model_len=128, num_gpu_blocks_override=9),
                         [self.wanted])

    def test_fp8_cache(self):
        # The reference rounds what it caches: prompts see their own rows as they are, everything
        # else sees codes.
        wanted = make_model(self.model + "-fp8", make_cache=make_rounding_cache)
        self.assertNotEqual(wanted, self.wanted, "rounding decides no token")
        self.assertEqual(self.generate([PROMPTS], kv_cache_dtype="fp8"), [wanted])

    def test_prefills(self):
        # In one piece, and in chunks beside decodes, of prompts whose blocks are cached.
        self.assertEqual(self.generate([PROMPTS], "mlac"), [self.wanted])
        self.assertEqual(self.generate([PROMPTS, PROMPTS], "mlac", max_num_batched_tokens=24,
                                       enable_chunked_prefill=True, enable_prefix_caching=True),
                         [self.wanted, self.wanted])

    def test_prefills_with_preemption(self):
        self.assertEqual(self.generate([PROMPTS], "mlac", max_model_len=128,
                                       num_gpu_blocks_override=9), [self.wanted])

    def test_prefills_over_codes(self):
        wanted = make_model(self.model + "-fp8", make_cache=make_rounding_cache)
        self.assertEqual(self.generate([PROMPTS], "mlac", kv_cache_dtype="fp8",
                                       max_num_batched_tokens=128), [wanted])

    def test_whole_layers(self):
        # In one piece, and in chunks beside decodes, of prompts whose blocks are cached.
        whole = {"additional_config": {"mlac_layers": "whole"}}
        self.assertEqual(self.generate([PROMPTS], "layers", **whole), [self.wanted])
        self.assertEqual(self.generate([PROMPTS, PROMPTS], "layers", max_num_batched_tokens=24,
                                       enable_chunked_prefill=True, enable_prefix_caching=True,
                                       **whole), [self.wanted, self.wanted])

    def test_whole_layers_with_preemption(self):
        self.assertEqual(self.generate([PROMPTS], "layers", max_model_len=128,
                                       num_gpu_blocks_override=9,
                                       additional_config={"mlac_layers": "whole"}), [self.wanted])

    def test_whole_layers_without_query_rank(self):
        model = self.model + "-v2"
        yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64,
                "beta_fast": 32, "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.707,
                "rope_theta": 10000.0}
        wanted = make_model(model, kind="DeepseekV2", q_lora_rank=None, rope_parameters=yarn)
        self.assertEqual(self.generate([PROMPTS], "layers", model=model,
                                       additional_config={"mlac_layers": "whole"}), [wanted])

    def test_whole_layers_of_codes(self):
        # kv_a_proj_with_mqa has 320 rows: its last block of scales is of 64.
        # Without an option activations are codes, too, as they are for vLLM's own products.
        model = self.model + "-codes"
        fields = {"hidden_size": 128, "q_lora_rank": 128, "qk_nope_head_dim": 64}
        plain = make_model(model, save=save_codes, **fields)
        both = make_model(model + "-both", save=save_codes_of_both, **fields)
        self.assertNotEqual(plain, both, "codes of activations decide no token")
        for given, kept, wanted in (({}, "both", both), ({"mlac_codes": "weights"}, "weights", plain),
                                    ({"mlac_codes": "none"}, "none", plain)):
            with self.subTest(kept):
                self.assertEqual(
                    self.generate([PROMPTS], "layers", model=model, environment={"VLLM_CPU_CODES": "1"},
                                  additional_config={"mlac_layers": "whole", **given}), [wanted])

    def test_whole_layers_in_a_compiled_model(self):
        # Each is an operator of torch's; what is beside them is traced once.
        traced = {"enforce_eager": False,
                  "compilation_config": {"custom_ops": ["none"], "mode": 2, "backend": "eager"}}
        self.assertEqual(self.generate([PROMPTS], "layers", **traced,
                                       additional_config={"mlac_layers": "whole"}), [self.wanted])

    def test_compiled_models_are_cut_at_layers(self):
        done = subprocess.run([sys.executable, "-c", CUTS], text=True, capture_output=True,
                              env={**os.environ, "VLLM_LOGGING_LEVEL": "ERROR"})
        self.assertEqual(done.stdout.split(), ["[True]", "[False]", "1", "0"], done.stderr[-2000:])

    def test_whole_layers_of_kimi_k2_and_glm_4_lite(self):
        whole = {"additional_config": {"mlac_layers": "whole"}}
        glm = self.model + "-glm"
        wanted = make_model(glm, kind="Glm4MoeLite", mlp_layer_types=["dense"] * 2)
        self.assertEqual(self.generate([PROMPTS], "layers", model=glm, **whole), [wanted])
        # Kimi K2 is a DeepSeek-V3 by another name, which transformers has not.
        kimi = Path(self.model + "-kimi")
        shutil.copytree(self.model, kimi)
        config = json.loads((kimi / "config.json").read_text())
        (kimi / "config.json").write_text(json.dumps({**config, "model_type": "kimi_k2"}))
        self.assertEqual(self.generate([PROMPTS], "layers", model=str(kimi), **whole),
                         [self.wanted])

    def test_two_ranks(self):
        # Each has half of the heads; whole layers are parts of a sum.
        for prefill, options in (("mlac", {}),
                                 ("layers", {"additional_config": {"mlac_layers": "whole"}})):
            self.assertEqual(self.generate([PROMPTS], prefill, ranks=2, **options), [self.wanted])

    def test_sparse(self):
        # Tokens of prompts and decodes see 20 keys of up to 76. The indexer is torch's.
        model = self.model + "-sparse"
        # Many heads: where no head likes a key, the scores of several are 0, and any may be taken.
        fields = {"index_n_heads": 16, "index_head_dim": 128, "index_topk": 20}
        wanted = make_model(model, kind="DeepseekV32", **fields)
        dense = make_model(model + "-dense", kind="DeepseekV32", **{**fields, "index_topk": 512})
        self.assertNotEqual(wanted, dense, "the selection decides no token")
        for options in ({}, {"max_num_batched_tokens": 24, "enable_chunked_prefill": True}):
            self.assertEqual(self.generate([PROMPTS], model=model, block_size=64, **options),
                             [wanted])

    def test_whole_layers_that_are_not_served_are_refused_by_name(self):
        for options, reason in (
                ({"additional_config": {"mlac_layers": "all"}},
                 "mlac_layers: expected attention or whole, got 'all'"),
                ({"additional_config": {"mlac_layers": "whole", "mlac_codes": "e4m3"}},
                 "mlac_codes: expected both or weights or none, got 'e4m3'"),
                ({"additional_config": {"mlac_layers": "whole"}, "kv_cache_dtype": "fp8"},
                 "mlac.vllm: whole layers: kv_cache_dtype: expected auto or bfloat16, got fp8")):
            done = self.start([PROMPTS], options, "layers")
            self.assertNotIn("RESULT", done.stdout)
            self.assertIn(reason, done.stdout + done.stderr)

    def test_a_package_of_codes_for_a_model_without_is_refused_by_name(self):
        import transformers
        from mlac.vllm import layer_package

        fields = {"hidden_size": 128, "q_lora_rank": 128, "qk_nope_head_dim": 64}
        model, package = self.model + "-plain", self.model + "-codes.mlac"
        make_model(model, **fields)
        config = transformers.DeepseekV3Config(**{**CONFIG, **fields}).to_dict()
        layer_package(config, 4, "cpu", dtype="f32", block_size=16, codes="both", output=package)
        done = self.start([PROMPTS], {"additional_config": {"mlac_layers": "whole"}}, "layers", model,
                          MLAC_VLLM_PACKAGE=package)
        self.assertNotIn("RESULT", done.stdout)
        self.assertIn("the package has codes in blocks of 128, the model's weight is none",
                      done.stdout + done.stderr)

    def test_what_is_not_served_is_refused_by_name(self):
        done = self.start([PROMPTS], {"kv_cache_dtype": "fp8_e5m2"}, "torch")
        self.assertNotIn("RESULT", done.stdout)
        self.assertIn("is not valid for this configuration. Reason: ['kv_cache_dtype not supported",
                      done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
