//===- Schedules.h - how kernels get their schedule ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The half of a schedule that sees programs; ScheduleModel.h is the other. A folder defines both,
// and Schedules.def names it.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_SCHEDULES_H
#define MLAC_LIB_CONVERSION_TILETOSM90_SCHEDULES_H

#include "mla/Analysis/ScheduleParameters.h"
#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"
#include "mla/Dialect/Tile/IR/TileDialect.h"

namespace mlac {

struct Schedule {
  /// The attribute that says what was chosen.
  mlir::Attribute (*describe)(mlir::MLIRContext *, const ScheduleParameters &);
  /// Builds, before `kernel`, the sm90.kernel of its name as its `tile.schedule` says.
  /// A null op: it does not take the kernel, which is as it was, and `why` says what does not fit.
  mlir::FailureOr<mlir::sm90::KernelOp> (*build)(mlir::tile::KernelOp kernel, std::string &why);
  /// Whether it can run `attend`; if not, `why` says what is missing. Null: nothing that its cost
  /// would not say.
  bool (*accepts)(mlir::tile::AttendOp attend, std::string &why) = nullptr;
  /// Of kernels without attention: the parameters that suit one, or nothing, and in `why` what does
  /// not fit. Null: it is for attention only.
  std::optional<ScheduleParameters> (*planOther)(mlir::tile::KernelOp, const ScheduleRequest &,
                                                 std::string &why) = nullptr;
};

#define MLAC_SCHEDULE(name, option, summary) extern const Schedule k##name##Schedule;
#include "mla/Analysis/Schedules.def"

const Schedule &getSchedule(ScheduleKind kind);

} // namespace mlac

#endif // MLAC_LIB_CONVERSION_TILETOSM90_SCHEDULES_H
