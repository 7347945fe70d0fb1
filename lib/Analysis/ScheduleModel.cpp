//===- ScheduleModel.cpp - the list of schedules ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Analysis/ScheduleModel.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlac;

const ScheduleModel &mlac::getModel(ScheduleKind kind) {
  static const ScheduleModel *const kModels[] = {
#define MLAC_SCHEDULE(name, option, summary) &k##name##Model,
#include "mla/Analysis/Schedules.def"
  };
  return *kModels[static_cast<size_t>(kind)];
}

template <typename Predicate> static std::vector<ScheduleKind> select(Predicate isWanted) {
  std::vector<ScheduleKind> kinds;
  llvm::copy_if(kAllScheduleKinds, std::back_inserter(kinds),
                [&](ScheduleKind kind) { return isWanted(getModel(kind)); });
  return kinds;
}

llvm::ArrayRef<ScheduleKind> mlac::getPagedScheduleKinds() {
  static const std::vector<ScheduleKind> kinds =
      select([](const ScheduleModel &model) { return model.paged != nullptr; });
  return kinds;
}

llvm::ArrayRef<ScheduleKind> mlac::getDenseScheduleKinds() {
  static const std::vector<ScheduleKind> kinds =
      select([](const ScheduleModel &model) { return model.dense != nullptr; });
  return kinds;
}
