//===- Lists.h - a step of attention over lists of rows, simulated ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_TEST_UNIT_SIMULATOR_LISTS_H
#define MLAC_TEST_UNIT_SIMULATOR_LISTS_H

#include "ScheduledStep.h"

#include <random>

namespace mlac::test {

/// What lists are made of in the step itself; rows and lengths are the caller's.
enum class ListsFrom { Rows, Positions, Scores };

struct ListsCase {
  std::string name;
  std::string schedule; ///< "auto" or a forced one; the planner must choose `chosen`
  std::string chosen;
  int64_t heads, rank, rope, width;
  std::vector<int32_t> lengths; ///< of each token's list, any number
  int64_t numSms;
  int64_t splits = 0; ///< 0: none
  bool hasSink = false;
  std::string format = ""; ///< of the cache; "": rows as they are
  /// Rows are keys that were gathered, the tokens behind the first are a chunk's.
  bool isChunk = false;
  /// Entries of lists over a pool of entries beside the first, and their lengths; 0: none.
  int64_t others = 0;
  std::vector<int32_t> otherLengths = {};
  bool areHeadsOutermost = false; ///< of latent queries in memory, not of a chunk
  /// Of positions, whose lists are -1 behind their lengths, or selected by scores among as many
  /// keys of each token: attention is told no lengths then.
  ListsFrom from = ListsFrom::Rows;
};

/// A case, lowered and planned. Rows that no valid entry names hold NaN; a fifth of the entries is
/// invalid, those behind a length are numbers of NaN rows. Results are in "output" and, not of a
/// chunk, "lse". Keys of two pools have no RoPE part of their own.
class Lists : public ScheduledStep {
public:
  Lists(const ListsCase &test, mlir::MLIRContext &context);

  struct Results {
    std::vector<double> output, lse;
  };
  Results computeReference() const;

private:
  std::string makeGraph() const;
  std::string makeChunkGraph() const;
  /// Rows of a pool, and the lists of them.
  struct Scope {
    const char *pool, *rows, *lengths;
    int64_t width, page;
    std::vector<int32_t> given;
    /// What attention multiplies, of the rows that lists name.
    std::vector<std::vector<float>> keys;
  };
  void makeLists(Scope &scope);
  int32_t makeEntry(const Scope &scope, int64_t token, int64_t index);
  void makeRequests();
  /// What a token has that is not of the chunk.
  static constexpr float kOnto = 0.5f;
  /// Elements of a row, bytes of codes.
  int64_t countRow() const;
  void storeRow(Scope &scope, int32_t row);
  int64_t getTokens() const { return test.lengths.size(); }

  ListsCase test;
  std::mt19937 engine{3};
  std::vector<Scope> scopes;
};

} // namespace mlac::test

#endif // MLAC_TEST_UNIT_SIMULATOR_LISTS_H
