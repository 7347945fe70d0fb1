//===- RoleKernel.h - the frame of a warp-specialised kernel ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What schedules with roles share whatever their roles do: the kernel around the
// roles, a role, the types that one warpgroup holds, small values.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_COMMON_ROLEKERNEL_H
#define MLAC_LIB_CONVERSION_TILETOSM90_COMMON_ROLEKERNEL_H

#include "mla/Dialect/KernelAttrs.h"

#include "Common/LazyCloner.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <optional>
#include <string>

namespace mlac {

/// The kernel's `tile.schedule` if it is of this kind, else the one that leaves everything open.
template <typename ScheduleAttr> ScheduleAttr getSchedule(mlir::tile::KernelOp kernel) {
  auto given = kernel->getAttrOfType<ScheduleAttr>(mlir::tile::kScheduleAttr);
  return given ? given : ScheduleAttr::get(kernel.getContext());
}

//===----------------------------------------------------------------------===//
// Kernel and roles
//===----------------------------------------------------------------------===//

/// The sm90 kernel of `source`, with its arguments and attributes; `b` stands in it then.
mlir::sm90::KernelOp createRoleKernel(mlir::ImplicitLocOpBuilder &b, mlir::tile::KernelOp source,
                                      int64_t warpgroups);

/// Lets dependents begin where `source` says so.
void emitLaunchDependents(mlir::ImplicitLocOpBuilder &b, mlir::tile::KernelOp source);

/// A role of one warpgroup, filled by `body`. Without `registers` it has what the
/// launch gives.
void emitRole(mlir::ImplicitLocOpBuilder &b, llvm::StringRef name, int32_t warpgroup,
              mlir::IntegerAttr registers, llvm::function_ref<void()> body);

/// Clones ops of `block` that `isShared` accepts and whose operands are known: what all
/// roles use.
void cloneScalars(LazyCloner &cloner, mlir::Block &block,
                  llvm::function_ref<bool(mlir::Operation *)> isShared);

//===----------------------------------------------------------------------===//
// Types of one warpgroup
//===----------------------------------------------------------------------===//

/// A fragment of 64 rows.
mlir::RankedTensorType getFragmentType(int64_t columns, mlir::Type element);

/// The fragment, or the vector with an element per row, of a tile; other types stay.
mlir::Type convertRoleType(mlir::Type type);

/// The same of a tile that a role holds transposed: the fragment's columns, or the vector's
/// elements, are its rows.
mlir::Type convertTransposedType(mlir::Type type);

/// The shared tile of an operand of products.
mlir::sm90::SmemType getSharedType(llvm::ArrayRef<int64_t> shape, mlir::Type element);
mlir::sm90::SmemType getSharedType(mlir::Value tile);

//===----------------------------------------------------------------------===//
// Small values
//===----------------------------------------------------------------------===//

/// Base of kernels under construction.
class RoleKernel {
protected:
  RoleKernel(mlir::tile::KernelOp source, LazyCloner::TypeConversion convert)
      : b(source.getLoc(), source.getOperation()), entry(b, std::move(convert)) {}

  mlir::Value constant32(int64_t value);
  mlir::Value constantIndex(int64_t value);
  /// Of f32 or a tile of it.
  mlir::Value constantFloat(float value, mlir::Type type);
  mlir::Value toIndex(mlir::Value value);
  mlir::Value to32(mlir::Value value);
  /// The ring's stage behind `stage`.
  mlir::Value next(mlir::Value stage, mlir::Value ring);
  mlir::Value tileOf(mlir::Value ring, mlir::Value stage, unsigned index);

  mlir::ImplicitLocOpBuilder b;
  mlir::sm90::KernelOp kernel;
  /// Values of the entry, by those of the tile kernel; roles start from a copy.
  LazyCloner entry;
};

//===----------------------------------------------------------------------===//
// Recognised programs
//===----------------------------------------------------------------------===//

/// What schedules that take many programs know of any.
struct RoleProgram {
  explicit RoleProgram(mlir::tile::KernelOp kernel)
      : kernel(kernel), waits(kernel->hasAttr(mlir::tile::kWaitsForDependencyAttr)) {}

  /// Sets `stages` to the given number or else `standard`; says why not, if they are
  /// fewer than two or more than `most` that fit.
  std::string chooseStages(std::optional<int64_t> given, int64_t standard, int64_t most,
                           int64_t stageBytes);

  mlir::tile::KernelOp kernel;
  bool waits; // for the kernels before, before it touches what they do
  int64_t stages = 0;
};

/// Runs `steps` of a matcher, each of which returns what does not fit or "", and returns
/// its program; nothing, and in `why` the first reason, if one does not fit.
template <typename Matcher, size_t count>
auto runMatcher(Matcher &&matcher, std::string (Matcher::*const (&steps)[count])(),
                std::string &why) -> std::optional<decltype(matcher.program)> {
  for (auto step : steps)
    if (why = (matcher.*step)(); !why.empty())
      return std::nullopt;
  return std::move(matcher.program);
}

} // namespace mlac

#endif // MLAC_LIB_CONVERSION_TILETOSM90_COMMON_ROLEKERNEL_H
