#!/usr/bin/env bash
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# test/gpu/run_all.py without a GPU: it packs, unpacks and runs, a check that is
# skipped, is missing or was not built is a failure, and what is wrong is named.
#
#   run_all.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
run_all() { python3 -B "$source/test/gpu/run_all.py" "$@" >"$work/log" 2>&1; }

die() {
  echo "FAIL: $1" >&2
  sed 's/^/  | /' "$work/log" >&2
  exit 1
}

python3 -B - "$source" <<'PYTHON'
import sys
sys.path.insert(0, sys.argv[1] + "/test/gpu")
import run_all
for output in ("[  SKIPPED ] CudaStepTest.C15 (0 ms)", "OK (skipped=1)", "Ran 0 tests in 0.0s",
               "[==========] Running 0 tests from 0 test suites."):
    assert run_all.judge(0, output), output
assert run_all.judge(1, "OK")
assert not run_all.judge(0, "[  PASSED  ] 9 tests.\nRan 2 tests in 0.1s\n\nOK")
PYTHON

run_all list || die "list"
grep -qx runtime "$work/log" || die "expected the check 'runtime'"
! run_all build "$work" --only NoSuchCheck || die "an unknown check passed"
! run_all build "$work" --only runtime --build-dir "$work/nowhere" || die "nothing was built"
grep -q "nowhere/lib/libmla_runtime.so is not there" "$work/log" || die "expected what is missing"

# What is refused is one line that names it, and nothing is left behind.
refuses() { # message, words
  local message=$1
  shift
  ! run_all "$@" || die "'$*' passed"
  [ "$(tail -n 1 "$work/log" | grep -cF -- "$message")" = 1 ] || die "expected '$message'"
  ! grep -q Traceback "$work/log" || die "'$*' fell over"
}
refuses "--only: 'NoSuchCheck' names no check" build "$work" --only runtime NoSuchCheck
refuses "nowhere/checks.tar.xz is not there" run "$work/nowhere"
[ ! -e "$work/nowhere" ] || die "a run without an archive made its folder"
head -c 999 /dev/zero >"$work/checks.tar.xz"
refuses "checks.tar.xz is damaged" run "$work"
tar -C "$source/docs" -cJf "$work/whole" .
head -c 9999 "$work/whole" >"$work/checks.tar.xz"
refuses "checks.tar.xz is damaged" run "$work"
refuses "--jobs: expected at least 1, got 0" run "$work" --jobs 0
touch "$work/file"
refuses "Not a directory" build "$work/file/x" --build-dir "$build" --only python.table
rm "$work/checks.tar.xz"

# The device's tests skip here: no pass. Where there is a GPU they run.
[ -e "$build/test/unit/Runtime/test-kernels.cubin" ] || exit 0
run_all build "$work" --build-dir "$build" --only runtime || die "build"
# Another part later keeps the first; a part that does not build is said, and fails.
run_all build "$work" --build-dir "$build" --only python.torch || die "build of another part"
! grep -q "without.* runtime," "$work/log" || die "the first part was dropped"
mkdir "$work/lib" # a build without programs
cp "$build/lib/libmla_runtime.so" "$work/lib"
! run_all build "$work" --build-dir "$work" --only python.torch || die "an impossible build passed"
grep -q "python.torch: FAILED: .*mlac-make-test-package is not there" "$work/log" ||
  die "expected what failed to build"
! run_all run "$work" --only python.torch || die "a check that was not built passed"
grep -q "python.torch  *FAIL .*was not built" "$work/log" || die "expected what was not built"
if [ -e /dev/nvidiactl ]; then
  run_all run "$work" --only runtime || die "run"
  exit
fi
! run_all run "$work" --only runtime || die "skipped tests passed"
grep -q "runtime  *FAIL .*left something out: '\[  SKIPPED \]'" "$work/log" ||
  die "expected a skipped test to fail the check"
