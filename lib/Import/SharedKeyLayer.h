//===- SharedKeyLayer.h - steps of a DeepSeek-V4 layer ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A layer whose keys are values too (v4.md section 3):
//
//     hidden ── q_a, norm, q_b, norm per head, rope ──────────────> queries ──┐
//       │ ├──── kv, norm, rope ──> pool of the window: the last tokens ───────┤
//       │ └──── compressor ──────> states ──> entries: all, or selected ones ─┤ one softmax, a sink
//       └────── indexer ─────────> index states ──> index ──> top k           │
//                output <── o_b <── o_a of each group of heads <── inverse rope
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_IMPORT_SHAREDKEYLAYER_H
#define MLAC_LIB_IMPORT_SHAREDKEYLAYER_H

#include "mla/Import/CheckpointTensors.h"
#include "mla/Import/ImportConfig.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

namespace mlac {

class SharedKeyLayer {
public:
  SharedKeyLayer(mlir::ModuleOp module, const ModelConfig &config, const ImportOptions &options);

  /// Says which options do not apply, or what pools they cannot have. Comes before the steps.
  llvm::LogicalResult verify();
  /// Adds function `name` for requests of `queryLen` new tokens.
  mlir::func::FuncOp buildStep(llvm::StringRef name, int64_t queryLen);

private:
  using Value = mlir::Value;
  /// A pool and, in the function being built, its newest state.
  struct Pool {
    llvm::StringRef name; ///< empty: the package's first
    mlir::mla::CacheType type;
    Value cache = {};
  };
  /// How rows of a pool are stored.
  struct RowFormat {
    llvm::StringRef name;
    llvm::SmallVector<mlir::mla::CacheField, 2> fields;
    mlir::mla::ScaleRule rule;
  };
  /// What makes entries of `dim` columns: of keys, or of the indexer.
  struct Compressor {
    llvm::StringRef prefix;
    int64_t dim;
    Pool *states, *entries;
  };

  RowFormat plainKeys();
  RowFormat keyFormat();
  mlir::mla::CacheType poolType(const RowFormat &rows, int64_t pageSize, int64_t tokensPerRow,
                                bool hadamard = false);
  mlir::mla::CacheType entryType(const RowFormat &rows, bool hadamard = false);
  mlir::mla::CacheType stateType(int64_t dim);
  /// [T, shape...]
  mlir::RankedTensorType tokens(llvm::ArrayRef<int64_t> shape, mlir::Type type);
  mlir::func::FuncOp createFunction(llvm::StringRef name, mlir::mla::BatchType batchType);
  Value weight(const llvm::Twine &name) { return values.lookup(name.str()); }
  Value project(Value input, Value weight, llvm::ArrayRef<int64_t> shape, mlir::Type type);
  Value projectStates(Value weight, int64_t columns);
  Value splitRows(Value weight, int64_t groups);
  /// Rotates the last columns, by the position of the first of `every` tokens.
  Value rotate(Value rows, int64_t every = 1, bool isInverse = false);
  Value latent(llvm::StringRef projection, llvm::StringRef norm, int64_t width);
  llvm::SmallVector<Value, 2> splitColumns(Value rows,
                                           llvm::ArrayRef<mlir::mla::CacheField> fields);
  void append(Pool &pool, mlir::ValueRange rows);
  llvm::LogicalResult makePools();
  Value buildQuery();
  void appendEntries(const Compressor &compressor);
  Value transform(Value rows);
  Value buildIndexQuery();
  /// Rows that are multiplied with the indexer's keys; scales are null where rows have theirs.
  struct IndexQuery {
    Value rows, scales;
  };
  IndexQuery roundIndexQuery(Value query);
  Value buildSelection();
  Value countEntries();
  /// Attention over the window and, where there are such, entries: [T, N, D].
  Value buildAttention(Value query);
  Value buildOutput(Value heads);

  mlir::OpBuilder builder;
  mlir::Location loc;
  const ModelConfig &config;
  const ImportOptions &options;
  const SharedKeyParams &shared;
  mlir::Type element, single;
  mlir::mla::RopeAttr rope;
  std::vector<CheckpointTensor> tensors;
  Pool window, entries, states, index, indexStates;
  llvm::SmallVector<Pool *> pools; ///< those that the layer has, in the order of arguments

  // Of the function being built.
  llvm::StringMap<Value> values;
  Value hidden, batch, table, queryLatent;
  Value selected; ///< null but where it is given
};

} // namespace mlac

#endif // MLAC_LIB_IMPORT_SHAREDKEYLAYER_H
