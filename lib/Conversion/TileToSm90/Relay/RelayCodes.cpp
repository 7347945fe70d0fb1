//===- RelayCodes.cpp - output roles that turn codes into operands ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keys at the cursor have been brought to the role's ring of codes, which has one stage: its
// next ones are copied as soon as they have been read, by one thread, or row by row by all. The
// scale of a group is one of the rows' of a panel of codes, read from the pool while the product
// before is awaited.
//
//===----------------------------------------------------------------------===//

#include "Common/ScheduleBuilder.h"
#include "Relay/RelayOutputState.h"

#include "mla/Dialect/Sm90/IR/Sm90CodeOps.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::relay;

/// What the codes at the cursor are multiplied by.
struct relay::Kernel::Codes {
  Value scale;                    // of all, f32
  SmallVector<Value> panelScales; // or rows, of each panel of codes of this half
};

/// A stage is a panel of codes; RoPE's comes last.
void relay::Kernel::createCodeRings(int32_t copy, int32_t role) {
  Type code = loop.terms[0].getKeyType().getElementType();
  sm90::SmemType tile = getSharedType({sm90::kTileRows, sm90::kCodePanelColumns}, code);
  leftCodes = createRing("left codes", countCodePanels(true), 1, {tile}, copy, role);
  rightCodes = createRing("right codes", countCodePanels(false), 1, {tile}, copy, role);
}

int64_t relay::Kernel::countCodePanels(bool isLeft) const {
  if (isLeft)
    return shape.getLeftColumns() / sm90::kCodePanelColumns;
  return shape.getRightColumns() / sm90::kCodePanelColumns + (shape.hasRopeCodes ? 1 : 0);
}

/// Who copies, one thread or all, brings a panel of a block's codes.
void relay::Kernel::copyCodes(OutputState &state, LazyCloner &cloner,
                              const PagedTiles::Block &block, int64_t panel, Value stage) {
  Value ring = state.isLeft ? leftCodes : rightCodes, target = tileOf(ring, stage, 0);
  bool isRope = !state.isLeft && panel * sm90::kCodePanelColumns == shape.getRightColumns();
  int64_t first = state.isLeft ? 0 : shape.getLeftColumns();
  int64_t column = isRope ? 0 : first + panel * sm90::kCodePanelColumns;
  sm90::AcquireOp::create(b, ring, stage);
  if (!shape.usesTma) {
    copyKeyRows(b, cloner, loop.terms[isRope ? 1 : 0].keys, column, target);
    sm90::CopyPublishOp::create(b, ring, stage, 0);
    return;
  }
  sm90::ExpectOp::create(b, ring, stage, 0, cast<sm90::RingType>(ring.getType()).getStageBytes());
  (isRope ? rope : leftKeys).copy(b, b.getLoc(), block, column, target, ring, stage, 0);
}

/// Who copies does what `body` emits.
void relay::Kernel::whereExists(Value exists, llvm::function_ref<void()> body) {
  OpBuilder::InsertionGuard guard(b);
  if (shape.usesTma) {
    auto elected = sm90::ElectOp::create(b);
    b.createBlock(&elected.getBody());
    sm90::EndOp::create(b);
    b.setInsertionPointToStart(&elected.getBody().front());
  }
  auto branch = scf::IfOp::create(b, exists, /*withElseRegion=*/false);
  b.setInsertionPointToStart(branch.thenBlock());
  body();
}

/// The first item's first block, behind the wait for who wrote it.
void relay::Kernel::startCodes(OutputState &state) {
  LazyCloner cloner(entry, [this](Operation *, Type type) { return convertOutputType(type); });
  Entry found = locate(state, cloner);
  PagedTiles::Block block;
  if (shape.usesTma)
    block = leftKeys.find(b, cloner);
  else
    fetchScalars(cloner);
  waitForDependency();
  whereExists(found.exists, [&] {
    LazyCloner::Scope scope(cloner);
    Value stage = state.codes;
    for (int64_t panel = 0; panel < countCodePanels(state.isLeft); ++panel) {
      copyCodes(state, cloner, block, panel, stage);
      stage = next(stage, state.isLeft ? leftCodes : rightCodes);
    }
    if (bringsRope(state.isLeft))
      copyRope(state, cloner, block);
  });
  if (bringsRope(state.isLeft))
    state.filledRope = next(state.filledRope, ropes);
}

/// The scales of this half's panels, or the one of all. The loop's maximum over equal columns is
/// that column: nothing here waits for what is loaded.
relay::Kernel::Codes relay::Kernel::fetchScales(OutputState &state, LazyCloner &cloner) {
  Codes codes;
  if (loop.groupScales.empty()) {
    codes.scale = cloner.get(loop.scale);
    return codes;
  }
  size_t half = loop.groupScales.size() / 2;
  for (Value rows : ArrayRef(loop.groupScales).slice(state.isLeft ? 0 : half, half)) {
    auto reduce = rows.getDefiningOp<tile::ReduceOp>();
    codes.panelScales.push_back(loadRowScales(b, cloner, reduce.getSource().getDefiningOp()));
  }
  return codes;
}

/// RoPE keys that are no codes, with the codes of the same block.
void relay::Kernel::copyRope(OutputState &state, LazyCloner &cloner,
                             const PagedTiles::Block &block) {
  Value target = tileOf(ropes, state.filledRope, 0);
  sm90::AcquireOp::create(b, ropes, state.filledRope);
  if (!shape.usesTma) {
    copyKeyRows(b, cloner, loop.terms[1].keys, 0, target);
    sm90::CopyPublishOp::create(b, ropes, state.filledRope, 0);
    return;
  }
  sm90::ExpectOp::create(b, ropes, state.filledRope, 0,
                         cast<sm90::SmemType>(target.getType()).getByteSize());
  rope.copy(b, b.getLoc(), block, 0, target, ropes, state.filledRope, 0);
}

/// All threads turn the codes at hand into the slot's operands, panel by panel, each of which
/// `copyNext` fills again. Returns the stage behind.
Value relay::Kernel::fillFromCodes(OutputState &state, LazyCloner &cloner, const Codes &codes,
                                   llvm::function_ref<void(int64_t, Value)> copyNext) {
  Value ring = state.isLeft ? leftCodes : rightCodes, stage = state.codes;
  Value target = tileOf(state.isLeft ? left : right, state.filled, 0);
  int64_t panels = countCodePanels(state.isLeft);
  for (int64_t panel = 0; panel < panels; ++panel) {
    bool isRope = !state.isLeft && shape.hasRopeCodes && panel + 1 == panels;
    sm90::AwaitOp::create(b, ring, stage, 0);
    if (isRope) {
      sm90::AcquireOp::create(b, ropes, state.filledRope);
      sm90::TransformCodesOp::create(b, tileOf(ring, stage, 0), codes.scale,
                                     tileOf(ropes, state.filledRope, 0), /*column=*/0);
      sm90::PublishOp::create(b, ropes, state.filledRope, 0);
    } else {
      sm90::TransformCodesOp::create(b, tileOf(ring, stage, 0),
                                     codes.scale ? codes.scale : codes.panelScales[panel], target,
                                     panel * sm90::kCodePanelColumns);
    }
    sm90::ReleaseOp::create(b, ring, stage, /*remote=*/false);
    Value again = stage; // the same slot's next turn
    for (int64_t i = 0; i < panels; ++i)
      again = next(again, ring);
    copyNext(panel, again);
    stage = next(stage, ring);
  }
  return stage;
}

/// As refill, from the role's codes. What it reads of tables and scales it reads while the
/// weights are awaited.
void relay::Kernel::refillFromCodes(OutputState &state, llvm::function_ref<void()> untilFree) {
  auto convert = [this](Operation *, Type type) { return convertOutputType(type); };
  LazyCloner cloner(entry, convert), behind(entry, convert);
  Entry found = locate(state, cloner);
  Codes codes = fetchScales(state, cloner);
  advance(state, countEntries(state, cloner));
  Entry following = locate(state, behind);
  PagedTiles::Block block;
  if (findsPagesEarly())
    block = leftKeys.find(b, behind);
  else if (!shape.usesTma)
    fetchScalars(behind);
  auto findBlock = [&] {
    return findsPagesEarly() || !shape.usesTma ? block : leftKeys.find(b, behind);
  };

  if (untilFree)
    untilFree();

  auto copyNext = [&](int64_t panel, Value stage) {
    whereExists(following.exists, [&] {
      LazyCloner::Scope scope(behind);
      PagedTiles::Block found = findBlock();
      copyCodes(state, behind, found, panel, stage);
    });
  };
  Value ring = state.isLeft ? left : right, before = state.codes;
  auto branch = scf::IfOp::create(b, before.getType(), found.exists, /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    LazyCloner::Scope scope(cloner);
    b.setInsertionPointToStart(branch.thenBlock());
    sm90::AcquireOp::create(b, ring, state.filled);
    Value filled = fillSlot(state, cloner, found, codes, copyNext);
    sm90::PublishOp::create(b, ring, state.filled, 0);
    // Last: its slot is free when the scores of the block in between are done.
    if (bringsRope(state.isLeft))
      whereExists(following.exists, [&] {
        LazyCloner::Scope inner(behind);
        PagedTiles::Block found = findBlock();
        copyRope(state, behind, found);
      });
    scf::YieldOp::create(b, filled);
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, before);
  }
  state.codes = branch.getResult(0);
  state.filled = next(state.filled, ring);
  if (!state.isLeft && shape.hasRope)
    state.filledRope = next(state.filledRope, ropes);
}

/// The entry's queries, or what its codes stand for. Returns the stage of the next codes.
Value relay::Kernel::fillSlot(OutputState &state, LazyCloner &cloner, const Entry &entry,
                              const Codes &codes,
                              llvm::function_ref<void(int64_t, Value)> copyNext) {
  if (!entry.isQuery)
    return fillFromCodes(state, cloner, codes, copyNext);
  auto kind = scf::IfOp::create(b, state.codes.getType(), entry.isQuery, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(kind.thenBlock());
  copyQueryRows(state, cloner);
  scf::YieldOp::create(b, state.codes);
  b.setInsertionPointToStart(kind.elseBlock());
  scf::YieldOp::create(b, fillFromCodes(state, cloner, codes, copyNext));
  return kind.getResult(0);
}

/// All threads bring the left half of the item's queries to the slot, and wait for it: once
/// in an item.
void relay::Kernel::copyQueryRows(OutputState &state, LazyCloner &cloner) {
  LazyCloner::Scope scope(cloner);
  tile::LoadOp query = loop.terms[0].query;
  sm90::CopyOp::create(
      b, cloner.get(query.getView()), cloner.get(query.getOffsets()), tileOf(left, state.filled, 0),
      static_cast<int32_t>(chooseVectorBytes(query.getView(), query.getOffsets().back())));
  sm90::CopyCommitOp::create(b);
  sm90::CopyWaitOp::create(b, /*pending=*/0);
}
