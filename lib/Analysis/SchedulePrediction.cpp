//===- SchedulePrediction.cpp - from blocks to steps ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How blocks and items of equal requests add up over the parts that work side by
// side, after the rule of tile.work.
//
//===----------------------------------------------------------------------===//

#include "mla/Analysis/ScheduleCost.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>

using namespace mlac;
using llvm::divideCeil;

/// Partials of one item, of the output's type, written and read again.
static double getPartialBytes(const AttentionProblem &problem, ScheduleKind kind) {
  return static_cast<double>(problem.rowsPerTile(kind)) * problem.kvLoraRank * problem.elementBytes;
}

WorkCosts mlac::getWorkCosts(const AttentionProblem &problem, int64_t rowsOfToken,
                             const TargetDescription &target, const ScheduleCost &cost) {
  double blockCycles = cost.getBlockNanoseconds(target) * target.sm.clockGhz;
  // A merge is one more kernel, and a partial's bytes come back.
  double partialBytes = getPartialBytes(problem, cost.parameters.kind);
  double mergeCycles = target.launchMicroseconds * 1e3 * target.sm.clockGhz +
                       partialBytes / target.sm.l2BytesPerClock;
  // To hundredths: more is neither known nor read easily.
  auto round = [](double blocks) { return std::round(blocks * 100) / 100; };
  // A token's partial of all heads, written and read by way of the L2 cache.
  constexpr double kWays = 2;
  double tokenBytes = static_cast<double>(rowsOfToken) * problem.kvLoraRank * problem.elementBytes *
                      kWays / target.tuning.partialShare;
  double tokenCycles = tokenBytes / target.readGbps * target.sm.clockGhz;
  // A token of few heads costs less than a hundredth of a block, but there are many.
  constexpr double kOfToken = 1e4;
  return {round(cost.itemCycles / blockCycles), round(mergeCycles / blockCycles),
          std::round(tokenCycles / blockCycles * kOfToken) / kOfToken};
}

int64_t mlac::chooseFixedBlocks(const WorkCosts &costs) {
  constexpr double kShare = 5; // what a piece takes beside its blocks is a fifth of them
  return std::max<int64_t>(1, std::ceil(kShare * costs.item));
}

double mlac::predictMicroseconds(const AttentionProblem &problem, const TargetDescription &target,
                                 const ScheduleCost &cost, int64_t batch, int64_t keys) {
  ScheduleKind kind = cost.parameters.kind;
  int64_t tiles = problem.runs * problem.rowTiles(kind);
  int64_t parts = std::max<int64_t>(1, target.numSms / tiles);
  int64_t blocks = divideCeil(keys, kBlockKeys);
  double block = cost.getBlockNanoseconds(target) * 1e-3;
  double item = cost.itemCycles / target.sm.clockGhz * 1e-3;

  double requestsPerPart = divideCeil(batch, parts);
  double whole = requestsPerPart * (blocks * block + item);
  // Cut evenly: a part has its share of the blocks, and one piece more than its
  // share of the requests unless the requests are cut into whole parts.
  double blocksPerPart = divideCeil(batch * blocks, parts);
  double pieces = static_cast<double>(batch) / parts + (parts % batch == 0 ? 0 : 1);
  double cut = blocksPerPart * block + std::max(1.0, pieces) * item;
  double partials = std::min<double>(batch * blocks, std::max(batch, parts));
  double partialBytes = partials * tiles * getPartialBytes(problem, kind);
  double merge = target.launchMicroseconds + 2 * partialBytes / (target.readGbps * 1e3);
  return target.sm.kernelMicroseconds + std::min(whole, cut + merge);
}

std::string mlac::describeChoice(const AttentionProblem &problem, const TargetDescription &target,
                                 const ScheduleChoice &choice) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  const ScheduleCost &chosen = choice.get();
  stream << "schedule " << chosen.parameters.describe()
         << llvm::format(" (%.2f us per block and SM, bound by %s; item %.0f cycles; %lld bytes "
                         "of shared memory)",
                         chosen.getBlockNanoseconds(target) * 1e-3, chosen.getBound(target).data(),
                         chosen.itemCycles, static_cast<long long>(chosen.sharedBytes));
  constexpr int64_t kKeys = 4096;
  stream << "; predicted with " << kKeys << " keys:";
  for (int64_t batch : {1, 16, 128})
    stream << llvm::format(" batch %lld %.1f us%s", static_cast<long long>(batch),
                           predictMicroseconds(problem, target, chosen, batch, kKeys),
                           batch == 128 ? "" : ",");
  for (const ScheduleCost &cost : choice.costs) {
    if (&cost == &chosen)
      continue;
    stream << "; not " << getName(cost.parameters.kind) << ": ";
    if (!cost.isFeasible())
      stream << cost.whyNot;
    else
      stream << llvm::format("%.2f us, bound by %s", cost.getBlockNanoseconds(target) * 1e-3,
                             cost.getBound(target).data());
  }
  return text;
}
