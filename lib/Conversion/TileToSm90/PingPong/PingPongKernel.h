//===- PingPongKernel.h - the parts of a ping-pong kernel under construction ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See PingPong.h for the schedule. PingPong.cpp makes the entry and what the roles
// share, PingPongProducer.cpp and PingPongConsumer.cpp the roles.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_PINGPONG_PINGPONGKERNEL_H
#define MLAC_LIB_CONVERSION_TILETOSM90_PINGPONG_PINGPONGKERNEL_H

#include "Common/RoleKernel.h"
#include "PingPong/KeyBlocks.h"
#include "PingPong/PingPong.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace mlac::pingpong {

using mlir::SmallVector;
using mlir::Type;
using mlir::Value;
using mlir::ValueRange;

/// Warpgroups: the producer's, then one for each program of an item.
constexpr int32_t kConsumers = 2, kWarpgroups = 1 + kConsumers;

/// In the item counters: items taken beyond the first of each program, programs that
/// have found none left, and from where on each program's next item and its request.
constexpr int64_t kItemsTaken = 0, kProgramsDone = 1, kNextItems = 2;

/// Parameters of the schedule, from the kernel's `tile.schedule`.
struct Options {
  explicit Options(DenseAttentionLoop &loop);
  int64_t keyBlock, stages, producerRegisters, consumerRegisters;
};

class Kernel : RoleKernel {
public:
  explicit Kernel(DenseAttentionLoop &loop);
  mlir::sm90::KernelOp build();

private:
  // PingPong.cpp
  void createMaps();
  void createRings();
  Value createRing(mlir::StringRef label, int64_t stages,
                   mlir::ArrayRef<mlir::sm90::SmemType> tiles, int32_t consumers);
  void emitRole(mlir::StringRef name, int32_t warpgroup, int64_t registers,
                llvm::function_ref<void()> body);

  void createScratch();
  /// Where in `counters` this program says which item is next, and of which request.
  std::pair<Value, Value> slotsOf(LazyCloner &cloner);
  /// Blocks of the mapped item, i32, at least 1: an item without keys has one block,
  /// which is masked.
  Value countBlocks(LazyCloner &cloner);
  /// The key loop's induction variable at the first block of the mapped item, whose programs
  /// have the same blocks: that of its first program.
  Value firstOf(LazyCloner &cloner);
  /// And at a block (i32) of an item whose first is at `first`.
  Value positionOf(Value first, Value block);
  mlir::scf::ForOp createLoop(Value from, Value to, ValueRange carried,
                              llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body);

  // PingPongProducer.cpp
  struct Cursor;
  void emitProducer();
  Value emitProducerItem(Cursor &cursor);
  /// Runs `body` for every item of this CTA; `carried` goes through all of them. What
  /// `body` returns begins with the next item's number (i32).
  using ItemBody = llvm::function_ref<SmallVector<Value>(ValueRange carried)>;
  SmallVector<Value> emitItems(LazyCloner &cloner, ValueRange carried, ItemBody body);
  mlir::SmallVector<mlir::Value> emitUniformItems(LazyCloner &cloner, mlir::Value first,
                                                  mlir::ValueRange carried, ItemBody body);
  SmallVector<Value> emitRequest(LazyCloner &cloner, Value begin, Value end, ValueRange carried,
                                 ItemBody body);
  Value addToCounter(int64_t index, Value number);
  Value takeItem(Cursor &cursor);
  void sendItem(Cursor &cursor, Value item, Value request);
  void returnCounters(Cursor &cursor);
  Value fillStage(Value ring, Value stage, llvm::ArrayRef<KeyBlocks> blocks, LazyCloner &cloner,
                  bool isInside);
  void copyQueries(Cursor &cursor, int32_t consumer);
  void copyKeys(Cursor &cursor, Value block, bool isInside);
  void copyValues(Cursor &cursor, Value block, bool isInside);
  /// Before the blocks of an item's loop: where there are two.
  void copySecondBlock(Cursor &cursor, Value last);

  // PingPongConsumer.cpp
  struct State;
  void emitConsumer(int32_t consumer);
  void emitConsumerItem(State &state);
  void receiveItem(State &state);
  void loadStarts(State &state);
  void startState(State &state);
  void startOutput(State &state);
  void emitSteps(State &state, Value last, Value from, Value to, bool isMasked);
  Value startScores(State &state);
  void finishScores(State &state, Value scores, uint32_t pending);
  Value startProduct(State &state);
  SmallVector<Value> loadMarks(State &state, Value position);
  void emitSoftmax(State &state, Value position, ValueRange marks);
  void releaseQueries(State &state, Value isNow);
  void emitStep(State &state, Value position, bool isMasked);
  void clearTail(State &state, Value blocks);
  void finishItem(State &state);

  mlir::sm90::SmemType sharedType(int64_t rows, mlir::Operation *load);
  /// The first step, of those behind the first block, from which on rows of the consumer see all
  /// keys up to a window's begin, and how many steps from the last on that may be in.
  Value countMaskedSteps(State &state, Value blocks);
  int64_t countWindowSteps() const;
  /// Inside the loop over keys, tiles over a block's keys are as wide as the schedule's
  /// blocks.
  Type convertLoopType(Type type);

  DenseAttentionLoop &loop;
  Options options;
  SmallVector<KeyBlocks> queryBlocks, keyBlocks; // by term
  SmallVector<KeyBlocks, 1> valueBlocks;
  Value queries[kConsumers], keys, values, items; // rings
  Value scratch[kConsumers];                      // null where there is no room
};

} // namespace mlac::pingpong

#endif // MLAC_LIB_CONVERSION_TILETOSM90_PINGPONG_PINGPONGKERNEL_H
