//===- Search.cpp - the K-th largest of many keys, by a CTA ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Search.h"

#include <limits>

using namespace mlir;
using namespace mlir::sm90;
using namespace mlac::sm90nvvm;

static constexpr int64_t kSign = std::numeric_limits<int32_t>::min();
/// The float whose unit in the last place is 1.
static constexpr float kFirstBin = 8388608;

Search::Search(ImplicitLocOpBuilder &b, const Kernel &kernel, Value work)
    : ThreadCode(b, kernel), work(work) {}

Array mlac::sm90nvvm::getRow(ThreadCode &code, Type type, ValueRange parts, Value row) {
  View view = getView(code.b, cast<MemRefType>(type), parts);
  Int first = Int(code.b, view.offset) + toI64(code.b, row) * Int(code.b, view.strides[0]);
  return {getElementAddress(code.b, view.base, view.elementType, first), view.elementType};
}

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

Int Search::keyOf(Value value) {
  Int word32 = bits(makeNumber<arith::AddFOp>(value, number(0))); // -0 becomes +0
  Value isNegative = is(word32, Compare::slt, word(0));
  Int key = make<arith::XOrIOp>(word32, choose(isNegative, word(-1), word(kSign)));
  Value isNan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, value, value);
  return choose(isNan, word(0), key);
}

Value Search::valueOf(Int key) {
  Value isNegative = is(key, Compare::sge, word(0));
  return fromBits(make<arith::XOrIOp>(key, choose(isNegative, word(-1), word(kSign))));
}

//===----------------------------------------------------------------------===//
// Over all threads
//===----------------------------------------------------------------------===//

Int Search::scan(Int value, Int &total) {
  Array sums = part(kSelectSums);
  Int upTo = sumUpTo(value);
  ifThen(is(lane, Compare::eq, word(kWarpThreads - 1)), [&] { store(sums, warp, upTo); });
  barrier();
  int64_t warps = threads / kWarpThreads;
  Int ofWarp = loadWord(sums, lane); // there are words for 32 warps
  ofWarp = choose(isBelow(lane, word(warps)), ofWarp, word(0));
  total = sumOfWarp(ofWarp);
  Int before = sumOfWarp(choose(isBelow(lane, warp), ofWarp, word(0)));
  return before + minus(upTo, value);
}

std::pair<Int, Int> Search::extremes(Int low, Int high) {
  Array lows = part(kSelectLow), highs = part(kSelectHigh);
  low = leastOfWarp(low);
  high = mostOfWarp(high);
  ifThen(is(lane, Compare::eq, word(0)), [&] {
    store(lows, warp, low);
    store(highs, warp, high);
  });
  barrier();
  Value isWarp = isBelow(lane, word(threads / kWarpThreads));
  return {leastOfWarp(choose(isWarp, loadWord(lows, lane), word(-1))),
          mostOfWarp(choose(isWarp, loadWord(highs, lane), word(0)))};
}

//===----------------------------------------------------------------------===//
// The histogram
//===----------------------------------------------------------------------===//

/// Bins of a thread, and the warps that have some.
static constexpr int64_t kBinsOfThread = 8;
static constexpr int64_t kBinWarps = kSelectBins / kBinsOfThread / kWarpThreads;

/// From the top downwards.
Search::Bin Search::findBin(Int need) {
  barrier();
  Array histogram = part(0), sums = part(kSelectSums), found = part(kSelectFound);
  Value searches = isBelow(warp, word(kBinWarps));
  SmallVector<Type> types(kBinsOfThread + 2, b.getI32Type());
  Values state = ifElse(
      searches, types,
      [&] {
        Int at = minus(word(kSelectBins - kBinsOfThread), thread * kBinsOfThread);
        Values counts = loadFour(histogram, at);
        llvm::append_range(counts, loadFour(histogram, at + 4));
        std::reverse(counts.begin(), counts.end());
        storeFourZeros(histogram, at);
        storeFourZeros(histogram, at + 4);
        Int sum = word(0);
        for (Value count : counts)
          sum = sum + Int(b, count);
        Int upTo = sumUpTo(sum);
        ifThen(is(lane, Compare::eq, word(kWarpThreads - 1)), [&] { store(sums, warp, upTo); });
        counts.append({sum, minus(upTo, sum)});
        return counts;
      },
      [&] { return Values(types.size(), word(0)); });
  barrier();
  ifThen(searches, [&] {
    Int sum(b, state[kBinsOfThread]), before(b, state[kBinsOfThread + 1]), total = word(0);
    for (int64_t i = 0; i < kBinWarps; ++i) {
      Int ofWarp = loadWord(sums, word(i));
      before = before + choose(isBelow(word(i), warp), ofWarp, word(0));
      total = total + ofWarp;
    }
    onThread(0, [&] { store(found, word(3), total); });
    auto reaches = [&](Int from, Int count) {
      return both(isBelow(from, need), is(need, Compare::ule, from + count));
    };
    ifThen(reaches(before, sum), [&] {
      for (int64_t i = 0; i < kBinsOfThread; ++i) {
        Int count(b, state[i]);
        ifThen(reaches(before, count), [&] {
          store(found, word(0), minus(word(kSelectBins - 1 - i), thread * kBinsOfThread));
          store(found, word(1), before);
          store(found, word(2), count);
        });
        before = before + count;
      }
    });
  });
  barrier();
  return {loadWord(found, word(0)), loadWord(found, word(1)), loadWord(found, word(2)),
          loadWord(found, word(3))};
}

//===----------------------------------------------------------------------===//
// Exact
//===----------------------------------------------------------------------===//

/// One pass for each 11 bits of what is open; those that are not needed are skipped by all threads.
Search::Threshold Search::selectByRadix(KeyAt keyAt, Int count, Int need, Int base, Int bits) {
  constexpr int64_t passes = 3; // of 32 bits
  Array histogram = part(0);
  SmallVector<Type> types(4, b.getI32Type());
  Values found =
      loop(word(0), word(passes), word(1), {base, need, bits, word(0)}, [&](Int, ValueRange state) {
        Int base(b, state[0]), need(b, state[1]), bits(b, state[2]), ties(b, state[3]);
        Value isOpen = both(is(bits, Compare::ne, word(0)), is(ties, Compare::ne, need));
        return ifElse(
            isOpen, types,
            [&] {
              Int shift = choose(isBelow(word(kSelectBinBits), bits),
                                 minus(bits, word(kSelectBinBits)), word(0));
              Int last = shiftRight(word(-1), minus(word(32), bits));
              eachOf(count, [&](Int i) {
                Candidate candidate = keyAt(i);
                Int offset = minus(candidate.key, base);
                Value isInside = is(offset, Compare::ule, last);
                ifThen(both(candidate.counts, isInside),
                       [&] { add(histogram, shiftRight(offset, shift), word(1)); });
              });
              Bin bin = findBin(need);
              return Values{base + shiftLeft(bin.index, shift), minus(need, bin.above), shift,
                            bin.count};
            },
            [&] { return Values(state.begin(), state.end()); });
      });
  return {Int(b, found[0]), Int(b, found[1]), Int(b, found[3])};
}

Search::Threshold Search::selectBetween(KeyAt keyAt, Int count, Int need, Int low, Int high) {
  Int bits = minus(word(32), leadingZeros(either(minus(high, low), word(1))));
  return selectByRadix(keyAt, count, need, low, bits);
}

Search::Threshold Search::selectFew(Int need, Int count) {
  Array few = part(kSelectFewKeys), threshold = part(kSelectThreshold);
  barrier();
  ifThen(is(warp, Compare::eq, word(0)), [&] {
    Int mine = loadWord(few, lane);
    Values counts = loop(word(0), count, word(1), {word(0), word(0)}, [&](Int i, ValueRange sums) {
      Int other = loadWord(few, i);
      return Values{Int(b, sums[0]) + asWord(isBelow(mine, other)),
                    Int(b, sums[1]) + asWord(is(mine, Compare::eq, other))};
    });
    Int greater(b, counts[0]), equal(b, counts[1]);
    Value isIt = both(isBelow(lane, count),
                      both(isBelow(greater, need), is(need, Compare::ule, greater + equal)));
    ifThen(isIt, [&] { // equal keys write the same
      store(threshold, word(0), mine);
      store(threshold, word(1), minus(need, greater));
      store(threshold, word(2), equal);
    });
  });
  barrier();
  return {loadWord(threshold, word(0)), loadWord(threshold, word(1)), loadWord(threshold, word(2))};
}

//===----------------------------------------------------------------------===//
// Bins
//===----------------------------------------------------------------------===//

Bins::Bins(Search &code, Value low, Value high) : code(code), low(low) {
  Value range = code.makeNumber<arith::SubFOp>(high, low);
  scale = code.makeNumber<arith::DivFOp>(code.number(kSelectBins), range);
  Value most = code.number(std::numeric_limits<float>::max());
  Value isRange = arith::CmpFOp::create(code.b, arith::CmpFPredicate::OGT, range, code.number(0));
  isValid = code.both(isRange, code.both(code.isAtLeast(most, range), code.isAtLeast(most, scale)));
}

Value Bins::of(Value value) {
  Value distance = code.makeNumber<arith::SubFOp>(value, low);
  Value place = LLVM::FMAOp::create(code.b, distance, scale, code.number(kFirstBin));
  return code.lesser(place, code.number(kFirstBin + (kSelectBins - 1)));
}

Int Bins::indexOf(Value value) {
  return code.minus(code.bits(of(value)), code.bits(code.number(kFirstBin)));
}

Value Bins::numberOf(Int index) { return code.fromBits(index + code.bits(code.number(kFirstBin))); }
