#!/usr/bin/env bash
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# scripts/check_features.py on tiny checkouts: what counts as a test's name, and what does not.
#
#   check_features.sh SOURCE_DIR
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# expect STATUS TEXT STATE TESTS FILE LINE: where row A04 is STATE with TESTS, and FILE holds LINE.
expect() {
  local wanted=$1 text=$2 file=$work/test/$5 status=0
  rm -rf "${work:?}"/*
  mkdir -p "$work/docs/spec" "$(dirname "$file")"
  echo "| A04 | something | mla §1 |" >"$work/docs/spec/features.md"
  : >"$work/docs/spec/v4.md"
  echo "| A04 | $3 | $4 | |" >"$work/docs/features.md"
  printf '%s\n' "$6" >"$file"
  [ "$5" != run_golden.py ] || echo "${7:-}" >"$work/test/CMakeLists.txt"
  python3 -B "$source/scripts/check_features.py" "$work" >"$work/log" 2>&1 || status=1
  [ "$status" = "$wanted" ] && grep -qF "$text" "$work/log" && return
  echo "FAIL: $3, $4, $5 with $6: expected status $wanted and '$text', got $status and" >&2
  sed 's/^/  | /' "$work/log" >&2
  exit 1
}
named() { expect 0 "1 rows: 1 done" done "\`test/$1\`" "$@"; }
unnamed() { expect 1 "A04: test/$1 has no test with A04 in its name" done "\`test/$1\`" "$@"; }

named XTest.cpp 'TEST(Suite, A04_Works) {'
named XTest.cpp 'TEST_F(A04_Suite, Works) {'
named XTest.cpp 'INSTANTIATE_TEST_SUITE_P(All, A04_Suite, Values(1));'
unnamed XTest.cpp 'TEST(Suite, Works) { // A04'
unnamed XTest.cpp 'TEST(Suite, A041_Works) {'
named test_x.py '    def test_A03_A04_works(self):'
unnamed test_x.py '    """A04: it works."""'
named x.mlir 'func.func @works_A04(%x: f32) {'
unnamed x.mlir '// A04. CHECK: func @works'
named x_A04.test '# RUN: true'
unnamed x.test '# RUN: true  A04'
named run_golden.py '"""Cases."""' 'add_test(NAME golden.cpu.A04 COMMAND x)'
unnamed run_golden.py '"""A04."""' 'add_test(NAME random.cpu.A04 COMMAND x)'
expect 0 "1 open" open "" x.mlir ""
expect 1 "A04: names no test" partly "" x.mlir ""
expect 1 "A04: test/gone.mlir does not exist" done '`test/gone.mlir`' x.mlir ""
expect 1 "A04: expected one of done, partly, open, got 'almost'" almost "" x.mlir ""
