//===- StepOptionsTest.cpp - all-reduce, dry runs and refusals --*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestPackage.h"

#include <cmath>
#include <limits>

using namespace mlac::test;

namespace {
struct alignas(16) Row {
  float values[kHidden];
};

class StepOptionsTest : public EngineTest {};

/// Records what an all-reduce was called with; adds another rank's output of ones.
struct Reduction {
  int calls = 0;
  void *data = nullptr;
  int64_t elements = 0;
  mla_dtype dtype = MLA_U8;
  mla_status answer = MLA_OK;

  static mla_status call(void *user, void *data, int64_t elements, mla_dtype dtype,
                         mla_stream *stream) {
    auto &self = *static_cast<Reduction *>(user);
    EXPECT_EQ(stream, nullptr);
    ++self.calls;
    self.data = data;
    self.elements = elements;
    self.dtype = dtype;
    for (int64_t i = 0; i < elements; ++i)
      static_cast<float *>(data)[i] += 1;
    return self.answer;
  }
};

/// The engine of one of two ranks.
class TwoRanksTest : public ::testing::Test {
protected:
  void SetUp() override {
    fb::PackageT description = makePackage();
    description.model->tensor_parallel = 2;
    std::string bytes = pack(description);
    ASSERT_OK(mla_package_open_bytes(bytes.data(), bytes.size(), &package));
    ASSERT_OK(mla_device_open("cpu", 1, &device));
    ASSERT_OK(mla_engine_create(package, device, nullptr, &engine));
    std::vector<float> weight(kHidden, 1);
    int64_t shape[] = {kHidden};
    ASSERT_OK(mla_engine_bind_weight(engine, 0, "w", MLA_F32, shape, 1, weight.data()));
    ASSERT_OK(mla_engine_prepare(engine, 0));
    ASSERT_OK(mla_plan_create(engine, &plan));
    ASSERT_OK(mla_sequence_create(engine, &sequence));
  }
  void TearDown() override {
    mla_plan_destroy(plan);
    mla_engine_destroy(engine);
    mla_device_close(device);
    mla_package_close(package);
  }
  void planTokens(int32_t tokens) {
    mla_batch batch = {sizeof batch, 1, &sequence, &tokens, 0};
    ASSERT_OK(mla_step_plan(plan, &batch, "prefill", nullptr));
  }

  mla_package *package = nullptr;
  mla_device *device = nullptr;
  mla_engine *engine = nullptr;
  mla_plan *plan = nullptr;
  mla_sequence sequence = 0;
};
} // namespace

TEST_F(TwoRanksTest, A17_OutputIsReducedBehindTheProjection) {
  Reduction reduction;
  ASSERT_OK(mla_engine_set_all_reduce(engine, Reduction::call, &reduction));
  Row hidden[2] = {}, output[2];
  planTokens(2);
  ASSERT_OK(mla_step_run(plan, 0, hidden, output, nullptr));
  EXPECT_EQ(reduction.calls, 1);
  EXPECT_EQ(reduction.data, output);
  EXPECT_EQ(reduction.elements, 2 * kHidden);
  EXPECT_EQ(reduction.dtype, MLA_F32);
  EXPECT_EQ(output[1].values[0], 2 * 1 + 1); // twice w, and the other rank's one

  mla_binding bindings[] = {{"hidden", hidden, sizeof hidden}, {"output", output, sizeof output}};
  ASSERT_OK(mla_step_run_bound(plan, 0, bindings, 2, nullptr));
  EXPECT_EQ(reduction.calls, 2);

  // Without tokens there is nothing to reduce, on no rank.
  planTokens(0);
  ASSERT_OK(mla_step_run(plan, 0, hidden, output, nullptr));
  EXPECT_EQ(reduction.calls, 2);

  ASSERT_OK(mla_engine_set_all_reduce(engine, nullptr, nullptr));
  planTokens(1);
  ASSERT_OK(mla_step_run(plan, 0, hidden, output, nullptr));
  EXPECT_EQ(reduction.calls, 2);
}

TEST_F(TwoRanksTest, A17_FailedReductionFailsTheRun) {
  Reduction reduction;
  reduction.answer = MLA_DEVICE_ERROR;
  ASSERT_OK(mla_engine_set_all_reduce(engine, Reduction::call, &reduction));
  Row hidden{}, output;
  planTokens(1);
  expectStatus(mla_step_run(plan, 0, &hidden, &output, nullptr), MLA_DEVICE_ERROR,
               "all-reduce of the output failed with MLA_DEVICE_ERROR");
}

TEST_F(StepOptionsTest, A17_OneRankHasNothingToReduce) {
  expectStatus(mla_engine_set_all_reduce(engine, Reduction::call, nullptr), MLA_INVALID_ARGUMENT,
               "nothing to reduce");
  ASSERT_OK(mla_engine_set_all_reduce(engine, nullptr, nullptr));
}

/// The reference asserts where the rule without a cap clamps.
TEST_F(StepOptionsTest, A51_ACapIsObeyedOrRefused) {
  mla_engine_options options;
  mla_engine_options_init(&options);
  options.max_num_requests = 5;
  options.max_seq_len = 41;
  options.num_pages = 8;
  options.workspace_cap = 5 * kPage;
  mla_engine *other = nullptr;
  ASSERT_OK(mla_engine_create(package, device, &options, &other));
  const char *text = nullptr;
  ASSERT_OK(mla_engine_info(other, &text));
  EXPECT_NE(std::string(text).find("\"workspace_tokens\":20"), std::string::npos) << text;
  mla_engine_destroy(other);
  options.workspace_cap = 5 * kPage - 1;
  expectStatus(mla_engine_create(package, device, &options, &other), MLA_INVALID_ARGUMENT,
               "option workspace_cap = 19, expected at least a page (4 tokens) for each of 5 "
               "requests: 20");
  options.workspace_cap = -1;
  expectStatus(mla_engine_create(package, device, &options, &other), MLA_INVALID_ARGUMENT,
               "option workspace_cap = -1, expected 0 to");
  // A caller whose struct ends before it.
  options.struct_bytes = offsetof(mla_engine_options, workspace_cap);
  ASSERT_OK(mla_engine_create(package, device, &options, &other));
  mla_engine_destroy(other);
}

/// The rule's size, but no more than all requests' contexts, of which no step has more.
TEST_F(StepOptionsTest, A26_EngineClampsItsWorkspace) {
  auto resolved = [&](int64_t requests, int64_t seqLen, int64_t given) {
    mla_engine_options options;
    mla_engine_options_init(&options);
    options.max_num_requests = requests;
    options.max_seq_len = seqLen;
    options.num_pages = 8;
    options.workspace_tokens = given;
    mla_engine *other = nullptr;
    EXPECT_EQ(mla_engine_create(package, device, &options, &other), MLA_OK) << mla_last_error();
    const char *text = nullptr;
    EXPECT_EQ(mla_engine_info(other, &text), MLA_OK);
    std::string info = text;
    mla_engine_destroy(other);
    std::string key = "\"workspace_tokens\":";
    size_t at = info.find(key);
    return at == std::string::npos ? -1 : std::stoll(info.substr(at + key.size()));
  };
  static_assert(kPage == 4);
  EXPECT_EQ(resolved(2, 41, 0), 2 * 44);          // 8 * 41, beyond two contexts of 11 pages
  EXPECT_EQ(resolved(20, 41, 0), 8 * 41);         // not twenty contexts
  EXPECT_EQ(resolved(2000, 41, 0), 4 * 2000 * 4); // four pages for each request
  EXPECT_EQ(resolved(20000, 41, 0), 20000 * 4);   // a page for each, above the cap of 65536
  EXPECT_EQ(resolved(10000, 41, 0), 65536);       // the cap
  EXPECT_EQ(resolved(2, 41, 12), 12);             // as given
}

TEST_F(StepOptionsTest, A38_RunWithoutAPlanGivesZeros) {
  Row output[3];
  for (Row &row : output)
    std::fill_n(row.values, kHidden, std::numeric_limits<float>::quiet_NaN());
  ASSERT_OK(mla_step_dry_run(engine, output, 2, nullptr));
  for (int64_t j = 0; j < kHidden; ++j) {
    EXPECT_EQ(output[0].values[j], 0);
    EXPECT_EQ(output[1].values[j], 0);
    EXPECT_TRUE(std::isnan(output[2].values[j]));
  }
  ASSERT_OK(mla_step_dry_run(engine, nullptr, 0, nullptr));
  expectStatus(mla_step_dry_run(engine, nullptr, 1, nullptr), MLA_INVALID_ARGUMENT,
               "output is null");
  expectStatus(mla_step_dry_run(engine, output, 33, nullptr), MLA_INVALID_ARGUMENT,
               "num_tokens = 33, expected 0 to max_num_tokens = 32");
}

TEST_F(StepOptionsTest, A40_WithoutWorkspaceContextTakesAnotherPath) {
  stop();
  mla_engine_options options = defaultOptions();
  options.workspace_tokens = MLA_NO_WORKSPACE;
  start(options);
  mla_sequence sequence = newSequence();
  // No context: functions with chunks run.
  ASSERT_OK(planStep({sequence}, {3}, "chunked"));
  expectStatus(planStep({sequence}, {1}, "chunked"), MLA_INVALID_ARGUMENT,
               "no workspace for them (workspace_tokens = -1)");
  EXPECT_EQ(length(sequence), 3);
  // Those without chunks take it.
  ASSERT_OK(planStep({sequence}, {1}, "decode"));
}

TEST_F(StepOptionsTest, A41_SharedPrefixesAreUnsupported) {
  mla_sequence sequence = newSequence();
  int32_t queryLen = 1;
  mla_batch batch = {sizeof batch, 1, &sequence, &queryLen, 16};
  expectStatus(mla_step_plan(plan, &batch, nullptr, nullptr), MLA_UNSUPPORTED,
               "common_prefix_len = 16: cascade attention");
  EXPECT_EQ(length(sequence), 0);
  // Callers from before there was the field.
  batch.struct_bytes = offsetof(mla_batch, common_prefix_len);
  ASSERT_OK(mla_step_plan(plan, &batch, nullptr, nullptr));
}
