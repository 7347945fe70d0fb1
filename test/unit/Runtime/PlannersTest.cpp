//===- PlannersTest.cpp - the order of a step's planners --------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The compiler proves that the order of the planners serves what they say they need
// (findUnservedNeed). Here: that the proof can fail, and that what they say is true, by
// letting each measure with every size hidden that it does not name.
//
//===----------------------------------------------------------------------===//

#include "step/Planners.h"
#include "StepSequences.h"

#include <gtest/gtest.h>

using namespace mlac::runtime;
using mlac::step::Owner;

namespace {
class PlannersTest : public ::testing::Test {
protected:
  static constexpr int64_t kPage = 4, kPages = 64, kMaxSeqLen = 64;
  void SetUp() override {
    ids = {mlac::test::createSequence(cache, 40), 0, mlac::test::createSequence(cache, 9)};
    ASSERT_TRUE(cache.fork(ids[0], 36, ids[1]).isOk()); // two decodes with a prefix
  }
  /// The same requests with their sequences, or with lengths on the device.
  void take(StepState &state, bool isOnDevice) {
    const int32_t bounds[] = {41, 37, 12};
    alignas(MLA_DATA_ALIGNMENT) static const char data[MLA_DATA_ALIGNMENT] = {}; // not read
    mla_batch batch = {sizeof batch, 3, ids.data(), lens.data(), 0};
    mla_device_batch bounded = {};
    bounded.num_requests = 3;
    bounded.query_lens = lens.data();
    bounded.seq_len_bounds = bounds;
    bounded.seq_lens = bounded.block_table = reinterpret_cast<const int32_t *>(data);
    bounded.slot_mapping = bounded.positions = reinterpret_cast<const int64_t *>(data);
    bounded.block_table_stride = kMaxSeqLen / kPage;
    Status status = isOnDevice ? takeDeviceBatch(state, bounded) : takeBatch(state, cache, batch);
    ASSERT_TRUE(status.isOk()) << status.message();
  }
  void compare(const StepDemand &demand, bool isOnDevice);
  /// Measures with all planners that the demand asks for; hides from each what it does
  /// not need. `state` has the true sizes afterwards.
  void measureHidden(StepState &state, const StepDemand &demand);

  static StepLimits limits() {
    return {/*maxRequests=*/8,
            /*maxTokens=*/64,
            kMaxSeqLen,
            /*workspaceTokens=*/32,
            kPage,
            kPages,
            /*pageStrideElements=*/24,
            /*ropeLength=*/kMaxSeqLen,
            /*numSms=*/16,
            {mlac::test::kSmallWork},
            /*hasParts=*/true,
            /*hasShared=*/true};
  }
  KVCache cache{kPages, kPage, kMaxSeqLen};
  std::vector<mla_sequence> ids;
  std::vector<int32_t> lens = {1, 1, 3};
  FunctionInfo function = mlac::test::makeDemandingFunction();
};
} // namespace

void PlannersTest::measureHidden(StepState &state, const StepDemand &demand) {
  constexpr int64_t kHidden = int64_t(1) << 40; // what reads it cannot overlook it
  for (const Planner &planner : planners()) {
    if (planner.isOf && !planner.isOf(demand))
      continue;
    SCOPED_TRACE(static_cast<int>(planner.owner));
    auto sees = [&](Dim dim) { return planner.needs.has(dim) || DimSet(planner.owner).has(dim); };
    DimValues known = state.dims;
    for (size_t i = 0; i < kNumDims; ++i)
      if (!sees(static_cast<Dim>(i)))
        state.dims[i] = kHidden;
    state.setHas(planner.owner);
    Status status = planner.measure(state, demand);
    ASSERT_TRUE(status.isOk()) << status.message();
    for (size_t i = 0; i < kNumDims; ++i) {
      auto dim = static_cast<Dim>(i);
      int64_t unseen = sees(dim) ? known[i] : kHidden;
      if (!planner.writes(dim))
        EXPECT_EQ(state.dims[i], unseen) << "writes " << dimName(dim);
      if (state.dims[i] == unseen)
        state.dims[i] = known[i];
    }
  }
}

static std::vector<Owner> ownersOf(std::span<const Planner> list) {
  std::vector<Owner> owners;
  for (const Planner &planner : list)
    owners.push_back(planner.owner);
  return owners;
}

TEST_F(PlannersTest, EveryOwnerOfAStepHasOnePlannerInTheListsOrder) {
  std::vector<Owner> expected;
  for (size_t i = 0; i < mlac::step::kNumOwners; ++i)
    if (auto owner = static_cast<Owner>(i); owner != Owner::Swap) // no step
      expected.push_back(owner);
  EXPECT_EQ(ownersOf(planners()), expected);
}

TEST_F(PlannersTest, AnotherOrderIsFound) {
  std::vector<Planner> list(planners().begin(), planners().end());
  auto at = [&](Owner owner) { return std::ranges::find(list, owner, &Planner::owner); };
  EXPECT_FALSE(findUnservedNeed(list));
  // Work is cut behind the shared prefix.
  std::rotate(at(Owner::Shared), at(Owner::Shared) + 1, at(Owner::Work) + 1);
  ASSERT_TRUE(findUnservedNeed(list));
  EXPECT_EQ(findUnservedNeed(list)->owner, Owner::Work);
  EXPECT_EQ(findUnservedNeed(list)->dim, Dim::NumSharedTokens);
  std::rotate(at(Owner::Chunks), at(Owner::Shared), at(Owner::Shared) + 1);
  // Chunks of a padded step are those of the shape, which padding puts in the batch's place.
  std::iter_swap(at(Owner::Padding), at(Owner::Chunks));
  ASSERT_TRUE(findUnservedNeed(list));
  std::iter_swap(at(Owner::Padding), at(Owner::Chunks));
  // Nobody makes it.
  list.erase(at(Owner::Parts));
  ASSERT_TRUE(findUnservedNeed(list));
  EXPECT_EQ(findUnservedNeed(list)->dim, Dim::NumDecodes);
}

/// What planners make of all sizes with what they make of those that they name.
void PlannersTest::compare(const StepDemand &demand, bool isOnDevice) {
  StepState hidden(limits()), plain(limits());
  ASSERT_NO_FATAL_FAILURE(take(plain, isOnDevice));
  for (const Planner &planner : planners())
    if (!planner.isOf || planner.isOf(demand)) {
      plain.setHas(planner.owner);
      ASSERT_TRUE(planner.measure(plain, demand).isOk());
    }
  ASSERT_NO_FATAL_FAILURE(take(hidden, isOnDevice));
  ASSERT_NO_FATAL_FAILURE(measureHidden(hidden, demand));
  for (size_t i = 0; i < kNumDims; ++i)
    EXPECT_EQ(hidden.dims[i], plain.dims[i]) << dimName(static_cast<Dim>(i));
  EXPECT_EQ(hidden.workSizes, plain.workSizes);
  EXPECT_EQ(hidden.contextLens, plain.contextLens);
  // The step has all there is to read.
  EXPECT_GT(plain.dim(Dim::NumChunks), 0);
  EXPECT_GT(plain.dim(Dim::NumParts), 0);
  bool mayShare = demand.decodeThreshold > 0 && !plain.hasFixedSizes();
  EXPECT_EQ(plain.dim(Dim::NumSharedTokens) > 0, mayShare);
}

TEST_F(PlannersTest, PlannersReadWhatTheySay) {
  mla_step_shape shape = {};
  shape.num_requests = 6;
  shape.num_decodes = 4;
  shape.num_decode_tokens = 6;
  shape.num_tokens = 16;
  shape.max_query_len = 8;
  shape.max_seq_len = kMaxSeqLen;
  for (int64_t fixedBlocks : {0, 2}) { // the second by what bounds all of them
    function.work->fixedBlocks = fixedBlocks;
    SCOPED_TRACE(fixedBlocks);
    for (bool isOnDevice : {false, true})
      for (int64_t threshold : {0, 1})
        compare({function, threshold}, isOnDevice);
    compare({function, 2, &shape}, false);
  }
}
