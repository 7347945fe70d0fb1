//===- RaiseGraph.h - a recorded graph to an mla module ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the attention layer in a graph (the `graph` dialect) by its numbers, from the output
// projection backwards, and gives the same `mla` module as the model's configuration does. What
// the graph computes is what counts: a configuration that says otherwise is an error. It is needed
// for what no graph of one layer says, the rotary frequencies and how many positions there are.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_IMPORT_RAISEGRAPH_H
#define MLA_IMPORT_RAISEGRAPH_H

#include "mla/Import/ImportConfig.h"
#include "mla/Import/ModelConfig.h"
#include "mla/Import/RopeTable.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlac {

/// A weight of the layer: its name in a package, and in the graph, of whose weight it may be a run
/// of rows.
struct RaisedWeight {
  std::string name, source;
  int64_t firstRow = 0, rows = 0; ///< rows = 0: all
};

/// An attention layer in a graph, from a value of it to another.
struct RaisedRegion {
  std::string module;        ///< the path and class of what the output projection stands in
  std::string input, output; ///< names of the hidden states and of the layer's output
  std::vector<RaisedWeight> weights;
};

/// A projection of attention that is left to the graph, and why.
struct LeftNode {
  std::string node, reason;
};

/// An input that is the mask of a layer's attention, which is taken to hold what the layer's
/// package computes: whatever it holds.
struct RaisedMask {
  std::string input;
  std::string node, module; ///< of the layer's output projection
  int64_t window = 0;       ///< that the configuration says; 0: none
};

/// Inputs that are the cosines and sines of a layer's rope, which are taken to hold those of the
/// configuration: whatever they hold.
struct RaisedTables {
  std::string cos, sin;     ///< one name: complex numbers
  std::string node, module; ///< of the layer's output projection
  RopeTable expected;
};

struct RaisedLayer {
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< of all regions, which differ in weights alone
  std::vector<RaisedRegion> regions;
  std::vector<RaisedMask> masks; ///< one for each region that has such an input
  std::vector<RaisedTables> tables; ///< the same
  std::vector<LeftNode> left;
};

/// Fails with a diagnostic that names the node, the module it stands in, or what differs from
/// the configuration. With `isPartial` a layer is a part of its graph, there may be several, and
/// attention of other kinds is left; else the layer is all that the graph computes.
mlir::FailureOr<RaisedLayer> raiseGraph(mlir::func::FuncOp graph, const ModelConfig &config,
                                        const ImportOptions &options, bool isPartial = false);

} // namespace mlac

#endif // MLA_IMPORT_RAISEGRAPH_H
