//===- ScoresSchedule.cpp - scores among the schedules ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Schedules.h"
#include "Scores/Scores.h"
#include "Scores/ScoresModel.h"

using namespace mlir;
using namespace mlac;

static Attribute describe(MLIRContext *context, const ScheduleParameters &parameters) {
  return tile::ScoresScheduleAttr::get(context, parameters.get(scores::kStages));
}

static std::optional<ScheduleParameters> plan(tile::KernelOp kernel, const ScheduleRequest &request,
                                              std::string &why) {
  ScheduleParameters parameters;
  parameters.kind = ScheduleKind::Scores;
  int64_t stages = chooseScoresStages(kernel, request.get(scores::kStages), why);
  if (stages == 0)
    return std::nullopt;
  parameters.set(scores::kStages, stages);
  return parameters;
}

const Schedule mlac::kScoresSchedule = {
    .describe = ::describe,
    .build = [](tile::KernelOp kernel, std::string &why) -> FailureOr<sm90::KernelOp> {
      return buildScoresSchedule(kernel, why);
    },
    .planOther = plan};
