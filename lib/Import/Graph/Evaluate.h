//===- Evaluate.h - follows the numbers of a recorded graph ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs a graph node by node over expressions (Expressions.h) instead of numbers. What a node is not
// known to do gives opaque numbers, which matter only where something is made of them.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_LIB_IMPORT_GRAPH_EVALUATE_H
#define MLA_LIB_IMPORT_GRAPH_EVALUATE_H

#include "Layout.h"

#include "mla/Dialect/Graph/IR/GraphDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/StringSaver.h"

#include <unordered_map>

namespace mlac::graph {

/// Memory that nothing was written to: which of its dimensions are tokens is what the first
/// tensor that is written to it says.
struct Fresh {
  llvm::SmallVector<Size, 4> sizes;
  Expr fill;
  std::optional<Tensor> made;
};

/// Channels start, start + step, ... of fresh memory.
struct FreshSlice {
  int64_t dim, start, count, step;
};

/// What a value of the graph stands for; nothing: it is not followed.
struct Cell {
  std::optional<Tensor> tensor;
  std::optional<Size> size;
  /// A weight matrix, the number of its argument, and whether it is transposed.
  std::optional<uint32_t> matrix;
  bool isTransposed = false;
  std::shared_ptr<Fresh> fresh;
  llvm::SmallVector<FreshSlice, 1> slices;
  /// Why it is not followed, where not even its dimensions are.
  const Source *opaque = nullptr;

  Cell() = default;
  Cell(Tensor tensor) : tensor(std::move(tensor)) {}
};

/// As C prints it shortest: -10000, 1e-06.
std::string printNumber(double number);

class Evaluator {
public:
  Evaluator(mlir::func::FuncOp function, Expressions &expressions);
  void run();

  const Cell &operator[](mlir::Value value) { return cells[value.getAsOpaquePointer()]; }
  /// Every projection of rows whose numbers lie in `cells`, in order: its node and source.
  llvm::ArrayRef<std::pair<mlir::graph::NodeOp, uint32_t>> projections() const { return linears; }
  /// The first node, or null, that may write to memory in a way that is not followed, and why:
  /// after it, any number may be another.
  std::pair<mlir::graph::NodeOp, llvm::StringRef> lostWrite() const { return lost; }
  /// Whether torch verified that no operator writes to what it takes.
  bool isFunctional() { return function->hasAttr(mlir::graph::kFunctionalAttr); }
  /// "node 'x' (aten.op) in path: Class".
  static std::string describe(mlir::Operation *node);

private:
  friend class Call;

  Cell &cellOf(mlir::Value value) { return cells[value.getAsOpaquePointer()]; }
  std::optional<Dims> label(mlir::Type type, bool isInput) const;
  std::optional<Dim> labelAxis(int64_t size, Axis axis) const;
  void findTokens();
  void readArguments();
  void evaluate(mlir::graph::NodeOp node);
  bool mayWrite(mlir::graph::NodeOp node);
  void makeOpaque(mlir::graph::NodeOp node, llvm::StringRef reason);
  const Source *findCause(mlir::graph::NodeOp node);

  mlir::func::FuncOp function;
  Expressions &expressions;
  std::unordered_map<const void *, Cell> cells; ///< by value; cells stay where they are
  Size batch, tokens;
  size_t numbers = 0; ///< of all tensors so far
  std::pair<mlir::graph::NodeOp, llvm::StringRef> lost;
  std::vector<std::pair<mlir::graph::NodeOp, uint32_t>> linears;
  llvm::BumpPtrAllocator memory;
  llvm::StringSaver reasons{memory};
};

} // namespace mlac::graph

#endif // MLA_LIB_IMPORT_GRAPH_EVALUATE_H
