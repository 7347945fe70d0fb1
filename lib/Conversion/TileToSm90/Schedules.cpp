//===- Schedules.cpp - the list of schedules ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Schedules.h"

using namespace mlac;

const Schedule &mlac::getSchedule(ScheduleKind kind) {
  static const Schedule *const kSchedules[] = {
#define MLAC_SCHEDULE(name, option, summary) &k##name##Schedule,
#include "mla/Analysis/Schedules.def"
  };
  return *kSchedules[static_cast<size_t>(kind)];
}
