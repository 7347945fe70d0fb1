//===- Value.cpp - numbers and views ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Value.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/bit.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace mlac::simulator;
using llvm::APFloat;
using llvm::bit_cast;

float mlac::simulator::getPoison() { return bit_cast<float>(kPoisonBits); }

bool mlac::simulator::isPoison(float value) {
  // The bits that f16 keeps; the sign may have been flipped.
  constexpr uint32_t mask = 0x7FFFE000;
  return (bit_cast<uint32_t>(value) & mask) == (kPoisonBits & mask);
}

static float roundToBf16(float value) {
  uint32_t bits = bit_cast<uint32_t>(value);
  if (!std::isnan(value))
    bits += 0x7FFF + (bits >> 16 & 1); // to nearest, ties to even
  return bit_cast<float>(bits & 0xFFFF0000);
}

static uint16_t toF16(float value) {
  APFloat number(value);
  bool isExact;
  number.convert(APFloat::IEEEhalf(), APFloat::rmNearestTiesToEven, &isExact);
  return number.bitcastToAPInt().getZExtValue();
}

static float fromF16(uint16_t bits) {
  APFloat number(APFloat::IEEEhalf(), llvm::APInt(16, bits));
  bool isExact;
  number.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &isExact);
  return number.convertToFloat();
}

/// What is beyond the largest number becomes it (PTX ISA, cvt.satfinite).
static uint8_t toE4m3(float value) {
  constexpr float largest = 448;
  APFloat number(std::isnan(value) ? value : std::clamp(value, -largest, largest));
  bool isExact;
  number.convert(APFloat::Float8E4M3FN(), APFloat::rmNearestTiesToEven, &isExact);
  return number.bitcastToAPInt().getZExtValue();
}

static float fromE4m3(uint8_t bits) {
  APFloat number(APFloat::Float8E4M3FN(), llvm::APInt(8, bits));
  bool isExact;
  number.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &isExact);
  return number.convertToFloat();
}

float mlac::simulator::roundTo(float value, mlir::Type type) {
  if (mlir::isa<mlir::Float8E4M3FNType>(type))
    return fromE4m3(toE4m3(value));
  if (type.isBF16())
    return roundToBf16(value);
  return type.isF16() ? fromF16(toF16(value)) : value;
}

float mlac::simulator::readReal(const char *data, mlir::Type type) {
  if (type.isF32()) {
    float value;
    memcpy(&value, data, sizeof(value));
    return value;
  }
  if (mlir::isa<mlir::Float8E4M3FNType>(type))
    return fromE4m3(*data);
  uint16_t bits;
  memcpy(&bits, data, sizeof(bits));
  return type.isBF16() ? bit_cast<float>(uint32_t(bits) << 16) : fromF16(bits);
}

void mlac::simulator::writeReal(char *data, mlir::Type type, float value) {
  if (type.isF32()) {
    memcpy(data, &value, sizeof(value));
    return;
  }
  if (mlir::isa<mlir::Float8E4M3FNType>(type)) {
    *data = static_cast<char>(toE4m3(value));
    return;
  }
  uint16_t bits = type.isBF16() ? bit_cast<uint32_t>(roundToBf16(value)) >> 16 : toF16(value);
  memcpy(data, &bits, sizeof(bits));
}

int64_t mlac::simulator::readInteger(const char *data, mlir::Type type) {
  int64_t bits = 0, bytes = getElementBytes(type);
  memcpy(&bits, data, bytes);
  return llvm::SignExtend64(bits, 8 * bytes);
}

int64_t mlac::simulator::getElementBytes(mlir::Type type) {
  return type.isIndex() ? 8 : llvm::divideCeil(type.getIntOrFloatBitWidth(), 8);
}

bool View::contains(llvm::ArrayRef<int64_t> indices) const {
  for (auto [index, size] : llvm::zip(indices, sizes))
    if (index < 0 || index >= size)
      return false;
  return true;
}

std::vector<int64_t> View::getIndices(llvm::ArrayRef<int64_t> offsets, int64_t row,
                                      int64_t column) const {
  int64_t number = offsets.front() + row;
  std::vector<int64_t> indices = {number};
  if (sizes.size() > offsets.size())
    indices = {number / sizes[1], number % sizes[1]};
  if (offsets.size() == 2)
    indices.push_back(offsets[1] + column);
  return indices;
}

char *View::locate(llvm::ArrayRef<int64_t> indices) const {
  int64_t element = offset;
  for (auto [index, stride] : llvm::zip(indices, strides))
    element += index * stride;
  int64_t elementBytes = getElementBytes(elementType);
  if (element < 0 || (element + 1) * elementBytes > bytes)
    return nullptr;
  return data + element * elementBytes;
}
