//===- DenseAttentionLoop.cpp - attention over dense rows, divided among roles ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Common/DenseAttentionLoop.h"

#include "mla/Dialect/Tile/Transforms/Passes.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlac;

/// Whether `argument` is the kernel's, or which turn a loop takes.
static bool isPosition(BlockArgument argument) {
  Operation *parent = argument.getOwner()->getParentOp();
  auto turns = dyn_cast<scf::ForOp>(parent);
  return isa<tile::KernelOp>(parent) || (turns && turns.getInductionVar() == argument);
}

std::optional<SmallVector<tile::LoadOp, 2>> mlac::findStarts(tile::AttendOp attend,
                                                             std::string &why) {
  SmallVector<tile::LoadOp, 2> starts;
  llvm::SetVector<Value> slice(llvm::from_range, attend.getStart());
  for (unsigned i = 0; i < slice.size(); ++i) {
    Operation *op = slice[i].getDefiningOp();
    if (!op && isPosition(cast<BlockArgument>(slice[i])))
      continue;
    if (!op || op->getNumRegions() != 0) {
      why = "it starts from another loop's results";
      return std::nullopt;
    }
    if (auto load = dyn_cast<tile::LoadOp>(op))
      starts.push_back(load);
    else
      slice.insert_range(op->getOperands());
  }
  return starts;
}

/// Requests, items and programs around `attend`; null where they are not there.
static std::array<scf::ForOp, 3> findPrograms(tile::AttendOp attend) {
  auto programs = attend->getParentOfType<scf::ForOp>();
  if (!programs || !programs->hasAttr(tile::kSideBySideAttr))
    return {};
  auto items = dyn_cast<scf::ForOp>(programs->getParentOp());
  auto requests = items ? dyn_cast<scf::ForOp>(items->getParentOp()) : scf::ForOp();
  if (!requests || !isa<tile::KernelOp>(requests->getParentOp()))
    return {};
  return {requests, items, programs};
}

/// Whether `value` is computed from one of `sources`.
static bool dependsOn(ValueRange values, ArrayRef<Value> sources) {
  llvm::SetVector<Value> slice(llvm::from_range, values);
  for (unsigned i = 0; i < slice.size(); ++i) {
    if (llvm::is_contained(sources, slice[i]))
      return true;
    if (Operation *op = slice[i].getDefiningOp())
      slice.insert_range(op->getOperands());
  }
  return false;
}

/// Of those in front of the loop over keys, what depends on the request alone.
static SmallVector<memref::LoadOp, 8> findRequestLoads(DenseAttentionLoop &loop) {
  SmallVector<memref::LoadOp, 8> loads;
  Value others[] = {loop.items.getInductionVar(), loop.programs.getInductionVar()};
  loop.requests.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op == loop.keys)
      return WalkResult::interrupt();
    if (auto load = dyn_cast<memref::LoadOp>(op); load && !dependsOn(load->getOperands(), others))
      loads.push_back(load);
    return WalkResult::advance();
  });
  return loads;
}

static Value findCounters(tile::KernelOp kernel) {
  for (BlockArgument argument : kernel.getBody().getArguments())
    if (kernel.getArgAttr(argument.getArgNumber(), tile::kItemCountersAttr))
      return argument;
  return {};
}

bool mlac::isLoopedOver(tile::AttendOp attend) {
  return findPrograms(attend).back() && findCounters(attend->getParentOfType<tile::KernelOp>());
}

DenseAttentionLoop mlac::expandDense(tile::AttendOp attend) {
  DenseAttentionLoop loop;
  std::string why;
  auto [requests, items, programs] = findPrograms(attend);
  loop.requests = requests, loop.items = items, loop.programs = programs;
  loop.starts = *findStarts(attend, why);
  loop.counters = findCounters(attend->getParentOfType<tile::KernelOp>());
  loop.isPaged = attend.isPaged();
  loop.hasWindow = static_cast<bool>(attend.getBehind());
  Value diagonal = attend.getDiagonal();
  static_cast<SoftmaxLoop &>(loop) = tile::expandAttend(attend);
  for (SoftmaxLoop::Summand &summand : loop.summands)
    loop.terms.push_back({summand.query.getDefiningOp<tile::LoadOp>(), summand.load});
  loop.values = loop.valuesLoad;
  loop.requestLoads = findRequestLoads(loop);
  loop.isUniform = !dependsOn(items.getUpperBound(), Value(requests.getInductionVar()));
  // Of new keys alone, a row's own has the row's number.
  bool startsWithOwn = diagonal == loop.terms.front().query.getOffsets().front();
  loop.diagonal = startsWithOwn ? Value() : diagonal;
  return loop;
}
