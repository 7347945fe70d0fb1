//===- RelayKernel.h - the parts of a relay kernel under construction ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the roles share; see Relay.h for the schedule. Relay.cpp makes the
// kernel's entry, RelayScores.cpp and RelayOutput.cpp the roles, RelayKeys.cpp the scores' role
// where keys are codes, and RelayCodes.cpp what brings codes.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_RELAY_RELAYKERNEL_H
#define MLAC_LIB_CONVERSION_TILETOSM90_RELAY_RELAYKERNEL_H

#include "Common/PagedTiles.h"
#include "Common/QueryRows.h"
#include "Common/RoleKernel.h"
#include "Relay/Relay.h"

namespace mlac::relay {

using mlir::SmallVector;
using mlir::Type;
using mlir::Value;
using mlir::ValueRange;

/// Widths in panels of 64 columns.
struct Shape {
  explicit Shape(AttentionLoop &loop);
  int64_t leftPanels, rightPanels;
  int64_t ropePanels; // 0: no RoPE keys
  /// Else all threads of the output roles copy the keys (small pages), row by row.
  bool usesTma;
  /// A list names the keys, so that any block may have masks.
  bool isListed;
  /// The latent's, or RoPE keys too, are codes, which a role turns into operands.
  bool hasCodes, hasRopeCodes;
  /// Of queries, and of what products read of keys: f16 where these are codes.
  mlir::Type element, operand;

  int64_t getLeftColumns() const { return leftPanels * mlir::sm90::kPanelColumns; }
  int64_t getRightColumns() const { return rightPanels * mlir::sm90::kPanelColumns; }
  int64_t getRopeColumns() const { return ropePanels * mlir::sm90::kPanelColumns; }
  bool hasRope() const { return ropePanels != 0; }
};

RelayOptions chooseOptions(AttentionLoop &loop, const Shape &shape);

class Kernel : RoleKernel {
public:
  explicit Kernel(AttentionLoop &loop);
  mlir::sm90::KernelOp build();

private:
  // Relay.cpp: the entry.
  void createMaps();
  void createRings();
  Value createRing(mlir::StringRef label, int64_t stages, int64_t parts,
                   mlir::ArrayRef<mlir::sm90::SmemType> tiles, int32_t fullCount,
                   int32_t emptyCount);
  void findCrossingRows();
  void waitForDependency();
  void emitRole(mlir::StringRef name, int32_t warpgroup, int64_t registers,
                llvm::function_ref<void()> body);

  // RelayScores.cpp
  struct ScoreState;
  void emitScores();
  void emitScoresItem(ScoreState &state);
  Value countPresentRows();
  void clearAbsentRows(ValueRange tiles);
  Value startReference(Value start);
  Value takeQueries(ScoreState &state);
  SmallVector<Value, 2> awaitQueries(LazyCloner &cloner, Value stage);
  void loadQueries(Value item, Value stage);
  Value multiplyLeft(ScoreState &state, Value queries);
  Value multiplyRight(ScoreState &state, Value scores, Value gateStage, Value position);
  Value findNext(Value position);
  void emitStep(ScoreState &state, Value queries, Value position, bool isLast);
  void emitSoftmax(ScoreState &state, Value position, llvm::function_ref<void()> issueNext);
  void emitUnmasked(ScoreState &state, Value queries, Value blocks);
  void finishRows(ScoreState &state);
  void publishCrossingRows(LazyCloner &cloner, Value &stage);

  // RelayOutput.cpp
  struct OutputState;
  /// Whether the left half of the queries comes through the left ring and stays in registers.
  bool keepsQueries() const { return !shape.hasCodes; }
  /// Whether the role fills a slot ahead of the block's product. Left codes of the next block are
  /// read while the left product waits at its gate; of right ones the slot is waited for that the
  /// right product frees.
  bool refillsFirst(bool isLeft) const { return shape.hasCodes && isLeft; }
  /// Whether item's entries of the ring begin with the queries.
  bool hasQueryEntry(bool isLeft) const { return isLeft && keepsQueries(); }
  void emitOutput(bool isLeft);
  /// Whether all threads of an output role hold the page to copy next.
  bool findsPagesEarly() const { return shape.usesTma && leftKeys.countBoxes() == 1; }
  struct Entry;
  struct Cursor;
  Entry locate(Cursor &cursor, LazyCloner &cloner);
  Value countEntries(Cursor &cursor, LazyCloner &cloner);
  void advance(Cursor &cursor, Value entries);
  void refill(OutputState &state, llvm::function_ref<void()> untilFree);
  void emitKeysOrQueries(OutputState &state, LazyCloner &cloner, const Entry &entry, Value tile,
                         llvm::function_ref<void()> body);
  void emitCopies(OutputState &state, LazyCloner &cloner, const Entry &entry,
                  const PagedTiles::Block &block);
  void fetchScalars(LazyCloner &cloner);
  void emitRowCopies(OutputState &state, LazyCloner &cloner, const Entry &entry);
  void emitBlock(OutputState &state);

  // RelayCodes.cpp
  void createCodeRings(int32_t copy, int32_t role);
  int64_t countCodePanels(bool isLeft) const;
  int64_t countRopeCodePanels() const;
  void refillCodes(OutputState &state, llvm::function_ref<void()> untilFree);
  void copyScales(OutputState &state, LazyCloner &cloner, Value exists);
  void whereExists(Value exists, llvm::function_ref<void()> body);
  void copyCodes(OutputState &state, LazyCloner &cloner, const PagedTiles::Block &block,
                 int64_t panel, Value stage);
  void copyRope(OutputState &state, LazyCloner &cloner, const PagedTiles::Block &block);
  /// Whether the role brings RoPE keys as they are.
  bool bringsRope(bool isLeft) const { return !isLeft && shape.hasRope() && !shape.hasRopeCodes; }
  Value getCodeRest(LazyCloner &cloner, Type type);

  // RelayKeys.cpp
  struct KeyState;
  struct Products;
  void emitKeyScores();
  void emitKeyItem(KeyState &state);
  void startKeyState(KeyState &state);
  void emitKeyBlocks(KeyState &state, Value from, Value last, bool isMasked);
  void emitKeyBlock(KeyState &state, Value block, Value last, bool isMasked);
  void takeScales(KeyState &state);
  Value getScale(KeyState &state, bool isLeft, int64_t column);
  void multiplyPanel(Products &products, Value keys, Value queryTile);
  Value loadWords(Value ring, Value stage, int64_t column);
  Value turnWords(Products &products, Value words, Value scale);
  void multiplyRopeKeys(KeyState &state, Products &products);
  void multiplyHalf(KeyState &state, Products &products, bool isLeft);
  Value multiplyKeys(KeyState &state, Value position, Value &gap);
  void emitKeySoftmax(KeyState &state, Value scores, Value position, Value gap);
  void moveReference(KeyState &state);
  void mapEntries(LazyCloner &cloner);
  Value narrowWeights(LazyCloner &cloner);
  void finishKeyRows(KeyState &state);

  void emitLastBlock(OutputState &state);
  void freeSlot(OutputState &state);
  Value startProduct(OutputState &state, bool isLast);
  void finishProduct(OutputState &state, Value output);
  Value finishOutput(LazyCloner &cloner, Value output);
  void finishItem(OutputState &state);
  void findTail(OutputState &state, Value blocks);
  void clearTail(OutputState &state, Value values);
  void emitOutputItem(OutputState &state);

  // Shared.
  /// Types of an output role, which holds half of the output's columns.
  Type convertOutputType(Type type);
  /// Stores of rank `rank` behind the key loop, with the branches around them;
  /// `scratch`, where given, is a shared tile that they may go through.
  void emitEpilogue(LazyCloner &cloner, unsigned rank, int64_t firstColumn, Value scratch);
  /// Blocks of the mapped item, i32, at least 1: an item of length 0 has one
  /// block, which is masked.
  Value countBlocks(LazyCloner &cloner);
  /// The key loop's induction variable at a block (i32) of the mapped item.
  Value positionOf(LazyCloner &cloner, Value block);
  /// The list of a block at the loop's mapped position.
  Value viewList(LazyCloner &cloner);
  /// Whether the block of a list at `position` needs its mask; null without a list.
  Value findGap(LazyCloner &cloner, Value position);
  /// Maps the masked scores to those of the mapped position, masked where there is a `gap`.
  void maskWhere(LazyCloner &cloner, Value gap);
  mlir::scf::ForOp createLoop(Value from, Value to, ValueRange carried, bool atLeastOnce,
                              llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body);

  Value panels(Value tile, int64_t first, int64_t count);
  mlir::sm90::SmemType sharedType(int64_t rows, int64_t columns);
  mlir::sm90::SmemType rowsType();
  /// Of the output's rows, beside a stage of weights.
  Value factorsOf(Value stage) { return factors ? factors : tileOf(weights, stage, 1); }

  AttentionLoop &loop;
  Shape shape;
  RelayOptions options;
  Value begin, end; // items of this part, index
  PagedTiles leftKeys, rightKeys, rope;
  SmallVector<QueryRows, 2> queryMaps;                     // of latent queries, of RoPE ones
  Value left, right, ropes, queries, weights, scale, gate; // rings; ropes, scale, gate may be null
  Value leftCodes, rightCodes;                             // rings of panels, with codes only
  Value scales; // ring of their rows' scales; null where all have one
  // With codes only: of folds over keys that are rows, and what the weights' one stage has else,
  // whose tiles begin at multiples of 1 KiB.
  Value scratch, factors;
  /// Row vectors that the epilogue of the output needs, in the order of `scale`.
  SmallVector<Value> crossingRows;
};

} // namespace mlac::relay

#endif // MLAC_LIB_CONVERSION_TILETOSM90_RELAY_RELAYKERNEL_H
