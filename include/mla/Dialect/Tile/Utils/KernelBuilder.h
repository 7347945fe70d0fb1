//===- KernelBuilder.h - writes the body of a tile.kernel ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An OpBuilder with the words that kernels are made of: `index` arithmetic,
// views, tiles, row vectors and loops. Tiles of arithmetic are f32; `widen` and
// `narrow` convert at loads and stores.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_TILE_UTILS_KERNELBUILDER_H
#define MLA_DIALECT_TILE_UTILS_KERNELBUILDER_H

#include "mla/Dialect/Tile/IR/TileDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlac {

class KernelBuilder : public mlir::ImplicitLocOpBuilder {
public:
  using Value = mlir::Value;
  using Extents = llvm::ArrayRef<mlir::OpFoldResult>;

  /// Starts in the empty body of `kernel`.
  explicit KernelBuilder(mlir::tile::KernelOp kernel);
  /// Stands before `op`, which is in a kernel.
  explicit KernelBuilder(mlir::Operation *op);
  /// Lets a GPU give each thread neighbouring columns (tile.kernel).
  void markRowKernel() { entry->getParentOp()->setAttr(mlir::tile::kRowKernelAttr, getUnitAttr()); }

  /// So many CTAs may divide the loop over the depth of a program (tile.kernel).
  void setDepthCluster(int64_t count) {
    entry->getParentOp()->setAttr(mlir::tile::kDepthClusterAttr, getI64IntegerAttr(count));
  }

  /// So many programs are to fit on a multiprocessor (tile.kernel).
  void setResidentPrograms(int64_t count) {
    entry->getParentOp()->setAttr(mlir::tile::kResidentProgramsAttr, getI64IntegerAttr(count));
  }

  // Scalars of type index. Sums and products with constants are folded.
  Value index(int64_t value);
  mlir::OpFoldResult fixed(int64_t value) { return getIndexAttr(value); }
  Value add(Value a, Value b);
  Value add(Value a, int64_t b) { return b == 0 ? a : add(a, index(b)); }
  Value sub(Value a, Value b);
  Value mul(Value a, Value b);
  Value mul(Value a, int64_t b) { return b == 1 ? a : mul(a, index(b)); }
  Value ceilDiv(Value a, Value b);
  /// ceil(a / b) in 32 bits, for a run-time b > 0 and a + b below 2^31. A 64-bit
  /// division by a run-time value is a call on GPUs, and nvJitLink serialises
  /// the wgmma of a kernel that calls.
  Value ceilDivNarrow(Value a, Value b);
  /// a / b, rounded down, for such numbers.
  Value divNarrow(Value a, Value b);
  /// a + b and a * b of such numbers, which then are known to have 32 bits.
  Value addNarrow(Value a, Value b);
  Value mulNarrow(Value a, Value b);
  Value minimum(Value a, Value b);
  Value maximum(Value a, Value b);
  Value isBelow(Value a, Value b);
  Value choose(Value condition, Value a, Value b);
  Value toI32(Value value);
  Value value(mlir::OpFoldResult extent);
  Value programId(int32_t dim); // created once, at the kernel's entry

  // Memory.
  /// `value + plus` as an extent: an attribute where it is a constant.
  mlir::OpFoldResult extent(Value value, int64_t plus = 0);
  Value view(Value buffer, mlir::OpFoldResult offset, Extents sizes, Extents strides);
  Value loadScalar(Value buffer, Value position); // i32 or i64 widened to index
  Value load(Value view, mlir::ValueRange offsets, llvm::ArrayRef<int64_t> shape);
  Value loadWide(Value view, mlir::ValueRange offsets, llvm::ArrayRef<int64_t> shape) {
    return widen(load(view, offsets, shape));
  }
  void store(Value tile, Value view, mlir::ValueRange offsets);
  /// Stores an f32 tile in the element type of `view`.
  void storeNarrow(Value tile, Value view, mlir::ValueRange offsets);

  // Tiles.
  Value widen(Value tile);                                     // to f32
  Value narrow(Value tile, mlir::Type element);                // from f32
  Value constant(llvm::ArrayRef<int64_t> shape, double value); // f32
  Value constantI32(llvm::ArrayRef<int64_t> shape, int32_t value);
  Value like(Value tile, double value); // constant of the tile's shape
  Value splat(Value scalar, llvm::ArrayRef<int64_t> shape);
  Value iota(int32_t dim, llvm::ArrayRef<int64_t> shape);
  Value broadcast(Value vector, int64_t columns);
  Value broadcastRows(Value vector, int64_t rows);
  // Of each row, or of each column (dim 0).
  Value reduceSum(Value tile, int32_t dim = 1);
  /// Each element the sum of its group of `size` neighbours; a group of one is what it is.
  Value sumGroups(Value vector, int64_t size);
  Value reduceMax(Value tile, int32_t dim = 1);
  Value dot(Value lhs, Value rhs, Value acc, bool transposeRhs);
  Value addf(Value a, Value b);
  Value subf(Value a, Value b);
  Value mulf(Value a, Value b);
  Value divf(Value a, Value b);
  /// Rounded once on every target: quantisation must agree bit by bit.
  Value divideExactly(Value a, Value b);
  Value maxf(Value a, Value b);
  Value exp(Value a);
  Value exp2(Value a);
  Value log(Value a);
  Value log2(Value a);
  Value rsqrt(Value a);
  Value absf(Value a);
  Value select(Value condition, Value a, Value b);
  Value minf(Value a, Value b);
  Value fma(Value a, Value b, Value c);
  /// `tile` with 0 in the place of NaN.
  Value zeroNan(Value tile);
  /// The smallest powers of two that are not below positive normal numbers.
  Value roundUpToPowerOf2(Value tile);
  /// The i8 exponents of positive powers of two (f32), and of 0 the byte 0.
  Value exponentBytes(Value tile);
  /// 2^(byte - 127) of i8 bytes from 0 to 254.
  Value powersOf2(Value bytes);
  /// Ordered equality with a constant: false for NaN.
  Value equals(Value tile, double value);

  // Control flow. Bodies get the induction variable and the carried values and
  // return the next ones.
  using LoopBody = llvm::function_ref<llvm::SmallVector<Value>(Value, mlir::ValueRange)>;
  llvm::SmallVector<Value> loop(Value from, Value to, Value step, mlir::ValueRange inits,
                                LoopBody body);
  /// Columns [0, width) in blocks; a single block makes no loop.
  llvm::SmallVector<Value> forBlocks(int64_t width, int64_t block, mlir::ValueRange inits,
                                     LoopBody body);
  void ifThen(Value condition, llvm::function_ref<void()> body);
  void ifThenElse(Value condition, llvm::function_ref<void()> then,
                  llvm::function_ref<void()> otherwise);

private:
  mlir::Block *entry;
  std::array<Value, 3> programIds;
};

} // namespace mlac

#endif // MLA_DIALECT_TILE_UTILS_KERNELBUILDER_H
