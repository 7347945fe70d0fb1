//===- Expressions.h - the expression table of a package function ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A package function holds one table of int64 expression nodes in topological
// order (runtime/schema/package.fbs). The builder here keeps equal nodes once
// and folds what is known while compiling, so that the runtime evaluates the
// least and equal plans give equal bytes. Node 0 is always the constant 0: an
// expression field that was never set reads as 0.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_PACKAGE_EXPRESSIONS_H
#define MLA_PACKAGE_EXPRESSIONS_H

#include "package_generated.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace mlac {

/// Index of a node in its function's table.
using ExprId = uint32_t;

/// Value of an operator of two operands; nothing when it is not defined (a
/// zero divisor, a result outside int64). Not for Const, Dim, LoopVar, Select.
std::optional<int64_t> foldExpression(package::ExprOp op, int64_t a, int64_t b);

/// Value of node `id`. `dims` follow the function's names, `loops` go from the
/// outermost enclosing loop inwards. Nothing when a step that it needs is
/// undefined; the side of a select that is not chosen is not needed.
std::optional<int64_t> evaluateExpression(llvm::ArrayRef<package::ExprNode> nodes, ExprId id,
                                          llvm::ArrayRef<int64_t> dims,
                                          llvm::ArrayRef<int64_t> loops = {});

/// Builds the table of one function. Functions that return nothing do so when
/// constant operands make the result undefined.
class ExpressionTable {
public:
  ExpressionTable() { constant(0); }

  ExprId constant(int64_t value);
  ExprId dim(llvm::StringRef name);
  /// Induction variable of the loop at `depth`, 0 = outermost.
  ExprId loopVariable(int64_t depth);
  std::optional<ExprId> binary(package::ExprOp op, ExprId a, ExprId b);
  ExprId select(ExprId condition, ExprId whenTrue, ExprId whenFalse);
  /// The least multiple of `multiple` (> 0) at or above `value`.
  std::optional<ExprId> roundUp(ExprId value, int64_t multiple);

  std::optional<int64_t> constantValue(ExprId id) const;
  /// Whether the value may differ between iterations of an enclosing loop.
  bool dependsOnLoop(ExprId id) const { return loopDependent[id]; }

  llvm::ArrayRef<package::ExprNode> nodes() const { return table; }
  llvm::ArrayRef<std::string> dimNames() const { return dims; }

private:
  using Key = std::tuple<package::ExprOp, ExprId, ExprId, ExprId, int64_t>;

  ExprId intern(package::ExprOp op, ExprId a, ExprId b, ExprId c, int64_t value);
  std::optional<ExprId> simplify(package::ExprOp op, ExprId a, ExprId b);

  std::vector<package::ExprNode> table;
  std::vector<bool> loopDependent; // parallel to table
  std::vector<std::string> dims;
  std::map<Key, ExprId> known;
};

} // namespace mlac

#endif // MLA_PACKAGE_EXPRESSIONS_H
