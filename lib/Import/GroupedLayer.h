//===- GroupedLayer.h - steps of a layer with groups of heads ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Multi-head, grouped-query and multi-query attention (paged-cache.md sections 9, 10):
//
//     hidden ── q_proj, norm per head, rope ─────────────> queries ──┐
//       │ ├──── k_proj, norm per head, rope ──┬─> pool ──────────────┤ softmax
//       │ └──── v_proj ───────────────────────┘                      │
//                                   output <── o_proj <──────────────┘
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_IMPORT_GROUPEDLAYER_H
#define MLAC_LIB_IMPORT_GROUPEDLAYER_H

#include "mla/Import/CheckpointTensors.h"
#include "mla/Import/ImportConfig.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

namespace mlac {

class GroupedLayer {
public:
  GroupedLayer(mlir::ModuleOp module, const ModelConfig &config, const ImportOptions &options);

  /// Says which options do not apply, or what pool they cannot have.
  llvm::LogicalResult verify();
  /// Adds function `name` for requests of `queryLen` new tokens.
  mlir::func::FuncOp buildStep(llvm::StringRef name, int64_t queryLen);

private:
  using Value = mlir::Value;

  /// [T, shape...] of the activations' type.
  mlir::RankedTensorType tokens(llvm::ArrayRef<int64_t> shape);
  mlir::func::FuncOp createFunction(llvm::StringRef name, mlir::mla::BatchType batchType);
  Value weight(const llvm::Twine &name) { return values.lookup(name.str()); }
  /// [T, heads, D] of `projection`.
  Value projectHeads(llvm::StringRef projection, int64_t heads);
  /// The same, normalised by `norm` where the model does, and rotated.
  Value buildRows(llvm::StringRef projection, llvm::StringRef norm, int64_t heads);

  mlir::OpBuilder builder;
  mlir::Location loc;
  const ModelConfig &config;
  const ImportOptions &options;
  mlir::Type element;
  mlir::mla::RopeAttr rope;       ///< null without rotated channels
  mlir::mla::CacheType cacheType; ///< null before verify()
  std::vector<CheckpointTensor> tensors;

  // Of the function being built.
  llvm::StringMap<Value> values;
  Value hidden, batch, cache, table;
};

} // namespace mlac

#endif // MLAC_LIB_IMPORT_GROUPEDLAYER_H
