#!/bin/sh
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Builds libflashmla_peer.so from a FlashMLA checkout with its submodule cutlass.
#   bench/peers/flashmla/build.sh FLASHMLA_CHECKOUT OUTPUT_FOLDER
# NVCC names the compiler (default: nvcc on the path; 12.4 or newer).
set -eu
if [ $# -ne 2 ]; then
  echo "usage: $0 FLASHMLA_CHECKOUT OUTPUT_FOLDER" >&2
  exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
source=$1/csrc
output=$2
nvcc=${NVCC:-nvcc}
if [ ! -e "$source/cutlass/include/cutlass/cutlass.h" ]; then
  echo "$0: no cutlass in $source/cutlass: git submodule update --init csrc/cutlass" >&2
  exit 1
fi
mkdir -p "$output"
# FlashMLA's own options (setup.py), its optimisation level included.
options="-O3 -std=c++20 -DNDEBUG -D_USE_MATH_DEFINES -DFLASH_MLA_DISABLE_FP16
  -gencode arch=compute_90a,code=sm_90a --expt-relaxed-constexpr --expt-extended-lambda
  --use_fast_math --ptxas-options=-v,--register-usage-level=10,--warn-on-spills
  -Xcompiler=-fPIC -Wno-deprecated-declarations -diag-suppress 20208,177,186
  -I$source -I$source/kerutils/include -I$source/sm90
  -I$source/cutlass/include -I$source/cutlass/tools/util/include"
objects=
for file in "$source/smxx/decode/get_decoding_sched_meta/get_decoding_sched_meta.cu" \
    "$source/smxx/decode/combine/combine.cu" \
    "$source/sm90/decode/dense/instantiations/bf16.cu" "$here/peer.cu"; do
  object=$output/$(basename "$file" .cu).o
  echo "$file"
  # shellcheck disable=SC2086 # the options are words
  "$nvcc" $options -c "$file" -o "$object" 2>&1 |
    grep -E "error|spill|Used|Compiling entry" | tee -a "$output/ptxas.txt" || true
  test -e "$object"
  objects="$objects $object"
done
# shellcheck disable=SC2086
"$nvcc" -shared -cudart static $objects -o "$output/libflashmla_peer.so"
echo "wrote $output/libflashmla_peer.so; registers and spills: $output/ptxas.txt"
