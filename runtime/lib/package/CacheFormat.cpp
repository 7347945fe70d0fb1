//===- CacheFormat.cpp - cache rows on the host -----------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "package/CacheFormat.h"

#include "base/DataType.h"
#include "base/NarrowFloat.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace mlac;
using namespace mlac::runtime;
using cache::Part;
using cache::Storage;

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

static float readElement(mla_dtype type, const char *from) {
  if (type == MLA_F32) {
    float value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return type == MLA_BF16 ? widenBf16(bits) : widenF16(bits);
}

static void writeElement(mla_dtype type, float value, char *to) {
  if (type == MLA_F32) {
    std::memcpy(to, &value, sizeof value);
    return;
  }
  uint16_t bits = type == MLA_BF16 ? roundToBf16(value) : roundToF16(value);
  std::memcpy(to, &bits, sizeof bits);
}

static uint8_t acceptBit(mla_dtype type) {
  switch (type) {
  case MLA_BF16:
    return cache::kBF16;
  case MLA_F16:
    return cache::kF16;
  case MLA_F32:
    return cache::kF32;
  default:
    return 0;
  }
}

//===----------------------------------------------------------------------===//
// Layout
//===----------------------------------------------------------------------===//

mla_dtype mlac::runtime::storageType(const cache::Format &format, mla_dtype modelType) {
  for (size_t i = 1; i < format.numFields; ++i)
    if (format.fields[i].storage != format.fields[0].storage)
      return MLA_U8;
  return fieldType(format.fields[0], modelType);
}

mla_dtype mlac::runtime::fieldType(const cache::Field &field, mla_dtype modelType) {
  switch (field.storage) {
  case Storage::Model:
    return modelType;
  case Storage::BF16:
    return MLA_BF16;
  case Storage::F32:
    return MLA_F32;
  case Storage::E4M3:
    return MLA_E4M3;
  case Storage::E8M0:
  case Storage::Zero:
  case Storage::E2M1: // two in each
    return MLA_U8;
  }
  return MLA_U8;
}

size_t mlac::runtime::findPart(const cache::Format &format, std::string_view name) {
  size_t index = 0;
  while (index < format.numFields && cache::partName(format.fields[index].part) != name)
    ++index;
  return index;
}

std::string mlac::runtime::knownFormats() {
  std::string names;
  for (const cache::Format &format : cache::kFormats)
    names += concat(names.empty() ? "" : ", ", format.name);
  return names;
}

cache::Widths CacheLayout::widths() const {
  cache::Widths widths{};
  std::ranges::copy(shape_.columns, widths.columns);
  widths.modelBytes = elementBytes(shape_.dtype);
  return widths;
}

int64_t CacheLayout::rowStart(size_t index) const {
  int64_t first = 0;
  for (size_t i = 0; i < index; ++i)
    first += cache::isRow(format_->fields[i].part) ? count(i) : 0;
  return first;
}

/// Sizes that keep every product of this file below 2^63.
static constexpr int64_t kMaxWidth = 1 << 20, kMaxPageSize = 1 << 20;

/// Of the row's field `position`. Rope keys may be missing; nothing else may.
static Status requireWidth(const cache::Format &format, size_t position, int64_t width) {
  size_t index = 0;
  while (index < format.numFields &&
         (!cache::isRow(format.fields[index].part) || cache::rowField(format, index) != position))
    ++index;
  bool isThere = index < format.numFields;
  const cache::Field &field = format.fields[isThere ? index : 0];
  int64_t low = isThere && field.part != Part::Rope, high = isThere ? kMaxWidth : 0;
  if (isThere && field.count > 0)
    low = high = field.count;
  if (width >= low && width <= high)
    return Status();
  return error(MLA_INVALID_ARGUMENT, "format ", format.name, ": ",
               isThere ? cache::partName(field.part) : concat("field ", position), " = ", width,
               ", expected ", low, low == high ? "" : concat(" to ", high));
}

Status CacheLayout::make(std::string_view name, const CacheShape &shape, CacheLayout &layout) {
  const cache::Format *format = cache::findFormat(name);
  if (!format)
    return error(MLA_UNSUPPORTED, "cache format '", name, "', known: ", knownFormats());
  for (size_t i = 0; i < cache::kMaxRowFields; ++i)
    MLAC_RETURN_IF_ERROR(requireWidth(*format, i, shape.columns[i]));
  if (!(format->accepts & acceptBit(shape.dtype)))
    return error(MLA_INVALID_ARGUMENT, "format ", name, " does not take rows of ",
                 typeName(shape.dtype));
  if (format->scaleGroup && shape.columns[0] % format->scaleGroup)
    return error(MLA_INVALID_ARGUMENT, "format ", name, ": ",
                 cache::partName(format->fields[0].part), " = ", shape.columns[0],
                 ", expected a multiple of the scales' group of ", format->scaleGroup);
  if (shape.pageSize < 1 || shape.pageSize > kMaxPageSize)
    return error(MLA_INVALID_ARGUMENT, "page_size = ", shape.pageSize, ", expected 1 to ",
                 kMaxPageSize);
  CacheLayout result;
  result.format_ = format;
  result.shape_ = shape;
  int64_t least = cache::pageBytes(*format, shape.pageSize, result.widths());
  int64_t &stride = result.shape_.pageStride;
  if (stride == 0)
    stride = least;
  if (stride < least || stride % format->pageMultiple)
    return error(MLA_INVALID_ARGUMENT, "page stride of ", stride, " bytes, format ", name,
                 " needs at least ", least, " and a multiple of ", format->pageMultiple);
  layout = result;
  return Status();
}

int64_t CacheLayout::offset(size_t index, int64_t slot) const {
  const cache::Field &field = format_->fields[index];
  int64_t page = slot / shape_.pageSize, inPage = slot % shape_.pageSize;
  return page * shape_.pageStride +
         cache::sectionStart(*format_, field.section, shape_.pageSize, widths()) +
         inPage * cache::sectionBytes(*format_, field.section, widths()) +
         cache::fieldOffset(*format_, index, widths());
}

int64_t CacheLayout::poolBytes(int64_t numPages) const {
  int64_t bytes;
  return checkedMul(shape_.pageStride, numPages, bytes) ? bytes : -1;
}

Status CacheLayout::check(const Encoding &encoding) const {
  for (int32_t i = 0; i < format_->layerScales; ++i)
    if (float scale = encoding.layerScales[i]; !(scale > 0 && std::isfinite(scale)))
      return error(MLA_INVALID_ARGUMENT, "scale = ", scale, ", expected a positive finite number");
  if (format_->scaleGroup == 0)
    return Status();
  if (cache::hasExponents(*format_) && !encoding.rule.isPowerOfTwo)
    return error(MLA_INVALID_ARGUMENT, "format ", format_->name,
                 " stores exponents: its scales are powers of two");
  for (float floor : {encoding.rule.amaxFloor, encoding.rule.scaleFloor})
    if (!(floor >= 0 && std::isfinite(floor)))
      return error(MLA_INVALID_ARGUMENT, "floor of a scale = ", floor,
                   ", expected a finite number of at least 0");
  return Status();
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// The scale of a group. NaN does not count; an infinity counts as the largest number
/// and becomes +-mostCode. Without floors the scale is still a normal number.
static float chooseScale(const cache::ScaleRule &rule, const float *values, int64_t count) {
  float amax = rule.amaxFloor;
  for (int64_t i = 0; i < count; ++i)
    if (std::fabs(values[i]) > amax)
      amax = std::fabs(values[i]);
  amax = std::min(amax, FLT_MAX);
  float scale = std::max({amax / rule.mostCode, rule.scaleFloor, FLT_MIN});
  return rule.isPowerOfTwo ? roundUpToPowerOf2(scale) : scale;
}

void CacheLayout::writeCode(char *codes, int64_t position, float value) const {
  if (!cache::isPacked(*format_)) {
    codes[position] = static_cast<char>(roundToE4m3(value));
    return;
  }
  int shift = position % 2 == 0 ? 0 : 4;
  auto byte = static_cast<uint8_t>(codes[position / 2]);
  byte = static_cast<uint8_t>((byte & (0xf0 >> shift)) | (roundToE2m1(value) << shift));
  codes[position / 2] = static_cast<char>(byte);
}

float CacheLayout::readCode(const char *codes, int64_t position) const {
  if (!cache::isPacked(*format_))
    return widenE4m3(static_cast<uint8_t>(codes[position]));
  auto byte = static_cast<uint8_t>(codes[position / 2]);
  return widenE2m1(position % 2 == 0 ? byte & 0xf : byte >> 4);
}

void CacheLayout::encodeGroup(const Encoding &encoding, const float *values, int64_t group,
                              int64_t slot, char *pool) const {
  int64_t width = format_->scaleGroup, first = group * width;
  float scale = chooseScale(encoding.rule, values + first, width);
  char *codes = pool + offset(0, slot); // groups are of the first field
  for (int64_t i = 0; i < width; ++i)
    writeCode(codes, first + i, values[first + i] / scale);
  size_t index = cache::findField(*format_, Part::Scale);
  char *to = pool + offset(index, slot);
  if (format_->fields[index].storage == Storage::E8M0)
    to[group] = static_cast<char>(encodeE8m0(scale));
  else
    writeElement(MLA_F32, scale, to + group * int64_t(sizeof(float)));
}

float CacheLayout::readScale(const char *pool, int64_t slot, int64_t group) const {
  size_t index = cache::findField(*format_, Part::Scale);
  const char *from = pool + offset(index, slot);
  if (format_->fields[index].storage == Storage::E8M0)
    return widenE8m0(static_cast<uint8_t>(from[group]));
  return readElement(MLA_F32, from + group * int64_t(sizeof(float)));
}

void CacheLayout::encode(const Encoding &encoding, const void *row, int64_t slot,
                         void *pool) const {
  auto *from = static_cast<const char *>(row);
  auto *to = static_cast<char *>(pool);
  int64_t bytes = elementBytes(shape_.dtype);
  std::vector<float> values(static_cast<size_t>(rowWidth()));
  for (int64_t i = 0; i < rowWidth(); ++i)
    values[static_cast<size_t>(i)] = readElement(shape_.dtype, from + i * bytes);
  for (size_t index = 0; index < format_->numFields; ++index) {
    const cache::Field &field = format_->fields[index];
    int64_t count = this->count(index), first = rowStart(index);
    char *at = to + offset(index, slot);
    if (field.part == Part::Padding)
      std::memset(at, 0, static_cast<size_t>(count));
    else if (field.part == Part::Scale)
      for (int64_t group = 0; group < count; ++group)
        encodeGroup(encoding, values.data(), group, slot, to);
    else if (!cache::isCode(field.storage)) // the row's own type: bits are copied
      std::memcpy(at, from + first * bytes, static_cast<size_t>(count * bytes));
    else if (format_->scaleGroup == 0)
      for (int64_t i = 0; i < count; ++i)
        at[i] = static_cast<char>(
            roundToE4m3(values[static_cast<size_t>(first + i)] /
                        encoding.layerScales[cache::layerScale(*format_, index)]));
  }
}

void CacheLayout::decode(const Encoding &encoding, const void *pool, int64_t slot,
                         void *row) const {
  auto *from = static_cast<const char *>(pool);
  auto *to = static_cast<char *>(row);
  int64_t bytes = elementBytes(shape_.dtype);
  for (size_t index = 0; index < format_->numFields; ++index) {
    const cache::Field &field = format_->fields[index];
    if (!cache::isRow(field.part))
      continue;
    int64_t count = this->count(index);
    char *out = to + rowStart(index) * bytes;
    const char *at = from + offset(index, slot);
    if (!cache::isCode(field.storage)) {
      std::memcpy(out, at, static_cast<size_t>(count * bytes));
      continue;
    }
    for (int64_t i = 0; i < count; ++i) {
      int64_t group = format_->scaleGroup ? i / format_->scaleGroup : 0;
      float scale = format_->scaleGroup ? readScale(from, slot, group)
                                        : encoding.layerScales[cache::layerScale(*format_, index)];
      writeElement(shape_.dtype, readCode(at, i) * scale, out + i * bytes);
    }
  }
}
