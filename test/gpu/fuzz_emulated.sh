#!/usr/bin/env bash
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Mutates a compiled package and plans what is accepted, on the emulated device: without
# a GPU and without an assembler. MLAC_FUZZ_CASES and MLAC_FUZZ_SEED as for the other
# fuzz tests.
#
#   fuzz_emulated.sh BUILD_DIR CONFIG.json
set -euo pipefail
build=$1 config=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
options=("$config" --target=sm_90a --page-size=16 --functions=prefill,decode,step --quiet)
"$build/bin/mla-compile" "${options[@]}" --assembler=none -o "$work/layer.mlac"
"$build/bin/mla-compile" "${options[@]}" --emit=nvvm -o "$work/layer.mlir"
LD_LIBRARY_PATH=$build/emulator MLAC_EMULATED_MODULE=$work/layer.mlir \
  MLAC_EMULATED_MEMORY=67108864 MLAC_FUZZ_PACKAGE=$work/layer.mlac \
  "$build/bin/mlac-emulated-tests" --gtest_filter='*CompiledPackage*'
