//===- Expressions.cpp - the expression table of a package function ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Package/Expressions.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <limits>
#include <utility>

using namespace mlac;
using package::ExprNode;
using package::ExprOp;

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

/// Signed quotient towards zero; undefined for 0 and for INT64_MIN / -1.
static std::optional<int64_t> divide(int64_t a, int64_t b) {
  if (b == 0 || (a == std::numeric_limits<int64_t>::min() && b == -1))
    return std::nullopt;
  return a / b;
}

static std::optional<int64_t> ceilDivide(int64_t a, int64_t b) {
  std::optional<int64_t> quotient = divide(a, b);
  if (!quotient)
    return std::nullopt;
  bool isInexact = *quotient * b != a;
  bool isPositive = (a > 0) == (b > 0);
  return *quotient + (isInexact && isPositive ? 1 : 0);
}

template <typename Overflows>
static std::optional<int64_t> checked(Overflows overflows, int64_t a, int64_t b) {
  int64_t result;
  if (overflows(a, b, result))
    return std::nullopt;
  return result;
}

std::optional<int64_t> mlac::foldExpression(ExprOp op, int64_t a, int64_t b) {
  switch (op) {
  case ExprOp::Add:
    return checked(llvm::AddOverflow<int64_t>, a, b);
  case ExprOp::Sub:
    return checked(llvm::SubOverflow<int64_t>, a, b);
  case ExprOp::Mul:
    return checked(llvm::MulOverflow<int64_t>, a, b);
  case ExprOp::Div:
    return divide(a, b);
  case ExprOp::CeilDiv:
    return ceilDivide(a, b);
  case ExprOp::Rem:
    return divide(a, b) ? std::optional<int64_t>(a % b) : std::nullopt;
  case ExprOp::Min:
    return std::min(a, b);
  case ExprOp::Max:
    return std::max(a, b);
  case ExprOp::Eq:
    return a == b;
  case ExprOp::Ne:
    return a != b;
  case ExprOp::Lt:
    return a < b;
  case ExprOp::Le:
    return a <= b;
  case ExprOp::Gt:
    return a > b;
  case ExprOp::Ge:
    return a >= b;
  case ExprOp::And:
    return a & b;
  case ExprOp::Or:
    return a | b;
  case ExprOp::Xor:
    return a ^ b;
  case ExprOp::Const:
  case ExprOp::Dim:
  case ExprOp::LoopVar:
  case ExprOp::Select:
    break;
  }
  return std::nullopt;
}

namespace {
/// One evaluation. Shared nodes are visited once.
class Evaluation {
public:
  Evaluation(llvm::ArrayRef<ExprNode> nodes, llvm::ArrayRef<int64_t> dims,
             llvm::ArrayRef<int64_t> loops)
      : nodes(nodes), dims(dims), loops(loops), isDone(nodes.size()), values(nodes.size()) {}

  std::optional<int64_t> at(ExprId id) {
    if (!isDone[id]) {
      values[id] = compute(nodes[id]);
      isDone[id] = true;
    }
    return values[id];
  }

private:
  static std::optional<int64_t> element(llvm::ArrayRef<int64_t> list, int64_t index) {
    if (index < 0 || index >= static_cast<int64_t>(list.size()))
      return std::nullopt;
    return list[index];
  }

  std::optional<int64_t> compute(const ExprNode &node) {
    if (node.op() == ExprOp::Const)
      return node.value();
    if (node.op() == ExprOp::Dim)
      return element(dims, node.value());
    if (node.op() == ExprOp::LoopVar)
      return element(loops, node.value());
    std::optional<int64_t> a = at(node.a());
    if (!a)
      return std::nullopt;
    if (node.op() == ExprOp::Select)
      return at(*a != 0 ? node.b() : node.c());
    std::optional<int64_t> b = at(node.b());
    return b ? foldExpression(node.op(), *a, *b) : std::nullopt;
  }

  llvm::ArrayRef<ExprNode> nodes;
  llvm::ArrayRef<int64_t> dims, loops;
  std::vector<bool> isDone;
  std::vector<std::optional<int64_t>> values;
};
} // namespace

std::optional<int64_t> mlac::evaluateExpression(llvm::ArrayRef<ExprNode> nodes, ExprId id,
                                                llvm::ArrayRef<int64_t> dims,
                                                llvm::ArrayRef<int64_t> loops) {
  return Evaluation(nodes, dims, loops).at(id);
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

ExprId ExpressionTable::intern(ExprOp op, ExprId a, ExprId b, ExprId c, int64_t value) {
  auto [entry, isNew] = known.try_emplace(Key{op, a, b, c, value}, table.size());
  if (isNew) {
    bool isLeaf = op == ExprOp::Const || op == ExprOp::Dim || op == ExprOp::LoopVar;
    bool isDependent =
        isLeaf ? op == ExprOp::LoopVar : loopDependent[a] || loopDependent[b] || loopDependent[c];
    table.emplace_back(op, a, b, c, value);
    loopDependent.push_back(isDependent);
  }
  return entry->second;
}

ExprId ExpressionTable::constant(int64_t value) { return intern(ExprOp::Const, 0, 0, 0, value); }

ExprId ExpressionTable::dim(llvm::StringRef name) {
  auto found = llvm::find(dims, name);
  int64_t index = found - dims.begin();
  if (found == dims.end())
    dims.push_back(name.str());
  return intern(ExprOp::Dim, 0, 0, 0, index);
}

ExprId ExpressionTable::loopVariable(int64_t depth) {
  return intern(ExprOp::LoopVar, 0, 0, 0, depth);
}

std::optional<int64_t> ExpressionTable::constantValue(ExprId id) const {
  if (table[id].op() != ExprOp::Const)
    return std::nullopt;
  return table[id].value();
}

static bool isCommutative(ExprOp op) {
  switch (op) {
  case ExprOp::Add:
  case ExprOp::Mul:
  case ExprOp::Min:
  case ExprOp::Max:
  case ExprOp::Eq:
  case ExprOp::Ne:
  case ExprOp::And:
  case ExprOp::Or:
  case ExprOp::Xor:
    return true;
  default:
    return false;
  }
}

/// Identities that leave an existing node; nothing where none applies.
std::optional<ExprId> ExpressionTable::simplify(ExprOp op, ExprId a, ExprId b) {
  std::optional<int64_t> right = constantValue(b);
  bool rightIsZero = right == 0, rightIsOne = right == 1;
  switch (op) {
  case ExprOp::Add:
  case ExprOp::Or:
  case ExprOp::Xor:
    return rightIsZero ? std::optional<ExprId>(a) : std::nullopt;
  case ExprOp::Sub:
    return rightIsZero ? std::optional<ExprId>(a)
                       : (a == b ? std::optional<ExprId>(constant(0)) : std::nullopt);
  case ExprOp::Mul:
    if (rightIsZero)
      return b;
    return rightIsOne ? std::optional<ExprId>(a) : std::nullopt;
  case ExprOp::Div:
  case ExprOp::CeilDiv:
    return rightIsOne ? std::optional<ExprId>(a) : std::nullopt;
  case ExprOp::Rem:
    return rightIsOne ? std::optional<ExprId>(constant(0)) : std::nullopt;
  case ExprOp::Min:
  case ExprOp::Max:
    return a == b ? std::optional<ExprId>(a) : std::nullopt;
  case ExprOp::Eq:
  case ExprOp::Le:
  case ExprOp::Ge:
    return a == b ? std::optional<ExprId>(constant(1)) : std::nullopt;
  case ExprOp::Ne:
  case ExprOp::Lt:
  case ExprOp::Gt:
    return a == b ? std::optional<ExprId>(constant(0)) : std::nullopt;
  default:
    return std::nullopt;
  }
}

std::optional<ExprId> ExpressionTable::binary(ExprOp op, ExprId a, ExprId b) {
  std::optional<int64_t> left = constantValue(a), right = constantValue(b);
  if (left && right) {
    std::optional<int64_t> value = foldExpression(op, *left, *right);
    return value ? std::optional<ExprId>(constant(*value)) : std::nullopt;
  }
  bool divides = op == ExprOp::Div || op == ExprOp::CeilDiv || op == ExprOp::Rem;
  if (divides && right == 0)
    return std::nullopt;
  // One order for equal sums: constants last, then the older node first.
  if (isCommutative(op) && (left || (!right && b < a)))
    std::swap(a, b);
  if (std::optional<ExprId> simple = simplify(op, a, b))
    return simple;
  return intern(op, a, b, 0, 0);
}

ExprId ExpressionTable::select(ExprId condition, ExprId whenTrue, ExprId whenFalse) {
  if (std::optional<int64_t> value = constantValue(condition))
    return *value != 0 ? whenTrue : whenFalse;
  if (whenTrue == whenFalse)
    return whenTrue;
  return intern(ExprOp::Select, condition, whenTrue, whenFalse, 0);
}

std::optional<ExprId> ExpressionTable::roundUp(ExprId value, int64_t multiple) {
  std::optional<ExprId> units = binary(ExprOp::CeilDiv, value, constant(multiple));
  if (!units)
    return std::nullopt;
  return binary(ExprOp::Mul, *units, constant(multiple));
}
