//===- GraphDialect.h - recorded graphs of models ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_GRAPH_IR_GRAPHDIALECT_H
#define MLA_DIALECT_GRAPH_IR_GRAPHDIALECT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"

#include "mla/Dialect/Graph/IR/GraphDialect.h.inc"
#define GET_ATTRDEF_CLASSES
#include "mla/Dialect/Graph/IR/GraphAttrs.h.inc"
#define GET_OP_CLASSES
#include "mla/Dialect/Graph/IR/GraphOps.h.inc"

namespace mlir::graph {
/// Names of a graph's arguments, strings: what is called with, and what the archive holds
/// (parameters, buffers and constants).
inline constexpr llvm::StringLiteral kInputAttr = "graph.input", kWeightAttr = "graph.weight";
/// The numbers of a small weight, beside its name.
inline constexpr llvm::StringLiteral kValuesAttr = "graph.values";
/// Of a graph's function, a unit: no operator of another library writes to what it takes.
inline constexpr llvm::StringLiteral kFunctionalAttr = "graph.functional";
} // namespace mlir::graph

#endif // MLA_DIALECT_GRAPH_IR_GRAPHDIALECT_H
