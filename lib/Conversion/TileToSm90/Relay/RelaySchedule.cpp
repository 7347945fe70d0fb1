//===- RelaySchedule.cpp - relay in the list of schedules ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Relay/Relay.h"
#include "Relay/RelayModel.h"
#include "Schedules.h"

#include "mla/Dialect/Tile/Transforms/ExpandAttend.h"

using namespace mlir;
using namespace mlac;

static Attribute describe(MLIRContext *context, const ScheduleParameters &parameters) {
  WarpgroupNumbers registers = *parameters.get(relay::kRegisters);
  bool isGated = gatesLeft(*parameters.get(relay::kGate));
  return tile::RelayScheduleAttr::get(
      context, parameters.get(relay::kLeftStages), parameters.get(relay::kRightStages),
      parameters.get(relay::kRopeStages), isGated ? *parameters.get(relay::kEarly) : -1,
      registers[0], registers[1], parameters.get(relay::kStepsPerTurn),
      parameters.get(kLazyThreshold));
}

static FailureOr<sm90::KernelOp> build(tile::KernelOp kernel, std::string &why) {
  tile::AttendOp attend = tile::findAttend(kernel);
  why = "it has not one attention";
  return attend && canRelay(attend, why) ? buildRelaySchedule(attend) : sm90::KernelOp();
}

const Schedule mlac::kRelaySchedule = {
    .describe = ::describe, .build = ::build, .accepts = canRelay};
