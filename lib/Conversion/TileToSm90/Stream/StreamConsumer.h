//===- StreamConsumer.h - products and softmax of the stream schedule ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The consumer's order of accesses to shared memory (barrier = its four warps):
//
//   P, scratch     written after a barrier that follows the last read: for P the one
//                  inside the reduction, for the scratch the one that publishes P
//   zeroed rows    after a barrier that follows the scores' read of the keys, before
//                  the one that publishes P
//   stages         released by each warp after its own products have been waited for
//
// At the borders of loops and branches no write is unpublished and no scratch is
// in use; other tiles count as read there.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_STREAM_STREAMCONSUMER_H
#define MLAC_LIB_CONVERSION_TILETOSM90_STREAM_STREAMCONSUMER_H

#include "Stream/StreamRole.h"

namespace mlac::stream {

/// Products that one commit covers, and ops behind the first of them that do not
/// depend on any: `early` ones make operands, `late` ones run beside the products.
struct Run {
  mlir::SmallVector<mlir::tile::DotOp> dots;
  mlir::SmallVector<mlir::Operation *> early, late;
};

class Consumer : public Role {
public:
  using Role::Role;
  using Role::run;
  /// As the one of several that share keys.
  void run(unsigned which) {
    number = which;
    Role::run();
  }

protected:
  using Operation = mlir::Operation;

  bool keeps(Value) const override { return true; }
  void emit(Operation *op) override;
  void settle() override;
  void beginRegion() override;

  virtual void awaitQueries();
  void loadRows(mlir::tile::LoadOp load);
  void emitReduce(mlir::tile::ReduceOp reduce);
  Value reduce(mlir::sm90::ReduceKind kind, mlir::Type type, Value source, Value scratch);
  virtual void emitStore(mlir::tile::StoreOp store);
  virtual void share(Operation *op);
  /// The op, whose result a product reads, as what the product takes.
  Value makeOperand(Operation *op, mlir::sm90::SmemType target);
  /// A scalar's or, of one number, a tile's constant.
  Value getConstant(float number, mlir::Type type);
  Run collectRun(mlir::tile::DotOp first);
  /// Whether a product reads its result, computed, from shared memory.
  bool isOperand(Operation *op) const;
  bool canMove(Operation *op);
  void emitRun(mlir::tile::DotOp first);
  virtual Value emitScores(mlir::tile::DotOp dot, Value acc);
  virtual Value emitOutput(mlir::tile::DotOp dot, Value acc);
  /// What is done with a run's products when they are there, before others use them.
  virtual Value finish(mlir::tile::DotOp end, Value result) { return result; }
  virtual bool takes(mlir::tile::DotOp dot) const { return true; }
  /// Whether products of values wait for what their loads bring.
  virtual bool awaitsValues() const { return !program.hasCodes(); }
  /// Whether what does not depend on a run's products is done while they run, or behind them, where
  /// registers are few.
  virtual bool worksBeside() const { return true; }
  /// What runs beside the products of a run.
  virtual void emitBeside(const Run &run) {}
  /// The load of the keys or values whose columns `tile` is.
  Operation *getLoad(Value tile) const;
  virtual void zeroTails(mlir::ArrayRef<Operation *> loads);
  virtual void releaseKeys();
  Value multiply(Value lhs, Value rhs, Value acc, bool transposeLhs);
  void awaitPart(unsigned part);
  void zeroTail(mlir::tile::LoadPagedOp keys, mlir::ArrayRef<Value> tiles);
  mlir::SmallVector<Value> getTiles(unsigned load);

  virtual void barrier();
  void publish() {
    if (written)
      barrier();
  }

  llvm::DenseMap<Value, Value> shared; // tiles that lie in shared memory
  llvm::DenseSet<unsigned> awaited;    // parts of the block at hand
  unsigned number = 0;                 // of consumers that share keys
  bool needsFence = false;             // before the next wgmma

  // Since the last barrier:
  bool written = false;      // shared memory
  bool operandsRead = false; // tiles of computed operands
  bool keysRead = false;     // the block at hand
  llvm::DenseSet<Value> scratchUsed;
};

} // namespace mlac::stream

#endif // MLAC_LIB_CONVERSION_TILETOSM90_STREAM_STREAMCONSUMER_H
