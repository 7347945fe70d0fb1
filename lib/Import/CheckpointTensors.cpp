//===- CheckpointTensors.cpp - tensors a checkpoint must hold ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Import/CheckpointTensors.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlac;

/// Rotary frequencies that old checkpoints store although they are derived.
static constexpr llvm::StringLiteral kStoredFrequencies = "rotary_emb.inv_freq";

static constexpr unsigned kRows = 0, kColumns = 1;

TensorShape CheckpointTensor::shapeOnRank(int64_t ranks) const {
  TensorShape result = shape;
  if (shardDim)
    result[*shardDim] /= ranks;
  return result;
}

/// Of DeepSeek-V4's `compressor.` or `compressor.indexer.`, entries of `dim` columns.
static void addCompressor(const ModelConfig &config, const std::string &prefix, int64_t dim,
                          std::vector<CheckpointTensor> &result) {
  int64_t every = config.sharedKeys->every, hidden = config.hiddenSize;
  int64_t columns = config.sharedKeys->selectsEntries() ? 2 * dim : dim;
  result.push_back({prefix + "kv_proj.weight", {columns, hidden}, std::nullopt, "[cD, H]"});
  result.push_back({prefix + "gate_proj.weight", {columns, hidden}, std::nullopt, "[cD, H]"});
  result.push_back(
      {prefix + "position_bias", {every, columns}, std::nullopt, "[r, cD]", /*isSingle=*/true});
  result.push_back({prefix + "kv_norm.weight", {dim}, std::nullopt, "[D]", /*isSingle=*/true});
}

/// DeepSeek-V4 (v4.md section 1).
static std::vector<CheckpointTensor> getSharedKeyTensors(const ModelConfig &config) {
  const SharedKeyParams &shared = *config.sharedKeys;
  int64_t hidden = config.hiddenSize, dim = config.vHeadDim, rank = *config.qLoraRank;
  int64_t heads = config.numHeadsTotal, groups = shared.outputGroups;
  std::vector<CheckpointTensor> result = {
      {"q_a_proj.weight", {rank, hidden}, std::nullopt, "[Lq, H]"},
      {"q_a_norm.weight", {rank}, std::nullopt, "[Lq]"},
      {"q_b_proj.weight", {heads * dim, rank}, kRows, "[ND, Lq]"},
      {"kv_proj.weight", {dim, hidden}, std::nullopt, "[D, H]"},
      {"kv_norm.weight", {dim}, std::nullopt, "[D]"},
      {"sinks", {heads}, kRows, "[N]", /*isSingle=*/true},
      {"o_a_proj.weight",
       {groups * shared.outputRank, heads / groups * dim},
       kRows,
       "[G Lo, (N/G)D]"},
      {"o_b_proj.weight", {hidden, groups * shared.outputRank}, kColumns, "[H, G Lo]"},
  };
  if (shared.hasEntries())
    addCompressor(config, "compressor.", dim, result);
  return result;
}

/// Groups of heads: projections, each with its bias, and what lies between them.
static std::vector<CheckpointTensor> getGroupedTensors(const ModelConfig &config) {
  const GroupedParams &grouped = *config.grouped;
  int64_t hidden = config.hiddenSize, dim = config.vHeadDim;
  std::vector<CheckpointTensor> result;
  auto addInput = [&](const std::string &name, int64_t heads, const std::string &formula) {
    result.push_back({name + ".weight", {heads * dim, hidden}, kRows, "[" + formula + ", H]"});
    if (grouped.hasInputBias)
      result.push_back({name + ".bias", {heads * dim}, kRows, "[" + formula + "]"});
  };
  addInput("q_proj", config.numHeadsTotal, "ND");
  addInput("k_proj", grouped.kvHeadsTotal, "Nkv D");
  addInput("v_proj", grouped.kvHeadsTotal, "Nkv D");
  if (grouped.normalisesHeads)
    for (const char *name : {"q_norm.weight", "k_norm.weight"})
      result.push_back({name, {dim}, std::nullopt, "[D]"});
  if (grouped.hasSinks)
    result.push_back({"sinks", {config.numHeadsTotal}, kRows, "[N]", /*isSingle=*/true});
  result.push_back({"o_proj.weight", {hidden, config.numHeadsTotal * dim}, kColumns, "[H, ND]"});
  if (grouped.hasOutputBias)
    result.push_back({"o_proj.bias", {hidden}, std::nullopt, "[H]"});
  return result;
}

std::vector<CheckpointTensor> mlac::getCheckpointTensors(const ModelConfig &config) {
  if (config.sharedKeys)
    return getSharedKeyTensors(config);
  if (config.grouped)
    return getGroupedTensors(config);
  int64_t hidden = config.hiddenSize, latent = config.kvLoraRank, heads = config.numHeadsTotal;
  int64_t queryRows = heads * config.qkHeadDim();
  std::vector<CheckpointTensor> result;
  if (std::optional<int64_t> rank = config.qLoraRank) {
    result.push_back({"q_a_proj.weight", {*rank, hidden}, std::nullopt, "[Lq, H]"});
    if (config.attentionBias)
      result.push_back({"q_a_proj.bias", {*rank}, std::nullopt, "[Lq]"});
    result.push_back({"q_a_layernorm.weight", {*rank}, std::nullopt, "[Lq]"});
    result.push_back({"q_b_proj.weight", {queryRows, *rank}, kRows, "[N(P+R), Lq]"});
  } else {
    result.push_back({"q_proj.weight", {queryRows, hidden}, kRows, "[N(P+R), H]"});
  }
  result.push_back(
      {"kv_a_proj_with_mqa.weight", {config.latentDim(), hidden}, std::nullopt, "[Lkv+R, H]"});
  if (config.attentionBias)
    result.push_back({"kv_a_proj_with_mqa.bias", {config.latentDim()}, std::nullopt, "[Lkv+R]"});
  result.push_back({"kv_a_layernorm.weight", {latent}, std::nullopt, "[Lkv]"});
  result.push_back({"kv_b_proj.weight",
                    {heads * (config.qkNopeHeadDim + config.vHeadDim), latent},
                    kRows,
                    "[N(P+V), Lkv]"});
  result.push_back({"o_proj.weight", {hidden, heads * config.vHeadDim}, kColumns, "[H, NV]"});
  // One bias for the sum over ranks: whoever reduces adds it once.
  if (config.attentionBias)
    result.push_back({"o_proj.bias", {hidden}, std::nullopt, "[H]"});
  return result;
}

std::vector<CheckpointTensor> mlac::getStepTensors(const ModelConfig &config) {
  std::vector<CheckpointTensor> tensors = getCheckpointTensors(config);
  if (config.tensorParallel > 1)
    llvm::erase_if(tensors,
                   [](const CheckpointTensor &tensor) { return tensor.name == "o_proj.bias"; });
  if (config.hasOwnIndexer())
    llvm::append_range(tensors, getIndexerTensors(config));
  return tensors;
}

std::vector<CheckpointTensor> mlac::getIndexerTensors(const ModelConfig &config) {
  if (!config.indexer)
    return {};
  const IndexerParams &indexer = *config.indexer;
  if (config.sharedKeys) {
    std::string prefix = "compressor.indexer.";
    std::vector<CheckpointTensor> result;
    addCompressor(config, prefix, indexer.headDim, result);
    result.push_back({prefix + "q_b_proj.weight",
                      {indexer.numHeads * indexer.headDim, config.queryInputDim()},
                      std::nullopt,
                      "[Hi*Di, Lq]"});
    result.push_back({prefix + "scorer.weights_proj.weight",
                      {indexer.numHeads, config.hiddenSize},
                      std::nullopt,
                      "[Hi, H]"});
    return result;
  }
  return {
      {"indexer.wq_b.weight",
       {indexer.numHeads * indexer.headDim, config.queryInputDim()},
       std::nullopt,
       "[Hi*Di, Lq]"},
      {"indexer.wk.weight", {indexer.headDim, config.hiddenSize}, std::nullopt, "[Di, H]"},
      {"indexer.k_norm.weight", {indexer.headDim}, std::nullopt, "[Di]"},
      {"indexer.k_norm.bias", {indexer.headDim}, std::nullopt, "[Di]"},
      {"indexer.weights_proj.weight",
       {indexer.numHeads, config.hiddenSize},
       std::nullopt,
       "[Hi, H]"},
  };
}

static std::string formatShape(llvm::ArrayRef<int64_t> shape) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << '[';
  llvm::interleaveComma(shape, os);
  os << ']';
  return text;
}

static std::string formatDims(const ModelConfig &config) {
  if (config.grouped)
    return llvm::formatv("H = {0}, N = {1}, Nkv = {2}, D = {3}", config.hiddenSize,
                         config.numHeadsTotal, config.grouped->kvHeadsTotal, config.vHeadDim);
  std::string rank = config.qLoraRank ? std::to_string(*config.qLoraRank) : "none";
  return llvm::formatv("H = {0}, N = {1}, Lq = {2}, Lkv = {3}, P = {4}, R = {5}, V = {6}",
                       config.hiddenSize, config.numHeadsTotal, rank, config.kvLoraRank,
                       config.qkNopeHeadDim, config.qkRopeHeadDim, config.vHeadDim);
}

/// What else a matrix and what belongs to it are called (runtime/lib/engine/WeightMatch.h).
static constexpr llvm::StringLiteral kMatrix = ".weight";
static constexpr llvm::StringLiteral kMatrixNames[] = {".weight", ".qweight", ".weight_packed"};
static constexpr llvm::StringLiteral kScaleNames[] = {".weight_scale_inv", ".weight_scale",
                                                      ".input_scale", ".weight_scale_2"};

std::vector<std::string> mlac::getStoredNames(llvm::StringRef name) {
  if (!name.ends_with(kMatrix))
    return {name.str()};
  std::vector<std::string> names;
  for (llvm::StringRef other : kMatrixNames)
    names.push_back((name.drop_back(kMatrix.size()) + other).str());
  return names;
}

/// Whether `name` is that of scales of a matrix; their shapes are looked at when they are bound.
static bool isScale(llvm::StringRef name, const llvm::StringSet<> &known) {
  for (llvm::StringRef scale : kScaleNames) {
    llvm::StringRef stem = name;
    if (stem.consume_back(scale) && known.contains((stem + kMatrix).str()))
      return true;
  }
  return false;
}

llvm::Error mlac::checkCheckpointShapes(const ModelConfig &config,
                                        llvm::ArrayRef<NamedShape> tensors) {
  llvm::StringMap<llvm::ArrayRef<int64_t>> found;
  for (const NamedShape &tensor : tensors)
    found[tensor.name] = tensor.shape;

  std::vector<std::string> problems;
  llvm::StringSet<> known;
  auto check = [&](const CheckpointTensor &expected, bool required) {
    auto it = found.end();
    for (const std::string &name : getStoredNames(expected.name)) {
      known.insert(name);
      it = it == found.end() ? found.find(name) : it;
    }
    std::string limit =
        llvm::formatv("expected {0} = {1}", expected.formula, formatShape(expected.shape));
    if (it == found.end() && required)
      problems.push_back(llvm::formatv("tensor {0} is missing, {1}", expected.name, limit));
    else if (it != found.end() && it->second != llvm::ArrayRef(expected.shape))
      problems.push_back(llvm::formatv("tensor {0} has shape {1}, {2}", expected.name,
                                       formatShape(it->second), limit));
  };
  for (const CheckpointTensor &expected : getCheckpointTensors(config))
    check(expected, /*required=*/true);
  for (const CheckpointTensor &expected : getIndexerTensors(config))
    check(expected, /*required=*/config.hasOwnIndexer());
  for (const NamedShape &tensor : tensors)
    if (!known.contains(tensor.name) && tensor.name != kStoredFrequencies &&
        !(config.weightScales && isScale(tensor.name, known)))
      problems.push_back(
          llvm::formatv("tensor {0} of shape {1} does not belong to the attention of model "
                        "type {2}",
                        tensor.name, formatShape(tensor.shape), config.modelType));

  if (problems.empty())
    return llvm::Error::success();
  problems.push_back("the configuration has " + formatDims(config));
  return llvm::createStringError(llvm::join(problems, "\n"));
}
