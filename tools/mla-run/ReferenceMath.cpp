//===- ReferenceMath.cpp - arithmetic that references share ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReferenceMath.h"

#include "Checkpoint.h"
#include "Numbers.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

using namespace mlac::run;

void mlac::run::normalise(double *x, const std::vector<float> &gamma, double epsilon,
                          double multiplier) {
  double square = 0;
  for (size_t i = 0; i < gamma.size(); ++i)
    square += x[i] * x[i];
  double factor = multiplier / std::sqrt(square / static_cast<double>(gamma.size()) + epsilon);
  for (size_t i = 0; i < gamma.size(); ++i)
    x[i] *= factor * gamma[i];
}

void mlac::run::softmax(std::vector<double> &scores, std::optional<double> sink) {
  double top = *std::max_element(scores.begin(), scores.end()), total = 0;
  if (sink) {
    top = std::max(top, *sink);
    total = std::exp(*sink - top);
  }
  for (double &score : scores)
    total += score = std::exp(score - top);
  for (double &score : scores)
    score /= total;
}

const std::vector<float> &Projections::require(const std::string &name, int64_t elements) const {
  auto found = weights.find(name);
  if (found == weights.end())
    throw std::runtime_error("the reference needs the weight '" + name + "'");
  if (static_cast<int64_t>(found->second.size()) != elements)
    throw std::runtime_error("the reference expects " + std::to_string(elements) +
                             " elements in '" + name + "', got " +
                             std::to_string(found->second.size()));
  return found->second;
}

void Projections::requireOnly(const std::set<std::string> &names) const {
  for (const auto &[name, values] : weights)
    if (names.count(name) == 0)
      throw std::runtime_error("the package has the weight '" + name +
                               "', for which the configuration gives the reference no reason");
}

/// What codes of the row, with a scale for each `group` of columns (0: all), stand for.
static std::vector<float> quantiseRow(std::vector<float> row, int64_t group) {
  auto columns = static_cast<int64_t>(row.size());
  std::vector<uint8_t> codes(row.size());
  std::vector<float> scales(group == 0 ? 1 : (columns + group - 1) / group);
  check(mla_quantize_weight(row.data(), 1, columns, 1, group, codes.data(), scales.data()),
        "quantising activations");
  return dequantise(codes.data(), scales, 1, columns, {1, group});
}

/// Threads share the outputs of all rows: they are started once.
template <typename T>
static std::vector<double> project(const WeightMap &weights, const std::string &name, const T *x,
                                   int64_t in, int64_t out, int64_t rows) {
  const std::vector<float> &weight = weights.at(name + ".weight");
  auto bias = weights.find(name + ".bias");
  std::vector<double> y(rows * out);
  parallelFor(out, [&](size_t begin, size_t end) {
    for (size_t column = begin; column < end; ++column) {
      double added = bias == weights.end() ? 0 : bias->second.at(column);
      for (int64_t row = 0; row < rows; ++row)
        y[row * out + column] = dot(x + row * in, weight.data() + column * in, in) + added;
    }
  });
  return y;
}

template <typename T>
std::vector<double> Projections::multiply(const std::string &name, const T *x, int64_t in,
                                          int64_t out, int64_t rows) const {
  if (!quantised.names.count(name))
    return project(weights, name, x, in, out, rows);
  std::vector<float> values;
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<float> own =
        quantiseRow(std::vector<float>(x + row * in, x + (row + 1) * in), quantised.columns);
    values.insert(values.end(), own.begin(), own.end());
  }
  return project(weights, name, values.data(), in, out, rows);
}

template std::vector<double> Projections::multiply(const std::string &, const float *, int64_t,
                                                   int64_t, int64_t) const;
template std::vector<double> Projections::multiply(const std::string &, const double *, int64_t,
                                                   int64_t, int64_t) const;
