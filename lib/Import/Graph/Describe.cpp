//===- Describe.cpp - a graph's numbers in words ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Evaluate.h"
#include "MatchLayer.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace mlac::graph;
using llvm::ArrayRef;

bool mlac::graph::readsAttention(const Expressions &expressions, uint32_t projection) {
  ArrayRef<Expr> row = expressions.vector(expressions[{projection, 0}].a);
  return llvm::any_of(row, [&](Expr expr) { return expressions[expr].kind == SourceKind::Attend; });
}

static std::string describeBand(const Expressions &expressions, Expr expr) {
  std::optional<KeyBand> band = expressions.getMaskBand(expr);
  if (!band)
    band = expressions.getBand(expr);
  if (!band)
    return "a mask";
  auto name = [](int32_t end, int32_t open) {
    return end == open ? std::string("any") : std::to_string(end);
  };
  return std::string("a mask of keys ") + (band->isOutside ? "not " : "") + "from " +
         name(band->least, kOpenBelow) + " to " + name(band->most, kOpenAbove) +
         " tokens before the query";
}

std::string mlac::graph::describe(const Expressions &expressions, Expr expr) {
  const Source &source = expressions[expr];
  switch (source.kind) {
  case SourceKind::Undefined:
    return "memory that nothing was written to";
  case SourceKind::Argument:
    return "an input or weight as it stands";
  case SourceKind::Linear:
    return "row " + std::to_string(expr.index) + " of a projection";
  case SourceKind::Opaque: {
    const Source &root = source.cause ? *source.cause : source;
    return Evaluator::describe(root.node) + ": " + root.reason.str();
  }
  case SourceKind::Constant:
    return "a constant";
  case SourceKind::Sum:
    return "a sum";
  case SourceKind::Product:
    if (std::isinf(source.number))
      return "a product with an infinite number, which is not a number where the other is 0";
    return "a product";
  case SourceKind::Apply:
    return "a function of a number";
  case SourceKind::Mean:
    return "a mean";
  case SourceKind::Dot:
    return "a product of a query and a key";
  case SourceKind::Softmax:
    return "a softmax";
  case SourceKind::Attend:
    return "a sum over keys";
  case SourceKind::Complex:
    return "a complex number";
  case SourceKind::Position:
    return "a token's position";
  case SourceKind::KeyPosition:
    return "a key's position";
  case SourceKind::Band:
  case SourceKind::Mask:
    return describeBand(expressions, expr);
  case SourceKind::Largest:
    return "the largest of a row";
  case SourceKind::Beside:
    return "scores with a sink";
  }
  llvm_unreachable("unknown source");
}

const Source *mlac::graph::findOpaque(const Expressions &expressions, ArrayRef<Expr> row,
                                      bool crossesProjections) {
  llvm::DenseSet<uint32_t> seen;
  llvm::SmallVector<Expr> left(llvm::reverse(row));
  while (!left.empty()) {
    Expr expr = left.pop_back_val();
    if (!seen.insert(expr.source).second)
      continue;
    const Source &source = expressions[expr];
    if (source.kind == SourceKind::Opaque)
      return source.cause ? source.cause : &source;
    llvm::append_range(left, source.operands);
    if ((source.kind == SourceKind::Linear && crossesProjections) ||
        source.kind == SourceKind::Mean || source.kind == SourceKind::Dot)
      llvm::append_range(left, expressions.vector(source.a));
    if (source.kind == SourceKind::Dot)
      llvm::append_range(left, expressions.vector(source.b));
  }
  return nullptr;
}
