//===- StreamTurns.h - consumers that take blocks in turns ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where a block arrives sooner than one chain of scores, softmax and output ends, consumers take
// blocks in turns:
//
//   block        0   1   2   3   4 | 0   1   2 ...        of one item, and of the next
//   math         x       x       x |     x
//   math1            x       x     | x       x
//
// Each has a softmax of its own, with queries, weights and scratch. At the item's end the others
// give their states to the first, which brings them to one reference, adds and stores. Of outputs
// as wide as a latent two consumers give each other a half and store the other one: of 32 rows and
// 512 columns the exchange took 7.5 us where one consumer did it all, which a request of few blocks
// does not hide (one H200).
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_STREAM_STREAMTURNS_H
#define MLAC_LIB_CONVERSION_TILETOSM90_STREAM_STREAMTURNS_H

#include "Stream/StreamConsumer.h"

namespace mlac::stream {

/// One of the consumers, or the only one.
class TurnConsumer : public Consumer {
public:
  TurnConsumer(mlir::ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
               const LazyCloner &cloner, unsigned which)
      : Consumer(b, program, entry, cloner), which(which), loop(program.getLoop()),
        state(*findLoopState(loop)), stateStages(entry.states.size()) {}

protected:
  void begin() override;
  void emit(Operation *op) override;
  void emitFor(mlir::scf::ForOp op) override;
  mlir::SmallVector<Value *> getStages(Operation *op) override;
  Range getRange(mlir::scf::ForOp op) override;
  mlir::SmallVector<Value> getInits(mlir::scf::ForOp op) override;
  void releaseKeys() override;
  /// From a block of this consumer to its next.
  Value getTurnStep();
  /// What the first one does with the outputs of all.
  virtual void finishOutputs() {}

  unsigned which; // of the consumers that take turns
  mlir::scf::ForOp loop;
  LoopState state;

private:
  void passTurn(mlir::scf::ForOp op);
  void give(unsigned giver, Value tile);
  Value take(unsigned giver);
  void giveReference();
  void giveState();
  void takeState(unsigned other);
  void exchangeStates();
  void combineReferences(unsigned other);
  void combine(unsigned index, unsigned other);
  bool owns(unsigned index) const;
  bool stores(mlir::tile::StoreOp store) const;

  Value turnsLeft; // blocks of the item at hand before the first of this consumer's
  mlir::SmallVector<Value, 2> stateStages; // by givers
  /// What brings tiles of this consumer and of the other to one reference.
  Value ownFactor, givenFactor;
};

} // namespace mlac::stream

#endif // MLAC_LIB_CONVERSION_TILETOSM90_STREAM_STREAMTURNS_H
