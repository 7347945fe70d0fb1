//===- ColumnRun.cpp - neighbouring columns of one thread ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Simple/ColumnRun.h"

#include "mla/Dialect/KernelAttrs.h"
#include "mla/Dialect/Sm90/Utils/Layout.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlac;

/// The widest access of a thread.
static constexpr int64_t kMaxAccessBytes = 16;

/// Elements of a pair.
static constexpr int64_t kPair = 2;

/// The view and the column of an access to a tile's memory; null: `op` is none.
static std::pair<Value, Value> getAccess(Operation *op) {
  using Access = std::pair<Value, Value>;
  return llvm::TypeSwitch<Operation *, Access>(op)
      .Case<tile::LoadOp, tile::StoreOp>(
          [](auto op) { return Access(op.getView(), op.getOffsets().back()); })
      .Case([](tile::LoadRowsOp op) { return Access(op.getView(), op.getColumn()); })
      .Case<tile::LoadPagedOp, tile::StoreSlotsOp>(
          [](auto op) { return Access(op.getPool(), op.getColumn()); })
      .Default([](Operation *) { return Access(); });
}

//===----------------------------------------------------------------------===//
// Pairs
//===----------------------------------------------------------------------===//

/// An offset as what is added to a value; null: to nothing.
static std::pair<Value, int64_t> splitOffset(OpFoldResult offset) {
  int64_t sum = 0;
  while (true) {
    if (std::optional<int64_t> number = getConstantIntValue(offset))
      return {Value(), sum + *number};
    auto value = cast<Value>(offset);
    auto add = value.getDefiningOp<arith::AddIOp>();
    std::optional<int64_t> more = add ? getConstantIntValue(add.getRhs()) : std::nullopt;
    if (!more)
      return {value, sum};
    sum += *more;
    offset = add.getLhs();
  }
}

/// Whether the elements of `second` are those behind the ones of `first`, two apart in each row.
static bool areNeighbours(Value first, Value second) {
  auto a = first.getDefiningOp<memref::ReinterpretCastOp>();
  auto b = second.getDefiningOp<memref::ReinterpretCastOp>();
  if (!a || !b || a.getSource() != b.getSource() || a.getMixedSizes() != b.getMixedSizes() ||
      a.getMixedStrides() != b.getMixedStrides() || a.getType().getRank() < 2 ||
      getConstantIntValue(a.getMixedStrides().back()) != kPair)
    return false;
  auto [base, number] = splitOffset(a.getMixedOffsets().front());
  auto [otherBase, otherNumber] = splitOffset(b.getMixedOffsets().front());
  return base == otherBase && otherNumber == number + 1;
}

static bool isOfPairs(tile::LoadOp first, tile::LoadOp second) {
  return first.getType() == second.getType() && first.getOffsets() == second.getOffsets() &&
         areNeighbours(first.getView(), second.getView());
}

static bool isOfPairs(tile::StoreOp first, tile::StoreOp second) {
  return !first.getTransposed() && !second.getTransposed() &&
         first.getValue().getType() == second.getValue().getType() &&
         first.getOffsets() == second.getOffsets() &&
         areNeighbours(first.getView(), second.getView());
}

/// Whether `op` may change what is loaded, or read or change what is stored.
static bool isInTheWay(Operation *op, bool ofLoads) {
  if (isMemoryEffectFree(op))
    return false;
  return !ofLoads || op->getNumRegions() != 0 || !hasSingleEffect<MemoryEffects::Read>(op);
}

/// The access to the second elements of the pairs of `first`: nothing in between would see or undo
/// that both happen at once.
template <typename Op> static Operation *findSecond(Op first) {
  constexpr bool ofLoads = std::is_same_v<Op, tile::LoadOp>;
  for (Operation *op = first->getNextNode(); op; op = op->getNextNode()) {
    if (auto second = dyn_cast<Op>(op); second && isOfPairs(first, second))
      return op;
    if (isInTheWay(op, ofLoads))
      return nullptr;
  }
  return nullptr;
}

static bool areRunsOfPairs(Operation *first, int64_t run) {
  auto [view, column] = getAccess(first);
  return areRunsOf(kPair, view, column, run);
}

PairAccesses::PairAccesses(tile::KernelOp kernel, const Placement &placement) {
  auto note = [&](Operation *first, Operation *second) {
    if (second && areRunsOfPairs(first, sm90::kColumnRuns[0]))
      seconds[first] = second, firsts[second] = first;
  };
  auto isInRegisters = [&](Value tile) {
    return !placement.needsShared(tile) && llvm::none_of(tile.getUsers(), [](Operation *user) {
      return isa<tensor::ExtractSliceOp>(user);
    });
  };
  kernel.walk([&](tile::LoadOp load) {
    Operation *second = findSecond(load);
    if (second && isInRegisters(load.getResult()) && isInRegisters(second->getResult(0)))
      note(load, second);
  });
  kernel.walk([&](tile::StoreOp store) { note(store, findSecond(store)); });
}

int64_t PairAccesses::chooseRun(int64_t run) const {
  constexpr int64_t least = sm90::kColumnRuns[0];
  for (auto [first, second] : seconds) {
    int64_t bits = cast<MemRefType>(getAccess(first).first.getType()).getElementTypeBitWidth();
    int64_t widest = kMaxAccessBytes / (kPair * bits / 8);
    while (run > least && (run > widest || !areRunsOfPairs(first, run)))
      run /= 2;
  }
  return run;
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

int64_t mlac::chooseColumnRun(tile::KernelOp kernel, const PairAccesses &pairs) {
  if (!kernel->hasAttr(tile::kRowKernelAttr))
    return sm90::kColumnRuns[0];
  int64_t run = kMaxAccessBytes / 2; // of the narrowest activations
  WalkResult walk = kernel.walk([&](Operation *op) {
    auto store = dyn_cast<tile::StoreOp>(op);
    if (isa<tile::DotOp>(op) || (store && store.getTransposed()))
      return WalkResult::interrupt();
    auto [view, column] = getAccess(op);
    while (view && run > 2 && arePaired(view, column) && !areRuns(view, column, run))
      run /= 2;
    return WalkResult::advance();
  });
  return walk.wasInterrupted() ? sm90::kColumnRuns[0] : pairs.chooseRun(run);
}
