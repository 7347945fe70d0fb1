//===- Emitter.cpp - addresses, chunks and loops of CPU kernels ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlac::tile_to_cpu;

static constexpr unsigned kBitsPerByte = 8;
static constexpr int64_t kPointerBytes = 8;

int64_t mlac::tile_to_cpu::elementBytes(Type element) {
  if (isa<LLVM::LLVMPointerType>(element))
    return kPointerBytes;
  return llvm::divideCeil(element.getIntOrFloatBitWidth(), kBitsPerByte);
}

static std::optional<int64_t> constantOf(Value value) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return constant.getSExtValue();
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

Value Emitter::i64(int64_t value) {
  return arith::ConstantOp::create(*this, loc, getI64IntegerAttr(value));
}

Value Emitter::toI64(Value value) {
  if (std::optional<int64_t> constant = constantOf(value))
    return i64(*constant);
  if (!value.getType().isIndex())
    return value;
  return arith::IndexCastOp::create(*this, loc, getI64Type(), value);
}

Value Emitter::add(Value a, Value b) {
  std::optional<int64_t> left = constantOf(a), right = constantOf(b);
  if (left && right)
    return i64(*left + *right);
  if (left == 0)
    return b;
  return right == 0 ? a : Value(arith::AddIOp::create(*this, loc, a, b));
}

Value Emitter::sub(Value a, Value b) { return arith::SubIOp::create(*this, loc, a, b); }

Value Emitter::mul(Value a, Value b) {
  std::optional<int64_t> left = constantOf(a), right = constantOf(b);
  if (left && right)
    return i64(*left * *right);
  if (left == 1 || right == 0)
    return b;
  return right == 1 || left == 0 ? a : Value(arith::MulIOp::create(*this, loc, a, b));
}

Value Emitter::clamp(Value value, int64_t low, int64_t high) {
  Value atLeast = arith::MaxSIOp::create(*this, loc, value, i64(low));
  return arith::MinSIOp::create(*this, loc, atLeast, i64(high));
}

Value Emitter::compare(arith::CmpIPredicate predicate, Value a, Value b) {
  return arith::CmpIOp::create(*this, loc, predicate, a, b);
}

Value Emitter::both(Value a, Value b) { return arith::AndIOp::create(*this, loc, a, b); }

Value Emitter::select(Value condition, Value a, Value b) {
  return arith::SelectOp::create(*this, loc, condition, a, b);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Type Emitter::pointerType() { return LLVM::LLVMPointerType::get(getContext()); }

Value Emitter::advance(Value pointer, Value bytes) {
  if (constantOf(bytes) == 0)
    return pointer;
  return LLVM::GEPOp::create(*this, loc, pointerType(), getI8Type(), pointer,
                             ArrayRef<LLVM::GEPArg>{bytes});
}

/// Floats that LLVM does not have are moved as their bits, and so are bf16: a processor
/// without them would hold them as f32, and round them again by a call.
static bool isMovedAsBits(Type type) {
  Type element = getElementTypeOrSelf(type);
  return isa<Float8E4M3FNType>(element) || element.isBF16();
}

/// `type` with the element `element`, or `element` itself where it is a scalar.
static Type likeWith(Type type, Type element) {
  auto vector = dyn_cast<VectorType>(type);
  return vector ? Type(vector.clone(element)) : element;
}

/// The type that a scalar or a vector has in memory: i1 becomes i8.
static Type memoryType(Type type) {
  Type element = getElementTypeOrSelf(type);
  if (!element.isInteger(1) && !isMovedAsBits(type))
    return type;
  unsigned bits = elementBytes(element) * kBitsPerByte;
  return likeWith(type, IntegerType::get(type.getContext(), bits));
}

/// What was loaded as `memoryType(type)`.
static Value fromMemory(Emitter &e, Type type, Value value) {
  if (getElementTypeOrSelf(type).isInteger(1))
    return arith::TruncIOp::create(e, e.loc, type, value);
  return isMovedAsBits(type) ? Value(arith::BitcastOp::create(e, e.loc, type, value)) : value;
}

static Value toMemory(Emitter &e, Value value) {
  Type type = memoryType(value.getType());
  if (getElementTypeOrSelf(value.getType()).isInteger(1))
    return arith::ExtUIOp::create(e, e.loc, type, value);
  return isMovedAsBits(value.getType()) ? Value(arith::BitcastOp::create(e, e.loc, type, value))
                                        : value;
}

Value Emitter::loadScalar(Type element, Value pointer) {
  Value value =
      LLVM::LoadOp::create(*this, loc, memoryType(element), pointer, elementBytes(element));
  return fromMemory(*this, element, value);
}

void Emitter::storeScalar(Value value, Value pointer) {
  LLVM::StoreOp::create(*this, loc, toMemory(*this, value), pointer, elementBytes(value.getType()));
}

Value Emitter::loadChunk(Type element, int64_t lanes, Value pointer) {
  auto type = VectorType::get({lanes}, element);
  Value value = LLVM::LoadOp::create(*this, loc, memoryType(type), pointer, elementBytes(element));
  return fromMemory(*this, type, value);
}

void Emitter::storeChunk(Value value, Value pointer) {
  Type element = cast<VectorType>(value.getType()).getElementType();
  LLVM::StoreOp::create(*this, loc, toMemory(*this, value), pointer, elementBytes(element));
}

Value Emitter::loadChunkHead(Type element, int64_t lanes, int64_t count, Value pointer) {
  auto type = VectorType::get({lanes}, element);
  if (isMovedAsBits(element)) {
    Value bits = loadChunkHead(memoryType(element), lanes, count, pointer);
    return arith::BitcastOp::create(*this, loc, type, bits);
  }
  Value value = arith::ConstantOp::create(*this, loc, getZeroAttr(type));
  for (int64_t lane = 0; lane < count; ++lane) {
    Value at = advance(pointer, i64(lane * elementBytes(element)));
    value = vector::InsertOp::create(*this, loc, loadScalar(element, at), value, lane);
  }
  return value;
}

void Emitter::storeChunkHead(Value chunk, int64_t count, Value pointer) {
  Type element = cast<VectorType>(chunk.getType()).getElementType();
  if (isMovedAsBits(element))
    chunk =
        arith::BitcastOp::create(*this, loc, likeWith(chunk.getType(), memoryType(element)), chunk);
  for (int64_t lane = 0; lane < count; ++lane) {
    Value value = vector::ExtractOp::create(*this, loc, chunk, lane);
    storeScalar(value, advance(pointer, i64(lane * elementBytes(element))));
  }
}

void Emitter::copyBytes(Value to, Value from, Value bytes) {
  LLVM::MemcpyOp::create(*this, loc, to, from, bytes, /*isVolatile=*/false);
}

void Emitter::zeroBytes(Value to, Value bytes) {
  Value zero = arith::ConstantOp::create(*this, loc, getI8IntegerAttr(0));
  LLVM::MemsetOp::create(*this, loc, to, zero, bytes, /*isVolatile=*/false);
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

void Emitter::loop(int64_t count, int64_t step, LoopBody body) {
  carryLoop(count, step, {}, [&](Value i, ValueRange) {
    body(i);
    return SmallVector<Value>();
  });
}

void Emitter::loop(Value count, LoopBody body) {
  auto op = scf::ForOp::create(*this, loc, i64(0), count, i64(1));
  InsertionGuard guard(*this);
  setInsertionPointToStart(op.getBody());
  body(op.getInductionVar());
}

SmallVector<Value> Emitter::carryLoop(int64_t count, int64_t step, ValueRange init,
                                      CarryBody body) {
  if (count <= 0)
    return SmallVector<Value>(init);
  if (count <= step)
    return body(i64(0), init);
  auto op = scf::ForOp::create(*this, loc, i64(0), i64(count), i64(step), init);
  InsertionGuard guard(*this);
  setInsertionPointToStart(op.getBody());
  SmallVector<Value> results = body(op.getInductionVar(), op.getRegionIterArgs());
  if (!init.empty())
    scf::YieldOp::create(*this, loc, results);
  return SmallVector<Value>(op.getResults());
}

void Emitter::ifThen(Value condition, llvm::function_ref<void()> then) {
  auto op = scf::IfOp::create(*this, loc, condition, /*withElseRegion=*/false);
  InsertionGuard guard(*this);
  setInsertionPointToStart(op.thenBlock());
  then();
}

void Emitter::ifThenElse(Value condition, llvm::function_ref<void()> then,
                         llvm::function_ref<void()> otherwise) {
  auto op = scf::IfOp::create(*this, loc, condition, /*withElseRegion=*/true);
  InsertionGuard guard(*this);
  setInsertionPointToStart(op.thenBlock());
  then();
  setInsertionPointToStart(op.elseBlock());
  otherwise();
}
