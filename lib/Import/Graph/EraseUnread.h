//===- EraseUnread.h - what a graph no longer reads ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_LIB_IMPORT_GRAPH_ERASEUNREAD_H
#define MLA_LIB_IMPORT_GRAPH_ERASEUNREAD_H

#include "mla/Dialect/Graph/IR/GraphDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlac::graph {

/// Erases `node`, if nothing reads it, and what only it read. Writes to memory stay.
void eraseWithOperands(mlir::graph::NodeOp node);

/// Erases new memory of the graph that is written and not read, with what only the writes read.
void eraseUnreadMemory(mlir::func::FuncOp function);

} // namespace mlac::graph

#endif // MLA_LIB_IMPORT_GRAPH_ERASEUNREAD_H
