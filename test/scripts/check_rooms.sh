#!/usr/bin/env bash
# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# scripts/check_rooms.py on tiny checkouts: what it must refuse, and what it must not.
#
#   check_rooms.sh SOURCE_DIR
set -euo pipefail
# A checkout of empty rooms.
prepare() {
  rm -rf "$work/runtime"
  mkdir -p "$work"/runtime/{lib/{base,package,cache,device,step,engine,capi},include,schema}
  for room in base package cache device step engine capi; do
    : >"$work/runtime/lib/$room/Thing.h"
  done
  : >"$work/runtime/include/mla_runtime.h"
}
check=check_rooms.py below=runtime
source "$(dirname "$0")/support/expect.sh" "$1"

expect 0 "0 problems" lib/step/User.cpp '#include "cache/Thing.h"'
expect 0 "0 problems" lib/capi/User.cpp '#include "mla_runtime.h"'
expect 0 "0 problems" lib/base/User.h '#include <vector>'
expect 1 "lib/step/User.cpp:1: step may not know engine" lib/step/User.cpp '#include "engine/Thing.h"'
expect 1 "package may not know cache" lib/package/User.h '#include "cache/Thing.h"'
expect 1 "cache may not know device" lib/cache/User.cpp '#include "device/Thing.h"'
expect 1 "Thing.h is no file of a room" lib/cache/User.cpp '#include "Thing.h"'
expect 1 "cache/Gone.h is no file of a room" lib/cache/User.cpp '#include "cache/Gone.h"'
expect 1 "lies in no room" lib/User.cpp ''
expect 1 "lies in no room" lib/attic/User.cpp ''
expect 1 "the runtime includes the compiler's mlir/IR/Value.h" lib/capi/User.cpp '#include "mlir/IR/Value.h"'
expect 1 "the runtime includes the compiler's llvm/ADT/Twine.h" include/user.h '#include <llvm/ADT/Twine.h>'
