//===- KernelBuilder.cpp - writes the body of a tile.kernel ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Tile/Utils/KernelBuilder.h"

#include "mla/Dialect/KernelAttrs.h"

#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace mlac;

static RankedTensorType tileType(Value value) { return cast<RankedTensorType>(value.getType()); }

KernelBuilder::KernelBuilder(tile::KernelOp kernel)
    : ImplicitLocOpBuilder(kernel.getLoc(), kernel.getContext()), entry(&kernel.getBody().front()) {
  setInsertionPointToStart(entry);
}

KernelBuilder::KernelBuilder(Operation *op)
    : ImplicitLocOpBuilder(op->getLoc(), op),
      entry(&op->getParentOfType<tile::KernelOp>().getBody().front()) {}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

Value KernelBuilder::index(int64_t value) { return arith::ConstantIndexOp::create(*this, value); }
Value KernelBuilder::add(Value a, Value b) { return createOrFold<arith::AddIOp>(a, b); }
Value KernelBuilder::sub(Value a, Value b) { return createOrFold<arith::SubIOp>(a, b); }
Value KernelBuilder::mul(Value a, Value b) { return createOrFold<arith::MulIOp>(a, b); }
Value KernelBuilder::ceilDiv(Value a, Value b) { return createOrFold<arith::CeilDivSIOp>(a, b); }

Value KernelBuilder::ceilDivNarrow(Value a, Value b) {
  Type i32 = getI32Type();
  auto narrow = [&](Value v) { return createOrFold<arith::IndexCastOp>(i32, v); };
  Value one = createOrFold<arith::ConstantOp>(getI32IntegerAttr(1));
  Value divisor = narrow(b);
  Value sum = createOrFold<arith::AddIOp>(narrow(a), createOrFold<arith::SubIOp>(divisor, one));
  return createOrFold<arith::IndexCastOp>(getIndexType(),
                                          createOrFold<arith::DivUIOp>(sum, divisor));
}

Value KernelBuilder::divNarrow(Value a, Value b) {
  auto narrow = [&](Value v) { return createOrFold<arith::IndexCastOp>(getI32Type(), v); };
  return createOrFold<arith::IndexCastOp>(getIndexType(),
                                          createOrFold<arith::DivUIOp>(narrow(a), narrow(b)));
}
Value KernelBuilder::addNarrow(Value a, Value b) {
  auto narrow = [&](Value v) { return createOrFold<arith::IndexCastOp>(getI32Type(), v); };
  return createOrFold<arith::IndexCastUIOp>(getIndexType(),
                                            createOrFold<arith::AddIOp>(narrow(a), narrow(b)));
}
Value KernelBuilder::mulNarrow(Value a, Value b) {
  auto narrow = [&](Value v) { return createOrFold<arith::IndexCastOp>(getI32Type(), v); };
  return createOrFold<arith::IndexCastUIOp>(getIndexType(),
                                            createOrFold<arith::MulIOp>(narrow(a), narrow(b)));
}
Value KernelBuilder::minimum(Value a, Value b) { return createOrFold<arith::MinSIOp>(a, b); }
Value KernelBuilder::maximum(Value a, Value b) { return createOrFold<arith::MaxSIOp>(a, b); }

Value KernelBuilder::isBelow(Value a, Value b) {
  return arith::CmpIOp::create(*this, arith::CmpIPredicate::slt, a, b);
}

Value KernelBuilder::choose(Value condition, Value a, Value b) {
  return createOrFold<arith::SelectOp>(condition, a, b);
}

Value KernelBuilder::toI32(Value value) {
  return arith::IndexCastOp::create(*this, getI32Type(), value);
}

Value KernelBuilder::value(OpFoldResult extent) {
  return getValueOrCreateConstantIndexOp(*this, getLoc(), extent);
}

Value KernelBuilder::programId(int32_t dim) {
  Value &id = programIds[dim];
  if (!id) {
    InsertionGuard guard(*this);
    setInsertionPointToStart(entry);
    id = tile::ProgramIdOp::create(*this, getIndexType(), getI32IntegerAttr(dim));
  }
  return id;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

OpFoldResult KernelBuilder::extent(Value value, int64_t plus) {
  return getAsOpFoldResult(add(value, plus));
}

Value KernelBuilder::view(Value buffer, OpFoldResult offset, Extents sizes, Extents strides) {
  return memref::ReinterpretCastOp::create(*this, buffer, offset, sizes, strides);
}

Value KernelBuilder::loadScalar(Value buffer, Value position) {
  Value scalar = memref::LoadOp::create(*this, buffer, position);
  return arith::IndexCastOp::create(*this, getIndexType(), scalar);
}

Value KernelBuilder::load(Value view, ValueRange offsets, ArrayRef<int64_t> shape) {
  Type element = cast<MemRefType>(view.getType()).getElementType();
  return tile::LoadOp::create(*this, RankedTensorType::get(shape, element), view, offsets);
}

void KernelBuilder::store(Value tile, Value view, ValueRange offsets) {
  tile::StoreOp::create(*this, tile, view, offsets);
}

void KernelBuilder::storeNarrow(Value tile, Value view, ValueRange offsets) {
  store(narrow(tile, cast<MemRefType>(view.getType()).getElementType()), view, offsets);
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

Value KernelBuilder::widen(Value tile) {
  RankedTensorType type = tileType(tile);
  if (type.getElementType().isF32())
    return tile;
  return arith::ExtFOp::create(*this, type.clone(getF32Type()), tile);
}

Value KernelBuilder::narrow(Value tile, Type element) {
  RankedTensorType type = tileType(tile);
  if (type.getElementType() == element)
    return tile;
  return arith::TruncFOp::create(*this, type.clone(element), tile);
}

Value KernelBuilder::constant(ArrayRef<int64_t> shape, double value) {
  auto type = RankedTensorType::get(shape, getF32Type());
  return arith::ConstantOp::create(*this, DenseElementsAttr::get(type, static_cast<float>(value)));
}

Value KernelBuilder::constantI32(ArrayRef<int64_t> shape, int32_t value) {
  auto type = RankedTensorType::get(shape, getI32Type());
  return arith::ConstantOp::create(*this, DenseElementsAttr::get(type, value));
}

Value KernelBuilder::like(Value tile, double value) {
  return constant(tileType(tile).getShape(), value);
}

Value KernelBuilder::splat(Value scalar, ArrayRef<int64_t> shape) {
  return tile::SplatOp::create(*this, RankedTensorType::get(shape, scalar.getType()), scalar);
}

Value KernelBuilder::iota(int32_t dim, ArrayRef<int64_t> shape) {
  return tile::IotaOp::create(*this, RankedTensorType::get(shape, getI32Type()),
                              getI32IntegerAttr(dim));
}

Value KernelBuilder::broadcast(Value vector, int64_t columns) {
  RankedTensorType type = tileType(vector);
  return tile::BroadcastOp::create(
      *this, RankedTensorType::get({type.getDimSize(0), columns}, type.getElementType()), vector);
}

Value KernelBuilder::broadcastRows(Value vector, int64_t rows) {
  RankedTensorType type = tileType(vector);
  return tile::BroadcastOp::create(
      *this, RankedTensorType::get({rows, type.getDimSize(0)}, type.getElementType()), vector,
      /*dim=*/0);
}

static Value reduce(KernelBuilder &b, tile::ReduceKind kind, Value tile, int32_t dim) {
  RankedTensorType type = tileType(tile);
  return tile::ReduceOp::create(
      b, RankedTensorType::get({type.getDimSize(1 - dim)}, type.getElementType()), kind, tile, dim);
}

Value KernelBuilder::reduceSum(Value tile, int32_t dim) {
  return reduce(*this, tile::ReduceKind::Sum, tile, dim);
}

Value KernelBuilder::sumGroups(Value vector, int64_t size) {
  return size == 1 ? vector : tile::SumGroupsOp::create(*this, vector, size).getResult();
}

Value KernelBuilder::reduceMax(Value tile, int32_t dim) {
  return reduce(*this, tile::ReduceKind::Max, tile, dim);
}

Value KernelBuilder::dot(Value lhs, Value rhs, Value acc, bool transposeRhs) {
  return tile::DotOp::create(*this, acc.getType(), lhs, rhs, acc, transposeRhs);
}

Value KernelBuilder::addf(Value a, Value b) { return arith::AddFOp::create(*this, a, b); }
Value KernelBuilder::subf(Value a, Value b) { return arith::SubFOp::create(*this, a, b); }
Value KernelBuilder::mulf(Value a, Value b) { return arith::MulFOp::create(*this, a, b); }
Value KernelBuilder::divf(Value a, Value b) { return arith::DivFOp::create(*this, a, b); }
Value KernelBuilder::minf(Value a, Value b) { return arith::MinimumFOp::create(*this, a, b); }

Value KernelBuilder::fma(Value a, Value b, Value c) { return math::FmaOp::create(*this, a, b, c); }

Value KernelBuilder::divideExactly(Value a, Value b) {
  auto op = arith::DivFOp::create(*this, a, b);
  op->setAttr(tile::kCorrectlyRoundedAttr, getUnitAttr());
  return op;
}

Value KernelBuilder::zeroNan(Value tile) {
  Value isNumber = arith::CmpFOp::create(*this, arith::CmpFPredicate::ORD, tile, tile);
  return select(isNumber, tile, like(tile, 0));
}

/// On bits, exactly: a mantissa that is not 0 carries into the exponent. The logarithm
/// of a power of two could be rounded past it.
Value KernelBuilder::roundUpToPowerOf2(Value tile) {
  constexpr int32_t mantissa = 0x007fffff;
  RankedTensorType type = tileType(tile), bits = type.clone(getI32Type());
  Value word = arith::BitcastOp::create(*this, bits, tile);
  word = arith::AddIOp::create(*this, word, constantI32(bits.getShape(), mantissa));
  word = arith::AndIOp::create(*this, word, constantI32(bits.getShape(), ~mantissa));
  return arith::BitcastOp::create(*this, type, word);
}

/// Mantissa bits of f32, above which its exponent is with the same bias.
static constexpr int32_t kMantissaBits = 23;

Value KernelBuilder::exponentBytes(Value tile) {
  RankedTensorType bits = tileType(tile).clone(getI32Type());
  Value word = arith::BitcastOp::create(*this, bits, tile);
  word = arith::ShRUIOp::create(*this, word, constantI32(bits.getShape(), kMantissaBits));
  return arith::TruncIOp::create(*this, bits.clone(getI8Type()), word);
}

/// 2^-127, of the byte 0, is subnormal: the mantissa's first bit.
Value KernelBuilder::powersOf2(Value bytes) {
  RankedTensorType bits = tileType(bytes).clone(getI32Type());
  ArrayRef<int64_t> shape = bits.getShape();
  Value word = arith::ExtUIOp::create(*this, bits, bytes);
  Value isZero =
      arith::CmpIOp::create(*this, arith::CmpIPredicate::eq, word, constantI32(shape, 0));
  word = arith::ShLIOp::create(*this, word, constantI32(shape, kMantissaBits));
  word = select(isZero, constantI32(shape, 1 << (kMantissaBits - 1)), word);
  return arith::BitcastOp::create(*this, bits.clone(getF32Type()), word);
}

Value KernelBuilder::maxf(Value a, Value b) { return arith::MaximumFOp::create(*this, a, b); }
Value KernelBuilder::exp(Value a) { return math::ExpOp::create(*this, a); }
Value KernelBuilder::exp2(Value a) { return math::Exp2Op::create(*this, a); }
Value KernelBuilder::log(Value a) { return math::LogOp::create(*this, a); }
Value KernelBuilder::log2(Value a) { return math::Log2Op::create(*this, a); }
Value KernelBuilder::rsqrt(Value a) { return math::RsqrtOp::create(*this, a); }
Value KernelBuilder::absf(Value a) { return math::AbsFOp::create(*this, a); }

Value KernelBuilder::select(Value condition, Value a, Value b) {
  return arith::SelectOp::create(*this, condition, a, b);
}

Value KernelBuilder::equals(Value tile, double value) {
  return arith::CmpFOp::create(*this, arith::CmpFPredicate::OEQ, tile, like(tile, value));
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

SmallVector<Value> KernelBuilder::loop(Value from, Value to, Value step, ValueRange inits,
                                       LoopBody body) {
  auto op = scf::ForOp::create(*this, from, to, step, inits,
                               [&](OpBuilder &, Location, Value position, ValueRange carried) {
                                 SmallVector<Value> next = body(position, carried);
                                 scf::YieldOp::create(*this, next);
                               });
  return llvm::to_vector<6>(ValueRange(op.getResults()));
}

SmallVector<Value> KernelBuilder::forBlocks(int64_t width, int64_t block, ValueRange inits,
                                            LoopBody body) {
  if (width <= block)
    return body(index(0), inits);
  return loop(index(0), index(width), index(block), inits, body);
}

void KernelBuilder::ifThen(Value condition, llvm::function_ref<void()> body) {
  auto op = scf::IfOp::create(*this, condition, /*withElseRegion=*/false);
  InsertionGuard guard(*this);
  setInsertionPointToStart(op.thenBlock());
  body();
}

void KernelBuilder::ifThenElse(Value condition, llvm::function_ref<void()> then,
                               llvm::function_ref<void()> otherwise) {
  auto op = scf::IfOp::create(*this, condition, /*withElseRegion=*/true);
  InsertionGuard guard(*this);
  setInsertionPointToStart(op.thenBlock());
  then();
  setInsertionPointToStart(op.elseBlock());
  otherwise();
}
