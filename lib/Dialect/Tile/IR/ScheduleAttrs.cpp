//===- ScheduleAttrs.cpp - what the parameters of schedules may be ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The bounds of any kernel; what fits one of a certain shape is the schedule's to say.
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Tile/IR/TileDialect.h"
#include "mla/Machine/Sm90Limits.h"

using namespace mlir;
using namespace mlir::tile;

namespace {
using EmitError = function_ref<InFlightDiagnostic()>;
using Count = std::optional<int64_t>;

/// Values of one attribute, checked one after the other.
class Checker {
public:
  explicit Checker(EmitError emitError) : emitError(emitError) {}

  Checker &range(StringRef name, Count value, int64_t least, int64_t most, int64_t multiple = 1) {
    if (failed(result) || !value || (*value >= least && *value <= most && *value % multiple == 0))
      return *this;
    InFlightDiagnostic error = emitError() << name << ": expected ";
    if (multiple != 1)
      error << "a multiple of " << multiple << " ";
    error << "from " << least << " to " << most << ", got " << *value;
    result = error;
    return *this;
  }
  /// Blocks of a ring: no ring has more than fit of 16 keys of one panel.
  Checker &stages(StringRef name, Count value, int64_t least = 2) {
    constexpr int64_t kMost = sm90::kMaxSharedBytes / (16 * sm90::kPanelRowBytes);
    return range(name, value, least, kMost);
  }
  Checker &registers(StringRef name, Count value) {
    return range(name, value, sm90::kMinRoleRegisters, sm90::kMaxRoleRegisters,
                 sm90::kRegisterGranule);
  }
  /// Numerators reach 2^threshold; 2^15 is the largest power of two that f16 holds.
  Checker &threshold(std::optional<mlac::Real> value) {
    constexpr int64_t kMost = 15;
    if (succeeded(result) && value && !(*value >= 0 && *value <= kMost))
      result = emitError() << "lazy_threshold: expected 0 to " << kMost << ", got " << value->value;
    return *this;
  }
  LogicalResult result = success();

private:
  EmitError emitError;
};
} // namespace

LogicalResult RelayScheduleAttr::verify(EmitError emitError, Count leftStages, Count rightStages,
                                        Count ropeStages, Count early, Count scoreRegisters,
                                        Count outputRegisters, Count stepsPerTurn,
                                        std::optional<mlac::Real> threshold) {
  // Half of the columns of an output, and one panel of rope keys.
  constexpr int64_t kMostPanels = sm90::kMaxWgmmaColumns / sm90::kPanelColumns + 1;
  return Checker(emitError)
      .stages("left_stages", leftStages)
      .stages("right_stages", rightStages, 1)
      .stages("rope_stages", ropeStages, 1)
      .range("early", early, -1, kMostPanels - 1)
      .registers("score_registers", scoreRegisters)
      .registers("output_registers", outputRegisters)
      .range("steps_per_turn", stepsPerTurn, 1, 2)
      .threshold(threshold)
      .result;
}

LogicalResult StreamScheduleAttr::verify(EmitError emitError, Count stages, Count partColumns,
                                         std::optional<mlac::Real> threshold) {
  constexpr int64_t kMost =
      sm90::kMaxSharedBytes / (sm90::kTileRows * sm90::kPanelRowBytes) * sm90::kPanelColumns;
  return Checker(emitError)
      .stages("stages", stages)
      .range("part_columns", partColumns, sm90::kPanelColumns, kMost, sm90::kPanelColumns)
      .threshold(threshold)
      .result;
}

LogicalResult PingPongScheduleAttr::verify(EmitError emitError, Count keyBlock, Count stages,
                                           Count producerRegisters, Count consumerRegisters,
                                           std::optional<mlac::Real> threshold) {
  return Checker(emitError)
      .range("key_block", keyBlock, sm90::kWgmmaDepth, sm90::kMaxBoxRows, sm90::kWgmmaDepth)
      .stages("stages", stages, 1)
      .registers("producer_registers", producerRegisters)
      .registers("consumer_registers", consumerRegisters)
      .threshold(threshold)
      .result;
}

LogicalResult ProductScheduleAttr::verify(EmitError emitError, Count stages) {
  return Checker(emitError).stages("stages", stages).result;
}

LogicalResult ScoresScheduleAttr::verify(EmitError emitError, Count stages) {
  return Checker(emitError).stages("stages", stages).result;
}
