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
for functions in decode prefill,decode; do
  options=(--target=sm_90a --schedule=simple --page-size=16 --form=absorbed --functions=$functions)
  "$build/bin/mla-compile" "$layer" "${options[@]}" --quiet --emit=nvvm -o "$work/layer.mlir"
  LD_LIBRARY_PATH=$build/emulator MLAC_EMULATED_MODULE=$work/layer.mlir \
    "$build/bin/mla-compile" "$layer" "${options[@]}" --tune --tune-batch=3 --tune-context=20 \
    --tune-cache="$work/$functions.json" -o "$work/layer.mlac" 2>"$work/log" || {
    cat "$work/log"
    exit 1
  }
  grep "tuned by mlac emulator of sm_90a: simple, .* us; 1 measured now, 1 of 1 known" "$work/log"
done
