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
#include "FindLatents.h"
#include "MatchParts.h"

#include "mla/Import/CacheAttention.h"

namespace mlac::graph {

struct FoundAttention {
  mlir::graph::NodeOp node; ///< whose result is the attention's
  HeadDims resultDims;
  AttentionOperands operands;
  AttentionInfo info;
  int64_t keyHeads = 0;          ///< of the keys and values of the graph's products
  std::optional<uint32_t> mask;  ///< an input of the graph; none: the graph makes its own
  std::optional<uint32_t> sinks; ///< an argument of the graph
  std::optional<FoundRope> rope; ///< what the operands are behind
  std::optional<FoundLatents> latents;
  std::string whyNoLatents; ///< where there are none
};

class AttentionFinder {
public:
  /// `hasOneTable`: whether all attention that rotates by frequencies does so by the same.
  AttentionFinder(mlir::func::FuncOp function, bool hasOneTable)
      : function(function), evaluator(function, expressions), hasOneTable(hasOneTable) {}
  /// All of the graph's, in order. Fails with a diagnostic at the node.
  mlir::FailureOr<std::vector<FoundAttention>> run();

private:
  bool attends(mlir::Value value);
  mlir::graph::NodeOp findProduct(mlir::graph::NodeOp node);
  bool movesAttention(mlir::graph::NodeOp node);
  std::optional<AttentionOperands> findOperands(mlir::graph::NodeOp node);
  llvm::Expected<FoundAttention> match(mlir::graph::NodeOp node);
  llvm::Error readOperands(FoundAttention &found, OperandRows &rows);
  static void countKvHeads(const OperandRows &rows, AttentionInfo &info);
  llvm::Expected<std::vector<Scores>> matchScores(FoundAttention &found, const OperandRows &rows);
  llvm::Error checkValues(FoundAttention &found, const OperandRows &rows);
  llvm::Error matchHeads(FoundAttention &found);
  llvm::Error matchLatents(FoundAttention &found, const OperandRows &rows);
  llvm::Error matchMask(const Scores &scores, FoundAttention &found);
  std::optional<std::string> findLost(mlir::graph::NodeOp node);
  bool areScores(mlir::Value value);
  const Source *getOpaque(mlir::Value value);
  mlir::LogicalResult refuseToFindNone();
  bool hasScores(Expr expr) const;
  mlir::LogicalResult checkReaders(llvm::ArrayRef<FoundAttention> all);
  llvm::Error matchSinks(const std::vector<Scores> &heads, FoundAttention &found);

  mlir::func::FuncOp function;
  Expressions expressions;
  Evaluator evaluator;
  bool hasOneTable;
  std::optional<RopeInfo> table; ///< of positions, by the first frequencies that were found
};

} // namespace mlac::graph

#endif // MLA_LIB_IMPORT_GRAPH_FINDATTENTION_H
