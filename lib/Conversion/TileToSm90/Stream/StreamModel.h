//===- StreamModel.h - the parameters of stream, and what it takes ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_STREAM_STREAMMODEL_H
#define MLAC_LIB_CONVERSION_TILETOSM90_STREAM_STREAMMODEL_H

#include "mla/Analysis/ScheduleCost.h"

namespace mlac::stream {

/// All columns of a block of 64 keys that fits.
constexpr int64_t kMostColumns = mlir::sm90::kMaxSharedBytes /
                                 (kBlockKeys * mlir::sm90::kPanelRowBytes) *
                                 mlir::sm90::kPanelColumns;
/// The queries of the next item arrive while this item's are read: waiting for them
/// would keep the producer from the next item's keys.
inline constexpr int64_t kQueryStages = 2;
inline constexpr auto kStages = makeInteger("stages", "blocks in the ring", 1, kMostStages);
/// Bytes of a slot of a ring that has panels of keys in place of blocks.
constexpr int64_t kSlotBytes = kBlockKeys * mlir::sm90::kPanelRowBytes;
inline constexpr auto kPartColumns =
    makeInteger("part-columns", "columns of keys that one barrier announces",
                mlir::sm90::kPanelColumns, kMostColumns, mlir::sm90::kPanelColumns);

/// Registers of a thread that hold 64 columns of a block's operand in f16, and what tiles of rows
/// take: an output of panels, sums, scores and the two sides of their mask.
inline constexpr int64_t kOperandRegisters = 16;
constexpr int64_t countTileRegisters(int64_t rows, int64_t panels) {
  return (panels + 4) * kBlockKeys * rows / mlir::sm90::kWarpgroupThreads;
}
/// What tiles and operands may take of the 168 registers that the launch gives, which are all that
/// consumers of values have that take turns, and of those beside each other, which carry no state
/// of another's.
inline constexpr int64_t kLaunchRegisters = 120, kLaunchSideRegisters = 128;
/// What tiles of a consumer of a latent's codes may take. Threads that copy rows need registers,
/// too.
constexpr int64_t countCodeRegisters(const TargetDescription &target, bool usesTma) {
  return usesTma ? target.tuning.streamTileRegisters : target.tuning.streamTurnRegisters;
}
/// Consumers of codes of a latent.
inline constexpr int64_t kCodeConsumers = 2;

/// What a kernel's tiles take of shared memory and of registers: the model asks before there is a
/// kernel, the builder of the one that it has.
struct Tiles {
  int64_t rows; // N
  /// Of 64 columns: of a query, of what is copied of a key and its value, of the output.
  int64_t queryPanels, stagePanels, outputPanels;
  /// Keys are codes of a latent: panels of a stage are of codes, and consumers share queries.
  bool hasCodes = false;
  /// Tiles of queries, of so many rows each, that share the keys, a consumer each.
  int64_t sides = 1;
  /// That take blocks in turns, each with queries, weights and row vectors of its own.
  int64_t consumers = 1;
  /// Tiles of weights of each consumer.
  int64_t weightTiles = 1;
  /// That copies of a block's keys and values bring.
  int64_t blockBytes = 1;
  /// A block's panels are operands as they are copied.
  bool canHaveSlots = false;

  /// A block of keys.
  int64_t stageBytes() const;
  /// What lies beside the ring of keys: queries, of two items, weights, row vectors, barriers.
  int64_t fixedBytes(int64_t sharedBytes) const {
    return fixedBytesBeside(queryStages(sharedBytes));
  }
  /// Of consumers that take turns each has stages of its own: one that came to another's stage only
  /// every second time could not tell a barrier's phase from the one before the last.
  int64_t mostStages(int64_t sharedBytes) const {
    return mostStagesBeside(queryStages(sharedBytes), sharedBytes);
  }
  /// Fragments that one consumer has ready for another, of all tiles of its state: as far as there
  /// is room, so that nobody waits.
  int64_t stateStages() const;
  /// Whether several consumers need all registers of the multiprocessor.
  bool needsAllRegisters(bool areCodes) const;
  /// Stages where nobody asks for a number, if they fit: as many bytes in flight whatever part of a
  /// stage's rows copies fill. Heads of 64 columns over codes, half a row, take 0.92 to 0.97 of the
  /// time with eight stages, those of 128 columns 1.02 to 1.06 (one H200).
  int64_t usualStages(const TargetDescription &target) const {
    return target.tuning.streamStages * (stageBytes() / blockBytes);
  }
  /// Slots of a ring of panels, which is for blocks of which no two fit: what is left beside one
  /// takes the next one's panels as they come. 0: the ring is of whole blocks.
  int64_t countSlots(int64_t sharedBytes) const;
  /// Stages that the schedule needs.
  int64_t fewestStages(int64_t sharedBytes) const { return countSlots(sharedBytes) ? 1 : 2; }
  /// Items whose queries have room. The next item's wait where they would leave room for fewer
  /// blocks: of codes for fewer than usual, else for less than two.
  int64_t queryStages(int64_t sharedBytes) const;
  /// Of a thread of a consumer of codes: tiles of rows, and scales of two blocks' groups.
  int64_t tileRegisters() const;
  /// Of a thread, that hold the output, and scores where there are more than of half a tile.
  int64_t heldRegisters() const;

private:
  int64_t fixedBytesBeside(int64_t queryStages) const;
  int64_t mostStagesBeside(int64_t queryStages, int64_t sharedBytes) const {
    return (sharedBytes - fixedBytesBeside(queryStages)) / stageBytes() / consumers * consumers;
  }
};

/// Cycles from a block's arrival to the end of its products, of heads with values of their own.
double countChain(const Tiles &tiles, const SmDescription &sm);
/// Consumers that take blocks of such heads in turns: one where memory takes longer for a block
/// than one consumer, or two have not enough registers.
int64_t countConsumers(const Tiles &tiles, const TargetDescription &target, bool areCodes);

} // namespace mlac::stream

#endif // MLAC_LIB_CONVERSION_TILETOSM90_STREAM_STREAMMODEL_H
