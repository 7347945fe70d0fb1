//===- RelayCodes.cpp - the role that turns codes into operands ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An output role brings its half of a block's codes to a ring of its own, each panel as soon as the
// block before has been read out of it. The role "codes" turns them into operands in the slots that
// products have freed; scales of rows it loads from the pool, a block ahead:
//
//     left, right   PV(i) | free slot | codes(i+2) as those of i+1 are read
//     codes         left codes(i+1) x scales -> left slot | RoPE | load scales(i+2) | right -> slot
//
//===----------------------------------------------------------------------===//

#include "Common/ScheduleBuilder.h"
#include "Relay/RelayOutputState.h"

#include "mla/Dialect/Sm90/IR/Sm90CodeOps.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::relay;

//===----------------------------------------------------------------------===//
// Rings
//===----------------------------------------------------------------------===//

/// A stage is a panel of codes; RoPE's comes first.
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

//===----------------------------------------------------------------------===//
// Bringing them
//===----------------------------------------------------------------------===//

/// Who copies, one thread or all, brings a panel of a block's codes.
void relay::Kernel::copyCodes(OutputState &state, LazyCloner &cloner,
                              const PagedTiles::Block &block, int64_t panel, Value stage) {
  Value ring = state.isLeft ? leftCodes : rightCodes, target = tileOf(ring, stage, 0);
  bool hasRope = !state.isLeft && shape.hasRopeCodes, isRope = hasRope && panel == 0;
  int64_t first = state.isLeft ? 0 : shape.getLeftColumns();
  int64_t column = isRope ? 0 : first + (panel - (hasRope ? 1 : 0)) * sm90::kCodePanelColumns;
  sm90::AcquireOp::create(b, ring, stage);
  if (!shape.usesTma) {
    copyKeyRows(b, cloner, loop.terms[isRope ? 1 : 0].keys, column, target);
    sm90::CopyPublishOp::create(b, ring, stage, 0);
    return;
  }
  sm90::ExpectOp::create(b, ring, stage, 0, cast<sm90::RingType>(ring.getType()).getStageBytes());
  (isRope ? rope : leftKeys).copy(b, b.getLoc(), block, column, target, ring, stage, 0);
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

/// As refill, of codes.
void relay::Kernel::refillCodes(OutputState &state, llvm::function_ref<void()> untilFree) {
  LazyCloner cloner(entry, [this](Operation *, Type type) { return convertOutputType(type); });
  Entry found = locate(state.cursor, cloner);
  Value entries = countEntries(state.cursor, cloner);
  PagedTiles::Block block;
  if (findsPagesEarly())
    block = leftKeys.find(b, cloner);
  else if (!shape.usesTma)
    fetchScalars(cloner);

  if (untilFree)
    untilFree();

  Value ring = state.isLeft ? leftCodes : rightCodes, first = state.codes;
  int64_t panels = countCodePanels(state.isLeft);
  whereExists(found.exists, [&] {
    LazyCloner::Scope scope(cloner);
    if (shape.usesTma && !findsPagesEarly())
      block = leftKeys.find(b, cloner);
    if (bringsRope(state.isLeft))
      copyRope(state, cloner, block);
    Value stage = first;
    for (int64_t panel = 0; panel < panels; ++panel, stage = next(stage, ring))
      copyCodes(state, cloner, block, panel, stage);
  });
  for (int64_t panel = 0; panel < panels; ++panel)
    state.codes = next(state.codes, ring);
  if (bringsRope(state.isLeft))
    state.filledRope = next(state.filledRope, ropes);
  advance(state.cursor, entries);
}

//===----------------------------------------------------------------------===//
// Turning them
//===----------------------------------------------------------------------===//

/// What operands lack of what their codes stand for: the one scale of all, or, where rows have
/// scales, the factor of the operands. Of `type`, f32 or a tile of it.
Value relay::Kernel::getCodeRest(LazyCloner &cloner, Type type) {
  if (!loop.groupScales.empty())
    return constantFloat(1 / kCodeFactor, type);
  Value scale = cloner.get(loop.scale);
  return isa<ShapedType>(type) ? sm90::SplatOp::create(b, type, scale) : scale;
}

/// What changes from block to block.
struct relay::Kernel::CodesState {
  Value leftCodes, left, rightCodes, right, ropes; // stages
  Cursor cursor;                                   // at the block whose scales are loaded next
  SmallVector<Value> scales;                       // of the rows of each panel of the latent

  SmallVector<Value> pack() const {
    SmallVector<Value> values{leftCodes, left, rightCodes, right, ropes, cursor.item, cursor.entry};
    llvm::append_range(values, scales);
    return values;
  }
  void unpack(ValueRange values) {
    for (Value *value :
         {&leftCodes, &left, &rightCodes, &right, &ropes, &cursor.item, &cursor.entry}) {
      *value = values.front();
      values = values.drop_front();
    }
    scales.assign(values.begin(), values.end());
  }
};

/// Loads the scales of the block at the cursor, which nobody waits for here: the loop's maximum
/// over equal columns is that column. What they are found by is waited for.
SmallVector<Value> relay::Kernel::fetchScales(CodesState &state) {
  if (loop.groupScales.empty())
    return {};
  LazyCloner cloner(entry, [](Operation *, Type type) { return convertRoleType(type); });
  locate(state.cursor, cloner);
  SmallVector<Value> scales;
  for (Value rows : loop.groupScales) {
    auto reduce = rows.getDefiningOp<tile::ReduceOp>();
    scales.push_back(loadRowScales(b, cloner, reduce.getSource().getDefiningOp()));
  }
  advance(state.cursor, countEntries(state.cursor, cloner));
  return scales;
}

/// Of a half's column, what a thread multiplies its rows by: their scales times what operands are
/// more than their codes stand for, or nothing.
Value relay::Kernel::getScale(CodesState &state, bool isLeft, int64_t column) {
  if (state.scales.empty())
    return constantFloat(1, b.getF32Type());
  int64_t first = isLeft ? 0 : shape.getLeftColumns();
  Value rows = state.scales[(first + column) / sm90::kCodePanelColumns];
  return arith::MulFOp::create(b, rows, constantFloat(kCodeFactor, rows.getType()));
}

/// 64 columns of a half's codes. `stages` are those of its panels so far, which end with the next.
Value relay::Kernel::takeCodes(Value ring, SmallVector<Value> &stages, int64_t column) {
  int64_t inPanel = column % sm90::kCodePanelColumns;
  Value stage = inPanel == 0 ? stages.back() : stages[stages.size() - 2];
  if (inPanel == 0) {
    sm90::AwaitOp::create(b, ring, stage, 0);
    stages.push_back(next(stage, ring));
  }
  constexpr int64_t wordColumns = 4;
  return sm90::LoadCodeWordsOp::create(
      b, getFragmentType(sm90::kPanelColumns / wordColumns, b.getI32Type()), tileOf(ring, stage, 0),
      inPanel, sm90::kPanelColumns);
}

/// RoPE keys, which the scores multiply before they have right operands.
void relay::Kernel::turnRope(CodesState &state) {
  SmallVector<Value> stages{state.rightCodes};
  Value words = takeCodes(rightCodes, stages, 0);
  Value operands =
      sm90::ScaleCodesOp::create(b, getFragmentType(sm90::kPanelColumns, shape.operand), words,
                                 constantFloat(1, b.getF32Type()));
  sm90::AcquireOp::create(b, ropes, state.ropes);
  sm90::StoreSharedOp::create(b, operands, tileOf(ropes, state.ropes, 0), /*transposed=*/false,
                              b.getI64IntegerAttr(0));
  sm90::PublishOp::create(b, ropes, state.ropes, 0);
  sm90::ReleaseOp::create(b, rightCodes, state.rightCodes, /*remote=*/false);
  state.ropes = next(state.ropes, ropes);
  state.rightCodes = stages.back();
}

/// One half of a block. Codes are loaded a step ahead of stores that may, for all that LLVM knows,
/// be to the same place. Their panels are released behind what is published, whose fence they need.
void relay::Kernel::turnHalf(CodesState &state, bool isLeft) {
  Value codes = isLeft ? leftCodes : rightCodes, ring = isLeft ? left : right;
  Value &codesStage = isLeft ? state.leftCodes : state.rightCodes;
  Value &slot = isLeft ? state.left : state.right;
  int64_t columns = isLeft ? shape.getLeftColumns() : shape.getRightColumns();
  int64_t partColumns = isLeft ? columns : options.rightPanelsPerPart * sm90::kPanelColumns;
  SmallVector<Value> stages{codesStage};
  size_t released = 0;
  Value words = takeCodes(codes, stages, 0);
  sm90::AcquireOp::create(b, ring, slot);
  for (int64_t column = 0; column < columns; column += sm90::kPanelColumns) {
    int64_t behind = column + sm90::kPanelColumns;
    Value following = behind < columns ? takeCodes(codes, stages, behind) : Value();
    Value operands =
        sm90::ScaleCodesOp::create(b, getFragmentType(sm90::kPanelColumns, shape.operand), words,
                                   getScale(state, isLeft, column));
    sm90::StoreSharedOp::create(b, operands, tileOf(ring, slot, 0), /*transposed=*/false,
                                b.getI64IntegerAttr(column));
    words = following;
    if (behind % partColumns != 0)
      continue;
    sm90::PublishOp::create(b, ring, slot, behind / partColumns - 1);
    for (; static_cast<int64_t>(released) < behind / sm90::kCodePanelColumns; ++released)
      sm90::ReleaseOp::create(b, codes, stages[released], /*remote=*/false);
  }
  codesStage = stages.back();
  slot = next(slot, ring);
}

/// Left halves first: their slots are free long before.
void relay::Kernel::emitCodes() {
  LazyCloner cloner(entry, [](Operation *, Type type) { return convertRoleType(type); });
  Value start = sm90::StageStartOp::create(b);
  waitForDependency();
  CodesState state{start, start, start,
                   start, start, Cursor{/*hasQueries=*/false, to32(begin), constant32(0)},
                   {}};
  state.scales = fetchScales(state);
  auto emitBlock = [&](Value, ValueRange values) {
    state.unpack(values);
    turnHalf(state, /*isLeft=*/true);
    if (shape.hasRopeCodes)
      turnRope(state);
    // Here the right slot would be waited for.
    SmallVector<Value> following = fetchScales(state);
    turnHalf(state, /*isLeft=*/false);
    state.scales = following;
    return state.pack();
  };
  createLoop(to32(begin), to32(end), state.pack(), /*atLeastOnce=*/true,
             [&](Value item, ValueRange carried) {
               LazyCloner::Scope scope(cloner);
               cloner.map(loop.items.getInductionVar(), toIndex(item));
               auto blocks = createLoop(constant32(0), countBlocks(cloner), carried,
                                        /*atLeastOnce=*/true, emitBlock);
               return SmallVector<Value>(blocks.getResults());
             });
}
