//===- WeightMatch.cpp - which tensors make up which weights ----*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "engine/WeightMatch.h"

#include "base/NarrowFloat.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace mlac::runtime;

/// What checkpoints call a matrix (sparse.md section 12 and B33), its scales, and what it
/// would be quantised with to be multiplied by static scales.
static constexpr std::string_view kMatrix = "weight";
static constexpr std::string_view kMatrixNames[] = {kMatrix, "qweight", "weight_packed"};
static constexpr std::string_view kScaleNames[] = {"weight_scale_inv", "weight_scale"};
static constexpr std::string_view kInputScale = "input_scale";
/// What the scales of numbers of four bits are multiplied by.
static constexpr std::string_view kTensorScale[] = {"weight_scale_2"};

std::string mlac::runtime::listNames(const std::vector<TensorInfo> &tensors) {
  std::string names;
  for (const TensorInfo &tensor : tensors)
    names += (names.empty() ? "" : ", ") + tensor.name;
  return names;
}

//===----------------------------------------------------------------------===//
// One weight
//===----------------------------------------------------------------------===//

ScaledMatrix WeightMatch::matrix() const {
  return {unpacked.empty() ? static_cast<const uint8_t *>(tensor->data) : unpacked.data(),
          scales.data(),
          shape[0],
          shape[1],
          block,
          first[0],
          first[1],
          expected->shape[0],
          expected->shape[1]};
}

Status WeightMatch::checkValues() const {
  if (isCoded)
    return mlac::runtime::checkValues(matrix(), valueType).in("weight '", expected->name, "'");
  if (isScales)
    return Status(); // with their codes
  return *tensor->type == MLA_BF16 && expected->dtype == MLA_F16 ? checkF16() : Status();
}

/// Whether f16 has room for all numbers of a bf16 tensor.
Status WeightMatch::checkF16() const {
  int64_t count = 1;
  for (int64_t extent : tensor->shape)
    count *= extent;
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, static_cast<const char *>(tensor->data) + 2 * i, sizeof bits);
    float value = widenBf16(bits);
    if (std::isfinite(value) && !std::isfinite(widenF16(roundToF16(value))))
      return error(MLA_INVALID_ARGUMENT, "weight '", expected->name, "': element ", i, " = ", value,
                   " is beyond the largest f16, 65504");
  }
  return Status();
}

/// Copies the share of a tensor one of whose dimensions is longer than the weight's. Heads are
/// the outermost part of a sharded dimension, so the share is a contiguous range of it.
void WeightMatch::cut(const void *source, char *to) const {
  const std::vector<int64_t> &shape = wholeShape();
  size_t dim = 0;
  while (dim + 1 < first.size() && shape[dim] == expected->shape[dim])
    ++dim;
  int64_t outer = 1, element = elementBytes(isScales ? MLA_F32 : *tensor->type), inner = element;
  for (size_t i = 0; i < dim; ++i)
    outer *= expected->shape[i];
  for (size_t i = dim + 1; i < first.size(); ++i)
    inner *= expected->shape[i];
  int64_t bytes = expected->shape[dim] * inner, stride = shape[dim] * inner;
  auto *from = static_cast<const char *>(source) + first[dim] * inner;
  for (int64_t i = 0; i < outer; ++i)
    std::memcpy(to + i * bytes, from + i * stride, static_cast<size_t>(bytes));
}

const void *WeightMatch::bytes(std::vector<char> &room) const {
  if (isScales) {
    room.resize(static_cast<size_t>(expected->bytes()));
    cut(scales.data(), room.data());
    return room.data();
  }
  bool isWhole = shape == expected->shape;
  if (isWhole && *tensor->type == expected->dtype)
    return tensor->data;
  room.resize(static_cast<size_t>(expected->bytes()));
  if (isCoded && expected->dtype != MLA_E4M3) {
    dequantise(matrix(), expected->dtype, room.data());
    return room.data();
  }
  std::vector<char> share;
  const void *plain = tensor->data;
  if (!isWhole) {
    share.resize(static_cast<size_t>(expected->elements * elementBytes(*tensor->type)));
    cut(tensor->data, share.data());
    plain = share.data();
  }
  convertElements(*tensor->type, plain, expected->dtype, room.data(), expected->elements);
  return room.data();
}

//===----------------------------------------------------------------------===//
// Shapes and types
//===----------------------------------------------------------------------===//

/// The dimension of `got` that is `count` times the expected one while the others are
/// equal; -1 if there is none.
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

Status WeightMatcher::matchShape(WeightMatch &match) const {
  const std::vector<int64_t> &expected = match.expected->shape, &got = match.shape;
  if (got == expected)
    return Status();
  int64_t dim = shard.count > 1 ? shardedDim(expected, got, shard.count) : -1;
  if (dim < 0)
    return error(MLA_INVALID_ARGUMENT, "expected shape ", shapeText(expected), ", got ",
                 shapeText(got));
  match.first[dim] = shard.rank * expected[dim];
  return Status();
}

/// Extents of 1 say nothing: the scales of channels are [out, 1] or [out], that of a tensor
/// is [1] or has no extents at all.
static std::vector<int64_t> withoutOnes(std::vector<int64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

/// What safetensors call bytes b that stand for 2^(b - 127); 255 is no number.
static constexpr std::string_view kPowersOfTwo = "F8_E8M0";

static Status readPowers(const uint8_t *bytes, std::vector<float> &scales) {
  constexpr int kBias = 127, kNaN = 255;
  for (size_t i = 0; i < scales.size(); ++i) {
    if (bytes[i] == kNaN)
      return error(MLA_INVALID_ARGUMENT, "scale ", i, " is the byte ", kNaN,
                   ", which is no number");
    scales[i] = std::ldexp(1.0f, bytes[i] - kBias);
  }
  return Status();
}

/// The scales of a matrix in f32.
static Status readScales(const SourceTensor &scale, const ScaleBlock &block,
                         const std::vector<int64_t> &matrix, std::vector<float> &scales) {
  auto [rows, columns] = block.grid(matrix[0], matrix[1]);
  if (withoutOnes(scale.shape) != withoutOnes({rows, columns}))
    return error(MLA_INVALID_ARGUMENT, "expected shape ", shapeText({rows, columns}),
                 ", scales of ", shapeText(matrix), " by ", block.strategy(), " [", block.rows,
                 ", ", block.columns, "], got ", shapeText(scale.shape));
  scales.resize(static_cast<size_t>(rows * columns));
  if (scale.typeText == kPowersOfTwo)
    return readPowers(static_cast<const uint8_t *>(scale.data), scales);
  if (!scale.type || !isExactWidening(*scale.type, MLA_F32))
    return error(MLA_INVALID_ARGUMENT, "expected dtype f32, bf16, f16 or ", kPowersOfTwo, ", got ",
                 scale.typeText);
  convertElements(*scale.type, scale.data, MLA_F32, scales.data(), rows * columns);
  return Status();
}

Status WeightMatcher::matchCodes(WeightMatch &match, const Entry &codes, const Entry *scale) const {
  const std::optional<ScaleBlock> &block = package.weightScales();
  if (!block)
    return error(MLA_INVALID_ARGUMENT, "expected dtype ", typeName(match.expected->dtype),
                 ", got e4m3: the package was compiled for weights without scales (from a "
                 "configuration without quantization_config, or with --dequantised-weights)");
  if (codes.second.shape.size() != 2)
    return error(MLA_INVALID_ARGUMENT, "expected codes of a matrix [out, in], got shape ",
                 shapeText(codes.second.shape));
  if (!scale) {
    std::string stem = codes.first.substr(0, codes.first.rfind('.') + 1);
    return error(MLA_NOT_FOUND, "is e4m3, and lacks its scales: '", prefix, stem, kScaleNames[0],
                 "' or '", prefix, stem, kScaleNames[1], "'");
  }
  match.isCoded = true;
  match.valueType = match.expected->dtype == MLA_E4M3
                        ? static_cast<mla_dtype>(package.model().activation_dtype())
                        : match.expected->dtype;
  match.block = *block;
  return readScales(scale->second, *block, codes.second.shape, match.scales)
      .in("tensor '", prefix, scale->first, "'");
}

/// Columns of a row that have one scale of NVFP4, and numbers in a byte, the first in its low bits.
static constexpr int64_t kFourBlock = 16, kFoursOfByte = 2;

bool WeightMatcher::arePacked(const SourceTensor &tensor) const {
  const std::optional<ScaleBlock> &block = package.weightScales();
  return block && block->rows == 1 && block->columns == kFourBlock && tensor.type == MLA_U8 &&
         tensor.shape.size() == 2;
}

/// e2m1 as e4m3, which has all of its numbers.
static std::array<uint8_t, 16> makeFours() {
  std::array<uint8_t, 16> codes{};
  for (size_t i = 0; i < codes.size(); ++i)
    codes[i] = roundToE4m3(widenE2m1(static_cast<uint8_t>(i)));
  return codes;
}

static std::vector<uint8_t> unpack(const SourceTensor &fours) {
  const std::array<uint8_t, 16> codes = makeFours();
  auto *bytes = static_cast<const uint8_t *>(fours.data);
  auto count = static_cast<size_t>(fours.shape[0] * fours.shape[1]);
  std::vector<uint8_t> unpacked(kFoursOfByte * count);
  for (size_t i = 0; i < count; ++i) {
    unpacked[kFoursOfByte * i] = codes[bytes[i] & 15];
    unpacked[kFoursOfByte * i + 1] = codes[bytes[i] >> 4];
  }
  return unpacked;
}

/// The scales of blocks times that of the tensor, in f32.
static Status readFourScales(const SourceTensor &scale, const SourceTensor &ofTensor,
                             const std::vector<int64_t> &matrix, std::vector<float> &scales) {
  std::vector<int64_t> grid = {matrix[0], matrix[1] / kFourBlock};
  if (matrix[1] % kFourBlock != 0 || scale.shape != grid || scale.type != MLA_E4M3)
    return error(MLA_INVALID_ARGUMENT, "expected scales of e4m3 and shape ", shapeText(grid),
                 " for rows of a multiple of ", kFourBlock, " numbers, got ", scale.typeText, " ",
                 shapeText(scale.shape), " for ", shapeText(matrix));
  if (!withoutOnes(ofTensor.shape).empty() || ofTensor.type != MLA_F32)
    return error(MLA_INVALID_ARGUMENT, "expected one f32 as '", kTensorScale[0], "', got ",
                 ofTensor.typeText, " ", shapeText(ofTensor.shape));
  float factor;
  std::memcpy(&factor, ofTensor.data, sizeof factor);
  auto *codes = static_cast<const uint8_t *>(scale.data);
  scales.resize(static_cast<size_t>(grid[0] * grid[1]));
  for (size_t i = 0; i < scales.size(); ++i)
    scales[i] = widenE4m3(codes[i]) * factor;
  return Status();
}

Status WeightMatcher::matchFours(WeightMatch &match, std::string_view stem, const Entry &fours,
                                 const Entry *scale) {
  const Entry *ofTensor = nullptr;
  MLAC_RETURN_IF_ERROR(findOne(stem, kTensorScale, ofTensor));
  if (!scale || !ofTensor)
    return error(MLA_NOT_FOUND, "has numbers of four bits, and lacks '", prefix, stem,
                 scale ? kTensorScale[0] : kScaleNames[1], "'");
  match.shape[1] *= kFoursOfByte;
  match.isCoded = true;
  match.valueType = match.expected->dtype;
  match.block = *package.weightScales();
  MLAC_RETURN_IF_ERROR(readFourScales(scale->second, ofTensor->second, match.shape, match.scales)
                           .in("tensor '", prefix, scale->first, "'"));
  MLAC_RETURN_IF_ERROR(matchShape(match));
  match.unpacked = unpack(fours.second);
  return Status();
}

Status WeightMatcher::matchType(WeightMatch &match, const Entry &tensor, const Entry *scale) const {
  const std::optional<mla_dtype> &type = tensor.second.type;
  mla_dtype expected = match.expected->dtype;
  if (type == MLA_E4M3)
    return matchCodes(match, tensor, scale);
  if (expected == MLA_E4M3)
    return error(MLA_INVALID_ARGUMENT, "expected dtype e4m3, got ", tensor.second.typeText,
                 ": the package was compiled for codes (--keep-codes)");
  if (!type || !isConvertible(*type, expected))
    return error(MLA_INVALID_ARGUMENT, "expected dtype ", typeName(expected),
                 package.weightScales() ? " or e4m3" : "", ", got ", tensor.second.typeText);
  if (!scale)
    return Status();
  return error(MLA_INVALID_ARGUMENT, "is ", tensor.second.typeText,
               ", expected e4m3 because of its scales '", prefix, scale->first, "'");
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

Status WeightMatcher::findOne(std::string_view stem, std::span<const std::string_view> names,
                              const Entry *&found) {
  found = nullptr;
  for (std::string_view name : names) {
    auto entry = tensors.find(concat(stem, name));
    if (entry == tensors.end())
      continue;
    if (found)
      return error(MLA_INVALID_ARGUMENT, "tensors '", prefix, found->first, "' and '", prefix,
                   entry->first, "' are the same weight, expected one of them");
    found = &*entry;
    used.insert(entry->first);
  }
  return Status();
}

/// The grid of the scales of `codes`, and where the share of this rank begins in it.
Status WeightMatcher::matchGrid(WeightMatch &match, const Entry &codes, const Entry &scale) const {
  const std::optional<ScaleBlock> &block = package.weightScales();
  if (!block || codes.second.shape.size() != 2)
    return error(MLA_INVALID_ARGUMENT, "expected scales of codes of a matrix [out, in]");
  match.isScales = true;
  match.block = *block;
  auto [rows, columns] = block->grid(codes.second.shape[0], codes.second.shape[1]);
  match.grid = {rows, columns};
  match.first = {0, 0};
  MLAC_RETURN_IF_ERROR(readScales(scale.second, *block, codes.second.shape, match.scales)
                           .in("tensor '", prefix, scale.first, "'"));
  if (match.grid == match.expected->shape)
    return Status();
  int64_t dim = shard.count > 1 ? shardedDim(match.expected->shape, match.grid, shard.count) : -1;
  if (dim < 0)
    return error(MLA_INVALID_ARGUMENT, "expected shape ", shapeText(match.expected->shape),
                 ", got ", shapeText(match.grid));
  match.first[dim] = shard.rank * match.expected->shape[dim];
  return Status();
}

/// A weight that is scales. What is wrong without codes or scales is said of the codes.
Status WeightMatcher::matchScales(size_t index, std::vector<WeightMatch> &matches, bool needsAll) {
  const TensorInfo &expected = package.weights()[index];
  std::string_view stem = expected.name;
  stem.remove_suffix(kScaleNames[0].size());
  const Entry *codes = nullptr, *scale = nullptr;
  MLAC_RETURN_IF_ERROR(findOne(stem, kMatrixNames, codes));
  MLAC_RETURN_IF_ERROR(findOne(stem, kScaleNames, scale));
  if (!codes || !scale)
    return needsAll ? error(MLA_NOT_FOUND, "lacks tensor '", prefix, expected.name, "'") : Status();
  WeightMatch match(index, expected, scale->second);
  MLAC_RETURN_IF_ERROR(matchGrid(match, *codes, *scale).in("weight '", expected.name, "'"));
  matches.push_back(std::move(match));
  return Status();
}

Status WeightMatcher::matchOne(size_t index, std::vector<WeightMatch> &matches, bool needsAll) {
  const TensorInfo &expected = package.weights()[index];
  if (std::string_view(expected.name).ends_with(kScaleNames[0]))
    return matchScales(index, matches, needsAll);
  std::string_view stem = expected.name, kind;
  bool isMatrix = stem.ends_with(concat(".", kMatrix));
  kind = isMatrix ? kMatrix : stem;
  stem.remove_suffix(kind.size());
  const Entry *tensor = nullptr, *scale = nullptr;
  if (isMatrix) {
    MLAC_RETURN_IF_ERROR(findOne(stem, kMatrixNames, tensor));
    MLAC_RETURN_IF_ERROR(findOne(stem, kScaleNames, scale));
    if (auto input = tensors.find(concat(stem, kInputScale)); input != tensors.end())
      used.insert(input->first);
  } else {
    MLAC_RETURN_IF_ERROR(findOne(stem, std::span(&kind, 1), tensor));
  }
  if (!tensor && scale)
    return error(MLA_NOT_FOUND, "lacks tensor '", prefix, expected.name, "', whose scales '",
                 prefix, scale->first, "' are there");
  if (!tensor)
    return needsAll ? error(MLA_NOT_FOUND, "lacks tensor '", prefix, expected.name, "'") : Status();

  WeightMatch match(index, expected, tensor->second);
  if (isMatrix && arePacked(tensor->second)) {
    MLAC_RETURN_IF_ERROR(
        matchFours(match, stem, *tensor, scale).in("weight '", expected.name, "'"));
    matches.push_back(std::move(match));
    return Status();
  }
  MLAC_RETURN_IF_ERROR(matchShape(match).in("weight '", expected.name, "'"));
  MLAC_RETURN_IF_ERROR(matchType(match, *tensor, scale).in("weight '", expected.name, "'"));
  matches.push_back(std::move(match));
  return Status();
}

Status WeightMatcher::match(bool needsAll, std::vector<WeightMatch> &matches) {
  for (size_t index = 0; index < package.weights().size(); ++index)
    MLAC_RETURN_IF_ERROR(matchOne(index, matches, needsAll));
  return Status();
}

Status WeightMatcher::extra(std::string_view name) const {
  // On every rank it would be in the sum as many times.
  if (shard.count > 1 && name == kOutputBias)
    return error(MLA_INVALID_ARGUMENT, "tensor '", prefix, name, "' is not a weight of one of ",
                 shard.count, " ranks: add it once, to the sum of their outputs");
  return error(MLA_INVALID_ARGUMENT, "tensor '", prefix, name,
               "' is not a weight of the package, which has: ", listNames(package.weights()));
}
