#!/usr/bin/env bash
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# test/fuzz/fuzz.py: what it is called with, and which folders it leaves. The compiler here refuses
# everything, by words that name the input or by none, which breaks the rule.
#
#   fuzz.sh SOURCE_DIR
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

die() {
  echo "FAIL: $1" >&2
  sed 's/^/  | /' "$work/log" >&2
  exit 1
}
runs() { (cd "$work" && python3 -B "$source/test/fuzz/fuzz.py" "$@" --tools "$work") >"$work/log" 2>&1; }
refuses() { # message, words
  ! runs "${@:2}" || die "'${*:2}' passed"
  tail -n 1 "$work/log" | grep -qF -- "$1" || die "expected '$1' of '${*:2}'"
}
compiler() { # what it says
  printf '#!/bin/sh\necho "%s" >&2\nexit 1\n' "$1" >"$work/mla-compile"
  chmod +x "$work/mla-compile"
}

refuses "no $work/mla-compile: build it, or give --tools" configs
[ ! -e "$work/fuzz-failures" ] || die "a folder without cases stays"
compiler 'refused: --'
: >"$work/file"
refuses "argument --out: cannot make the folder 'file/x': Not a directory" configs --out file/x
refuses "argument --out: cannot make the folder 'file': File exists" configs --out file
refuses "argument --cases: expected at least 1, got -3" configs --cases -3
refuses "argument --cases: expected at least 1, got 0" configs --cases 0
refuses "argument --cases: invalid int value: 'x'" configs --cases x
refuses "argument --only: expected at least 0, got -1" configs --only -1

runs configs --cases 2 || die "expected that 2 refused cases pass"
[ ! -e "$work/fuzz-failures" ] || die "a folder without failures stays"
mkdir "$work/kept"
runs configs --cases 2 --out kept || die "expected that 2 refused cases pass"
[ -d "$work/kept" ] || die "the caller's folder is gone"

compiler 'no'
! runs configs --cases 2 --out new/failures || die "expected failures"
[ -n "$(ls "$work/new/failures")" ] || die "failures are not kept"
