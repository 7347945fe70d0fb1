//===- PingPongSchedule.cpp - pingpong in the list of schedules ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PingPong/PingPong.h"
#include "PingPong/PingPongModel.h"
#include "Schedules.h"

#include "mla/Dialect/Tile/Transforms/ExpandAttend.h"

using namespace mlir;
using namespace mlac;

static Attribute describe(MLIRContext *context, const ScheduleParameters &parameters) {
  return tile::PingPongScheduleAttr::get(
      context, parameters.get(pingpong::kKeyBlock), parameters.get(pingpong::kKeyStages),
      parameters.get(pingpong::kProducerRegisters), parameters.get(pingpong::kConsumerRegisters),
      parameters.get(kLazyThreshold));
}

static FailureOr<sm90::KernelOp> build(tile::KernelOp kernel, std::string &why) {
  tile::AttendOp attend = tile::findAttend(kernel);
  why = attend ? "its programs are not looped over (tile-loop-over-programs)"
               : "it has not one attention";
  return attend && isLoopedOver(attend) && canPingPong(attend, why) ? buildPingPongSchedule(attend)
                                                                    : sm90::KernelOp();
}

const Schedule mlac::kPingPongSchedule = {
    .describe = ::describe, .build = ::build, .accepts = canPingPong};
