//===- LazyRescale.cpp - a maximum that moves only when it must ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Online softmax needs a reference per row that keeps exponentials in range, not
// the maximum itself, and a tile.attend promises no more. Idea: FlashAttention-4 (Dao
// et al., 2025); 5 to 7 % of a decode kernel on an H200, where most blocks then skip the
// rescaling.
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Tile/Transforms/Passes.h"

namespace mlir::tile {
#define GEN_PASS_DEF_TILELAZYRESCALE
#include "mla/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace mlir::tile

using namespace mlir;
using namespace mlir::tile;

namespace {
struct LazyRescale : tile::impl::TileLazyRescaleBase<LazyRescale> {
  using Base::Base;

  void runOnOperation() override {
    double lag = getThreshold();
    if (!(lag >= 0 && lag <= AttendOp::kMaxLag)) {
      getOperation().emitOpError("expected a threshold from 0 to ")
          << AttendOp::kMaxLag << " for its maximum, got " << lag;
      return signalPassFailure();
    }
    getOperation().walk([&](AttendOp op) {
      if (!op.getExact())
        op.setLag(APFloat(lag));
    });
  }

private:
  /// What the kernel's schedule says, else the option.
  double getThreshold() {
    auto schedule = getOperation()->getAttrOfType<ScheduleInterface>(kScheduleAttr);
    std::optional<mlac::Real> planned = schedule ? schedule.getLazyThreshold() : std::nullopt;
    return planned ? planned->value : threshold;
  }
};
} // namespace
