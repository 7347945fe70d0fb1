//===- ExternalPoolsTest.cpp - caches that belong to the caller -*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A39: memory, block tables, lengths and slots of the caller's in the place of the
// engine's. What runs over them gives the bits that sequences give (EngineTest's kernels
// sum rows), and everything else of the memory keeps its bytes. Memory is freed as soon as
// it may be, so that sanitizers see who reads it later.
//
//===----------------------------------------------------------------------===//

#include "TestPackage.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>

using namespace mlac::test;

namespace {
constexpr int64_t kPageBytes = kPage * kRow * int64_t(sizeof(float));
constexpr int64_t kPages = 7, kStride = kPageBytes + 48; // more than a page
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct alignas(16) Row {
  float values[kHidden];
};

/// A caller's pool, NaN where nobody has written.
class Memory {
public:
  Memory(int64_t pages, int64_t stride) : pages(pages), stride(stride), rows(pages * stride / 16) {
    for (Unit &unit : rows)
      std::fill_n(unit.values, 4, kNan);
  }
  mla_external_pool pool() { return {sizeof(mla_external_pool), rows.data(), pages, stride, {}}; }
  float *row(int64_t slot) {
    char *page = reinterpret_cast<char *>(rows.data()) + slot / kPage * stride;
    return reinterpret_cast<float *>(page) + slot % kPage * kRow;
  }
  /// Elements that are not NaN.
  int64_t numWritten() const {
    int64_t count = 0;
    for (const Unit &unit : rows)
      for (float value : unit.values)
        count += !std::isnan(value);
    return count;
  }

private:
  struct alignas(16) Unit {
    float values[4];
  };
  int64_t pages, stride;
  std::vector<Unit> rows;
};

/// A batch as a caller has it.
struct Tables {
  std::vector<int32_t> queryLens, seqLens, blocks;
  int64_t columns;
  std::vector<int64_t> slots;
  mla_table_batch batch() const {
    return {sizeof(mla_table_batch),
            static_cast<int64_t>(queryLens.size()),
            queryLens.data(),
            seqLens.data(),
            blocks.data(),
            columns,
            slots.data()};
  }
};

class ExternalPoolsTest : public EngineTest {
protected:
  void SetUp() override {
    start(externalOptions());
    memory = std::make_unique<Memory>(kPages, kStride);
  }
  static mla_engine_options externalOptions(int64_t layers = 1) {
    mla_engine_options options = defaultOptions();
    options.num_pages = 0;
    options.num_layers = layers;
    options.external_pools = 1;
    return options;
  }
  mla_status bind(const mla_external_pool &pool, int64_t layer = 0) {
    return mla_engine_bind_pool(engine, layer, 0, &pool);
  }
  mla_status planTables(const Tables &tables, const char *function = nullptr) {
    mla_table_batch batch = tables.batch();
    return mla_step_plan_tables(plan, &batch, function, nullptr, nullptr);
  }
  /// Rows first, first + 1, ... as hidden states.
  static std::vector<Row> makeRows(size_t count, int first) {
    std::vector<Row> rows(count);
    for (Row &row : rows)
      for (float &value : row.values)
        value = static_cast<float>(first++ % 17);
    return rows;
  }
  std::vector<Row> run(const std::vector<Row> &hidden) {
    std::vector<Row> output(hidden.size());
    EXPECT_OK(mla_step_run(plan, 0, hidden.data(), output.data(), nullptr));
    return output;
  }

  std::unique_ptr<Memory> memory;
};
} // namespace

static bool equal(const std::vector<Row> &a, const std::vector<Row> &b) {
  return a.size() == b.size() && !std::memcmp(a.data(), b.data(), a.size() * sizeof(Row));
}

// Two requests: page + 2 and 3 tokens, then one more each.
static const Tables kPrefill = {{kPage + 2, 3},
                                {kPage + 2, 3},
                                {5, 2, 0, 3, -9, 1 << 30},
                                3,
                                {20, 21, 22, 23, 8, 9, 12, 13, 14}};
static const Tables kDecode = {{1, 1}, {kPage + 3, 4}, {5, 2, 3, 99}, 2, {10, 15}};

TEST_F(ExternalPoolsTest, A39_TablesGiveWhatSequencesGive) {
  ASSERT_OK(bind(memory->pool()));
  std::vector<Row> prompt = makeRows(9, 1), next = makeRows(2, 200);
  ASSERT_OK(planTables(kPrefill));
  std::vector<Row> first = run(prompt);
  ASSERT_OK(planTables(kDecode));
  const char *name;
  ASSERT_OK(mla_plan_function(plan, &name));
  EXPECT_STREQ(name, "decode");
  std::vector<Row> second = run(next);
  EXPECT_EQ(memory->numWritten(), 11 * kRow); // eleven tokens and nothing else
  EXPECT_EQ(memory->row(15)[0], next[1].values[0]);
  stop();
  memory.reset(); // nobody reads it any more

  start(defaultOptions());
  std::vector<mla_sequence> sequences = {newSequence(), newSequence()};
  ASSERT_OK(planStep(sequences, {kPage + 2, 3}));
  EXPECT_TRUE(equal(run(prompt), first));
  ASSERT_OK(planStep(sequences, {1, 1}));
  EXPECT_TRUE(equal(run(next), second));
}

TEST_F(ExternalPoolsTest, A39_DeviceArraysGiveWhatTablesGive) {
  ASSERT_OK(bind(memory->pool()));
  std::vector<Row> next = makeRows(2, 200);
  ASSERT_OK(planTables(kPrefill));
  run(makeRows(9, 1));
  ASSERT_OK(planTables(kDecode));
  std::vector<Row> expected = run(next);
  // Columns of any number; the test's kernels know contexts by their bounds.
  alignas(16) int32_t lengths[] = {kPage + 3, 4}, blocks[] = {5, 2, 7, 7, 7, 3, 7, 7, 7, 7};
  alignas(16) int64_t slots[] = {10, 15}, positions[] = {kPage + 2, 3};
  int32_t ones[] = {1, 1};
  mla_device_batch batch = {sizeof batch, 2, ones, lengths, lengths, blocks, 5, slots, positions};
  ASSERT_OK(mla_step_plan_device(plan, &batch, "decode", nullptr));
  EXPECT_TRUE(equal(run(next), expected));
  // Arrays that are on the device only have no copy on the host.
  mla_dtype dtype;
  int64_t elements;
  const void *data;
  expectStatus(mla_plan_metadata(plan, "block_table", &dtype, &elements, &data), MLA_UNSUPPORTED,
               "metadata 'block_table' is the caller's");
  slots[0] = slots[1] = -1;
  int64_t written = memory->numWritten();
  memory->row(10)[0] = 7777;
  run(next);
  EXPECT_EQ(memory->row(10)[0], 7777);
  EXPECT_EQ(memory->numWritten(), written);
}

TEST_F(ExternalPoolsTest, A39_TablesOverThePoolOfTheEngine) {
  stop();
  start(defaultOptions());
  std::vector<Row> prompt = makeRows(9, 1);
  ASSERT_OK(planTables(kPrefill));
  std::vector<Row> first = run(prompt);
  // The entries changed behind a plan's back; sequences of the engine are no matter.
  Tables moved = kPrefill;
  moved.blocks = {1, 6, 0, 4, 0, 0};
  moved.slots = {4, 5, 6, 7, 24, 25, 16, 17, 18};
  mla_sequence other = newSequence();
  ASSERT_OK(mla_sequence_reserve(engine, other, kPage));
  ASSERT_OK(planTables(moved));
  ASSERT_OK(mla_sequence_free(engine, other));
  EXPECT_TRUE(equal(run(prompt), first));
  mla_dtype dtype;
  int64_t elements;
  const void *data;
  ASSERT_OK(mla_plan_metadata(plan, "block_table", &dtype, &elements, &data));
  EXPECT_EQ(static_cast<const int32_t *>(data)[1], 6);
}

TEST_F(ExternalPoolsTest, A39_NegativeSlotsWriteNothing) {
  ASSERT_OK(bind(memory->pool()));
  Tables tables = kPrefill;
  tables.slots = {20, -1, 22, 23, 8, -5, 12, 13, 14};
  ASSERT_OK(planTables(tables));
  run(makeRows(9, 1));
  EXPECT_EQ(memory->numWritten(), 7 * kRow);
  EXPECT_TRUE(std::isnan(memory->row(21)[0]));
}

TEST_F(ExternalPoolsTest, A39_TwoEnginesShareAPool) {
  ASSERT_OK(bind(memory->pool()));
  ASSERT_OK(planTables(kPrefill));
  std::vector<Row> prompt = makeRows(9, 1), next = makeRows(2, 200);
  run(prompt);
  mla_engine_options options = externalOptions();
  mla_engine *second;
  mla_plan *decode;
  float weight[] = {1, 2, 3, 4, 5, 6, 7, 8};
  int64_t shape[] = {kHidden};
  ASSERT_OK(mla_engine_create(package, device, &options, &second));
  ASSERT_OK(mla_engine_bind_weight(second, 0, "w", MLA_F32, shape, 1, weight));
  ASSERT_OK(mla_engine_prepare(second, 0));
  mla_external_pool pool = memory->pool();
  ASSERT_OK(mla_engine_bind_pool(second, 0, 0, &pool));
  ASSERT_OK(mla_plan_create(second, &decode));
  mla_table_batch batch = kDecode.batch();
  std::vector<Row> here = next, there(2);
  ASSERT_OK(mla_step_plan_tables(decode, &batch, nullptr, nullptr, nullptr));
  ASSERT_OK(mla_step_run(decode, 0, next.data(), there.data(), nullptr));
  ASSERT_OK(mla_plan_destroy(decode));
  ASSERT_OK(mla_engine_destroy(second));
  ASSERT_OK(planTables(kDecode)); // the pool is still there
  EXPECT_TRUE(equal(run(next), there));
}

TEST_F(ExternalPoolsTest, A39_TablesOnTheDeviceGiveTheSame) {
  ASSERT_OK(bind(memory->pool()));
  ASSERT_OK(planTables(kPrefill));
  std::vector<Row> prompt = makeRows(9, 1), expected = run(prompt);
  // Addresses of 16 bytes; of the CPU the device's memory is the host's.
  alignas(MLA_DATA_ALIGNMENT) int32_t blocks[6];
  alignas(MLA_DATA_ALIGNMENT) int64_t slots[9];
  std::ranges::copy(kPrefill.blocks, blocks);
  std::ranges::copy(kPrefill.slots, slots);
  mla_table_batch batch = kPrefill.batch();
  batch.block_table = blocks;
  batch.slot_mapping = slots;
  batch.flags = MLA_TABLES_ON_DEVICE;
  ASSERT_OK(mla_step_plan_tables(plan, &batch, nullptr, nullptr, nullptr));
  EXPECT_TRUE(equal(run(prompt), expected));
  // Runs read them, nobody before: other pages, and the slots there.
  std::swap(blocks[0], blocks[3]);
  for (int64_t &slot : slots)
    slot = -1;
  EXPECT_FALSE(equal(run(prompt), expected));

  auto refuse = [&](mla_status status, const char *message) {
    expectStatus(mla_step_plan_tables(plan, &batch, nullptr, nullptr, nullptr), status, message);
  };
  batch.slot_mapping = slots + 1;
  refuse(MLA_INVALID_ARGUMENT, "batch.slot_mapping is not aligned to 16 bytes");
  batch.slot_mapping = nullptr;
  refuse(MLA_INVALID_ARGUMENT, "batch.slot_mapping is null");
  batch.flags = 2;
  refuse(MLA_INVALID_ARGUMENT, "batch.flags is 2, expected MLA_TABLES_ON_DEVICE or nothing");
  // Callers that were compiled before there were flags.
  batch = kPrefill.batch();
  batch.flags = 2;
  batch.struct_bytes = offsetof(mla_table_batch, flags);
  EXPECT_OK(mla_step_plan_tables(plan, &batch, nullptr, nullptr, nullptr));
}

TEST_F(ExternalPoolsTest, A39_PoolsMayChangeBetweenSteps) {
  Memory larger(kPages + 3, kPageBytes);
  ASSERT_OK(bind(memory->pool()));
  ASSERT_OK(planTables(kPrefill));
  std::vector<Row> prompt = makeRows(9, 1), first = run(prompt);
  ASSERT_OK(bind(larger.pool()));
  memory.reset(); // the engine has another
  std::vector<Row> output(9);
  expectStatus(mla_step_run(plan, 0, prompt.data(), output.data(), nullptr), MLA_WRONG_STATE,
               "the layer's pool has 10 pages, 128 bytes apart, the plan was filled for 7, 176 "
               "bytes apart");
  Tables tables = kPrefill;
  tables.blocks[1] = 9; // beyond the old pool
  tables.slots[4] = 36, tables.slots[5] = 37;
  ASSERT_OK(planTables(tables));
  EXPECT_TRUE(equal(run(prompt), first));
  ASSERT_OK(mla_engine_bind_pool(engine, 0, 0, nullptr));
  expectStatus(mla_step_run(plan, 0, prompt.data(), output.data(), nullptr), MLA_WRONG_STATE,
               "layer 0 has no pool");
}

TEST_F(ExternalPoolsTest, A39_LayersHavePoolsThatAreAlike) {
  stop();
  start(externalOptions(2));
  Memory other(kPages, kStride);
  expectStatus(planTables(kPrefill), MLA_WRONG_STATE, "no layer has a pool");
  ASSERT_OK(bind(memory->pool()));
  mla_external_pool pool = other.pool();
  pool.num_pages = kPages - 1;
  expectStatus(bind(pool, 1), MLA_INVALID_ARGUMENT,
               "a pool of 6 pages, 176 bytes apart; layer 0 has 7, 176 bytes apart");
  ASSERT_OK(planTables(kPrefill));
  std::vector<Row> prompt = makeRows(9, 1), output(9);
  expectStatus(mla_step_run(plan, 1, prompt.data(), output.data(), nullptr), MLA_WRONG_STATE,
               "layer 1 has no pool");
  ASSERT_OK(bind(other.pool(), 1));
  ASSERT_OK(mla_step_run(plan, 1, prompt.data(), output.data(), nullptr));
  EXPECT_EQ(memory->numWritten(), 0);
  EXPECT_EQ(other.numWritten(), 9 * kRow);
}

/// As functions that count pages in rows do.
TEST_F(ExternalPoolsTest, A39_StridesThatAFunctionCannotCountAreRefused) {
  stop();
  fb::PackageT content = makePackage();
  for (auto &function : content.targets[0]->functions)
    if (function->name == "decode") {
      Exprs exprs(*function);
      exprs.add(fb::ExprOp::Div, exprs.dim("page_stride"), exprs.constant(kRow));
    }
  start(externalOptions(), content);
  ASSERT_OK(bind(memory->pool()));
  ASSERT_OK(planTables(kPrefill));
  expectStatus(planTables(kDecode), MLA_UNSUPPORTED,
               "function 'decode' counts pages in units of 8 elements, of which the pool's page "
               "stride of 44 is no multiple");
  Memory whole(kPages, kPageBytes + 32);
  ASSERT_OK(bind(whole.pool()));
  ASSERT_OK(planTables(kDecode));
}

TEST_F(ExternalPoolsTest, A39_BadPoolsAreRefused) {
  auto refuse = [&](auto change, const char *text, mla_status code = MLA_INVALID_ARGUMENT) {
    mla_external_pool pool = memory->pool();
    change(pool);
    expectStatus(bind(pool), code, text);
  };
  refuse([](auto &pool) { pool.struct_bytes = 4; }, "pool.struct_bytes = 4, expected 40");
  refuse([](auto &pool) { pool.data = nullptr; }, "pool.data is null");
  refuse([](auto &pool) { pool.data = static_cast<char *>(pool.data) + 4; },
         "pool.data is not aligned to 16 bytes: address ends in 4");
  refuse([](auto &pool) { pool.num_pages = 0; }, "pool.num_pages = 0, expected 1 to 2147479999");
  refuse([](auto &pool) { pool.page_stride_bytes = kPageBytes - 16; },
         "page stride of 112 bytes, format mla_f32 needs at least 128");
  refuse([](auto &pool) { pool.page_stride_bytes = kPageBytes + 8; },
         "pool.page_stride_bytes = 136, expected a multiple of 16");
  refuse([](auto &pool) { pool.page_stride_bytes = int64_t(1) << 62; },
         "pages of 4611686018427387904 bytes overflow 64 bits");
  refuse([](auto &pool) { pool.rope = pool.data; },
         "pool.rope is not null: rows of mla_f32 are whole");
  expectStatus(bind(memory->pool(), 1), MLA_INVALID_ARGUMENT, "layer 1, expected 0 to 0");
  stop();
  start(defaultOptions());
  expectStatus(bind(memory->pool()), MLA_UNSUPPORTED,
               "the engine has pools of its own: create it with external_pools = 1");
}

TEST_F(ExternalPoolsTest, A39_BadTablesAreRefused) {
  ASSERT_OK(bind(memory->pool()));
  auto refuse = [&](auto change, const char *text) {
    Tables tables = kPrefill;
    change(tables);
    expectStatus(planTables(tables), MLA_INVALID_ARGUMENT, text);
  };
  refuse([](Tables &t) { t.blocks[1] = 7; },
         "request 0: block_table entry 1 is page 7, the pool has 7");
  refuse([](Tables &t) { t.blocks[3] = -1; },
         "request 1: block_table entry 0 is page -1, the pool has 7");
  refuse([](Tables &t) { t.slots[8] = 28; }, "slot 28 of token 8, the pool has 28");
  refuse([](Tables &t) { t.seqLens[1] = 2; }, "request 1: seq_len 2, expected 3 (the query) to");
  refuse([](Tables &t) { t.seqLens[0] = 65; }, "to max_seq_len = 64");
  refuse([](Tables &t) { t.seqLens[0] = 13; },
         "request 0: seq_len 13 takes 4 pages, block_table_stride is 3");
  refuse([](Tables &t) { t.queryLens[0] = -1; }, "request 0: query length -1 is negative");
  refuse([](Tables &t) { t.queryLens.clear(); }, "batch of 0 requests, expected 1 to");
  mla_table_batch batch = kPrefill.batch();
  batch.slot_mapping = nullptr;
  auto planIt = [&] { return mla_step_plan_tables(plan, &batch, nullptr, nullptr, nullptr); };
  expectStatus(planIt(), MLA_INVALID_ARGUMENT, "batch.slot_mapping is null");
  batch.block_table = nullptr;
  expectStatus(planIt(), MLA_INVALID_ARGUMENT, "batch.block_table is null");
  batch.struct_bytes = 8;
  expectStatus(planIt(), MLA_INVALID_ARGUMENT, "batch.struct_bytes = 8, expected 80");
  expectStatus(planTables(kPrefill, "decode"), MLA_INVALID_ARGUMENT, "takes queries of at most 1");
}

TEST_F(ExternalPoolsTest, A39_WhatTheCallerOwnsIsRefused) {
  const char *reason = "the engine's pools are the caller's (external_pools), who knows";
  mla_sequence sequence = 1;
  mla_cache *cache;
  mla_swap *swap;
  int32_t tokens = 1;
  mla_batch batch = {sizeof batch, 1, &sequence, &tokens, 0};
  expectStatus(mla_sequence_create(engine, &sequence), MLA_UNSUPPORTED, reason);
  expectStatus(mla_engine_cache(engine, &cache), MLA_UNSUPPORTED, reason);
  expectStatus(mla_swap_create(engine, 4, &swap), MLA_UNSUPPORTED, reason);
  expectStatus(mla_cache_poison(engine, 0), MLA_UNSUPPORTED, reason);
  expectStatus(mla_step_plan(plan, &batch, nullptr, nullptr), MLA_UNSUPPORTED,
               "plan with mla_step_plan_tables or mla_step_plan_device");
  float row[kRow];
  void *data;
  expectStatus(mla_cache_read(engine, 0, 0, 0, 1, row), MLA_WRONG_STATE, "layer 0 has no pool");
  expectStatus(mla_cache_data(engine, 0, 0, &data), MLA_WRONG_STATE, "layer 0 has no pool");
  ASSERT_OK(bind(memory->pool()));
  ASSERT_OK(mla_cache_data(engine, 0, 0, &data));
  EXPECT_EQ(data, memory->pool().data);
  EXPECT_EQ(memory->numWritten(), 0);
  ASSERT_OK(mla_cache_read(engine, 0, 0, 4 * kPages - 1, 1, row));
  expectStatus(mla_cache_read(engine, 0, 0, 4 * kPages, 1, row), MLA_INVALID_ARGUMENT,
               "the pool has 28");
  mla_cache_stats stats;
  ASSERT_OK(mla_cache_get_stats(engine, 0, &stats));
  EXPECT_EQ(stats.num_pages, kPages);
  EXPECT_EQ(stats.page_stride_bytes, kStride);
  EXPECT_EQ(stats.free_pages, 0);

  auto refuse = [&](auto change, const char *text) {
    mla_engine_options options = externalOptions();
    change(options);
    mla_engine *other;
    expectStatus(mla_engine_create(package, device, &options, &other), MLA_INVALID_ARGUMENT, text);
  };
  refuse([](auto &options) { options.external_pools = 2; },
         "option external_pools = 2, expected 0 to 1");
  refuse([](auto &options) { options.num_pages = 5; },
         "option num_pages = 5, expected 0 with external_pools");
  refuse([](auto &options) { options.page_padding_tokens = 1; },
         "option page_padding_tokens = 1, expected 0 with external_pools");
}
