//===- MlaDialect.h - multi-head latent attention ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_MLA_IR_MLADIALECT_H
#define MLA_DIALECT_MLA_IR_MLADIALECT_H

#include "mla/Dialect/Real.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

// The table of cache formats: runtime/schema/CacheFormats.h.
namespace mlac::cache {
struct Format;
struct Widths;
enum class Storage : uint8_t;
enum class Part : uint8_t;
} // namespace mlac::cache

namespace mlir::mla {
/// A field of a cache's row: a part of the table of formats, and its widths.
struct CacheField {
  mlac::cache::Part part;
  int64_t heads, columns;

  int64_t getWidth() const { return heads * columns; }
  friend bool operator==(const CacheField &a, const CacheField &b) {
    return a.part == b.part && a.heads == b.heads && a.columns == b.columns;
  }
  friend llvm::hash_code hash_value(const CacheField &field) {
    return llvm::hash_combine(static_cast<uint8_t>(field.part), field.heads, field.columns);
  }
};
} // namespace mlir::mla

#include "mla/Dialect/Mla/IR/MlaDialect.h.inc"
#include "mla/Dialect/Mla/IR/MlaEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "mla/Dialect/Mla/IR/MlaAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "mla/Dialect/Mla/IR/MlaTypes.h.inc"
#define GET_OP_CLASSES
#include "mla/Dialect/Mla/IR/MlaOps.h.inc"

namespace mlir::mla {
/// Names of a step's arguments and results, strings on its function: what callers give,
/// weights, what `prepare` makes of them, what callers get.
inline constexpr llvm::StringLiteral kInputAttr = "mla.input", kWeightAttr = "mla.weight",
                                     kDerivedAttr = "mla.derived", kOutputAttr = "mla.output";
/// A number on a branch between forms: how many new tokens a request must have for the
/// second to be better.
inline constexpr llvm::StringLiteral kCrossoverAttr = "mla.crossover_query_len";
/// Marks an mla.absorbed_attention that mla-split-kv leaves in one piece.
inline constexpr llvm::StringLiteral kUnsplitAttr = "mla.unsplit";
/// Of a step function: its batch is split into decodes, with queries of at most so many
/// tokens, and prefills.
inline constexpr llvm::StringLiteral kDecodeThresholdAttr = "mla.decode_threshold";
/// Of a step function, a unit: chunks of context are there where the engine's workspace holds some,
/// and another branch does without.
inline constexpr llvm::StringLiteral kOptionalChunksAttr = "mla.optional_chunks";

/// Of a cache argument: the name of its pool, a string. One argument of a function may go
/// without: it is the package's first pool.
inline constexpr llvm::StringLiteral kPoolAttr = "mla.pool";

/// Of a module: a #mla.model.
inline constexpr llvm::StringLiteral kModelAttr = "mla.model";

/// A string on a function: the name of a function with a decode threshold, whose batches
/// without prefills this one takes, which needs no table and no result of another part.
inline constexpr llvm::StringLiteral kDecodesOfAttr = "mla.decodes_of";
} // namespace mlir::mla

#endif // MLA_DIALECT_MLA_IR_MLADIALECT_H
