//===- IndexerTest.cpp - the lightning indexer on the CPU ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each operation of the indexer against float64, and bytes against the runtime's conversion on
// the host: B38, B39, B41 and V4-49 (sparse.md sections 2 to 4).
//
//===----------------------------------------------------------------------===//

#include "PlanRunner.h"
#include "base/DataType.h"
#include "base/NarrowFloat.h"
#include "package/CacheFormat.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

using namespace mlac::runtime;
using namespace mlac::test;

namespace {

constexpr uint8_t kUntouched = 0xa5;
constexpr int32_t kGarbagePage = 2147480000;

std::string text(int64_t number) { return std::to_string(number); }

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// Rows around `center`, so that a variance from squares would cancel.
void checkLayerNorm(int64_t width, double center, double tolerance) {
  auto steps = Steps::compile(substitute(R"(
func.func @norm(%x: tensor<?x$Wxbf16> {mla.input = "x"}, %w: tensor<$Wxf32> {mla.weight = "w"},
                %b: tensor<$Wxf32> {mla.weight = "b"}, %batch: !mla.batch) -> (tensor<?x$Wxbf16> {mla.output = "y"}) {
  %0 = mla.layer_norm %x, %w, %b epsilon 1.0e-6 : tensor<?x$Wxbf16>, tensor<$Wxf32>, tensor<$Wxf32> -> tensor<?x$Wxbf16>
  return %0 : tensor<?x$Wxbf16>
}
)",
                                         {{"W", text(width)}}));
  ASSERT_TRUE(steps);
  constexpr int64_t tokens = 5;
  auto x = randomVector<Bf16>(tokens * width, 1), y = std::vector<Bf16>(tokens * width);
  for (Bf16 &value : x)
    value = Bf16(center + double(value));
  auto weight = randomVector<float>(width, 2), bias = randomVector<float>(width, 3);
  steps->run("norm", {{"num_tokens", tokens}}, {{"x", x}, {"w", weight}, {"b", bias}, {"y", y}});
  for (int64_t t = 0; t < tokens; ++t) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < width; ++i)
      mean += double(x[t * width + i]) / double(width);
    for (int64_t i = 0; i < width; ++i)
      variance += std::pow(double(x[t * width + i]) - mean, 2) / double(width);
    for (int64_t i = 0; i < width; ++i) {
      double expected =
          weight[i] * (double(x[t * width + i]) - mean) / std::sqrt(variance + 1e-6) + bias[i];
      ASSERT_NEAR(y[t * width + i], expected, tolerance * std::max(1.0, std::abs(expected)))
          << "token " << t << ", column " << i;
    }
  }
}

TEST(Indexer, B38_LayerNormHasWeightAndBias) {
  checkLayerNorm(128, 0, 0x1p-8); // half an ulp of bf16
  checkLayerNorm(100, 0, 0x1p-8);
  checkLayerNorm(1000, 0, 0x1p-8); // blocks that do not divide the row
}

TEST(Indexer, B38_LayerNormOfRowsFarFromZero) {
  checkLayerNorm(128, 100, 0x1p-8);
  checkLayerNorm(1000, 100, 0x1p-8);
}

/// Channels [offset, offset + 8) of rows of 24 are rotated, the others are as they were.
/// `hasOwnTable`: its angles are an operand, not those of the layer.
void checkRope(bool isInterleaved, int64_t offset, int64_t heads, bool hasOwnTable = false) {
  constexpr int64_t dim = 8, width = 24, tokens = 3, length = 16;
  std::string shape = heads ? "?x" + text(heads) + "x24" : "?x24";
  auto steps = Steps::compile(substitute(R"(
func.func @rope(%x: tensor<$SHAPExf32> {mla.input = "x"}, %own: tensor<16x8xf32> {mla.weight = "own"}, %batch: !mla.batch) -> (tensor<$SHAPExf32> {mla.output = "y"}) {
  %table = mla.rope_table <order = $ORDER, dim = 8, theta = 1.0e4, length = 16> : tensor<?x8xf32>
  %0 = mla.rope %x, %$OWN, %batch with <order = $ORDER, dim = 8, theta = 1.0e4, length = 16> offset $OFFSET
      : tensor<$SHAPExf32>, tensor<$LENGTHx8xf32>, !mla.batch
  return %0 : tensor<$SHAPExf32>
}
)",
                                         {{"SHAPE", shape},
                                          {"ORDER", isInterleaved ? "interleaved" : "half"},
                                          {"OWN", hasOwnTable ? "own" : "table"},
                                          {"LENGTH", hasOwnTable ? "16" : "?"},
                                          {"OFFSET", text(offset)}}));
  ASSERT_TRUE(steps);
  int64_t rows = std::max<int64_t>(heads, 1);
  auto x = randomVector<float>(tokens * rows * width, 4), y = std::vector<float>(x.size());
  auto table = randomVector<float>(length * dim, 5); // any numbers do
  auto other = randomVector<float>(length * dim, 15);
  std::vector<int64_t> positions = {7, 0, 15};
  steps->run("rope", {{"num_tokens", tokens}, {"rope_length", length}},
             {{"x", x},
              {"y", y},
              {"rope_table", hasOwnTable ? other : table},
              {"own", hasOwnTable ? table : other},
              {"positions", positions}});
  std::vector<float> expected = x;
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0; i < dim / 2; ++i) {
        size_t base = (t * rows + row) * width + offset;
        size_t first = base + (isInterleaved ? 2 * i : i),
               second = base + (isInterleaved ? 2 * i + 1 : i + dim / 2);
        float cos = table[positions[t] * dim + i], sin = table[positions[t] * dim + dim / 2 + i];
        expected[first] = x[first] * cos - x[second] * sin;
        expected[second] = x[first] * sin + x[second] * cos;
      }
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_NEAR(y[i], expected[i], 1e-6) << i;
}

TEST(Indexer, B38_RopeOfTheFirstChannels) {
  for (bool isInterleaved : {false, true}) {
    checkRope(isInterleaved, 0, 0);
    checkRope(isInterleaved, 0, 5);
  }
}

TEST(Indexer, B38_RopeOfTheLastChannelsAndInBetween) {
  for (int64_t offset : {16, 4}) {
    checkRope(/*isInterleaved=*/true, offset, 0);
    checkRope(/*isInterleaved=*/false, offset, 37);
  }
}

TEST(Indexer, V4_49_RotaryTableOfItsOwn) {
  checkRope(/*isInterleaved=*/true, 16, 3, /*hasOwnTable=*/true);
  checkRope(/*isInterleaved=*/false, 0, 0, /*hasOwnTable=*/true);
}

void checkHadamard(int64_t width, int64_t heads) {
  std::string shape = heads ? text(heads) + "x" + text(width) : text(width);
  auto steps = Steps::compile(substitute(R"(
func.func @rotate(%x: tensor<?x$SHAPExbf16> {mla.input = "x"}, %batch: !mla.batch) -> (tensor<?x$SHAPExbf16> {mla.output = "y"}) {
  %0 = mla.hadamard %x : tensor<?x$SHAPExbf16>
  return %0 : tensor<?x$SHAPExbf16>
}
)",
                                         {{"SHAPE", shape}}));
  ASSERT_TRUE(steps);
  constexpr int64_t tokens = 3;
  int64_t rows = tokens * std::max<int64_t>(heads, 1);
  auto x = randomVector<Bf16>(rows * width, 6), y = std::vector<Bf16>(x.size());
  steps->run("rotate", {{"num_tokens", tokens}}, {{"x", x}, {"y", y}});
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < width; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < width; ++j) {
        bool isOdd = std::popcount(static_cast<uint64_t>(i & j)) % 2;
        sum += (isOdd ? -1 : 1) * double(x[row * width + j]);
      }
      double expected = sum / std::sqrt(double(width));
      ASSERT_NEAR(y[row * width + i], expected, 0x1p-8 * std::abs(expected) + 1e-6)
          << row << ", " << i;
    }
}

TEST(Indexer, B38_HadamardOfEveryWidth) {
  checkHadamard(128, 64);
  checkHadamard(128, 0);
  checkHadamard(32, 5);
  checkHadamard(4, 3); // less than a tile
  checkHadamard(1, 0);
}

/// Codes and scales of queries are those that the host writes to a pool of one token a page.
void checkQuantize(int64_t heads, int64_t width, bool isPower) {
  std::string row = heads ? text(heads) + "x" : "";
  auto steps = Steps::compile(substitute(R"(
func.func @quantize(%x: tensor<?x$HEADS$WIDTHxbf16> {mla.input = "x"}, %batch: !mla.batch)
    -> (tensor<?x$HEADS$WIDTHxf8E4M3FN> {mla.output = "codes"}, tensor<?x$HEADS$GROUPSxf32> {mla.output = "scales"}) {
  %0, %1 = mla.quantize %x group 128 rule <$RULE> floor 1.0e-38 amax_floor 1.0e-4
      : tensor<?x$HEADS$WIDTHxbf16> -> tensor<?x$HEADS$WIDTHxf8E4M3FN>, tensor<?x$HEADS$GROUPSxf32>
  return %0, %1 : tensor<?x$HEADS$WIDTHxf8E4M3FN>, tensor<?x$HEADS$GROUPSxf32>
}
)",
                                         {{"HEADS", row},
                                          {"WIDTH", text(width)},
                                          {"GROUPS", text(width / 128)},
                                          {"RULE", isPower ? "power_of_two" : "raw"}}));
  ASSERT_TRUE(steps);
  constexpr int64_t tokens = 5;
  int64_t rows = tokens * std::max<int64_t>(heads, 1);
  auto x = randomVector<Bf16>(rows * width, 7);
  for (int64_t i = 0; i < rows * width; ++i) // rows of all sizes, some below the floor
    x[i] = Bf16(std::ldexp(double(x[i]), int(i / width % 40) - 20));
  std::vector<uint8_t> codes(rows * width);
  std::vector<float> scales(rows * width / 128);
  steps->run("quantize", {{"num_tokens", tokens}},
             {{"x", x}, {"codes", codes}, {"scales", scales}});
  CacheLayout layout;
  ASSERT_TRUE(CacheLayout::make("index_k", {MLA_BF16, {width, 0}, 1, 0}, layout).isOk());
  CacheLayout::Encoding encoding = layout.defaultEncoding();
  encoding.rule.isPowerOfTwo = isPower;
  std::vector<uint8_t> pool(layout.poolBytes(rows));
  for (int64_t r = 0; r < rows; ++r) {
    layout.encode(encoding, &x[r * width], r, pool.data());
    for (int64_t i = 0; i < width; ++i)
      ASSERT_EQ(codes[r * width + i], pool[layout.offset(0, r) + i]) << r << ", " << i;
    for (int64_t g = 0; g < width / 128; ++g) {
      float scale;
      std::memcpy(&scale, &pool[layout.offset(1, r) + g * 4], sizeof scale);
      ASSERT_EQ(scales[r * (width / 128) + g], scale) << r << ", " << g;
    }
  }
}

TEST(Indexer, B38_QuantisesPerTokenAndHead) {
  for (bool isPower : {true, false}) {
    checkQuantize(64, 128, isPower);
    checkQuantize(3, 256, isPower);
    checkQuantize(0, 128, isPower);
  }
}

TEST(Indexer, B38_WeightsHaveTheScalesOfTheQueries) {
  auto steps = Steps::compile(R"(
func.func @weights(%x: tensor<?x5xbf16> {mla.input = "x"}, %s: tensor<?x5x1xf32> {mla.input = "s"}, %batch: !mla.batch)
    -> (tensor<?x5xf32> {mla.output = "w"}) {
  %0 = mla.index_weights %x, %s factor 0.125 : tensor<?x5xbf16>, tensor<?x5x1xf32> -> tensor<?x5xf32>
  return %0 : tensor<?x5xf32>
}
)");
  ASSERT_TRUE(steps);
  auto x = randomVector<Bf16>(15, 8);
  auto s = randomVector<float>(15, 9), w = std::vector<float>(15);
  steps->run("weights", {{"num_tokens", 3}}, {{"x", x}, {"s", s}, {"w", w}});
  for (size_t i = 0; i < w.size(); ++i)
    EXPECT_EQ(w[i], float(x[i]) * 0.125f * s[i]);
}

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

/// A pool of an indexer's keys as the host sees it.
struct KeyPool {
  KeyPool(int64_t width, int64_t pageSize, int64_t pages, bool isPower = true) : pages(pages) {
    constexpr int64_t padding = 16;
    CacheShape shape{MLA_BF16, {width, 0}, pageSize, 0};
    EXPECT_TRUE(CacheLayout::make("index_k", shape, layout).isOk());
    shape.pageStride = layout.pageStride() + padding;
    EXPECT_TRUE(CacheLayout::make("index_k", shape, layout).isOk());
    encoding = layout.defaultEncoding();
    encoding.rule.isPowerOfTwo = isPower;
    bytes.assign(layout.poolBytes(pages), kUntouched);
    type = "!mla.cache<page_size = " + text(pageSize) + ", fields = [index: " + text(width) +
           "], element = bf16, rope_order = half, format = \"index_k\"" +
           (isPower ? ", scale_rule = power_of_two>" : ">");
  }
  /// As the runtime counts it: rows of several types are bytes.
  int64_t pageStride() const { return layout.pageStride(); }
  void encode(const std::vector<Bf16> &rows, const std::vector<int64_t> &slots) {
    for (size_t i = 0; i < slots.size(); ++i)
      if (slots[i] >= 0)
        layout.encode(encoding, &rows[i * layout.rowWidth()], slots[i], bytes.data());
  }

  int64_t pages;
  CacheLayout layout;
  CacheLayout::Encoding encoding;
  std::vector<uint8_t> bytes;
  std::string type;
};

void checkAppend(int64_t width, int64_t pageSize, bool isPower) {
  KeyPool host(width, pageSize, 4, isPower), pool(width, pageSize, 4, isPower);
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
  auto rows = randomVector<Bf16>(slots.size() * width, 10);
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i] = Bf16(std::ldexp(double(rows[i]), int(i / 128 % 30) - 20));
  steps->run("append",
             {{"num_tokens", int64_t(slots.size())},
              {"num_pages", pool.pages},
              {"page_stride", pool.pageStride()}},
             {{"k", rows}, {"cache", pool.bytes}, {"slot_mapping", slots}});
  host.encode(rows, slots);
  for (size_t i = 0; i < host.bytes.size(); ++i)
    ASSERT_EQ(pool.bytes[i], host.bytes[i]) << "byte " << i;
}

TEST(IndexCache, B38_AppendWritesTheBytesOfTheHost) {
  checkAppend(128, 64, /*isPower=*/true);
  checkAppend(128, 64, /*isPower=*/false);
  checkAppend(128, 4, /*isPower=*/true);
  checkAppend(256, 64, /*isPower=*/true);
}

/// "slot 130: values at 17152, scale at 25096" (sparse.md section 3).
TEST(IndexCache, B38_LiteralOffsets) {
  CacheLayout layout;
  ASSERT_TRUE(CacheLayout::make("index_k", {MLA_BF16, {128, 0}, 64, 0}, layout).isOk());
  EXPECT_EQ(layout.offset(0, 130), 17152);
  EXPECT_EQ(layout.offset(1, 130), 25096);
}

TEST(IndexCache, B38_GatherReadsWhatWasWritten) {
  constexpr int64_t width = 128, page = 4, tokens = 7;
  KeyPool pool(width, page, 4);
  auto steps = Steps::compile(substitute(R"(
!cache = $CACHE
func.func @gather(%batch: !mla.batch, %cache: !cache) -> (tensor<?x128xbf16> {mla.output = "k"}) {
  %chunk = arith.constant 0 : index
  %k = "mla.gather"(%cache, %batch, %chunk) : (!cache, !mla.batch, index) -> tensor<?x128xbf16>
  return %k : tensor<?x128xbf16>
}
)",
                                         {{"CACHE", pool.type}}));
  ASSERT_TRUE(steps);
  auto rows = randomVector<Bf16>(tokens * width, 11);
  std::vector<int64_t> slots = {12, 13, 14, 15, 4, 5, 6}; // pages 3 and 1
  pool.encode(rows, slots);
  std::vector<Bf16> keys(tokens * width), expected(width);
  std::vector<int32_t> table = {3, 1, kGarbagePage}, starts = {0, tokens};
  steps->run(
      "gather",
      {{"num_requests", 1},
       {"num_pages", pool.pages},
       {"page_stride", pool.pageStride()},
       {"max_blocks_per_request", 3},
       {"chunk_capacity", tokens},
       {"chunk_tokens", tokens},
       {"num_tokens", 1}},
      {{"cache", pool.bytes}, {"block_table", table}, {"chunk_cu_seq_lens", starts}, {"k", keys}});
  for (int64_t t = 0; t < tokens; ++t) {
    pool.layout.decode(pool.layout.defaultEncoding(), pool.bytes.data(), slots[t], expected.data());
    for (int64_t i = 0; i < width; ++i)
      ASSERT_EQ(keys[t * width + i].bits, expected[i].bits) << t << ", " << i;
  }
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

struct Request {
  int64_t context, query;
};

/// A batch over shuffled pages, with rows of padding behind the last token.
class Scores {
public:
  Scores(int64_t heads, int64_t width, int64_t pageSize, std::vector<Request> requests,
         int64_t sliceRows = 0)
      : heads(heads), width(width), sliceRows(sliceRows), requests(std::move(requests)),
        pool(width, pageSize, countPages(this->requests, pageSize)) {
    std::string shape = text(heads) + "x" + text(width);
    std::string columns = sliceRows ? text(sliceRows) + "x?" : "?x?";
    steps = Steps::compile(substitute(R"(
!cache = $CACHE
func.func @scores(%q: tensor<?x$SHAPExf8E4M3FN> {mla.input = "q"}, %w: tensor<?x$HEADSxf32> {mla.input = "w"},
                  %batch: !mla.batch, %cache: !cache) -> (tensor<$COLUMNSxf32> {mla.output = "scores"}) {
  %first = arith.constant $ROWS : index
  %s = mla.index_scores query(%q : tensor<?x$SHAPExf8E4M3FN>) weights(%w : tensor<?x$HEADSxf32>)
      over %cache, %batch $FROM : !cache, !mla.batch -> tensor<$COLUMNSxf32>
  return %s : tensor<$COLUMNSxf32>
}
)",
                                      {{"CACHE", pool.type},
                                       {"SHAPE", shape},
                                       {"HEADS", text(heads)},
                                       {"COLUMNS", columns},
                                       {"ROWS", text(sliceRows)},
                                       {"FROM", sliceRows ? "from %first" : ""}}));
    place(pageSize);
  }

  bool isCompiled() const { return steps != nullptr; }
  int64_t rows() const { return starts.back() + kPadding; }
  int64_t columns() const { return (longest + 63) / 64 * 64; }

  /// Small integers: every sum is exact in f32.
  void fillIntegers() {
    std::mt19937 engine(12);
    auto draw = [&](int limit) { return float(int(engine() % (2 * limit + 1)) - limit); };
    for (uint8_t &code : query)
      code = roundToE4m3(draw(4));
    for (float &weight : weights)
      weight = draw(3);
    for (auto [slot, i] : keySlots()) {
      for (int64_t d = 0; d < width; ++d)
        pool.bytes[pool.layout.offset(0, slot) + d] = roundToE4m3(draw(4));
      setScales(slot, std::ldexp(1.0f, int(i % 5) - 2));
    }
  }

  void fillGaussian() {
    std::mt19937 engine(13);
    std::normal_distribution<float> normal;
    for (uint8_t &code : query)
      code = roundToE4m3(100 * normal(engine));
    for (float &weight : weights)
      weight = normal(engine);
    std::vector<Bf16> row(width);
    for (auto [slot, i] : keySlots()) {
      std::generate(row.begin(), row.end(), [&] { return Bf16(normal(engine)); });
      pool.layout.encode(pool.encoding, row.data(), slot, pool.bytes.data());
    }
  }

  /// The scores that a kernel writes over untouched memory.
  std::vector<float> run() {
    std::vector<float> scores((sliceRows ? sliceRows : rows()) * columns(), kNone);
    steps->run("scores",
               {{"num_tokens", rows()},
                {"num_requests", int64_t(requests.size())},
                {"num_pages", pool.pages},
                {"num_sms", 2},
                {"page_stride", pool.pageStride()},
                {"max_blocks_per_request", maxBlocks},
                {"max_query_len", longestQuery},
                {"max_seq_len", longest}},
               {{"q", query},
                {"w", weights},
                {"cache", pool.bytes},
                {"block_table", table},
                {"query_start_loc", starts},
                {"seq_lens", lengths},
                {"scores", scores}});
    return scores;
  }

  /// visit(row, column, the score in float64) for all that rows see.
  template <typename Visit> void forEachSeen(Visit visit) {
    for (size_t r = 0; r < requests.size(); ++r)
      for (int64_t j = 0; j < requests[r].query; ++j)
        for (int64_t s = 0; s < requests[r].context + j + 1; ++s)
          visit(starts[r] + j, s, score(starts[r] + j, slotOf(r, s)));
  }

  static constexpr float kNone = -12345;
  static constexpr int64_t kPadding = 3;

private:
  static int64_t countPages(const std::vector<Request> &requests, int64_t pageSize) {
    int64_t pages = 1; // one that nobody has
    for (Request request : requests)
      pages += (request.context + request.query + pageSize - 1) / pageSize;
    return pages;
  }

  void place(int64_t pageSize) {
    starts.push_back(0);
    for (Request request : requests) {
      starts.push_back(starts.back() + int32_t(request.query));
      lengths.push_back(int32_t(request.context + request.query));
      longest = std::max<int64_t>(longest, lengths.back());
      longestQuery = std::max(longestQuery, request.query);
    }
    maxBlocks = (longest + pageSize - 1) / pageSize + 1;
    std::vector<int32_t> order(pool.pages);
    for (int64_t i = 0; i < pool.pages; ++i)
      order[i] = int32_t(i);
    std::shuffle(order.begin(), order.end(), std::mt19937(14));
    table.assign(maxBlocks * requests.size(), kGarbagePage);
    size_t next = 0;
    for (size_t r = 0; r < requests.size(); ++r)
      for (int64_t page = 0; page * pageSize < lengths[r]; ++page)
        table[r * maxBlocks + page] = order[next++];
    query.resize(rows() * heads * width);
    weights.resize(rows() * heads);
  }

  int64_t slotOf(size_t request, int64_t key) const {
    int64_t page = pool.layout.shape().pageSize;
    return int64_t(table[request * maxBlocks + key / page]) * page + key % page;
  }
  std::vector<std::pair<int64_t, int64_t>> keySlots() const {
    std::vector<std::pair<int64_t, int64_t>> slots;
    for (size_t r = 0; r < requests.size(); ++r)
      for (int64_t s = 0; s < lengths[r]; ++s)
        slots.push_back({slotOf(r, s), s});
    return slots;
  }
  void setScales(int64_t slot, float scale) {
    for (int64_t group = 0; group < width / 128; ++group, scale *= 2)
      std::memcpy(&pool.bytes[pool.layout.offset(1, slot) + 4 * group], &scale, sizeof scale);
  }
  float scaleOf(int64_t slot, int64_t group) const {
    float scale;
    std::memcpy(&scale, &pool.bytes[pool.layout.offset(1, slot) + 4 * group], sizeof scale);
    return scale;
  }
  double score(int64_t row, int64_t slot) const {
    double total = 0;
    for (int64_t h = 0; h < heads; ++h) {
      double sum = 0;
      for (int64_t d = 0; d < width; ++d)
        sum += double(widenE4m3(query[(row * heads + h) * width + d])) *
               double(widenE4m3(pool.bytes[pool.layout.offset(0, slot) + d])) *
               double(scaleOf(slot, d / 128));
      total += double(weights[row * heads + h]) * std::max(sum, 0.0);
    }
    return total;
  }

  int64_t heads, width, sliceRows;
  std::vector<Request> requests;
  KeyPool pool;
  std::unique_ptr<Steps> steps;
  int64_t longest = 0, longestQuery = 0, maxBlocks = 0;
  std::vector<int32_t> table, starts, lengths;
  std::vector<uint8_t> query;
  std::vector<float> weights;
};

/// Decodes and chunks, requests without tokens and without keys, lengths about page boundaries.
const std::vector<Request> kMixed = {{63, 1}, {0, 0}, {64, 1}, {130, 3}, {0, 5}, {0, 9}, {61, 6}};

void checkIntegers(Scores scores) {
  ASSERT_TRUE(scores.isCompiled());
  scores.fillIntegers();
  std::vector<float> got = scores.run();
  scores.forEachSeen([&](int64_t row, int64_t column, double expected) {
    ASSERT_EQ(got[row * scores.columns() + column], expected) << row << ", " << column;
  });
}

TEST(IndexScores, B38_B39_IntegersAreExact) {
  checkIntegers(Scores(64, 128, 64, kMixed));
  checkIntegers(Scores(5, 128, 4, kMixed));                        // heads that no tile has
  checkIntegers(Scores(32, 256, 64, {{63, 1}, {0, 2}, {129, 1}})); // two groups of columns
}

TEST(IndexScores, B39_LongRequestsOfSeveralPrograms) {
  checkIntegers(Scores(4, 128, 64, {{1023, 1}, {511, 1}, {512, 2}, {3, 1}}));
}

TEST(IndexScores, B39_RowsOfPaddingAreLeftAlone) {
  Scores scores(4, 128, 64, kMixed);
  ASSERT_TRUE(scores.isCompiled());
  scores.fillIntegers();
  std::vector<float> got = scores.run();
  for (size_t i = got.size() - Scores::kPadding * scores.columns(); i < got.size(); ++i)
    ASSERT_EQ(got[i], Scores::kNone);
}

/// 1 - cosine of what was computed and of float64 over the dequantised keys (sparse.md
/// section 4: 5e-6).
TEST(IndexScores, B38_GaussianScoresAreThoseOfFloat64) {
  Scores scores(64, 128, 64, {{700, 1}, {63, 2}, {0, 17}});
  ASSERT_TRUE(scores.isCompiled());
  scores.fillGaussian();
  std::vector<float> got = scores.run();
  double product = 0, squares = 0;
  scores.forEachSeen([&](int64_t row, int64_t column, double expected) {
    double value = got[row * scores.columns() + column];
    product += value * expected;
    squares += (value * value + expected * expected) / 2;
  });
  EXPECT_LT(1 - product / squares, 5e-6);
  EXPECT_EQ(got, scores.run()) << "a second run gives other bits";
}

/// Rows 8 to 15 of all, one request's end and another's middle among them.
TEST(IndexScores, B39_ASliceOfRows) {
  constexpr int64_t rows = 8;
  Scores scores(4, 128, 64, {{63, 10}, {5, 100}}, rows);
  ASSERT_TRUE(scores.isCompiled());
  scores.fillIntegers();
  std::vector<float> got = scores.run();
  int64_t seen = 0;
  scores.forEachSeen([&](int64_t row, int64_t column, double expected) {
    if (row < rows || row >= 2 * rows)
      return;
    ++seen;
    ASSERT_EQ(got[(row - rows) * scores.columns() + column], expected) << row << ", " << column;
  });
  EXPECT_GT(seen, 0);
}

} // namespace
