#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Engines of vLLM 0.26 on a Hopper GPU, attention by mlac beside vLLM's own back ends.

    vllm_engine.py [run] [--speed]         # needs a GPU, vLLM, transformers, mlac and mla-compile
    vllm_engine.py build DIR [--build-dir build]    # packages for machines without mla-compile,
    vllm_engine.py run --prepared DIR               # which are used there
    vllm_engine.py run --tensor-parallel 2          # of two GPUs

Random models of DeepSeek-V3's and V3.2's kind are written and served. Given tokens are decoded,
in full CUDA graphs, and the logits before each compared with eager attention of transformers in
f32: mlac may be as far from them as FLASHMLA behind FlashAttention-3 in the same engine, and a
fifth more; over an fp8 cache, as far as that and as eager attention in f32 over such a cache are
together. There are batches that graphs pad, prompts of 20,000 tokens in pieces, both model runners
of vLLM, and sparse attention, whose indexer is torch's. Capturing must write nothing to the cache.
`--speed` times decodes and prompts of DeepSeek-V3's layers, engine beside engine, `--depth` steps of
all 61 layers, whose part beside the attention is small.
Engines of several GPUs divide the heads, and with context parallelism the cache, too; one of them
is started by vLLM's own executor, whose tokens are compared, the others by this program.
Exit code: 0 all within the bounds, 1 not, 2 something is not installed.
"""

import argparse
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from vllm_common import (CHUNK, GRAPHS, HERE, OURS, ROOT, SMALL, THEIRS, WHOLE, commands_of,
                         environment_of_layers, layer_file, result_of)
from vllm_speed import HEADS, large, measure, measure_depth

sys.path += [str(ROOT / "python"), str(ROOT / "test/python")]

LENGTHS, LONG, STEPS = (5, 64, 150, 333, 40), 20000, 24
PIECE = 1000  # of a prompt, in the reference, and where rounding a cache makes it matter
WORSE = 1.2  # than vLLM's own back ends, at most
SPARSE = {"index_n_heads": 16, "index_head_dim": 128, "index_topk": 128}


def shapes():
    """The packages that engines here ask for."""
    from mlac.vllm import Shape

    common = dict(rank=512, rope=64, block_size=64, scale=192**-0.5, dtype="bf16")
    yield Shape(heads=16, **common)  # of ranks of context parallelism
    common["query_width"] = 192
    prefills = dict(nope=128, value=128)
    for heads in (*HEADS, *(heads // 2 for heads in HEADS)):  # of one GPU, and of each of two
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
    import transformers
    from mlac.vllm import layer_package, package_for

    for shape in shapes():
        package_for(shape, "sm_90a")
    for fields, codes in ((SMALL, "none"), *((large(heads), codes) for heads in HEADS
                                             for codes in ("none", "both"))):
        layer_package(transformers.DeepseekV3Config(**fields).to_dict(),
                      fields["num_attention_heads"], "sm_90a", dtype="bf16", block_size=64,
                      codes=codes, output=options.directory / layer_file(fields, codes != "none"))
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


def run_job(options, name, job, environment):
    """What a job printed, its first rank if it has several, or None; all they said is kept."""
    begin = time.monotonic()
    ranks = [subprocess.Popen(words, env=given, text=True, errors="replace",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
             for words, given in commands_of(options, job, environment)]
    with ThreadPoolExecutor(len(ranks)) as pool:
        said = list(pool.map(lambda rank: wait(rank, options.limit), ranks))
    if options.logs:
        for rank, text in enumerate(said):
            (options.logs / f"{name}{f'-{rank}' if rank else ''}.log").write_text(text)
    results = [result_of(text) for text in said]
    result = None if None in results else results[0]
    print(f"[{time.monotonic() - begin:5.1f} s] engine {name}: {result or 'FAILED'}", flush=True)
    if result is None:
        print("\n".join(said[results.index(None)].splitlines()[-25:]), flush=True)
    return result


def wait(process, limit):
    try:
        return process.communicate(timeout=limit)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0] + f"\nended after {limit} s"


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
                                         None if options.tensor_parallel > 1 else
                                         make_rounding_cache)
    rounds = [{"prompts": prompts, "tokens": tokens[:-1]},
              {"prompts": [long], "tokens": tokens[-1:]}]
    references = [logits[:-1], logits[-1:]]
    rounding = []
    if rounded:
        rounding = compare([rounded[:-1], rounded[-1:]], references)
        print(f"rounding a cache to e4m3, in f32: {', '.join(map('{:.4f}'.format, rounding))}",
              flush=True)
    dense = lambda name, *words, **more: job_of(folder / "dense", words[0], folder / name, rounds,
                                                *words[1:], **more)
    sparse_logits = []
    if options.tensor_parallel > 1:
        jobs = parallel_jobs(dense, options.tensor_parallel)
    else:
        jobs = dense_jobs(dense, environment_of_layers(options, SMALL))
        sparse_tokens, sparse_logits, _ = make_model(folder / "sparse", "V32", {**SMALL, **SPARSE},
                                                     prompts)
        jobs |= sparse_jobs(folder, [{**rounds[0], "tokens": sparse_tokens}])
    torch.cuda.empty_cache()
    if options.only:
        needed = {*options.only, *map(peer_of, options.only)}
        jobs = {name: job for name, job in jobs.items() if name in needed}
    with ThreadPoolExecutor(options.jobs) as pool:
        results = dict(zip(jobs, pool.map(lambda name: run_job(options, name, *jobs[name]), jobs)))
    errors = {name: compare(torch.load(folder / name),
                            [sparse_logits] if "sparse" in name else references)
              for name, result in results.items() if result and "tokens" not in result}
    is_right = all(results.values())
    for name in errors:
        peer = errors.get(peer_of(name))
        if peer and name == "mlac-fp8":  # independent errors
            peer = [math.hypot(*both) for both in zip(peer, rounding)]
        is_right &= judge(name, results[name], errors[name], peer)
    for name, result in results.items():
        if result and "tokens" in result:
            far = max((got.double() - wanted).abs().max().item() for got, wanted in
                      zip(torch.load(folder / "vllm")[0], logits)) if "vllm" in errors else 0
            is_right &= judge_tokens(name, result, folder / "dense", prompts, 2 * WORSE * far)
    return is_right


def dense_jobs(dense, layers):
    """`layers`: the environment of an engine of whole layers."""
    fp8 = {"kv_cache_dtype": "fp8", "max_num_batched_tokens": PIECE}
    compiled = {"compilation_config": {"cudagraph_capture_sizes": [1, 2, 4, 8]}}
    return {"mlac": dense("mlac", OURS), "vllm": dense("vllm", THEIRS),
            "mlac-decodes": dense("mlac-decodes", ("CUSTOM", "FLASH_ATTN")),
            "mlac-layers": dense("mlac-layers", OURS, layers, **WHOLE),
            "mlac-layers-compiled": dense("mlac-layers-compiled", OURS, layers, **WHOLE,
                                          **compiled),
            "mlac-fp8": dense("mlac-fp8", OURS, **fp8),
            "mlac-runner-2": dense("mlac-runner-2", OURS, {"VLLM_USE_V2_MODEL_RUNNER": "1"}),
            "mlac-compiled": dense("mlac-compiled", OURS, **compiled)}


def sparse_jobs(folder, rounds):
    jobs = {}
    for name, dtype in (("sparse", "auto"), ("sparse-fp8", "fp8_ds_mla")):
        for whose, backend in (("mlac", "CUSTOM"), ("vllm", "FLASHMLA_SPARSE")):
            output = folder / f"{whose}-{name}"
            job, environment = job_of(folder / "sparse", (backend, None), output, rounds,
                                      max_model_len=1024, kv_cache_dtype=dtype, enforce_eager=True,
                                      compilation_config={})
            jobs[output.name] = {**job, "indexer": str(ROOT / "test/python")}, environment
    return jobs


def parallel_jobs(dense, ranks):
    """Engines of several GPUs: heads divided, with context parallelism also the cache; and one
    whose processes vLLM's own executor starts."""
    context = {"decode_context_parallel_size": ranks}
    jobs = {"mlac": dense("mlac", OURS), "vllm": dense("vllm", THEIRS),
            "mlac-context": dense("mlac-context", ("CUSTOM", "FLASH_ATTN"), **context),
            "vllm-context": dense("vllm-context", THEIRS, **context),
            "mlac-executor": dense("mlac-executor", OURS)}
    jobs["mlac-executor"][0]["kind"] = "tokens"
    for job, _ in jobs.values():
        job["parallel"] = ranks
    return jobs


def peer_of(name):
    """vLLM's own engine that an engine is compared with."""
    return name.replace("mlac", "vllm") if "sparse" in name or "context" in name else "vllm"


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


def judge_tokens(name, result, model, prompts, bound):
    """Whether an engine's greedy tokens are what logits may choose that are `bound` / 2 off."""
    import torch
    import transformers

    eager = transformers.AutoModelForCausalLM.from_pretrained(
        model, attn_implementation="eager", dtype=torch.float32).eval().to("cuda")
    logits = [follow(eager, prompt, tokens) for prompt, tokens in zip(prompts, result["tokens"])]
    worst = max((each.max(-1).values - each.gather(-1, torch.tensor(tokens)[:, None])[:, 0]).max()
                .item() for each, tokens in zip(logits, result["tokens"]))
    is_right = worst <= bound and all("mlac.vllm" in builder for builder in result["builders"])
    print(f"  {name:16} tokens' logits at most {worst:.4f} below the best ones, may be {bound:.4f}; "
          f"{', '.join(result['builders'])}: {'ok' if is_right else 'WRONG'}", flush=True)
    return is_right


def run(options):
    import importlib.util

    missing = [name for name in ("torch", "vllm", "transformers")
               if importlib.util.find_spec(name) is None]
    if missing:
        print(f"not installed: {', '.join(missing)}; nothing was compared", file=sys.stderr)
        return 2
    import torch

    if torch.cuda.device_count() < options.tensor_parallel:
        print(f"expected {options.tensor_parallel} GPUs, got {torch.cuda.device_count()}; nothing "
              "was compared", file=sys.stderr)
        return 2
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
        if options.depth:
            measure_depth(options, pathlib.Path(scratch))
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
        place.add_argument("--depth", action="store_true",
                           help="time steps of all of a model's layers, too (100 GB)")
        place.add_argument("--heads", type=int, nargs="*", default=HEADS,
                           help="of the models that are timed")
        place.add_argument("--no-check", action="store_true", help="time alone")
        place.add_argument("--codes", action="store_true",
                           help="time checkpoints whose projections are e4m3 codes")
        place.add_argument("--only", nargs="*", default=[], help="these engines")
        place.add_argument("--tensor-parallel", type=int, default=1, metavar="N",
                           help="engines of N GPUs, with context parallelism, too")
        place.add_argument("--jobs", type=int, default=4, help="engines at a time (3 GB each)")
        place.add_argument("--limit", type=float, default=300, help="seconds for an engine")
        place.add_argument("--prepared", type=pathlib.Path, help="packages that build has made")
        place.add_argument("--logs", type=pathlib.Path, help="where what engines say goes")
    options = parser.parse_args()
    return build(options) if options.command == "build" else run(options)


if __name__ == "__main__":
    sys.exit(main())
