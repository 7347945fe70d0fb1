//===- Elementwise.cpp - evaluation of tiles chunk by chunk ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// evaluate() turns a tile value into one vector of `lanes` columns of one row:
// stored tiles are loaded, virtual ones are computed from their operands. The
// last chunk of a row may have lanes past the row's end; they hold anything, so
// whoever mixes lanes (reductions) or writes outside scratch masks them.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"
#include "VectorMath.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/TypeSwitch.h"

#include <limits>

using namespace mlir;
using namespace mlac::tile_to_cpu;

//===----------------------------------------------------------------------===//
// Chunks
//===----------------------------------------------------------------------===//

void KernelLowering::forEachChunkOfRow(const TileShape &shape, Value row, ChunkFn body) {
  int64_t whole = shape.columns / lanes * lanes;
  e.loop(whole, lanes, [&](Value column) { body({row, column, lanes}); });
  if (whole < shape.columns)
    body({row, e.i64(whole), shape.columns - whole});
}

void KernelLowering::forEachChunk(const TileShape &shape, ChunkFn body) {
  e.loop(shape.rows, 1, [&](Value row) { forEachChunkOfRow(shape, row, body); });
}

Value KernelLowering::splat(Value scalar) {
  return vector::BroadcastOp::create(e, e.loc, VectorType::get({lanes}, scalar.getType()), scalar);
}

/// Lanes below `count` are true.
Value KernelLowering::headMask(int64_t count) {
  SmallVector<bool> mask(lanes, false);
  std::fill_n(mask.begin(), count, true);
  return arith::ConstantOp::create(e, e.loc, e.getBoolVectorAttr(mask));
}

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

Value KernelLowering::evaluate(Value tile, const Chunk &chunk) {
  ValueCache cache;
  return evaluate(tile, chunk, cache);
}

Value KernelLowering::evaluate(Value tile, const Chunk &chunk, ValueCache &cache) {
  if (!isTile(tile))
    return map.lookup(tile); // the scalar condition of a select
  if (Value known = cache.lookup(tile))
    return known;
  Value result;
  Operation *op = tile.getDefiningOp();
  if (memory.count(tile))
    result = evaluateStored(tile, chunk);
  else if (isElementwise(op))
    result = evaluateArithmetic(op, chunk, cache);
  else
    result = evaluateGenerator(op, chunk);
  cache[tile] = result;
  return result;
}

Value KernelLowering::evaluateStored(Value tile, const Chunk &chunk) {
  return loadChunk(memory.find(tile)->second, TileShape(tile.getType()), chunk);
}

Value KernelLowering::loadChunk(const TileRef &ref, const TileShape &shape, const Chunk &chunk) {
  Value pointer =
      e.advance(rowPointer(ref, chunk.row), e.mul(chunk.column, shape.bytesPerElement()));
  if (chunk.count == lanes || ref.isPadded)
    return e.loadChunk(shape.element, lanes, pointer);
  return e.loadChunkHead(shape.element, lanes, chunk.count, pointer);
}

/// The numbers 0, 1, … of a chunk's lanes.
static Value laneNumbers(Emitter &e, int64_t lanes) {
  SmallVector<int32_t> numbers = llvm::to_vector(llvm::seq<int32_t>(0, lanes));
  return arith::ConstantOp::create(e, e.loc, e.getI32VectorAttr(numbers));
}

Value KernelLowering::evaluateGenerator(Operation *op, const Chunk &chunk) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto value = cast<SplatElementsAttr>(constant.getValue());
    auto type = VectorType::get({lanes}, value.getElementType());
    return arith::ConstantOp::create(
        e, e.loc, DenseElementsAttr::get(type, value.getSplatValue<Attribute>()));
  }
  if (auto source = dyn_cast<tile::SplatOp>(op))
    return splat(map.lookup(source.getSource()));
  if (auto broadcast = dyn_cast<tile::BroadcastOp>(op)) {
    TileShape shape(op->getResult(0).getType());
    TileRef ref = memoryOf(broadcast.getSource());
    if (broadcast.getDim() == 0)
      return loadChunk(ref, shape, {e.i64(0), chunk.column, chunk.count});
    Value bytes = e.mul(chunk.row, shape.bytesPerElement());
    return splat(e.loadScalar(shape.element, e.advance(rowPointer(ref, 0), bytes)));
  }
  auto iota = cast<tile::IotaOp>(op);
  bool isRowNumber = iota.getDim() == 0 && cast<RankedTensorType>(iota.getType()).getRank() == 2;
  Value start = isRowNumber ? chunk.row : chunk.column;
  Value first = splat(arith::TruncIOp::create(e, e.loc, e.getI32Type(), start));
  return isRowNumber ? first : Value(arith::AddIOp::create(e, e.loc, first, laneNumbers(e, lanes)));
}

/// Lanes past the row's end must not divide by what happens to be there.
static Value guardDivisor(Emitter &e, Value divisor, Value mask) {
  auto type = cast<VectorType>(divisor.getType());
  Value one = arith::ConstantOp::create(
      e, e.loc,
      DenseElementsAttr::get(type, Attribute(e.getIntegerAttr(type.getElementType(), 1))));
  return e.select(mask, divisor, one);
}

Value KernelLowering::evaluateArithmetic(Operation *op, const Chunk &chunk, ValueCache &cache) {
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(evaluate(operand, chunk, cache));
  if (isa<arith::DivSIOp, arith::RemSIOp>(op) && chunk.count < lanes)
    operands[1] = guardDivisor(e, operands[1], headMask(chunk.count));

  auto element = cast<RankedTensorType>(op->getResult(0).getType()).getElementType();
  auto type = VectorType::get({lanes}, element);
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](math::ExpOp) { return emitExp(e, operands[0]); })
      .Case([&](math::Exp2Op) { return emitExp2(e, operands[0]); })
      .Case([&](math::LogOp) { return emitLog(e, operands[0]); })
      .Case([&](math::Log2Op) { return emitLog2(e, operands[0]); })
      .Case([&](math::RsqrtOp) {
        Value one = arith::ConstantOp::create(
            e, e.loc, DenseElementsAttr::get(type, Attribute(e.getFloatAttr(element, 1.0))));
        Value root = math::SqrtOp::create(e, e.loc, operands[0]);
        return Value(arith::DivFOp::create(e, e.loc, one, root));
      })
      .Case([&](arith::TruncFOp narrowing) -> Value {
        if (element.isBF16() && getElementTypeOrSelf(narrowing.getIn()).isF32())
          return emitRoundToBf16(e, operands[0]);
        if (isa<Float8E4M3FNType>(element))
          return emitRoundToE4m3(e, operands[0]);
        return arith::TruncFOp::create(e, e.loc, type, operands[0]);
      })
      .Case([&](arith::SelectOp select) -> Value {
        if (!element.isBF16())
          return arith::SelectOp::create(e, e.loc, operands[0], operands[1], operands[2]);
        // A processor without bf16 would hold both as f32, and round one again by a call.
        Type bits = type.clone(e.getI16Type());
        auto toBits = [&](Value x) { return arith::BitcastOp::create(e, e.loc, bits, x); };
        Value chosen = arith::SelectOp::create(e, e.loc, operands[0], toBits(operands[1]),
                                               toBits(operands[2]));
        return arith::BitcastOp::create(e, e.loc, type, chosen);
      })
      .Case([&](arith::ExtFOp widening) -> Value {
        return element.isF32() ? emitWiden(e, operands[0])
                               : arith::ExtFOp::create(e, e.loc, type, operands[0]);
      })
      .Default([&](Operation *other) {
        OperationState state(e.loc, other->getName(), operands, type, other->getAttrs());
        return e.create(state)->getResult(0);
      });
}

//===----------------------------------------------------------------------===//
// Passes over whole tiles
//===----------------------------------------------------------------------===//

void KernelLowering::storeChunk(Value value, const TileRef &target, const Chunk &chunk) {
  int64_t bytes = elementBytes(cast<VectorType>(value.getType()).getElementType());
  Value pointer = e.advance(rowPointer(target, chunk.row), e.mul(chunk.column, bytes));
  if (chunk.count == lanes || target.isPadded)
    e.storeChunk(value, pointer);
  else
    e.storeChunkHead(value, chunk.count, pointer);
}

void KernelLowering::store(Value value, const TileRef &target) {
  forEachChunk(TileShape(value.getType()),
               [&](const Chunk &chunk) { storeChunk(evaluate(value, chunk), target, chunk); });
}

void KernelLowering::storeWidened(Value value, const TileRef &target) {
  TileShape shape(value.getType());
  forEachChunk(shape, [&](const Chunk &chunk) {
    Value result = emitWiden(e, evaluate(value, chunk));
    Value bytes = e.mul(chunk.column, elementBytes(e.getF32Type()));
    e.storeChunk(result, e.advance(rowPointer(target, chunk.row), bytes));
  });
}

void KernelLowering::copyTile(Type type, const TileRef &from, const TileRef &to) {
  TileShape shape(type);
  e.loop(shape.rows, 1, [&](Value row) {
    e.copyBytes(rowPointer(to, row), rowPointer(from, row),
                e.i64(shape.columns * shape.bytesPerElement()));
  });
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

Value KernelLowering::combine(tile::ReduceKind kind, Value a, Value b) {
  if (kind == tile::ReduceKind::Sum)
    return arith::AddFOp::create(e, e.loc, a, b);
  return arith::MaximumFOp::create(e, e.loc, a, b);
}

Value KernelLowering::reduceIdentity(tile::ReduceKind kind, Type type) {
  float identity = kind == tile::ReduceKind::Sum ? -0.0f : -std::numeric_limits<float>::infinity();
  auto vector = cast<VectorType>(type);
  return arith::ConstantOp::create(e, e.loc, DenseElementsAttr::get(vector, identity));
}

/// Several partial results hide the latency of the additions.
static constexpr int64_t kReducePartials = 4;

Value KernelLowering::reduceRow(tile::ReduceOp op, Value row) {
  TileShape shape(op.getSource().getType());
  auto type = VectorType::get({lanes}, e.getF32Type());
  tile::ReduceKind kind = op.getKind();
  int64_t chunks = shape.columns / lanes;
  int64_t partials = std::clamp<int64_t>(chunks, 1, kReducePartials);
  int64_t step = partials * lanes, grouped = chunks / partials * step;
  SmallVector<Value> sums(partials, reduceIdentity(kind, type));
  sums = e.carryLoop(grouped, step, sums, [&](Value column, ValueRange carried) {
    SmallVector<Value> next;
    for (auto [part, sum] : llvm::enumerate(carried)) {
      Value at = e.add(column, e.i64(part * lanes));
      next.push_back(combine(kind, sum, evaluate(op.getSource(), {row, at, lanes})));
    }
    return next;
  });
  for (int64_t column = grouped; column < shape.columns; column += lanes) {
    int64_t count = std::min(lanes, shape.columns - column);
    Value value = evaluate(op.getSource(), {row, e.i64(column), count});
    if (count < lanes)
      value = e.select(headMask(count), value, reduceIdentity(kind, type));
    sums[0] = combine(kind, sums[0], value);
  }
  for (int64_t part = 1; part < partials; ++part)
    sums[0] = combine(kind, sums[0], sums[part]);
  bool isSum = kind == tile::ReduceKind::Sum;
  return vector::ReductionOp::create(
      e, e.loc, isSum ? vector::CombiningKind::ADD : vector::CombiningKind::MAXIMUMF, sums[0],
      isSum ? arith::FastMathFlags::reassoc : arith::FastMathFlags::none);
}

/// Lanes are columns, so that rows combine without shuffles.
void KernelLowering::reduceColumns(tile::ReduceOp op, const TileRef &target) {
  TileShape source(op.getSource().getType());
  auto type = VectorType::get({lanes}, e.getF32Type());
  forEachChunkOfRow(source, e.i64(0), [&](const Chunk &chunk) {
    SmallVector<Value> start = {reduceIdentity(op.getKind(), type)};
    Value result = e.carryLoop(
        source.rows, 1, start, [&](Value row, ValueRange carried) -> SmallVector<Value> {
          Value value = evaluate(op.getSource(), {row, chunk.column, chunk.count});
          return {combine(op.getKind(), carried[0], value)};
        })[0];
    storeChunk(result, target, chunk);
  });
}

void KernelLowering::lowerReduce(tile::ReduceOp op) {
  TileShape source(op.getSource().getType());
  TileRef target = destination(op.getResult());
  memory[op.getResult()] = target;
  if (op.getDim() == 0)
    return reduceColumns(op, target);
  e.loop(source.rows, 1, [&](Value row) {
    Value result = reduceRow(op, row);
    Value bytes = e.mul(row, elementBytes(e.getF32Type()));
    e.storeScalar(result, e.advance(rowPointer(target, 0), bytes));
  });
}

void KernelLowering::lowerSumGroups(tile::SumGroupsOp op) {
  TileRef source = memoryOf(op.getSource()), target = destination(op.getResult());
  memory[op.getResult()] = target;
  Type element = e.getF32Type();
  auto at = [&](const TileRef &ref, Value index) {
    return e.advance(rowPointer(ref, 0), e.mul(index, elementBytes(element)));
  };
  e.loop(TileShape(op.getType()).columns, op.getSize(), [&](Value first) {
    Value sum;
    for (int64_t i = 0; i < op.getSize(); ++i) {
      Value next = e.loadScalar(element, at(source, e.add(first, e.i64(i))));
      sum = sum ? combine(tile::ReduceKind::Sum, sum, next) : next;
    }
    for (int64_t i = 0; i < op.getSize(); ++i)
      e.storeScalar(sum, at(target, e.add(first, e.i64(i))));
  });
}
