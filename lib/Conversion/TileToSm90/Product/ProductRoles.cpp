//===- ProductRoles.cpp - what roles share, and who loads ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every role keeps the program's loops and its index arithmetic. A producer has, in
// the place of its last load of a step, the copies of all; a consumer has its dot
// between waiting for and freeing a stage of each ring, and what follows from it.
//
//===----------------------------------------------------------------------===//

#include "Product/ProductRole.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::product;

namespace {
class Producer : public Role {
public:
  Producer(ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
           const LazyCloner &cloner, unsigned index)
      : Role(b, program, entry, cloner), index(index) {}

private:
  bool keeps(Value) const override { return false; }
  void emit(Operation *op) override;
  void copy(tile::LoadOp load, Value map, Value tile);

  unsigned index;
};
} // namespace

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

/// The entry has the scalars of the kernel's own block already.
void Role::emitBlock(Block &block) {
  for (Operation &op : block.without_terminator()) {
    if (op.getNumResults() != 0 &&
        llvm::all_of(op.getResults(), [&](Value v) { return cloner.isMapped(v); }))
      continue;
    if (auto loop = dyn_cast<scf::ForOp>(op))
      emitFor(loop);
    else if (isScalar(&op))
      llvm::for_each(op.getResults(), [&](Value result) { cloner.get(result); });
    else
      emit(&op);
  }
}

void Role::emitRegion(scf::ForOp from, scf::ForOp to) {
  OpBuilder::InsertionGuard guard(b);
  if (to.getBody()->mightHaveTerminator())
    to.getBody()->getTerminator()->erase();
  b.setInsertionPointToEnd(to.getBody());
  emitBlock(*from.getBody());
  SmallVector<Value> yielded;
  for (auto [carried, value] : llvm::zip(from.getRegionIterArgs(), from.getYieldedValues()))
    if (keeps(carried))
      yielded.push_back(cloner.get(value));
  yielded.append(stages);
  scf::YieldOp::create(b, yielded);
}

Value Role::getEnd(scf::ForOp loop) {
  if (program.cluster == 1 || loop != program.getDepthLoop())
    return cloner.get(loop.getUpperBound());
  int64_t first = *getConstantIntValue(loop.getLowerBound());
  return arith::ConstantIndexOp::create(b, first + program.getDepthSpan());
}

Value Role::getPlace(scf::ForOp loop, Value value) {
  if (program.cluster == 1 || loop != program.getDepthLoop())
    return value;
  return arith::AddIOp::create(b, value, entry.depthBegin);
}

void Role::emitFor(scf::ForOp loop) {
  SmallVector<Value> inits;
  SmallVector<unsigned> kept;
  for (auto [number, carried] : llvm::enumerate(loop.getRegionIterArgs()))
    if (keeps(carried)) {
      kept.push_back(number);
      inits.push_back(cloner.get(loop.getInitArgs()[number]));
    }
  inits.append(stages);
  auto result = scf::ForOp::create(b, cloner.get(loop.getLowerBound()), getEnd(loop),
                                   cloner.get(loop.getStep()), inits);
  {
    LazyCloner::Scope scope(cloner);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(result.getBody());
      cloner.map(loop.getInductionVar(), getPlace(loop, result.getInductionVar()));
    }
    for (auto [at, number] : llvm::enumerate(kept))
      cloner.map(loop.getRegionIterArgs()[number], result.getRegionIterArgs()[at]);
    stages = llvm::to_vector(ValueRange(result.getRegionIterArgs()).take_back(stages.size()));
    emitRegion(loop, result);
  }
  for (auto [at, number] : llvm::enumerate(kept))
    cloner.map(loop.getResult(number), result.getResult(at));
  stages = llvm::to_vector(ValueRange(result.getResults()).take_back(stages.size()));
}

//===----------------------------------------------------------------------===//
// Producers
//===----------------------------------------------------------------------===//

void Producer::emit(Operation *op) {
  ArrayRef<tile::LoadOp> loads = program.loads[index];
  if (op != loads.back())
    return;
  Value ring = entry.rings[index];
  sm90::AcquireOp::create(b, ring, stages[index]);
  SmallVector<Value> tiles;
  int64_t bytes = 0;
  for (unsigned number = 0; number < loads.size(); ++number) {
    tiles.push_back(getTile(index, number));
    bytes += cast<sm90::SmemType>(tiles.back().getType()).getByteSize();
  }
  sm90::ExpectOp::create(b, ring, stages[index], /*part=*/0, static_cast<int32_t>(bytes));
  for (auto [load, map, tile] : llvm::zip_equal(loads, entry.maps[index], tiles))
    copy(load, map, tile);
  advance(index);
}

/// The load's box, or the one that its choice has instead.
void Producer::copy(tile::LoadOp load, Value map, Value tile) {
  if (!map) {
    Value view = cloner.get(load.getView()), first = cloner.get(load.getOffsets().front());
    sm90::BulkLoadOp::create(b, view, first, tile, entry.rings[index], stages[index], /*part=*/0);
    return;
  }
  auto issue = [&](Value from, tile::LoadOp of) {
    SmallVector<Value> offsets = cloner.get(of.getOffsets());
    sm90::TmaLoadOp::create(b, from, offsets, tile, entry.rings[index], stages[index], /*part=*/0,
                            /*row=*/0, IntegerAttr());
  };
  auto found = program.choices.find(load);
  if (found == program.choices.end())
    return issue(map, load);
  const Choice &choice = found->second;
  SmallVector<Value> maps = {map};
  llvm::append_range(maps, entry.otherMaps.find(load)->second);
  for (tile::LoadOp of : choice.loads) // ahead of the branches: what they share
    cloner.get(of.getOffsets());
  SmallVector<Value> conditions = cloner.get(choice.conditions);
  OpBuilder::InsertionGuard guard(b);
  for (auto [number, condition] : llvm::enumerate(conditions)) {
    auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/true);
    b.setInsertionPointToStart(branch.thenBlock());
    issue(maps[number], choice.loads[number]);
    b.setInsertionPointToStart(branch.elseBlock());
  }
  issue(maps.back(), choice.loads.back());
}

void product::emitProducer(ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
                           unsigned producer, const LazyCloner &cloner) {
  Producer role(b, program, entry, cloner, producer);
  role.emitElected([&] {
    if (program.waits && !program.areInvariant[producer])
      sm90::WaitDependencyOp::create(b);
    role.run();
  });
}
