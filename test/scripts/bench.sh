#!/usr/bin/env bash
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Programs of bench/ on a machine without a build: each says what it lacks in a line, and has help
# (where its Python has what it imports).
#
#   bench.sh SOURCE_DIR
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

die() {
  echo "FAIL: $1" >&2
  sed 's/^/  | /' "$work/log" >&2
  exit 1
}
runs() { python3 -B "$source/bench/$1" "${@:2}" >"$work/log" 2>&1; }
says() { # message, words
  ! runs "${@:2}" || die "'${*:2}' passed"
  ! grep -q Traceback "$work/log" || die "'${*:2}' fell over"
  tail -n 1 "$work/log" | grep -qE -- "$1" || die "expected '$1' of '${*:2}'"
}

missing="nowhere/(bin/mla-compile|lib/libmla_runtime.so): No such file or directory: build it first"
for name in cache chunked.py codes decode few_rows.py grouped index layer.py overlap.py padded.py \
  prefill products select selection.py shared.py shared_keys.py sparse.py sparse_layer.py v4_layer.py; do
  runs "$name" --help || grep -q "needs numpy" "$work/log" || die "$name --help"
  says "$missing|needs numpy" "$name" build "$work/$name" --build-dir "$work/nowhere"
  [ ! -e "$work/$name" ] || die "$name left a folder without packages"
done
says "$missing" rope_append.py --build "$work/rope" --compiler "$work/nowhere/bin/mla-compile"
[ ! -e "$work/rope" ] || die "rope_append.py left a folder without packages"
says "expected --build DIR or --run DIR" rope_append.py
runs rope_append.py --help
grep -q -- "--run DIR  *on a GPU" "$work/log" || die "expected how rope_append.py is called"
runs torch_calls.py --help
! python3 -c "import torch" 2>/dev/null || exit 0
says "torch_calls.py: needs torch, which .*python.* does not have" torch_calls.py
says "fused.py: needs torch" fused.py
