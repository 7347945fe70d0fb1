# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""compute-sanitizer over a reduced grid, instrumenting only our kernels."""

import pathlib
import shutil
import subprocess
import sys

# Parts of our kernels' names; torch's and cuBLAS's stay uninstrumented.
KERNELS = ("absorbed_attention", "merge_")
TOOL_LIMIT_S = 540
FOUND = 9  # exit code that says the tool found something


def command_of(tool, directory, only):
    filters = [word for name in KERNELS for word in ("--kernel-name", f"kernel_substring={name}")]
    here = pathlib.Path(__file__).resolve().parent
    # The allocator's cache would hide accesses outside of a tensor; torch probes the
    # driver with calls that fail.
    return ["env", "PYTORCH_NO_CUDA_MEMORY_CACHING=1", "compute-sanitizer", f"--tool={tool}",
            f"--error-exitcode={FOUND}", "--target-processes=all", "--report-api-errors=no",
            *filters, sys.executable, here, "run", directory,
            "--check", "grid", "--reduced", *(["--only", *only] if only else [])]


def run(directory, tools, only):
    if not shutil.which("compute-sanitizer"):
        print("compute-sanitizer is not on the path", file=sys.stderr)
        return 2
    failed = []
    for tool in tools:
        print(f"== {tool}", flush=True)
        try:
            code = subprocess.run(list(map(str, command_of(tool, directory, only))),
                                  timeout=TOOL_LIMIT_S).returncode
        except subprocess.TimeoutExpired:
            code = f"no end within {TOOL_LIMIT_S} s"
        if code:
            failed.append(tool)
            print(f"{tool}: FAIL ({code})", flush=True)
    print(f"sanitize: {'FAIL: ' + ', '.join(failed) if failed else 'PASS'}")
    return 1 if failed else 0
