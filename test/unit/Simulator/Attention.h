//===- Attention.h - a step of absorbed attention, simulated ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From the `mla` graph to sm90 kernels by the compiler's own pipelines, with the
// pieces of work by the runtime's planner and the launches of the plan. Nothing
// about a schedule is known here but its name.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_TEST_UNIT_SIMULATOR_ATTENTION_H
#define MLAC_TEST_UNIT_SIMULATOR_ATTENTION_H

#include "ScheduledStep.h"

namespace mlac::test {

/// Of rows of codes: keys are of about 1, as random queries are.
constexpr float kCacheScale = 0.13f;

struct AttentionCase {
  std::string name;
  std::string schedule; ///< forced, or "auto: " and what the planner must choose
  int64_t heads, rank, rope, pageSize;
  std::vector<Request> requests;
  int64_t numSms;                           ///< parts = numSms / row tiles
  bool isCut = false;                       ///< requests are cut wherever that balances parts
  std::vector<std::string> parameters = {}; ///< of the schedule
  double scale = 0.1;                       ///< 2: the running maximum grows by more than 2^8
  std::string format = "";                  ///< of the cache; "": rows as they are
  float cacheScale = kCacheScale;           ///< of codes, where they have one
  bool areHeadsOutermost = false;           ///< of latent queries in memory

  std::string getSchedule() const; ///< without "auto: "
  int64_t getTokens() const { return countTokens(requests); }
  /// How much larger keys are than ordinary ones; queries are as much smaller.
  float getKeySize() const { return cacheScale / kCacheScale; }
  /// Where the latent query of a token's head begins, in rows.
  int64_t findQuery(int64_t token, int64_t head) const {
    return areHeadsOutermost ? head * getTokens() + token : token * heads + head;
  }
};

/// A case, lowered and planned. Buffers hold NaN where nothing was stored, and absurd
/// entries of the block table where it is not used; the result is in "output".
class Attention : public ScheduledStep {
public:
  Attention(const AttentionCase &test, mlir::MLIRContext &context);

  /// Runs under every seed, and fails where the schedule is not the case's, or the output not what
  /// double precision gives.
  void expectReference();

private:
  /// The output in double, token by token.
  std::vector<double> computeReference() const;
  /// Elements of a token's row, and where its latent and its rope key begin in the pool.
  int64_t countRow() const;
  int64_t findLatent(int64_t page, int64_t inPage) const;
  int64_t findRope(int64_t page, int64_t inPage) const;
  bool hasCodes() const { return isGrouped() || test.format == "mla_fp8_tensor"; }
  bool isGrouped() const { return test.format == "fp8_ds_mla"; }
  void makePool(int64_t pages);
  /// Stores a random key, and appends what attention multiplies to `row`.
  void storeKey(int64_t page, int64_t inPage, unsigned seed, std::vector<float> &row);
  void storeCodes(int64_t page, int64_t inPage, unsigned seed, std::vector<float> &row);

  AttentionCase test;
  /// Latents and rope keys of each request.
  std::vector<std::vector<float>> keys;
};

} // namespace mlac::test

#endif // MLAC_TEST_UNIT_SIMULATOR_ATTENTION_H
