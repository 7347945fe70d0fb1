//===- Bits.cpp - numbers as bits of words, and back ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"

#include "mla/Dialect/Tile/Utils/KernelBuilder.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::tile_to_cpu;

using Predicate = arith::CmpIPredicate;

static constexpr int64_t kWordKeys = tile::AttendOp::kWordKeys;

void KernelLowering::lowerSetBits(tile::SetBitsOp op) {
  constexpr int64_t wordBytes = 4;
  View from = viewOf(op.getList()), to = viewOf(op.getOut());
  Value row = scalar(op.getRow()), first = scalar(op.getFirst()), zero = e.i64(0),
        words = to.sizes.back();
  Value list = elementAddress(from, {row, zero}), out = elementAddress(to, {row, zero});
  Type word = e.getI32Type(), wide = e.getI64Type();
  e.zeroBytes(out, e.mul(words, e.i64(wordBytes)));
  e.loop(from.sizes.back(), [&](Value i) {
    Value entry = e.loadScalar(word, e.advance(list, e.mul(i, e.i64(wordBytes))));
    Value position = e.sub(arith::ExtSIOp::create(e, e.loc, wide, entry), first);
    Value isThere = e.both(e.compare(Predicate::sge, position, zero),
                           e.compare(Predicate::slt, position, e.mul(words, e.i64(kWordKeys))));
    e.ifThen(isThere, [&] {
      Value number = arith::DivUIOp::create(e, e.loc, position, e.i64(kWordKeys));
      Value bit = arith::RemUIOp::create(e, e.loc, position, e.i64(kWordKeys));
      Value one = arith::ConstantOp::create(e, e.loc, e.getI32IntegerAttr(1));
      Value at = e.advance(out, e.mul(number, e.i64(wordBytes)));
      Value mask =
          arith::ShLIOp::create(e, e.loc, one, arith::TruncIOp::create(e, e.loc, word, bit));
      e.storeScalar(arith::OrIOp::create(e, e.loc, e.loadScalar(word, at), mask), at);
    });
  });
}

/// The word of each column by its number, shifted to the column's bit.
static Value expand(tile::TestBitsOp op) {
  KernelBuilder b(op);
  ArrayRef<int64_t> shape = op.getType().getShape();
  auto constant = [&](int64_t value) { return b.constantI32(shape, static_cast<int32_t>(value)); };
  Value column = b.iota(1, shape), words;
  for (auto [index, word] : llvm::enumerate(op.getWords())) {
    Value own = b.broadcast(word, shape[1]);
    auto first = static_cast<int64_t>(index) * kWordKeys;
    words = words ? b.select(arith::CmpIOp::create(b, Predicate::slt, column, constant(first)),
                             words, own)
                  : own;
  }
  Value bit = arith::AndIOp::create(b, column, constant(kWordKeys - 1));
  Value shifted = arith::ShRUIOp::create(b, words, bit);
  Value isSet = arith::AndIOp::create(b, shifted, constant(1));
  return arith::CmpIOp::create(b, Predicate::ne, isSet, constant(0));
}

void mlac::tile_to_cpu::expandTestBits(tile::KernelOp kernel) {
  kernel.walk([](tile::TestBitsOp op) {
    op.replaceAllUsesWith(expand(op));
    op.erase();
  });
}
