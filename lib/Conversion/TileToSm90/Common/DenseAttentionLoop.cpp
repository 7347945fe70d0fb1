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

std::optional<SmallVector<tile::LoadOp, 2>> mlac::findStarts(tile::AttendOp attend,
                                                             std::string &why) {
  SmallVector<tile::LoadOp, 2> starts;
  llvm::SetVector<Value> slice(llvm::from_range, attend.getStart());
  for (unsigned i = 0; i < slice.size(); ++i) {
    Operation *op = slice[i].getDefiningOp();
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
  // Of new keys alone, a row's own has the row's number.
  bool startsWithOwn = diagonal == loop.terms.front().query.getOffsets().front();
  loop.diagonal = startsWithOwn ? Value() : diagonal;
  return loop;
}
