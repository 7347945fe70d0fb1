//===- SimpleSchedule.cpp - simple in the list of schedules ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Schedules.h"
#include "Simple/Simple.h"

#include "mla/Dialect/Tile/Transforms/ExpandAttend.h"

using namespace mlir;
using namespace mlac;

const Schedule mlac::kSimpleSchedule = {
    .describe = [](MLIRContext *context, const ScheduleParameters &) -> Attribute {
      return tile::SimpleScheduleAttr::get(context);
    },
    .build =
        [](tile::KernelOp kernel, std::string &) {
          tile::expandAttends(kernel);
          return buildSimpleSchedule(kernel);
        }};
