#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Engines of vLLM 0.26 on a Hopper GPU, attention by mlac beside vLLM's own back ends.

    vllm_engine.py [run] [--speed]         # needs a GPU, vLLM, transformers, mlac and mla-compile
    vllm_engine.py build DIR [--build-dir build]    # packages for machines without mla-compile,
    vllm_engine.py run --prepared DIR               # which are used there

Random models of DeepSeek-V3's and V3.2's kind are written and served. Given tokens are decoded,
in full CUDA graphs, and the logits before each compared with eager attention of transformers in
f32: mlac may be as far from them as FLASHMLA behind FlashAttention-3 in the same engine, and a
fifth more; over an fp8 cache, as far as that and as eager attention in f32 over such a cache are
together. There are batches that graphs pad, prompts of 20,000 tokens in pieces, both model runners
of vLLM, and sparse attention, whose indexer is torch's. Capturing must write nothing to the cache.
`--speed` times decodes and prompts of DeepSeek-V3's layers, engine beside engine.
Exit code: 0 all within the bounds, 1 not, 2 something is not installed.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = ROOT / "test/gpu"
sys.path += [str(ROOT / "python"), str(ROOT / "test/python")]

LENGTHS, LONG, STEPS = (5, 64, 150, 333, 40), 20000, 24
CHUNK = 8192  # most tokens of a step
PIECE = 1000  # of a prompt, in the reference, and where rounding a cache makes it matter
WORSE = 1.2  # than vLLM's own back ends, at most
SMALL = {"vocab_size": 1024, "hidden_size": 512, "intermediate_size": 1024,
         "moe_intermediate_size": 256, "num_hidden_layers": 3, "num_attention_heads": 16,
         "num_key_value_heads": 16, "n_shared_experts": 1, "n_routed_experts": 4,
         "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 3,
         "q_lora_rank": 256, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
         "v_head_dim": 128, "max_position_embeddings": 32768, "bos_token_id": 0, "eos_token_id": 1,
         "tie_word_embeddings": False}
SPARSE = {"index_n_heads": 16, "index_head_dim": 128, "index_topk": 128}
# Layers of DeepSeek-V3 whose dense part is as wide as one of its experts.
LARGE = {**SMALL, "hidden_size": 7168, "intermediate_size": 2048, "q_lora_rank": 1536,
         "num_hidden_layers": 4, "first_k_dense_replace": 4, "max_position_embeddings": 65536}
LONGEST = 32768 + 64
HEADS, BATCHES, CONTEXT, TURNS = (128, 16), (1, 8, 64, 128), 4096, 2
PROMPTS = {"1 x 8192": [8192], "4 x 2048": [2048] * 4, "1 x 32768, in pieces": [32768]}
GRAPHS = {"compilation_config": {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY",
                                 "cudagraph_capture_sizes": [1, 2, 4, 8]}}
OURS, THEIRS = ("CUSTOM", "CUSTOM"), ("FLASHMLA", "FLASH_ATTN")


def shapes():
    """The packages that engines here ask for."""
    from mlac.vllm import Shape

    common = dict(rank=512, rope=64, block_size=64, scale=192**-0.5, dtype="bf16")
    prefills = dict(nope=128, value=128)
    for heads in HEADS:
        yield Shape(heads=heads, **common, **prefills)
    yield Shape(heads=16, **common)
    yield Shape(heads=16, cache="fp8", **common, **prefills)
    for cache in ("auto", "fp8_ds_mla"):
        yield Shape(heads=16, cache=cache, topk=SPARSE["index_topk"], **common)


def build(options):
    options.directory.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("MLAC_RUNTIME_LIBRARY", str(options.build_dir / "lib/libmla_runtime.so"))
    os.environ.update(MLAC_COMPILER=str(HERE / "prepared_compiler.py"),
                      MLAC_PREPARED=str(options.directory),
                      MLAC_REAL_COMPILE=str(options.build_dir / "bin/mla-compile"))
    from mlac.vllm import package_for

    for shape in shapes():
        package_for(shape, "sm_90a")
    return 0


# ---------------------------------------------------------------------------
# Models and what eager attention says
# ---------------------------------------------------------------------------


def follow(model, prompt, tokens=None, cache=None):
    """The logits before each of STEPS tokens behind a prompt: these, or the most likely ones."""
    import torch

    ids, kept = torch.tensor([prompt], device=model.device), []
    with torch.no_grad():
        for part in ids.split(PIECE, 1):  # scores of a long prompt would take too much
            done = model(part, past_key_values=cache, use_cache=True, logits_to_keep=1)
            cache = done.past_key_values
        for step in range(STEPS):
            kept.append(done.logits[0, -1])
            token = kept[-1].argmax() if tokens is None else ids.new_tensor(tokens[step])
            if step + 1 < STEPS:
                done = model(token.view(1, 1), past_key_values=cache, use_cache=True)
    return torch.stack(kept).double().cpu()


def make_model(folder, kind, fields, prompts, make_cache=None, device="cuda"):
    """Saves a random model in bf16; for each prompt STEPS tokens, its own in f32, and the logits
    before each; and those over caches that make_cache makes, if any."""
    import torch
    import transformers
    from tiny_models import narrowed, randomise

    config = getattr(transformers, f"Deepseek{kind}Config")(**fields)
    model = getattr(transformers, f"Deepseek{kind}ForCausalLM")._from_config(
        config, attn_implementation="eager", dtype=torch.float32).eval()
    randomise(model)
    for weight in model.parameters():
        weight.data.copy_(weight.data.bfloat16().float())
    narrowed(model, torch.bfloat16).save_pretrained(folder)
    model.to(device)
    logits = [follow(model, prompt) for prompt in prompts]
    tokens = [each.argmax(-1).tolist() for each in logits]
    others = [follow(model, prompt, given, make_cache())
              for prompt, given in zip(prompts, tokens)] if make_cache else []
    return tokens, logits, others


def make_prompt(length, seed, vocabulary=SMALL["vocab_size"]):
    import random

    generator = random.Random(seed)
    return [generator.randrange(2, vocabulary) for _ in range(length)]


# ---------------------------------------------------------------------------
# Engines
# ---------------------------------------------------------------------------


def job_of(model, backends, output, rounds, environment=(), **options):
    job = {"kind": "logits", "model": str(model), "backend": backends[0], "prefill": backends[1],
           "output": str(output), "rounds": rounds,
           "options": {"max_num_seqs": 8, "max_num_batched_tokens": CHUNK, "block_size": 64,
                       "max_model_len": LONG + 608, **GRAPHS, **options}}
    return job, dict(environment)


def environment_of(options, more=()):
    paths = [str(ROOT / "python"), str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    given = {**os.environ, **dict(more), "PYTHONPATH": os.pathsep.join(paths)}
    if options.prepared:
        given |= {"MLAC_COMPILER": str(HERE / "prepared_compiler.py"),
                  "MLAC_PREPARED": str(options.prepared.resolve()),
                  "MLAC_RUNTIME_LIBRARY": os.environ.get(
                      "MLAC_RUNTIME_LIBRARY", str(options.prepared.resolve() / "libmla_runtime.so"))}
    return given


def result_of(text):
    lines = [line for line in text.splitlines() if line.startswith("RESULT ")]
    return json.loads(lines[-1][len("RESULT "):]) if lines else None


def run_job(options, name, job, environment):
    """What a job printed, or None; everything it said is kept."""
    begin = time.monotonic()
    done = subprocess.run([sys.executable, "-B", str(HERE / "vllm_job.py"), json.dumps(job)],
                          env=environment_of(options, environment), text=True, errors="replace",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=options.limit)
    if options.logs:
        (options.logs / f"{name}.log").write_text(done.stdout)
    result = result_of(done.stdout)
    print(f"[{time.monotonic() - begin:5.1f} s] engine {name}: {result or 'FAILED'}", flush=True)
    if result is None:
        print("\n".join(done.stdout.splitlines()[-25:]), flush=True)
    return result


def compare(outputs, references):
    """Relative errors of the first logits of each request (prompts) and of the others (decodes),
    for each round of outputs [requests][steps, vocabulary]."""
    import torch

    found = []
    for got, wanted in zip(outputs, references):
        got, wanted = (torch.stack(list(each)).double() for each in (got, wanted))
        error = (got - wanted).norm(dim=-1) / wanted.norm(dim=-1)
        found += [error[:, 0].square().mean().sqrt().item(),
                  error[:, 1:].square().mean().sqrt().item()]
    return found


PARTS = ("prompts", "decodes", "long prompt", "decodes behind it")


def check(options, folder):
    import torch
    from test_vllm_engine import make_rounding_cache

    prompts = [make_prompt(length, index) for index, length in enumerate(LENGTHS)]
    long = make_prompt(LONG, 99)
    tokens, logits, rounded = make_model(folder / "dense", "V3", SMALL, [*prompts, long],
                                         make_rounding_cache)
    rounds = [{"prompts": prompts, "tokens": tokens[:-1]},
              {"prompts": [long], "tokens": tokens[-1:]}]
    references = [logits[:-1], logits[-1:]]
    rounding = compare([rounded[:-1], rounded[-1:]], references)
    print(f"rounding a cache to e4m3, in f32: {', '.join(map('{:.4f}'.format, rounding))}", flush=True)
    sparse_tokens, sparse_logits, _ = make_model(folder / "sparse", "V32", {**SMALL, **SPARSE},
                                                 prompts)
    torch.cuda.empty_cache()
    dense = lambda name, *words, **more: job_of(folder / "dense", words[0], folder / name, rounds,
                                                *words[1:], **more)
    fp8 = {"kv_cache_dtype": "fp8", "max_num_batched_tokens": PIECE}
    compiled = {"compilation_config": {"cudagraph_capture_sizes": [1, 2, 4, 8]}}
    jobs = {"mlac": dense("mlac", OURS), "vllm": dense("vllm", THEIRS),
            "mlac-decodes": dense("mlac-decodes", ("CUSTOM", "FLASH_ATTN")),
            "mlac-fp8": dense("mlac-fp8", OURS, **fp8),
            "mlac-runner-2": dense("mlac-runner-2", OURS, {"VLLM_USE_V2_MODEL_RUNNER": "1"}),
            "mlac-compiled": dense("mlac-compiled", OURS, **compiled)}
    for name, dtype in (("sparse", "auto"), ("sparse-fp8", "fp8_ds_mla")):
        for whose, backend in (("mlac", "CUSTOM"), ("vllm", "FLASHMLA_SPARSE")):
            output = folder / f"{whose}-{name}"
            job, environment = job_of(folder / "sparse", (backend, None), output,
                                      [{**rounds[0], "tokens": sparse_tokens}], max_model_len=1024,
                                      kv_cache_dtype=dtype, enforce_eager=True,
                                      compilation_config={})
            jobs[output.name] = {**job, "indexer": str(ROOT / "test/python")}, environment
    if options.only:
        needed = {*options.only, *map(peer_of, options.only)}
        jobs = {name: job for name, job in jobs.items() if name in needed}
    with ThreadPoolExecutor(options.jobs) as pool:
        results = dict(zip(jobs, pool.map(lambda name: run_job(options, name, *jobs[name]), jobs)))
    errors = {name: compare(torch.load(folder / name),
                            [sparse_logits] if "sparse" in name else references)
              for name, result in results.items() if result}
    is_right = all(results.values())
    for name in errors:
        peer = errors.get(peer_of(name))
        if peer and name == "mlac-fp8":  # independent errors
            peer = [math.hypot(*both) for both in zip(peer, rounding)]
        is_right &= judge(name, results[name], errors[name], peer)
    return is_right


def peer_of(name):
    """vLLM's own engine that an engine is compared with."""
    return name.replace("mlac", "vllm") if "sparse" in name else "vllm"


def judge(name, result, errors, peer):
    """Prints an engine's errors; whether they, its graphs and its cache are as they must be."""
    wrong = []
    if name.startswith("mlac"):
        wrong += [f"{what}: {error:.4f}, at most {WORSE * other:.4f}"
                  for what, error, other in zip(PARTS, errors, peer or [])
                  if not error <= WORSE * other]
        wrong += [] if peer else ["nothing to compare with"]
    if "sparse" not in name and (result["replays"] < STEPS - 1 or "FULL" not in result["mode"]):
        wrong.append("decodes ran in no full graph")
    if result["written"]:
        wrong.append(f"{result['written']} blocks of the cache were written by warming up")
    values = ", ".join(f"{what} {error:.4f}" for what, error in zip(PARTS, errors))
    print(f"  {name:16} {values}: {'; '.join(wrong) or 'ok'}", flush=True)
    return not wrong


# ---------------------------------------------------------------------------
# Speed
# ---------------------------------------------------------------------------


def speed_job(folder, heads, backends):
    """An engine of large layers, whose configuration is written to a folder."""
    config = {**LARGE, "num_attention_heads": heads, "num_key_value_heads": heads,
              "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3",
              "torch_dtype": "bfloat16"}
    place = folder / f"large-{heads}"
    place.mkdir(exist_ok=True)
    (place / "config.json").write_text(json.dumps(config))
    blocks = max(BATCHES) * (CONTEXT // 64 + 8) + 1200
    return {"kind": "speed", "model": str(place), "backend": backends[0], "prefill": backends[1],
            "options": {"max_num_seqs": max(BATCHES), "max_num_batched_tokens": CHUNK,
                        "block_size": 64, "max_model_len": LONGEST, "load_format": "dummy",
                        "kv_cache_memory_bytes": blocks * 64 * 576 * 2 * LARGE["num_hidden_layers"],
                        "compilation_config": {**GRAPHS["compilation_config"],
                                               "cudagraph_capture_sizes": [1, 2, 4, 8, 64, 128]}}}


class Server:
    """An engine that times what it is told to."""

    def __init__(self, options, folder, heads, backends):
        self.name = f"{'-'.join(backends)}-{heads}"
        job = speed_job(folder, heads, backends)
        self.log = open((options.logs or folder) / f"speed-{self.name}.log", "w")
        self.process = subprocess.Popen(
            [sys.executable, "-B", str(HERE / "vllm_job.py"), json.dumps(job)], text=True,
            env=environment_of(options), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.log)

    def read(self):
        for line in self.process.stdout:
            self.log.write(line)
            if line.startswith("RESULT "):
                return json.loads(line[len("RESULT "):])
        self.log.flush()
        raise RuntimeError(f"engine {self.name} ended: see {self.log.name}")

    def ask(self, **order):
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return self.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.log.close()


def measure(options, folder):
    raw = {}
    for heads in HEADS:
        begin = time.monotonic()
        servers = [Server(options, folder, heads, backends) for backends in (OURS, THEIRS)]
        raw[heads] = [{"server": server.name, **server.read(), "decodes": [], "prompts": []}
                      for server in servers]
        print(f"[{time.monotonic() - begin:5.1f} s] {heads} heads: both engines are up", flush=True)
        pairs = list(zip(servers, raw[heads]))
        for turn in range(TURNS + 1):  # the first one warms up
            for server, kept in pairs if turn % 2 else pairs[::-1]:
                context, steps = (256, 2) if turn == 0 else (CONTEXT, 24)
                kept["decodes"].append(server.ask(what="decodes", batches=BATCHES, context=context,
                                                  steps=steps, profile=turn == TURNS)["rows"])
                kept["prompts"].append({name: server.ask(what="prompts", lengths=lengths)["seconds"]
                                        for name, lengths in PROMPTS.items()})
        for server in servers:
            server.close()
        print_speed(heads, raw[heads])
        if options.logs:
            (options.logs / "speed.json").write_text(json.dumps(raw))


def print_speed(heads, results):
    print(f"| {heads} heads | mlac | {'/'.join(THEIRS)} | ratio |\n|---|---|---|---|")
    for index, batch in enumerate(sorted(BATCHES, reverse=True)):
        for what in ("graph", "step"):
            ours, theirs = (statistics.median(rows[index][what] for rows in kept["decodes"][1:])
                            for kept in results)
            print(f"| decode, batch {batch}, context {CONTEXT}, ms of the {what} | {ours:.3f} | "
                  f"{theirs:.3f} | {theirs / ours:.3f} |")
    for name, lengths in PROMPTS.items():
        ours, theirs = (min(seconds[name] for seconds in kept["prompts"][1:]) for kept in results)
        print(f"| prompts {name}, tokens/s | {sum(lengths) / ours:.0f} | {sum(lengths) / theirs:.0f} "
              f"| {theirs / ours:.3f} |", flush=True)


def run(options):
    import importlib.util

    missing = [name for name in ("torch", "vllm", "transformers")
               if importlib.util.find_spec(name) is None]
    if missing:
        print(f"not installed: {', '.join(missing)}; nothing was compared", file=sys.stderr)
        return 2
    import torch

    if not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9:
        print("expected a Hopper GPU; nothing was compared", file=sys.stderr)
        return 2
    if options.logs:
        options.logs.mkdir(parents=True, exist_ok=True)
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}", flush=True)
    is_right = True
    with tempfile.TemporaryDirectory() as scratch:
        if not options.no_check:
            is_right = check(options, pathlib.Path(scratch))
        torch.cuda.empty_cache()
        if options.speed:
            measure(options, pathlib.Path(scratch))
    print("PASS" if is_right else "FAIL")
    return 0 if is_right else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command")
    command = commands.add_parser("build")
    command.add_argument("directory", type=pathlib.Path)
    command.add_argument("--build-dir", type=pathlib.Path, default=ROOT / "build")
    for place in (parser, commands.add_parser("run")):
        place.add_argument("--speed", action="store_true", help="time engines, too")
        place.add_argument("--no-check", action="store_true", help="time alone")
        place.add_argument("--only", nargs="*", default=[], help="these engines")
        place.add_argument("--jobs", type=int, default=4, help="engines at a time (3 GB each)")
        place.add_argument("--limit", type=float, default=300, help="seconds for an engine")
        place.add_argument("--prepared", type=pathlib.Path, help="packages that build has made")
        place.add_argument("--logs", type=pathlib.Path, help="where what engines say goes")
    options = parser.parse_args()
    return build(options) if options.command == "build" else run(options)


if __name__ == "__main__":
    sys.exit(main())
