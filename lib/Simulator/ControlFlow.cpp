//===- ControlFlow.cpp - loops, branches, roles and elected threads ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Machine.h"

#include "mla/Dialect/KernelAttrs.h"

using namespace mlac::simulator;
using namespace mlir;
using namespace mlir::sm90;

Step Machine::enter(Warpgroup &warpgroup, Operation *op, Region &region) {
  warpgroup.frames.emplace_back(&region.front(), op);
  return Step::Advanced;
}

//===----------------------------------------------------------------------===//
// scf
//===----------------------------------------------------------------------===//

Step Machine::runFor(Warpgroup &warpgroup, scf::ForOp op) {
  int64_t lower = getInt(warpgroup, op.getLowerBound());
  int64_t upper = getInt(warpgroup, op.getUpperBound());
  int64_t step = getInt(warpgroup, op.getStep());
  if (lower >= upper) {
    if (op->hasAttr(sm90::kAtLeastOnceAttr))
      return fail(Defect::OutOfBounds, op,
                  "runs no iteration, from " + Twine(lower) + " to " + Twine(upper) +
                      ", though it is marked sm90.at_least_once");
    for (auto [result, initial] : llvm::zip(op.getResults(), op.getInitArgs()))
      set(warpgroup, result, get(warpgroup, initial));
    return Step::Advanced;
  }
  set(warpgroup, op.getInductionVar(), lower);
  for (auto [argument, initial] : llvm::zip(op.getRegionIterArgs(), op.getInitArgs()))
    set(warpgroup, argument, get(warpgroup, initial));
  enter(warpgroup, op, op.getRegion());
  Frame &frame = warpgroup.frames.back();
  frame.induction = lower;
  frame.upper = upper;
  frame.step = step;
  return Step::Advanced;
}

/// Where warps disagree, both regions run (they hold element-wise ops only) and
/// each warp keeps its rows of the results.
Step Machine::runIf(Warpgroup &warpgroup, scf::IfOp op) {
  constexpr unsigned all = (1 << kWarps) - 1;
  Value &condition = get(warpgroup, op.getCondition());
  unsigned mask = all;
  if (auto *warps = std::get_if<WarpMask>(&condition))
    mask = warps->bits;
  else if (std::get<int64_t>(condition) == 0)
    mask = 0;
  if (mask == 0) {
    if (op.getElseRegion().empty())
      return Step::Advanced;
    return enter(warpgroup, op, op.getElseRegion());
  }
  enter(warpgroup, op, op.getThenRegion());
  warpgroup.frames.back().mask = mask;
  warpgroup.frames.back().isMixed = mask != all && !op.getElseRegion().empty();
  return Step::Advanced;
}

Step Machine::runWhile(Warpgroup &warpgroup, scf::WhileOp op) {
  for (auto [argument, initial] : llvm::zip(op.getBeforeArguments(), op.getInits()))
    set(warpgroup, argument, get(warpgroup, initial));
  return enter(warpgroup, op, op.getBefore());
}

Step Machine::runCondition(Warpgroup &warpgroup, scf::ConditionOp op) {
  auto loop = cast<scf::WhileOp>(op->getParentOp());
  std::vector<Value> values;
  for (mlir::Value value : op.getArgs())
    values.push_back(get(warpgroup, value));
  bool goesOn = getInt(warpgroup, op.getCondition()) != 0;
  warpgroup.frames.pop_back();
  ValueRange targets =
      goesOn ? ValueRange(loop.getAfterArguments()) : ValueRange(loop.getResults());
  for (auto [target, value] : llvm::zip(targets, values))
    set(warpgroup, target, value);
  return goesOn ? enter(warpgroup, loop, loop.getAfter()) : Step::Advanced;
}

Step Machine::runYield(Warpgroup &warpgroup, Operation *op) {
  std::vector<Value> values;
  for (mlir::Value operand : op->getOperands())
    values.push_back(get(warpgroup, operand));
  Frame &frame = warpgroup.frames.back();
  Operation *parent = frame.op;
  auto assign = [&](ValueRange targets) {
    for (auto [target, value] : llvm::zip(targets, values))
      set(warpgroup, target, value);
  };
  if (auto loop = dyn_cast<scf::ForOp>(parent)) {
    frame.induction += frame.step;
    if (frame.induction < frame.upper) {
      assign(loop.getRegionIterArgs());
      set(warpgroup, loop.getInductionVar(), frame.induction);
      frame.next = frame.block->begin();
      return Step::Advanced;
    }
    assign(loop.getResults());
  } else if (auto loop = dyn_cast<scf::WhileOp>(parent)) {
    warpgroup.frames.pop_back();
    assign(loop.getBeforeArguments());
    return enter(warpgroup, loop, loop.getBefore());
  } else if (auto branch = dyn_cast<scf::IfOp>(parent)) {
    if (frame.isMixed && op->getParentRegion() == &branch.getThenRegion()) {
      frame.thenValues = std::move(values);
      frame.block = &branch.getElseRegion().front();
      frame.next = frame.block->begin();
      return Step::Advanced;
    }
    if (frame.isMixed) {
      unsigned mask = frame.mask;
      std::vector<Value> thenValues = std::move(frame.thenValues);
      warpgroup.frames.pop_back();
      return mergeBranches(warpgroup, branch, thenValues, values, mask);
    }
    assign(branch.getResults());
  } else {
    return fail(Defect::Unsupported, op, "is not known to the simulator in this place");
  }
  warpgroup.frames.pop_back();
  return Step::Advanced;
}

Step Machine::mergeBranches(Warpgroup &warpgroup, scf::IfOp op, ArrayRef<Value> thenValues,
                            ArrayRef<Value> elseValues, unsigned mask) {
  for (auto [index, result] : llvm::enumerate(op.getResults())) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (!type || isColumns(type))
      return fail(Defect::Unsupported, op,
                  "yields a value that is not cut by rows from a branch where warps differ");
    TileRef merged = std::get<TileRef>(elseValues[index]);
    const TileRef &other = std::get<TileRef>(thenValues[index]);
    auto tile = std::make_shared<Tile>(*merged.tile);
    tile->writtenAt = warpgroup.position;
    tile->isConstant = false;
    int64_t rowElements = type.getNumElements() / kTileRows;
    for (int64_t element = 0; element < type.getNumElements(); ++element) {
      int64_t warp = element / rowElements / (kTileRows / kWarps);
      if (!(mask >> warp & 1))
        continue;
      if (!tile->reals.empty())
        tile->reals[element] = other.tile->reals[element];
      else
        tile->integers[element] = other.tile->integers[element];
    }
    set(warpgroup, result, TileRef{tile, std::max(merged.wgmma, other.wgmma)});
  }
  return Step::Advanced;
}

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

Step Machine::runRole(Warpgroup &warpgroup, RoleOp op) {
  if (warpgroup.index < op.getFirst() || warpgroup.index >= op.getEnd())
    return Step::Advanced;
  warpgroup.role = op;
  warpgroup.first = op.getFirst();
  warpgroup.count = op.getWarpgroups();
  return enter(warpgroup, op, op.getBody());
}

Step Machine::runElect(Warpgroup &warpgroup, ElectOp op) {
  if (warpgroup.getLocal() != 0)
    return Step::Advanced;
  warpgroup.isElected = true;
  return enter(warpgroup, op, op.getBody());
}

Step Machine::runEnd(Warpgroup &warpgroup, EndOp op) {
  if (isa<RoleOp>(op->getParentOp())) {
    warpgroup.role = nullptr;
    warpgroup.first = 0;
    warpgroup.count = warpgroups.size();
  }
  warpgroup.isElected = false;
  warpgroup.frames.pop_back();
  return Step::Advanced;
}
