//===- StreamSchedule.cpp - stream in the list of schedules ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Schedules.h"
#include "Stream/Stream.h"
#include "Stream/StreamModel.h"

using namespace mlir;
using namespace mlac;

const Schedule mlac::kStreamSchedule = {
    .describe = [](MLIRContext *context, const ScheduleParameters &parameters) -> Attribute {
      return tile::StreamScheduleAttr::get(context, parameters.get(stream::kStages),
                                           parameters.get(stream::kPartColumns),
                                           parameters.get(kLazyThreshold));
    },
    .build = [](tile::KernelOp kernel, std::string &why) -> FailureOr<sm90::KernelOp> {
      return buildStreamSchedule(kernel, why);
    }};
