//===- TopK.cpp - the largest values of a row, by radix ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Values become unsigned keys in their order. Three passes over the row find the
// K-th largest key, 11, 11 and 10 bits at a time: each counts, in a table on the stack,
// the keys that begin with the bits found so far, and goes from the top of the table to
// where K is reached. A last pass writes the positions of the keys above it, and of as many
// that equal it as are missing, in order.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"

using namespace mlir;
using namespace mlac::tile_to_cpu;

using Predicate = arith::CmpIPredicate;

namespace mlac::tile_to_cpu {

class TopKLowering {
public:
  TopKLowering(KernelLowering &kernel, tile::TopKOp op);
  void lower();

private:
  /// The key found so far: its high bits, how many of the keys that begin with them are
  /// wanted.
  struct Found {
    Value key, wanted;
  };
  void countUp();
  void select();
  Found narrow(Found found, int64_t shift, int64_t bits);
  void writeFrom(Found threshold);
  void fill(Value from);
  Value keyAt(Value position);
  void writeAt(Value place, Value position);
  Value constant(int64_t value) {
    return arith::ConstantOp::create(e, e.loc, e.getI32IntegerAttr(static_cast<int32_t>(value)));
  }
  template <typename Op> Value make(Value a, Value b) { return Op::create(e, e.loc, a, b); }
  Value slot(Value table, Value index) { return e.advance(table, e.mul(index, kBytes)); }
  Value toI64(Value key) { return arith::ExtUIOp::create(e, e.loc, e.getI64Type(), key); }

  static constexpr int64_t kBytes = 4, kKeyBits = 32, kPassBits = 11;
  Emitter &e;
  Type i32;
  int64_t count;
  Value values, out, length, table;
};

} // namespace mlac::tile_to_cpu

TopKLowering::TopKLowering(KernelLowering &kernel, tile::TopKOp op)
    : e(kernel.e), i32(e.getI32Type()), count(op.getCount()) {
  View from = kernel.viewOf(op.getValues()), to = kernel.viewOf(op.getOut());
  Value row = kernel.scalar(op.getRow()), zero = e.i64(0);
  values = kernel.elementAddress(from, {row, zero});
  out = kernel.elementAddress(to, {row, zero});
  Value least = make<arith::MinSIOp>(kernel.scalar(op.getLength()), from.sizes.back());
  length = make<arith::MaxSIOp>(least, zero);
  table = kernel.allocate(kBytes << kPassBits);
}

/// NaN is 0, which no number is; both zeros are one key.
Value TopKLowering::keyAt(Value position) {
  Value bits = e.loadScalar(i32, slot(values, position));
  Value sign = constant(std::numeric_limits<int32_t>::min()), zero = constant(0);
  bits = e.select(e.compare(Predicate::eq, bits, sign), zero, bits);
  Value negative = e.compare(Predicate::slt, bits, zero);
  Value key = make<arith::XOrIOp>(bits, e.select(negative, constant(-1), sign));
  constexpr int64_t infinity = 0x7F800000;
  Value magnitude = make<arith::AndIOp>(bits, constant(std::numeric_limits<int32_t>::max()));
  return e.select(e.compare(Predicate::ugt, magnitude, constant(infinity)), zero, key);
}

void TopKLowering::writeAt(Value place, Value position) {
  e.storeScalar(arith::TruncIOp::create(e, e.loc, i32, position), slot(out, place));
}

void TopKLowering::fill(Value from) {
  auto rest = scf::ForOp::create(e, e.loc, from, e.i64(count), e.i64(1));
  OpBuilder::InsertionGuard guard(e);
  e.setInsertionPointToStart(rest.getBody());
  e.storeScalar(constant(-1), slot(out, rest.getInductionVar()));
}

/// A row of at most K values.
void TopKLowering::countUp() {
  e.loop(length, [&](Value i) { writeAt(i, i); });
  fill(length);
}

TopKLowering::Found TopKLowering::narrow(Found found, int64_t shift, int64_t bits) {
  e.zeroBytes(table, e.i64(kBytes << bits));
  int64_t above = shift + bits; // bits above them have been found
  Value mask = constant((int64_t(1) << bits) - 1), by = constant(shift);
  e.loop(length, [&](Value i) {
    Value key = keyAt(i);
    auto add = [&] {
      Value bin = make<arith::AndIOp>(make<arith::ShRUIOp>(key, by), mask);
      Value at = slot(table, toI64(bin));
      e.storeScalar(make<arith::AddIOp>(e.loadScalar(i32, at), constant(1)), at);
    };
    if (above == kKeyBits)
      return add();
    Value differs = make<arith::XOrIOp>(key, found.key);
    e.ifThen(e.compare(Predicate::ult, differs, constant(int64_t(1) << above)), add);
  });
  // From the top: the bin where `wanted` is reached, and how many are wanted of it.
  Type i64 = e.getI64Type();
  Value top = e.i64((int64_t(1) << bits) - 1);
  auto search = scf::WhileOp::create(e, e.loc, TypeRange{i64, i64}, ValueRange{top, found.wanted});
  OpBuilder::InsertionGuard guard(e);
  Block *before = e.createBlock(&search.getBefore(), {}, {i64, i64}, {e.loc, e.loc});
  Value bin = before->getArgument(0), wanted = before->getArgument(1);
  Value here = toI64(e.loadScalar(i32, slot(table, bin)));
  scf::ConditionOp::create(e, e.loc, e.compare(Predicate::slt, here, wanted),
                           ValueRange{bin, wanted});
  Block *after = e.createBlock(&search.getAfter(), {}, {i64, i64}, {e.loc, e.loc});
  bin = after->getArgument(0), wanted = after->getArgument(1);
  here = toI64(e.loadScalar(i32, slot(table, bin)));
  scf::YieldOp::create(e, e.loc, ValueRange{e.sub(bin, e.i64(1)), e.sub(wanted, here)});
  e.setInsertionPointAfter(search);
  Value digit = arith::TruncIOp::create(e, e.loc, i32, search.getResult(0));
  Value key = make<arith::OrIOp>(found.key, make<arith::ShLIOp>(digit, by));
  return {key, search.getResult(1)};
}

/// All keys above the threshold's, and the first `wanted` that equal it.
void TopKLowering::writeFrom(Found threshold) {
  auto loop = scf::ForOp::create(e, e.loc, e.i64(0), length, e.i64(1),
                                 ValueRange{e.i64(0), threshold.wanted});
  OpBuilder::InsertionGuard guard(e);
  e.setInsertionPointToStart(loop.getBody());
  Value position = loop.getInductionVar(), place = loop.getRegionIterArg(0),
        wanted = loop.getRegionIterArg(1);
  Value key = keyAt(position);
  Value isTie = e.both(e.compare(Predicate::eq, key, threshold.key),
                       e.compare(Predicate::sgt, wanted, e.i64(0)));
  Value isTaken = make<arith::OrIOp>(e.compare(Predicate::ugt, key, threshold.key), isTie);
  e.ifThen(isTaken, [&] { writeAt(place, position); });
  scf::YieldOp::create(e, e.loc,
                       ValueRange{e.add(place, toI64(isTaken)), e.sub(wanted, toI64(isTie))});
}

void TopKLowering::select() {
  Found found{constant(0), e.i64(count)};
  for (int64_t shift = kKeyBits; shift > 0;) {
    int64_t bits = std::min(shift, kPassBits);
    shift -= bits;
    found = narrow(found, shift, bits);
  }
  writeFrom(found);
}

void TopKLowering::lower() {
  e.ifThenElse(
      e.compare(Predicate::sle, length, e.i64(count)), [&] { countUp(); }, [&] { select(); });
}

/// Of the programs that have one row the first does it.
void KernelLowering::lowerTopK(tile::TopKOp op) {
  if (!op.getSlice())
    return TopKLowering(*this, op).lower();
  e.ifThen(e.compare(Predicate::eq, scalar(op.getSlice()), e.i64(0)),
           [&] { TopKLowering(*this, op).lower(); });
}
