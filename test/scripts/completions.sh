#!/usr/bin/env bash
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What bash offers behind the beginnings of command lines.
#
#   completions.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source=$1 build=$2
[[ -x $build/bin/mla-run && -x $build/bin/mla-compile ]] || exit 77
PATH=$build/bin:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
touch "$work/model.mlac" "$work/config.json"
cd "$work"
. "$source/tools/completions/mlac.bash"

# expect 'WHAT' WORD...: completing the last word offers exactly WHAT.
expect() {
  local wanted=$1
  shift
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  _mlac_complete "$1"
  local got="${COMPREPLY[*]-}"
  [[ $got == "$wanted" ]] || { echo "FAIL: '$*': expected '$wanted', got '$got'" >&2; exit 1; }
}

expect "bench" mla-run b
expect "help bench check info replay simulate --help --version" mla-run ""
expect "--report=" mla-run bench model.mlac --rep
expect "--context= --csv" mla-run bench --c
expect "--samples= --seed=" mla-run check --s
expect "" mla-run info --dev # of other commands
expect "cpu cuda" mla-run bench --device =
expect "cuda" mla-run bench --device = cu
expect "model.mlac" mla-run info m
expect "config.json" mla-compile c
expect "--explain=" mla-compile --expl
expect "--batch-invariant" mla-compile --batch
expect "online offline" mla-compile --absorb = o
