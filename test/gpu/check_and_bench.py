#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks and times the GPU back end; prints one table.

Two commands, so that packages can be built on a machine without a GPU:

    check_and_bench.py build DIR [--build-dir build]   # needs mla-compile
    check_and_bench.py run DIR [--out FILE.json]        # needs a GPU, only DIR

`run` compares every golden layer (both forms, online and folded weights, four
page sizes; prefill whole, chunked and ragged, decode token by token, over a
cache whose unused rows are NaN) and DeepSeek-V3 at its real dimensions with
float64, then times V3 steps next to the machine's measured ceilings.
"""

import concurrent.futures
import json
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "bench"))

import program  # noqa: E402
GOLDEN = ("deepseek_v3_tiny", "deepseek_v3", "deepseek_v2_lite", "minicpm3")
PAGES = (1, 16, 64, 128)
# Form and absorption of every page size; the half modes once per model.
MODES = (("expanded", "online"), ("absorbed", "online"), ("absorbed", "offline"))
HALF_MODES = (("absorbed", "half-query"), ("absorbed", "half-output"))
# (heads' tensor-parallel degree, batch, context, new tokens) of the timed steps.
TIMED = ((1, 1, 4096, 1), (1, 16, 4096, 1), (1, 64, 4096, 1), (1, 128, 4096, 1),
         (8, 1, 4096, 1), (8, 64, 4096, 1), (1, 1, 0, 2048), (1, 1, 0, 8192),
         (1, 1, 16384, 2048))
# (tensor-parallel degree, options) of the comparisons with float64, which takes seconds for each
# row that sees 131072 tokens: one decodes, one takes the absorbed form, one the expanded form.
CHECKED = (*((1, "--samples=8", "--batch=1", f"--context={context}")
             for context in (1, 63, 64, 65, 4096)),
           (1, "--samples=8", "--batch=64", "--context=1,63,64,65,4096"),
           (1, "--samples=8", "--batch=64", "--context=4096", "--query-len=1"),
           (1, "--samples=8", "--context=0,63,64,65", "--query-len=130"),
           (8, "--samples=2", "--batch=2", "--context=131072,131071", "--query-len=1"),
           (8, "--samples=2", "--batch=1", "--context=131072", "--query-len=100"),
           (8, "--samples=2", "--batch=2", "--context=131072,100001", "--query-len=300"))
# The same model of f16, with projections that read a checkpoint's codes, or activations of codes, too,
# and with a rope part of 128 columns (A49, A16, A47, C23): options of the compiler and, of each,
# comparisons.
FP8 = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}
OTHERS = {"v3-tp8-f16": ("deepseek_v3.json", "--dtype=f16"),
          "v3-tp8-codes": ("deepseek_v3_fp8.json", "--keep-codes=weights"),
          "v3-tp8-both": ("deepseek_v3_fp8.json", "--keep-codes=both"),
          "v3-tp8-rope128": ("deepseek_v3_rope128.json",)}
OTHERS_CHECKED = (("--samples=8", "--batch=64", "--context=1,63,64,65,4096", "--query-len=1"),
                  ("--samples=8", "--batch=5", "--context=63,64,65,300,4096", "--query-len=1"),
                  ("--samples=8", "--context=0,63,64,65", "--query-len=130"))
# The float64 reference of the largest steps takes 200 s where six checks share 16 cores.
STEP_LIMIT_S = 400


def golden_packages():
    for model in GOLDEN:
        modes = [(page, mode) for page in PAGES for mode in MODES]
        modes += [(64, mode) for mode in HALF_MODES]
        for page, (form, absorb) in modes:
            yield f"{model}-p{page}-{form}-{absorb}", model, page, form, absorb


def build(directory, build_dir):
    directory.mkdir(parents=True, exist_ok=True)
    compiler = build_dir / "bin/mla-compile"
    shutil.copy(build_dir / "bin/mla-run", directory / "mla-run")
    jobs = []
    for name, model, page, form, absorb in golden_packages():
        source = ROOT / f"test/data/golden/{model}_attention.safetensors"
        shutil.copy(source, directory / source.name)
        jobs.append((name, [source, f"--page-size={page}", f"--form={form}", f"--absorb={absorb}"]))
    for tp in (1, 8):
        jobs.append((f"v3-tp{tp}", [ROOT / "test/data/configs/deepseek_v3.json", f"--tp={tp}"]))
    config = json.loads((ROOT / "test/data/configs/deepseek_v3.json").read_text())
    (directory / "deepseek_v3.json").write_text(json.dumps(config))
    (directory / "deepseek_v3_fp8.json").write_text(
        json.dumps(config | {"quantization_config": FP8}))
    (directory / "deepseek_v3_rope128.json").write_text(
        json.dumps(config | {"qk_rope_head_dim": 128}))
    for name, (source, *options) in OTHERS.items():
        jobs.append((name, [directory / source, "--tp=8", *options]))
    for index, (name, options) in enumerate(jobs):
        print(f"[{index + 1}/{len(jobs)}] {name}", flush=True)
        subprocess.run([compiler, *options, "--target=sm_90a", "--quiet", "-o",
                        directory / f"{name}.mlac"], check=True)


def call(directory, *words):
    """JSON of one mla-run call, or its error."""
    begin = time.monotonic()
    try:
        done = subprocess.run([directory / "mla-run", *words, "--device=cuda", "--json"],
                              capture_output=True, text=True, timeout=STEP_LIMIT_S, cwd=directory)
        result = json.loads(done.stdout) if done.stdout.strip() else {"error": done.stderr.strip()}
    except subprocess.TimeoutExpired:
        result = {"error": f"no answer within {STEP_LIMIT_S} s"}
    result["words"], result["seconds"] = list(map(str, words)), time.monotonic() - begin
    return result


def report_check(name, result):
    if "error" in result:
        print(f"{name:48} ERROR {result['error'][:300]}", flush=True)
        return False
    worst = max(result["steps"], key=lambda step: step["wmape"] if step["wmape"] is not None
                else float("inf"))
    number = lambda key: float("nan") if worst[key] is None else worst[key]
    print(f"{name:48} {len(result['steps']):3} steps {sum(s['rows'] for s in result['steps']):6} rows"
          f"  cosdiff {number('cosine_difference'):9.2e}  WMAPE {number('wmape'):9.2e}"
          f"  {'ok' if result['passed'] else 'FAIL: ' + worst['what']}", flush=True)
    return result["passed"]


def report_bench(name, result):
    if "error" in result:
        print(f"{name:48} ERROR {result['error'][:300]}", flush=True)
        return
    seconds = result["median_us"] * 1e-6
    gbps, tflops = result["bytes"] / seconds / 1e9, result["flops"] / seconds / 1e12
    text = f"{name:48} {result['median_us']:10.1f} us {gbps:8.0f} GB/s {tflops:7.1f} TFLOP/s"
    for rate, key in ((gbps * 1e9, "read_ceiling_bytes_per_s"),
                      (tflops * 1e12, "matrix_ceiling_flops_per_s")):
        if result.get(key):
            text += f"  {100 * rate / result[key]:5.1f} %"
    print(text, flush=True)
    for launch in result.get("profile", []):
        print(f"    {launch['microseconds']:9.1f} us  {launch['label'][:36]:36} {launch['kernel']}",
              flush=True)


def run_checks(directory, cases, jobs):
    """Name, then words of `mla-run check`, of each case; results in their order."""
    passed, results = True, []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        done = pool.map(lambda case: call(directory, "check", *case[1:]), cases)
        for (name, *_), result in zip(cases, done):
            passed &= report_check(name, result)
            results.append(result)
    return passed, results


def run(directory, out, only, checks_only, jobs):
    wanted = lambda name: not only or any(word in name for word in only)
    golden = [(name, f"{name}.mlac", f"--weights={model}_attention.safetensors")
              for name, model, *_ in golden_packages()]
    real = [(f"v3-tp{tp} " + " ".join(options), f"v3-tp{tp}.mlac", "--random", *options)
            for tp, *options in CHECKED]
    real += [(f"{name} " + " ".join(options), f"{name}.mlac", "--random", *options)
             for name in OTHERS for options in OTHERS_CHECKED]
    print("== golden layers: float64 outputs of real modules")
    passed, results = run_checks(directory, [case for case in golden if wanted(case[0])], jobs)
    print("== DeepSeek-V3, real dimensions, random weights, sampled rows against float64")
    also_passed, more = run_checks(directory, [case for case in real if wanted(case[0])], jobs)
    passed, results = passed and also_passed, results + more
    print("== DeepSeek-V3 layer steps: time, bytes and FLOPs of the step over it, % of the ceilings")
    for tp, batch, context, new in TIMED:
        name = f"v3-tp{tp} batch {batch} context {context} new {new}"
        if not checks_only and (wanted(name) or "bench" in only):
            result = call(directory, "bench", f"v3-tp{tp}.mlac", f"--batch={batch}",
                          f"--context={context}", f"--query-len={new}", "--profile")
            report_bench(name, result)
            results.append(result)
    if out:
        out.write_text(json.dumps(results, indent=1))
    if not results:
        print(f"FAIL: --only names nothing: {' '.join(only)}")
        return 1
    print("PASS: every check is within the allowed errors" if passed else "FAIL: see above")
    return 0 if passed else 1


def main():
    parser = program.make_parser(__doc__)
    parser.add_argument("--out", type=pathlib.Path, help="raw results as JSON")
    parser.add_argument("--checks-only", action="store_true", help="leave the timed steps out")
    parser.add_argument("--jobs", type=int, default=1, help="checks at a time")
    parser.add_argument("--only", nargs="*", default=[], help="substrings of names to run")
    options = parser.parse_args()
    if options.command == "build":
        build(options.directory, options.build_dir)
        return 0
    return run(options.directory.resolve(), options.out, options.only, options.checks_only,
               options.jobs)


if __name__ == "__main__":
    sys.exit(main())
