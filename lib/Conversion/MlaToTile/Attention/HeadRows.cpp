//===- HeadRows.cpp - keys and values of heads in a paged pool ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Attention/HeadRows.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;
using cache::Part;

HeadRows HeadRows::add(StepLowering &step, mla::GroupedAttentionOp op,
                       TypedValue<mla::CacheType> cache, Part part,
                       SmallVectorImpl<Value> &planArgs) {
  HeadRows rows{Pool::ofPlan(step, cache), static_cast<unsigned>(planArgs.size())};
  llvm::append_range(planArgs, rows.pool.args());
  rows.columns = rows.pool.width(part) * op.getGroup() / op.getHeads();
  return rows;
}

Value HeadRows::view(KernelBuilder &b, ValueRange args, Part part, Value head) const {
  Pool inner = pool.inKernel(args.drop_front(firstArg));
  OpFoldResult first = head ? OpFoldResult(b.mul(head, columns)) : b.fixed(0);
  return inner.view(b, part, first, columns);
}

Value HeadRows::getScales(ValueRange args) const {
  return pool.inKernel(args.drop_front(firstArg)).layerScales;
}

bool mlac::mla_to_tile::haveAlignedRows(Value query) {
  return query.getDefiningOp<mla::GroupedAppendOp>() &&
         llvm::all_of(query.getUsers(),
                      [](Operation *user) { return isa<mla::GroupedAttentionOp>(user); });
}

SmallVector<Value> mlac::mla_to_tile::startFromSink(KernelBuilder &b, Value sink, Value isIn,
                                                    int64_t columns) {
  int64_t rows = cast<RankedTensorType>(sink.getType()).getDimSize(0);
  Value lowest = b.like(sink, tile::AttendOp::kStartReference);
  Value score = b.mulf(sink, b.like(sink, llvm::numbers::log2e));
  // NaN stays, whichever side of the bounds it is compared with.
  auto choose = [&](arith::CmpFPredicate predicate, Value bound, Value of) {
    return b.select(arith::CmpFOp::create(b, predicate, of, bound), bound, of);
  };
  score = choose(arith::CmpFPredicate::OLT, lowest, score);
  score = choose(arith::CmpFPredicate::OGT, b.like(sink, -tile::AttendOp::kStartReference), score);
  if (isIn)
    score = b.select(isIn, score, lowest);
  Value isThere = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, score, lowest);
  Value weight = b.select(isThere, b.like(sink, 1), b.like(sink, 0));
  return {score, weight, b.constant({rows, columns}, 0)};
}
