//===- StreamTurns.cpp - consumers that take blocks in turns ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Stream/StreamTurns.h"

#include "Stream/StreamModel.h"

#include "mla/Dialect/Sm90/IR/Sm90CodeOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::stream;

//===----------------------------------------------------------------------===//
// What the loop carries
//===----------------------------------------------------------------------===//

/// Whether all that is done with a carried tile is to scale it as the reference moves.
static bool isRescaled(Value carried, Value reference, Value moved) {
  if (!carried.hasOneUse())
    return false;
  auto scaled = dyn_cast<arith::MulFOp>(*carried.user_begin());
  auto factor = scaled ? scaled.getRhs().getDefiningOp<tile::BroadcastOp>() : tile::BroadcastOp();
  auto power = factor ? factor.getSource().getDefiningOp<math::Exp2Op>() : math::Exp2Op();
  auto distance = power ? power.getOperand().getDefiningOp<arith::SubFOp>() : arith::SubFOp();
  return distance && distance.getLhs() == reference && distance.getRhs() == moved;
}

std::optional<LoopState> stream::findLoopState(scf::ForOp loop) {
  LoopState state;
  std::optional<unsigned> reference;
  auto getType = [](Value value) { return dyn_cast<RankedTensorType>(value.getType()); };
  for (auto [index, carried] : llvm::enumerate(loop.getRegionIterArgs())) {
    RankedTensorType type = getType(carried);
    if (!type || !type.getElementType().isF32() || (type.getRank() == 1 && reference))
      return std::nullopt;
    if (type.getRank() == 1)
      reference = index;
  }
  // What stands around the loop gets nothing but by what is stored.
  if (!reference || loop->getBlock()->getTerminator()->getNumOperands() != 0 ||
      loop.getBody()->getOps<tile::ReduceOp>().empty())
    return std::nullopt;
  state.reference = *reference;
  ValueRange yielded = loop.getYieldedValues();
  for (auto [index, carried] : llvm::enumerate(loop.getRegionIterArgs())) {
    if (index == state.reference)
      continue;
    if (!isRescaled(carried, loop.getRegionIterArg(state.reference), yielded[state.reference]))
      return std::nullopt;
    bool isOutput = yielded[index].getDefiningOp<tile::DotOp>() != nullptr;
    // An output that there is already would have to be divided by the values' scale.
    if (isOutput && !matchPattern(loop.getInitArgs()[index], m_AnyZeroFloat()))
      return std::nullopt;
    if (!isOutput && !yielded[index].getDefiningOp<arith::AddFOp>())
      return std::nullopt;
    (isOutput ? state.outputs : state.sums).push_back(index);
  }
  return state;
}

void stream::createStates(ImplicitLocOpBuilder &b, const Program &program, Entry &entry) {
  int64_t share = sm90::kTileRows / sm90::kWarpgroupWarps * program.rows;
  auto tile = sm90::SmemType::get(b.getContext(), {sm90::kWarpgroupWarps, share}, b.getF32Type(),
                                  sm90::SmemLayout::Linear);
  for (int64_t which = 0; which < program.consumers; ++which) {
    bool gives = which > 0 || program.sharesOutputs();
    entry.states.push_back(gives ? createRing(b, ("state " + Twine(which)).str(),
                                              program.stateStages, /*parts=*/1, {tile},
                                              sm90::kWarpgroupWarps, sm90::kWarpgroupWarps)
                                 : Value());
  }
}

//===----------------------------------------------------------------------===//
// Turns
//===----------------------------------------------------------------------===//

void TurnConsumer::begin() {
  turnsLeft = arith::ConstantIndexOp::create(b, which);
  for (unsigned i = 0; i < which; ++i)
    keyStage = next(keyStage, entry.keyRing);
  for (Value &stage : stateStages)
    stage = sm90::StageStartOp::create(b);
}

SmallVector<Value *> TurnConsumer::getStages(Operation *op) {
  SmallVector<Value *> stages = Role::getStages(op);
  if (!op->isProperAncestor(loop))
    return stages;
  if (program.consumers > 1)
    stages.push_back(&turnsLeft);
  for (auto [giver, stage] : llvm::enumerate(stateStages))
    if (entry.states[giver] && (which == 0 || which == giver || program.sharesOutputs()))
      stages.push_back(&stage);
  return stages;
}

/// What follows the loop is the first one's, or everyone's whose outputs it stores.
void TurnConsumer::emit(Operation *op) {
  bool isBehind = op->getBlock() == loop->getBlock() && loop->isBeforeInBlock(op);
  if (which != 0 && isBehind && !program.sharesOutputs())
    return;
  auto store = dyn_cast<tile::StoreOp>(op);
  if (!store || stores(store))
    Consumer::emit(op);
}

/// The half of the outputs that this consumer stores.
bool TurnConsumer::owns(unsigned index) const {
  auto found = llvm::find(state.outputs, index);
  auto position = static_cast<size_t>(found - state.outputs.begin());
  return position * program.consumers / state.outputs.size() == which;
}

/// Row vectors are the first one's to store.
bool TurnConsumer::stores(tile::StoreOp store) const {
  if (!program.sharesOutputs())
    return true;
  SmallVector<Value> sources = {store.getValue()};
  while (!sources.empty()) {
    Value source = sources.pop_back_val();
    if (source.getDefiningOp() == loop) {
      auto index = cast<OpResult>(source).getResultNumber();
      if (llvm::is_contained(state.outputs, index))
        return owns(index);
    } else if (Operation *op = source.getDefiningOp()) {
      llvm::append_range(sources, op->getOperands());
    }
  }
  return which == 0;
}

void TurnConsumer::releaseKeys() {
  sm90::ReleaseOp::create(b, entry.keyRing, keyStage);
  for (int64_t i = 0; i < program.consumers; ++i)
    keyStage = next(keyStage, entry.keyRing);
}

Role::Range TurnConsumer::getRange(scf::ForOp op) {
  Range range = Role::getRange(op);
  if (op != loop || program.consumers == 1)
    return range;
  Value before = arith::MulIOp::create(b, turnsLeft, range.step);
  return {arith::AddIOp::create(b, range.first, before), range.end, getTurnStep()};
}

Value TurnConsumer::getTurnStep() {
  Value step = cloner.get(loop.getStep());
  if (program.consumers == 1)
    return step;
  Value all = arith::ConstantIndexOp::create(b, program.consumers);
  return arith::MulIOp::create(b, step, all);
}

/// Only the first goes on from what there is.
SmallVector<Value> TurnConsumer::getInits(scf::ForOp op) {
  SmallVector<Value> inits = Role::getInits(op);
  if (op != loop || which == 0)
    return inits;
  for (auto [index, init] : llvm::enumerate(inits))
    init =
        getConstant(index == state.reference ? tile::AttendOp::kStartReference : 0, init.getType());
  return inits;
}

/// Blocks go to consumers in turns whatever item they are of, as stages do.
void TurnConsumer::passTurn(scf::ForOp op) {
  Range range = Role::getRange(op);
  Value keys = arith::SubIOp::create(b, range.end, range.first);
  Value zero = arith::ConstantIndexOp::create(b, 0);
  keys = arith::MaxSIOp::create(b, keys, zero);
  Value blocks = getConstantIntValue(range.step) == 1
                     ? keys
                     : arith::CeilDivSIOp::create(b, keys, range.step).getResult();
  Value others = arith::ConstantIndexOp::create(b, program.consumers - 1);
  Value all = arith::ConstantIndexOp::create(b, program.consumers);
  Value ahead = arith::AddIOp::create(b, turnsLeft, arith::MulIOp::create(b, blocks, others));
  turnsLeft = arith::RemUIOp::create(b, ahead, all);
}

void TurnConsumer::emitFor(scf::ForOp op) {
  Role::emitFor(op);
  if (op != loop)
    return;
  if (program.consumers > 1)
    passTurn(op);
  if (program.sharesOutputs())
    exchangeStates();
  else if (which != 0)
    return giveState();
  else
    for (unsigned other = 1; other < program.consumers; ++other)
      takeState(other);
  finishOutputs();
}

void TurnConsumer::give(unsigned giver, Value tile) {
  Value ring = entry.states[giver], &stage = stateStages[giver];
  sm90::AcquireOp::create(b, ring, stage);
  sm90::ParkOp::create(b, tile, getTile(ring, stage, 0), /*rank=*/IntegerAttr());
  sm90::PublishOp::create(b, ring, stage, /*part=*/0);
  stage = next(stage, ring);
}

Value TurnConsumer::take(unsigned giver) {
  Value ring = entry.states[giver], &stage = stateStages[giver];
  Type type = getFragmentType(program.rows, b.getF32Type());
  sm90::AwaitOp::create(b, ring, stage, /*part=*/0);
  Value tile = sm90::UnparkOp::create(b, type, getTile(ring, stage, 0));
  sm90::ReleaseOp::create(b, ring, stage);
  stage = next(stage, ring);
  return tile;
}

/// As a tile, all of whose rows are the same: who takes it makes a vector of them.
void TurnConsumer::giveReference() {
  Type type = getFragmentType(program.rows, b.getF32Type());
  give(which, sm90::BroadcastOp::create(b, type, cloner.get(loop.getResult(state.reference))));
}

void TurnConsumer::giveState() {
  giveReference();
  for (ArrayRef<unsigned> indices : {ArrayRef(state.sums), ArrayRef(state.outputs)})
    for (unsigned index : indices)
      give(which, cloner.get(loop.getResult(index)));
}

/// Both states to the larger reference.
void TurnConsumer::combineReferences(unsigned other) {
  Type type = getFragmentType(program.rows, b.getF32Type());
  Value ownReference = loop.getResult(state.reference), own = cloner.get(ownReference);
  tile::ReduceOp maximum = *loop.getBody()->getOps<tile::ReduceOp>().begin();
  Value given =
      reduce(sm90::ReduceKind::Max, own.getType(), take(other), entry.scratch.lookup(maximum));
  Value common = arith::MaximumFOp::create(b, own, given);
  auto getFactor = [&](Value reference) -> Value {
    Value factor = math::Exp2Op::create(b, arith::SubFOp::create(b, reference, common));
    return sm90::BroadcastOp::create(b, type, factor);
  };
  ownFactor = getFactor(own);
  givenFactor = getFactor(given);
  cloner.map(ownReference, common);
}

void TurnConsumer::combine(unsigned index, unsigned other) {
  Value before = loop.getResult(index);
  Value mine = arith::MulFOp::create(b, cloner.get(before), ownFactor);
  Value given = arith::MulFOp::create(b, take(other), givenFactor);
  cloner.map(before, arith::AddFOp::create(b, mine, given));
}

void TurnConsumer::takeState(unsigned other) {
  combineReferences(other);
  for (ArrayRef<unsigned> indices : {ArrayRef(state.sums), ArrayRef(state.outputs)})
    for (unsigned index : indices)
      combine(index, other);
}

/// Of two consumers, tile by tile: each gives what the other stores.
void TurnConsumer::exchangeStates() {
  const unsigned other = 1 - which;
  giveReference();
  combineReferences(other);
  for (unsigned index : state.sums) {
    give(which, cloner.get(loop.getResult(index)));
    combine(index, other);
  }
  size_t half = state.outputs.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    give(which, cloner.get(loop.getResult(state.outputs[other * half + i])));
    combine(state.outputs[which * half + i], other);
  }
}

void stream::emitTurnConsumer(ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
                              const LazyCloner &cloner, unsigned which) {
  TurnConsumer(b, program, entry, cloner, which).run(which);
}
