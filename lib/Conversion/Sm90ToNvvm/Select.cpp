//===- Select.cpp - the steps of a selection ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How sm90.select_* search: where the largest end, and where they go.
//
//===----------------------------------------------------------------------===//

#include "SelectPattern.h"

#include <limits>

using namespace mlir;
using namespace mlac::sm90nvvm;

using Values = ThreadCode::Values;
using Compare = arith::CmpIPredicate;

static constexpr float kInfinity = std::numeric_limits<float>::infinity();

//===----------------------------------------------------------------------===//
// Beginning, and rows that are selected whole
//===----------------------------------------------------------------------===//

namespace {
struct SelectBegin : public SelectPattern<sm90::SelectBeginOp> {
  using SelectPattern::SelectPattern;
  Results emit(Search &code, sm90::SelectBeginOp op, Adaptor adaptor) const override {
    code.eachOf(code.word(sm90::kSelectWorkWords / 4),
                [&](Int i) { code.storeFourZeros(code.part(0), i * 4); });
    return {};
  }
};

struct SelectCountUp : public SelectPattern<sm90::SelectCountUpOp> {
  using SelectPattern::SelectPattern;
  Results emit(ThreadCode &code, sm90::SelectCountUpOp op, Adaptor adaptor) const override {
    ImplicitLocOpBuilder &b = code.b;
    Array out = getRow(code, op.getOut().getType(), adaptor.getOut(), adaptor.getRow()[0]);
    Int length = code.low(toI64(b, adaptor.getLength()[0]));
    code.eachOf(code.word(op.getOut().getType().getDimSize(1)), [&](Int i) {
      Value isThere = code.is(i, Compare::slt, length);
      code.store(out, i, code.choose(isThere, i, code.word(-1)));
    });
    return {};
  }
};
} // namespace

namespace {
/// Words are put together in shared memory, where any thread may set a bit of any.
struct SetBits : public SelectPattern<sm90::SetBitsOp> {
  using SelectPattern::SelectPattern;
  static constexpr int64_t kFour = 4, kFourShift = 2, kWordBits = 32, kShift = 5;

  /// Whether rows begin at a multiple of four words and are as long.
  static bool isOfFours(MemRefType list) {
    auto [strides, offset] = list.getStridesAndOffset();
    auto isMultiple = [](int64_t number) {
      return !ShapedType::isDynamic(number) && number % kFour == 0;
    };
    return isMultiple(list.getDimSize(1)) && isMultiple(strides[0]) && isMultiple(offset);
  }

  Results emit(Search &code, sm90::SetBitsOp op, Adaptor adaptor) const override {
    ImplicitLocOpBuilder &b = code.b;
    Value row = adaptor.getRow()[0];
    Array list = getRow(code, op.getList().getType(), adaptor.getList(), row);
    Array out = getRow(code, op.getOut().getType(), adaptor.getOut(), row);
    Int words = code.low(getView(b, op.getOut().getType(), adaptor.getOut()).sizes[1]);
    int64_t count = op.getList().getType().getDimSize(1);
    int64_t room = cast<sm90::SmemType>(op.getWork().getType()).getColumns();
    Array work = code.shared(adaptor.getWork()[0], b.getI32Type());
    Int first = code.low(toI64(b, adaptor.getFirst()[0]));
    auto set = [&](Int base, Int here, Int number) {
      // Of what is below the first a word far behind the last.
      Int position = code.minus(number, first);
      Int word = code.minus(code.shiftRight(position, code.word(kShift)), base);
      code.ifThen(code.isBelow(word, here), [&] {
        Int bit = code.both(position, code.word(kWordBits - 1));
        code.orInto(work, word, code.shiftLeft(code.word(1), bit));
      });
    };
    bool areFours = isOfFours(op.getList().getType());
    code.loop(code.word(0), words, code.word(room), [&](Int base) {
      Int here = code.least(code.minus(words, base), code.word(room));
      Int fours = code.shiftRight(here + (kFour - 1), code.word(kFourShift));
      code.eachOf(fours, [&](Int i) { code.storeFourZeros(work, i * kFour); });
      code.barrier();
      code.eachOf(code.word(areFours ? count / kFour : count), [&](Int i) {
        if (!areFours)
          return set(base, here, code.loadWord(list, i));
        for (Value position : code.loadFour(list, i * kFour))
          set(base, here, Int(b, position));
      });
      code.barrier();
      code.eachOf(here, [&](Int i) { code.store(out, base + i, code.load(work, i)); });
      code.barrier();
    });
    return {};
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Several CTAs
//===----------------------------------------------------------------------===//

namespace {
struct SelectMeet : public SelectPattern<sm90::SelectMeetOp> {
  using SelectPattern::SelectPattern;
  Results emit(Search &code, sm90::SelectMeetOp op, Adaptor adaptor) const override {
    ImplicitLocOpBuilder &b = code.b;
    CandidateList list(code, op.getList().getType(), adaptor.getList()[0]);
    Value row = adaptor.getRow()[0];
    Array values = getRow(code, op.getLists().getType(), adaptor.getLists(), row);
    Array positions = {getElementAddress(b, values.base, values.type, code.word(list.capacity)),
                       b.getI32Type()};
    Counters counters{code, op, adaptor.getCounters(), toI64(b, row) * 2};
    Int count(b, adaptor.getCount()[0]), programs = code.low(toI64(b, adaptor.getPrograms()[0]));

    Int start = counters.add(0, count, LLVM::AtomicOrdering::monotonic);
    Value isRoom = code.is(start + count, Compare::ule, code.word(list.capacity));
    code.eachOf(code.choose(isRoom, count, code.word(0)), [&](Int i) {
      code.store(values, start + i, code.load(list.values, i));
      code.store(positions, start + i, code.load(list.positions, i));
    });
    // Whoever sees this CTA's arrival sees its candidates.
    code.barrier();
    Int arrived = counters.add(1, code.word(1), LLVM::AtomicOrdering::acq_rel);
    Value isLast = code.is(arrived + 1, Compare::eq, programs);
    Values total = code.ifElse(
        isLast, b.getI32Type(),
        [&] {
          Int total = counters.takeAll();
          code.eachOf(code.least(total, code.word(list.capacity)), [&](Int i) {
            code.store(list.values, i, code.load(values, i));
            code.store(list.positions, i, code.load(positions, i));
          });
          return Values{total};
        },
        [&] { return Values{count}; });
    return {isLast, total[0]};
  }

private:
  /// The two counters of a row: candidates, arrivals. One thread counts and tells the others.
  struct Counters {
    Counters(Search &code, sm90::SelectMeetOp op, ValueRange parts, Int first)
        : code(code), b(code.b), first(first),
          view(getView(b, cast<MemRefType>(op.getCounters().getType()), parts)) {}
    Value addressOf(int64_t number) {
      Int element = Int(b, view.offset) + (first + number) * Int(b, view.strides[0]);
      return getElementAddress(b, view.base, view.elementType, element);
    }
    Int update(LLVM::AtomicBinOp what, int64_t number, Value by, LLVM::AtomicOrdering order) {
      return Int(b, LLVM::AtomicRMWOp::create(b, what, addressOf(number), by, order, kScope));
    }
    Int tell(llvm::function_ref<Int()> compute, int64_t place) {
      code.onThread(0, [&] { code.storeTo(sm90::kSelectFound + place, compute()); });
      code.barrier();
      return code.loadFrom(sm90::kSelectFound + place);
    }
    Int add(int64_t number, Value by, LLVM::AtomicOrdering order) {
      return tell([&] { return update(LLVM::AtomicBinOp::add, number, by, order); }, number);
    }
    /// All candidates; both counters are zeros again.
    Int takeAll() {
      return tell(
          [&] {
            auto relaxed = LLVM::AtomicOrdering::monotonic;
            update(LLVM::AtomicBinOp::xchg, 1, code.word(0), relaxed);
            return update(LLVM::AtomicBinOp::xchg, 0, code.word(0), relaxed);
          },
          2);
    }

    static constexpr StringLiteral kScope = "device";
    Search &code;
    ImplicitLocOpBuilder &b;
    Int first;
    View view;
  };
};
} // namespace

//===----------------------------------------------------------------------===//
// Where the largest end
//===----------------------------------------------------------------------===//

/// Of equal keys the first positions: where they end. Positions are searched inverted.
static Int cutTies(Search &code, Search::Threshold threshold, Int count,
                   llvm::function_ref<Int(Int)> keyAt, llvm::function_ref<Int(Int)> positionAt) {
  auto all = [&] { return Values{code.word(-1)}; };
  Value fits = code.is(threshold.take, Compare::eq, threshold.ties);
  Values before = code.ifElse(fits, code.b.getI32Type(), all, [&] {
    auto tieAt = [&](Int i) -> Search::Candidate {
      return {code.invert(positionAt(i)), code.is(keyAt(i), Compare::eq, threshold.key)};
    };
    Search::Threshold last =
        code.selectByRadix(tieAt, count, threshold.take, code.word(0), code.word(32));
    return Values{code.invert(last.key) + 1};
  });
  return Int(code.b, before[0]);
}

namespace {
struct SelectCut : public SelectPattern<sm90::SelectCutOp> {
  using SelectPattern::SelectPattern;
  Results emit(Search &code, sm90::SelectCutOp op, Adaptor adaptor) const override {
    ImplicitLocOpBuilder &b = code.b;
    Int count(b, adaptor.getCount()[0]), rank = code.word(static_cast<int64_t>(op.getRank()));
    auto [key, before] = op.getList() ? cutList(code, op, adaptor, count, rank)
                                      : cutRow(code, op, adaptor, count, rank);
    return {key, before};
  }

private:
  /// From the least candidate to the largest, or from the sample's bound to its largest value: what
  /// is above that is in the last bin. Whoever kept the candidates may know.
  static Bins makeBins(Search &code, const CandidateList &list, Int count) {
    SmallVector<Type> types(2, code.b.getF32Type());
    Value isSampled = code.is(code.loadFrom(sm90::kSelectRange), Compare::ne, code.word(0));
    Values range = code.ifElse(
        isSampled, types,
        [&] {
          return Values{code.fromBits(code.loadFrom(sm90::kSelectRange + 1)),
                        code.fromBits(code.loadFrom(sm90::kSelectRange + 2))};
        },
        [&] {
          Values own = code.eachOf(
              count, {code.number(kInfinity), code.number(-kInfinity)},
              [&](Int i, ValueRange known) {
                Value value = code.load(list.values, i);
                return Values{code.lesser(known[0], value), code.greater(known[1], value)};
              });
          auto [low, high] = code.extremes(code.keyOf(own[0]), code.keyOf(own[1]));
          return Values{code.valueOf(low), code.valueOf(high)};
        });
    return Bins(code, range[0], range[1]);
  }

  static std::pair<Int, Int> cutList(Search &code, sm90::SelectCutOp op, OneToNOpAdaptor adaptor,
                                     Int count, Int rank) {
    ImplicitLocOpBuilder &b = code.b;
    CandidateList list(code, op.getList().getType(), adaptor.getList()[0]);
    Bins bins = makeBins(code, list, count);
    // Only rows that are held whole have NaN among their numbers; it would be in the last bin.
    auto isNumber = [&](Value value) -> Value {
      return op.getInOrder() ? code.isEqual(value, value) : constant(b, b.getI1Type(), 1);
    };
    auto ifNumber = [&](Value value, llvm::function_ref<void()> body) {
      return op.getInOrder() ? code.ifThen(isNumber(value), body) : body();
    };
    SmallVector<Type> types = {b.getF32Type(), b.getI32Type(), b.getI32Type()};
    Values narrowed = code.ifElse(
        bins.isValid, types,
        [&] {
          code.eachOf(count, [&](Int i) {
            Value value = code.load(list.values, i);
            ifNumber(value, [&] { code.add(code.part(0), bins.indexOf(value), code.word(1)); });
          });
          Search::Bin bin = code.findBin(rank);
          return Values{bins.numberOf(bin.index), code.minus(rank, bin.above), bin.count};
        },
        [&] {
          return Values{code.number(0), rank, count};
        });
    Value bin = narrowed[0];
    Int need(b, narrowed[1]), inBin(b, narrowed[2]);
    auto isInBin = [&](Value value) -> Value {
      Value isAll = code.make<arith::XOrIOp>(bins.isValid, constant(b, b.getI1Type(), 1));
      Value isIn = code.either(isAll, code.isEqual(bins.of(value), bin));
      return op.getInOrder() ? Value(code.both(isNumber(value), isIn)) : isIn;
    };
    auto keyAt = [&](Int i) { return code.keyOf(code.load(list.values, i)); };
    SmallVector<Type> words(3, b.getI32Type());
    auto toValues = [](Search::Threshold t) { return Values{t.key, t.take, t.ties}; };
    Values found = code.ifElse(
        code.is(inBin, Compare::ule, code.word(sm90::kSelectFew)), words,
        [&] {
          code.eachOf(count, [&](Int i) {
            Value value = code.load(list.values, i);
            code.ifThen(isInBin(value), [&] {
              Int place = code.add(code.part(sm90::kSelectNumFew), code.word(0), code.word(1));
              code.store(code.part(sm90::kSelectFewKeys), place, code.keyOf(value));
            });
          });
          return toValues(code.selectFew(need, inBin));
        },
        [&] {
          Values range =
              code.eachOf(count, {code.word(-1), code.word(0)}, [&](Int i, ValueRange known) {
                Value value = code.load(list.values, i), is = isInBin(value);
                Int key = code.keyOf(value), low(b, known[0]), high(b, known[1]);
                return Values{code.choose(is, code.least(low, key), low),
                              code.choose(is, code.most(high, key), high)};
              });
          auto [low, high] = code.extremes(Int(b, range[0]), Int(b, range[1]));
          auto candidateAt = [&](Int i) -> Search::Candidate {
            Value value = code.load(list.values, i);
            return {code.keyOf(value), isInBin(value)};
          };
          return toValues(code.selectBetween(candidateAt, count, need, low, high));
        });
    Search::Threshold threshold{Int(b, found[0]), Int(b, found[1]), Int(b, found[2])};
    auto positionAt = [&](Int i) { return op.getInOrder() ? i : code.loadWord(list.positions, i); };
    return {threshold.key, cutTies(code, threshold, count, keyAt, positionAt)};
  }

  static std::pair<Int, Int> cutRow(Search &code, sm90::SelectCutOp op, OneToNOpAdaptor adaptor,
                                    Int count, Int rank) {
    ImplicitLocOpBuilder &b = code.b;
    Array row = getRow(code, op.getValues().getType(), adaptor.getValues(), adaptor.getRow()[0]);
    auto keyAt = [&](Int i) { return code.keyOf(code.load(row, code.widen(i))); };
    Values range = code.eachOf(count, {code.word(-1), code.word(0)}, [&](Int i, ValueRange known) {
      Int key = keyAt(i);
      return Values{code.least(Int(b, known[0]), key), code.most(Int(b, known[1]), key)};
    });
    auto [low, high] = code.extremes(Int(b, range[0]), Int(b, range[1]));
    Value always = constant(b, b.getI1Type(), 1);
    auto candidateAt = [&](Int i) -> Search::Candidate { return {keyAt(i), always}; };
    Search::Threshold threshold = code.selectBetween(candidateAt, count, rank, low, high);
    return {threshold.key, cutTies(code, threshold, count, keyAt, [](Int i) { return i; })};
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Where they go
//===----------------------------------------------------------------------===//

namespace {
/// Bits of positions, as many at a time as there is room for.
class Places {
public:
  Places(Search &code, sm90::SelectWriteOp op, Value bitmap, Value places)
      : code(code), blocks(op.getPlaces().getType().getColumns()),
        bitmap(code.shared(bitmap, code.b.getI32Type())),
        places(code.shared(places, code.b.getI32Type())) {}

  /// Calls `mark` to set bits and `take` to read places, for each run of positions. Elements say
  /// which they are by their distance from the run's first.
  using Pass = llvm::function_ref<void(Int first, Int count)>;
  void forRuns(Int length, Pass mark, Pass take);
  void set(Int position) {
    code.orInto(bitmap, position / kWordBits, code.shiftLeft(code.word(1), position % kWordBits));
  }
  void setWord(Int position, Int bits) { code.store(bitmap, position / kWordBits, bits); }
  Value isSet(Int position) {
    Int bits = code.shiftRight(code.loadWord(bitmap, position / kWordBits), position % kWordBits);
    return code.is(bits % 2, Compare::ne, code.word(0));
  }
  Int placeOf(Int position);

  static constexpr int64_t kWordBits = 32, kBlockWords = 4, kBlockBits = kWordBits * kBlockWords;

private:
  Int count(Int usedBlocks, Int before);

  Search &code;
  int64_t blocks;
  Array bitmap, places;
};
} // namespace

Int Places::placeOf(Int position) {
  Int block = position / kBlockBits, inBlock = position / kWordBits % kBlockWords;
  Int below = code.minus(code.shiftLeft(code.word(1), position % kWordBits), code.word(1));
  Int place = code.loadWord(places, block);
  for (auto [i, word] : llvm::enumerate(code.loadFour(bitmap, block * kBlockWords))) {
    Int at = code.word(static_cast<int64_t>(i));
    Int own = code.choose(code.is(at, Compare::eq, inBlock), below, code.word(0));
    Int mask = code.choose(code.isBelow(at, inBlock), code.word(-1), own);
    place = place + code.countBits(code.both(word, mask));
  }
  return place;
}

/// Bits before each block; a thread has a run of blocks. Returns the bits in all and `before`.
Int Places::count(Int usedBlocks, Int before) {
  Int perThread = (usedBlocks + (code.threads - 1)) / code.threads;
  Int first = code.thread * perThread, zero = code.word(0);
  auto eachBlock = [&](ValueRange inits, llvm::function_ref<Values(Int, ValueRange)> body) {
    return code.loop(zero, perThread, code.word(1), inits, [&](Int j, ValueRange carried) {
      Int block = first + j;
      return code.ifElse(
          code.isBelow(block, usedBlocks), carried.getTypes(), [&] { return body(block, carried); },
          [&] { return Values(carried.begin(), carried.end()); });
    });
  };
  Int sum(code.b, eachBlock(zero.operator Value(), [&](Int block, ValueRange carried) {
            Int sum(code.b, carried[0]);
            code.store(places, block, sum);
            for (Value word : code.loadFour(bitmap, block * kBlockWords))
              sum = sum + code.countBits(word);
            return Values{sum};
          })[0]);
  Int total = zero;
  Int ofThread = code.scan(sum, total) + before;
  eachBlock(zero.operator Value(), [&](Int block, ValueRange carried) {
    code.store(places, block, code.loadWord(places, block) + ofThread);
    return Values{carried[0]};
  });
  return total + before;
}

void Places::forRuns(Int length, Pass mark, Pass take) {
  int64_t positions = blocks * kBlockBits;
  Int zero = code.word(0);
  code.loop(zero, length, code.word(positions), zero.operator Value(),
            [&](Int first, ValueRange carried) {
              Int there = code.least(code.minus(length, first), code.word(positions));
              Int used = (there + (kBlockBits - 1)) / kBlockBits;
              code.eachOf(used, [&](Int i) { code.storeFourZeros(bitmap, i * kBlockWords); });
              code.barrier();
              mark(first, there);
              code.barrier();
              Int written = count(used, Int(code.b, carried[0]));
              code.barrier();
              take(first, there);
              code.barrier();
              return Values{written};
            });
}

namespace {
/// What separates the selected from the others.
struct Cut {
  Int key, before;
  Value takes(Search &code, Value value, Int position) const {
    Int own = code.keyOf(value);
    Value isTie = code.both(code.is(own, Compare::eq, key), code.isBelow(position, before));
    return code.either(code.isBelow(key, own), isTie);
  }
  /// The same where the key is a number's: NaN is never taken, and no key is computed.
  Value takesNumber(Search &code, Value value, Int position) const {
    Value last = code.valueOf(key);
    Value isAbove = arith::CmpFOp::create(code.b, arith::CmpFPredicate::OGT, value, last);
    Value isTie = code.both(code.isEqual(value, last), code.isBelow(position, before));
    return code.either(isAbove, isTie);
  }
};

struct SelectWrite : public SelectPattern<sm90::SelectWriteOp> {
  using SelectPattern::SelectPattern;
  Results emit(Search &code, sm90::SelectWriteOp op, Adaptor adaptor) const override {
    ImplicitLocOpBuilder &b = code.b;
    Places places(code, op, adaptor.getBitmap()[0], adaptor.getPlaces()[0]);
    Array out = getRow(code, op.getOut().getType(), adaptor.getOut(), adaptor.getRow()[0]);
    Int length = code.low(toI64(b, adaptor.getLength()[0]));
    Cut cut{Int(b, adaptor.getKey()[0]), Int(b, adaptor.getBefore()[0])};
    if (op.getList())
      writeList(code, CandidateList(code, op.getList().getType(), adaptor.getList()[0]),
                Int(b, adaptor.getCount()[0]), cut, places, out, length);
    else
      writeRow(code,
               getRow(code, op.getValues().getType(), adaptor.getValues(), adaptor.getRow()[0]),
               cut, places, out, length);
    return {};
  }

private:
  static void writeList(Search &code, CandidateList list, Int count, Cut cut, Places &places,
                        Array out, Int length) {
    auto eachTaken = [&](Int first, Int there, llvm::function_ref<void(Int, Int)> body) {
      code.eachOf(count, [&](Int i) {
        Int position = code.loadWord(list.positions, i), distance = code.minus(position, first);
        Value isTaken = cut.takesNumber(code, code.load(list.values, i), position);
        code.ifThen(code.both(isTaken, code.isBelow(distance, there)),
                    [&] { body(position, distance); });
      });
    };
    places.forRuns(
        length,
        [&](Int first, Int there) {
          eachTaken(first, there, [&](Int, Int distance) { places.set(distance); });
        },
        [&](Int first, Int there) {
          eachTaken(first, there, [&](Int position, Int distance) {
            code.store(out, places.placeOf(distance), position);
          });
        });
  }

  static void writeRow(Search &code, Array row, Cut cut, Places &places, Array out, Int length) {
    places.forRuns(
        length,
        [&](Int first, Int there) {
          code.eachWarpOf(there, [&](Int i) {
            Value isThere = code.isBelow(i, there);
            Int position = first + code.choose(isThere, i, code.word(0));
            Value isTaken = cut.takes(code, code.load(row, code.widen(position)), position);
            Int bits = code.ballot(code.both(isThere, isTaken));
            code.ifThen(code.is(code.lane, Compare::eq, code.word(0)),
                        [&] { places.setWord(i, bits); });
          });
        },
        [&](Int first, Int there) {
          code.eachOf(there, [&](Int i) {
            code.ifThen(places.isSet(i), [&] { code.store(out, places.placeOf(i), first + i); });
          });
        });
  }
};
} // namespace

namespace {
struct SelectWriteInOrder : public SelectPattern<sm90::SelectWriteInOrderOp> {
  using SelectPattern::SelectPattern;
  Results emit(Search &code, sm90::SelectWriteInOrderOp op, Adaptor adaptor) const override {
    ImplicitLocOpBuilder &b = code.b;
    CandidateList list(code, op.getList().getType(), adaptor.getList()[0]);
    Array out = getRow(code, op.getOut().getType(), adaptor.getOut(), adaptor.getRow()[0]);
    Cut cut{Int(b, adaptor.getKey()[0]), Int(b, adaptor.getBefore()[0])};
    Int count(b, adaptor.getCount()[0]), zero = code.word(0), step = code.word(kWarpThreads);
    Int turns = (count + (code.threads - 1)) / code.threads;
    Int first = code.warp * turns * kWarpThreads, end = first + turns * kWarpThreads;
    auto isTaken = [&](Int i) -> Value {
      Int inside = code.least(i, code.minus(count, code.word(1)));
      Value takes = cut.takesNumber(code, code.load(list.values, inside), i);
      return code.both(code.isBelow(i, count), takes);
    };
    Values inRun = code.loop(first, end, step, zero.operator Value(), [&](Int i, ValueRange sum) {
      return Values{Int(b, sum[0]) + code.countBits(code.ballot(isTaken(i + code.lane)))};
    });
    Value isLast = code.is(code.lane, Compare::eq, code.word(kWarpThreads - 1));
    Int total = zero, before = code.scan(code.choose(isLast, inRun[0], zero), total);
    Int below = code.minus(code.shiftLeft(code.word(1), code.lane), code.word(1));
    code.loop(first, end, step, before.operator Value(), [&](Int base, ValueRange place) {
      Int i = base + code.lane, start(b, place[0]);
      Value takes = isTaken(i);
      Int taken = code.ballot(takes);
      code.ifThen(takes,
                  [&] { code.store(out, start + code.countBits(code.both(taken, below)), i); });
      return Values{start + code.countBits(taken)};
    });
    return {};
  }
};
} // namespace

void mlac::sm90nvvm::populateSelectPatterns(const TypeConverter &converter,
                                            RewritePatternSet &patterns, const Kernel &kernel) {
  patterns.add<SetBits, SelectBegin, SelectCountUp, SelectMeet, SelectCut, SelectWrite,
               SelectWriteInOrder>(converter, patterns.getContext(), kernel);
  populateSelectKeepPatterns(converter, patterns, kernel);
}
