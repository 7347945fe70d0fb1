//===- ProductRoles.cpp - who loads and who multiplies ---*- C++ -*-===//
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

#include "ProductKernel.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::product;

namespace {
class Role {
public:
  Role(ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
       const LazyCloner &cloner)
      : b(b), program(program), entry(entry),
        cloner(cloner, [](Operation *, Type type) { return convertRoleType(type); }) {}
  virtual ~Role() = default;

  void run() {
    Value start = sm90::StageStartOp::create(b);
    stages.assign(entry.rings.size(), start);
    tile::KernelOp kernel = program.kernel;
    emitBlock(kernel.getBody().front());
  }

protected:
  virtual bool keeps(Value carried) const = 0;
  virtual void emit(Operation *op) = 0;

  void emitBlock(Block &block);
  void emitFor(scf::ForOp loop);
  void emitRegion(scf::ForOp from, scf::ForOp to);
  Value getTile(unsigned ring, unsigned index) {
    auto type = cast<sm90::RingType>(entry.rings[ring].getType()).getTiles()[index];
    return sm90::StageTileOp::create(b, type, entry.rings[ring], stages[ring], index);
  }
  void advance(unsigned ring) {
    stages[ring] = sm90::StageNextOp::create(b, stages[ring], entry.rings[ring]);
  }

  ImplicitLocOpBuilder &b;
  const Program &program;
  const Entry &entry;
  LazyCloner cloner;
  SmallVector<Value> stages; // by ring
};

class Producer : public Role {
public:
  Producer(ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
           const LazyCloner &cloner, unsigned index)
      : Role(b, program, entry, cloner), index(index) {}

private:
  bool keeps(Value) const override { return false; }
  void emit(Operation *op) override;

  unsigned index;
};

class Consumer : public Role {
public:
  Consumer(ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
           const LazyCloner &cloner, unsigned index)
      : Role(b, program, entry, cloner), index(index) {}

private:
  /// Accumulators of other consumers are not kept.
  bool keeps(Value carried) const override;
  void emit(Operation *op) override;
  void multiply(tile::DotOp dot);
  Value findOperand(Value tile);

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

void Role::emitFor(scf::ForOp loop) {
  SmallVector<Value> inits;
  SmallVector<unsigned> kept;
  for (auto [number, carried] : llvm::enumerate(loop.getRegionIterArgs()))
    if (keeps(carried)) {
      kept.push_back(number);
      inits.push_back(cloner.get(loop.getInitArgs()[number]));
    }
  inits.append(stages);
  auto result =
      scf::ForOp::create(b, cloner.get(loop.getLowerBound()), cloner.get(loop.getUpperBound()),
                         cloner.get(loop.getStep()), inits);
  {
    LazyCloner::Scope scope(cloner);
    cloner.map(loop.getInductionVar(), result.getInductionVar());
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
    sm90::TmaLoadOp::create(b, map, cloner.get(tile::LoadOp(load).getOffsets()), tile, ring,
                            stages[index], /*part=*/0, /*row=*/0, IntegerAttr());
  advance(index);
}

void product::emitProducer(ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
                           unsigned producer, const LazyCloner &cloner) {
  auto elected = sm90::ElectOp::create(b);
  OpBuilder::InsertionGuard guard(b);
  b.createBlock(&elected.getBody());
  sm90::EndOp::create(b);
  b.setInsertionPointToStart(&elected.getBody().front());
  if (program.waits && !program.areInvariant[producer])
    sm90::WaitDependencyOp::create(b);
  Producer(b, program, entry, cloner, producer).run();
}

//===----------------------------------------------------------------------===//
// Consumers
//===----------------------------------------------------------------------===//

/// The dot of whose chain `carried` is a value.
bool Consumer::keeps(Value carried) const {
  tile::DotOp dot = program.dots[index];
  return dot.getAcc() == carried;
}

Value Consumer::findOperand(Value tile) {
  for (auto [ring, loads] : llvm::enumerate(program.loads))
    for (auto [number, load] : llvm::enumerate(loads))
      if (load->getResult(0) == tile)
        return getTile(ring, number);
  llvm_unreachable("the program has checked the operands");
}

void Consumer::multiply(tile::DotOp dot) {
  for (auto [ring, stage] : llvm::zip_equal(entry.rings, stages))
    sm90::AwaitOp::create(b, ring, stage, /*part=*/0);
  // Waiting is a loop: ptxas must see the registers as ordered behind it.
  Value acc = cloner.get(dot.getAcc());
  Value lhs = findOperand(dot.getLhs()), rhs = findOperand(dot.getRhs());
  sm90::WgmmaFenceOp::create(b);
  Value next = sm90::WgmmaOp::create(b, acc.getType(), lhs, rhs, acc, dot.getTransposeLhs(),
                                     dot.getTransposeRhs());
  sm90::WgmmaCommitOp::create(b);
  auto wait = sm90::WgmmaWaitOp::create(b, next.getType(), /*pending=*/0, next);
  cloner.map(dot.getResult(), wait.getResult(0));
  for (unsigned ring = 0; ring < entry.rings.size(); ++ring) {
    sm90::ReleaseOp::create(b, entry.rings[ring], stages[ring]);
    advance(ring);
  }
}

void Consumer::emit(Operation *op) {
  if (op == program.dots[index])
    return multiply(program.dots[index]);
  if (!program.members[index].contains(op))
    return;
  if (auto load = dyn_cast<tile::LoadOp>(op)) {
    Value loaded = sm90::LoadOp::create(b, convertRoleType(load.getType()),
                                        cloner.get(load.getView()), cloner.get(load.getOffsets()),
                                        arePaired(load.getView(), load.getOffsets().back()));
    return cloner.map(load.getResult(), loaded);
  }
  if (auto store = dyn_cast<tile::StoreOp>(op)) {
    bool paired = !store.getTransposed() && arePaired(store.getView(), store.getOffsets().back());
    sm90::StoreOp::create(b, cloner.get(store.getValue()), cloner.get(store.getView()),
                          cloner.get(store.getOffsets()), paired, store.getTransposed());
    return;
  }
  for (Value result : op->getResults())
    cloner.get(result);
}

void product::emitConsumer(ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
                           unsigned consumer, const LazyCloner &cloner) {
  // Results may go where the kernels before still read.
  if (program.waits)
    sm90::WaitDependencyOp::create(b);
  Consumer(b, program, entry, cloner, consumer).run();
}
