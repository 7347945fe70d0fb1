//===- Passes.h - passes on the Hopper level ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_SM90_TRANSFORMS_PASSES_H
#define MLA_DIALECT_SM90_TRANSFORMS_PASSES_H

#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"

#include "mlir/Pass/Pass.h"

namespace mlir::sm90 {

#define GEN_PASS_DECL
#include "mla/Dialect/Sm90/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "mla/Dialect/Sm90/Transforms/Passes.h.inc"

} // namespace mlir::sm90

#endif // MLA_DIALECT_SM90_TRANSFORMS_PASSES_H
