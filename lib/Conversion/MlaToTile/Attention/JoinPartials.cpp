//===- JoinPartials.cpp - joining partials by their LSE ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Attention/JoinPartials.h"

#include <limits>

using namespace mlir;
using namespace mlac::mla_to_tile;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

Value mlac::mla_to_tile::unifyEmpty(KernelBuilder &b, Value lse) {
  return b.select(b.equals(b.absf(lse), kInfinity), b.like(lse, -kInfinity), lse);
}

Value mlac::mla_to_tile::maskLse(KernelBuilder &b, Value lse, Value position, Value count) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(lse.getType()).getShape();
  Value isThere =
      arith::CmpIOp::create(b, arith::CmpIPredicate::slt, position, b.splat(b.toI32(count), shape));
  return b.select(isThere, lse, b.like(lse, -kInfinity));
}

Value mlac::mla_to_tile::referenceOf(KernelBuilder &b, Value maximum) {
  return b.select(b.equals(maximum, -kInfinity), b.like(maximum, 0), maximum);
}

Value mlac::mla_to_tile::joinedLse(KernelBuilder &b, Value reference, Value sum) {
  Value lse = b.addf(reference, b.log(sum));
  return b.select(b.equals(sum, 0), b.like(lse, -kInfinity), lse);
}

Value mlac::mla_to_tile::weigh(KernelBuilder &b, Value output, Value weight, Value factor) {
  int64_t columns = cast<RankedTensorType>(output.getType()).getDimSize(1);
  Value isEmpty = b.equals(b.broadcast(weight, columns), 0);
  return b.select(isEmpty, b.like(output, 0), b.mulf(output, b.broadcast(factor, columns)));
}

//===----------------------------------------------------------------------===//
// Merge of many, in turns
//===----------------------------------------------------------------------===//

namespace {

/// Some partials, loaded together.
struct Turn {
  SmallVector<Value> lses, outputs;
};

} // namespace

Value mlac::mla_to_tile::normalise(KernelBuilder &b, Value output, Value sum) {
  Value divisor = b.select(b.equals(sum, 0), b.like(sum, 1), sum);
  auto type = cast<RankedTensorType>(output.getType());
  return b.divf(output, type.getRank() == 2 ? b.broadcast(divisor, type.getDimSize(1)) : divisor);
}

/// Partials `first` to `first + pieces`. Those behind the last are read from views
/// without rows, as 0, and are empty. No load waits for another one's result.
static Turn loadTurn(KernelBuilder &b, Value first, int64_t pieces, const Partials &partials) {
  SmallVector<Value> indices = {first}, rows = {partials.rows};
  for (int64_t k = 1; k < pieces; ++k) {
    indices.push_back(b.add(first, k));
    rows.push_back(b.choose(b.isBelow(indices.back(), partials.count), partials.rows, b.index(0)));
  }
  Turn turn;
  for (auto [index, count] : llvm::zip_equal(indices, rows))
    turn.lses.push_back(partials.lse(index, count));
  for (auto [index, count] : llvm::zip_equal(indices, rows))
    turn.outputs.push_back(partials.output(index, count));
  for (auto [k, lse] : llvm::enumerate(turn.lses)) {
    lse = unifyEmpty(b, lse);
    ArrayRef<int64_t> shape = cast<RankedTensorType>(lse.getType()).getShape();
    if (k > 0) // a turn has a first partial
      lse = maskLse(b, lse, b.constantI32(shape, static_cast<int32_t>(k)),
                    b.sub(partials.count, first));
  }
  return turn;
}

JoinState mlac::mla_to_tile::joinNone(KernelBuilder &b, int64_t rows, int64_t columns) {
  return {b.constant({rows}, -kInfinity), b.constant({rows}, 0), b.constant({rows, columns}, 0)};
}

JoinState mlac::mla_to_tile::joinOne(KernelBuilder &b, Value lse, Value output) {
  int64_t columns = cast<RankedTensorType>(output.getType()).getDimSize(1);
  Value weight = b.select(b.equals(lse, -kInfinity), b.like(lse, 0), b.like(lse, 1));
  Value isEmpty = b.equals(b.broadcast(weight, columns), 0);
  return {lse, weight, b.select(isEmpty, b.like(output, 0), output)};
}

JoinState mlac::mla_to_tile::joinInTurns(KernelBuilder &b, const JoinState &state, Value first,
                                         int64_t pieces, const Partials &partials) {
  auto join = [&](Value index, ValueRange before) -> SmallVector<Value> {
    Turn turn = loadTurn(b, index, pieces, partials);
    Value largest = turn.lses.front();
    for (Value lse : llvm::drop_begin(turn.lses))
      largest = b.maxf(largest, lse);
    Value maximum = b.maxf(before[0], largest);
    Value reference = referenceOf(b, maximum);
    Value factor = b.exp(b.subf(before[0], reference));
    Value sum = b.mulf(before[1], factor), output = weigh(b, before[2], factor, factor);
    for (auto [lse, tile] : llvm::zip_equal(turn.lses, turn.outputs)) {
      Value weight = b.exp(b.subf(lse, reference));
      sum = b.addf(sum, weight);
      output = b.addf(output, weigh(b, tile, weight, weight));
    }
    return {maximum, sum, output};
  };
  SmallVector<Value> total = b.loop(first, partials.count, b.index(pieces),
                                    {state.maximum, state.sum, state.output}, join);
  return {total[0], total[1], total[2]};
}

Joined mlac::mla_to_tile::finishJoin(KernelBuilder &b, const JoinState &state) {
  return {normalise(b, state.output, state.sum), referenceOf(b, state.maximum), state.sum};
}
