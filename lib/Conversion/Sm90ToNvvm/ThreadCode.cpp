//===- ThreadCode.cpp - what single threads compute ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ThreadCode.h"

using namespace mlir;
using namespace mlac::sm90nvvm;

static constexpr int64_t kEveryLane = -1;
/// What threads of a CTA do to its shared memory.
static constexpr StringLiteral kCtaScope = "block";

/// What is computed of the thread's number is not kept in registers from one op to the next.
ThreadCode::ThreadCode(ImplicitLocOpBuilder &b, const Kernel &kernel)
    : b(b), kernel(kernel), threads(kernel.getThreads()),
      thread(b, emitPin(b, kernel.thread).front()), lane(thread % kWarpThreads),
      warp(thread / kWarpThreads) {}

Value ThreadCode::number(float value) {
  return arith::ConstantOp::create(b, b.getF32FloatAttr(value));
}

Int ThreadCode::countBits(Value value) { return Int(b, LLVM::CtPopOp::create(b, value)); }

Int ThreadCode::leadingZeros(Value value) {
  return Int(b, LLVM::CountLeadingZerosOp::create(b, b.getI32Type(), value,
                                                  /*is_zero_poison=*/false));
}

Value ThreadCode::isAtLeast(Value left, Value right) {
  return arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, left, right);
}
Value ThreadCode::isEqual(Value left, Value right) {
  return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, left, right);
}
Value ThreadCode::lesser(Value left, Value right) {
  return arith::MinNumFOp::create(b, left, right);
}
Value ThreadCode::greater(Value left, Value right) {
  return arith::MaxNumFOp::create(b, left, right);
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

ThreadCode::Values ThreadCode::loop(Value from, Value to, Value step, ValueRange inits,
                                    llvm::function_ref<Values(Int, ValueRange)> body) {
  auto loop = scf::ForOp::create(b, from, to, step, inits);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Values next = body(Int(b, loop.getInductionVar()), loop.getRegionIterArgs());
  if (!inits.empty())
    scf::YieldOp::create(b, next);
  return Values(loop.getResults());
}

void ThreadCode::loop(Value from, Value to, Value step, llvm::function_ref<void(Int)> body) {
  loop(from, to, step, {}, [&](Int i, ValueRange) {
    body(i);
    return Values();
  });
}

ThreadCode::Values ThreadCode::eachOf(Value count, ValueRange inits,
                                      llvm::function_ref<Values(Int, ValueRange)> body) {
  return loop(thread, count, word(threads), inits, body);
}

void ThreadCode::eachWarpOf(Value count, llvm::function_ref<void(Int)> body) {
  loop(warp * kWarpThreads, count, word(threads), [&](Int i) { body(i + lane); });
}

ThreadCode::Values ThreadCode::ifElse(Value condition, TypeRange types,
                                      llvm::function_ref<Values()> then,
                                      llvm::function_ref<Values()> otherwise) {
  auto branch = scf::IfOp::create(b, types, condition, /*addThenBlock=*/true,
                                  /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, then());
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, otherwise());
  return Values(branch.getResults());
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Array ThreadCode::shared(Value tile, Type type, int64_t firstElement) {
  return {kernel.getSharedAddress(b, tile, firstElement * type.getIntOrFloatBitWidth() / 8), type};
}

Value ThreadCode::addressOf(const Array &array, Value index) {
  return getElementAddress(b, array.base, array.type, index);
}

Value ThreadCode::load(const Array &array, Value index) {
  return LLVM::LoadOp::create(b, array.type, addressOf(array, index));
}

void ThreadCode::store(const Array &array, Value index, Value value) {
  LLVM::StoreOp::create(b, value, addressOf(array, index));
}

Int ThreadCode::add(const Array &array, Value index, Value value) {
  return Int(b, LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::add, addressOf(array, index), value,
                                          LLVM::AtomicOrdering::monotonic, kCtaScope));
}

void ThreadCode::orInto(const Array &array, Value index, Value value) {
  LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::_or, addressOf(array, index), value,
                            LLVM::AtomicOrdering::monotonic, kCtaScope);
}

static VectorType fourWords(ImplicitLocOpBuilder &b) {
  return VectorType::get({4}, b.getI32Type());
}
static constexpr unsigned kFourWords = 16; // bytes

ThreadCode::Values ThreadCode::loadFour(const Array &array, Value index) {
  Value four = LLVM::LoadOp::create(b, fourWords(b), addressOf(array, index), kFourWords);
  Values words;
  for (int64_t i = 0; i < 4; ++i)
    words.push_back(LLVM::ExtractElementOp::create(b, four, word(i)));
  return words;
}

void ThreadCode::storeFourZeros(const Array &array, Value index) {
  Value zeros = arith::ConstantOp::create(b, b.getZeroAttr(fourWords(b)));
  LLVM::StoreOp::create(b, zeros, addressOf(array, index), kFourWords);
}

//===----------------------------------------------------------------------===//
// Warps
//===----------------------------------------------------------------------===//

Int ThreadCode::reduce(Value value, NVVM::ReduxKind kind) {
  return Int(b, NVVM::ReduxOp::create(b, b.getI32Type(), value, kind, word(kEveryLane)));
}

Int ThreadCode::ballot(Value condition) {
  return Int(b, NVVM::VoteSyncOp::create(b, b.getI32Type(), word(kEveryLane), condition,
                                         NVVM::VoteSyncKind::ballot));
}

Int ThreadCode::shuffle(Value value, Value by, NVVM::ShflKind kind) {
  // Upwards the last lane that is there is 0.
  int64_t last = kind == NVVM::ShflKind::up ? 0 : kWarpThreads - 1;
  return Int(b, NVVM::ShflOp::create(b, b.getI32Type(), word(kEveryLane), value, by, word(last),
                                     kind, UnitAttr()));
}

Int ThreadCode::sumUpTo(Value value) {
  Int sum(b, value);
  for (int64_t distance = 1; distance < kWarpThreads; distance *= 2) {
    Int other = shuffle(sum, word(distance), NVVM::ShflKind::up);
    Value isThere = is(lane, Compare::uge, word(distance));
    sum = sum + choose(isThere, other, word(0));
  }
  return sum;
}

Int ThreadCode::ofLane(Value value, int64_t from) {
  return shuffle(value, word(from), NVVM::ShflKind::idx);
}
