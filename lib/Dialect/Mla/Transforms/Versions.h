//===- Versions.h - attention in one form or another, decided in the step ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_LIB_DIALECT_MLA_TRANSFORMS_VERSIONS_H
#define MLA_LIB_DIALECT_MLA_TRANSFORMS_VERSIONS_H

#include "mla/Dialect/Mla/IR/MlaDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::mla {

/// Whether a size of the batch is at most `limit`.
Value emitIsAtMost(OpBuilder &b, Location loc, Value batch, StringRef dim, int64_t limit);

/// What `emitOther` makes where `condition` is true, else `attention`, which has one result.
void versionAttention(Operation *attention, Value condition,
                      llvm::function_ref<Value(OpBuilder &)> emitOther);

/// The parts of a batch that a function with a decode threshold splits (mla.batch_part).
Value emitPrefills(OpBuilder &builder, AttentionOp attention);
Value emitDecodes(OpBuilder &builder, AttentionOp attention, int64_t threshold);

/// A copy of `attention` over a part of its batch, in the form that suits it.
AttentionOp emitPart(OpBuilder &builder, AttentionOp attention, Value part, Form form);

/// Whether the batch is the function's own and of any lengths.
bool isWhole(TypedValue<BatchType> batch, func::FuncOp function);

/// Attention of prompts without context over their own rows.
Value emitOwnRows(OpBuilder &b, AttentionOp attention);

} // namespace mlir::mla

#endif // MLA_LIB_DIALECT_MLA_TRANSFORMS_VERSIONS_H
