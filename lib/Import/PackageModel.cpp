//===- PackageModel.cpp - what a package says about its model ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Import/PackageModel.h"

#include "CacheFormats.h"

#include "mla/Import/CheckpointTensors.h"

using namespace mlac;

static package::DataType getDataType(ActivationType type) {
  switch (type) {
  case ActivationType::BF16:
    return package::DataType::BF16;
  case ActivationType::F16:
    return package::DataType::F16;
  case ActivationType::F32:
    return package::DataType::F32;
  }
  llvm_unreachable("unknown activation type");
}

static std::unique_ptr<package::ModelT>
makeModel(const ModelConfig &config, const ImportOptions &options, llvm::StringRef configText) {
  auto model = std::make_unique<package::ModelT>();
  model->model_type = config.modelType;
  model->hidden_size = config.hiddenSize;
  model->num_heads = config.numHeads();
  model->tensor_parallel = config.tensorParallel;
  model->q_lora_rank = config.qLoraRank.value_or(0);
  model->kv_lora_rank = config.kvLoraRank;
  model->qk_nope_head_dim = config.qkNopeHeadDim;
  model->qk_rope_head_dim = config.qkRopeHeadDim;
  model->v_head_dim = config.vHeadDim;
  model->softmax_scale = config.softmaxScale();
  model->activation_dtype = getDataType(options.activationType);
  model->config_json = configText.str();
  return model;
}

/// What a field's elements are in memory.
static package::DataType getDataType(cache::Storage storage, ActivationType activation) {
  switch (storage) {
  case cache::Storage::Model:
    return getDataType(activation);
  case cache::Storage::BF16:
    return package::DataType::BF16;
  case cache::Storage::F32:
    return package::DataType::F32;
  case cache::Storage::E4M3:
    return package::DataType::E4M3;
  case cache::Storage::E8M0:
  case cache::Storage::Zero:
    return package::DataType::U8;
  }
  llvm_unreachable("all storages are listed");
}

static std::unique_ptr<package::CacheLayoutT> makeCacheLayout(const ModelConfig &config,
                                                              const ImportOptions &options) {
  bool isF32 = options.activationType == ActivationType::F32;
  auto cache = std::make_unique<package::CacheLayoutT>();
  cache->layout = options.cacheFormat;
  if (options.cacheFormat.empty())
    cache->layout = isF32 ? "mla_f32" : "mla_16";
  // Rows of several element types are bytes.
  const cache::Format &format = *cache::findFormat(cache->layout);
  cache->dtype = getDataType(format.fields[0].storage, options.activationType);
  for (size_t i = 1; i < format.numFields; ++i)
    if (getDataType(format.fields[i].storage, options.activationType) != cache->dtype)
      cache->dtype = package::DataType::U8;
  cache->page_size = options.pageSize;
  cache->kv_lora_rank = config.kvLoraRank;
  cache->qk_rope_head_dim = config.qkRopeHeadDim;
  cache->rope_order = config.rope.pairing == RopePairing::Interleaved ? "interleaved" : "half";
  int64_t modelBytes = isF32 ? sizeof(float) : sizeof(uint16_t);
  cache->row_bytes = cache::tokenBytes(*cache::findFormat(cache->layout),
                                       {config.kvLoraRank, config.qkRopeHeadDim, modelBytes});
  return cache;
}

static std::unique_ptr<package::RopeSpecT> makeRope(const ModelConfig &config) {
  RopeTable table = computeRopeTable(config);
  auto rope = std::make_unique<package::RopeSpecT>();
  rope->inv_freq = table.inverseFrequencies;
  rope->inv_freq_long = table.longInverseFrequencies;
  rope->short_length = table.shortLength;
  rope->multiplier = table.multiplier;
  rope->length = getSupportedLength(config);
  return rope;
}

void mlac::describeModel(const ModelConfig &config, const ImportOptions &options,
                         llvm::StringRef configText, package::PackageT &package) {
  package.model = makeModel(config, options, configText);
  package.cache = makeCacheLayout(config, options);
  package.rope = makeRope(config);
  package.weights.clear();
  for (const CheckpointTensor &tensor : getStepTensors(config)) {
    TensorShape shape = tensor.shapeOnRank(config.tensorParallel);
    auto weight = std::make_unique<package::TensorT>();
    weight->name = tensor.name;
    weight->dtype = getDataType(options.activationType);
    weight->shape.assign(shape.begin(), shape.end());
    package.weights.push_back(std::move(weight));
  }
}
