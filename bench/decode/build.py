# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the packages of a selection; needs mla-compile, no GPU."""

import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import module
import problems
import program

# How a package is made whose results do not depend on the other requests: cut at fixed
# places; on the CPU, where every program works on one request, not at all.
INVARIANT_OPTIONS = {"sm_90a": ("--batch-invariant",), "cpu": ("--num-splits=1",)}
# Whose kernel's cold compilation is timed.
TIMED = problems.Spec(128)
MANIFEST = "manifest.json"


def compile_text(compiler, text, path, target, options=()):
    """Seconds of one mla-compile."""
    source = path.with_suffix(".mlir")
    source.write_text(text)
    begin = time.monotonic()
    done = subprocess.run([compiler, source, f"--target={target}", "--quiet", *options,
                           "-o", path], capture_output=True, text=True)
    seconds = time.monotonic() - begin
    if done.returncode:
        raise RuntimeError(f"{path.name}: {done.stderr.strip()[:2000]}")
    source.unlink()
    return seconds


def compile_spec(compiler, spec, directory, target, more=()):
    options = (*(INVARIANT_OPTIONS[target] if spec.invariant else ()), *more)
    path = directory / f"{spec.name}.mlac"
    return compile_text(compiler, module.module_text(spec), path, target, options)


def time_one_kernel(compiler, directory, target):
    """Best of three cold compilations of a step with one decode kernel."""
    path = directory / "timed.mlac"
    text = module.module_text(TIMED, query_lens=(1,))
    seconds = min(compile_text(compiler, text, path, target) for _ in range(3))
    path.unlink()
    return seconds


def copy_runtime(directory, build_dir):
    for library in build_dir.glob("lib/libmla_runtime.so"):
        shutil.copy(library, directory)


def build(directory, build_dir, specs, target="sm_90a", jobs=None, more=()):
    program.make_folder(directory, build_dir)
    compiler = pathlib.Path(build_dir) / "bin/mla-compile"
    seconds, failures = {}, []
    with concurrent.futures.ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        futures = {pool.submit(compile_spec, compiler, spec, directory, target, more): spec
                   for spec in specs}
        for index, future in enumerate(concurrent.futures.as_completed(futures)):
            name = futures[future].name
            try:
                seconds[name] = future.result()
                print(f"[{index + 1}/{len(specs)}] {name} {seconds[name]:.2f} s", flush=True)
            except RuntimeError as error:
                failures.append(name)
                print(f"[{index + 1}/{len(specs)}] FAILED {error}", file=sys.stderr, flush=True)
    copy_runtime(directory, pathlib.Path(build_dir))
    manifest = {"seconds": seconds, "failures": failures}
    if target != "cpu":
        manifest["one_kernel_seconds"] = time_one_kernel(compiler, directory, target)
    (directory / MANIFEST).write_text(json.dumps(manifest, indent=1))
    if failures:
        raise RuntimeError(f"{len(failures)} packages do not compile: {', '.join(failures)}")
