//===- OperationTest.cpp - the log of calls and the counters ----*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestPackage.h"

#include <cstdlib>
#include <map>
#include <regex>

using namespace mlac::test;

namespace {
struct Message {
  mla_log_level level;
  std::string text;
};

/// An engine whose calls are logged to a list.
class OperationTest : public EngineTest {
protected:
  void TearDown() override {
    log(MLA_LOG_OFF);
    EngineTest::TearDown();
  }
  void log(mla_log_level level) {
    ASSERT_OK(mla_set_log(level, &note, &messages));
    messages.clear();
  }
  static void note(void *user, mla_log_level level, const char *message) {
    static_cast<std::vector<Message> *>(user)->push_back({level, message});
  }
  void expectMessages(const std::vector<std::pair<mla_log_level, const char *>> &expected) {
    ASSERT_EQ(messages.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(messages[i].level, expected[i].first);
      EXPECT_TRUE(std::regex_match(messages[i].text, std::regex(expected[i].second)))
          << messages[i].text;
    }
    messages.clear();
  }
  /// The counters and their values.
  std::map<std::string, double> metrics() {
    const char *text = nullptr;
    EXPECT_OK(mla_metrics(&text));
    std::map<std::string, double> values;
    std::regex sample("(?:^|\n)(mlac_[a-z_]+(?:\\{[^}]*\\})?) ([0-9]+)(?=\n)");
    std::string all = text;
    for (std::sregex_iterator it(all.begin(), all.end(), sample), end; it != end; ++it)
      values[(*it)[1]] = std::stod((*it)[2]);
    return values;
  }

  std::vector<Message> messages;
};
} // namespace

TEST_F(OperationTest, NothingIsLoggedWhenOff) {
  log(MLA_LOG_OFF);
  mla_sequence sequence = newSequence();
  ASSERT_OK(planStep({sequence}, {3}));
  mla_plan_destroy(nullptr);
  expectMessages({});
}

TEST_F(OperationTest, FailuresCarryTheirMessage) {
  log(MLA_LOG_ERRORS);
  newSequence();
  mla_plan_destroy(nullptr);
  mla_cache_stats stats;
  mla_cache_get_stats(engine, 7, &stats);
  expectMessages(
      {{MLA_LOG_ERRORS, R"(mla_plan_destroy: MLA_INVALID_ARGUMENT in \d+\.\d us: plan is null)"},
       {MLA_LOG_ERRORS, R"(mla_cache_get_stats: MLA_INVALID_ARGUMENT in \d+\.\d us: .*7.*)"}});
}

TEST_F(OperationTest, AFullPoolIsNoFailure) {
  mla_cache_stats stats;
  ASSERT_OK(mla_cache_get_stats(engine, 0, &stats));
  log(MLA_LOG_ERRORS);
  std::vector<mla_sequence> sequences;
  mla_status status = MLA_OK;
  for (int64_t i = 0; i < 4 && status == MLA_OK; ++i) {
    sequences.push_back(newSequence());
    status = planStep({sequences.back()}, {static_cast<int32_t>(stats.num_pages * kPage / 2)});
  }
  ASSERT_EQ(status, MLA_OUT_OF_PAGES) << mla_last_error();
  expectMessages({});
}

TEST_F(OperationTest, EveryCallHasItsOwnNameAndSteps) {
  mla_sequence sequence = newSequence();
  log(MLA_LOG_STEPS);
  ASSERT_OK(planStep({sequence}, {3}, "prefill"));
  int64_t value;
  ASSERT_OK(mla_plan_dim(plan, "num_tokens", &value));
  ASSERT_OK(mla_engine_poison_workspace(engine));
  ASSERT_OK(mla_sequence_length(engine, sequence, &value));
  expectMessages(
      {{MLA_LOG_STEPS,
        R"(step prefill: 1 requests, 3 tokens, longest 3 new of 3 keys, [1-9]\d* launches)"},
       {MLA_LOG_CALLS, R"(mla_step_plan: MLA_OK in \d+\.\d us)"},
       {MLA_LOG_CALLS, R"(mla_plan_dim: MLA_OK in \d+\.\d us)"},
       {MLA_LOG_CALLS, R"(mla_engine_poison_workspace: MLA_OK in \d+\.\d us)"},
       {MLA_LOG_CALLS, R"(mla_sequence_length: MLA_OK in \d+\.\d us)"}});
  log(MLA_LOG_CALLS);
  ASSERT_OK(planStep({sequence}, {1}, "decode"));
  expectMessages({{MLA_LOG_CALLS, R"(mla_step_plan: MLA_OK in \d+\.\d us)"}});
}

TEST_F(OperationTest, OtherLevelsAreRefused) {
  expectStatus(mla_set_log(static_cast<mla_log_level>(4), nullptr, nullptr), MLA_INVALID_ARGUMENT,
               "level = 4, expected 0 to 3");
  expectStatus(mla_metrics(nullptr), MLA_INVALID_ARGUMENT, "text is null");
}

TEST_F(OperationTest, CountersFollowWhatIsServed) {
  std::map<std::string, double> before = metrics();
  mla_sequence sequences[] = {newSequence(), newSequence()};
  ASSERT_OK(planStep({sequences[0], sequences[1]}, {5, 2}, "prefill"));
  alignas(16) float rows[7 * kHidden] = {}, output[7 * kHidden];
  ASSERT_OK(mla_step_run(plan, 0, rows, output, nullptr));
  ASSERT_OK(planStep({sequences[0]}, {1}, "decode"));
  mla_plan_destroy(nullptr);
  std::map<std::string, double> after = metrics();
  auto grown = [&](const std::string &name) {
    EXPECT_TRUE(after.contains(name)) << name;
    return after[name] - before[name];
  };
  EXPECT_EQ(grown("mlac_plans_total{function=\"prefill\"}"), 1);
  EXPECT_EQ(grown("mlac_requests_total{function=\"prefill\"}"), 2);
  EXPECT_EQ(grown("mlac_tokens_total{function=\"prefill\"}"), 7);
  EXPECT_EQ(grown("mlac_tokens_total{function=\"decode\"}"), 1);
  EXPECT_EQ(grown("mlac_layer_runs_total"), 1);
  EXPECT_EQ(grown("mlac_failed_calls_total{status=\"MLA_INVALID_ARGUMENT\"}"), 1);
  // Six tokens and two, in pages of four.
  double used = 0, all = 0;
  for (const auto &[name, value] : after)
    if (name.starts_with("mlac_pool_pages")) {
      all += value;
      used += name.find("state=\"used\"") == std::string::npos ? 0 : value;
    }
  mla_cache_stats stats;
  ASSERT_OK(mla_cache_get_stats(engine, 0, &stats));
  EXPECT_EQ(used, 3);
  EXPECT_EQ(all, static_cast<double>(stats.num_pages));
}
