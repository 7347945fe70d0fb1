//===- StreamSchedule.cpp - stream in the list of schedules ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Common/AttentionLoop.h"
#include "Schedules.h"
#include "Stream/Stream.h"
#include "Stream/StreamModel.h"

#include "mla/Dialect/Tile/IR/MachineAttr.h"

using namespace mlir;
using namespace mlac;

static bool areCodes(Value view) {
  return isa<Float8E4M3FNType>(cast<MemRefType>(view.getType()).getElementType());
}

/// Capped scores, and sums that begin with a sink, take registers beside the most rows of heads'
/// codes (ptxas 13.0 spills 40 to 92 bytes).
static bool fitsCodes(tile::AttendOp attend, std::string &why) {
  auto kernel = attend->getParentOfType<tile::KernelOp>();
  auto bound = kernel->getAttrOfType<IntegerAttr>(tile::kMaxRowsAttr);
  if (!bound || (attend.getSoftcap().isZero() && attend.getStart().empty()))
    return true;
  int64_t held = stream::countTileRegisters(llvm::alignTo(bound.getInt(), sm90::kColumnGroup),
                                            attend.getOutputWidth() / sm90::kPanelColumns);
  int64_t room = tile::getMachine(kernel).tuning.streamTurnRegisters;
  if (held <= room)
    return true;
  why = "tiles beside codes take " + std::to_string(held) +
        " registers of a thread, with capped scores or sinks it has " + std::to_string(room);
  return false;
}

/// Codes of latents become keys panel by panel, each of whose rows has one scale.
static bool accepts(tile::AttendOp attend, std::string &why) {
  if (!canStream(attend, why))
    return false;
  if (attend.getValues() && areCodes(attend.getValues()) != static_cast<bool>(attend.getScales())) {
    why = "its keys or its values are codes, the others are not";
    return false;
  }
  if (!attend.getScales())
    return true;
  if (attend.getValues())
    return fitsCodes(attend, why);
  if (!hasCodes(attend, 0)) {
    why = "RoPE keys are codes, of a latent that is not";
    return false;
  }
  auto scales = cast<MemRefType>(attend.getScales().getType());
  int64_t group = attend.getWidth(0) / scales.getShape().back();
  if (scales.getRank() == 1 || group == sm90::kCodePanelColumns)
    return true;
  why = "a scale is of " + std::to_string(group) + " columns, a panel of codes has " +
        std::to_string(sm90::kCodePanelColumns);
  return false;
}

const Schedule mlac::kStreamSchedule = {
    .describe = [](MLIRContext *context, const ScheduleParameters &parameters) -> Attribute {
      return tile::StreamScheduleAttr::get(context, parameters.get(stream::kStages),
                                           parameters.get(stream::kPartColumns),
                                           parameters.get(kLazyThreshold));
    },
    .build = [](tile::KernelOp kernel, std::string &why) -> FailureOr<sm90::KernelOp> {
      return buildStreamSchedule(kernel, why);
    },
    .accepts = ::accepts};
