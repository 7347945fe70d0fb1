//===- BadInputTest.cpp - what the C API refuses ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every function with null, closed, foreign and out-of-range arguments on a
// living engine: an error that names value and limit, and an engine that works
// on as if nothing had been called.
//
//===----------------------------------------------------------------------===//

#include "TestPackage.h"

#include <limits>
#include <sys/stat.h>
#include <unistd.h>

using namespace mlac::test;

namespace {
class BadInputTest : public EngineTest {
protected:
  void TearDown() override {
    if (engine)
      expectEngineWorks();
    EngineTest::TearDown();
  }

  /// Nothing refused has left a trace: pages and lengths are as before, and a
  /// step computes.
  void expectEngineWorks() {
    mla_sequence sequence = newSequence();
    int64_t pages = freePages();
    ASSERT_OK(planStep({sequence}, {1}));
    EXPECT_EQ(freePages(), pages - 1);
    alignas(16) float hidden[kHidden] = {}, output[kHidden];
    ASSERT_OK(mla_step_run(plan, 0, hidden, output, nullptr));
  }

  void expectInvalid(mla_status status, const char *text) {
    expectStatus(status, MLA_INVALID_ARGUMENT, text);
  }
};

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
} // namespace

TEST_F(BadInputTest, NullHandles) {
  mla_sequence sequence;
  int64_t count;
  mla_cache_stats stats;
  const char *text;
  const void *constData;
  void *data;
  mla_dtype dtype;
  float row[kHidden];
  expectInvalid(mla_package_close(nullptr), "package is null");
  expectInvalid(mla_device_close(nullptr), "device is null");
  expectInvalid(mla_device_info(nullptr, &text), "device is null");
  expectInvalid(mla_device_malloc(nullptr, 4, &data), "device is null");
  expectInvalid(mla_device_upload(nullptr, row, row, 4), "device is null");
  expectInvalid(mla_device_synchronize(nullptr), "device is null");
  expectInvalid(mla_event_record(nullptr, nullptr), "event is null");
  expectInvalid(mla_engine_destroy(nullptr), "engine is null");
  expectInvalid(mla_engine_info(nullptr, &text), "engine is null");
  expectInvalid(mla_engine_prepare(nullptr, 0), "engine is null");
  expectInvalid(mla_engine_bind_safetensors(nullptr, 0, "/x", nullptr, 0), "engine is null");
  expectInvalid(mla_sequence_create(nullptr, &sequence), "engine is null");
  expectInvalid(mla_sequence_free(nullptr, 1), "engine is null");
  expectInvalid(mla_cache_get_stats(nullptr, 0, &stats), "engine is null");
  expectInvalid(mla_cache_poison(nullptr, 0), "engine is null");
  expectInvalid(mla_plan_destroy(nullptr), "plan is null");
  expectInvalid(mla_step_run(nullptr, 0, row, row, nullptr), "plan is null");
  expectInvalid(mla_plan_dim(nullptr, "num_tokens", &count), "plan is null");
  expectInvalid(mla_plan_metadata(nullptr, "positions", &dtype, &count, &constData),
                "plan is null");
}

TEST_F(BadInputTest, NullPointers) {
  mla_sequence sequence = newSequence();
  ASSERT_OK(planStep({sequence}, {2}, "prefill"));
  expectInvalid(mla_package_info(package, nullptr), "is null");
  expectInvalid(mla_device_info(device, nullptr), "is null");
  expectInvalid(mla_device_malloc(device, 4, nullptr), "is null");
  expectInvalid(mla_event_create(device, nullptr), "is null");
  expectInvalid(mla_engine_create(package, device, nullptr, nullptr), "is null");
  expectInvalid(mla_engine_info(engine, nullptr), "is null");
  expectInvalid(mla_engine_bind_safetensors(engine, 0, nullptr, nullptr, 0), "path is null");
  expectInvalid(mla_sequence_create(engine, nullptr), "is null");
  expectInvalid(mla_sequence_length(engine, sequence, nullptr), "is null");
  expectInvalid(mla_sequence_pages(engine, sequence, nullptr, 0, nullptr), "is null");
  expectInvalid(mla_cache_get_stats(engine, 0, nullptr), "is null");
  expectInvalid(mla_cache_data(engine, 0, 0, nullptr), "is null");
  expectInvalid(mla_cache_read(engine, 0, 0, 0, 1, nullptr), "is null");
  expectInvalid(mla_cache_write(engine, 0, 0, 0, 1, nullptr), "is null");
  expectInvalid(mla_plan_create(engine, nullptr), "is null");
  expectInvalid(mla_step_plan(plan, nullptr, nullptr, nullptr), "batch is null");
  expectInvalid(mla_step_run_bound(plan, 0, nullptr, 2, nullptr), "is null");
  expectInvalid(mla_plan_function(plan, nullptr), "is null");
  expectInvalid(mla_plan_dim(plan, nullptr, nullptr), "is null");
  expectInvalid(mla_plan_metadata(plan, "positions", nullptr, nullptr, nullptr), "is null");
  EXPECT_EQ(length(sequence), 2);
}

TEST_F(BadInputTest, MalformedBatches) {
  mla_sequence sequence = newSequence();
  int32_t one = 1;
  mla_batch good = {sizeof(mla_batch), 1, &sequence, &one, 0};
  auto refuse = [&](mla_batch batch, const char *text) {
    expectInvalid(mla_step_plan(plan, &batch, nullptr, nullptr), text);
  };
  mla_batch batch = good;
  batch.struct_bytes = 3;
  refuse(batch, "struct_bytes = 3");
  batch = good;
  batch.sequences = nullptr;
  refuse(batch, "batch without sequences");
  batch = good;
  batch.query_lens = nullptr;
  refuse(batch, "batch without query_lens");
  for (int64_t count : {int64_t(0), int64_t(-1), kHuge}) {
    batch = good;
    batch.num_requests = count;
    refuse(batch, ("batch of " + std::to_string(count) + " requests").c_str());
  }
  int32_t longest = std::numeric_limits<int32_t>::max();
  batch = good;
  batch.query_lens = &longest;
  refuse(batch, "2147483647");
  EXPECT_EQ(length(sequence), 0);
}

TEST_F(BadInputTest, SequencesOfAnotherEngine) {
  mla_engine *other;
  mla_engine_options options = defaultOptions();
  ASSERT_OK(mla_engine_create(package, device, &options, &other));
  mla_sequence foreign, own = newSequence();
  ASSERT_OK(mla_sequence_create(other, &foreign));
  int64_t value, pages = freePages();
  expectInvalid(planStep({own, foreign}, {1, 1}), "not of this engine");
  expectInvalid(mla_sequence_reserve(engine, foreign, 4), "not of this engine");
  expectInvalid(mla_sequence_free(engine, foreign), "not of this engine");
  expectInvalid(mla_sequence_length(engine, foreign, &value), "not of this engine");
  EXPECT_EQ(freePages(), pages);
  EXPECT_EQ(length(own), 0);
  ASSERT_OK(mla_sequence_length(other, foreign, &value));
  ASSERT_OK(mla_engine_destroy(other));
  expectInvalid(mla_sequence_length(other, foreign, &value), "engine has been");
}

TEST_F(BadInputTest, LengthsOverTheBlockTable) {
  mla_sequence sequence = newSequence();
  int64_t pages = freePages();
  expectInvalid(mla_sequence_reserve(engine, sequence, kRopeLength + 1), "65");
  EXPECT_NE(std::string(mla_last_error()).find("64"), std::string::npos) << mla_last_error();
  expectInvalid(mla_sequence_reserve(engine, sequence, kHuge), "64");
  expectInvalid(mla_sequence_reserve(engine, sequence, -1), "-1");
  EXPECT_EQ(freePages(), pages);
  ASSERT_OK(planStep({sequence}, {3}));
  expectInvalid(mla_sequence_truncate(engine, sequence, 4), "4");
  expectInvalid(mla_sequence_truncate(engine, sequence, -1), "-1");
  EXPECT_EQ(length(sequence), 3);
}

TEST_F(BadInputTest, LayersAndSlotsOutOfRange) {
  std::vector<char> rows(4096);
  void *data;
  for (int64_t layer : {int64_t(-1), int64_t(5), kHuge}) {
    std::string text = "layer " + std::to_string(layer) + ", expected 0 to ";
    expectInvalid(mla_cache_data(engine, layer, 0, &data), text.c_str());
    expectInvalid(mla_cache_poison(engine, layer), text.c_str());
    expectInvalid(mla_engine_prepare(engine, layer), text.c_str());
    expectInvalid(mla_cache_read(engine, layer, 0, 0, 1, rows.data()), text.c_str());
  }
  mla_cache_stats stats;
  ASSERT_OK(mla_cache_get_stats(engine, 0, &stats));
  int64_t slots = stats.num_pages * stats.page_size;
  struct Range {
    int64_t slot, count;
  };
  for (Range range : {Range{slots, 1}, {slots - 1, 2}, {-1, 1}, {0, -1}, {kHuge, 1}, {1, kHuge}}) {
    std::string last = std::to_string(slots);
    expectInvalid(mla_cache_read(engine, 0, 0, range.slot, range.count, rows.data()), last.c_str());
    expectInvalid(mla_cache_write(engine, 0, 0, range.slot, range.count, rows.data()), last.c_str());
  }
}

/// No writer ever opens the FIFO: a reader that opened it would wait for ever.
TEST_F(BadInputTest, FifosDoNotBlock) {
  std::string fifo = ::testing::TempDir() + "mlac-fifo-" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  mla_package *opened;
  mla_cache *cache;
  ASSERT_OK(mla_engine_cache(engine, &cache));
  const char *kText = "is a FIFO, expected a regular file";
  expectStatus(mla_package_open(fifo.c_str(), &opened), MLA_NOT_FOUND, kText);
  expectStatus(mla_engine_bind_safetensors(engine, 0, fifo.c_str(), "", 0), MLA_NOT_FOUND, kText);
  expectStatus(mla_cache_restore(cache, fifo.c_str()), MLA_NOT_FOUND, kText);
  ASSERT_OK(mla_cache_destroy(cache));
  ASSERT_EQ(unlink(fifo.c_str()), 0);
}

TEST_F(BadInputTest, ClosedPlansAndEvents) {
  mla_plan *closed;
  mla_event *event;
  double milliseconds;
  ASSERT_OK(mla_plan_create(engine, &closed));
  ASSERT_OK(mla_plan_destroy(closed));
  expectInvalid(mla_plan_destroy(closed), "plan has been");
  expectInvalid(mla_step_plan(closed, nullptr, nullptr, nullptr), "plan has been");
  ASSERT_OK(mla_event_create(device, &event));
  expectStatus(mla_event_elapsed(event, event, &milliseconds), MLA_WRONG_STATE,
               "the begin event has not been recorded");
  ASSERT_OK(mla_event_destroy(event));
  expectInvalid(mla_event_record(event, nullptr), "event has been");
  expectInvalid(mla_step_run(reinterpret_cast<mla_plan *>(engine), 0, nullptr, nullptr, nullptr),
                "the handle is no plan");
}
