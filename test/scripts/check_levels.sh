#!/usr/bin/env bash
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# scripts/check_levels.py on tiny checkouts: what it must refuse, and what it must not.
#
#   check_levels.sh SOURCE_DIR
set -euo pipefail
# A checkout of nothing.
prepare() { rm -rf "$work"/{lib,include,tools}; }
check=check_levels.py below=.
source "$(dirname "$0")/support/expect.sh" "$1"

expect 0 "0 problems" lib/Analysis/Cost.cpp '#include "mla/Machine/Sm90Limits.h"'
expect 0 "0 problems" lib/Dialect/Sm90/IR/Ops.cpp '#include "mla/Dialect/Sm90/Utils/Layout.h"'
expect 0 "0 problems" include/mla/Dialect/Tile/Transforms/Passes.td 'include "mla/Dialect/Tile/IR/TileOps.td"'
expect 0 "0 problems" lib/RegisterAll.cpp '#include "mla/Pipelines/Pipelines.h"'
expect 0 "0 problems" lib/Analysis/Cost.cpp '#include "llvm/ADT/STLExtras.h"'
expect 1 "lib/Analysis/Cost.cpp:1: Analysis may not know Dialect/Sm90" lib/Analysis/Cost.cpp '#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"'
expect 1 "Machine may not know Analysis" include/mla/Machine/Rates.h '#include "mla/Analysis/FormCost.h"'
expect 1 "Dialect/Mla may not know Dialect/Mla/Transforms" lib/Dialect/Mla/IR/Ops.cpp '#include "mla/Dialect/Mla/Transforms/Passes.h"'
expect 1 "Conversion/TileToSm90 may not know Dialect/Mla" lib/Conversion/TileToSm90/Stream/Stream.cpp '#include "mla/Dialect/Mla/IR/MlaDialect.h"'
expect 1 "Dialect/Tile may not know Dialect/Sm90" include/mla/Dialect/Tile/IR/TileOps.td 'include "mla/Dialect/Sm90/IR/Sm90Ops.td"'
expect 1 "Package may not know the whole" lib/Package/File.cpp '#include "mla/RegisterAll.h"'
expect 1 "lies in no room" lib/Attic/Thing.cpp ''
expect 1 "lies in no room" lib/Thing.cpp ''
expect 0 "0 problems" lib/Conversion/TileToSm80/Ring.cpp '#include "mla/Dialect/Sm80/IR/Ops.h"'
expect 1 "Conversion/TileToSm80 may not know Dialect/Sm90" lib/Conversion/TileToSm80/Ring.cpp '#include "mla/Dialect/Sm90/IR/Ops.h"'
expect 1 "lib/Driver/Compile.cpp:1: asks for a target by its name" lib/Driver/Compile.cpp 'if (target == "sm_90a")'
expect 1 "tools/mla-compile/Emit.cpp:1: asks for a target by its name" tools/mla-compile/Emit.cpp 'return target != "cpu";'
expect 1 "asks for a target by its name" lib/Pipelines/Pipelines.cpp 'if (options.target == TileTarget::Cpu)'
