//===- PlanningAllocationTest.cpp - steps are planned in place --*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// After a first step, planning allocates nothing, whatever a function asks for. Here, as
// this program counts allocations.
//
//===----------------------------------------------------------------------===//

#include "../Runtime/StepSequences.h"
#include "CacheModel.h"
#include "step/StepPlanner.h"

using namespace mlac::runtime;
using mlac::test::countAllocations;

namespace {
class PlanningAllocationTest : public ::testing::Test {
protected:
  static constexpr int64_t kPage = 4, kPages = 256, kMaxSeqLen = 64;
  void SetUp() override {
    std::shared_ptr<Device> device;
    ASSERT_TRUE(openCpuDevice(1, device).isOk());
    ASSERT_TRUE(mirror.create(device, planner.maxBytes(), "metadata").isOk());
    rows[0].clear(mirror);
    mla_sequence root = create(40);
    ids = {root, fork(root), fork(root), create(9), create(0)};
  }
  mla_sequence create(int64_t length) { return mlac::test::createSequence(cache, length); }
  mla_sequence fork(mla_sequence parent) {
    mla_sequence id = 0;
    EXPECT_TRUE(cache.fork(parent, 36, id).isOk());
    return id;
  }
  /// One step, and what it has allocated.
  int64_t plan(const StepDemand &demand) {
    mla_batch batch = {sizeof batch, int64_t(ids.size()), ids.data(), lens.data(), 0};
    countAllocations();
    EXPECT_TRUE(planner.measure(cache, batch).isOk());
    Status status = planner.measureFor(demand);
    EXPECT_TRUE(status.isOk()) << status.message();
    planner.fill(cache, mirror, rows);
    return countAllocations();
  }

  KVCache cache{kPages, kPage, kMaxSeqLen};
  StepPlanner planner{{/*maxRequests=*/8,
                       /*maxTokens=*/64,
                       kMaxSeqLen,
                       /*workspaceTokens=*/64,
                       kPage,
                       kPages,
                       /*pageStrideElements=*/24,
                       /*ropeLength=*/kMaxSeqLen,
                       /*numSms=*/2,
                       {mlac::test::kSmallWork},
                       /*hasParts=*/true,
                       /*hasShared=*/true}};
  std::vector<TableRows> rows = planner.makeRows();
  DeviceMirror mirror;
  const FunctionInfo function = mlac::test::makeDemandingFunction();
  std::vector<mla_sequence> ids;
  const std::vector<int32_t> lens = {1, 1, 1, 3, 5};
};
} // namespace

TEST_F(PlanningAllocationTest, NothingIsAllocatedAfterTheFirstStep) {
  mla_step_shape shape = {};
  shape.num_requests = 7;
  shape.num_decodes = shape.num_decode_tokens = 4;
  shape.num_tokens = 16;
  shape.max_query_len = 8;
  shape.max_seq_len = kMaxSeqLen;
  const StepDemand whole{function}, split{function, 1}, padded{function, 1, &shape};
  for (const StepDemand *demand : {&whole, &split, &padded})
    plan(*demand);
  for (const StepDemand *demand : {&whole, &split, &padded})
    EXPECT_EQ(plan(*demand), 0) << "threshold " << demand->decodeThreshold
                                << (demand->shape ? ", padded" : "");
  // There was something to plan.
  plan(split);
  EXPECT_GT(mlac::runtime::at(planner.dims(), Dim::NumSharedTokens), 0);
  EXPECT_GT(mlac::runtime::at(planner.dims(), Dim::NumChunks), 0);
}
