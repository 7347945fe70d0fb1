//===- Checkpoint.cpp - tensors of a file or a folder ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Checkpoint.h"

#include "Numbers.h"

#include "nlohmann/json.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

using namespace mlac::run;
using nlohmann::json;

Checkpoint::Checkpoint(const std::string &path) : path(path) {
  check(mla_checkpoint_open(path.c_str(), handle.out()), "opening the weights");
  const char *text = nullptr;
  check(mla_checkpoint_info(handle.get(), &text), "reading the weights");
  json info = json::parse(text);
  prefixes = info.at("attentions").get<std::vector<std::string>>();
  strings = info.at("metadata").get<std::map<std::string, std::string>>();
}

std::optional<mla_tensor> Checkpoint::find(const std::string &name) const {
  mla_tensor tensor;
  mla_status status = mla_checkpoint_tensor(handle.get(), name.c_str(), &tensor);
  if (status == MLA_NOT_FOUND)
    return std::nullopt;
  check(status, "reading a tensor");
  return tensor;
}

mla_tensor Checkpoint::require(const std::string &name) const {
  mla_tensor tensor;
  check(mla_checkpoint_tensor(handle.get(), name.c_str(), &tensor), "reading a tensor");
  return tensor;
}

static std::vector<int64_t> shapeOf(const mla_tensor &tensor) {
  return {tensor.shape, tensor.shape + tensor.rank};
}

std::vector<int64_t> Checkpoint::shape(const std::string &name) const {
  return shapeOf(require(name));
}

static std::vector<float> readValues(const mla_tensor &tensor) {
  if (tensor.dtype != MLA_BF16 && tensor.dtype != MLA_F16 && tensor.dtype != MLA_F32)
    throw std::runtime_error("tensor '" + std::string(tensor.name) +
                             "': expected bf16, f16 or f32, got another type");
  std::vector<int64_t> shape = shapeOf(tensor);
  size_t count = std::accumulate(shape.begin(), shape.end(), size_t{1}, std::multiplies<>());
  auto *bytes = static_cast<const uint8_t *>(tensor.data);
  return decode({bytes, bytes + count * elementBytes(tensor.dtype)}, tensor.dtype);
}

std::vector<float> Checkpoint::read(const std::string &name) const {
  return readValues(require(name));
}

std::vector<float> Checkpoint::readWeight(const std::string &name,
                                          const std::vector<int64_t> &block) const {
  static const std::string suffix = ".weight";
  bool isMatrix = name.size() > suffix.size() &&
                  name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0;
  std::string stem = isMatrix ? name.substr(0, name.size() - suffix.size()) : "";
  std::optional<mla_tensor> tensor = find(name);
  for (const char *other : {".qweight", ".weight_packed"})
    if (!tensor && isMatrix)
      tensor = find(stem + other);
  if (!tensor)
    tensor = require(name); // says that there is none
  if (tensor->dtype != MLA_E4M3 || tensor->rank != 2 || block.empty())
    return readValues(*tensor);
  std::string scales =
      stem + (find(stem + ".weight_scale") ? ".weight_scale" : ".weight_scale_inv");
  return dequantise(static_cast<const uint8_t *>(tensor->data), read(scales), tensor->shape[0],
                    tensor->shape[1], block);
}

float mlac::run::widenE4m3(uint8_t code) {
  int exponent = code >> 3 & 15, mantissa = code & 7;
  if (exponent == 15 && mantissa == 7)
    return std::numeric_limits<float>::quiet_NaN();
  float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                  : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return code & 0x80 ? -magnitude : magnitude;
}

std::vector<float> mlac::run::dequantise(const uint8_t *codes, const std::vector<float> &scales,
                                         int64_t rows, int64_t columns,
                                         const std::vector<int64_t> &block) {
  int64_t down = block[0] ? block[0] : rows, across = block[1] ? block[1] : columns;
  int64_t gridColumns = (columns + across - 1) / across;
  if (static_cast<int64_t>(scales.size()) != (rows + down - 1) / down * gridColumns)
    throw std::runtime_error("expected " + std::to_string((rows + down - 1) / down * gridColumns) +
                             " scales, got " + std::to_string(scales.size()));
  std::vector<float> values(rows * columns);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      values[i * columns + j] =
          widenE4m3(codes[i * columns + j]) * scales[i / down * gridColumns + j / across];
  return values;
}
