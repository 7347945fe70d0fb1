#!/usr/bin/env bash
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Tunes a small layer on the emulated device: packages, sequences and profiles of
# mla-compile's device timer, without a GPU (the emulator's times mean nothing).
#
#   tune_emulated.sh BUILD_DIR LAYER.safetensors
set -euo pipefail
build=$1 layer=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Sets `options` for functions and a form, and writes the kernels that are emulated.
prepare() { # functions form
  options=(--target=sm_90a --schedule=simple --page-size=16 --form="$2" --functions="$1")
  "$build/bin/mla-compile" "$layer" "${options[@]}" --quiet --emit=nvvm -o "$work/layer.mlir"
}

tune() { # cache, more options
  local cache=$1
  shift
  rm -f "$work/layer.mlac"
  LD_LIBRARY_PATH=$build/emulator MLAC_EMULATED_MODULE=$work/layer.mlir \
    "$build/bin/mla-compile" "$layer" "${options[@]}" --tune --tune-batch=3 --tune-context=20 \
    --tune-prefill=20 --tune-cache="$work/$cache.json" "$@" -o "$work/layer.mlac" 2>"$work/log" ||
    die "no package"
  [ -s "$work/layer.mlac" ] || die "an empty package"
}

die() {
  echo "FAIL: $1" >&2
  cat "$work/log" >&2
  exit 1
}

# One line says that a kernel was tuned in a step; times vary.
expect_tuned() { # kernel, step, counts
  grep -qE "^$1 tuned by mlac emulator of sm_90a in $2: simple, [0-9.]+ us; $3\$" "$work/log" ||
    die "expected $1 tuned in $2; $3"
}
once="1 measured now, 1 of 1 known, 0 failed"

prepare decode absorbed
tune decode
expect_tuned absorbed_attention 'decode: 3 x \(20 \+ 1\)' "$once"
# The same again measures nothing.
tune decode
expect_tuned absorbed_attention 'decode: 3 x \(20 \+ 1\)' \
  "0 measured now, 1 of 1 known, 0 failed"

# Each kernel in a step that runs it: a fresh prompt, one with context, few tokens, and
# a mix. Short prompts with context go another way: that kernel is tried once, and said.
prepare prefill,decode,step auto
tune all
expect_tuned expanded_attention_causal 'prefill: 1 x \(0 \+ 20\)' "$once"
expect_tuned absorbed_attention 'prefill: [0-9]+ x \(20 \+ [0-9]+\)' "$once"
expect_tuned 'absorbed_attention_[0-9]+' 'decode: 3 x \(20 \+ 1\)' "$once"
mix='step: 3 x \(20 \+ 1\), 1 x \(0 \+ 20\)'
expect_tuned expanded_attention_chunk_onto "$mix, 1 x \(20 \+ 20\)" "$once"
expect_tuned expanded_attention_causal_onto "$mix, 1 x \(20 \+ 20\)" "$once"
prepare prefill,decode auto
tune prompts
grep -q "^expanded_attention_chunk_onto: no time, keeps the cost model's choice; 1 measured now, 0 of 1" \
  "$work/log" || die "expected a kernel that no step runs"

# A point that fails is said and left out, and there is a package all the same: an
# assembler that fails once.
prepare decode absorbed
ptxas=$("$(dirname "$0")/../../scripts/get-assembler.sh" --find "$build/assembler")
cat >"$work/ptxas" <<SCRIPT
#!/usr/bin/env bash
for word in "\$@"; do
  if [[ \$word == *.ptx && ! -e $work/failed ]] && grep -q 'entry absorbed_attention' "\$word"; then
    touch $work/failed
    echo "ptxas fatal: on purpose" >&2
    exit 1
  fi
done
exec $ptxas "\$@"
SCRIPT
chmod +x "$work/ptxas"
tune failing --ptxas="$work/ptxas"
[ -e "$work/failed" ] || die "the assembler was not asked"
grep -q 'tune absorbed_attention 1/1 simple: does not compile: .*on purpose' "$work/log" ||
  die "expected why the point failed"
grep -q "absorbed_attention: no time, keeps the cost model's choice; 1 measured now, 0 of 1 known, 1 failed" \
  "$work/log" || die "expected that the kernel keeps its schedule"
echo OK
