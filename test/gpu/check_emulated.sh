#!/usr/bin/env bash
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Checks a golden layer on the emulated device: package, plans, the runtime's
# CUDA device and the nvvm form of every kernel, without a GPU. The emulator knows
# the ops of the simple schedule; the others run in the simulator.
#
#   check_emulated.sh BUILD_DIR LAYER.safetensors [mla-compile options]
set -euo pipefail
build=$1 layer=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$build/bin/mla-compile" "$layer" --target=sm_90a --schedule=simple --quiet "$@" -o "$work/layer.mlac"
"$build/bin/mla-compile" "$layer" --target=sm_90a --schedule=simple --quiet "$@" --emit=nvvm -o "$work/layer.mlir"
LD_LIBRARY_PATH=$build/emulator MLAC_EMULATED_MODULE=$work/layer.mlir \
  "$build/bin/mla-run" check "$work/layer.mlac" --device=cuda --weights="$layer"
