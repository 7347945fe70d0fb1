//===- TokenRows.h - values with a row for each token ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What an attention needs may be a value that its operands are not computed from by reading, as
// where a graph copies rows into the slices of new memory. So it is looked for by its numbers.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_LIB_IMPORT_GRAPH_TOKENROWS_H
#define MLA_LIB_IMPORT_GRAPH_TOKENROWS_H

#include "Evaluate.h"

namespace mlac::graph {

struct RowQuery {
  llvm::ArrayRef<Expr> numbers;
  bool mayBeWider = false; ///< more numbers may follow in a row
  mlir::Type element = {}; ///< null: any
};

/// The value nearest in front of `node` whose rows are these numbers: [batch, tokens, channels],
/// with dimensions of 1 among those in front. Null: there is none.
mlir::Value findTokenRows(mlir::func::FuncOp function, Evaluator &evaluator,
                          mlir::graph::NodeOp node, const RowQuery &query);

} // namespace mlac::graph

#endif // MLA_LIB_IMPORT_GRAPH_TOKENROWS_H
