//===- StreamRole.cpp - a walk over the program, for one role ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Stream/StreamRole.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::stream;

void Role::run() {
  Value start = sm90::StageStartOp::create(b);
  keyStage = queryStage = start;
  begin();
  tile::KernelOp kernel = program.kernel;
  emitBlock(kernel.getBody().front());
}

/// The entry has the scalars of the kernel's own block already.
void Role::emitBlock(Block &block) {
  for (Operation &op : block.without_terminator()) {
    bool isMapped = op.getNumResults() != 0 && op.getNumRegions() == 0 &&
                    llvm::all_of(op.getResults(), [&](Value v) { return cloner.isMapped(v); });
    if (!isMapped && !done.contains(&op))
      emit(&op);
  }
}

SmallVector<Value> Role::getKept(ValueRange values, ValueRange places) {
  SmallVector<Value> kept;
  for (auto [value, place] : llvm::zip_equal(values, places))
    if (keeps(place))
      kept.push_back(cloner.get(value));
  return kept;
}

void Role::mapKept(ValueRange olds, ValueRange news) {
  for (Value old : olds) {
    if (!keeps(old))
      continue;
    cloner.map(old, news.front());
    news = news.drop_front();
  }
}

SmallVector<Value *> Role::getStages(Operation *op) {
  SmallVector<Value *> stages;
  if (op->isProperAncestor(program.keys.front()))
    stages.push_back(&keyStage);
  if (op->isProperAncestor(program.queries.front()))
    stages.push_back(&queryStage);
  return stages;
}

void Role::emitRegion(Region &from, Block &to, Operation *parent) {
  OpBuilder::InsertionGuard guard(b);
  if (to.mightHaveTerminator())
    to.getTerminator()->erase();
  b.setInsertionPointToEnd(&to);
  beginRegion();
  emitBlock(from.front());
  settle();
  auto loop = dyn_cast<scf::ForOp>(parent);
  SmallVector<Value> yielded =
      getKept(from.front().getTerminator()->getOperands(),
              loop ? ValueRange(loop.getRegionIterArgs()) : ValueRange(parent->getResults()));
  for (Value *stage : getStages(parent))
    yielded.push_back(*stage);
  scf::YieldOp::create(b, yielded);
}

void Role::emitFor(scf::ForOp loop) {
  settle();
  SmallVector<Value> inits = getInits(loop);
  SmallVector<Value *> stages = getStages(loop);
  for (Value *stage : stages)
    inits.push_back(*stage);
  Range range = getRange(loop);
  auto result = scf::ForOp::create(b, range.first, range.end, range.step, inits);
  result->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  auto setStages = [&](ValueRange values) {
    for (auto [stage, value] : llvm::zip_equal(stages, values.take_back(stages.size())))
      *stage = value;
  };
  {
    LazyCloner::Scope scope(cloner);
    cloner.map(loop.getInductionVar(), result.getInductionVar());
    mapKept(loop.getRegionIterArgs(), result.getRegionIterArgs());
    setStages(result.getRegionIterArgs());
    emitRegion(loop.getRegion(), *result.getBody(), loop);
  }
  mapKept(loop.getResults(), result.getResults());
  setStages(result.getResults());
  beginRegion();
}

void Role::placeParts() {
  slots.clear();
  if (program.slots == 0)
    return;
  slots.push_back(keyStage);
  while (slots.size() < program.parts.size())
    slots.push_back(next(slots.back(), entry.keyRing));
}

void Role::emitSide(int64_t side) {
  LazyCloner::Scope scope(cloner);
  scf::ForOp sides = program.sides;
  cloner.map(sides.getInductionVar(), arith::ConstantIndexOp::create(b, side));
  emitBlock(*sides.getBody());
}

void Role::emitIf(scf::IfOp branch) {
  settle();
  SmallVector<Type> types;
  for (Value value : branch.getResults())
    if (keeps(value))
      types.push_back(convert(value.getType()));
  SmallVector<Value *> stages = getStages(branch);
  SmallVector<Value> before;
  for (Value *stage : stages) {
    types.push_back((*stage).getType());
    before.push_back(*stage);
  }
  bool hasElse = !branch.getElseRegion().empty() || !types.empty();
  auto result = scf::IfOp::create(b, types, cloner.get(branch.getCondition()),
                                  /*addThenBlock=*/true, /*addElseBlock=*/hasElse);
  auto emitBranch = [&](Region &from, Region &to) {
    LazyCloner::Scope scope(cloner);
    for (auto [stage, value] : llvm::zip_equal(stages, before))
      *stage = value;
    if (!from.empty())
      return emitRegion(from, to.front(), branch);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(&to.front());
    scf::YieldOp::create(b, before);
  };
  emitBranch(branch.getThenRegion(), result.getThenRegion());
  if (hasElse)
    emitBranch(branch.getElseRegion(), result.getElseRegion());
  mapKept(branch.getResults(), result.getResults());
  for (auto [stage, value] : llvm::zip_equal(stages, result.getResults().take_back(stages.size())))
    *stage = value;
  beginRegion();
}
