//===- Dot.cpp - matrix products as register blocks ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Both layouts of rhs are read where they are, without packing, and widened to
// f32 in registers. lhs, which is small, is widened to f32 scratch once, so that
// a block of rows shares each widening of rhs.
//
// lhs [K, M] is turned there, too.
//
//   rhs [K, N]  lanes along N: acc[m][n] += splat(lhs[m, k]) * rhs[k, n]
//   rhs [N, K]  lanes along K: acc[m][n] += lhs[m, k..] * rhs[n, k..], and the
//               lanes of each acc[m][n] are summed at the end
//
// A block of `rows x columns` accumulators stays in registers over the loop on K.
// With 32 registers (AVX-512) blocks hold up to 16 accumulators, with 16 up to 8:
// enough to cover the latency of 4 cycles at 2 FMAs per cycle, and to leave room
// for the operands.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
#include "VectorMath.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace mlac::tile_to_cpu {

class DotLowering {
public:
  DotLowering(KernelLowering &kernel, tile::DotOp op);
  void lower();

private:
  struct Block {
    Value firstRow, firstColumn; // of the result
    int64_t rows, columns;       // accumulators
  };
  void chooseBlocks();
  TileRef widenedLhs();
  TileRef turnedLhs();
  void forEachBlock(llvm::function_ref<void(const Block &)> body);
  void forEachRowBlock(Value firstColumn, int64_t columns,
                       llvm::function_ref<void(const Block &)> body);
  void lowerLanesAlongN(const Block &block);
  void lowerLanesAlongK(const Block &block);
  SmallVector<Value> multiplyAlongN(const Block &block, Value k, ValueRange sums);
  SmallVector<Value> multiplyAlongK(const Block &block, ArrayRef<Value> lhsRows,
                                    ArrayRef<Value> rhsRows, Value k, int64_t count,
                                    ValueRange sums);
  Value loadWidened(Type element, Value pointer, int64_t count, bool isPadded);
  Value resultPointer(Value row, Value column);
  Value column(const Block &block, int64_t index) {
    return e.add(block.firstColumn, e.i64(index * columnLanes));
  }
  Value row(const Block &block, int64_t index) { return e.add(block.firstRow, e.i64(index)); }

  KernelLowering &kernel;
  Emitter &e;
  tile::DotOp op;
  TileShape lhsShape, rhsShape, resultShape;
  VectorType vectorType;
  TileRef lhs, rhs, result;
  bool startsAtZero = false;
  int64_t blockRows = 0, blockColumns = 0;
  int64_t columnLanes; // columns of the result that one accumulator covers
};

} // namespace mlac::tile_to_cpu

using namespace mlac::tile_to_cpu;

static bool isZeroConstant(Value value) {
  auto constant = value.getDefiningOp<arith::ConstantOp>();
  auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : nullptr;
  return splat && splat.getSplatValue<APFloat>().isPosZero();
}

DotLowering::DotLowering(KernelLowering &kernel, tile::DotOp op)
    : kernel(kernel), e(kernel.e), op(op), lhsShape(op.getLhs().getType()),
      rhsShape(op.getRhs().getType()), resultShape(op.getType()),
      vectorType(VectorType::get({kernel.lanes}, e.getF32Type())),
      columnLanes(op.getTransposeRhs() ? 1 : kernel.lanes) {
  if (op.getTransposeLhs())
    std::swap(lhsShape.rows, lhsShape.columns);
}

void DotLowering::chooseBlocks() {
  constexpr int64_t kWideLanes = 16;
  bool hasManyRegisters = kernel.lanes >= kWideLanes;
  int64_t accumulators = hasManyRegisters ? 16 : 8;
  // Columns are widened for each block of rows, so rows come first.
  int64_t mostRows = hasManyRegisters ? 8 : 4;
  // More columns than this only lengthen the code: 8 accumulators cover latency.
  constexpr int64_t kMostColumns = 8;
  blockRows = std::min(resultShape.rows, mostRows);
  blockColumns = std::min(kMostColumns, accumulators / blockRows);
}

Value DotLowering::resultPointer(Value row, Value column) {
  Value bytes = e.mul(column, elementBytes(e.getF32Type()));
  return e.advance(kernel.rowPointer(result, row), bytes);
}

Value DotLowering::loadWidened(Type element, Value pointer, int64_t count, bool isPadded) {
  Value value = count == kernel.lanes || isPadded
                    ? e.loadChunk(element, kernel.lanes, pointer)
                    : e.loadChunkHead(element, kernel.lanes, count, pointer);
  return emitWiden(e, value);
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

void DotLowering::forEachRowBlock(Value firstColumn, int64_t columns,
                                  llvm::function_ref<void(const Block &)> body) {
  int64_t whole = resultShape.rows / blockRows * blockRows;
  e.loop(whole, blockRows, [&](Value row) { body({row, firstColumn, blockRows, columns}); });
  if (whole < resultShape.rows)
    body({e.i64(whole), firstColumn, resultShape.rows - whole, columns});
}

/// Columns outside, rows inside: a block's part of rhs stays in the first-level
/// cache while the rows pass over it.
void DotLowering::forEachBlock(llvm::function_ref<void(const Block &)> body) {
  int64_t total = llvm::divideCeil(resultShape.columns, columnLanes);
  int64_t whole = total / blockColumns * blockColumns;
  e.loop(whole * columnLanes, blockColumns * columnLanes,
         [&](Value column) { forEachRowBlock(column, blockColumns, body); });
  if (whole < total)
    forEachRowBlock(e.i64(whole * columnLanes), total - whole, body);
}

//===----------------------------------------------------------------------===//
// rhs [K, N]
//===----------------------------------------------------------------------===//

SmallVector<Value> DotLowering::multiplyAlongN(const Block &block, Value k, ValueRange sums) {
  Value rhsRow = kernel.rowPointer(rhs, k);
  int64_t bytes = rhsShape.bytesPerElement();
  // Only the last block can be narrower than its lanes, and it starts at a constant.
  auto first = block.firstColumn.getDefiningOp<arith::ConstantOp>();
  int64_t known = first ? cast<IntegerAttr>(first.getValue()).getInt() : 0;
  SmallVector<Value> columns;
  for (int64_t n = 0; n < block.columns; ++n) {
    int64_t left = first ? resultShape.columns - known - n * kernel.lanes : kernel.lanes;
    Value at = e.advance(rhsRow, e.mul(column(block, n), bytes));
    columns.push_back(
        loadWidened(rhsShape.element, at, std::min(kernel.lanes, left), rhs.isPadded));
  }
  SmallVector<Value> next;
  for (int64_t m = 0; m < block.rows; ++m) {
    Value at =
        e.advance(kernel.rowPointer(lhs, row(block, m)), e.mul(k, elementBytes(e.getF32Type())));
    Value factor = kernel.splat(e.loadScalar(e.getF32Type(), at));
    for (int64_t n = 0; n < block.columns; ++n)
      next.push_back(
          vector::FMAOp::create(e, e.loc, factor, columns[n], sums[m * block.columns + n]));
  }
  return next;
}

void DotLowering::lowerLanesAlongN(const Block &block) {
  SmallVector<Value> sums, pointers;
  Value zero = arith::ConstantOp::create(e, e.loc, e.getZeroAttr(vectorType));
  for (int64_t m = 0; m < block.rows; ++m)
    for (int64_t n = 0; n < block.columns; ++n) {
      pointers.push_back(resultPointer(row(block, m), column(block, n)));
      sums.push_back(startsAtZero ? zero
                                  : e.loadChunk(e.getF32Type(), kernel.lanes, pointers.back()));
    }
  sums = e.carryLoop(lhsShape.columns, 1, sums, [&](Value k, ValueRange carried) {
    return multiplyAlongN(block, k, carried);
  });
  for (auto [sum, pointer] : llvm::zip_equal(sums, pointers))
    e.storeChunk(sum, pointer);
}

//===----------------------------------------------------------------------===//
// rhs [N, K]
//===----------------------------------------------------------------------===//

/// Lanes of a 128-bit part of a register, inside which shuffles are cheapest.
static constexpr int64_t kPartLanes = 4;

static Value shuffle(Emitter &e, Value a, Value b, ArrayRef<int64_t> lanes) {
  return vector::ShuffleOp::create(e, e.loc, a, b, lanes);
}

static Value addShuffled(Emitter &e, Value a, Value b, ArrayRef<int64_t> first,
                         ArrayRef<int64_t> second) {
  return arith::AddFOp::create(e, e.loc, shuffle(e, a, b, first), shuffle(e, a, b, second));
}

/// Halves two vectors inside their parts and puts the results side by side. With
/// `width` 1, then 2, in each part: (a0 a1 a2 a3), (b0 b1 b2 b3)
///   width 1:  (a0+a2  b0+b2  a1+a3  b1+b3)      width 2:  (a0+a2  a1+a3  b0+b2  b1+b3)
static Value joinInParts(Emitter &e, Value a, Value b, int64_t width) {
  int64_t lanes = cast<VectorType>(a.getType()).getDimSize(0);
  SmallVector<int64_t> low, high;
  for (int64_t part = 0; part < lanes; part += kPartLanes)
    for (int64_t i = 0; i < kPartLanes; ++i) {
      int64_t source = i / width % 2 * lanes;
      int64_t lane = width == 1 ? i / 2 : i % width;
      low.push_back(source + part + lane);
      high.push_back(source + part + lane + kPartLanes / 2);
    }
  return addShuffled(e, a, b, low, high);
}

/// Adds the odd parts of `a` and `b` to the even ones; `b` may be absent, then
/// the result is half as long.
static Value joinParts(Emitter &e, Value a, Value b) {
  int64_t lanes = cast<VectorType>(a.getType()).getDimSize(0);
  SmallVector<int64_t> even, odd;
  for (int64_t part = 0; part < lanes * (b ? 2 : 1); part += 2 * kPartLanes)
    for (int64_t i = 0; i < kPartLanes; ++i) {
      even.push_back(part + i);
      odd.push_back(part + kPartLanes + i);
    }
  return addShuffled(e, a, b ? b : a, even, odd);
}

/// The sums of the lanes of each of `vectors` (at most `lanes` of them), in
/// order, at the head of one vector. Joining them two by two shares every shuffle
/// and addition: 15 joins for 16 vectors, where 16 single sums take 64 steps.
static Value sumLanes(Emitter &e, ArrayRef<Value> vectors) {
  SmallVector<Value> sums(vectors);
  while (!llvm::isPowerOf2_64(sums.size()))
    sums.push_back(sums.back()); // not used by anyone
  if (sums.size() == 1) {
    Value total = vector::ReductionOp::create(e, e.loc, vector::CombiningKind::ADD, sums[0],
                                              arith::FastMathFlags::reassoc);
    return vector::BroadcastOp::create(e, e.loc, VectorType::get({1}, e.getF32Type()), total);
  }
  auto joinPairs = [&](llvm::function_ref<Value(Value, Value)> join) {
    for (size_t i = 0; i < sums.size() / 2; ++i)
      sums[i] = join(sums[2 * i], sums[2 * i + 1]);
    sums.truncate(sums.size() / 2);
  };
  bool isPair = sums.size() == 2;
  joinPairs([&](Value a, Value b) { return joinInParts(e, a, b, 1); });
  if (!isPair)
    joinPairs([&](Value a, Value b) { return joinInParts(e, a, b, 2); });
  while (sums.size() > 1)
    joinPairs([&](Value a, Value b) { return joinParts(e, a, b); });
  int64_t wanted = std::max<int64_t>(kPartLanes, llvm::PowerOf2Ceil(vectors.size()));
  Value result = sums[0];
  while (cast<VectorType>(result.getType()).getDimSize(0) > wanted)
    result = joinParts(e, result, nullptr);
  return isPair ? addShuffled(e, result, result, {0, 1}, {2, 3}) : result;
}

SmallVector<Value> DotLowering::multiplyAlongK(const Block &block, ArrayRef<Value> lhsRows,
                                               ArrayRef<Value> rhsRows, Value k, int64_t count,
                                               ValueRange sums) {
  auto load = [&](Type element, Value pointer) {
    return loadWidened(element, e.advance(pointer, e.mul(k, elementBytes(element))), count,
                       /*isPadded=*/false);
  };
  SmallVector<Value> columns;
  for (Value pointer : rhsRows)
    columns.push_back(load(rhsShape.element, pointer));
  SmallVector<Value> next;
  for (int64_t m = 0; m < block.rows; ++m) {
    Value factor = load(e.getF32Type(), lhsRows[m]);
    for (int64_t n = 0; n < block.columns; ++n)
      next.push_back(
          vector::FMAOp::create(e, e.loc, factor, columns[n], sums[m * block.columns + n]));
  }
  return next;
}

void DotLowering::lowerLanesAlongK(const Block &block) {
  SmallVector<Value> lhsRows, rhsRows;
  for (int64_t m = 0; m < block.rows; ++m)
    lhsRows.push_back(kernel.rowPointer(lhs, row(block, m)));
  for (int64_t n = 0; n < block.columns; ++n)
    rhsRows.push_back(kernel.rowPointer(rhs, column(block, n)));

  Value zero = arith::ConstantOp::create(e, e.loc, e.getZeroAttr(vectorType));
  SmallVector<Value> sums(block.rows * block.columns, zero);
  int64_t whole = lhsShape.columns / kernel.lanes * kernel.lanes;
  sums = e.carryLoop(whole, kernel.lanes, sums, [&](Value k, ValueRange carried) {
    return multiplyAlongK(block, lhsRows, rhsRows, k, kernel.lanes, carried);
  });
  if (whole < lhsShape.columns)
    sums = multiplyAlongK(block, lhsRows, rhsRows, e.i64(whole), lhsShape.columns - whole, sums);

  Value totals = sumLanes(e, sums);
  for (int64_t m = 0; m < block.rows; ++m) {
    Value total = vector::ExtractStridedSliceOp::create(e, e.loc, totals, {m * block.columns},
                                                        {block.columns}, {1});
    Value pointer = resultPointer(row(block, m), block.firstColumn);
    if (!startsAtZero) {
      Value before = e.loadChunk(e.getF32Type(), block.columns, pointer);
      total = arith::AddFOp::create(e, e.loc, total, before);
    }
    e.storeChunk(total, pointer);
  }
}

//===----------------------------------------------------------------------===//
// Operation
//===----------------------------------------------------------------------===//

/// lhs in f32. Rows that are far apart in memory share few sets of the first-level
/// cache, so f32 rows that are read in vectors are copied too.
TileRef DotLowering::widenedLhs() {
  auto stored = kernel.memory.find(op.getLhs());
  if (stored != kernel.memory.end() && lhsShape.element.isF32() &&
      (!op.getTransposeRhs() || lhsShape.rows == 1 || stored->second.isPadded))
    return stored->second;
  auto type = cast<RankedTensorType>(op.getLhs().getType()).clone(e.getF32Type());
  TileRef ref = kernel.allocateTile(type);
  kernel.storeWidened(op.getLhs(), ref);
  return ref;
}

/// lhs [K, M] as [M, K], in f32. Only programs of other targets have it, which the simulator
/// compares with (docs/simulator.md), so it need not be fast.
TileRef DotLowering::turnedLhs() {
  Type f32 = e.getF32Type();
  TileRef stored = kernel.allocateTile(cast<RankedTensorType>(op.getLhs().getType()).clone(f32));
  kernel.storeWidened(op.getLhs(), stored);
  TileRef turned =
      kernel.allocateTile(RankedTensorType::get({lhsShape.rows, lhsShape.columns}, f32));
  e.loop(lhsShape.columns, 1, [&](Value k) {
    Value from = kernel.rowPointer(stored, k);
    e.loop(lhsShape.rows, 1, [&](Value m) {
      Value element = e.loadScalar(f32, e.advance(from, e.mul(m, elementBytes(f32))));
      Value to = e.advance(kernel.rowPointer(turned, m), e.mul(k, elementBytes(f32)));
      e.storeScalar(element, to);
    });
  });
  return turned;
}

void DotLowering::lower() {
  chooseBlocks();
  startsAtZero = isZeroConstant(op.getAcc());
  result = kernel.destination(op.getResult());
  if (!startsAtZero && !kernel.isSameMemory(op.getAcc(), result))
    kernel.store(op.getAcc(), result);

  lhs = op.getTransposeLhs() ? turnedLhs() : widenedLhs();
  rhs = kernel.memoryOf(op.getRhs());
  forEachBlock([&](const Block &block) {
    if (op.getTransposeRhs())
      lowerLanesAlongK(block);
    else
      lowerLanesAlongN(block);
  });
  kernel.memory[op.getResult()] = result;
}

void KernelLowering::lowerDot(tile::DotOp op) { DotLowering(*this, op).lower(); }
