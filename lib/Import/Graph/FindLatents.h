//===- FindLatents.h - keys and values made of latents ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where all heads' keys, but for channels that they share, and all values are rows of one weight
// times one row of a token, that row and the shared channels are all that a cache has to hold
// (DeepSeek-V2, section 2.1). Both are values of the graph, whatever made them: norms, biases and
// factors before the latent do not matter.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_LIB_IMPORT_GRAPH_FINDLATENTS_H
#define MLA_LIB_IMPORT_GRAPH_FINDLATENTS_H

#include "FindRope.h"

#include "mla/Import/CacheAttention.h"

#include "llvm/Support/Error.h"

namespace mlac::graph {

/// The operands of an attention's two products.
struct AttentionOperands {
  mlir::Value query, key, value;
  bool isKeyTransposed = false;
  HeadDims queryDims = {}, keyDims = {}, valueDims = {};
};

/// The operands' numbers, head by head; `keyHeads` are the keys' and values'.
struct OperandRows {
  std::vector<Expr> queries, keys, values;
  int64_t keyHeads = 1;
};

struct FoundLatents {
  LatentInfo info;               ///< without rope, which is in `rope`
  mlir::Value latent, key;       ///< the shared channels of keys
  uint32_t weight = 0;           ///< an argument: of each head [keys, values], from the latent
  std::optional<FoundRope> rope; ///< of queries and of the shared channels
};

class LatentFinder {
public:
  /// `table`: see RopeFinder.
  LatentFinder(mlir::func::FuncOp function, Expressions &expressions, Evaluator &evaluator,
               std::optional<RopeInfo> &table)
      : function(function), expressions(expressions), evaluator(evaluator), table(table) {}
  /// The error says what is not so.
  llvm::Expected<FoundLatents> find(mlir::graph::NodeOp node, const AttentionOperands &operands,
                                    const AttentionInfo &attention, const OperandRows &rows);

private:
  llvm::Error findShared(const AttentionInfo &attention, const OperandRows &rows);
  llvm::Error matchUpProjection(const AttentionInfo &attention, const OperandRows &rows);
  void findRope(mlir::graph::NodeOp node, const AttentionOperands &operands,
                const AttentionInfo &attention, const OperandRows &rows);

  mlir::func::FuncOp function;
  Expressions &expressions;
  Evaluator &evaluator;
  std::optional<RopeInfo> &table;
  FoundLatents found;
  uint32_t up = 0; ///< the source of the projection's rows
};

} // namespace mlac::graph

#endif // MLA_LIB_IMPORT_GRAPH_FINDLATENTS_H
