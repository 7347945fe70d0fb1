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
// graph stores, or else begin the rows of values of the graph, whatever those are made of.
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
  int64_t firstChannel = 0; ///< of their heads, where they are a part of them
};

struct FoundRope {
  RopeInfo info;
  mlir::Value query, key;   ///< [batch, heads, tokens, channels]
  uint32_t weight = 0;      ///< of the frequencies, where there are some
  mlir::Value cos, sin;     ///< else the tables: rows of tokens that begin with the pairs'
  bool areRepeated = false; ///< of tables: taken to have all pairs twice, one behind the other
};

class RopeFinder {
public:
  /// Of what stands in front of `node`. `table`: the frequencies of the one table of positions that
  /// there can be, once they are known; others are taken as tables of the graph.
  RopeFinder(mlir::func::FuncOp function, Expressions &expressions, Evaluator &evaluator,
             mlir::graph::NodeOp node, std::optional<RopeInfo> &table)
      : function(function), expressions(expressions), evaluator(evaluator), node(node),
        table(table) {}
  /// None where there is no rope, or not one that a package has.
  std::optional<FoundRope> find(const TurnedRows &query, const TurnedRows &key);

private:
  struct Pair {
    Expr cos, sin;
    bool operator==(const Pair &) const = default;
  };
  /// Which channels of a head are turned, and by what.
  struct Turn {
    /// Of channels before, and of what became of them: DeepSeek's neighbours become halves, which
    /// no product of a query and a key sees.
    RopePairing pairing = RopePairing::Half, turnedPairing = RopePairing::Half;
    int64_t first = 0, width = 0;
    std::vector<Pair> pairs = {};
    /// Whether second channels are turned by numbers that a table has behind those of all pairs,
    /// and that nothing in the graph makes equal.
    bool areRepeated = false;
    bool operator==(const Turn &) const = default;
    /// The channels of a pair.
    std::pair<int64_t, int64_t> channels(int64_t pair) const { return find(pairing, pair); }
    std::pair<int64_t, int64_t> turnedChannels(int64_t pair) const {
      return find(turnedPairing, pair);
    }

  private:
    std::pair<int64_t, int64_t> find(RopePairing order, int64_t pair) const {
      bool isHalf = order == RopePairing::Half;
      int64_t one = first + pair * (isHalf ? 1 : 2);
      return {one, one + (isHalf ? width / 2 : 1)};
    }
  };
  using Row = llvm::ArrayRef<Expr>;

  std::optional<Expr> divide(Expr product, Expr factor);
  std::optional<Pair> readPair(Row turned, Row plain, const Turn &turn, int64_t index);
  std::optional<Pair> readSecond(Row turned, Row plain, const Turn &turn, int64_t index);
  bool isRepeated(Expr second, Expr first, size_t count);
  bool isTurned(Row turned, Row plain, const Turn &turn);
  std::optional<Turn> readTurn(const TurnedRows &turned, Row plain, int64_t plainHeads);
  std::optional<Turn> readTurnOf(const TurnedRows &turned, mlir::Value value);
  std::optional<std::pair<mlir::Value, Turn>> findPlain(const TurnedRows &turned,
                                                        const Turn *known = nullptr);
  std::optional<StoredFrequency> readAngle(Expr table, Function function, double &multiplier);
  std::optional<FoundRope> readFrequencies(const Turn &turn);
  std::optional<FoundRope> findTables(const Turn &turn);

  mlir::func::FuncOp function;
  Expressions &expressions;
  Evaluator &evaluator;
  mlir::graph::NodeOp node;
  std::optional<RopeInfo> &table;
};

} // namespace mlac::graph

#endif // MLA_LIB_IMPORT_GRAPH_FINDROPE_H
