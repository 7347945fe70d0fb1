//===- VerifyAttrs.h - the attributes that a dialect lends to other ops ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A dialect lists its discardable attributes in a table: the name, the ops that may have it, and
// what it holds. What is not in the table, or not so, is refused by name.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_VERIFYATTRS_H
#define MLA_DIALECT_VERIFYATTRS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace mlac {

/// What an attribute holds, and how an error calls that.
struct AttrContent {
  llvm::StringLiteral expected;
  bool (*holds)(mlir::Attribute);
};
template <typename Attr> bool isOf(mlir::Attribute value) { return llvm::isa<Attr>(value); }
inline constexpr AttrContent kUnitContent = {"no value", isOf<mlir::UnitAttr>};
inline constexpr AttrContent kStringContent = {"a string", isOf<mlir::StringAttr>};
inline constexpr AttrContent kCountContent = {
    "an integer of at least 1", [](mlir::Attribute value) {
      auto count = llvm::dyn_cast<mlir::IntegerAttr>(value);
      return count && count.getValue().isStrictlyPositive();
    }};

/// Where an attribute may stand.
enum class AttrPlace { Op, Argument, Result };

struct LentAttr {
  llvm::StringLiteral name;
  AttrPlace place;
  /// Names of ops, separated by blanks.
  llvm::StringLiteral ops;
  AttrContent content;
};

/// Checks `attribute` of `op`, of one of its arguments or results.
inline mlir::LogicalResult verifyLentAttr(mlir::Operation *op, mlir::NamedAttribute attribute,
                                          AttrPlace place, llvm::ArrayRef<LentAttr> table) {
  llvm::StringRef name = attribute.getName().strref();
  const LentAttr *found = llvm::find_if(
      table, [&](const LentAttr &lent) { return lent.name == name && lent.place == place; });
  if (found == table.end()) {
    constexpr llvm::StringLiteral kPlaces[] = {"ops", "arguments", "results"};
    mlir::InFlightDiagnostic error = op->emitError("unknown attribute ")
                                     << name << "; those of " << kPlaces[static_cast<size_t>(place)]
                                     << " are";
    for (const LentAttr &lent : table)
      if (lent.place == place)
        error << " " << lent.name;
    return error;
  }
  llvm::SmallVector<llvm::StringRef> ops;
  found->ops.split(ops, ' ');
  if (!llvm::is_contained(ops, op->getName().getStringRef()))
    return op->emitError() << name << " is for " << found->ops;
  if (found->content.holds(attribute.getValue()))
    return mlir::success();
  return op->emitError("expected ")
         << name << " to be " << found->content.expected << ", got " << attribute.getValue();
}

} // namespace mlac

#endif // MLA_DIALECT_VERIFYATTRS_H
