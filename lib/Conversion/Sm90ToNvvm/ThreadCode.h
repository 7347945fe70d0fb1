//===- ThreadCode.h - what single threads compute ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Scalar code of the threads of a CTA: arithmetic, loops, shared words, what warps do together.
// Words are i32 and unsigned where it matters.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_LIB_CONVERSION_SM90TONVVM_THREADCODE_H
#define MLA_LIB_CONVERSION_SM90TONVVM_THREADCODE_H

#include "Lowering.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace mlac::sm90nvvm {

/// Elements of one type in shared or global memory.
struct Array {
  Value base;
  Type type;
};

class ThreadCode {
public:
  using Values = llvm::SmallVector<Value>;
  using Compare = mlir::arith::CmpIPredicate;

  ThreadCode(ImplicitLocOpBuilder &b, const Kernel &kernel);

  ImplicitLocOpBuilder &b;
  const Kernel &kernel;
  int64_t threads;
  Int thread, lane, warp;

  // Numbers.
  Int word(int64_t value) { return constant32(b, value); }
  Value number(float value);
  Int minus(Value left, Value right) { return make<mlir::arith::SubIOp>(left, right); }
  Int both(Value left, Value right) { return make<mlir::arith::AndIOp>(left, right); }
  Int either(Value left, Value right) { return make<mlir::arith::OrIOp>(left, right); }
  Int invert(Value value) { return make<mlir::arith::XOrIOp>(value, word(-1)); }
  Int shiftLeft(Value value, Value by) { return make<mlir::arith::ShLIOp>(value, by); }
  Int shiftRight(Value value, Value by) { return make<mlir::arith::ShRUIOp>(value, by); }
  Int least(Value left, Value right) { return make<mlir::arith::MinUIOp>(left, right); }
  Int most(Value left, Value right) { return make<mlir::arith::MaxUIOp>(left, right); }
  Value is(Value left, Compare predicate, Value right) {
    return compare(b, predicate, left, right);
  }
  Value isBelow(Value left, Value right) { return is(left, Compare::ult, right); }
  Int choose(Value condition, Value left, Value right) {
    return Int(b, mlir::arith::SelectOp::create(b, condition, left, right));
  }
  Int asWord(Value condition) { return cast<mlir::arith::ExtUIOp>(condition, b.getI32Type()); }
  /// i32 to i64 without a sign, and the low word of an i64.
  Int widen(Value value) { return cast<mlir::arith::ExtUIOp>(value, b.getI64Type()); }
  Int low(Value value) { return cast<mlir::arith::TruncIOp>(value, b.getI32Type()); }
  Int bits(Value number) { return cast<mlir::arith::BitcastOp>(number, b.getI32Type()); }
  Value fromBits(Value word) { return cast<mlir::arith::BitcastOp>(word, b.getF32Type()); }
  Int countBits(Value value);
  Int leadingZeros(Value value);
  /// Ordered: false for NaN.
  Value isAtLeast(Value left, Value right);
  Value isEqual(Value left, Value right);
  Value lesser(Value left, Value right);
  Value greater(Value left, Value right);
  template <typename Op> Int make(Value left, Value right) {
    return Int(b, b.createOrFold<Op>(left, right));
  }
  template <typename Op> Value makeNumber(Value left, Value right) {
    return Op::create(b, left, right);
  }
  template <typename Op> Int cast(Value value, Type type) {
    return Int(b, Op::create(b, type, value));
  }

  // Control flow. Bodies get the counter and the carried values, and return the next.
  Values loop(Value from, Value to, Value step, ValueRange inits,
              llvm::function_ref<Values(Int, ValueRange)> body);
  void loop(Value from, Value to, Value step, llvm::function_ref<void(Int)> body);
  /// i = thread, thread + threads, ...
  void eachOf(Value count, llvm::function_ref<void(Int)> body) {
    loop(thread, count, word(threads), body);
  }
  Values eachOf(Value count, ValueRange inits, llvm::function_ref<Values(Int, ValueRange)> body);
  /// Counters at which all lanes of a warp are there; `body` checks those at and above the count.
  void eachWarpOf(Value count, llvm::function_ref<void(Int)> body);
  void ifThen(Value condition, llvm::function_ref<void()> body) { emitIf(b, condition, body); }
  Values ifElse(Value condition, mlir::TypeRange types, llvm::function_ref<Values()> then,
                llvm::function_ref<Values()> otherwise);
  void onThread(int64_t number, llvm::function_ref<void()> body) {
    ifThen(is(thread, Compare::eq, word(number)), body);
  }
  void barrier() { emitBarrier(b, kernel); }

  // Memory.
  Array shared(Value tile, Type type, int64_t firstElement = 0);
  Value load(const Array &array, Value index);
  Int loadWord(const Array &array, Value index) { return Int(b, load(array, index)); }
  void store(const Array &array, Value index, Value value);
  /// What was there before.
  Int add(const Array &array, Value index, Value value);
  void orInto(const Array &array, Value index, Value value);
  /// Four words from `index`, a multiple of four.
  Values loadFour(const Array &array, Value index);
  void storeFourZeros(const Array &array, Value index);

  // Warps.
  Int sumOfWarp(Value value) { return reduce(value, mlir::NVVM::ReduxKind::ADD); }
  Int leastOfWarp(Value value) { return reduce(value, mlir::NVVM::ReduxKind::UMIN); }
  Int mostOfWarp(Value value) { return reduce(value, mlir::NVVM::ReduxKind::UMAX); }
  /// Bit l: of lane l.
  Int ballot(Value condition);
  /// Sum over this lane and those before it.
  Int sumUpTo(Value value);
  Int ofLane(Value value, int64_t lane);

private:
  Int reduce(Value value, mlir::NVVM::ReduxKind kind);
  Int shuffle(Value value, Value by, mlir::NVVM::ShflKind kind);
  Value addressOf(const Array &array, Value index);
};

} // namespace mlac::sm90nvvm

#endif // MLA_LIB_CONVERSION_SM90TONVVM_THREADCODE_H
