//===- Sm90CodeOps.h - ops on rows that are stored as codes ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_SM90_IR_SM90CODEOPS_H
#define MLA_DIALECT_SM90_IR_SM90CODEOPS_H

#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"

#define GET_OP_CLASSES
#include "mla/Dialect/Sm90/IR/Sm90CodeOps.h.inc"

namespace mlir::sm90 {
/// Whether `pool` is [pages, page_size, D] with static page_size, of the tile's element type.
LogicalResult verifyPool(Operation *op, Type pool, Type tile);
} // namespace mlir::sm90

#endif // MLA_DIALECT_SM90_IR_SM90CODEOPS_H
