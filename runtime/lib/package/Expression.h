//===- Expression.h - expressions of a launch plan --------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Evaluates a function's table of int64 expressions (package.fbs). A node whose
// value is undefined (zero divisor, result outside int64) is an error only if
// something that is used depends on it: the side of a select that is not chosen
// does not count.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_EXPRESSION_H
#define MLAC_RUNTIME_EXPRESSION_H

#include "base/Status.h"
#include "package/Dims.h"
#include "package_generated.h"

#include <optional>
#include <span>
#include <vector>

namespace mlac::runtime {

namespace fb = ::mlac::package;

/// Checks operators, the topological order and dim indices of a table, and
/// computes for each node how many enclosing loops it needs.
class ExpressionTable {
public:
  /// `dims` gives the meaning of Dim nodes: the function's names resolved.
  static Status make(std::span<const fb::ExprNode> nodes, std::vector<Dim> dims,
                     ExpressionTable &table);

  size_t size() const { return nodes.size(); }

  /// Enclosing loops that node `id` needs: 0 for none.
  uint32_t loopDepth(uint32_t id) const { return depths[id]; }

  bool usesDim(Dim dim) const;
  /// A constant by which some node divides the size `dim`, and which `value` is no multiple
  /// of.
  std::optional<int64_t> findIndivisible(Dim dim, int64_t value) const;
  /// The sizes that the value of node `id` depends on.
  std::vector<Dim> dimsOf(uint32_t id) const;
  /// The nodes that need a loop, in order.
  std::span<const uint32_t> inLoops() const { return inLoops_; }

private:
  friend class Evaluator;
  std::vector<fb::ExprNode> nodes;
  std::vector<uint32_t> inLoops_;
  std::vector<uint32_t> depths;
  std::vector<Dim> dims;
};

/// The values of all nodes of one table; reused without allocating.
class Evaluator {
public:
  void bind(const ExpressionTable &table);
  /// Recomputes every node. `loops`: induction variables, outermost first.
  void update(const DimValues &dims, std::span<const int64_t> loops);
  /// Recomputes those that need a loop, where nothing but `loops` has changed.
  void updateLoops(const DimValues &dims, std::span<const int64_t> loops);
  /// The value of a node, or an error saying that it is undefined.
  Status get(uint32_t id, int64_t &value) const;

private:
  struct Value {
    int64_t value;
    bool isDefined;
  };
  Value compute(const fb::ExprNode &node, const DimValues &dims,
                std::span<const int64_t> loops) const;

  const ExpressionTable *table = nullptr;
  std::vector<Value> values;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_EXPRESSION_H
