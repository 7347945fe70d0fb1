#!/usr/bin/env bash
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# scripts/quickstart and scripts/test on a tiny checkout with the real cmake, ninja
# and ctest: its "compiler" prints what it was asked for, and says which checkout it
# was built from. What they must not do is end in OK when something was not done.
#
#   two_commands.sh SOURCE_DIR
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset MLAC_BUILD_DIR

die() {
  echo "FAIL: $1" >&2
  sed 's/^/  | /' "$work/log" >&2
  exit 1
}

# Runs a command that must succeed (0) or fail (1); its output is in $work/log.
expect() {
  local wanted=$1 status=0
  shift
  "$@" >"$work/log" 2>&1 || status=1
  [ "$status" = "$wanted" ] || die "'$*' in $PWD: expected status $wanted, got $status"
  if [ "$wanted" = 1 ] && grep -q '^OK:' "$work/log"; then die "'$*' failed and says OK"; fi
}
says() { grep -qF -- "$1" "$work/log" || die "expected '$1'"; }
silent_on() { ! grep -qF -- "$1" "$work/log" || die "did not expect '$1'"; }

# Every package is installed, and there is an assembler unless NO_ASSEMBLER is set.
mkdir "$work/bin"
printf '#!/bin/sh\necho installed\n' >"$work/bin/dpkg-query"
export PATH=$work/bin:$PATH

make_checkout() { # folder
  mkdir -p "$1/scripts"
  cp "$source"/scripts/{common.sh,cpu_numbers,quickstart,test} "$1/scripts"
  printf '#!/bin/sh\n[ -z "${NO_ASSEMBLER:-}" ]\n' >"$1/scripts/get-assembler.sh"
  cat >"$1/tool.sh" <<'TOOL'
#!/bin/sh
echo "checkout one: $*"
TOOL
  chmod +x "$1"/scripts/* "$1/tool.sh" "$work/bin/dpkg-query"
  cat >"$1/CMakePresets.json" <<'JSON'
{ "version": 3, "configurePresets": [
  { "name": "release", "generator": "Ninja", "binaryDir": "${sourceDir}/build" } ] }
JSON
  cat >"$1/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.20)
project(tiny NONE)
enable_testing()
foreach(tool mla-compile mla-run mla-opt mla_runtime)
  set(file ${CMAKE_BINARY_DIR}/bin/${tool})
  add_custom_command(OUTPUT ${file} DEPENDS ${CMAKE_SOURCE_DIR}/tool.sh
    COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_SOURCE_DIR}/tool.sh ${file})
  add_custom_target(${tool} ALL DEPENDS ${file})
endforeach()
add_test(NAME plain COMMAND bin/mla-run)
add_test(NAME needs_assembler COMMAND bin/mla-run)
set_tests_properties(needs_assembler PROPERTIES LABELS assembler)
CMAKE
}

make_checkout "$work/one"
cd "$work/one"

# Help and mistakes install and build nothing.
for script in quickstart test cpu_numbers; do
  expect 0 scripts/$script --help
  silent_on "1/"
  says "MLAC_BUILD_DIR"
done
for script in quickstart cpu_numbers; do
  expect 1 scripts/$script quick
  says "$script: expected no arguments, got 'quick'"
done
expect 1 scripts/cpu_numbers
says "build/bin/mla-compile is not there"
[ ! -e build ] || die "help or a mistake made the build folder"

expect 0 scripts/quickstart
says "OK: everything"
expect 0 scripts/test
says "OK: all tests passed"
says "needs_assembler"
silent_on "configuring anew"

# No test ran: a misspelt name is no success.
expect 1 scripts/test -R NoSuchTest
says "No tests were found"
expect 0 scripts/test -R plain

# A copy is built from its own sources, though its build folder is the other's.
cp -r "$work/one" "$work/two"
cd "$work/two"
sed -i 's/checkout one/checkout two/' tool.sh
expect 0 scripts/quickstart
says "build was configured in $work/one/build for $work/one; configuring anew"
says "checkout two"
silent_on "checkout one"
expect 0 scripts/quickstart
silent_on "configuring anew"

# So is a checkout that was moved, and one whose build folder was renamed.
mv "$work/two" "$work/three"
cd "$work/three"
sed -i 's/checkout two/checkout three/' tool.sh
expect 0 scripts/test -V
says "configuring anew"
says "checkout three"
mv build elsewhere
expect 0 env MLAC_BUILD_DIR=elsewhere scripts/quickstart
says "elsewhere was configured in $work/three/build"

# A configure step that fails, fails the command, again and again: what the other
# checkout left is never used.
cp -r "$work/one" "$work/four"
cd "$work/four"
echo 'message(FATAL_ERROR "broken on purpose")' >>CMakeLists.txt
for script in quickstart test quickstart; do
  expect 1 scripts/$script
  says "broken on purpose"
done
# The same in a folder that was configured before, and for a build step.
cd "$work/one"
cp CMakeLists.txt right.txt
cp "$work/four/CMakeLists.txt" .
expect 1 scripts/test
says "broken on purpose"
sed 's/-E copy/-E no-such-command/' right.txt >CMakeLists.txt
expect 1 scripts/quickstart
expect 1 scripts/test
cp right.txt CMakeLists.txt
expect 0 scripts/test

# Without an assembler: all but what needs one, and what is missing is said last.
export NO_ASSEMBLER=1
expect 0 scripts/quickstart
says "--assembler=none"
says "No CUDA assembler"
says "scripts/get-assembler.sh"
says "OK: everything"
expect 0 scripts/test
says "needs_assembler"
grep -q '1/1 Test .*plain' "$work/log" || die "expected one test to run"
says "OK: all tests that need no assembler passed"
echo "OK"
