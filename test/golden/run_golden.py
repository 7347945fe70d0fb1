#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the golden layers in many ways and checks each package on the CPU.

A golden layer holds inputs and float64 outputs of a real module. `mla-run check`
runs it as prefill in one step, in steps over cached context (A24 A25 A33 A44), in ragged
batches, as decode token by token, and with decodes in front of prefills (A36 A45), with
few and many splits and context chunks, over a cache whose unused rows are NaN and block
tables whose unused entries are absurd; every output row must be within the allowed errors.

Which requirement a layer or a mode covers stands beside it below. The default
selection holds every pair of model, mode (form and absorption), page size and
element type; `--full` runs every combination.
"""

import argparse
import concurrent.futures
import dataclasses
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# A18 A19 (all: rotation at absolute positions, YaRN and its softmax scale), C03
MODELS = {
    "deepseek_v3": "A04 A05, ranks 512/64",
    "deepseek_v3_tiny": "two sequences at once",
    "deepseek_v2_lite": "A04: no q_lora, A19: mscale 0.707",
    "minicpm3": "C02: 40 heads, C03: ranks 256/32",
}
# Form and absorption.
MODES = {
    ("expanded", "online"): "A01 A31 A43",
    ("absorbed", "online"): "A02 A08 A09 C05 C08 C10",
    ("absorbed", "offline"): "A06 A07 A08 C06",
    ("absorbed", "half-query"): "A06",
    ("absorbed", "half-output"): "A07",
    ("auto", "online"): "A03 C09: prefill expanded, decode absorbed",
    ("auto", "offline"): "A10: folded weights beside the raw ones",
}
PAGES = (1, 16, 64, 128)  # C01
DTYPES = ("f32", "bf16")
# Third setting beside mla-run's own two (default and least chunks, 1 and 132
# processors): chunk tokens as pages of each of the at most 7 requests of a check
# plus some, processors that plans split for, and splits fixed when compiling.
# A25 A27 C10
SETTINGS = ((2, 5, 2, 0), (3, 0, 7, 0), (5, 1, 20, 0), (1, 3, 64, 3))
MAX_REQUESTS = 7
CALL_LIMIT_S = 300
NAME_WIDTH = 52


@dataclasses.dataclass(frozen=True)
class Package:
    model: str
    form: str
    absorb: str
    page: int
    dtype: str
    setting: tuple

    def name(self):
        return f"{self.model} {self.form} {self.absorb} page {self.page} {self.dtype}"

    def weights(self):
        return ROOT / f"test/data/golden/{self.model}_attention.safetensors"

    def compile_options(self):
        return [self.weights(), f"--form={self.form}", f"--absorb={self.absorb}",
                f"--page-size={self.page}", f"--dtype={self.dtype}",
                f"--num-splits={self.setting[3]}", "--target=cpu", "--quiet"]

    def check_options(self):
        """Options of two calls: mla-run's own settings, then this package's."""
        pages, tokens, processors, _ = self.setting
        chunk = pages * self.page * MAX_REQUESTS + tokens
        return [[], [f"--chunk-tokens={chunk}", f"--num-sms={processors}"]]


def covering_selection():
    """Every (model, mode, dtype); the page size moves along with all three."""
    for (m, model), (i, mode), (d, dtype) in itertools.product(
            enumerate(MODELS), enumerate(MODES), enumerate(DTYPES)):
        page = PAGES[(m + i + 2 * d) % len(PAGES)]
        yield Package(model, *mode, page, dtype, SETTINGS[(i + d) % len(SETTINGS)])


def full_selection():
    for model, mode, page, dtype, setting in itertools.product(
            MODELS, MODES, PAGES, DTYPES, SETTINGS):
        yield Package(model, *mode, page, dtype, setting)


def call(words):
    """Exit code, output and seconds of a program; stderr where it fails."""
    begin = time.monotonic()
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True,
                          timeout=CALL_LIMIT_S)
    text = done.stdout if done.stdout.strip() else done.stderr.strip()
    return done.returncode, text, time.monotonic() - begin


def check_package(package, tools, folder):
    """The measured steps, seconds to compile and to check, and what is wrong."""
    path = pathlib.Path(folder) / (package.name().replace(" ", "-") + f"-{package.setting[2]}.mlac")
    code, text, compile_s = call([tools / "mla-compile", *package.compile_options(), "-o", path])
    if code:
        return [], compile_s, 0.0, [f"mla-compile: {text}"]
    steps, check_s, problems = [], 0.0, []
    for options in package.check_options():
        words = [tools / "mla-run", "check", path, f"--weights={package.weights()}", "--json"]
        code, text, seconds = call(words + options)
        check_s += seconds
        try:
            found = json.loads(text)["steps"]
        except (ValueError, KeyError):
            problems.append(f"mla-run {' '.join(options)}: {text}")
            continue
        steps += found
        problems += [f"{step['what']} {' '.join(options)}: relative {step['relative']}"
                     for step in found if not step["passed"]]
        if code and not problems:
            problems.append(f"mla-run ended with {code}")
    path.unlink()
    return steps, compile_s, check_s, problems


def largest(steps, key):
    values = [step[key] for step in steps]
    return float("nan") if not values or None in values else max(values)


def report(index, count, package, result):
    steps, compile_s, check_s, problems = result
    rows = sum(step["rows"] for step in steps)
    print(f"[{index:{len(str(count))}}/{count}] {package.name():{NAME_WIDTH}} {len(steps):5} {rows:5} "
          f"{largest(steps, 'relative'):9.2e} {largest(steps, 'cosine_difference'):9.2e} "
          f"{largest(steps, 'wmape'):9.2e} {compile_s:6.1f} {check_s:6.1f}  "
          f"{'FAILED' if problems else 'ok'}", flush=True)
    for problem in problems:
        print("    " + problem, flush=True)


def run(packages, tools, jobs):
    counter = 2 * len(str(len(packages))) + 4
    print(f"{'':{counter}}{'package':{NAME_WIDTH}} {'steps':>5} {'rows':>5}  relative   cosdiff     WMAPE"
          "   compile and check (s)", flush=True)
    failed = 0
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results = pool.map(lambda package: check_package(package, tools, folder), packages)
        for index, (package, result) in enumerate(zip(packages, results), 1):
            report(index, len(packages), package, result)
            failed += bool(result[3])
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=pathlib.Path, default=ROOT / "build/bin",
                        help="where mla-compile and mla-run are (build/bin)")
    parser.add_argument("--full", action="store_true", help="every combination")
    parser.add_argument("--only", default="", help="packages whose name holds this text")
    parser.add_argument("--jobs", type=int, default=2, help="packages at a time (2)")
    options = parser.parse_args()
    selection = full_selection() if options.full else covering_selection()
    packages = [package for package in selection if options.only in package.name()]
    begin = time.monotonic()
    failed = run(packages, options.tools.resolve(), options.jobs)
    print(f"{len(packages) - failed} passed, {failed} failed in {time.monotonic() - begin:.0f} s")
    return 1 if failed or not packages else 0


if __name__ == "__main__":
    sys.exit(main())
