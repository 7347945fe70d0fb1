//===- Expression.cpp - expressions of a launch plan ------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "package/Expression.h"

#include <algorithm>
#include <limits>

using namespace mlac::runtime;
using fb::ExprOp;

static bool isLeaf(ExprOp op) {
  return op == ExprOp::Const || op == ExprOp::Dim || op == ExprOp::LoopVar;
}

/// Loops deeper than this are refused; real plans use one or two.
static constexpr int64_t kMaxLoopDepth = 8;

static Status checkNode(const fb::ExprNode &node, size_t index, size_t numDims) {
  ExprOp op = node.op();
  if (op > ExprOp::Select)
    return error(MLA_CORRUPT, "expression ", index, " has unknown operator ", op);
  if (op == ExprOp::Dim && (node.value() < 0 || node.value() >= static_cast<int64_t>(numDims)))
    return error(MLA_CORRUPT, "expression ", index, " names dim ", node.value(), " of ", numDims);
  if (op == ExprOp::LoopVar && (node.value() < 0 || node.value() >= kMaxLoopDepth))
    return error(MLA_CORRUPT, "expression ", index, " names loop depth ", node.value(), ", limit ",
                 kMaxLoopDepth);
  if (isLeaf(op))
    return Status();
  bool hasThird = op == ExprOp::Select;
  if (node.a() >= index || node.b() >= index || (hasThird && node.c() >= index))
    return error(MLA_CORRUPT, "expression ", index,
                 " uses an expression that does not come before it");
  return Status();
}

Status ExpressionTable::make(std::span<const fb::ExprNode> nodes, std::vector<Dim> dims,
                             ExpressionTable &table) {
  table.nodes.assign(nodes.begin(), nodes.end());
  table.dims = std::move(dims);
  table.depths.assign(nodes.size(), 0);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const fb::ExprNode &node = nodes[i];
    MLAC_RETURN_IF_ERROR(checkNode(node, i, table.dims.size()));
    uint32_t &depth = table.depths[i];
    if (node.op() == ExprOp::LoopVar)
      depth = static_cast<uint32_t>(node.value()) + 1;
    if (isLeaf(node.op()))
      continue;
    depth = std::max(table.depths[node.a()], table.depths[node.b()]);
    if (node.op() == ExprOp::Select)
      depth = std::max(depth, table.depths[node.c()]);
  }
  table.inLoops_.clear();
  for (uint32_t i = 0; i < table.depths.size(); ++i)
    if (table.depths[i] > 0)
      table.inLoops_.push_back(i);
  return Status();
}

bool ExpressionTable::usesDim(Dim dim) const {
  return std::any_of(nodes.begin(), nodes.end(), [&](const fb::ExprNode &node) {
    return node.op() == ExprOp::Dim && dims[node.value()] == dim;
  });
}

std::optional<int64_t> ExpressionTable::findIndivisible(Dim dim, int64_t value) const {
  for (const fb::ExprNode &node : nodes) {
    if (node.op() != ExprOp::Div)
      continue;
    const fb::ExprNode &size = nodes[node.a()], &unit = nodes[node.b()];
    bool divides = size.op() == ExprOp::Dim && dims[static_cast<size_t>(size.value())] == dim &&
                   unit.op() == ExprOp::Const && unit.value() > 0;
    if (divides && value % unit.value() != 0)
      return unit.value();
  }
  return std::nullopt;
}

std::vector<Dim> ExpressionTable::dimsOf(uint32_t id) const {
  std::vector<Dim> found;
  std::vector<bool> isUsed(id + 1);
  isUsed[id] = true;
  for (size_t i = id + 1; i-- > 0;) { // operands come before what uses them
    const fb::ExprNode &node = nodes[i];
    if (!isUsed[i])
      continue;
    if (node.op() == ExprOp::Dim)
      found.push_back(dims[node.value()]);
    if (isLeaf(node.op()))
      continue;
    isUsed[node.a()] = isUsed[node.b()] = true;
    if (node.op() == ExprOp::Select)
      isUsed[node.c()] = true;
  }
  return found;
}

void Evaluator::bind(const ExpressionTable &newTable) {
  table = &newTable;
  values.assign(newTable.size(), {0, false});
}

void Evaluator::update(const DimValues &dims, std::span<const int64_t> loops) {
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = compute(table->nodes[i], dims, loops);
}

void Evaluator::updateLoops(const DimValues &dims, std::span<const int64_t> loops) {
  for (uint32_t i : table->inLoops())
    values[i] = compute(table->nodes[i], dims, loops);
}

Status Evaluator::get(uint32_t id, int64_t &value) const {
  if (!values[id].isDefined)
    return error(MLA_CORRUPT, "expression ", id,
                 " of the plan is undefined for these sizes (zero divisor or "
                 "overflow)");
  value = values[id].value;
  return Status();
}

/// False where the quotient does not exist.
static bool canDivide(int64_t a, int64_t b) {
  return b != 0 && !(a == std::numeric_limits<int64_t>::min() && b == -1);
}

/// Value of a binary operator; false where it is undefined.
static bool fold(ExprOp op, int64_t a, int64_t b, int64_t &result) {
  switch (op) {
  case ExprOp::Add:
    return !__builtin_add_overflow(a, b, &result);
  case ExprOp::Sub:
    return !__builtin_sub_overflow(a, b, &result);
  case ExprOp::Mul:
    return !__builtin_mul_overflow(a, b, &result);
  case ExprOp::Div:
    result = canDivide(a, b) ? a / b : 0;
    return canDivide(a, b);
  case ExprOp::CeilDiv:
    if (!canDivide(a, b))
      return false;
    result = a / b + (a % b != 0 && (a > 0) == (b > 0) ? 1 : 0);
    return true;
  case ExprOp::Rem:
    result = canDivide(a, b) ? a % b : 0;
    return canDivide(a, b);
  case ExprOp::Min:
    result = std::min(a, b);
    return true;
  case ExprOp::Max:
    result = std::max(a, b);
    return true;
  case ExprOp::Eq:
    result = a == b;
    return true;
  case ExprOp::Ne:
    result = a != b;
    return true;
  case ExprOp::Lt:
    result = a < b;
    return true;
  case ExprOp::Le:
    result = a <= b;
    return true;
  case ExprOp::Gt:
    result = a > b;
    return true;
  case ExprOp::Ge:
    result = a >= b;
    return true;
  case ExprOp::And:
    result = a & b;
    return true;
  case ExprOp::Or:
    result = a | b;
    return true;
  case ExprOp::Xor:
    result = a ^ b;
    return true;
  default:
    return false;
  }
}

Evaluator::Value Evaluator::compute(const fb::ExprNode &node, const DimValues &dims,
                                    std::span<const int64_t> loops) const {
  if (node.op() == ExprOp::Const)
    return {node.value(), true};
  if (node.op() == ExprOp::Dim)
    return {at(dims, table->dims[node.value()]), true};
  if (node.op() == ExprOp::LoopVar) {
    bool isBound = node.value() < static_cast<int64_t>(loops.size());
    return {isBound ? loops[node.value()] : 0, isBound};
  }
  Value a = values[node.a()], b = values[node.b()];
  if (node.op() == ExprOp::Select) {
    if (!a.isDefined)
      return {0, false};
    return a.value != 0 ? b : values[node.c()];
  }
  int64_t result = 0;
  bool isDefined = a.isDefined && b.isDefined && fold(node.op(), a.value, b.value, result);
  return {result, isDefined};
}
