//===- StreamProducer.cpp - copies queries and keys ahead of the products ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Stream/StreamRole.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::stream;

static bool touchesTiles(Operation *op) {
  return llvm::any_of(op->getOperands(), isTile) || llvm::any_of(op->getResults(), isTile);
}

namespace {
class Producer : public Role {
public:
  using Role::Role;

private:
  bool keeps(Value value) const override { return !isTile(value); }
  void emit(Operation *op) override;
  void begin() override;
  SmallVector<Value *> getStages(Operation *op) override;
  /// Stages that have one panel of a block now and another then keep no zeros.
  bool hasRests() const {
    return !program.slots &&
           llvm::any_of(entry.keyMaps, [](const PagedTiles &map) { return map.hasRest(); });
  }
  void emitSides();
  void loadQueries();
  void loadKeys();
  /// Where blocks lie, by the terms; empty where threads copy rows.
  SmallVector<PagedTiles::Block> findBlocks();
  void copyBlock(ArrayRef<PagedTiles::Block> blocks, bool isAgain);
  void copyPart(const Part &part, int32_t number, Value stage, Value target);

  /// Stages that were never filled, where that makes a difference.
  Value freshStages;
  /// What was known before the sides, and which one: each has queries of its own.
  SmallVector<LazyCloner, 2> sides;
};
} // namespace

void Producer::emit(Operation *op) {
  if (op == program.sides)
    return emitSides();
  if (op == program.queries.back())
    return loadQueries();
  if (op == program.keys.back())
    return loadKeys();
  if (auto loop = dyn_cast<scf::ForOp>(op); loop && program.hasLoads(op))
    return emitFor(loop);
  if (auto branch = dyn_cast<scf::IfOp>(op); branch && program.hasLoads(op))
    return emitIf(branch);
  if (op->getNumRegions() == 0 && !touchesTiles(op))
    clone(op);
}

/// Runs `body` in one thread.
static void elect(ImplicitLocOpBuilder &b, llvm::function_ref<void()> body) {
  auto elected = sm90::ElectOp::create(b);
  OpBuilder::InsertionGuard guard(b);
  b.createBlock(&elected.getBody());
  sm90::EndOp::create(b);
  b.setInsertionPointToStart(&elected.getBody().front());
  body();
}

/// Keys are those of all sides, so that the first one says which.
void Producer::emitSides() {
  sides.clear();
  scf::ForOp loop = program.sides;
  for (int64_t side = 0; side < program.countSides(); ++side) {
    sides.emplace_back(cloner, [](Operation *, Type type) { return convertType(type); });
    sides.back().map(loop.getInductionVar(), arith::ConstantIndexOp::create(b, side));
  }
  emitSide(0);
}

void Producer::loadQueries() {
  SmallVector<SmallVector<Value>> offsets;
  for (int64_t owner = 0; owner < program.countOwners(); ++owner)
    for (const QueryRows &rows : entry.queryMaps)
      offsets.push_back(rows.getCoordinates(b, program.sides ? sides[owner] : cloner));
  // What was read so far came from the host; keys are loaded behind the queries.
  if (program.waits)
    sm90::WaitDependencyOp::create(b);
  auto load = [&] {
    sm90::AcquireOp::create(b, entry.queryRing, queryStage);
    SmallVector<Value> tiles;
    int32_t bytes = 0;
    int64_t perTile = program.queriesPerTile, queries = program.queries.size(),
            count = offsets.size();
    for (int64_t index = 0; index < count / perTile; ++index)
      tiles.push_back(getTile(entry.queryRing, queryStage, index));
    for (int64_t index = 0; index < count; ++index) {
      auto type = cast<sm90::SmemType>(tiles[index / perTile].getType());
      bytes += static_cast<int32_t>(
          type.getPanels() * entry.queryMaps[index % queries].getBoxRows() * sm90::kPanelRowBytes);
    }
    sm90::ExpectOp::create(b, entry.queryRing, queryStage, /*part=*/0, bytes);
    for (int64_t index = 0; index < count; ++index)
      sm90::TmaLoadOp::create(b, entry.queryMaps[index % queries].getMap(), offsets[index],
                              tiles[index / perTile], entry.queryRing, queryStage, /*part=*/0,
                              /*row=*/index % perTile * program.rows, IntegerAttr());
  };
  program.usesTma ? load() : elect(b, load);
  queryStage = next(queryStage, entry.queryRing);
}

SmallVector<PagedTiles::Block> Producer::findBlocks() {
  SmallVector<PagedTiles::Block> blocks;
  for (const PagedTiles &map : entry.keyMaps)
    blocks.push_back(map.find(b, cloner));
  return blocks;
}

void Producer::begin() {
  if (hasRests())
    freshStages = arith::ConstantIndexOp::create(b, program.stages);
}

SmallVector<Value *> Producer::getStages(Operation *op) {
  SmallVector<Value *> stages = Role::getStages(op);
  if (freshStages && op->isProperAncestor(program.keys.front()))
    stages.push_back(&freshStages);
  return stages;
}

void Producer::copyBlock(ArrayRef<PagedTiles::Block> blocks, bool isAgain) {
  for (auto [index, part] : llvm::enumerate(program.parts)) {
    Value stage = getStage(index);
    int32_t number = getBarrier(index);
    if (program.slots)
      sm90::AcquireOp::create(b, entry.keyRing, stage, /*keeps=*/false);
    Value target = getPart(index);
    if (!program.usesTma) {
      copyPart(part, number, stage, target);
      continue;
    }
    const PagedTiles &map = entry.keyMaps[part.tile];
    bool isLast = part.column + part.columns == program.getLoadWidth(part.tile);
    bool keepsZeros = isAgain && map.hasRest() && isLast;
    int64_t bytes = keepsZeros ? map.countBytesAgain(target) : map.countBytes(target);
    sm90::ExpectOp::create(b, entry.keyRing, stage, number, static_cast<int32_t>(bytes));
    auto copy = keepsZeros ? &PagedTiles::copyAgain : &PagedTiles::copy;
    (map.*copy)(b, b.getLoc(), blocks[part.tile], part.column, target, entry.keyRing, stage,
                number);
  }
}

/// The block table is read before the wait for a free stage, which hides its
/// latency.
void Producer::loadKeys() {
  SmallVector<PagedTiles::Block> blocks = findBlocks();
  placeParts();
  if (!program.slots)
    sm90::AcquireOp::create(b, entry.keyRing, keyStage, /*keeps=*/static_cast<bool>(freshStages));
  if (!freshStages) {
    copyBlock(blocks, /*isAgain=*/false);
  } else {
    Value zero = arith::ConstantIndexOp::create(b, 0), one = arith::ConstantIndexOp::create(b, 1);
    Value isAgain = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, freshStages, zero);
    auto branch = scf::IfOp::create(b, isAgain, /*withElseRegion=*/true);
    for (bool again : {true, false}) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(again ? branch.thenBlock() : branch.elseBlock());
      copyBlock(blocks, again);
    }
    Value left = arith::SubIOp::create(b, freshStages, one);
    freshStages = arith::SelectOp::create(b, isAgain, zero, left);
  }
  leaveBlock();
}

/// Pages that TMA cannot copy.
void Producer::copyPart(const Part &part, int32_t number, Value stage, Value target) {
  copyKeyRows(b, cloner, program.keys[part.tile], part.column, target);
  sm90::CopyPublishOp::create(b, entry.keyRing, stage, number);
}

void stream::emitProducer(ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
                          const LazyCloner &cloner) {
  auto run = [&] { Producer(b, program, entry, cloner).run(); };
  program.usesTma ? elect(b, run) : run();
}
