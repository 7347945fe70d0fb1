//===- Emitter.h - addresses, chunks and loops of CPU kernels ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thin layer over OpBuilder for what the lowering emits all the time: i64
// arithmetic that folds constants, byte addresses, loads and stores of one
// chunk (a vector of `lanes` elements), and loops.
//
// All address arithmetic is i64 and in bytes. i1 elements take one byte in
// memory, so that every element has an address.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOCPU_EMITTER_H
#define MLAC_LIB_CONVERSION_TILETOCPU_EMITTER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"

namespace mlac::tile_to_cpu {

/// Bytes of one element in memory.
int64_t elementBytes(mlir::Type element);

/// Stack buffers are aligned to a cache line, which is also the widest vector.
inline constexpr int64_t kScratchAlignment = 64;

/// Rows of scratch tiles are padded to this many elements, a multiple of every
/// supported lane count, so that a chunk at a row's end stays inside it.
inline constexpr int64_t kRowPadding = 16;

class Emitter : public mlir::OpBuilder {
public:
  Emitter(mlir::Block *block, mlir::Location loc) : OpBuilder(block, block->end()), loc(loc) {}

  mlir::Location loc;

  // Scalars. Operands are i64; constants fold.
  mlir::Value i64(int64_t value);
  mlir::Value toI64(mlir::Value indexValue);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, int64_t b) { return mul(a, i64(b)); }
  mlir::Value clamp(mlir::Value value, int64_t low, int64_t high);
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value a, mlir::Value b);
  mlir::Value both(mlir::Value a, mlir::Value b);
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);

  // Memory.
  mlir::Type pointerType();
  mlir::Value advance(mlir::Value pointer, mlir::Value bytes);
  mlir::Value loadScalar(mlir::Type element, mlir::Value pointer);
  void storeScalar(mlir::Value value, mlir::Value pointer);
  /// Loads or stores `lanes` elements; `value` has a vector type.
  mlir::Value loadChunk(mlir::Type element, int64_t lanes, mlir::Value pointer);
  void storeChunk(mlir::Value value, mlir::Value pointer);
  /// Loads the first `count` of `lanes` elements, the others are 0.
  mlir::Value loadChunkHead(mlir::Type element, int64_t lanes, int64_t count, mlir::Value pointer);
  /// Stores the first `count` elements of `chunk`.
  void storeChunkHead(mlir::Value chunk, int64_t count, mlir::Value pointer);
  void copyBytes(mlir::Value to, mlir::Value from, mlir::Value bytes);
  void zeroBytes(mlir::Value to, mlir::Value bytes);

  // Control flow.
  using LoopBody = llvm::function_ref<void(mlir::Value)>;
  /// for (i = 0; i < count; i += step) body(i). No loop for a single iteration.
  void loop(int64_t count, int64_t step, LoopBody body);
  void loop(mlir::Value count, LoopBody body);
  /// The same with values carried from one iteration to the next.
  using CarryBody =
      llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)>;
  llvm::SmallVector<mlir::Value> carryLoop(int64_t count, int64_t step, mlir::ValueRange init,
                                           CarryBody body);
  void ifThen(mlir::Value condition, llvm::function_ref<void()> then);
  void ifThenElse(mlir::Value condition, llvm::function_ref<void()> then,
                  llvm::function_ref<void()> otherwise);
};

} // namespace mlac::tile_to_cpu

#endif // MLAC_LIB_CONVERSION_TILETOCPU_EMITTER_H
