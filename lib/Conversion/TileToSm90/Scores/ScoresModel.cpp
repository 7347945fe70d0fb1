//===- ScoresModel.cpp - the parameters of scores ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Scores/ScoresModel.h"

using namespace mlac;

static constexpr const ScheduleParameter *kParameters[] = {&scores::kStages};

const ScheduleModel mlac::kScoresModel = {kParameters, nullptr, nullptr};
