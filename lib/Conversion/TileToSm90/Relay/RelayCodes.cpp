//===- RelayCodes.cpp - what brings keys that are codes ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An output role brings its half of a block's codes to a ring of its own, each panel as soon as the
// block before has been read out of it: codes of block i + 2 come while i + 1 is multiplied.
//
//===----------------------------------------------------------------------===//

#include "Common/ScheduleBuilder.h"
#include "Relay/RelayOutputState.h"

#include "mla/Dialect/Sm90/IR/Sm90CodeOps.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::relay;

//===----------------------------------------------------------------------===//
// Rings
//===----------------------------------------------------------------------===//

/// A stage is a panel of codes; RoPE's come first.
void relay::Kernel::createCodeRings(int32_t copy, int32_t role) {
  Type code = loop.terms[0].getKeyType().getElementType();
  sm90::SmemType tile = getSharedType({sm90::kTileRows, sm90::kCodePanelColumns}, code);
  leftCodes = createRing("left codes", countCodePanels(true), 1, {tile}, copy, role);
  rightCodes = createRing("right codes", countCodePanels(false), 1, {tile}, copy, role);
  if (loop.groupScales.empty())
    return;
  auto groups = static_cast<int64_t>(loop.groupScales.size());
  auto rows = sm90::SmemType::get(b.getContext(), {sm90::kTileRows, groups}, b.getF32Type(),
                                  sm90::SmemLayout::Linear);
  scales = createRing("scales", 1, 1, {rows}, sm90::kWarpgroupThreads, role);
}

int64_t relay::Kernel::countCodePanels(bool isLeft) const {
  if (isLeft)
    return shape.getLeftColumns() / sm90::kCodePanelColumns;
  return shape.getRightColumns() / sm90::kCodePanelColumns + countRopeCodePanels();
}

int64_t relay::Kernel::countRopeCodePanels() const {
  return shape.hasRopeCodes ? llvm::divideCeil(shape.getRopeColumns(), sm90::kCodePanelColumns) : 0;
}

//===----------------------------------------------------------------------===//
// Bringing them
//===----------------------------------------------------------------------===//

/// Who copies, one thread or all, brings a panel of a block's codes.
void relay::Kernel::copyCodes(OutputState &state, LazyCloner &cloner,
                              const PagedTiles::Block &block, int64_t panel, Value stage) {
  Value ring = state.isLeft ? leftCodes : rightCodes, target = tileOf(ring, stage, 0);
  int64_t ofRope = state.isLeft ? 0 : countRopeCodePanels();
  bool isRope = panel < ofRope;
  int64_t column = (isRope ? panel : panel - ofRope) * sm90::kCodePanelColumns;
  if (!state.isLeft && !isRope)
    column += shape.getLeftColumns();
  sm90::AcquireOp::create(b, ring, stage);
  if (!shape.usesTma) {
    copyKeyRows(b, cloner, loop.terms[isRope ? 1 : 0].keys, column, target);
    sm90::CopyPublishOp::create(b, ring, stage, 0);
    return;
  }
  sm90::ExpectOp::create(b, ring, stage, 0, cast<sm90::RingType>(ring.getType()).getStageBytes());
  (isRope ? rope : leftKeys).copy(b, b.getLoc(), block, column, target, ring, stage, 0);
}

/// Scales of the block's rows, by all threads of the right role: where TMA brings codes, too, whose boxes
/// would be of 16 bytes.
void relay::Kernel::copyScales(OutputState &state, LazyCloner &cloner, Value exists) {
  if (!scales || state.isLeft)
    return;
  OpBuilder::InsertionGuard guard(b);
  auto branch = scf::IfOp::create(b, exists, /*withElseRegion=*/false);
  b.setInsertionPointToStart(branch.thenBlock());
  LazyCloner::Scope scope(cloner);
  auto fold = loop.groupScales.front().getDefiningOp<tile::ReduceOp>();
  sm90::AcquireOp::create(b, scales, state.filledScales);
  copyRowScales(b, cloner, fold.getSource().getDefiningOp(),
                tileOf(scales, state.filledScales, 0));
  sm90::CopyPublishOp::create(b, scales, state.filledScales, 0);
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
  copyScales(state, cloner, found.exists);
  if (scales)
    state.filledScales = next(state.filledScales, scales);
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
// What they stand for
//===----------------------------------------------------------------------===//

/// What operands lack of what their codes stand for: the one scale of all, or, where rows have
/// scales, the factor of the operands. Of `type`, f32 or a tile of it.
Value relay::Kernel::getCodeRest(LazyCloner &cloner, Type type) {
  if (!loop.groupScales.empty())
    return constantFloat(1 / kCodeFactor, type);
  Value scale = cloner.get(loop.scale);
  return isa<ShapedType>(type) ? sm90::SplatOp::create(b, type, scale) : scale;
}
