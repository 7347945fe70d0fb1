//===- Search.h - the K-th largest of many keys, by a CTA ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the lowerings of sm90.select_* have in common. Steps that do not grow with the row are done
// by few warps: what all 32 warps repeat is issued 32 times.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_LIB_CONVERSION_SM90TONVVM_SEARCH_H
#define MLA_LIB_CONVERSION_SM90TONVVM_SEARCH_H

#include "ThreadCode.h"

#include "mla/Dialect/Sm90/Utils/Select.h"

namespace mlac::sm90nvvm {

class Search : public ThreadCode {
public:
  Search(ImplicitLocOpBuilder &b, const Kernel &kernel, Value work);

  /// The key of a number, and back (key 0: NaN).
  Int keyOf(Value number);
  Value valueOf(Int key);

  /// Sum of `value` over the threads before this one, and over all. One barrier.
  Int scan(Int value, Int &total);
  /// Least of `low` and largest of `high` over the threads. One barrier.
  std::pair<Int, Int> extremes(Int low, Int high);

  /// Where the `need`-th largest lies in the histogram, which becomes zeros again: the bin, how
  /// many are in bins above, in it, and in all. Three barriers, the first before the histogram is
  /// read.
  struct Bin {
    Int index, above, count, total;
  };
  Bin findBin(Int need);

  /// Keys above `key` are all taken, and `take` of the `ties` keys that equal it. Where these are
  /// as many, `key` may be a mere bound: every key from it on is taken.
  struct Threshold {
    Int key, take, ties;
  };
  /// What element `i` has, and whether it counts.
  struct Candidate {
    Int key;
    Value counts;
  };
  using KeyAt = llvm::function_ref<Candidate(Int)>;
  /// The `need`-th largest of the keys in [base, base + 2^bits), by radix.
  Threshold selectByRadix(KeyAt keyAt, Int count, Int need, Int base, Int bits);
  /// The same of keys from `low` to `high`.
  Threshold selectBetween(KeyAt keyAt, Int count, Int need, Int low, Int high);
  /// The `need`-th largest of the first `count` of the few keys.
  Threshold selectFew(Int need, Int count);

  /// An element of `work` whose place the thread computes.
  Array part(int64_t first) { return shared(work, b.getI32Type(), first); }
  Int loadFrom(int64_t first) { return loadWord(part(first), word(0)); }
  /// A number that one thread hands to all: it stores, all load behind a barrier.
  void storeTo(int64_t first, Value value) { store(part(first), word(0), value); }

private:
  Value work;
};

/// Equal bins between two numbers. A bin's number is a float, 2^23 + 0 ... 2^23 + 2047, so that its
/// low bits are the number as an integer. A monotone function of the value, computed alike wherever
/// it is asked for, so that no edge needs to be exact.
class Bins {
public:
  Bins(Search &code, Value low, Value high);
  /// Whether the bins can tell numbers apart.
  Value isValid;
  Value of(Value number);
  Int indexOf(Value number);
  Value numberOf(Int index);

private:
  Search &code;
  Value low, scale;
};

/// A row of a view.
Array getRow(ThreadCode &code, Type view, ValueRange parts, Value row);

/// Candidates of a selection in shared memory.
struct CandidateList {
  CandidateList(ThreadCode &code, mlir::sm90::SmemType type, Value tile)
      : capacity(type.getColumns()), values(code.shared(tile, code.b.getF32Type())),
        positions(code.shared(tile, code.b.getI32Type(), capacity)) {}
  int64_t capacity;
  Array values, positions;
};

} // namespace mlac::sm90nvvm

#endif // MLA_LIB_CONVERSION_SM90TONVVM_SEARCH_H
