//===- Weights.cpp - binding weights ----------------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Engine's part that checks and copies weights, from memory or from a
// safetensors file, and runs the package's "prepare" function.
//
//===----------------------------------------------------------------------===//

#include "engine/Engine.h"
#include "engine/Safetensors.h"
#include "engine/StepRunner.h"

#include <cstring>

using namespace mlac::runtime;

//===----------------------------------------------------------------------===//
// One tensor
//===----------------------------------------------------------------------===//

static std::string listNames(const std::vector<TensorInfo> &tensors) {
  std::string names;
  for (const TensorInfo &tensor : tensors)
    names += (names.empty() ? "" : ", ") + tensor.name;
  return names;
}

static Status checkTensor(const TensorInfo &expected, const HostTensor &tensor) {
  if (tensor.shape != expected.shape)
    return error(MLA_INVALID_ARGUMENT, "weight '", expected.name, "': expected shape ",
                 shapeText(expected.shape), ", got ", shapeText(tensor.shape));
  if (!isExactWidening(tensor.dtype, expected.dtype))
    return error(MLA_INVALID_ARGUMENT, "weight '", expected.name, "': expected dtype ",
                 typeName(expected.dtype), ", got ", typeName(tensor.dtype));
  return Status();
}

Status Engine::upload(Layer &layer, size_t index, const HostTensor &tensor) {
  const TensorInfo &expected = package_->weights()[index];
  DeviceBuffer &buffer = layer.weights[index];
  auto bytes = static_cast<size_t>(expected.bytes());
  layer.isPrepared = false;
  if (tensor.dtype == expected.dtype) {
    MLAC_RETURN_IF_ERROR(device_->upload(buffer.data(), tensor.data, bytes));
  } else {
    std::vector<char> converted(bytes);
    convertElements(tensor.dtype, tensor.data, expected.dtype, converted.data(), expected.elements);
    MLAC_RETURN_IF_ERROR(device_->upload(buffer.data(), converted.data(), bytes));
  }
  layer.isBound[index] = true;
  return Status();
}

Status Engine::bindWeight(Layer &layer, std::string_view name, const HostTensor &tensor) {
  int64_t index = findTensor(package_->weights(), name);
  if (index < 0)
    return error(MLA_NOT_FOUND, "unknown weight '", name,
                 "', the package has: ", listNames(package_->weights()));
  const TensorInfo &expected = package_->weights()[index];
  MLAC_RETURN_IF_ERROR(checkTensor(expected, tensor));
  auto address = reinterpret_cast<uintptr_t>(tensor.data);
  if (address % static_cast<uintptr_t>(elementBytes(tensor.dtype)) != 0)
    return error(MLA_INVALID_ARGUMENT, "weight '", name,
                 "': data is not aligned to its element size ", elementBytes(tensor.dtype));
  return upload(layer, static_cast<size_t>(index), tensor);
}

//===----------------------------------------------------------------------===//
// Safetensors
//===----------------------------------------------------------------------===//

namespace {
/// A tensor of a file that has been matched with a weight; `slice` holds the
/// data if it had to be cut for this rank.
struct Match {
  size_t index;
  HostTensor tensor;
  std::vector<char> slice;
};

/// Which share of unsharded tensors to take.
struct Shard {
  int64_t rank, count;
};
} // namespace

/// The dimension of `got` that is `count` times the expected one while the
/// others are equal; -1 if there is none.
static int64_t shardedDim(const std::vector<int64_t> &expected, const std::vector<int64_t> &got,
                          int64_t count) {
  int64_t found = -1;
  if (expected.size() != got.size())
    return -1;
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == expected[i])
      continue;
    if (found >= 0 || got[i] != expected[i] * count)
      return -1;
    found = static_cast<int64_t>(i);
  }
  return found;
}

/// Cuts the rank's share out of dimension `dim`. Heads are the outermost part
/// of a sharded dimension, so the share is a contiguous range of it.
static void cutShard(const std::vector<int64_t> &expected, int64_t dim, const Shard &shard,
                     Match &match) {
  int64_t outer = 1, inner = elementBytes(match.tensor.dtype);
  for (int64_t i = 0; i < dim; ++i)
    outer *= expected[i];
  for (size_t i = dim; i < expected.size(); ++i)
    inner *= expected[i];
  match.slice.resize(static_cast<size_t>(outer * inner));
  auto *from = static_cast<const char *>(match.tensor.data);
  for (int64_t i = 0; i < outer; ++i)
    std::memcpy(match.slice.data() + i * inner, from + (i * shard.count + shard.rank) * inner,
                static_cast<size_t>(inner));
  match.tensor.data = match.slice.data();
  match.tensor.shape = expected;
}

static Status matchTensor(const TensorInfo &expected, const Safetensors &file,
                          const SafetensorsEntry &entry, const Shard &shard, Match &match) {
  match.tensor = {MLA_U8, entry.shape, file.bytes(entry)};
  if (!toRuntimeType(entry.dtype, match.tensor.dtype))
    return error(MLA_INVALID_ARGUMENT, "weight '", expected.name, "': expected dtype ",
                 typeName(expected.dtype), ", got ", entry.dtype);
  if (shard.count > 1) {
    int64_t dim = shardedDim(expected.shape, entry.shape, shard.count);
    if (dim >= 0)
      cutShard(expected.shape, dim, shard, match);
  }
  return checkTensor(expected, match.tensor);
}

static Status checkExtra(const Safetensors &file, std::string_view prefix,
                         const std::vector<TensorInfo> &weights) {
  for (auto &[name, entry] : file.entries()) {
    std::string_view rest = name;
    if (!rest.starts_with(prefix))
      continue;
    rest.remove_prefix(prefix.size());
    if (findTensor(weights, rest) < 0)
      return error(MLA_INVALID_ARGUMENT, "tensor '", name,
                   "' is not a weight of the package, which has: ", listNames(weights));
  }
  return Status();
}

Status Engine::bindSafetensors(Layer &layer, const std::string &path, std::string_view prefix,
                               bool allowsExtra) {
  Safetensors file;
  MLAC_RETURN_IF_ERROR(file.open(path));
  const std::vector<TensorInfo> &weights = package_->weights();
  Shard shard = {options_.tensor_parallel_rank, package_->model().tensor_parallel()};
  std::vector<Match> matches(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    std::string name = concat(prefix, weights[i].name);
    auto found = file.entries().find(name);
    if (found == file.entries().end())
      return error(MLA_NOT_FOUND, "file '", path, "' lacks tensor '", name, "'");
    matches[i].index = i;
    MLAC_RETURN_IF_ERROR(matchTensor(weights[i], file, found->second, shard, matches[i]).in(path));
  }
  if (!allowsExtra)
    MLAC_RETURN_IF_ERROR(checkExtra(file, prefix, weights).in(path));
  for (const Match &match : matches)
    MLAC_RETURN_IF_ERROR(upload(layer, match.index, match.tensor));
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
