//===- TokenAngles.h - tables with a row for each token ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With this attribute on mla.rope or mla.grouped_append, row t of the table has the angles of the
// step's token t, whatever its position: of models whose angles are not those of a position alone,
// and of tables that the caller has.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_MLA_IR_TOKENANGLES_H
#define MLA_DIALECT_MLA_IR_TOKENANGLES_H

#include "mlir/IR/Operation.h"

namespace mlir::mla {

inline constexpr llvm::StringLiteral kByTokenAttr = "mla.by_token";

inline bool hasTokenAngles(Operation *op) { return op->hasAttr(kByTokenAttr); }

} // namespace mlir::mla

#endif // MLA_DIALECT_MLA_IR_TOKENANGLES_H
