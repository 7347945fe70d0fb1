//===- SharedPrefixCost.cpp - when a prefix of many requests pays to be shared ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Analysis/SharedPrefixCost.h"

#include "mla/Analysis/DenseScheduleCost.h"
#include "mla/Analysis/ProductCost.h"
#include "mla/Analysis/ScheduleCost.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlac;
using llvm::divideCeil;

/// Launches that sharing adds: gather, two up-projections, attention, merge.
static constexpr int64_t kLaunches = 5;

namespace {
class Estimate {
public:
  Estimate(const SharedPrefixProblem &problem, const TargetDescription &target)
      : problem(problem), dims(problem.dims), target(target) {}

  SharedPrefixCost compute() {
    if (target.sm.clockGhz > 0)
      countCycles();
    else
      countFlops();
    // Partials in f32 are written and read, the own part is read, the result written.
    double bytes = static_cast<double>(dims.numHeads * dims.vHeadDim) *
                   (2 * sizeof(float) + 2.0 * problem.elementBytes);
    cost.merge = toPicoseconds(bytes / target.copyGbps);
    cost.fixed = toPicoseconds(kLaunches * target.launchMicroseconds * 1e3);
    return cost;
  }

private:
  static int64_t toPicoseconds(double nanoseconds) { return std::llround(nanoseconds * 1e3); }
  static int64_t pad(int64_t width) {
    constexpr int64_t kGranule = 16; // columns of a wgmma operand
    return llvm::alignTo(width, kGranule);
  }

  void countCycles() {
    cost.numSms = target.numSms;
    AttentionProblem absorbed;
    absorbed.rowsPerToken = dims.numHeads;
    absorbed.queryLen = std::max<int64_t>(problem.queryLen, 1);
    absorbed.areRowsBounded = problem.queryLen > 0;
    absorbed.kvLoraRank = dims.kvLoraRank;
    absorbed.ropeDim = dims.qkRopeHeadDim;
    absorbed.pageSize = problem.pageSize;
    absorbed.elementBytes = problem.elementBytes;
    const ScheduleChoice choice = chooseSchedule(absorbed, target);
    cost.tileRows = absorbed.rowsPerTile(choice.get().parameters.kind);
    cost.absorbedTile =
        toPicoseconds(target.tuning.absorbedShare * choice.get().getStepCycles() / kBlockKeys /
                      target.sm.clockGhz / static_cast<double>(target.numSms));

    DenseAttentionProblem dense;
    dense.keyWidths.push_back(pad(dims.qkNopeHeadDim));
    if (dims.qkRopeHeadDim > 0)
      dense.keyWidths.push_back(pad(dims.qkRopeHeadDim));
    dense.valueWidth = pad(dims.vHeadDim);
    dense.elementBytes = problem.elementBytes;
    const DenseScheduleChoice expanded = chooseDenseSchedule(dense, target);
    cost.turnTokens = expanded.get().rows;
    // A launch, and partials of one turn of all multiprocessors, written and read in f32.
    double partials = static_cast<double>(target.numSms * expanded.get().rows * dims.vHeadDim) *
                      (2 * sizeof(float));
    cost.split = toPicoseconds(target.launchMicroseconds * 1e3 +
                               partials / (target.tuning.partialShare * target.readGbps));
    cost.expandedTurn = toPicoseconds(expanded.get().getRelativeCycles() *
                                      static_cast<double>(cost.turnTokens) / target.sm.clockGhz);
    cost.upProjection =
        toPicoseconds((upProjectionCycles(dims.qkNopeHeadDim) + upProjectionCycles(dims.vHeadDim)) /
                      target.sm.clockGhz);
  }

  /// Of one key, where there are many.
  double upProjectionCycles(int64_t width) const {
    constexpr int64_t kKeys = 8192;
    ProductShape shape{dims.numHeads * width, dims.kvLoraRank};
    return predictProductCycles(shape, kKeys, chooseProductTiles(shape, target), target) / kKeys;
  }

  void countFlops() {
    const double flopsPerNanosecond = target.matmulTflops * 1e3;
    double pairMacs = 2.0 * dims.kvLoraRank + dims.qkRopeHeadDim;
    cost.absorbedTile = toPicoseconds(2 * pairMacs / flopsPerNanosecond);
    double expandedMacs =
        static_cast<double>(dims.qkNopeHeadDim + dims.qkRopeHeadDim + dims.vHeadDim);
    cost.expandedTurn = toPicoseconds(2 * expandedMacs / flopsPerNanosecond);
    double upMacs = static_cast<double>(dims.numHeads * dims.kvLoraRank) *
                    static_cast<double>(dims.qkNopeHeadDim + dims.vHeadDim);
    cost.upProjection = toPicoseconds(2 * upMacs / flopsPerNanosecond);
  }

  const SharedPrefixProblem &problem;
  const LayerDims &dims;
  const TargetDescription &target;
  SharedPrefixCost cost;
};
} // namespace

SharedPrefixCost mlac::computeSharedPrefixCost(const SharedPrefixProblem &problem,
                                               const TargetDescription &target) {
  return Estimate(problem, target).compute();
}

int64_t SharedPrefixCost::computeSaving(int64_t heads, int64_t requests, int64_t tokens,
                                        int64_t keys) const {
  int64_t tiles = std::max<int64_t>(requests, divideCeil(tokens * heads, tileRows));
  int64_t items = divideCeil(tokens, turnTokens) * heads;
  int64_t whole = divideCeil(items, numSms) * expandedTurn * keys;
  int64_t cut = divideCeil(items * expandedTurn * keys, numSms) + split;
  return keys * (tiles * absorbedTile - upProjection) - std::min(whole, cut) - tokens * merge -
         fixed;
}

std::optional<int64_t> mlac::findLeastSharers(const SharedPrefixCost &cost, int64_t heads,
                                              int64_t keys, int64_t limit) {
  int64_t least = limit + 1;
  while (least > 1 && cost.computeSaving(heads, least - 1, least - 1, keys) > 0)
    --least;
  if (least > limit)
    return std::nullopt;
  return least;
}
