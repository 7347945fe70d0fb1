//===- LazyRescale.cpp - a maximum that moves only when it must ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Online softmax needs a reference per row that keeps exponentials in range, not
// the maximum itself. The pass recognises a carried maximum all of whose uses are
// such, and lets it lag. Idea: FlashAttention-4 (Dao et al., 2025); 5 to 7 % of a
// decode kernel on an H200, where most blocks then skip the rescaling.
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Tile/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/DenseSet.h"

namespace mlir::tile {
#define GEN_PASS_DEF_TILELAZYRESCALE
#include "mla/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace mlir::tile

using namespace mlir;
using namespace mlir::tile;

namespace {
/// `next = max(carried, candidate)` of iteration argument `index`.
struct RunningMaximum {
  scf::ForOp loop;
  unsigned index;
  arith::MaximumFOp next;
  Value candidate;

  Value getCarried() { return loop.getRegionIterArg(index); }
};
} // namespace

/// Whether `op` is a difference that is only exponentiated.
static bool isExponent(Operation *op) {
  return isa<arith::SubFOp>(op) && !op->use_empty() &&
         llvm::all_of(op->getUsers(), llvm::IsaPred<math::Exp2Op>);
}

/// Whether `use` is what exponents are taken relative to: `exp2(x - use)`, over rows
/// or over a tile.
static bool isReference(OpOperand &use) {
  Operation *user = use.getOwner();
  if (auto broadcast = dyn_cast<BroadcastOp>(user))
    return llvm::all_of(broadcast->getUses(), isReference);
  return isExponent(user) && use.getOperandNumber() == 1;
}

/// Whether `value` is computed, by tile arithmetic, from results of `loop`.
static bool dependsOn(Value value, scf::ForOp loop, llvm::DenseSet<Value> &seen) {
  Operation *definition = value.getDefiningOp();
  if (!definition || !seen.insert(value).second)
    return false;
  if (definition == loop)
    return true;
  bool isArithmetic = isMemoryEffectFree(definition) && definition->getNumRegions() == 0;
  return isArithmetic && llvm::any_of(definition->getOperands(), [&](Value operand) {
           return dependsOn(operand, loop, seen);
         });
}

/// Whether `use` of the loop's result is `use + log2(a sum of the loop)`, which is
/// the same for any reference.
static bool isLogSum(OpOperand &use, scf::ForOp loop) {
  auto add = dyn_cast<arith::AddFOp>(use.getOwner());
  if (!add)
    return false;
  auto log = add->getOperand(1 - use.getOperandNumber()).getDefiningOp<math::Log2Op>();
  llvm::DenseSet<Value> seen;
  return log && dependsOn(log.getOperand(), loop, seen);
}

/// The correction `exp2(carried - next)`, which must be there.
static bool isCorrection(Operation *user, RunningMaximum &maximum) {
  return isExponent(user) && user->getOperand(0) == maximum.getCarried() &&
         user->getOperand(1) == maximum.next.getResult();
}

/// Whether nothing asks for more than a reference.
static bool isOnlineSoftmax(RunningMaximum &maximum) {
  Value carried = maximum.getCarried(), next = maximum.next.getResult();
  bool isCorrected = false;
  for (Operation *user : carried.getUsers()) {
    isCorrected |= isCorrection(user, maximum);
    if (user != maximum.next && !isCorrection(user, maximum))
      return false;
  }
  Operation *yield = maximum.loop.getBody()->getTerminator();
  for (OpOperand &use : next.getUses()) {
    bool isCarriedOn = use.getOwner() == yield && use.getOperandNumber() == maximum.index;
    if (!isCarriedOn && !isReference(use))
      return false;
  }
  return isCorrected && llvm::all_of(maximum.loop.getResult(maximum.index).getUses(),
                                     [&](OpOperand &use) { return isLogSum(use, maximum.loop); });
}

static std::optional<RunningMaximum> matchMaximum(scf::ForOp loop, unsigned index) {
  Value carried = loop.getRegionIterArg(index);
  auto next = loop.getYieldedValues()[index].getDefiningOp<arith::MaximumFOp>();
  auto type = dyn_cast<RankedTensorType>(carried.getType());
  if (!next || next->getBlock() != loop.getBody() || !type || type.getRank() != 1)
    return std::nullopt;
  for (unsigned side : {0, 1})
    if (next->getOperand(side) == carried && next->getOperand(1 - side) != carried)
      return RunningMaximum{loop, index, next, next->getOperand(1 - side)};
  return std::nullopt;
}

/// Unordered: a candidate of NaN is taken, as max would.
static void letLag(RunningMaximum maximum, double threshold) {
  ImplicitLocOpBuilder b(maximum.next.getLoc(), maximum.next);
  auto type = cast<RankedTensorType>(maximum.candidate.getType());
  auto bound = DenseElementsAttr::get(type, b.getFloatAttr(type.getElementType(), threshold));
  Value limit = arith::AddFOp::create(b, maximum.getCarried(), arith::ConstantOp::create(b, bound));
  Value exceeds = arith::CmpFOp::create(b, arith::CmpFPredicate::UGT, maximum.candidate, limit);
  Value next = arith::SelectOp::create(b, exceeds, maximum.candidate, maximum.getCarried());
  maximum.next.getResult().replaceAllUsesWith(next);
  maximum.next.erase();
}

namespace {
struct LazyRescale : tile::impl::TileLazyRescaleBase<LazyRescale> {
  using Base::Base;

  void runOnOperation() override {
    double lag = getThreshold();
    if (lag == 0)
      return;
    if (!(lag > 0 && lag <= kMaxLag)) {
      getOperation().emitOpError("expected a threshold from 0 to ")
          << kMaxLag << " for its maximum, got " << lag;
      return signalPassFailure();
    }
    getOperation().walk([&](scf::ForOp loop) {
      for (unsigned index = 0; index < loop.getNumRegionIterArgs(); ++index)
        if (std::optional<RunningMaximum> maximum = matchMaximum(loop, index))
          if (isOnlineSoftmax(*maximum))
            letLag(*maximum, lag);
    });
  }

private:
  /// Weights of up to 2^15 are the largest that f16 tiles hold (65504 < 2^16).
  static constexpr int64_t kMaxLag = 15;

  /// What the kernel's schedule says, else the option.
  double getThreshold() {
    auto schedule = getOperation()->getAttrOfType<DictionaryAttr>(kScheduleAttr);
    auto planned = schedule ? schedule.getAs<FloatAttr>(kLazyThresholdKey) : FloatAttr();
    return planned ? planned.getValueAsDouble() : threshold;
  }
};
} // namespace
