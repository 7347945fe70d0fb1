//===- DataType.cpp - element types of tensors ------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "base/DataType.h"

#include "base/NarrowFloat.h"

#include <cstring>

using namespace mlac::runtime;

namespace {
struct TypeInfo {
  const char *name;
  int64_t bytes;
};
} // namespace

static constexpr TypeInfo kTypes[] = {{"bf16", 2}, {"f16", 2}, {"f32", 4}, {"e4m3", 1},
                                      {"i32", 4},  {"i64", 8}, {"u8", 1}};

bool mlac::runtime::isKnownType(int dtype) {
  return dtype >= 0 && dtype < static_cast<int>(std::size(kTypes));
}

int64_t mlac::runtime::elementBytes(mla_dtype dtype) { return kTypes[dtype].bytes; }

const char *mlac::runtime::typeName(mla_dtype dtype) {
  return isKnownType(dtype) ? kTypes[dtype].name : "unknown";
}

bool mlac::runtime::isExactWidening(mla_dtype from, mla_dtype to) {
  return from == to || (to == MLA_F32 && (from == MLA_BF16 || from == MLA_F16));
}

bool mlac::runtime::isConvertible(mla_dtype from, mla_dtype to) {
  return isExactWidening(from, to) || (from == MLA_BF16 && to == MLA_F16);
}

static void narrowAll(const unsigned char *from, void *to, int64_t count) {
  auto *out = static_cast<uint16_t *>(to);
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, from + 2 * i, sizeof bits);
    out[i] = roundToF16(widenBf16(bits));
  }
}

template <float (*widen)(uint16_t)>
static void widenAll(const unsigned char *from, void *to, int64_t count) {
  auto *out = static_cast<float *>(to);
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, from + 2 * i, sizeof bits);
    out[i] = widen(bits);
  }
}

void mlac::runtime::convertElements(mla_dtype fromType, const void *from, mla_dtype toType,
                                    void *to, int64_t count) {
  auto *bytes = static_cast<const unsigned char *>(from);
  if (fromType == toType)
    std::memcpy(to, from, static_cast<size_t>(count * elementBytes(toType)));
  else if (toType == MLA_F16)
    narrowAll(bytes, to, count);
  else if (fromType == MLA_BF16)
    widenAll<widenBf16>(bytes, to, count);
  else
    widenAll<widenF16>(bytes, to, count);
}

std::string mlac::runtime::shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

bool mlac::runtime::checkedMul(int64_t a, int64_t b, int64_t &result) {
  return a >= 0 && b >= 0 && !__builtin_mul_overflow(a, b, &result);
}

bool mlac::runtime::checkedAdd(int64_t a, int64_t b, int64_t &result) {
  return a >= 0 && b >= 0 && !__builtin_add_overflow(a, b, &result);
}
