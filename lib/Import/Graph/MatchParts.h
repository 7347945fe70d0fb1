//===- MatchParts.h - what attention of all kinds is made of ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The heads that an output projection reads, and the channels of their queries and keys: rows of
// projections, normalised or not, under rope or not. Which rows they have to be, the kinds of
// attention say (MatchLayer.cpp, MatchGroups.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef MLA_LIB_IMPORT_GRAPH_MATCHPARTS_H
#define MLA_LIB_IMPORT_GRAPH_MATCHPARTS_H

#include "MatchLayer.h"

#include "llvm/ADT/Twine.h"

namespace mlac::graph {

llvm::Error makeError(const llvm::Twine &message);

/// One channel of a query or key: a row of a projection, or what rope makes of two of them,
/// rows[0] tables[0] + sign rows[1] tables[1].
struct Channel {
  uint32_t projection = 0;
  bool isRotated = false;
  uint32_t rows[2] = {};
  Expr tables[2] = {};
  double sign = 1;
  /// Of a normalised head: 1 / sqrt(...), the norm's weight and its elements beside the rows.
  std::optional<Expr> root = {};
  uint32_t gamma = 0, gammaIndex[2] = {};

  size_t numRows() const { return isRotated ? 2 : 1; }
};

/// softmax(scale q . k + mask), of c tanh(scale q . k / c) where there is a softcap c.
struct Scores {
  VectorId query = 0, key = 0;
  double scale = 0, softcap = 0;
  std::optional<Expr> mask = {}; ///< what is added to the scores; none: nothing is
  std::optional<Expr> sink = {}; ///< one more score, whose value is 0
};

struct Head {
  Scores scores;
  std::vector<Channel> query, key;
  std::vector<Expr> values;
};

class Parts {
public:
  Parts(Expressions &expressions, const llvm::BitVector &weights)
      : expressions(expressions), weights(weights) {}

  const Source &source(Expr expr) const { return expressions[expr]; }
  bool is(Expr expr, SourceKind kind) const { return source(expr).kind == kind; }
  /// Names the node that is not understood, where there is one below what was found.
  llvm::Error fail(const llvm::Twine &what, Expr got) const;

  /// Those of a row that is made of sums over keys; all have one scale and one mask.
  llvm::Expected<std::vector<Head>> matchHeads(llvm::ArrayRef<Expr> row) const;
  /// The epsilon of 1 / sqrt(mean of `count` rows' squares + epsilon).
  llvm::Expected<double> matchEpsilon(Expr inverse, uint32_t projection, uint32_t firstRow,
                                      size_t count) const;
  /// Those of a softmax.
  llvm::Expected<Scores> matchScores(Expr weights) const;
  llvm::Error checkDepth(const Scores &scores, double factor) const;

  Expressions &expressions;
  const llvm::BitVector &weights;

private:
  llvm::Expected<Channel> matchChannel(Expr expr) const;
  llvm::Expected<Channel> matchRotated(Expr expr) const;
  bool isNormRoot(const Source &root) const;
  bool readRow(Expr term, Channel &channel, size_t index, std::optional<Expr> &table) const;
};

/// The pairs that rope turns, and what they are turned by: the same in all heads.
class RopeParts {
public:
  RopeParts(const Parts &parts, int64_t width) : parts(parts), width(width) {}

  /// What rope makes at each channel, by number: twice the frequency, plus 1 at y cos + x sin.
  /// The pairs' rows begin at `firstRow`.
  llvm::Expected<std::vector<int64_t>> match(llvm::ArrayRef<Channel> channels, uint32_t firstRow);
  /// Both sides of head `number`, which must have pairs in one order; they begin at these rows.
  llvm::Error matchHead(size_t number, const Head &head, uint32_t queryRow, uint32_t keyRow);

  RopePairing pairing = RopePairing::Interleaved;
  std::vector<RopePair> pairs; ///< in the order of their frequencies

private:
  RopePair readPair(const Channel &channel) const;
  std::optional<int64_t> readFrequency(Expr table) const;
  std::optional<int64_t> readFrequency(const RopePair &pair) const;
  llvm::Expected<int64_t> matchPair(const Channel &first, Channel channel, uint32_t firstRow);
  llvm::Error keepPair(int64_t frequency, const RopePair &pair);

  const Parts &parts;
  int64_t width; ///< channels that are rotated
};

} // namespace mlac::graph

#endif // MLA_LIB_IMPORT_GRAPH_MATCHPARTS_H
