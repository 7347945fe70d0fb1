//===- StepTest.cpp - running steps on the CPU ------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestPackage.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <numeric>

using namespace mlac;
using namespace mlac::test;

namespace {
struct alignas(16) Row {
  float values[kHidden];
};

/// What the test's kernels compute: 2 * w plus the sum of all rows so far.
class History {
public:
  Row add(const Row &row) {
    for (int64_t j = 0; j < kHidden; ++j)
      sum.values[j] += row.values[j];
    Row out;
    for (int64_t j = 0; j < kHidden; ++j)
      out.values[j] = 2 * static_cast<float>(j + 1) + sum.values[j];
    return out;
  }

private:
  Row sum{};
};

class StepTest : public EngineTest {
protected:
  Row nextRow() {
    Row row;
    for (float &value : row.values)
      value = static_cast<float>(counter++ % 17);
    return row;
  }

  /// Plans and runs a step with fresh rows; compares with the histories.
  void step(const std::vector<mla_sequence> &sequences, const std::vector<int32_t> &lens,
            std::vector<History *> histories, const char *function = nullptr) {
    ASSERT_OK(planStep(sequences, lens, function));
    ASSERT_OK(mla_cache_poison(engine, 0));
    ASSERT_OK(mla_engine_poison_workspace(engine));
    std::vector<Row> hidden, expected;
    for (size_t i = 0; i < lens.size(); ++i)
      for (int32_t token = 0; token < lens[i]; ++token) {
        hidden.push_back(nextRow());
        expected.push_back(histories[i]->add(hidden.back()));
      }
    std::vector<Row> output(hidden.size());
    ASSERT_OK(mla_step_run(plan, 0, hidden.data(), output.data(), nullptr));
    for (size_t i = 0; i < output.size(); ++i)
      for (int64_t j = 0; j < kHidden; ++j)
        EXPECT_EQ(output[i].values[j], expected[i].values[j]) << "token " << i << " column " << j;
  }

  int counter = 0;
};
} // namespace

TEST_F(StepTest, PrefillThenDecodeOverPages) {
  mla_sequence sequence = newSequence();
  History history;
  step({sequence}, {kPage + 1}, {&history});
  const char *name;
  ASSERT_OK(mla_plan_function(plan, &name));
  EXPECT_STREQ(name, "prefill");
  for (int i = 0; i < 2 * kPage; ++i)
    step({sequence}, {1}, {&history});
  ASSERT_OK(mla_plan_function(plan, &name));
  EXPECT_STREQ(name, "decode");
  EXPECT_EQ(length(sequence), 3 * kPage + 1);
}

/// The second code object is loaded while the first is.
TEST_F(StepTest, CodeObjectsAreKeptApart) {
  fb::PackageT two = makePackage();
  fb::TargetT &target = *two.targets[0];
  std::string code = readFile(MLAC_TEST_KERNELS_2);
  target.code.push_back(std::make_unique<fb::CodeObjectT>());
  target.code.back()->name = "kernels-2";
  target.code.back()->bytes.assign(code.begin(), code.end());
  target.kernels[0]->code = 1;
  target.kernels[0]->symbol = "test_scale_2";
  std::string bytes = pack(two);
  mla_package *other = nullptr;
  mla_engine *otherEngine = nullptr;
  mla_engine_options options = defaultOptions();
  ASSERT_OK(mla_package_open_bytes(bytes.data(), bytes.size(), &other));
  ASSERT_OK(mla_engine_create(other, device, &options, &otherEngine));
  ASSERT_OK(mla_engine_destroy(otherEngine));
  ASSERT_OK(mla_package_close(other));
}

TEST_F(StepTest, RaggedBatchWithEmptyRequests) {
  std::vector<mla_sequence> ids = {newSequence(), newSequence(), newSequence(), newSequence()};
  History a, b, c, d;
  step(ids, {3, 0, kPage, 1}, {&a, &b, &c, &d});
  step(ids, {2, 0, 0, 5}, {&a, &b, &c, &d});
  // Freed pages come back in another order: block tables are no longer runs.
  ASSERT_OK(mla_sequence_free(engine, ids[0]));
  ids[0] = newSequence();
  History fresh;
  step({ids[3], ids[0], ids[2]}, {4, 6, 1}, {&d, &fresh, &c});
}

TEST_F(StepTest, PaddedPagesAndLayersAreKeptApart) {
  stop();
  mla_engine_options options = defaultOptions();
  options.page_padding_tokens = 1;
  options.num_layers = 2;
  start(options);
  mla_sequence sequence = newSequence();
  ASSERT_OK(planStep({sequence}, {kPage + 1}));
  std::vector<Row> hidden(kPage + 1), output(kPage + 1);
  for (Row &row : hidden)
    row = nextRow();
  ASSERT_OK(mla_cache_poison(engine, 0));
  ASSERT_OK(mla_cache_poison(engine, 1));
  ASSERT_OK(mla_step_run(plan, 1, hidden.data(), output.data(), nullptr));
  Row read;
  ASSERT_OK(mla_cache_read(engine, 1, 0, kPage, 1, &read));
  EXPECT_EQ(read.values[3], hidden[kPage].values[3]);
  ASSERT_OK(mla_cache_read(engine, 0, 0, kPage, 1, &read));
  mla_cache_stats stats;
  ASSERT_OK(mla_cache_get_stats(engine, 0, &stats));
  EXPECT_EQ(stats.page_stride_bytes, (kPage + 1) * stats.row_bytes);
}

TEST_F(StepTest, PoisonFillsWhatHoldsNoToken) {
  mla_sequence sequence = newSequence();
  ASSERT_OK(planStep({sequence}, {1}));
  Row zero{}, read;
  ASSERT_OK(mla_cache_write(engine, 0, 0, 0, 1, &zero));
  ASSERT_OK(mla_cache_write(engine, 0, 0, 1, 1, &zero));
  ASSERT_OK(mla_cache_poison(engine, 0));
  ASSERT_OK(mla_cache_read(engine, 0, 0, 0, 1, &read));
  EXPECT_EQ(read.values[0], 0.0f);
  ASSERT_OK(mla_cache_read(engine, 0, 0, 1, 1, &read));
  EXPECT_TRUE(std::isnan(read.values[0]));
  expectStatus(mla_cache_read(engine, 0, 0, 12 * kPage, 1, &read), MLA_INVALID_ARGUMENT,
               "the pool has 48");
}

TEST_F(StepTest, TruncateAllowsPlanningAgain) {
  mla_sequence sequence = newSequence();
  ASSERT_OK(planStep({sequence}, {kPage + 1}));
  EXPECT_EQ(freePages(), 10);
  ASSERT_OK(mla_sequence_truncate(engine, sequence, 0));
  EXPECT_EQ(freePages(), 12);
  ASSERT_OK(planStep({sequence}, {1}, "prefill"));
  EXPECT_EQ(length(sequence), 1);
}

TEST_F(StepTest, OutOfPagesChangesNothing) {
  mla_sequence a = newSequence(), b = newSequence();
  ASSERT_OK(mla_sequence_reserve(engine, a, 11 * kPage));
  ASSERT_OK(planStep({a}, {2}));
  EXPECT_EQ(planStep({a, b}, {1, kPage + 1}), MLA_OUT_OF_PAGES);
  EXPECT_EQ(length(a), 2);
  EXPECT_EQ(length(b), 0);
  EXPECT_EQ(freePages(), 1);
  // The plan still holds the step before.
  int64_t tokens;
  ASSERT_OK(mla_plan_dim(plan, "num_tokens", &tokens));
  EXPECT_EQ(tokens, 2);
  ASSERT_OK(planStep({a, b}, {1, kPage}));
  EXPECT_EQ(freePages(), 0);
}

TEST_F(StepTest, RefusedStepsChangeNothing) {
  mla_sequence a = newSequence(), stale = newSequence();
  ASSERT_OK(mla_sequence_free(engine, stale));
  ASSERT_OK(planStep({a}, {3}));
  expectStatus(planStep({a, stale}, {1, 1}), MLA_INVALID_ARGUMENT, "request 1: sequence");
  expectStatus(planStep({a, 0}, {1, 1}), MLA_INVALID_ARGUMENT, "not of this engine");
  expectStatus(planStep({a}, {2}, "decode"), MLA_INVALID_ARGUMENT, "at most 1 tokens, got 2");
  expectStatus(planStep({a}, {1}, "rest"), MLA_NOT_FOUND,
               "the package has: prefill, decode, chunked");
  expectStatus(planStep({a}, {1}, "prepare"), MLA_NOT_FOUND, "prepare");
  expectStatus(planStep({a}, {33}), MLA_INVALID_ARGUMENT, "batch of 33 tokens");
  EXPECT_EQ(length(a), 3);
  EXPECT_EQ(freePages(), 11);
}

TEST_F(StepTest, PositionsOverTheRopeTableAreRefused) {
  stop();
  mla_engine_options options = defaultOptions();
  options.max_num_tokens = 128;
  options.num_pages = 100;
  start(options);
  mla_sequence sequence = newSequence();
  ASSERT_OK(planStep({sequence}, {kRopeLength}));
  expectStatus(planStep({sequence}, {1}), MLA_INVALID_ARGUMENT,
               "seq_len 64 + 1 is over max_seq_len = 64");
  EXPECT_EQ(length(sequence), kRopeLength);
}

TEST_F(StepTest, ChunkLoopSeesEveryChunk) {
  stop();
  mla_engine_options options = defaultOptions();
  options.workspace_tokens = 2 * kPage;
  start(options);
  mla_sequence a = newSequence(), b = newSequence();
  ASSERT_OK(planStep({a, b}, {kPage + 3, 2}));
  ASSERT_OK(planStep({a, b}, {1, 1}, "chunked"));
  alignas(16) float totals[4];
  mla_binding binding = {"lse", totals, 2 * sizeof(float)};
  ASSERT_OK(mla_step_run_bound(plan, 0, &binding, 1, nullptr));
  EXPECT_EQ(totals[0], kPage + 2);
  EXPECT_EQ(totals[1], 3);
  int64_t capacity;
  ASSERT_OK(mla_plan_dim(plan, "chunk_capacity", &capacity));
  EXPECT_EQ(capacity, kPage);
  binding.bytes = sizeof(float);
  expectStatus(mla_step_run_bound(plan, 0, &binding, 1, nullptr), MLA_INVALID_ARGUMENT,
               "'lse' has 4 bytes, the step needs 8");
}

TEST_F(StepTest, BadPointersAreRefused) {
  mla_sequence sequence = newSequence();
  ASSERT_OK(planStep({sequence}, {2}, "prefill"));
  Row rows[4] = {};
  auto *bytes = reinterpret_cast<char *>(rows);
  expectStatus(mla_step_run(plan, 0, nullptr, rows, nullptr), MLA_INVALID_ARGUMENT,
               "'hidden' is null");
  expectStatus(mla_step_run(plan, 0, rows, nullptr, nullptr), MLA_INVALID_ARGUMENT,
               "'output' is null");
  expectStatus(mla_step_run(plan, 0, bytes + 4, rows + 3, nullptr), MLA_INVALID_ARGUMENT,
               "not aligned to 16 bytes");
  expectStatus(mla_step_run(plan, 0, rows, rows + 1, nullptr), MLA_INVALID_ARGUMENT,
               "overlaps 'hidden'");
  auto *stream = reinterpret_cast<mla_stream *>(&rows);
  expectStatus(mla_step_run(plan, 0, rows, rows + 2, stream), MLA_INVALID_ARGUMENT,
               "stream must be null");
  expectStatus(mla_step_run(plan, 7, rows, rows + 2, nullptr), MLA_INVALID_ARGUMENT, "layer 7");
  mla_binding bindings[] = {{"hidden", rows, sizeof(Row) * 2}, {"cache", rows + 2, sizeof(Row)}};
  expectStatus(mla_step_run_bound(plan, 0, bindings, 2, nullptr), MLA_INVALID_ARGUMENT,
               "no input or output 'cache'");
  expectStatus(mla_step_run_bound(plan, 0, bindings, 1, nullptr), MLA_INVALID_ARGUMENT,
               "'output' is not bound");
}

TEST_F(StepTest, UnfilledPlanIsWrongState) {
  Row row{}, out;
  expectStatus(mla_step_run(plan, 0, &row, &out, nullptr), MLA_WRONG_STATE, "has not been filled");
  int64_t value;
  EXPECT_EQ(mla_plan_dim(plan, "num_tokens", &value), MLA_WRONG_STATE);
}

TEST_F(StepTest, ProfileListsLaunches) {
  mla_sequence sequence = newSequence();
  ASSERT_OK(planStep({sequence}, {1}));
  Row row{}, out;
  const char *json;
  ASSERT_OK(mla_step_profile(plan, 0, &row, &out, nullptr, &json));
  EXPECT_NE(std::string(json).find("\"label\":\"attend\""), std::string::npos);
}

TEST_F(StepTest, UndefinedPlanExpressionIsRefused) {
  fb::PackageT description = makePackage();
  fb::FunctionT &prefill = *description.targets[0]->functions[1];
  Exprs exprs(prefill);
  prefill.steps[0]->launch->grid[1] = exprs.add(fb::ExprOp::Div, 1, exprs.constant(0));
  std::string bytes = pack(description);
  mla_package *broken;
  mla_engine *other;
  mla_plan *otherPlan;
  mla_sequence sequence;
  ASSERT_OK(mla_package_open_bytes(bytes.data(), bytes.size(), &broken));
  ASSERT_OK(mla_engine_create(broken, device, nullptr, &other));
  ASSERT_OK(mla_plan_create(other, &otherPlan));
  ASSERT_OK(mla_sequence_create(other, &sequence));
  int32_t queryLen = 2;
  mla_batch batch = {sizeof batch, 1, &sequence, &queryLen, 0};
  expectStatus(mla_step_plan(otherPlan, &batch, "prefill", nullptr), MLA_CORRUPT,
               "function 'prefill': expression");
  int64_t tokens = -1;
  ASSERT_OK(mla_sequence_length(other, sequence, &tokens));
  EXPECT_EQ(tokens, 0);
  mla_plan_destroy(otherPlan);
  mla_engine_destroy(other);
  mla_package_close(broken);
}

/// Loading is part of a server's start and of every tool's run: the issue asks
/// for 10 ms without weights. The limit here is loose, since test machines
/// share their cores.
TEST_F(StepTest, C14_LoadAndPlanTakeMilliseconds) {
  using Clock = std::chrono::steady_clock;
  constexpr double kLimitMs = 100;
  stop();
  auto begin = Clock::now();
  start(defaultOptions());
  mla_sequence sequence = newSequence();
  ASSERT_OK(planStep({sequence}, {1}));
  double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  std::cout << "load, bind and plan: " << ms << " ms\n";
  RecordProperty("milliseconds", std::to_string(ms));
  EXPECT_LT(ms, kLimitMs);
}
