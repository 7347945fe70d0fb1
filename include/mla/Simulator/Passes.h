//===- Passes.h - the simulator as passes ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_SIMULATOR_PASSES_H
#define MLA_SIMULATOR_PASSES_H

#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"

#include "mlir/Pass/Pass.h"

namespace mlac::simulator {

#define GEN_PASS_DECL
#include "mla/Simulator/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "mla/Simulator/Passes.h.inc"

} // namespace mlac::simulator

#endif // MLA_SIMULATOR_PASSES_H
