//===- DenseScheduleCost.cpp - schedules of attention over dense keys ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Analysis/DenseScheduleCost.h"

#include "mla/Analysis/ScheduleModel.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <numeric>

using namespace mlac;

int64_t DenseAttentionProblem::getKeyWidth() const {
  return std::accumulate(keyWidths.begin(), keyWidths.end(), int64_t(0));
}

bool DenseAttentionProblem::hasBoxes(int64_t keys) const {
  return llvm::all_of(pageSizes, [&](int64_t page) {
    int64_t rows = std::min(page, keys);
    return page % rows == 0 && keys % rows == 0 && firstMultiple % rows == 0;
  });
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

DenseScheduleCost mlac::computeDenseScheduleCost(const DenseAttentionProblem &problem,
                                                 const TargetDescription &target, ScheduleKind kind,
                                                 const ScheduleRequest &request) {
  return getModel(kind).dense->plan(problem, target, request);
}

DenseScheduleChoice mlac::chooseDenseSchedule(const DenseAttentionProblem &problem,
                                              const TargetDescription &target,
                                              const ScheduleRequest &request,
                                              const ScheduleObjections &objections) {
  DenseScheduleChoice choice;
  const DenseScheduleCost *best = nullptr;
  for (ScheduleKind kind : getDenseScheduleKinds())
    choice.costs.push_back(computeDenseScheduleCost(problem, target, kind, request));
  for (DenseScheduleCost &cost : choice.costs) {
    if (auto objection = objections.find(cost.parameters.kind);
        objection != objections.end() && cost.isFeasible())
      cost.whyNot = objection->second;
    bool isAsked = !request.kind || *request.kind == cost.parameters.kind;
    if (isAsked && cost.isFeasible() &&
        (!best || cost.getRelativeCycles() < best->getRelativeCycles()))
      best = &cost;
    if (isAsked && !cost.isFeasible())
      choice.error += (choice.error.empty() ? "" : "; ") + getName(cost.parameters.kind).str() +
                      ": " + cost.whyNot;
  }
  if (best) {
    choice.chosen = best - choice.costs.begin();
    choice.error.clear();
  }
  return choice;
}

std::string mlac::describeChoice(const DenseAttentionProblem &problem,
                                 const TargetDescription &target,
                                 const DenseScheduleChoice &choice) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  auto describe = [&](const DenseScheduleCost &cost) {
    double step = cost.getStepCycles();
    stream << llvm::format("%.2f us for %lld rows and %lld keys, %.2f of the tensor rate, bound by "
                           "%s",
                           step / target.sm.clockGhz * 1e-3, static_cast<long long>(cost.rows),
                           static_cast<long long>(cost.keys), cost.tensorCycles / step,
                           cost.getBound().data());
  };
  const DenseScheduleCost &chosen = choice.get();
  stream << "schedule " << chosen.parameters.describe() << " (";
  describe(chosen);
  stream << "; " << chosen.sharedBytes << " bytes of shared memory)";
  for (const DenseScheduleCost &cost : choice.costs) {
    if (&cost == &chosen)
      continue;
    stream << "; not " << getName(cost.parameters.kind) << ": ";
    if (cost.isFeasible())
      describe(cost);
    else
      stream << cost.whyNot;
  }
  return text;
}
