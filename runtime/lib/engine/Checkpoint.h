//===- Checkpoint.h - a model's tensors, in one file or many ----*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A safetensors file, or a folder as Hugging Face publishes models:
//
//   config.json                        read for its quantization_config alone
//   model.safetensors                  all tensors, or
//   model.safetensors.index.json       {"weight_map": {tensor: shard, ...}} and the shards
//
// Shards are opened when a tensor of theirs is asked for, and stay open. The attentions
// of the model are the prefixes of its kv_b_proj weights, or where there are none of its k_proj
// weights, in the order of the numbers in them ("model.layers.2.self_attn." before
// "model.layers.10.self_attn.").
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_CHECKPOINT_H
#define MLAC_RUNTIME_CHECKPOINT_H

#include "engine/Safetensors.h"
#include "engine/WeightMatch.h"

#include <memory>

namespace mlac::runtime {

class Checkpoint {
public:
  static Status open(const std::string &path, std::shared_ptr<Checkpoint> &checkpoint);

  const std::string &path() const { return path_; }
  /// "model.layers.0.self_attn." and so on.
  const std::vector<std::string> &attentions() const { return attentions_; }
  /// The prefix of attention `index`; MLA_NOT_FOUND names how many there are.
  Status findAttention(int64_t index, std::string &prefix) const;
  /// All tensors whose names begin with `prefix`, by what follows it. They live as long as the
  /// checkpoint. MLA_NOT_FOUND or MLA_CORRUPT names a shard that is missing or lacks one.
  Status readUnder(std::string_view prefix, SourceTensors &tensors);
  /// One tensor and its name, which live as long as the checkpoint.
  Status find(std::string_view name, const std::string *&known, const SourceTensor *&tensor);
  /// The text of config.json's quantization_config; nothing where there is none.
  const std::string &quantisation() const { return quantisation_; }
  /// Of a single file's header.
  const std::map<std::string, std::string> &metadata() const { return metadata_; }

private:
  explicit Checkpoint(std::string path) : path_(std::move(path)) {}

  using Shards = std::map<std::string, std::unique_ptr<Safetensors>, std::less<>>;

  Status openFile(const std::string &file);
  Status openFolder();
  Status readIndex(const std::string &file);
  Status readConfig();
  Status getShard(std::string_view tensor, const std::string &shard, const Safetensors *&file);
  Status read(std::string_view name, const std::string &shard, SourceTensor &tensor);
  void listAttentions(std::string_view projection);

  std::string path_, folder;                               // folder of the shards
  std::map<std::string, std::string, std::less<>> shardOf; // by tensor
  Shards shards;
  std::vector<std::string> attentions_;
  std::string quantisation_;
  std::map<std::string, std::string> metadata_;
  SourceTensors asked; // what `find` has given away
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_CHECKPOINT_H
