//===- SelectKeep.cpp - which of a row can be among the largest ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SelectPattern.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace mlac::sm90nvvm;

using Values = ThreadCode::Values;
using Compare = arith::CmpIPredicate;

static constexpr float kInfinity = std::numeric_limits<float>::infinity();

namespace {
/// What sm90.select_keep and sm90.select_hold do.
class Keeper {
public:
  Keeper(Search &code, Array row, CandidateList list, int64_t rank)
      : code(code), b(code.b), row(row), list(list), rank(rank) {}
  /// How many of row[begin:end] were kept.
  Int keep(Int begin, Int end, Int length);
  /// How many of row[0:length] are numbers; all of it is in the list.
  Int hold(Int length);

private:
  Value findBound(Int length);
  Value sampleBound(Int length);
  Int rankOfSample(Int samples, Int length);
  Values loadChunk(Int chunk, Int end);
  void storeRange(Value low, Value high);
  void keepChunk(Int chunk, Value bound, ValueRange chunkValues);

  /// Values that a thread has in flight.
  static constexpr int64_t kChunk = 8;
  Search &code;
  ImplicitLocOpBuilder &b;
  Array row;
  CandidateList list;
  int64_t rank;
};
} // namespace

Value Keeper::findBound(Int length) {
  Value needsSample = code.isBelow(code.word(list.capacity), length);
  return code.ifElse(
      needsSample, b.getF32Type(), [&] { return Values{sampleBound(length)}; },
      [&] { return Values{code.number(-kInfinity)}; })[0];
}

/// As in Select.h.
Int Keeper::rankOfSample(Int samples, Int length) {
  auto toNumber = [&](Int count) -> Value {
    return arith::SIToFPOp::create(b, b.getF32Type(), count);
  };
  Value wanted = code.makeNumber<arith::MulFOp>(code.number(rank), toNumber(samples));
  Value expected = code.makeNumber<arith::DivFOp>(wanted, toNumber(length));
  Value deviation = math::SqrtOp::create(b, expected);
  Value margin = code.makeNumber<arith::MulFOp>(deviation, code.number(sm90::kSelectDeviations));
  margin = code.makeNumber<arith::AddFOp>(margin, code.number(sm90::kSelectMargin));
  Value likely = code.makeNumber<arith::AddFOp>(expected, margin);
  Int whole = code.cast<arith::FPToSIOp>(likely, b.getI32Type());
  return code.least(whole, samples);
}

/// The sample lies where the list will. Bins as long as outliers make them too wide.
Value Keeper::sampleBound(Int length) {
  int64_t few = code.threads * sm90::kSelectSamples, many = code.threads * sm90::kSelectLongSamples;
  Value isLong = code.isBelow(code.word(sm90::kSelectLongRow), length);
  Int samples = code.choose(isLong, code.word(many), code.word(few));
  // Runs of the sample are a power of two: no division by a run-time number, which is a call.
  auto logOfRuns = [](int64_t samples) { return llvm::Log2_64(samples / sm90::kSelectRun); };
  Int logRuns = code.choose(isLong, code.word(logOfRuns(many)), code.word(logOfRuns(few)));
  Int rowRuns = length / sm90::kSelectRun;
  int64_t step = code.threads * sm90::kSelectSamples;
  Values extremes =
      code.loop(code.word(0), samples, code.word(step),
                {code.number(kInfinity), code.number(-kInfinity)}, [&](Int base, ValueRange known) {
                  Value low = known[0], high = known[1];
                  for (int64_t j = 0; j < sm90::kSelectSamples; ++j) {
                    Int i = base + code.thread + j * code.threads;
                    Int run = code.widen(i / sm90::kSelectRun) * code.widen(rowRuns);
                    run = code.shiftRight(run, code.widen(logRuns));
                    Value value =
                        code.load(row, run * sm90::kSelectRun + code.widen(i % sm90::kSelectRun));
                    code.store(list.values, i, value);
                    low = code.lesser(low, value);
                    high = code.greater(high, value);
                  }
                  return Values{low, high};
                });
  auto [lowKey, highKey] = code.extremes(code.keyOf(extremes[0]), code.keyOf(extremes[1]));
  Value low = code.valueOf(lowKey), high = code.valueOf(highKey);
  Int wanted = rankOfSample(samples, length);
  constexpr int64_t turns = 3;
  constexpr int64_t fine = 64; // values in a bin
  SmallVector<Type> types = {b.getF32Type(), b.getF32Type(), b.getI32Type(), b.getI32Type()};
  Values found = code.loop(
      code.word(0), code.word(turns), code.word(1), {low, high, wanted, code.word(1)},
      [&](Int, ValueRange state) {
        Value low = state[0], high = state[1];
        Int need(b, state[2]);
        Bins bins(code, low, high);
        auto stay = [&] { return Values{low, high, need, code.word(0)}; };
        Value isOpen = code.both(bins.isValid, code.is(state[3], Compare::ne, code.word(0)));
        return code.ifElse(
            isOpen, types,
            [&] {
              code.eachOf(samples, [&](Int i) {
                Value value = code.load(list.values, i);
                Value isInside = code.both(code.isAtLeast(value, low), code.isAtLeast(high, value));
                code.ifThen(isInside,
                            [&] { code.add(code.part(0), bins.indexOf(value), code.word(1)); });
              });
              Search::Bin bin = code.findBin(need);
              return code.ifElse(
                  code.is(bin.total, Compare::uge, need), types,
                  [&] {
                    Value range = code.makeNumber<arith::SubFOp>(high, low);
                    Value width = code.makeNumber<arith::MulFOp>(
                        range, code.number(1.0f / sm90::kSelectBins));
                    auto edge = [&](Int index) -> Value {
                      Value steps = arith::SIToFPOp::create(b, b.getF32Type(), index);
                      Value distance = code.makeNumber<arith::MulFOp>(steps, width);
                      return code.makeNumber<arith::AddFOp>(low, distance);
                    };
                    Value isCoarse = code.isBelow(code.word(fine), bin.count);
                    return Values{edge(bin.index), edge(bin.index + 1), code.minus(need, bin.above),
                                  code.asWord(isCoarse)};
                  },
                  stay);
            },
            stay);
      });
  storeRange(found[0], high);
  code.barrier(); // the list may be written
  return found[0];
}

/// Outside of the part: NaN, which reaches no bound. Whole chunks are a branch of their own,
/// without any test.
Values Keeper::loadChunk(Int chunk, Int end) {
  SmallVector<Type> types(kChunk, b.getF32Type());
  Array own = {getElementAddress(b, row.base, row.type, code.widen(chunk + code.thread)), row.type};
  Value isWhole = code.is(chunk + kChunk * code.threads, Compare::sle, end);
  return code.ifElse(
      isWhole, types,
      [&] {
        Values values;
        for (int64_t j = 0; j < kChunk; ++j)
          values.push_back(code.load(own, code.word(j * code.threads)));
        return values;
      },
      [&] {
        Values values;
        Value nothing = code.number(std::numeric_limits<float>::quiet_NaN());
        for (int64_t j = 0; j < kChunk; ++j) {
          Int offset = code.word(j * code.threads);
          Value isThere = code.is(chunk + code.thread + offset, Compare::slt, end);
          values.push_back(code.ifElse(
              isThere, b.getF32Type(), [&] { return Values{code.load(own, offset)}; },
              [&] { return Values{nothing}; })[0]);
        }
        return values;
      });
}

/// One reservation for a warp's values of a chunk.
void Keeper::keepChunk(Int chunk, Value bound, ValueRange values) {
  SmallVector<Value> reaches;
  Int mine = code.word(0);
  for (Value value : values) {
    reaches.push_back(code.isAtLeast(value, bound));
    mine = mine + code.asWord(reaches.back());
  }
  Int upTo = code.sumUpTo(mine);
  Value isLast = code.is(code.lane, Compare::eq, code.word(kWarpThreads - 1));
  Value reserves = code.both(isLast, code.is(upTo, Compare::ne, code.word(0)));
  Int start(b,
            code.ifElse(
                reserves, b.getI32Type(),
                [&] { return Values{code.add(code.part(sm90::kSelectCount), code.word(0), upTo)}; },
                [&] { return Values{code.word(0)}; })[0]);
  Int place = code.ofLane(start, kWarpThreads - 1) + code.minus(upTo, mine);
  for (auto [j, value] : llvm::enumerate(values)) {
    Value isRoom = code.isBelow(place, code.word(list.capacity));
    code.ifThen(code.both(reaches[j], isRoom), [&] {
      code.store(list.values, place, value);
      Int position = chunk + code.thread + static_cast<int64_t>(j) * code.threads;
      code.store(list.positions, place, position);
    });
    place = place + code.asWord(reaches[j]);
  }
}

/// The first chunk is on its way while the row is sampled, the next one while one is looked at.
Int Keeper::keep(Int begin, Int end, Int length) {
  Int step = code.word(kChunk * code.threads);
  Values first = loadChunk(begin, end);
  Value bound = findBound(length);
  code.loop(begin, end, step, first, [&](Int chunk, ValueRange values) {
    Values next = loadChunk(chunk + step, end);
    keepChunk(chunk, bound, values);
    return next;
  });
  code.barrier();
  return code.loadFrom(sm90::kSelectCount);
}

/// Least and largest number are found on the way: the bins lie between them.
Int Keeper::hold(Int length) {
  Int zero = code.word(0);
  Values inits = {code.number(kInfinity), code.number(-kInfinity), zero};
  Values found = code.loop(
      zero, length, code.word(kChunk * code.threads), inits, [&](Int chunk, ValueRange known) {
        Value low = known[0], high = known[1];
        Int numbers(b, known[2]);
        for (auto [j, value] : llvm::enumerate(loadChunk(chunk, length))) {
          Int i = chunk + code.thread + static_cast<int64_t>(j) * code.threads;
          code.ifThen(code.isBelow(i, length), [&] { code.store(list.values, i, value); });
          low = code.lesser(low, value); // the other one where a value is NaN
          high = code.greater(high, value);
          numbers = numbers + code.asWord(code.isEqual(value, value));
        }
        return Values{low, high, numbers};
      });
  Int numbers = code.sumOfWarp(found[2]);
  code.ifThen(code.is(code.lane, Compare::eq, zero),
              [&] { code.add(code.part(sm90::kSelectCount), zero, numbers); });
  auto [low, high] = code.extremes(code.keyOf(found[0]), code.keyOf(found[1]));
  storeRange(code.valueOf(low), code.valueOf(high));
  return code.loadFrom(sm90::kSelectCount);
}

void Keeper::storeRange(Value low, Value high) {
  code.onThread(0, [&] {
    code.storeTo(sm90::kSelectRange, code.word(1));
    code.storeTo(sm90::kSelectRange + 1, code.bits(low));
    code.storeTo(sm90::kSelectRange + 2, code.bits(high));
  });
}

namespace {
struct SelectHold : public SelectPattern<sm90::SelectHoldOp> {
  using SelectPattern::SelectPattern;
  Results emit(Search &code, sm90::SelectHoldOp op, Adaptor adaptor) const override {
    ImplicitLocOpBuilder &b = code.b;
    Array row = getRow(code, op.getValues().getType(), adaptor.getValues(), adaptor.getRow()[0]);
    CandidateList list(code, op.getList().getType(), adaptor.getList()[0]);
    Keeper keeper(code, row, list, /*rank=*/0);
    return {keeper.hold(code.low(toI64(b, adaptor.getLength()[0])))};
  }
};

struct SelectKeep : public SelectPattern<sm90::SelectKeepOp> {
  using SelectPattern::SelectPattern;
  Results emit(Search &code, sm90::SelectKeepOp op, Adaptor adaptor) const override {
    ImplicitLocOpBuilder &b = code.b;
    Array row = getRow(code, op.getValues().getType(), adaptor.getValues(), adaptor.getRow()[0]);
    CandidateList list(code, op.getList().getType(), adaptor.getList()[0]);
    auto toWord = [&](ValueRange index) { return code.low(toI64(b, index[0])); };
    Keeper keeper(code, row, list, static_cast<int64_t>(op.getRank()));
    return {keeper.keep(toWord(adaptor.getBegin()), toWord(adaptor.getEnd()),
                        toWord(adaptor.getLength()))};
  }
};
} // namespace

void mlac::sm90nvvm::populateSelectKeepPatterns(const TypeConverter &converter,
                                                RewritePatternSet &patterns, const Kernel &kernel) {
  patterns.add<SelectHold, SelectKeep>(converter, patterns.getContext(), kernel);
}
