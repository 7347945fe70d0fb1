//===- ScheduleCost.cpp - which schedule of attention fits and what it costs ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Analysis/ScheduleCost.h"

#include "mla/Analysis/ScheduleModel.h"
#include "mla/Machine/Sm90Limits.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlac;
using namespace mlir;
using llvm::divideCeil;

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

int64_t AttentionProblem::rowsPerTile(ScheduleKind kind) const {
  return getModel(kind).paged->rowsPerTile(*this);
}

int64_t AttentionProblem::rowTiles(ScheduleKind kind) const {
  return divideCeil(rows(), rowsPerTile(kind));
}

/// Boxes fill whole swizzle atoms, and a block consists of whole boxes.
int64_t AttentionProblem::boxesPerPanel() const {
  if (pageSize % kBlockKeys == 0)
    return 1;
  return pageSize >= sm90::kSwizzleRows && kBlockKeys % pageSize == 0 ? kBlockKeys / pageSize : 0;
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

double ScheduleCost::getBlockNanoseconds(const TargetDescription &target) const {
  return std::max(getStepCycles() / target.sm.clockGhz, memoryNanoseconds);
}

llvm::StringRef ScheduleCost::getBound(const TargetDescription &target) const {
  if (memoryNanoseconds >= getStepCycles() / target.sm.clockGhz)
    return "device memory";
  return getLargestTerm("the roles' recurrence");
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

ScheduleCost mlac::computeScheduleCost(const AttentionProblem &problem,
                                       const TargetDescription &target, ScheduleKind kind,
                                       const ScheduleRequest &request) {
  return getModel(kind).paged->plan(problem, target, request);
}

ScheduleChoice mlac::chooseSchedule(const AttentionProblem &problem,
                                    const TargetDescription &target, const ScheduleRequest &request,
                                    const ScheduleObjections &objections) {
  ScheduleChoice choice;
  for (ScheduleKind kind : getPagedScheduleKinds())
    choice.costs.push_back(computeScheduleCost(problem, target, kind, request));
  for (ScheduleCost &cost : choice.costs)
    if (auto objection = objections.find(cost.parameters.kind);
        objection != objections.end() && cost.isFeasible())
      cost.whyNot = objection->second;
  const ScheduleCost *best = nullptr;
  for (const ScheduleCost &cost : choice.costs) {
    if (!cost.isFeasible() || (request.kind && *request.kind != cost.parameters.kind))
      continue;
    double time = cost.getBlockNanoseconds(target);
    double bestTime = best ? best->getBlockNanoseconds(target) : 0;
    bool isEqual = best && !isFaster(time, bestTime) && !isFaster(bestTime, time);
    if (!best || isFaster(time, bestTime) ||
        (isEqual && isFaster(cost.tensorCycles, best->tensorCycles)))
      best = &cost;
  }
  if (best) {
    choice.chosen = best - choice.costs.begin();
    return choice;
  }
  for (const ScheduleCost &cost : choice.costs)
    if (!request.kind || *request.kind == cost.parameters.kind)
      choice.error += (choice.error.empty() ? "" : "; ") + getName(cost.parameters.kind).str() +
                      ": " + cost.whyNot;
  return choice;
}
