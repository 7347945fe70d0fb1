//===- LayerWeights.cpp - weights of an engine and of its reference ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LayerWeights.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

using namespace mlac::run;
using nlohmann::json;

//===----------------------------------------------------------------------===//
// Random weights
//===----------------------------------------------------------------------===//

namespace {
/// A tensor as it is bound.
struct BoundTensor {
  std::string name;
  mla_dtype dtype;
  std::vector<int64_t> shape;
  std::vector<uint8_t> bytes;

  mla_tensor view() const {
    return {name.c_str(), dtype, static_cast<int32_t>(shape.size()), shape.data(), bytes.data()};
  }
};
} // namespace

/// Of weights that are the scales of another's codes.
static const std::string kScaleSuffix = ".weight_scale_inv";

static bool endsWith(const std::string &text, const std::string &suffix) {
  return text.size() >= suffix.size() &&
         text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

static std::vector<float> makeRandomTensor(const std::string &name,
                                           const std::vector<int64_t> &shape, uint64_t seed) {
  bool isBias = endsWith(name, ".bias"), isSink = name == "sinks",
       isNorm = shape.size() == 1 && !isBias && !isSink;
  int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  constexpr double kNormSpread = 0.1; // gamma lies around 1, a bias around 0
  constexpr double kSinkSpread = 1;   // as scores
  double deviation = isSink              ? kSinkSpread
                     : shape.size() == 1 ? kNormSpread
                                         : 1 / std::sqrt(static_cast<double>(shape.back()));
  std::vector<float> values = randomBf16(seed, count, deviation);
  if (isNorm)
    for (float &value : values)
      value = widenBf16(roundToBf16(1 + value));
  return values;
}

/// Adds a matrix as codes and scales, which `values` become.
static void addCodes(const std::string &name, const std::vector<int64_t> &shape,
                     const std::vector<int64_t> &block, std::vector<float> &values,
                     std::vector<BoundTensor> &tensors) {
  auto grid = [&](size_t dim) {
    return block[dim] ? (shape[dim] + block[dim] - 1) / block[dim] : int64_t{1};
  };
  BoundTensor codes{name, MLA_E4M3, shape, std::vector<uint8_t>(values.size())};
  std::vector<float> scales(grid(0) * grid(1));
  check(mla_quantize_weight(values.data(), shape[0], shape[1], block[0], block[1],
                            codes.bytes.data(), scales.data()),
        "quantising a weight");
  values = dequantise(codes.bytes.data(), scales, shape[0], shape[1], block);
  tensors.push_back(std::move(codes));
  tensors.push_back({name + "_scale", MLA_F32, {grid(0), grid(1)}, encode(scales, MLA_F32)});
}

/// Whether products read the weight's codes, whose values no one rounds.
static bool isCodes(const json &tensor) { return tensor.at("dtype") == "e4m3"; }

static std::vector<float> roundTo(mla_dtype type, const std::vector<float> &values) {
  return decode(encode(values, type), type);
}

LayerWeights mlac::run::makeRandomLayer(const Session &session, uint64_t seed) {
  LayerWeights weights;
  auto tensors = std::make_shared<std::vector<BoundTensor>>();
  // f16 does not hold all of bf16's numbers; f32 does, and widens them when they are bound.
  mla_dtype plain = session.activation == MLA_F16 ? MLA_F16 : MLA_BF16;
  for (const json &tensor : session.info.at("weights")) {
    auto name = tensor.at("name").get<std::string>();
    auto shape = tensor.at("shape").get<std::vector<int64_t>>();
    if (endsWith(name, kScaleSuffix))
      continue; // with its codes
    std::vector<float> values = makeRandomTensor(name, shape, ++seed);
    if (!session.weightBlock.empty() && shape.size() == 2 && endsWith(name, ".weight"))
      addCodes(name, shape, session.weightBlock, values, *tensors);
    else
      tensors->push_back({name, plain, shape, encode(values, plain)});
    weights.values[name] = isCodes(tensor) ? values : roundTo(session.activation, values);
  }
  weights.bind = [tensors](mla_engine *engine) {
    std::vector<mla_tensor> views;
    for (const BoundTensor &tensor : *tensors)
      views.push_back(tensor.view());
    check(mla_engine_bind_tensors(engine, 0, views.data(), static_cast<int64_t>(views.size())),
          "binding weights");
  };
  return weights;
}

//===----------------------------------------------------------------------===//
// Weights of a checkpoint
//===----------------------------------------------------------------------===//

std::string mlac::run::findAttention(const Checkpoint &checkpoint, const std::string &module) {
  const std::vector<std::string> &prefixes = checkpoint.attentions();
  std::vector<std::string> matches;
  std::string list;
  for (size_t i = 0; i < prefixes.size(); ++i) {
    const std::string &prefix = prefixes[i];
    list += (list.empty() ? "'" : ", '") + prefix + "'";
    if (module.empty() || prefix == module + "/weights/" || prefix == module + "." ||
        prefix == module || module == std::to_string(i))
      matches.push_back(prefix);
  }
  if (matches.size() > 1 && module.empty())
    throw std::runtime_error("there are " + std::to_string(matches.size()) +
                             " attention modules, name one by --module: " + list);
  if (matches.size() != 1)
    throw std::runtime_error(
        "--module: expected one attention module" +
        (module.empty() ? "" : " named '" + module + "'") + ", found " +
        std::to_string(matches.size()) +
        "; prefixes of attention modules here: " + (list.empty() ? "none" : list));
  return matches[0];
}

/// The values that the package's tensor holds of a stored one.
static std::vector<float> readTensor(const Session &session, const Checkpoint &checkpoint,
                                     const std::string &name, const json &tensor) {
  auto shape = tensor.at("shape").get<std::vector<int64_t>>();
  if (std::optional<mla_tensor> stored = checkpoint.find(name)) {
    std::vector<int64_t> got(stored->shape, stored->shape + stored->rank);
    if (got != shape)
      throw std::runtime_error("tensor '" + name + "': expected shape " + json(shape).dump() +
                               ", got " + json(got).dump());
  }
  std::vector<float> values = checkpoint.readWeight(name, session.weightBlock);
  return isCodes(tensor) ? values : roundTo(parseType(tensor.at("dtype")), values);
}

LayerWeights mlac::run::readLayer(const Session &session, const Checkpoint &checkpoint,
                                  const std::string &prefix, bool isRead) {
  LayerWeights weights;
  for (const json &tensor : session.info.at("weights"))
    if (auto name = tensor.at("name").get<std::string>(); isRead && !endsWith(name, kScaleSuffix))
      weights.values[name] = readTensor(session, checkpoint, prefix + name, tensor);
  const std::vector<std::string> &all = checkpoint.attentions();
  int64_t attention = std::find(all.begin(), all.end(), prefix) - all.begin();
  weights.bind = [&checkpoint, attention](mla_engine *engine) {
    check(
        mla_engine_bind_checkpoint(engine, 0, 1, checkpoint.get(), attention, 0, nullptr, nullptr),
        "binding weights");
  };
  return weights;
}

void mlac::run::bindLayer(const Session &session, mla_engine *engine, const LayerWeights &weights) {
  if (weights.bind)
    weights.bind(engine);
  const float scales[] = {session.cache.layer_scale, session.cache.value_scale};
  if (scales[1] != scales[0])
    check(mla_engine_set_cache_scales(engine, 0, 0, scales, std::ssize(scales)),
          "setting the cache's scales");
  else if (scales[0] != 1)
    check(mla_engine_set_cache_scale(engine, 0, 0, scales[0]), "setting the cache's scale");
  check(mla_engine_prepare(engine, 0), "preparing the layer");
}
