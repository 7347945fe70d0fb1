//===- CompareLayer.h - a layer and its model's configuration ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whether a layer that was found in a graph is what the configuration says. Every difference is a
// diagnostic. The weights get the names that the configuration's layer has for them.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_LIB_IMPORT_GRAPH_COMPARELAYER_H
#define MLA_LIB_IMPORT_GRAPH_COMPARELAYER_H

#include "MatchLayer.h"

#include "mla/Import/RaiseGraph.h"

namespace mlac::graph {

class Comparison {
public:
  Comparison(mlir::func::FuncOp function, const ModelConfig &config, Expressions &expressions)
      : function(function), config(config), expressions(expressions) {}

  mlir::LogicalResult compare(const LatentLayer &layer);
  mlir::LogicalResult compare(const GroupedLayer &layer);
  mlir::FailureOr<std::vector<RaisedWeight>> nameWeights(const LatentLayer &layer);
  mlir::FailureOr<std::vector<RaisedWeight>> nameWeights(const GroupedLayer &layer);

  /// The window that the configuration says; 0: none.
  int64_t getConfiguredWindow() const { return config.grouped ? config.grouped->window : 0; }

  /// Inputs that rope's cosines and sines are; none where the graph makes them. `layer` was
  /// compared.
  std::optional<RaisedTables> findTables(const Layer &layer);

  /// The name of an argument that has this attribute; empty otherwise.
  llvm::StringRef getName(uint32_t argument, llvm::StringRef attribute);

private:
  /// A weight of the layer's, and the graph's: all of its rows where `rows` is 0.
  struct Role {
    llvm::StringRef name;
    Weight weight;
    int64_t firstRow = 0, rows = 0;
  };

  mlir::LogicalResult compareRope(const Layer &layer);
  void compareDim(llvm::StringRef key, int64_t inGraph, int64_t inConfig);
  void compareNumber(llvm::StringRef what, double inGraph, double inConfig);
  void compareBias(llvm::StringRef projection, bool isInGraph, bool isInConfig);
  mlir::LogicalResult checkTable(Expr table, Function function, size_t index, double expected,
                                 double multiplier);
  mlir::FailureOr<std::vector<RaisedWeight>> nameWeights(llvm::ArrayRef<Role> roles);
  void differ(const llvm::Twine &what, const llvm::Twine &inGraph, const llvm::Twine &inConfig);

  mlir::func::FuncOp function;
  const ModelConfig &config;
  Expressions &expressions;
  bool differs = false;
};

} // namespace mlac::graph

#endif // MLA_LIB_IMPORT_GRAPH_COMPARELAYER_H
