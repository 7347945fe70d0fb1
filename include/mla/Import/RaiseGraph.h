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

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlac {

/// A weight of the layer: its name in a package, and in the graph.
struct RaisedWeight {
  std::string name, source;
};

struct RaisedLayer {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<RaisedWeight> weights;
};

/// Fails with a diagnostic that names the node, the module it stands in, or what differs from
/// the configuration.
mlir::FailureOr<RaisedLayer> raiseGraph(mlir::func::FuncOp graph, const ModelConfig &config,
                                        const ImportOptions &options);

} // namespace mlac

#endif // MLA_IMPORT_RAISEGRAPH_H
