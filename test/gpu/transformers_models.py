#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models of transformers on a GPU with mlac's kernels in every attention layer.

    transformers_models.py build DIR [--build-dir build]   # packages; needs mla-compile, no GPU
    transformers_models.py run DIR [--speed]               # needs a GPU, torch and transformers
    transformers_models.py build|run DIR --device cpu      # the same checks of the CPU's kernels

Random models of a few layers with the attention of published ones. In bf16 no two implementations
give the same tokens for long, so logits are compared with those of eager attention in f32 over
the same weights and tokens: prompts, decodes token by token, batches padded on the left. The
patched model may be as far from them as eager attention in 16 bits is, and a fifth more. What
generate() chooses, by greedy search and with beams, is scored by the f32 model. `--speed` times
steps of two larger models beside transformers' own attention, printed whatever they are.
Exit code: 0 all within the bounds, 1 not.
"""

import json
import os
import pathlib
import sys
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path += [str(ROOT / "python"), str(ROOT / "test/python"), str(ROOT / "bench")]

import program  # noqa: E402

SHRUNK = {"vocab_size": 512, "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 3,
          "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
DENSE = {"first_k_dense_replace": 3, "n_routed_experts": 4, "num_experts_per_tok": 2,
         "moe_intermediate_size": 64, "n_group": 1, "topk_group": 1}
# All experts for every token: rounding decides nothing.
LONGCAT = {"num_layers": 2, "ffn_hidden_size": 512, "expert_ffn_hidden_size": 64, "head_dim": 64,
           "n_routed_experts": 2, "zero_expert_num": 2, "moe_topk": 4, "num_key_value_heads": 64}
# Of each model: the published configuration, and what is changed beside its size.
MODELS = {
    "deepseek_v2": ("deepseek_v2_lite", DENSE),
    "deepseek_v3": ("deepseek_v3", DENSE),
    "deepseek_v32": ("deepseek_v32", DENSE),
    "glm4_moe_lite": ("glm_4_7_flash", {**DENSE, "mlp_layer_types": ["dense"] * 3}),
    "longcat_flash": ("longcat_flash", LONGCAT),
    "minicpm3": ("minicpm3_4b", {"hidden_size": 640}),  # a multiple of its heads
}
HALF = ("deepseek_v3",)  # in f16, too
# Layers of real widths, all dense: how many, for how long they are timed.
SPEED = {"deepseek_v2_lite": 27, "deepseek_v3": 4}
FUNCTIONS = ("prefill", "decode", "step")
TARGETS = {"cuda": "sm_90a", "cpu": "cpu"}

BATCH, PROMPT, STEPS = 2, 150, 12
PADDINGS = (0, 60, 145)
NEW_TOKENS = 24
WORSE = 1.2  # than eager attention of the same type, at most
FARTHEST = 0.08  # of the norm of the logits, at most
# Of the f32 model's best, a chosen token's logit, in largest errors of eager attention.
REGRET = 2.5
BEAM_LOSS = 0.1  # log probability of a token, on the average


def config_of(name, changes, **sizes):
    fields = json.loads((ROOT / f"test/data/configs/{name}.json").read_text())
    fields.pop("architectures")
    fields.pop("torch_dtype", None)
    if (fields.get("rope_scaling") or {}).get("type") == "longrope":
        fields["rope_scaling"]["factor"] = 1.0  # which transformers asks for
    return {**fields, **sizes, **changes}


def small_configs():
    return {kind: config_of(name, changes, **SHRUNK) for kind, (name, changes) in MODELS.items()}


def large_config(name, layers):
    return config_of(name, {**DENSE, "first_k_dense_replace": layers}, vocab_size=4096,
                     num_hidden_layers=layers)


def packages():
    """What is compiled: name, configuration, type of activations."""
    for kind, config in small_configs().items():
        yield f"{kind}.bf16", config, "bf16"
        if kind in HALF:
            yield f"{kind}.f16", config, "f16"
    for name, layers in SPEED.items():
        yield f"speed.{name}", large_config(name, layers), "bf16"


def build(options):
    os.environ.setdefault("MLAC_RUNTIME_LIBRARY", str(options.build_dir / "lib/libmla_runtime.so"))
    import mlac

    options.directory.mkdir(parents=True, exist_ok=True)
    for name, config, dtype in packages():
        sparse = {"indexer": "none"} if "index_topk" in config else {}
        with warnings.catch_warnings():  # sparse attention as dense: equal up to index_topk
            warnings.simplefilter("ignore")
            mlac.compile(config, TARGETS[options.device], dtype=dtype, functions=FUNCTIONS, **sparse,
                         compiler=str(options.build_dir / "bin/mla-compile"),
                         output=options.directory / f"{name}.mlac")
    return 0


# ---------------------------------------------------------------------------
# On the GPU
# ---------------------------------------------------------------------------


def forced_logits(model, ids, mask=None):
    """Logits of a prompt and then of STEPS tokens, each in a pass of its own."""
    import torch

    cache, parts = None, []
    begin = ids.shape[1] - STEPS
    for first, last in ((0, begin), *((at, at + 1) for at in range(begin, ids.shape[1]))):
        more = {}
        if mask is not None:
            positions = (mask.cumsum(1) - 1).clamp(min=0)
            more = {"attention_mask": mask[:, :last], "position_ids": positions[:, first:last]}
        with torch.no_grad():
            done = model(ids[:, first:last], past_key_values=cache, use_cache=True, **more)
        cache = done.past_key_values
        parts.append(done.logits.double())
    return torch.cat(parts, 1)


class Case:
    """One model: its f32 twin, the inputs, and what eager attention gives."""

    def __init__(self, kind, config, device):
        import torch
        from tiny_models import randomise
        from transformers import AutoConfig, AutoModelForCausalLM

        self.reference = AutoModelForCausalLM.from_config(
            AutoConfig.for_model(**config), attn_implementation="eager", dtype=torch.float32).eval()
        randomise(self.reference)
        self.reference.to(device)
        for weight in self.reference.parameters():  # what both types hold
            weight.data.copy_(weight.data.bfloat16().float())
        self.kind, self.device, self.torch = kind, device, torch
        generator = torch.Generator().manual_seed(11)
        self.ids = torch.randint(3, config["vocab_size"], (BATCH, PROMPT + STEPS),
                                 generator=generator).to(device)
        self.padded = torch.randint(3, config["vocab_size"], (len(PADDINGS), PROMPT + STEPS),
                                    generator=generator).to(device)
        self.mask = torch.ones_like(self.padded)
        for row, padding in enumerate(PADDINGS):
            self.padded[row, :padding], self.mask[row, :padding] = 0, 0

    def all_logits(self, model):
        """Of prompts, of decodes, and of both in a padded batch, where there are tokens."""
        plain = forced_logits(model, self.ids)
        padded = forced_logits(model, self.padded, self.mask)
        return {"prompt": plain[:, :PROMPT].flatten(0, 1), "decode": plain[:, PROMPT:].flatten(0, 1),
                "padded": padded[self.mask.bool()]}

    def tokens(self, model, **how):
        prompt, mask = self.padded[:, :PROMPT], self.mask[:, :PROMPT]
        done = model.generate(prompt, attention_mask=mask, max_new_tokens=NEW_TOKENS,
                              do_sample=False, eos_token_id=None, pad_token_id=0, **how)
        return done[:, PROMPT:]

    def scores(self, tokens):
        """The f32 model's: by how much each token's logit is below the best, and its log
        probability."""
        ids = self.torch.cat([self.padded[:, :PROMPT], tokens], 1)
        mask = self.torch.cat([self.mask[:, :PROMPT], self.torch.ones_like(tokens)], 1)
        with self.torch.no_grad():
            logits = self.reference(ids, attention_mask=mask,
                                    position_ids=(mask.cumsum(1) - 1).clamp(min=0)).logits.double()
        logits = logits[:, PROMPT - 1:-1]
        chosen = logits.gather(2, tokens.unsqueeze(2)).squeeze(2)
        return logits.amax(2) - chosen, chosen - logits.logsumexp(2)


def check_model(case, directory, dtype_name):
    import torch
    import mlac.transformers
    from tiny_models import narrowed

    torch_dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[dtype_name]
    wanted = case.all_logits(case.reference)
    model = narrowed(case.reference, torch_dtype)
    eager = case.all_logits(model)
    beams = [case.tokens(each, num_beams=4) for each in (case.reference, model)]
    begin = time.perf_counter()
    patched = mlac.transformers.patch(model, directory / f"{case.kind}.{dtype_name}.mlac",
                                      max_seq_len=512, max_num_requests=16)
    took = time.perf_counter() - begin
    with patched:
        ours = case.all_logits(model)
        greedy, ours_beams = case.tokens(model), case.tokens(model, num_beams=4)
        leaked = patched.engine.cache_stats["num_sequences"]
    is_right, lines = True, []
    relative = lambda got, part: ((got[part] - wanted[part]).norm() / wanted[part].norm()).item()
    for part in wanted:
        error, allowed = relative(ours, part), min(WORSE * relative(eager, part), FARTHEST)
        is_right &= error <= allowed  # NaN is not
        lines.append(f"{part} {error:.4f} ({relative(eager, part):.4f})")
    largest = max((eager[part] - wanted[part]).abs().max().item() for part in wanted)
    regret = case.scores(greedy)[0].max().item()
    is_right &= regret <= REGRET * largest
    best = min(case.scores(tokens)[1].mean().item() for tokens in beams)
    score = case.scores(ours_beams)[1].mean().item()
    is_right &= score >= best - BEAM_LOSS and leaked == 0
    print(f"  {case.kind:14} {dtype_name:4} errors of ours (of eager's): {', '.join(lines)}; greedy "
          f"regret {regret:.3f} of {REGRET * largest:.3f}; beams {score:.3f} ({best:.3f}); patched "
          f"in {took:.1f} s: {'ok' if is_right else 'WRONG'}", flush=True)
    return is_right


def time_steps(model, batch, context, vocabulary, steps=32):
    """Tokens a second of a prompt of `context` tokens each, and of decodes behind it."""
    import torch

    ids = torch.randint(3, vocabulary, (batch, context), device="cuda")
    token = torch.full((batch, 1), 5, device="cuda")
    with torch.no_grad():
        cache = None
        for _ in range(2):  # the first pass allocates
            del cache
            torch.cuda.synchronize()
            begin = time.perf_counter()
            done = model(ids, use_cache=True, logits_to_keep=1)
            torch.cuda.synchronize()
            prompt = batch * context / (time.perf_counter() - begin)
            cache = done.past_key_values
            del done
        for step in range(4 + steps):
            if step == 4:
                torch.cuda.synchronize()
                begin = time.perf_counter()
            model(token, past_key_values=cache, use_cache=True)
        torch.cuda.synchronize()
    return prompt, batch * steps / (time.perf_counter() - begin)


def time_model(name, layers, directory):
    import torch
    import mlac.transformers
    from transformers import AutoConfig, AutoModelForCausalLM

    config = large_config(name, layers)
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(
            AutoConfig.for_model(**config), attn_implementation="eager",
            dtype=torch.bfloat16).eval()
    torch.manual_seed(0)
    for weight in model.parameters():
        if weight.dim() > 1:
            weight.data.normal_(0, weight.shape[-1] ** -0.5)
    rows, context = {}, 1024
    for turn in ("eager", "sdpa", "patched", "eager", "sdpa"):
        patched = None
        if turn == "patched":
            patched = mlac.transformers.patch(model, directory / f"speed.{name}.mlac",
                                              max_seq_len=context + 64, max_num_requests=16,
                                              max_num_tokens=8192)
        else:
            model.set_attn_implementation(turn)
        for batch in (1, 16):
            try:
                both = time_steps(model, batch, context, config["vocab_size"])
            except torch.OutOfMemoryError:
                both = (0.0, 0.0)
            old = rows.get((turn, batch), (0, 0))
            rows[turn, batch] = tuple(map(max, old, both))
        if patched:
            patched.unpatch()
        torch.cuda.empty_cache()
    for batch in (1, 16):
        for what, index in (("decode", 1), ("prompt", 0)):
            values = {turn: rows[turn, batch][index] for turn in ("eager", "sdpa", "patched")}
            best = max(values["eager"], values["sdpa"])
            print(f"  {name}, {layers} layers, batch {batch}, context {context}, {what}: " +
                  ", ".join(f"{turn} {value:.0f}" for turn, value in values.items()) +
                  f" tokens/s; patched over the better {values['patched'] / best:.2f}", flush=True)


def run(options):
    os.environ.setdefault("MLAC_RUNTIME_LIBRARY",
                          str((options.directory / "libmla_runtime.so").resolve()))
    try:
        import transformers
    except ImportError:
        print("transformers is not installed: nothing was compared", file=sys.stderr)
        return 1
    import torch

    where = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {where}", flush=True)
    torch.backends.cuda.matmul.allow_tf32 = False
    is_right = True
    for kind, config in small_configs().items():
        if options.only and kind not in options.only:
            continue
        case = Case(kind, config, options.device)
        for dtype in ("bf16", *(("f16",) if kind in HALF else ())):
            is_right &= check_model(case, options.directory, dtype)
        del case
    if options.speed:
        for name, layers in SPEED.items():
            time_model(name, layers, options.directory)
            torch.cuda.empty_cache()
    print("PASS" if is_right else "FAIL")
    return 0 if is_right else 1


def main():
    parser = program.make_parser(__doc__)
    parser.add_argument("--device", choices=TARGETS, default="cuda")
    parser.add_argument("--only", nargs="*", default=[], choices=MODELS, help="these models")
    parser.add_argument("--speed", action="store_true", help="time steps of larger models, too")
    options = parser.parse_args()
    return build(options) if options.command == "build" else run(options)


if __name__ == "__main__":
    sys.exit(main())
