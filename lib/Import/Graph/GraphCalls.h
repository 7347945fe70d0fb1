//===- GraphCalls.h - new nodes of a recorded graph ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_LIB_IMPORT_GRAPH_GRAPHCALLS_H
#define MLA_LIB_IMPORT_GRAPH_GRAPHCALLS_H

#include "mla/Dialect/Graph/IR/GraphDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlac::graph {

/// Operands of a node by their names, in order, and constants.
struct CallOperands {
  llvm::SmallVector<mlir::Value> values;
  llvm::SmallVector<mlir::NamedAttribute> arguments;

  void add(llvm::StringRef name, mlir::Value value);
  void add(llvm::StringRef name, mlir::Attribute constant);
  void add(llvm::StringRef name, int64_t constant);
  void add(llvm::StringRef name, double constant);
  void add(llvm::StringRef name, llvm::StringRef constant);

  mlir::MLIRContext *context;
};

/// The name of a value: its node's result, or the argument's.
std::string getName(mlir::func::FuncOp function, mlir::Value value);

/// Makes nodes of aten where `builder` is.
class GraphCalls {
public:
  explicit GraphCalls(mlir::func::FuncOp function)
      : builder(function.getContext()), function(function) {}

  CallOperands makeOperands() const { return {{}, {}, builder.getContext()}; }
  mlir::Value call(llvm::StringRef target, const CallOperands &operands, mlir::Type result,
                   const llvm::Twine &name);
  /// Every `step`-th of `count` from `first` on.
  mlir::Value slice(mlir::Value value, int64_t dim, int64_t first, int64_t count, int64_t step,
                    const llvm::Twine &name);
  mlir::Value permute(mlir::Value value, llvm::ArrayRef<int64_t> order, const llvm::Twine &name);
  /// Of matrices in the last two dimensions.
  mlir::Value multiply(mlir::Value left, mlir::Value right, const llvm::Twine &name);
  /// A size of -1 is what is left.
  mlir::Value unflatten(mlir::Value value, int64_t dim, llvm::ArrayRef<int64_t> sizes,
                        const llvm::Twine &name);
  /// So many dimensions as one.
  mlir::Value flatten(mlir::Value value, int64_t dim, int64_t count, const llvm::Twine &name);
  /// Without the dimensions of 1 but the first and the last two.
  mlir::Value squeeze(mlir::Value value, const llvm::Twine &name);

  mlir::Value addInput(mlir::Type type, llvm::StringRef name);
  /// That of the graph, if it has one.
  mlir::Value findOrAddInput(mlir::Type type, llvm::StringRef name);

  mlir::OpBuilder builder;

private:
  CallOperands makeOperandsOf(mlir::Value self) const;
  mlir::Value callOn(mlir::Value self, llvm::StringRef target, const CallOperands &operands,
                     llvm::ArrayRef<int64_t> shape, const llvm::Twine &name);

  mlir::func::FuncOp function;
};

} // namespace mlac::graph

#endif // MLA_LIB_IMPORT_GRAPH_GRAPHCALLS_H
