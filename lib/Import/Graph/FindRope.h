//===- FindRope.h - the rope before an attention ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An attention's queries and keys may be other values of the graph under rope. Which ones is what
// their numbers say, not the nodes between: for the nearest value of as many channels it is tried
// whether each pair of channels (x, y) became (x cos - y sin, y cos + x sin) with one cosine
// and sine for all heads, and whether those are of the token's position times a frequency that the
// graph stores.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_LIB_IMPORT_GRAPH_FINDROPE_H
#define MLA_LIB_IMPORT_GRAPH_FINDROPE_H

#include "Evaluate.h"

#include "mla/Import/CacheAttention.h"

namespace mlac::graph {

/// A stored frequency: element `index` of a weight.
struct StoredFrequency {
  uint32_t weight = 0, index = 0;
  double value = 0;
};

/// That of an angle, which is its product with a token's position; an input is taken as one.
std::optional<StoredFrequency> readFrequency(mlir::func::FuncOp function,
                                             const Expressions &expressions, const Source &angle);

/// Rows under rope, head by head, and the value of the graph that they are.
struct TurnedRows {
  mlir::Value value;
  std::vector<Expr> numbers;
  int64_t heads = 1;
};

struct FoundRope {
  RopeInfo info;
  mlir::Value query, key; ///< [batch, heads, tokens, channels]
  uint32_t weight = 0;    ///< of the frequencies
};

class RopeFinder {
public:
  RopeFinder(mlir::func::FuncOp function, Expressions &expressions, Evaluator &evaluator)
      : function(function), expressions(expressions), evaluator(evaluator) {}
  /// None where there is no rope, or not one that a package has.
  std::optional<FoundRope> find(const TurnedRows &query, const TurnedRows &key);

private:
  struct Pair {
    Expr cos, sin;
    bool operator==(const Pair &) const = default;
  };
  /// Which channels of a head are turned, and by what.
  struct Turn {
    RopePairing pairing = RopePairing::Half;
    int64_t first = 0, width = 0;
    std::vector<Pair> pairs = {};
    bool operator==(const Turn &) const = default;
    /// The channels of a pair.
    std::pair<int64_t, int64_t> channels(int64_t pair) const {
      bool isHalf = pairing == RopePairing::Half;
      int64_t one = first + pair * (isHalf ? 1 : 2);
      return {one, one + (isHalf ? width / 2 : 1)};
    }
  };
  using Row = llvm::ArrayRef<Expr>;

  std::optional<Expr> divide(Expr product, Expr factor);
  std::optional<Pair> readPair(Row turned, Row plain, std::pair<int64_t, int64_t> channels);
  bool isTurned(Row turned, Row plain, const Turn &turn);
  std::optional<Turn> readTurn(const TurnedRows &turned, Row plain, int64_t plainHeads);
  std::optional<std::pair<mlir::Value, Turn>> findPlain(const TurnedRows &turned);
  std::optional<StoredFrequency> readAngle(Expr table, Function function, double &multiplier);
  std::optional<FoundRope> describe(const Turn &turn);

  mlir::func::FuncOp function;
  Expressions &expressions;
  Evaluator &evaluator;
};

} // namespace mlac::graph

#endif // MLA_LIB_IMPORT_GRAPH_FINDROPE_H
