//===- FindAttention.h - the attention in a whole model's graph ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An attention is a node whose numbers are sums over keys: scaled_dot_product_attention, or the
// second product of an eager one, whose weights lead back to the first. Its operands are what
// an operator over caches takes; their numbers say which heads share keys, and the scores' what is
// done to them.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_LIB_IMPORT_GRAPH_FINDATTENTION_H
#define MLA_LIB_IMPORT_GRAPH_FINDATTENTION_H

#include "Evaluate.h"
#include "FindRope.h"
#include "MatchParts.h"

#include "mla/Import/CacheAttention.h"

namespace mlac::graph {

/// The operands of an attention's two products.
struct AttentionOperands {
  mlir::Value query, key, value;
  bool isKeyTransposed = false;
};

struct FoundAttention {
  mlir::graph::NodeOp node; ///< whose result is [batch, heads, tokens, channels]
  AttentionOperands operands;
  AttentionInfo info;
  std::optional<uint32_t> sinks; ///< an argument of the graph
  std::optional<FoundRope> rope; ///< what the operands are behind
};

class AttentionFinder {
public:
  explicit AttentionFinder(mlir::func::FuncOp function)
      : function(function), evaluator(function, expressions) {}
  /// All of the graph's, in order. Fails with a diagnostic at the node.
  mlir::FailureOr<std::vector<FoundAttention>> run();

private:
  /// The operands' numbers, head by head; `keyHeads` are the keys' and values'.
  struct OperandRows {
    std::vector<Expr> queries, keys, values;
    int64_t keyHeads = 1;
  };

  bool attends(mlir::Value value);
  std::optional<AttentionOperands> findOperands(mlir::graph::NodeOp node);
  llvm::Expected<FoundAttention> match(mlir::graph::NodeOp node);
  llvm::Error readOperands(FoundAttention &found, OperandRows &rows);
  static void countKvHeads(const OperandRows &rows, AttentionInfo &info);
  llvm::Expected<std::vector<Scores>> matchScores(FoundAttention &found, const OperandRows &rows);
  llvm::Error checkValues(FoundAttention &found, const OperandRows &rows);
  llvm::Error matchHeads(FoundAttention &found);
  llvm::Error matchMask(const Scores &scores, AttentionInfo &info);
  llvm::Error matchSinks(const std::vector<Scores> &heads, FoundAttention &found);

  mlir::func::FuncOp function;
  Expressions expressions;
  Evaluator evaluator;
};

} // namespace mlac::graph

#endif // MLA_LIB_IMPORT_GRAPH_FINDATTENTION_H
