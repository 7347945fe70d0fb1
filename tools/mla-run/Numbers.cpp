//===- Numbers.cpp - narrow, random numbers and error measures ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Numbers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <thread>

using namespace mlac::run;

float mlac::run::widenBf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t mlac::run::roundToBf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value))
    return static_cast<uint16_t>((bits >> 16) | 0x0040); // keep it quiet
  uint32_t half = 0x7fff + ((bits >> 16) & 1);
  return static_cast<uint16_t>((bits + half) >> 16);
}

static constexpr int kF16Bits = 10, kF16LeastExponent = -14, kF16Bias = 15;
static constexpr uint16_t kF16Infinity = 0x7c00, kF16Nan = 0x7e00;

float mlac::run::widenF16(uint16_t bits) {
  int exponent = bits >> kF16Bits & 31, mantissa = bits & ((1 << kF16Bits) - 1);
  float magnitude;
  if (exponent == 31)
    magnitude =
        mantissa ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
  else if (exponent == 0)
    magnitude = std::ldexp(static_cast<float>(mantissa), kF16LeastExponent - kF16Bits);
  else
    magnitude =
        std::ldexp(static_cast<float>(mantissa + (1 << kF16Bits)), exponent - kF16Bias - kF16Bits);
  return bits & 0x8000 ? -magnitude : magnitude;
}

uint16_t mlac::run::roundToF16(float value) {
  constexpr float kFirstInfinite = 65520; // halfway between 65504 and 2^16
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  float magnitude = std::fabs(value);
  if (std::isnan(value))
    return sign | kF16Nan;
  if (magnitude >= kFirstInfinite)
    return sign | kF16Infinity;
  if (magnitude == 0)
    return sign;
  int exponent = std::max(std::ilogb(magnitude), kF16LeastExponent);
  // In units of the last place: 1024 to 2048 of them, below of the smallest numbers.
  auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, kF16Bits - exponent)));
  return sign | static_cast<uint16_t>(((exponent - kF16LeastExponent) << kF16Bits) + units);
}

namespace {
struct TypeOfNumbers {
  mla_dtype dtype;
  const char *name;
  size_t bytes;
};
} // namespace

static constexpr TypeOfNumbers kTypes[] = {
    {MLA_BF16, "bf16", 2}, {MLA_F16, "f16", 2}, {MLA_F32, "f32", 4}};

static const TypeOfNumbers &findType(mla_dtype dtype) {
  return *std::find_if(std::begin(kTypes), std::end(kTypes),
                       [&](const TypeOfNumbers &type) { return type.dtype == dtype; });
}

size_t mlac::run::elementBytes(mla_dtype dtype) { return findType(dtype).bytes; }
const char *mlac::run::typeName(mla_dtype dtype) { return findType(dtype).name; }

mla_dtype mlac::run::parseType(const std::string &name) {
  for (const TypeOfNumbers &type : kTypes)
    if (type.name == name)
      return type.dtype;
  throw std::runtime_error("expected numbers of bf16, f16 or f32, got " + name);
}

std::vector<uint8_t> mlac::run::encode(const std::vector<float> &values, mla_dtype dtype) {
  std::vector<uint8_t> bytes(values.size() * elementBytes(dtype));
  if (dtype == MLA_F32) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t rounded = dtype == MLA_BF16 ? roundToBf16(values[i]) : roundToF16(values[i]);
    std::memcpy(&bytes[2 * i], &rounded, 2);
  }
  return bytes;
}

std::vector<float> mlac::run::decode(const std::vector<uint8_t> &bytes, mla_dtype dtype) {
  std::vector<float> values(bytes.size() / elementBytes(dtype));
  if (dtype == MLA_F32) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, &bytes[2 * i], 2);
    values[i] = dtype == MLA_BF16 ? widenBf16(bits) : widenF16(bits);
  }
  return values;
}

void mlac::run::parallelFor(size_t count, const std::function<void(size_t, size_t)> &body) {
  size_t workers =
      std::clamp<size_t>(std::thread::hardware_concurrency(), 1, std::max<size_t>(count, 1));
  std::vector<std::thread> threads;
  for (size_t i = 1; i < workers; ++i)
    threads.emplace_back(body, count * i / workers, count * (i + 1) / workers);
  body(0, count / workers);
  for (std::thread &thread : threads)
    thread.join();
}

/// SplitMix64 (Steele, Lea, Flood 2014): a good value for every counter, so
/// that threads need no shared state.
static uint64_t mix(uint64_t counter) {
  uint64_t z = counter * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

std::vector<float> mlac::run::randomBf16(uint64_t seed, size_t count, double deviation) {
  std::vector<float> values(count);
  // Four uniforms on [0, 65536): mean 4 * 32767.5, variance 4 * 65536^2 / 12.
  const float mean = 4 * 32767.5f;
  const float scale = static_cast<float>(deviation / (65536.0 / std::sqrt(3.0)));
  uint64_t base = mix(seed + 1);
  parallelFor(count, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      uint64_t bits = mix(base + i);
      float sum = static_cast<float>((bits & 0xffff) + ((bits >> 16) & 0xffff) +
                                     ((bits >> 32) & 0xffff) + (bits >> 48));
      values[i] = widenBf16(roundToBf16((sum - mean) * scale));
    }
  });
  return values;
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

void ErrorMeasure::addRow(const float *got, const double *reference, size_t width) {
  double error = 0, square = 0;
  bool isFinite = true;
  for (size_t i = 0; i < width; ++i) {
    double a = got[i], b = reference[i], difference = a - b;
    isFinite &= std::isfinite(a);
    error += difference * difference;
    square += b * b;
    squaredGot += a * a;
    product += a * b;
    absoluteError += std::abs(difference);
    absoluteReference += std::abs(b);
  }
  squaredError += error;
  squaredReference += square;
  ++numRows;
  numElements += width;
  nonFiniteRows += !isFinite;
  double relative = square > 0 ? std::sqrt(error / square) : (error > 0 ? 1.0 : 0.0);
  if (!isFinite)
    worst = std::numeric_limits<double>::infinity();
  else
    worst = std::max(worst, relative);
}

double ErrorMeasure::relative() const {
  return squaredReference > 0 ? std::sqrt(squaredError / squaredReference) : 0;
}

/// Below it a reference has no direction (mla.md section 14).
static constexpr double kLeastSquare = 1e-12;

double ErrorMeasure::cosine() const {
  if (squaredReference < kLeastSquare)
    return 1;
  return squaredGot > 0 ? product / std::sqrt(squaredGot * squaredReference) : 0;
}

double ErrorMeasure::meanSquaredError() const {
  return numElements > 0 ? squaredError / static_cast<double>(numElements) : 0;
}

double ErrorMeasure::cosineDifference() const {
  if (squaredReference < kLeastSquare)
    return 0;
  // Not 1 - 2ab / (a^2 + b^2), whose subtraction leaves 1e-16: the same value
  // as sum (a - b)^2 / sum (a^2 + b^2).
  return squaredError / (squaredGot + squaredReference);
}

double ErrorMeasure::wmape() const {
  return absoluteReference > 0 ? absoluteError / absoluteReference : 0;
}

bool Tolerance::accepts(const ErrorMeasure &errors) const {
  return errors.isFinite() && errors.relative() <= relative &&
         errors.cosineDifference() <= cosineDifference && errors.wmape() <= wmape &&
         errors.worstRow() <= worstRow;
}

Tolerance mlac::run::getQuantizedTolerance() {
  // New rows differ from the reference's by roundings to 16 bits, and where these lie between two
  // codes, by a code: 0.008 to 0.02 of a layer of four requests (0.03 if the reference kept its
  // rows as they are, paged-cache.md section 4), 0.024 of the worst row.
  return {0.03, 4.5e-4, 0.03, 0.06};
}

Tolerance mlac::run::getCodedTolerance() {
  // Rounding to e4m3 moves a number by 0.026 of it (2^-5 to 2^-4 at most, evenly spread). Where
  // 16-bit values differ from the reference's by more than a few of their own roundings, as a mean
  // over many keys does, codes are rounded independently of the reference's: by 0.037. Without the
  // reference's codes V3's layer is off by 0.059.
  return {0.05, 1.25e-3, 0.05, 0.1};
}

Tolerance mlac::run::getTolerance(mla_dtype activation) {
  // The end-to-end bounds of docs/performance.md: f32 1e-5 relative, cosine
  // difference 1e-9, WMAPE 1e-5; bf16 5e-5 and 0.01 (a plain model of its
  // rounding points gives 1.9e-5 and 0.006). In bf16 the relative error of unit
  // vectors is sqrt(2 * cosine difference), so 0.01. One wrong row has an error
  // near 1; honest rows stay within a few times the mean.
  if (activation == MLA_F32)
    return {1e-5, 1e-9, 1e-5, 1e-4};
  // f16 rounds at the same places eight times finer, so squares 64 times.
  if (activation == MLA_F16)
    return {0.0101 / 8, 5e-5 / 64, 0.01 / 8, 0.05 / 8};
  return {0.0101, 5e-5, 0.01, 0.05};
}
