//===- ShapeCheck.h - shapes against symbols ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifiers here all say "operand a is [T, N, P], operand b [T, P]": a symbol
// is bound by the first static size it meets and compared afterwards, so that
// the error can name the symbol, its value and who bound it. Dynamic sizes
// match anything.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_LIB_DIALECT_MLA_IR_SHAPECHECK_H
#define MLA_LIB_DIALECT_MLA_IR_SHAPECHECK_H

#include "mla/Dialect/Mla/IR/MlaDialect.h"

#include "llvm/ADT/StringMap.h"

namespace mlir::mla {

class ShapeCheck {
public:
  explicit ShapeCheck(Operation *op) : op(op) {}

  /// Gives `symbol` a value known from elsewhere (a cache type, an attribute).
  void bind(StringRef symbol, int64_t size, StringRef origin);

  /// Checks that `value` has one dimension per symbol, of the symbol's size.
  LogicalResult match(StringRef name, Value value, ArrayRef<StringRef> symbols);

  /// Checks that both have one element type.
  LogicalResult sameElement(StringRef firstName, Value first, StringRef name,
                            Value value);

  /// Checks that the optional `value` is there exactly if `symbol` is above 0.
  LogicalResult presentIff(StringRef name, Value value, StringRef symbol);

  /// Checks that `value` has an LSE encoding of base e with -inf for empty
  /// rows, and the shape of that encoding's layout, after `leading`.
  LogicalResult matchLse(StringRef name, Value value, StringRef leading = "");

  /// Checks that `value` has the shape and no encoding: numbers that are no LSEs.
  LogicalResult matchPlain(StringRef name, Value value, ArrayRef<StringRef> symbols);

private:
  struct Binding {
    int64_t size;
    std::string origin;
  };
  Operation *op;
  llvm::StringMap<Binding> bindings;
};

/// The encoding of an LSE tensor, null where it has none.
LseAttr getLseEncoding(Value lse);

RankedTensorType getTensorType(Value value);

/// Checks that an attribute of `op` is a positive finite number.
LogicalResult verifyPositive(Operation *op, StringRef name,
                             const APFloat &value);

/// Checks that an output has the query's element type, or f32 for a partial.
LogicalResult verifyOutputElement(Operation *op, Value query, Value output);

/// Checks an optional LSE, token by token, and that partials of splits have one.
LogicalResult verifySplits(Operation *op, ShapeCheck &check, Value lse, Value numSplits);

/// Gives Lkv and R the widths of the cache.
void bindCacheWidths(ShapeCheck &check, CacheType cache);

/// Checks a latent and a rope key, rows of `cache`, which has their element.
LogicalResult verifyLatentRows(Operation *op, ShapeCheck &check,
                               StringRef tokens, CacheType cache, Value latent,
                               Value ropeKey);

/// Checks a tensor for each field of `cache`, of its widths and element.
LogicalResult verifyCacheRows(Operation *op, StringRef tokens, CacheType cache,
                              ValueRange rows);

/// Checks that the rotations of an indexer's rows, as far as they are to be seen, are the
/// cache's.
LogicalResult verifyIndexRotations(Operation *op, StringRef name, Value rows, CacheType cache);

/// Checks a table of angles: cosines before sines, or those of a pair beside each other.
LogicalResult verifyAngles(Operation *op, ShapeCheck &check, RopeAttr rope, Value table);

/// The type of an operation that returns its only cache operand.
LogicalResult inferCache(ValueRange operands, SmallVectorImpl<Type> &types);

} // namespace mlir::mla

#endif // MLA_LIB_DIALECT_MLA_IR_SHAPECHECK_H
