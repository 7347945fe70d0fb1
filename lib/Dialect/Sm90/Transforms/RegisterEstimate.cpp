//===- RegisterEstimate.cpp - registers that a role needs ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Sm90/Transforms/RegisterEstimate.h"

#include "mla/Dialect/Sm90/Transforms/Passes.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::sm90 {
#define GEN_PASS_DEF_SM90ESTIMATEREGISTERS
#include "mla/Dialect/Sm90/Transforms/Passes.h.inc"
} // namespace mlir::sm90

using namespace mlir;
using namespace mlir::sm90;

/// Bits of a register, and the elements of a fragment that a thread holds per column.
static constexpr int64_t kRegisterBits = 32;
static constexpr int64_t kRowsOfThread = 2;

int64_t mlir::sm90::getFragmentRegisters(Type type) {
  auto tile = dyn_cast<RankedTensorType>(type);
  if (!tile || tile.getElementType().isInteger(1))
    return 0;
  int64_t bits = tile.getElementType().getIntOrFloatBitWidth();
  if (isFragment(tile)) {
    int64_t elements = tile.getDimSize(1) / getColumnSplit(tile) * kRowsOfThread / kQuadLanes;
    return llvm::divideCeil(elements * bits, kRegisterBits);
  }
  if (isColumns(tile))
    return tile.getDimSize(0) / kQuadLanes;
  return isRows(tile) || isPartial(tile) ? kRowsOfThread : 0;
}

namespace {
using LiveSet = llvm::SmallSetVector<Value, 16>;

/// Walks a program backwards and keeps what is live behind the op at hand.
class Liveness {
public:
  RegisterEstimate run(Block &program) {
    LiveSet live;
    walk(program, live);
    return estimate;
  }

private:
  void walk(Block &block, LiveSet &live);
  void visit(Operation *op, LiveSet &live);
  void walkLoop(Operation *op, LiveSet &live);
  void walkBranches(Operation *op, LiveSet &live);
  void use(Value value, LiveSet &live);
  void measure(Operation *op, const LiveSet &live);

  RegisterEstimate estimate;
};
} // namespace

/// A broadcast is another name for its source, and so are some of its columns.
void Liveness::use(Value value, LiveSet &live) {
  while (isa_and_present<BroadcastOp, TakeColumnsOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  Operation *definition = value.getDefiningOp();
  bool isFree = matchPattern(value, m_Constant()) || isa_and_present<IotaOp, SplatOp>(definition);
  if (!isFree && getFragmentRegisters(value.getType()) > 0)
    live.insert(value);
}

void Liveness::measure(Operation *op, const LiveSet &live) {
  int64_t registers = 0;
  for (Value value : live)
    registers += getFragmentRegisters(value.getType());
  if (registers > 0 && registers >= estimate.fragments)
    estimate = {registers, op};
}

/// Whether a wait of the same block between `wgmma` and `last` is for its group already.
static bool isAwaitedBefore(WgmmaOp wgmma, WgmmaWaitOp last) {
  if (wgmma->getBlock() != last->getBlock())
    return false;
  uint32_t closed = 0; // groups since, its own among them
  for (Operation *op = wgmma->getNextNode(); op != last; op = op->getNextNode()) {
    closed += isa<WgmmaCommitOp>(op);
    if (auto wait = dyn_cast<WgmmaWaitOp>(op); wait && closed > wait.getPending())
      return true;
  }
  return false;
}

/// The fragments that the wgmma of `accumulator` read: they are needed until a wait for them.
static SmallVector<Value> getLeftOperands(Value accumulator, WgmmaWaitOp wait) {
  SmallVector<Value> operands;
  while (auto wgmma = accumulator.getDefiningOp<WgmmaOp>()) {
    if (isa<RankedTensorType>(wgmma.getLhs().getType()) && !isAwaitedBefore(wgmma, wait))
      operands.push_back(wgmma.getLhs());
    accumulator = wgmma.getAcc();
  }
  return operands;
}

/// Those of the block's wgmma that this wait, which names no accumulator, is the first for.
static SmallVector<Value> getAwaitedOperands(WgmmaWaitOp wait) {
  SmallVector<Value> operands;
  uint32_t closed = 0;
  for (Operation *op = wait->getPrevNode(); op; op = op->getPrevNode()) {
    closed += isa<WgmmaCommitOp>(op);
    auto wgmma = dyn_cast<WgmmaOp>(op);
    if (wgmma && closed > wait.getPending() && isa<RankedTensorType>(wgmma.getLhs().getType()) &&
        !isAwaitedBefore(wgmma, wait))
      operands.push_back(wgmma.getLhs());
  }
  return operands;
}

void Liveness::visit(Operation *op, LiveSet &live) {
  measure(op, live);
  for (Value result : op->getResults())
    live.remove(result);
  if (isa<RoleOp>(op))
    return;
  if (isa<scf::ForOp, scf::WhileOp>(op))
    walkLoop(op, live);
  else if (op->getNumRegions() > 0)
    walkBranches(op, live);
  for (Value operand : op->getOperands())
    use(operand, live);
  auto wait = dyn_cast<WgmmaWaitOp>(op);
  if (!wait)
    return;
  for (Value lhs : getAwaitedOperands(wait))
    use(lhs, live);
  for (Value accumulator : wait.getAccumulators())
    for (Value lhs : getLeftOperands(accumulator, wait))
      use(lhs, live);
}

/// What the body uses from outside, and what is used behind the loop, lives through
/// all of it.
void Liveness::walkLoop(Operation *op, LiveSet &live) {
  llvm::SetVector<Value> outside;
  getUsedValuesDefinedAbove(op->getRegions(), outside);
  for (Value value : outside)
    use(value, live);
  for (Region &region : llvm::reverse(op->getRegions())) {
    Block &body = region.front();
    walk(body, live);
    for (BlockArgument argument : body.getArguments())
      live.remove(argument);
  }
}

void Liveness::walkBranches(Operation *op, LiveSet &live) {
  LiveSet joined;
  for (Region &region : op->getRegions()) {
    LiveSet branch = live;
    for (Block &block : region)
      walk(block, branch);
    joined.insert_range(branch);
  }
  live = joined;
}

void Liveness::walk(Block &block, LiveSet &live) {
  for (Operation &op : llvm::reverse(block))
    visit(&op, live);
}

RegisterEstimate mlir::sm90::estimateRegisters(Block &program) { return Liveness().run(program); }

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct EstimateRegisters : sm90::impl::Sm90EstimateRegistersBase<EstimateRegisters> {
  using Base::Base;

  void runOnOperation() override {
    Block &body = getOperation().getBody().front();
    check(getOperation(), body, "kernel", std::nullopt);
    for (RoleOp role : body.getOps<RoleOp>())
      check(role, role.getBody().front(), ("role '" + role.getName() + "'").str(),
            role.getRegisters());
  }

private:
  void check(Operation *op, Block &program, StringRef name, std::optional<uint32_t> budget) {
    RegisterEstimate estimate = estimateRegisters(program);
    if (report && estimate.peak) {
      InFlightDiagnostic diag = op->emitRemark(name)
                                << " needs about " << estimate.getTotal() << " registers, "
                                << estimate.fragments << " of them for fragments";
      if (budget)
        diag << ", of " << *budget;
      diag.attachNote(estimate.peak->getLoc()) << "behind this op";
    }
    if (!budget || estimate.getTotal() <= *budget)
      return;
    InFlightDiagnostic diag = op->emitOpError("expected ")
                              << name << " to need at most its " << *budget << " registers, got "
                              << estimate.fragments << " in fragments and " << kAddressRegisters
                              << " for addresses";
    if (estimate.peak)
      diag.attachNote(estimate.peak->getLoc()) << "behind this op";
    signalPassFailure();
  }
};
} // namespace
