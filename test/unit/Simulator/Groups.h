//===- Groups.h - a step of grouped attention, simulated ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_TEST_UNIT_SIMULATOR_GROUPS_H
#define MLAC_TEST_UNIT_SIMULATOR_GROUPS_H

#include "ScheduledStep.h"

namespace mlac::test {

struct GroupsCase {
  std::string name;
  std::string schedule; ///< "" or a forced one; the planner must choose `chosen`
  std::string chosen;
  int64_t heads, kvHeads, keyDim, valueDim, keyPage, valuePage; ///< valuePage 0: one pool
  std::vector<Request> requests;
  int64_t numSms;
  bool isCut = false;
  int64_t window = 0;
  double softcap = 0;
  bool hasSink = false;
  std::vector<std::string> parameters = {};
  std::vector<float> scales = {}; ///< of keys and values that are codes; empty: they are none
  bool hasFixedSizes = false;     ///< so that no prompts are apart
};

/// A case, lowered and planned. Pools hold NaN where nothing was stored, tables absurd entries
/// where they are not used; the result is in "output".
class Groups : public ScheduledStep {
public:
  Groups(const GroupsCase &test, mlir::MLIRContext &context);

  /// Runs under every seed, and fails where the schedule is not the case's, or the output not what
  /// double precision gives.
  void expectReference();

private:
  /// The output in double, token by token.
  std::vector<double> computeReference() const;
  std::string makeMasks() const;
  std::string makeGraph() const;
  std::vector<float> makeSinks() const;
  void makePool(const std::string &name, int64_t page, llvm::ArrayRef<int64_t> widths);
  /// What a token's row of a field stands for, stored at `place` of the pool.
  std::vector<float> storeRow(Data &pool, int64_t place, unsigned field, int64_t width,
                              unsigned seed) const;

  GroupsCase test;
  /// Of each field, request and token.
  std::vector<std::vector<std::vector<float>>> rows[2];
};

} // namespace mlac::test

#endif // MLAC_TEST_UNIT_SIMULATOR_GROUPS_H
