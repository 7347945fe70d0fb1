//===- Numbers.h - bf16, random numbers and error measures ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_RUN_NUMBERS_H
#define MLA_RUN_NUMBERS_H

#include "mla_runtime.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace mlac::run {

float widenBf16(uint16_t bits);
/// Round to nearest, ties to even; NaN stays NaN.
uint16_t roundToBf16(float value);

float widenF16(uint16_t bits);
/// Round to nearest, ties to even; from 65520 on infinity.
uint16_t roundToF16(float value);

/// Of bf16, f16 and f32.
size_t elementBytes(mla_dtype dtype);
const char *typeName(mla_dtype dtype);
/// The type of that name; throws std::runtime_error for others.
mla_dtype parseType(const std::string &name);

/// `values` in the element type of a step's activations (bf16, f16 or f32).
std::vector<uint8_t> encode(const std::vector<float> &values, mla_dtype dtype);
std::vector<float> decode(const std::vector<uint8_t> &bytes, mla_dtype dtype);

/// Bell-shaped with mean 0 and the given deviation, rounded to bf16 so that
/// every back end starts from the same numbers. The sum of four uniforms stands
/// in for a normal deviate: same moments that matter here, a tenth of the time.
std::vector<float> randomBf16(uint64_t seed, size_t count, double deviation);

/// Calls body(begin, end) on disjoint parts of [0, count) from several threads.
void parallelFor(size_t count, const std::function<void(size_t, size_t)> &body);

/// How far `got` is from `reference`, over all rows added.
class ErrorMeasure {
public:
  void addRow(const float *got, const double *reference, size_t width);

  size_t rows() const { return numRows; }
  bool isFinite() const { return nonFiniteRows == 0; }
  size_t countNonFiniteRows() const { return nonFiniteRows; }
  /// ||got - reference|| / ||reference||.
  double relative() const;
  /// sum(ab) / sqrt(sum(a^2) sum(b^2)); 1 for a zero reference.
  double cosine() const;
  /// sum (got - reference)^2 / elements: says nothing without the outputs' size.
  double meanSquaredError() const;
  /// 1 - 2 sum(ab) / sum(a^2 + b^2); 0 for a zero reference.
  double cosineDifference() const;
  /// sum |got - reference| / sum |reference|.
  double wmape() const;
  /// Largest `relative` of one row: one wrong row hides in the sums above.
  double worstRow() const { return worst; }

private:
  size_t numRows = 0, numElements = 0, nonFiniteRows = 0;
  double squaredError = 0, squaredReference = 0, squaredGot = 0, product = 0;
  double absoluteError = 0, absoluteReference = 0;
  double worst = 0;
};

/// Bounds that an ErrorMeasure must keep.
struct Tolerance {
  double relative, cosineDifference, wmape, worstRow;
  bool accepts(const ErrorMeasure &errors) const;
};

/// The project's bounds for a layer with activations of this type, hidden
/// states to output, against float64.
Tolerance getTolerance(mla_dtype activation);
/// The same over a cache of e4m3 rows, where the reference has its own codes of new rows.
Tolerance getQuantizedTolerance();
/// The same where products read activations as codes, of which the reference has its own.
Tolerance getCodedTolerance();

} // namespace mlac::run

#endif // MLA_RUN_NUMBERS_H
