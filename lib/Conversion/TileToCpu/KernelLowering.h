//===- KernelLowering.h - one tile.kernel to one llvm.func ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The state of the lowering of one kernel. Its member functions are defined by
// topic: KernelLowering.cpp (signature, scalars, control flow), Memory.cpp (loads
// and stores), Elementwise.cpp (evaluation and reductions), Dot.cpp, TopK.cpp.
//
// A tile [M, N] is seen as M rows of N columns, a vector [M] as one row of M
// columns. Columns are processed in chunks of `lanes`.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOCPU_KERNELLOWERING_H
#define MLAC_LIB_CONVERSION_TILETOCPU_KERNELLOWERING_H

#include "Emitter.h"
#include "TileUses.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/IRMapping.h"

namespace mlac::tile_to_cpu {

/// Rows and columns of a tile as the lowering walks it.
struct TileShape {
  explicit TileShape(mlir::Type type);
  int64_t rows, columns;
  mlir::Type element;
  int64_t bytesPerElement() const { return elementBytes(element); }
  /// Bytes from one row of a scratch tile to the next.
  int64_t pitch() const;
};

/// Where the rows of a stored tile are. Elements of a row are contiguous.
struct TileRef {
  mlir::Value pointer;     // the first row, or a table of row pointers
  mlir::Value rowBytes;    // i64, from one row to the next; null for a table
  int64_t columnBytes = 0; // added to every row (tensor.extract_slice)
  int64_t firstRow = 0;    // likewise
  bool isPadded = false;   // rows may be read and written up to kRowPadding
  bool isOwned = false;    // scratch of the value itself, not shared, not global

  bool isTable() const { return !rowBytes; }
};

/// A strided view of a kernel argument. Sizes and strides are i64 values.
struct View {
  mlir::Value base;   // pointer to the argument's first element
  mlir::Value offset; // elements
  llvm::SmallVector<mlir::Value, 3> sizes, strides;
  mlir::Type element;
};

class KernelLowering {
public:
  KernelLowering(mlir::tile::KernelOp kernel, int64_t lanes);

  /// Replaces the kernel by its function.
  mlir::LogicalResult run();

private:
  // KernelLowering.cpp
  void createFunction();
  void unpackArguments();
  mlir::LogicalResult lowerBlock(mlir::Block &block);
  mlir::LogicalResult lowerOp(mlir::Operation *op);
  mlir::LogicalResult lowerTileOp(mlir::Operation *op);
  mlir::LogicalResult lowerScalarOp(mlir::Operation *op);
  mlir::LogicalResult lowerView(mlir::memref::ReinterpretCastOp op);
  mlir::LogicalResult lowerChoice(mlir::arith::SelectOp op);
  mlir::LogicalResult lowerOther(mlir::Operation *op);
  mlir::LogicalResult lowerFor(mlir::scf::ForOp op);
  mlir::LogicalResult lowerIf(mlir::scf::IfOp op);
  mlir::LogicalResult lowerIfRegion(mlir::scf::IfOp op, mlir::Region &region, mlir::Region &target);
  /// What ends an iteration of a loop or a branch.
  struct Yield {
    llvm::SmallVector<mlir::Value> scalars, tiles;
    llvm::SmallVector<TileRef> targets; // of `tiles`
  };
  Yield prepareCarriedTiles(mlir::scf::ForOp op);
  TileRef carriedMemory(mlir::scf::ForOp op, unsigned index);
  void yieldTiles(mlir::ValueRange values, llvm::ArrayRef<TileRef> targets);
  void lowerScalarAccess(mlir::Operation *op);
  llvm::SmallVector<mlir::Value> lookupAll(mlir::ValueRange values);
  void lowerSlice(mlir::Operation *op);
  void lowerConcat(mlir::Operation *op);

  // Scratch.
  TileRef allocateTile(mlir::Type type);
  mlir::Value allocate(int64_t bytes);
  mlir::Value zeroRow(int64_t bytes);
  /// The memory `value` is to be computed into: what a loop chose, or new.
  TileRef destination(mlir::Value value);
  /// The memory of a value; a virtual one is computed into new scratch.
  TileRef memoryOf(mlir::Value value);
  bool isSameMemory(mlir::Value value, const TileRef &ref);
  mlir::Value rowPointer(const TileRef &ref, mlir::Value row);
  mlir::Value rowPointer(const TileRef &ref, int64_t row) { return rowPointer(ref, e.i64(row)); }

  // Memory.cpp
  View viewOf(mlir::Value memref);
  mlir::Value scalar(mlir::Value value) { return e.toI64(map.lookup(value)); }
  mlir::Value elementAddress(const View &view, mlir::ValueRange indices);
  mlir::Value loadIndex(const View &list, mlir::Value position);
  bool hasUnitColumns(const View &view);
  void lowerLoad(mlir::tile::LoadOp op);
  void lowerLoadRows(mlir::tile::LoadRowsOp op);
  void lowerLoadPaged(mlir::tile::LoadPagedOp op);
  void lowerLoadElements(mlir::tile::LoadElementsOp op);
  void lowerStore(mlir::tile::StoreOp op);
  void lowerStoreSlots(mlir::tile::StoreSlotsOp op);
  /// One row of a load: `valid` of its columns come from `from`, the rest is 0.
  void fillRow(const View &view, const TileShape &shape, mlir::Value to, mlir::Value from,
               mlir::Value valid);
  void drainRow(const View &view, const TileShape &shape, mlir::Value from, mlir::Value to,
                mlir::Value valid);
  /// Rows of a gather: `source(row)` gives the address and whether it exists.
  struct RowSource {
    mlir::Value pointer, exists;
  };
  using RowSourceFn = llvm::function_ref<RowSource(mlir::Value)>;
  void gatherRows(mlir::Operation *op, const View &view, mlir::Value column, RowSourceFn source);
  RowSource rowInGroups(const View &view, mlir::Value number, mlir::Value column);
  void loadInGroups(mlir::tile::LoadOp op, const View &view, mlir::ValueRange offsets);
  void storeInGroups(mlir::tile::StoreOp op, const View &view, mlir::ValueRange offsets);

  // Elementwise.cpp
  struct Chunk {
    mlir::Value row, column; // i64
    int64_t count;           // columns that exist; fewer than lanes at a row's end
  };
  using ChunkFn = llvm::function_ref<void(const Chunk &)>;
  void forEachChunk(const TileShape &shape, ChunkFn body);
  void forEachChunkOfRow(const TileShape &shape, mlir::Value row, ChunkFn body);
  using ValueCache = llvm::DenseMap<mlir::Value, mlir::Value>;
  mlir::Value evaluate(mlir::Value tile, const Chunk &chunk, ValueCache &cache);
  mlir::Value evaluate(mlir::Value tile, const Chunk &chunk);
  mlir::Value evaluateStored(mlir::Value tile, const Chunk &chunk);
  mlir::Value loadChunk(const TileRef &ref, const TileShape &shape, const Chunk &chunk);
  void storeChunk(mlir::Value value, const TileRef &target, const Chunk &chunk);
  mlir::Value evaluateGenerator(mlir::Operation *op, const Chunk &chunk);
  mlir::Value evaluateArithmetic(mlir::Operation *op, const Chunk &chunk, ValueCache &cache);
  /// Computes every element of `value` into `target`.
  void store(mlir::Value value, const TileRef &target);
  /// The same, as f32 (16-bit operands of dots are widened once).
  void storeWidened(mlir::Value value, const TileRef &target);
  void copyTile(mlir::Type type, const TileRef &from, const TileRef &to);
  void lowerReduce(mlir::tile::ReduceOp op);
  void lowerSumGroups(mlir::tile::SumGroupsOp op);
  void lowerSetBits(mlir::tile::SetBitsOp op);
  mlir::Value reduceRow(mlir::tile::ReduceOp op, mlir::Value row);
  void reduceColumns(mlir::tile::ReduceOp op, const TileRef &target);
  mlir::Value combine(mlir::tile::ReduceKind kind, mlir::Value a, mlir::Value b);
  mlir::Value reduceIdentity(mlir::tile::ReduceKind kind, mlir::Type type);
  mlir::Value headMask(int64_t count);
  mlir::Value splat(mlir::Value scalar);

  // TopK.cpp
  friend class TopKLowering;
  void lowerTopK(mlir::tile::TopKOp op);

  // Dot.cpp
  friend class DotLowering;
  void lowerDot(mlir::tile::DotOp op);

  mlir::tile::KernelOp kernel;
  int64_t lanes;
  TileUses uses;
  mlir::LLVM::LLVMFuncOp function;
  Emitter e;
  mlir::Block *scratchBlock = nullptr; // holds the allocas, ends in a branch
  int64_t scratchBytes = 0;
  mlir::IRMapping map;                         // scalars
  llvm::DenseMap<mlir::Value, View> views;     // memrefs
  llvm::DenseMap<mlir::Value, TileRef> memory; // stored tiles
  llvm::DenseMap<mlir::Value, TileRef> chosen; // where to compute a tile to come
  mlir::arith::ConstantOp zeroRowBytes;
  mlir::Value zeroRowPointer;
};

/// Puts arithmetic in the place of every tile.test_bits.
void expandTestBits(mlir::tile::KernelOp kernel);

} // namespace mlac::tile_to_cpu

#endif // MLAC_LIB_CONVERSION_TILETOCPU_KERNELLOWERING_H
