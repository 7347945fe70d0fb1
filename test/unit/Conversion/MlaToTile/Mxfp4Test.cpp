//===- Mxfp4Test.cpp - an indexer in MXFP4 on the CPU ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keys are the bytes of the runtime's conversion on the host, queries the numbers that those bytes
// stand for, and scores are float64's: V4-19 to V4-21 (v4.md sections 2, 4 and 7).
//
//===----------------------------------------------------------------------===//

#include "PlanRunner.h"
#include "package/CacheFormat.h"

#include "gtest/gtest.h"

#include <cmath>
#include <random>

using namespace mlac::runtime;
using namespace mlac::test;

namespace {

constexpr uint8_t kUntouched = 0xa5;

std::string text(int64_t number) { return std::to_string(number); }

/// Numbers about all powers of two that bf16 and scales have, with ties between codes; and blocks
/// of zeros.
std::vector<Bf16> makeRows(int64_t rows, int64_t width, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<Bf16> values(rows * width);
  for (int64_t i = 0; i < rows * width; ++i) {
    int64_t block = i / 32;
    double quarter = double(int(engine() % 49) - 24) / 4; // -6 to 6
    values[i] = Bf16(block % 5 == 0 ? 0 : std::ldexp(quarter, int(block * 7 % 250) - 130));
  }
  return values;
}

/// A pool of keys as the host sees it, with padding behind each page.
struct KeyPool {
  KeyPool(int64_t width, int64_t pageSize, int64_t pages) : pages(pages) {
    CacheShape shape{MLA_BF16, {width, 0}, pageSize, 0};
    EXPECT_TRUE(CacheLayout::make("index_k_mxfp4", shape, layout).isOk());
    shape.pageStride = layout.pageStride() + 16;
    EXPECT_TRUE(CacheLayout::make("index_k_mxfp4", shape, layout).isOk());
    bytes.assign(layout.poolBytes(pages), kUntouched);
    type = substitute("!mla.cache<page_size = $PAGE, fields = [index: $WIDTH], element = bf16, "
                      "format = \"index_k_mxfp4\", scale_rule = power_of_two>",
                      {{"PAGE", text(pageSize)}, {"WIDTH", text(width)}});
  }
  void encode(const std::vector<Bf16> &rows, const std::vector<int64_t> &slots) {
    for (size_t i = 0; i < slots.size(); ++i)
      if (slots[i] >= 0)
        layout.encode(layout.defaultEncoding(), &rows[i * layout.rowWidth()], slots[i],
                      bytes.data());
  }
  std::vector<Bf16> decode(int64_t slot) const {
    std::vector<Bf16> row(layout.rowWidth());
    layout.decode(layout.defaultEncoding(), bytes.data(), slot, row.data());
    return row;
  }

  int64_t pages;
  CacheLayout layout;
  std::vector<uint8_t> bytes;
  std::string type;
};

void checkAppend(int64_t width, int64_t pageSize) {
  KeyPool host(width, pageSize, 4), pool(width, pageSize, 4);
  auto steps = Steps::compile(substitute(R"(
!cache = $CACHE
func.func @append(%k: tensor<?x$WIDTHxbf16> {mla.input = "k"}, %batch: !mla.batch, %cache: !cache) -> !cache {
  %new = "mla.append"(%k, %cache, %batch) : (tensor<?x$WIDTHxbf16>, !cache, !mla.batch) -> !cache
  return %new : !cache
}
)",
                                         {{"CACHE", pool.type}, {"WIDTH", text(width)}}));
  ASSERT_TRUE(steps);
  std::vector<int64_t> slots = {9, -1, 4 * pageSize - 1, 0, pageSize, -7, pageSize - 1};
  std::vector<Bf16> rows = makeRows(slots.size(), width, 1);
  steps->run("append",
             {{"num_tokens", int64_t(slots.size())},
              {"num_pages", pool.pages},
              {"page_stride", pool.layout.pageStride()}},
             {{"k", rows}, {"cache", pool.bytes}, {"slot_mapping", slots}});
  host.encode(rows, slots);
  for (size_t i = 0; i < host.bytes.size(); ++i)
    ASSERT_EQ(pool.bytes[i], host.bytes[i]) << "byte " << i;
}

TEST(Mxfp4, V4_19_AppendWritesTheBytesOfTheHost) {
  checkAppend(128, 64);
  checkAppend(128, 4);
  checkAppend(32, 64);
  checkAppend(96, 16);
}

void checkQueries(int64_t tokens, int64_t heads, int64_t width) {
  auto steps = Steps::compile(substitute(
      R"(
func.func @round(%x: tensor<?x$Hx$Wxbf16> {mla.input = "x"}, %batch: !mla.batch) -> (tensor<?x$Hx$Wxbf16> {mla.output = "y"}) {
  %0 = mla.round_mxfp4 %x : tensor<?x$Hx$Wxbf16>
  return %0 : tensor<?x$Hx$Wxbf16>
}
)",
      {{"H", text(heads)}, {"W", text(width)}}));
  ASSERT_TRUE(steps);
  std::vector<Bf16> x = makeRows(tokens * heads, width, 2), y(x.size());
  steps->run("round", {{"num_tokens", tokens}}, {{"x", x}, {"y", y}});
  KeyPool host(width, 64, (tokens * heads + 63) / 64 + 1);
  std::vector<int64_t> slots(tokens * heads);
  for (size_t i = 0; i < slots.size(); ++i)
    slots[i] = int64_t(i);
  host.encode(x, slots);
  for (int64_t slot : slots) {
    std::vector<Bf16> expected = host.decode(slot);
    for (int64_t i = 0; i < width; ++i)
      ASSERT_EQ(float(y[slot * width + i]), float(expected[i])) << slot << ", " << i;
  }
}

TEST(Mxfp4, V4_20_QueriesAreTheNumbersOfKeys) {
  checkQueries(5, 64, 128);
  checkQueries(3, 5, 96);
  checkQueries(2, 130, 32);
  checkQueries(0, 4, 128);
}

TEST(Mxfp4, V4_20_WeightsHaveNoScalesOfQueries) {
  auto steps = Steps::compile(R"(
func.func @weights(%x: tensor<?x5xbf16> {mla.input = "x"}, %batch: !mla.batch) -> (tensor<?x5xf32> {mla.output = "w"}) {
  %0 = mla.index_weights %x factor 0.125 : tensor<?x5xbf16> -> tensor<?x5xf32>
  return %0 : tensor<?x5xf32>
}
)");
  ASSERT_TRUE(steps);
  auto x = randomVector<Bf16>(15, 8);
  auto w = std::vector<float>(15);
  steps->run("weights", {{"num_tokens", 3}}, {{"x", x}, {"w", w}});
  for (size_t i = 0; i < w.size(); ++i)
    EXPECT_EQ(w[i], float(x[i]) * 0.125f);
}

/// Two requests, of 70 keys and of 3, the last tokens of which are new; pages in no order.
TEST(Mxfp4, V4_21_ScoresAreThoseOfFloat64) {
  constexpr int64_t heads = 6, width = 96, page = 16, columns = 128;
  KeyPool pool(width, page, 8);
  auto steps = Steps::compile(substitute(R"(
!cache = $CACHE
func.func @scores(%q: tensor<?x6x96xbf16> {mla.input = "q"}, %w: tensor<?x6xf32> {mla.input = "w"},
                  %batch: !mla.batch, %cache: !cache) -> (tensor<?x?xf32> {mla.output = "scores"}) {
  %r = mla.round_mxfp4 %q : tensor<?x6x96xbf16>
  %s = mla.index_scores query(%r : tensor<?x6x96xbf16>) weights(%w : tensor<?x6xf32>)
      over %cache, %batch : !cache, !mla.batch -> tensor<?x?xf32>
  return %s : tensor<?x?xf32>
}
)",
                                         {{"CACHE", pool.type}}));
  ASSERT_TRUE(steps);
  std::vector<int32_t> lengths = {70, 3}, starts = {0, 3, 4};
  std::vector<int32_t> table = {5, 0, 7, 2, 4, 1, -1, -1, -1, -1};
  std::vector<Bf16> keys = randomVector<Bf16>(73 * width, 3);
  std::vector<int64_t> slots;
  for (int64_t i = 0; i < 73; ++i) {
    int64_t request = i >= 70, key = request ? i - 70 : i;
    slots.push_back(table[request * 5 + key / page] * page + key % page);
  }
  pool.encode(keys, slots);
  auto query = randomVector<Bf16>(4 * heads * width, 4);
  auto weights = randomVector<float>(4 * heads, 5);
  std::vector<float> scores(4 * columns);
  steps->run("scores",
             {{"num_tokens", 4},
              {"num_requests", 2},
              {"num_pages", pool.pages},
              {"num_sms", 2},
              {"page_stride", pool.layout.pageStride()},
              {"max_blocks_per_request", 5},
              {"max_query_len", 3},
              {"max_seq_len", 70}},
             {{"q", query},
              {"w", weights},
              {"cache", pool.bytes},
              {"block_table", table},
              {"query_start_loc", starts},
              {"seq_lens", lengths},
              {"scores", scores}});
  KeyPool rounded(width, page, 2); // the queries as the host rounds them
  std::vector<int64_t> rows(4 * heads);
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i] = int64_t(i);
  rounded.encode(query, rows);
  for (int64_t t = 0; t < 4; ++t) {
    int64_t request = t == 3, seen = request ? 3 : 68 + t;
    for (int64_t s = 0; s < seen; ++s) {
      std::vector<Bf16> key = pool.decode(slots[request * 70 + s]);
      double expected = 0, size = 0;
      for (int64_t h = 0; h < heads; ++h) {
        std::vector<Bf16> row = rounded.decode(t * heads + h);
        double sum = 0;
        for (int64_t d = 0; d < width; ++d)
          sum += double(row[d]) * double(key[d]);
        expected += double(weights[t * heads + h]) * std::max(sum, 0.0);
        size += std::abs(double(weights[t * heads + h]) * sum);
      }
      ASSERT_NEAR(scores[t * columns + s], expected, 1e-6 * size) << t << ", " << s;
    }
  }
}

} // namespace
