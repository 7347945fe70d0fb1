//===- Prefill.h - a step of expanded attention, simulated ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_TEST_UNIT_SIMULATOR_PREFILL_H
#define MLAC_TEST_UNIT_SIMULATOR_PREFILL_H

#include "Attention.h"

namespace mlac::test {

/// Causal: queries and keys are a request's new tokens (`seqLen` is not used). Else
/// the keys are `seqLen` tokens of one chunk of context.
struct PrefillCase {
  std::string name;
  std::string schedule; ///< auto (the planner must choose pingpong), or forced
  int64_t heads, nope, rope, value;
  std::vector<Request> requests;
  int64_t numSms;
  bool isCausal = true;
  std::vector<std::string> parameters = {};
  double scale = 0.1;
  int64_t poisoned = -1; ///< a request whose keys and values are NaN, and so its results
  bool goesOn = false;   ///< from a partial; every third row's is empty and NaN
  int64_t splits = 0;    ///< of a chunk's keys; 0: none
  int64_t selected = 0;  ///< positions that a token has marks of; 0: there are no marks

  int64_t getTokens() const;
  int64_t getKeyTokens() const;
  int64_t getKeys(const Request &request) const;
};

class Prefill : public ScheduledStep {
public:
  Prefill(const PrefillCase &test, mlir::MLIRContext &context);

  struct Reference {
    std::vector<double> output, lse;
  };
  Reference computeReference() const;

private:
  bool lowerToTile(mlir::MLIRContext &context);
  bool lowerToSm90();
  void makeBuffers();

  PrefillCase test;
};

} // namespace mlac::test

#endif // MLAC_TEST_UNIT_SIMULATOR_PREFILL_H
