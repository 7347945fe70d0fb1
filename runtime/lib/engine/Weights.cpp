//===- Weights.cpp - binding weights ----------------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Engine's part that checks and copies weights, from memory, a safetensors file or a
// checkpoint, and runs the package's "prepare" function.
//
//===----------------------------------------------------------------------===//

#include "base/Json.h"
#include "engine/Checkpoint.h"
#include "engine/Engine.h"
#include "engine/StepRunner.h"

#include <algorithm>

using namespace mlac::runtime;

//===----------------------------------------------------------------------===//
// One tensor
//===----------------------------------------------------------------------===//

static Status checkTensor(const TensorInfo &expected, const HostTensor &tensor) {
  if (tensor.shape != expected.shape)
    return error(MLA_INVALID_ARGUMENT, "weight '", expected.name, "': expected shape ",
                 shapeText(expected.shape), ", got ", shapeText(tensor.shape));
  if (!isConvertible(tensor.dtype, expected.dtype))
    return error(MLA_INVALID_ARGUMENT, "weight '", expected.name, "': expected dtype ",
                 typeName(expected.dtype), ", got ", typeName(tensor.dtype),
                 tensor.dtype == MLA_E4M3 ? "; codes are bound with their scales, by "
                                            "mla_engine_bind_tensors"
                                          : "");
  return Status();
}

static Status unknownWeight(const Package &package, std::string_view name) {
  return error(MLA_NOT_FOUND, "unknown weight '", name,
               "', the package has: ", listNames(package.weights()));
}

Status Engine::upload(Layer &layer, const WeightMatch &match) {
  std::vector<char> room;
  const void *bytes = match.bytes(room);
  layer.isPrepared = false;
  MLAC_RETURN_IF_ERROR(
      device_->upload(layer.weights[match.weight()].data(), bytes,
                      static_cast<size_t>(package_->weights()[match.weight()].bytes())));
  layer.isBound[match.weight()] = true;
  return Status();
}

Status Engine::bindWeight(Layer &layer, std::string_view name, const HostTensor &tensor) {
  int64_t index = findTensor(package_->weights(), name);
  if (index < 0)
    return unknownWeight(*package_, name);
  const TensorInfo &expected = package_->weights()[index];
  MLAC_RETURN_IF_ERROR(checkTensor(expected, tensor));
  auto address = reinterpret_cast<uintptr_t>(tensor.data);
  if (address % static_cast<uintptr_t>(elementBytes(tensor.dtype)) != 0)
    return error(MLA_INVALID_ARGUMENT, "weight '", name,
                 "': data is not aligned to its element size ", elementBytes(tensor.dtype));
  SourceTensor source = {tensor.dtype, typeName(tensor.dtype), tensor.shape, tensor.data};
  WeightMatch match(static_cast<size_t>(index), expected, source);
  MLAC_RETURN_IF_ERROR(match.checkValues());
  return upload(layer, match);
}

//===----------------------------------------------------------------------===//
// Many
//===----------------------------------------------------------------------===//

namespace {
/// What is bound to one layer: nothing is uploaded before all of it is known to be right.
struct LayerWeights {
  SourceTensors tensors;
  std::vector<WeightMatch> matches;

  Status checkValues() const {
    for (const WeightMatch &match : matches)
      MLAC_RETURN_IF_ERROR(match.checkValues());
    return Status();
  }
};
} // namespace

/// What else lies beside an attention's weights in checkpoints: rotary frequencies that old ones
/// store, scales of a quantised cache, which the package's format decides on, and the indexer of
/// sparse attention. A bias of the output is for the sum over all ranks.
static bool isBesideWeights(std::string_view name, const Shard &shard) {
  constexpr std::string_view kNames[] = {"rotary_emb.inv_freq", "k_scale", "v_scale"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         name.starts_with("indexer.") || (shard.count > 1 && name == kOutputBias);
}

Shard Engine::shard() const {
  return {options_.tensor_parallel_rank, std::max<int64_t>(package_->model().tensor_parallel(), 1)};
}

Status Engine::bindTensors(Layer &layer, SourceTensors tensors) {
  LayerWeights weights{std::move(tensors), {}};
  WeightMatcher matcher(*package_, weights.tensors, "", shard());
  MLAC_RETURN_IF_ERROR(matcher.match(/*needsAll=*/false, weights.matches));
  MLAC_RETURN_IF_ERROR(matcher.refuseExtra([](std::string_view) { return false; }));
  MLAC_RETURN_IF_ERROR(weights.checkValues());
  for (const WeightMatch &match : weights.matches)
    MLAC_RETURN_IF_ERROR(upload(layer, match));
  return Status();
}

/// Matches one attention's tensors; values are looked at later.
template <typename Predicate>
static Status readLayer(Checkpoint &checkpoint, const Package &package, const std::string &prefix,
                        const Shard &shard, Predicate isKnown, LayerWeights &weights) {
  MLAC_RETURN_IF_ERROR(checkpoint.readUnder(prefix, weights.tensors));
  WeightMatcher matcher(package, weights.tensors, prefix, shard);
  MLAC_RETURN_IF_ERROR(
      matcher.match(/*needsAll=*/true, weights.matches).in("'", checkpoint.path(), "'"));
  return matcher.refuseExtra(isKnown).in("'", checkpoint.path(), "'");
}

Status Engine::bindSafetensors(Layer &layer, const std::string &path, std::string_view prefix,
                               bool allowsExtra) {
  std::shared_ptr<Checkpoint> file;
  MLAC_RETURN_IF_ERROR(Checkpoint::open(path, file));
  LayerWeights weights;
  auto isKnown = [&](std::string_view) { return allowsExtra; };
  MLAC_RETURN_IF_ERROR(readLayer(*file, *package_, std::string(prefix), shard(), isKnown, weights));
  MLAC_RETURN_IF_ERROR(weights.checkValues().in("'", path, "'"));
  for (const WeightMatch &match : weights.matches)
    MLAC_RETURN_IF_ERROR(upload(layer, match));
  return Status();
}

/// Scales are read as the package says: a checkpoint that says something else is not the one
/// that it was compiled for.
static Status checkQuantisation(const Package &package, const Checkpoint &checkpoint) {
  if (!package.weightScales() || checkpoint.quantisation().empty())
    return Status();
  constexpr const char *kKey = "quantization_config";
  Json own = Json::parse(text(package.model().config_json()), nullptr, false);
  if (!own.is_object() || !own.contains(kKey))
    return Status();
  // Not ordered: keys may come in another order.
  auto parse = [](const std::string &text) { return nlohmann::json::parse(text, nullptr, false); };
  if (parse(toText(own[kKey])) == parse(checkpoint.quantisation()))
    return Status();
  return error(MLA_INVALID_ARGUMENT, "'", checkpoint.path(), "' has quantization_config ",
               checkpoint.quantisation(), ", the package was compiled for ", toText(own[kKey]));
}

/// The checkpoint's number of attention `index`; those of a kind of layers are counted among its
/// own, of which each has one.
static Status findAttention(const Package &package, int64_t &index) {
  const std::vector<int64_t> &layers = package.layers();
  if (layers.empty())
    return Status();
  auto count = static_cast<int64_t>(layers.size());
  if (index < 0 || index >= count)
    return error(MLA_NOT_FOUND, "attention ", index, " of the package's kind, which has ", count,
                 " layers in the model");
  index = layers[static_cast<size_t>(index)];
  return Status();
}

Status Engine::bindCheckpoint(Checkpoint &checkpoint, int64_t firstLayer, int64_t numLayers,
                              int64_t firstAttention, bool allowsExtra, const Progress &progress) {
  MLAC_RETURN_IF_ERROR(checkQuantisation(*package_, checkpoint));
  std::vector<LayerWeights> weights(static_cast<size_t>(numLayers));
  auto isKnown = [&](std::string_view name) {
    return allowsExtra || isBesideWeights(name, shard());
  };
  for (int64_t i = 0; i < numLayers; ++i) {
    std::string prefix;
    int64_t attention = firstAttention + i;
    MLAC_RETURN_IF_ERROR(findAttention(*package_, attention));
    MLAC_RETURN_IF_ERROR(checkpoint.findAttention(attention, prefix));
    MLAC_RETURN_IF_ERROR(readLayer(checkpoint, *package_, prefix, shard(), isKnown,
                                   weights[static_cast<size_t>(i)]));
  }
  for (int64_t i = 0; i < numLayers; ++i) {
    MLAC_RETURN_IF_ERROR(weights[static_cast<size_t>(i)].checkValues().in(
        "'", checkpoint.path(), "', attention ", firstAttention + i));
    progress.report(i + 1, 2 * numLayers);
  }
  for (int64_t i = 0; i < numLayers; ++i) {
    for (const WeightMatch &match : weights[static_cast<size_t>(i)].matches)
      MLAC_RETURN_IF_ERROR(upload(layers[static_cast<size_t>(firstLayer + i)], match));
    progress.report(numLayers + i + 1, 2 * numLayers);
  }
  return Status();
}

//===----------------------------------------------------------------------===//
// Prepare
//===----------------------------------------------------------------------===//

Status Engine::prepare(Layer &layer) {
  std::string missing;
  for (size_t i = 0; i < layer.isBound.size(); ++i)
    if (!layer.isBound[i])
      missing += (missing.empty() ? "" : ", ") + package_->weights()[i].name;
  if (!missing.empty())
    return error(MLA_WRONG_STATE, "weights are not bound: ", missing);
  if (const FunctionInfo *function = target_->find(kPrepareFunction)) {
    StepRunner runner;
    MLAC_RETURN_IF_ERROR(runner.resolve(*this, *function, staticDims(limits_), StepLayout()));
    MLAC_RETURN_IF_ERROR(ensureWorkspace(runner.workspaceBytes()));
    runner.commit();
    MLAC_RETURN_IF_ERROR(runner.run(*this, layer, nullptr, {}, nullptr, nullptr));
    MLAC_RETURN_IF_ERROR(device_->synchronize());
  }
  layer.isPrepared = true;
  return Status();
}
