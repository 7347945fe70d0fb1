#!/usr/bin/env python3
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs every check that needs a GPU; prints one table.

    run_all.py build DIR [--build-dir build]     # on any machine with a build
    run_all.py run DIR [--logs FOLDER]           # on a machine with a GPU, torch and transformers
    run_all.py list                              # the checks

`build` leaves DIR/checks.tar.xz, which is all that `run` needs beside this checkout: stripped
programs, the runtime library, packages. It holds what DIR/parts does: `build --only` makes some of
them anew and keeps the others. `run` unpacks it, runs the checks, several at a time, and
exits with 0 only if each passed. A check that skips a test, or has none, failed: there is a GPU.
`--only` takes parts of names.
"""

import argparse
import concurrent.futures
import dataclasses
import functools
import lzma
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ARCHIVE = "checks.tar.xz"
MOST_BYTES = 50 << 20  # of the archive: it is carried to machines by hand
# What says that a test was left out, or that there was none (GoogleTest, unittest).
SKIPPED = re.compile(r"\[  SKIPPED \]|skipped=\d|Ran 0 tests|0 tests from 0 test suites")
TAIL_LINES = 40


# ---------------------------------------------------------------------------
# What is built
# ---------------------------------------------------------------------------


def has_numpy(interpreter):
    return subprocess.run([interpreter, "-c", "import numpy"], capture_output=True).returncode == 0


@functools.cache
def find_python():
    """This Python, or the system's where only that one has NumPy (as the tests do)."""
    return next((each for each in (sys.executable, "/usr/bin/python3") if has_numpy(each)),
                sys.executable)


def python(path, *words):
    return [find_python(), "-B", ROOT / path, *words]


def call(*words, **environment):
    words = [str(word) for word in words]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, **{k: str(v) for k, v in environment.items()}})
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}\n{done.stdout}")


def find(build_dir, pattern):
    """The one file of the build that matches."""
    found = sorted(build_dir.glob(pattern))
    if not found:
        raise RuntimeError(f"{build_dir / pattern} is not there: build everything first "
                           "(cmake --build, with an assembler)")
    return found[0].resolve()


def strip(program, folder):
    folder.mkdir(parents=True, exist_ok=True)
    call("strip", "-o", folder / program.name, program)


def build_runtime_tests(folder, build_dir):
    strip(find(build_dir, "bin/mlac-runtime-tests"), folder)
    tests = "test/unit/Runtime/test-kernels.cubin"
    for pattern in (tests, tests + ".ptx", "lib/mlac-test-kernels.so",
                    "lib/mlac-test-kernels-2.so"):
        shutil.copy(find(build_dir, pattern), folder)


def build_test_package(folder, build_dir):
    folder.mkdir(parents=True, exist_ok=True)
    call(find(build_dir, "bin/mlac-make-test-package"), folder / "cpu.mlac", folder / "cuda.mlac")


def prepared(case):
    """Runs a test's set-up here, and keeps what it compiles."""
    def build(folder, build_dir):
        module, name = case.split(".")
        folder.mkdir(parents=True, exist_ok=True)
        call(find_python(), "-B", "-c", f"import {module}; {module}.{name}.setUpClass()",
             PYTHONPATH=f"{ROOT / 'python'}:{ROOT / 'test/python'}", MLAC_TEST_DEVICE="cuda",
             MLAC_RUNTIME_LIBRARY=find(build_dir, "lib/libmla_runtime.so"),
             MLAC_COMPILE=ROOT / "test/gpu/prepared_compiler.py", MLAC_PREPARED=folder,
             MLAC_REAL_COMPILE=find(build_dir, "bin/mla-compile"))
    return build


def by_script(path, *words):
    """Checks whose own script builds what it needs."""
    def build(folder, build_dir):
        call(*python(path, "build", folder, "--build-dir", build_dir, *words))
    return build


def by_compiler(path):
    """Checks whose script compiles with the compiler it is given."""
    def build(folder, build_dir):
        call(*python(path, "--build", folder, "--compiler", find(build_dir, "bin/mla-compile")))
    return build


# ---------------------------------------------------------------------------
# What is run
# ---------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Check:
    name: str
    build: object  # (folder, build_dir)
    command: tuple  # `{}` is the check's folder
    is_alone: bool = False  # it bounds times, which others would disturb
    environment: tuple = ()


def unit(module, **environment):
    return {"command": (sys.executable, "-B", "-m", "unittest", "-v", module),
            "environment": (("PYTHONPATH", f"{ROOT / 'python'}:{ROOT / 'test/python'}"),
                            *environment.items())}


def script(path, *words):
    return {"command": (sys.executable, "-B", str(ROOT / path), *words)}


ON_GPU = {"MLAC_TEST_DEVICE": "cuda"}
PREPARED = {**ON_GPU, "MLAC_COMPILE": str(ROOT / "test/gpu/prepared_compiler.py"),
            "MLAC_PREPARED": "{}"}
# The longest come first, so that the short ones fill the gaps.
CHECKS = (
    Check("runtime", build_runtime_tests, ("{}/mlac-runtime-tests", "--gtest_filter=*Cuda*"),
          is_alone=True, environment=(("MLAC_TEST_FILES", "{}"),)),
    Check("golden", by_script("test/gpu/check_and_bench.py"),
          **script("test/gpu/check_and_bench.py", "run", "{}", "--checks-only", "--jobs=6")),
    Check("mixed", by_compiler("test/python/run_mixed.py"),
          **script("test/python/run_mixed.py", "--gpu", "{}", "--batches=150")),
    Check("decode", by_script("bench/decode"),
          **script("bench/decode", "run", "{}", "--check", "grid", "invariance")),
    Check("prefill", by_script("bench/prefill"),
          **script("bench/prefill", "run", "{}", "--check", "grid")),
    Check("products", by_script("bench/products"),
          **script("bench/products", "run", "{}", "--rounds=1")),
    Check("codes", by_script("bench/codes"), **script("bench/codes", "run", "{}", "--check")),
    Check("select", by_script("bench/select"),
          **script("bench/select", "run", "{}", "--check")),
    Check("index", by_script("bench/index"), **script("bench/index", "run", "{}", "--check")),
    Check("chunked", by_script("bench/chunked.py"),
          **script("bench/chunked.py", "run", "{}", "--rounds=1")),
    Check("grouped", by_compiler("test/python/run_grouped.py"),
          **script("test/python/run_grouped.py", "--gpu", "{}")),
    Check("grouped_layers", by_script("test/gpu/grouped_layers.py"),
          **script("test/gpu/grouped_layers.py", "run", "{}", "--jobs=3")),
    Check("sparse", by_compiler("test/python/run_sparse.py"),
          **script("test/python/run_sparse.py", "--gpu", "{}")),
    Check("shared_keys", by_script("test/gpu/shared_keys.py"),
          **script("test/gpu/shared_keys.py", "run", "{}")),
    Check("shared_key_replays", by_script("test/gpu/shared_keys.py"),
          **script("test/gpu/shared_keys.py", "replay", "{}")),
    Check("padded", by_script("bench/padded.py"),
          **script("bench/padded.py", "run", "{}", "--rounds=1", "--sustain=0")),
    Check("replays", by_script("test/gpu/replays.py"),
          **script("test/gpu/replays.py", "run", "{}")),
    Check("shared", by_script("bench/shared.py"), **script("bench/shared.py", "run", "{}")),
    Check("cache", by_script("bench/cache"), **script("bench/cache", "run", "{}")),
    Check("transformers", by_script("test/gpu/transformers_models.py"),
          **script("test/gpu/transformers_models.py", "run", "{}")),
    Check("python.torch", build_test_package,
          **unit("test_runtime.TorchCudaTest", MLAC_TEST_PACKAGE="{}/cpu.mlac",
                 MLAC_TEST_CUDA_PACKAGE="{}/cuda.mlac")),
    Check("python.table", None, **unit("test_table", **ON_GPU)),
    Check("python.indices", prepared("test_indices.IndicesTest"),
          **unit("test_indices", **PREPARED)),
    Check("python.external", prepared("test_external.ExternalTest"),
          **unit("test_external", **PREPARED)),
    Check("python.sparse", prepared("test_sparse.SparseTest"),
          **unit("test_sparse.SparseTest", **PREPARED)),
    Check("python.sparse_modes", prepared("test_sparse_modes.SeparateTest"),
          **unit("test_sparse_modes.SeparateTest", **PREPARED)),
    Check("python.absorbed_codes", prepared("test_absorbed_codes.OnDeviceTest"),
          **unit("test_absorbed_codes.OnDeviceTest", **PREPARED)),
    Check("python.output_codes", prepared("test_shared_keys.OutputCodesTest"),
          **unit("test_shared_keys.OutputCodesTest", **PREPARED)),
    Check("python.grouped_append", prepared("test_grouped_append.GroupedAppendTest"),
          **unit("test_grouped_append.GroupedAppendTest", **PREPARED)),
    Check("python.pages", prepared("test_pages.PagesTest"), **unit("test_pages", **PREPARED)),
)


@dataclasses.dataclass
class Result:
    check: Check
    passed: bool
    why: str
    seconds: float
    output: str


def judge(code, output):
    """Why a check did not pass; empty: it did."""
    if code:
        return f"exit status {code}"
    if found := SKIPPED.search(output):
        return f"left something out: '{found.group()}'"
    return ""


def run_check(check, folder, limit, deadline):
    limit = min(limit, deadline - time.monotonic())
    if limit <= 0:
        return Result(check, False, "was not begun: no time was left", 0.0, "")
    place = folder / check.name
    if check.build and not place.exists():
        return Result(check, False, "was not built", 0.0, "")
    put = lambda text: str(text).replace("{}", str(place))
    environment = {**os.environ, "PYTHONUNBUFFERED": "1",
                   "MLAC_RUNTIME_LIBRARY": str(folder / "libmla_runtime.so"),
                   **{key: put(value) for key, value in check.environment}}
    begin = time.monotonic()
    # A session of its own, so that a check that hangs goes with its children.
    process = subprocess.Popen([put(word) for word in check.command], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace",
                               env=environment, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=limit)
        why = judge(process.returncode, output)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        why = f"no end within {limit:.0f} s"
    seconds = time.monotonic() - begin
    print(f"[{seconds:5.1f} s] {check.name}: {why or 'passed'}", flush=True)
    return Result(check, not why, why, seconds, output)


# ---------------------------------------------------------------------------
# Commands
# ---------------------------------------------------------------------------


def chosen(only):
    for word in only:
        if not any(word in check.name for check in CHECKS):
            sys.exit(f"run_all: --only: '{word}' names no check; there are "
                     f"{', '.join(check.name for check in CHECKS)}")
    return [check for check in CHECKS if not only or any(word in check.name for word in only)]


def pack(folder, archive):
    # One dictionary over all: kernels and libraries of the checks are much alike.
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": MOST_BYTES}]
    unfinished = archive.with_name(archive.name + ".part")
    try:
        with lzma.open(unfinished, "wb", filters=filters) as stream, \
                tarfile.open(fileobj=stream, mode="w") as tar:
            tar.add(folder, arcname=".")
        unfinished.rename(archive)
    finally:
        unfinished.unlink(missing_ok=True)
    return archive.stat().st_size


def unpack(archive, folder):
    if not archive.exists():
        sys.exit(f"run_all: {archive} is not there: run_all.py build {archive.parent}")
    try:
        with tarfile.open(archive, "r:xz") as tar:
            tar.extractall(folder)
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        sys.exit(f"run_all: {archive} is damaged ({error}): build or copy it again")


def build_part(check, folder, build_dir):
    """False, and why on standard error, if something does not build."""
    begin, place = time.monotonic(), folder / check.name
    shutil.rmtree(place, ignore_errors=True)
    try:
        if check.build:
            check.build(place, build_dir)
    except (RuntimeError, OSError) as error:
        shutil.rmtree(place, ignore_errors=True)
        print(f"{check.name}: FAILED: {error}", file=sys.stderr, flush=True)
        return False
    print(f"{check.name}: {time.monotonic() - begin:.0f} s", flush=True)
    return True


def build_command(options):
    checks = chosen(options.only)
    build_dir, folder = options.build_dir.resolve(), options.directory / "parts"
    try:
        library = find(build_dir, "lib/libmla_runtime.so")
        strip(library, folder)
    except RuntimeError as error:
        sys.exit(f"run_all: {error}")
    (folder / library.name).rename(folder / "libmla_runtime.so")
    failed = [check.name for check in checks if not build_part(check, folder, build_dir)]
    missing = [check.name for check in CHECKS if check.build and not (folder / check.name).exists()]
    archive = options.directory / ARCHIVE
    size = pack(folder, archive)
    print(f"{archive}: {size / (1 << 20):.1f} MiB" +
          (f", without {', '.join(missing)}" if missing else ""))
    if size > MOST_BYTES:
        print(f"FAIL: more than {MOST_BYTES >> 20} MiB", file=sys.stderr)
    return int(bool(failed) or size > MOST_BYTES)


def run_checks(checks, folder, options):
    deadline = time.monotonic() + options.total
    run = lambda check: run_check(check, folder, options.limit, deadline)
    results = [run(check) for check in checks if check.is_alone]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results += pool.map(run, [check for check in checks if not check.is_alone])
    return results


def print_results(results, seconds):
    for result in results:
        if not result.passed:
            print(f"\n== end of {result.check.name}")
            print("\n".join(result.output.splitlines()[-TAIL_LINES:]))
    print(f"\n{'check':16} {'':4} {'seconds':>8}")
    for result in results:
        print(f"{result.check.name:16} {'PASS' if result.passed else 'FAIL'} "
              f"{result.seconds:8.1f}  {result.why}")
    failed = sum(not result.passed for result in results)
    print(f"{'FAIL' if failed else 'PASS'}: {len(results) - failed} of {len(results)} checks "
          f"passed in {seconds:.0f} s")
    return int(failed > 0)


def run_command(options):
    begin, checks = time.monotonic(), chosen(options.only)
    if options.logs:
        options.logs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        unpack(options.directory / ARCHIVE, folder)
        results = run_checks(checks, folder, options)
    if options.logs:
        for result in results:
            (options.logs / f"{result.check.name}.log").write_text(result.output)
    return print_results(results, time.monotonic() - begin)


def list_command(_):
    for check in CHECKS:
        print(check.name)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list")
    for name in ("build", "run"):
        command = commands.add_parser(name)
        command.add_argument("directory", type=pathlib.Path)
        command.add_argument("--only", nargs="*", default=[], help="parts of names of checks")
        if name == "build":
            command.add_argument("--build-dir", type=pathlib.Path, default=ROOT / "build")
        else:
            command.add_argument("--jobs", type=int, default=4, help="checks at a time (4)")
            command.add_argument("--limit", type=float, default=240,
                                 help="seconds for a check (240)")
            command.add_argument("--total", type=float, default=290, help="seconds for all (290)")
            command.add_argument("--logs", type=pathlib.Path, help="where all outputs go")
    options = parser.parse_args()
    if getattr(options, "jobs", 1) < 1:
        parser.error(f"argument --jobs: expected at least 1, got {options.jobs}")
    try:
        return globals()[options.command + "_command"](options)
    except OSError as error:
        sys.exit(f"run_all: {error}")


if __name__ == "__main__":
    sys.exit(main())
