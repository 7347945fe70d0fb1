//===- CheckpointTensors.h - tensors a checkpoint must hold ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The weights of one attention module by their Hugging Face names without the
// prefix up to `self_attn.` (LongCat: `self_attn.0.`, `self_attn.1.`), stored
// [out, in]. Tensor parallelism shards heads: rows of q_b/q_proj/kv_b and of k_proj/v_proj, columns
// of o_proj; everything else is replicated.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_IMPORT_CHECKPOINTTENSORS_H
#define MLA_IMPORT_CHECKPOINTTENSORS_H

#include "mla/Import/ModelConfig.h"

#include "llvm/ADT/SmallVector.h"

namespace mlac {

using TensorShape = llvm::SmallVector<int64_t, 2>;

struct CheckpointTensor {
  std::string name;
  TensorShape shape;                ///< in the checkpoint
  std::optional<unsigned> shardDim; ///< dim split over ranks
  std::string formula;              ///< the shape in the paper's symbols
  bool isSingle = false;            ///< computed with in f32 whatever the activations are
  /// The shape on one of `ranks` ranks.
  TensorShape shapeOnRank(int64_t ranks) const;
};

/// The tensors of one attention module, in the order of the computation.
std::vector<CheckpointTensor> getCheckpointTensors(const ModelConfig &config);

/// Those of them that a step function of one rank takes: with several ranks
/// `o_proj.bias` is left to whoever reduces their outputs.
std::vector<CheckpointTensor> getStepTensors(const ModelConfig &config);

/// The lightning indexer's tensors (`indexer.` prefix); none without indexer.
std::vector<CheckpointTensor> getIndexerTensors(const ModelConfig &config);

/// What checkpoints may call a tensor: "a.weight" also "a.qweight" or "a.weight_packed".
std::vector<std::string> getStoredNames(llvm::StringRef name);

struct NamedShape {
  llvm::StringRef name;
  llvm::ArrayRef<int64_t> shape;
};

/// Compares what a checkpoint's attention module holds with the configuration.
/// The error lists every missing, unexpected or misshapen tensor, with all
/// dims. Stored rotary frequencies (`rotary_emb.inv_freq`), the indexer's tensors,
/// where the model has one, and scales, where weights may be codes, may be present or absent.
llvm::Error checkCheckpointShapes(const ModelConfig &config, llvm::ArrayRef<NamedShape> tensors);

} // namespace mlac

#endif // MLA_IMPORT_CHECKPOINTTENSORS_H
