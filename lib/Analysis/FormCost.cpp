//===- FormCost.cpp - what each form of the attention costs ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Formulas of mla.md section 12. Counts are doubles: the expanded form of a
// long batch passes 2^53 only beyond any machine's memory, and rates divide
// them anyway. The crossover comparison is exact in integers.
//
//===----------------------------------------------------------------------===//

#include "mla/Analysis/FormCost.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlac;

llvm::StringRef mlac::getName(FormVariant variant) {
  switch (variant) {
  case FormVariant::Expanded:
    return "expanded";
  case FormVariant::AbsorbedOnline:
    return "absorbed online";
  case FormVariant::AbsorbedOffline:
    return "absorbed offline";
  case FormVariant::AbsorbedHalfQuery:
    return "absorbed half-query";
  case FormVariant::AbsorbedHalfOutput:
    return "absorbed half-output";
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Counting
//===----------------------------------------------------------------------===//

int64_t mlac::countAttendedPairs(int64_t queryLen, int64_t contextLen) {
  return queryLen * contextLen + queryLen * (queryLen + 1) / 2;
}

static bool foldsQuery(FormVariant variant) {
  return variant == FormVariant::AbsorbedOffline || variant == FormVariant::AbsorbedHalfQuery;
}
static bool foldsOutput(FormVariant variant) {
  return variant == FormVariant::AbsorbedOffline || variant == FormVariant::AbsorbedHalfOutput;
}

namespace {
/// Collects the steps of one variant. Lengths and dimensions are doubles so
/// that products do not overflow.
class StepCounter {
public:
  StepCounter(const FormProblem &problem, FormVariant variant)
      : problem(problem), cost{variant, {}}, B(problem.numRequests), Sq(problem.queryLen),
        Skv(problem.seqLen()), C(problem.contextLen), H(problem.dims.hiddenSize),
        N(problem.dims.numHeads), Lin(problem.dims.queryInputDim()), Lkv(problem.dims.kvLoraRank),
        P(problem.dims.qkNopeHeadDim), R(problem.dims.qkRopeHeadDim), V(problem.dims.vHeadDim),
        A(countAttendedPairs(problem.queryLen, problem.contextLen)),
        elementBytes(problem.elementBytes) {}

  FormCost count() {
    countInputProjections();
    if (cost.variant == FormVariant::Expanded)
      countExpandedCore();
    else
      countAbsorbedCore();
    addProjection("W_O", N * (foldsOutput(cost.variant) ? Lkv : V), H);
    return cost;
  }

private:
  void add(llvm::StringRef name, double flops, double bytes, bool isCore) {
    cost.steps.push_back({name, flops, bytes, isCore});
  }
  /// A dense projection of every new token, outside the core.
  void addProjection(llvm::StringRef name, double in, double out) {
    add(name, 2 * B * Sq * in * out, elementBytes * (in * out + B * Sq * (in + out)), false);
  }

  void countInputProjections() {
    if (problem.dims.qLoraRank)
      addProjection("q down", H, Lin);
    addProjection("q up", Lin, N * ((foldsQuery(cost.variant) ? Lkv : P) + R));
    addProjection("kv down", H, Lkv + R);
  }

  /// Keys and values are written once by the up-projection and read once by the
  /// attention: together κ = 2(P+V) elements per token and head, and 2(P+R)
  /// more if the keys are copied to join the rope part.
  void countExpandedCore() {
    double kvElements = B * Skv * N * (P + V);
    double concatElements = problem.concatenatesKeys ? B * Skv * N * 2 * (P + R) : 0;
    add("k/v up", 2 * B * Skv * Lkv * N * (P + V),
        B * C * problem.bytesPerCachedToken() +
            elementBytes * (Lkv * N * (P + V) + kvElements + concatElements),
        true);
    add("attention", 2 * B * N * (P + R + V) * A,
        elementBytes * (kvElements + B * Sq * N * (P + R + V)), true);
  }

  void countAbsorbedCore() {
    if (!foldsQuery(cost.variant))
      add("q·W_UK", 2 * B * Sq * N * P * Lkv, elementBytes * Lkv * N * P, true);
    double rowTiles = llvm::divideCeil(problem.queryLen * problem.dims.numHeads, problem.tileRows);
    double cacheBytes =
        B * problem.bytesPerCachedToken() * Skv * rowTiles * (1 - problem.l2HitRate);
    add("attention", 2 * B * N * (2 * Lkv + R) * A,
        cacheBytes + elementBytes * B * Sq * N * (2 * Lkv + R), true);
    if (!foldsOutput(cost.variant))
      add("W_UV", 2 * B * Sq * N * Lkv * V, elementBytes * Lkv * N * V, true);
  }

  const FormProblem &problem;
  FormCost cost;
  const double B, Sq, Skv, C, H, N, Lin, Lkv, P, R, V, A, elementBytes;
};
} // namespace

FormCost mlac::computeFormCost(const FormProblem &problem, FormVariant variant) {
  return StepCounter(problem, variant).count();
}

static double sum(llvm::ArrayRef<CostStep> steps, double CostStep::*field, bool coreOnly) {
  double total = 0;
  for (const CostStep &step : steps)
    if (step.isCore || !coreOnly)
      total += step.*field;
  return total;
}

double FormCost::totalFlops() const { return sum(steps, &CostStep::flops, false); }
double FormCost::coreFlops() const { return sum(steps, &CostStep::flops, true); }
double FormCost::totalBytes() const { return sum(steps, &CostStep::bytes, false); }
double FormCost::coreBytes() const { return sum(steps, &CostStep::bytes, true); }

double FormCost::predictMicroseconds(const TargetDescription &target) const {
  const double flopsPerMicrosecond = target.matmulTflops * 1e6;
  const double bytesPerMicrosecond = target.readGbps * 1e3;
  double microseconds = 0;
  for (const CostStep &step : steps)
    microseconds += target.launchMicroseconds +
                    std::max(step.flops / flopsPerMicrosecond, step.bytes / bytesPerMicrosecond);
  return microseconds;
}

double mlac::estimateL2HitRate(const FormProblem &problem) {
  double rowTiles = llvm::divideCeil(problem.queryLen * problem.dims.numHeads, problem.tileRows);
  return 1 - 1 / rowTiles;
}

double mlac::computeDecodeIntensity(const FormProblem &problem) {
  const LayerDims &dims = problem.dims;
  return 2.0 * dims.numHeads * problem.queryLen * (2 * dims.kvLoraRank + dims.qkRopeHeadDim) /
         problem.bytesPerCachedToken();
}

//===----------------------------------------------------------------------===//
// Crossover
//===----------------------------------------------------------------------===//

/// Lkv(P+V): MACs per head of up-projecting one cached token.
static int64_t upProjectionMacs(const LayerDims &dims) {
  return dims.kvLoraRank * (dims.qkNopeHeadDim + dims.vHeadDim);
}

/// 2·Lkv−P−V: MACs per head and attended pair that the absorbed form has more.
static int64_t extraPairMacs(const LayerDims &dims) {
  return 2 * dims.kvLoraRank - dims.qkNopeHeadDim - dims.vHeadDim;
}

bool mlac::isExpandedCheaper(const LayerDims &dims, int64_t contextTokens, int64_t attendedPairs) {
  return contextTokens * upProjectionMacs(dims) <= extraPairMacs(dims) * attendedPairs;
}

std::optional<double> mlac::computeCrossover(const LayerDims &dims) {
  if (extraPairMacs(dims) <= 0)
    return std::nullopt;
  return double(upProjectionMacs(dims)) / extraPairMacs(dims);
}

std::optional<int64_t> mlac::findSmallestExpandedQueryLen(const LayerDims &dims,
                                                          int64_t contextLen) {
  std::optional<double> crossover = computeCrossover(dims);
  if (!crossover)
    return std::nullopt;
  // A grows with Sq and A >= Sq·C, so ⌈Sq*⌉ wins for every context.
  int64_t low = 1, high = llvm::divideCeil(upProjectionMacs(dims), extraPairMacs(dims));
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (isExpandedCheaper(dims, contextLen, countAttendedPairs(middle, contextLen)))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}
