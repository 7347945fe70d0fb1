//===- ReferenceMath.h - arithmetic that references share ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_RUN_REFERENCEMATH_H
#define MLA_RUN_REFERENCEMATH_H

#include "Reference.h"

#include <optional>

namespace mlac::run {

/// Eight partial sums, so that the compiler can use vector registers without
/// being allowed to reorder.
template <typename A, typename B> double dot(const A *a, const B *b, int64_t count) {
  constexpr int64_t kLanes = 8;
  double sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane)
      sums[lane] += static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]);
  double total = 0;
  for (double sum : sums)
    total += sum;
  for (; i < count; ++i)
    total += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return total;
}

/// x / sqrt(mean(x^2) + epsilon) * gamma * multiplier, in place.
void normalise(double *x, const std::vector<float> &gamma, double epsilon, double multiplier = 1);

/// Softmax of one query's scores, in place; a sink is one more score, of no value.
void softmax(std::vector<double> &scores, std::optional<double> sink = std::nullopt);

/// A layer's weights, and products with them.
class Projections {
public:
  Projections(const WeightMap &weights, const QuantisedProjections &quantised)
      : weights(weights), quantised(quantised) {}

  bool has(const std::string &name) const { return weights.count(name) != 0; }
  /// Throws when it is missing or has another number of elements.
  const std::vector<float> &require(const std::string &name, int64_t elements) const;
  const std::vector<float> &get(const std::string &name) const { return weights.at(name); }
  /// Throws where there are others than `names`, which the reference would not compute with.
  void requireOnly(const std::set<std::string> &names) const;
  /// y = W x + b with W [out, in] and the bias, if there is one; of x as codes where the projection
  /// takes it so. Of several rows [rows, in]: [rows, out].
  template <typename T>
  std::vector<double> multiply(const std::string &name, const T *x, int64_t in, int64_t out,
                               int64_t rows = 1) const;

private:
  const WeightMap &weights;
  QuantisedProjections quantised;
};

} // namespace mlac::run

#endif // MLA_RUN_REFERENCEMATH_H
