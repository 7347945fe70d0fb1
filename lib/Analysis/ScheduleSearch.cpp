//===- ScheduleSearch.cpp - which schedules are worth measuring ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Analysis/ScheduleSearch.h"

using namespace mlac;

/// Whether `kind` is asked for, and nothing stands against it.
static bool mayBe(ScheduleKind kind, const ScheduleRequest &request,
                  const ScheduleObjections &objections) {
  return (!request.kind || *request.kind == kind) && objections.find(kind) == objections.end();
}

std::vector<ScheduleCost> mlac::enumerateSchedules(const AttentionProblem &problem,
                                                   const TargetDescription &target,
                                                   const ScheduleRequest &request,
                                                   std::string &error,
                                                   const ScheduleObjections &objections) {
  ScheduleChoice choice = chooseSchedule(problem, target, request, objections);
  error = choice.error;
  if (!error.empty())
    return {};
  PagedSearch search(problem, target);
  search.add(choice.get());
  for (ScheduleKind kind : getPagedScheduleKinds())
    if (auto addPoints = getModel(kind).paged->search;
        addPoints && mayBe(kind, request, objections))
      addPoints(search, request);
  return std::move(search.points);
}

std::vector<DenseScheduleCost> mlac::enumerateDenseSchedules(const DenseAttentionProblem &problem,
                                                             const TargetDescription &target,
                                                             const ScheduleRequest &request,
                                                             std::string &error,
                                                             const ScheduleObjections &objections) {
  DenseScheduleChoice choice = chooseDenseSchedule(problem, target, request, objections);
  error = choice.error;
  if (!error.empty())
    return {};
  DenseSearch search(problem, target);
  search.add(choice.get());
  for (ScheduleKind kind : getDenseScheduleKinds())
    if (auto addPoints = getModel(kind).dense->search;
        addPoints && mayBe(kind, request, objections))
      addPoints(search, request);
  return std::move(search.points);
}
