//===- CacheFormatKernelTest.cpp - kernels on quantised caches ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What append writes and gather reads, byte by byte against the runtime's own
// conversion on the host (whose tests have the specification's literal examples):
// A21 (k_scale), A23 (per-tensor fp8), B03 (656-byte rows), B04 (pages of 64) and B21
// (gather and upconvert of a chunk).
//
//===----------------------------------------------------------------------===//

#include "PlanRunner.h"
#include "base/DataType.h"
#include "base/NarrowFloat.h"
#include "package/CacheFormat.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

using namespace mlac::runtime;
using namespace mlac::test;

namespace {

constexpr int64_t kPages = 4;
constexpr uint8_t kUntouched = 0xa5;
constexpr float kUntouchedRow = -7;
constexpr int32_t kGarbagePage = 2147480000;

/// A function that gathers one chunk of every request's context.
std::string gatherOf(const std::string &name, int64_t chunk) {
  return substitute(R"(
func.func @$NAME(%batch: !mla.batch, %cache: !cache)
    -> (tensor<?x$LATENTxbf16> {mla.output = "latent"}, tensor<?x$ROPExbf16> {mla.output = "k_pe"}) {
  %chunk = arith.constant $CHUNK : index
  %latent, %k_pe = "mla.gather"(%cache, %batch, %chunk)
      : (!cache, !mla.batch, index) -> (tensor<?x$LATENTxbf16>, tensor<?x$ROPExbf16>)
  return %latent, %k_pe : tensor<?x$LATENTxbf16>, tensor<?x$ROPExbf16>
}
)",
                    {{"NAME", name}, {"CHUNK", std::to_string(chunk)}});
}

std::string stepsOf(const std::string &format, int64_t latent, int64_t rope, int64_t page) {
  return substitute(R"(
!cache = !mla.cache<page_size = $PAGE, fields = [latent: $LATENT, rope: $ROPE], element = bf16, rope_order = half$FORMAT>
func.func @append(%latent: tensor<?x$LATENTxbf16> {mla.input = "latent"}, %k_pe: tensor<?x$ROPExbf16> {mla.input = "k_pe"},
                  %batch: !mla.batch, %cache: !cache) -> !cache {
  %new = "mla.append"(%latent, %k_pe, %cache, %batch)
      : (tensor<?x$LATENTxbf16>, tensor<?x$ROPExbf16>, !cache, !mla.batch) -> !cache
  return %new : !cache
}
)" + gatherOf("gather_first", 0) +
                        gatherOf("gather_second", 1),
                    {{"FORMAT", format},
                     {"LATENT", std::to_string(latent)},
                     {"ROPE", std::to_string(rope)},
                     {"PAGE", std::to_string(page)}});
}

/// One format: its kernels, and the same conversion on the host.
class Cache {
public:
  Cache(const std::string &name, int64_t latent, int64_t rope, float layerScale, bool isPower,
        int64_t pageSize = 4, int64_t numPages = kPages)
      : scale({layerScale}), numPages(numPages) {
    CacheShape shape{MLA_BF16, {latent, rope}, pageSize, 0};
    EXPECT_TRUE(CacheLayout::make(name, shape, layout).isOk());
    // Room for a row behind each page.
    int64_t multiple = std::max<int64_t>(layout.format().pageMultiple, 1);
    int64_t padding = (layout.tokenBytes() + multiple - 1) / multiple * multiple;
    shape.pageStride = layout.pageStride() + (multiple == 1 ? layout.tokenBytes() : padding);
    EXPECT_TRUE(CacheLayout::make(name, shape, layout).isOk());
    encoding = layout.defaultEncoding();
    encoding.layerScales[0] = layerScale;
    encoding.rule.isPowerOfTwo |= isPower;
    std::string format = ", format = \"" + name + "\"";
    steps = Steps::compile(
        stepsOf(format + (isPower ? ", scale_rule = power_of_two" : ""), latent, rope, pageSize));
    pool.assign(static_cast<size_t>(layout.poolBytes(numPages)), kUntouched);
  }

  /// As the runtime counts it: elements of the pool's first type.
  int64_t pageStride() const {
    return layout.pageStride() / elementBytes(storageType(layout.format(), layout.shape().dtype));
  }
  int64_t latent() const { return layout.shape().columns[0]; }
  int64_t rope() const { return layout.shape().columns[1]; }

  void append(const std::vector<Bf16> &rows, std::vector<int64_t> slots) {
    std::vector<Bf16> latents, keys;
    split(rows, latents, keys);
    steps->run("append",
               {{"num_tokens", int64_t(slots.size())},
                {"num_pages", numPages},
                {"page_stride", pageStride()}},
               {{"latent", latents},
                {"k_pe", keys},
                {"cache", pool},
                {"cache/scale", scale},
                {"slot_mapping", slots}});
  }

  /// The first `length` tokens of a request on `pages`.
  std::vector<Bf16> gather(const std::vector<int32_t> &pages, int64_t length) {
    return gatherChunk(0, {pages}, {length}, length);
  }

  /// Of each request `lengths[r]` tokens from token `chunk * capacity` on, one request behind
  /// the other; and a row behind the last, which stays as it was.
  std::vector<Bf16> gatherChunk(int64_t chunk, const std::vector<std::vector<int32_t>> &pages,
                                const std::vector<int64_t> &lengths, int64_t capacity) {
    size_t requests = pages.size(), columns = 1;
    for (const std::vector<int32_t> &row : pages)
      columns = std::max(columns, row.size() + 1);
    std::vector<int32_t> table, starts((chunk + 1) * (requests + 1), 0);
    int32_t *ends = &starts[chunk * (requests + 1) + 1];
    for (size_t r = 0; r < requests; ++r) {
      table.insert(table.end(), pages[r].begin(), pages[r].end());
      table.resize((r + 1) * columns, kGarbagePage);
      ends[r] = (r > 0 ? ends[r - 1] : 0) + static_cast<int32_t>(lengths[r]);
    }
    int64_t total = starts.back();
    std::vector<Bf16> latents((total + 1) * latent(), Bf16(kUntouchedRow)),
        keys((total + 1) * rope(), Bf16(kUntouchedRow));
    steps->run(chunk == 0 ? "gather_first" : "gather_second",
               {{"num_requests", int64_t(requests)},
                {"num_pages", numPages},
                {"page_stride", pageStride()},
                {"max_blocks_per_request", int64_t(columns)},
                {"chunk_capacity", capacity},
                {"chunk_tokens", total},
                {"num_tokens", 1}},
               {{"cache", pool},
                {"cache/scale", scale},
                {"block_table", table},
                {"chunk_cu_seq_lens", starts},
                {"latent", latents},
                {"k_pe", keys}});
    std::vector<Bf16> rows;
    for (int64_t i = 0; i <= total; ++i) {
      rows.insert(rows.end(), &latents[i * latent()], &latents[i * latent()] + latent());
      rows.insert(rows.end(), &keys[i * rope()], &keys[i * rope()] + rope());
    }
    return rows;
  }

  std::vector<uint8_t> hostPool(const std::vector<Bf16> &rows, const std::vector<int64_t> &slots) {
    std::vector<uint8_t> bytes(pool.size(), kUntouched);
    for (size_t i = 0; i < slots.size(); ++i)
      if (slots[i] >= 0)
        layout.encode(encoding, &rows[i * layout.rowWidth()], slots[i], bytes.data());
    return bytes;
  }

  CacheLayout layout;
  CacheLayout::Encoding encoding;
  std::vector<float> scale;
  int64_t numPages;
  std::vector<uint8_t> pool;
  std::unique_ptr<Steps> steps;

private:
  void split(const std::vector<Bf16> &rows, std::vector<Bf16> &latents, std::vector<Bf16> &keys) {
    for (size_t i = 0; i < rows.size(); ++i)
      (int64_t(i) % layout.rowWidth() < latent() ? latents : keys).push_back(rows[i]);
  }
};

/// Rows of every magnitude that bf16 has, with zeros, NaN and infinities.
std::vector<Bf16> hardRows(size_t count, bool hasNonFinite) {
  std::mt19937 engine(7);
  std::vector<Bf16> rows(count);
  for (size_t i = 0; i < count; ++i) {
    rows[i].bits = static_cast<uint16_t>(engine());
    bool isFinite = (rows[i].bits & 0x7f80) != 0x7f80;
    if (i / 128 % 3 == 1) // a block of like magnitudes
      rows[i] = Bf16(std::ldexp(engine() % 2048 - 1024.0, -int(i / 128 % 20)));
    else if (i / 128 % 5 == 2)
      rows[i] = Bf16(0.0);
    else if (!hasNonFinite && !isFinite)
      rows[i] = Bf16(1.0);
  }
  return rows;
}

void expectSameBytes(const std::vector<uint8_t> &got, const std::vector<uint8_t> &expected) {
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(got[i], expected[i]) << "byte " << i;
}

void checkBothWays(Cache cache) {
  ASSERT_TRUE(cache.steps);
  std::vector<int64_t> slots = {9, -1, 15, 0, 8, 10, 11, 1, 2, 3};
  auto rows = hardRows(slots.size() * cache.layout.rowWidth(), /*hasNonFinite=*/true);
  cache.append(rows, slots);
  expectSameBytes(cache.pool, cache.hostPool(rows, slots));
  // The rows of slots 8 to 11 and 0 to 3, or what pages of such sizes hold of them.
  int64_t page = cache.layout.shape().pageSize, width = cache.layout.rowWidth();
  std::vector<int32_t> pages = {static_cast<int32_t>(8 / page), 0};
  int64_t length = std::min<int64_t>(7, 2 * page - 1);
  std::vector<Bf16> got = cache.gather(pages, length), expected(width);
  for (int64_t i = 0; i < length; ++i) {
    int64_t slot = pages[i / page] * page + i % page;
    cache.layout.decode(cache.encoding, cache.pool.data(), slot, expected.data());
    for (int64_t column = 0; column < width; ++column) {
      double x = got[i * width + column], y = expected[column];
      ASSERT_TRUE(got[i * width + column].bits == expected[column].bits ||
                  (std::isnan(x) && std::isnan(y)))
          << "token " << i << ", column " << column << ": " << x << " and " << y;
    }
  }
}

/// Lengths and shuffled pages of paged-cache.md section 6, in a chunk of each request.
void checkUpconvert(const std::string &format, int64_t chunk, int64_t capacity) {
  const int64_t start = chunk * capacity;
  constexpr int64_t pageSize = 64; // the block size of kernels (paged-cache.md section 8)
  const std::vector<int64_t> lengths = {1, 64, 0, 128, 512};
  std::vector<std::vector<int32_t>> pages;
  int32_t numPages = 0;
  for (int64_t length : lengths) {
    pages.emplace_back();
    for (int64_t page = 0; length > 0 && page * pageSize < start + length; ++page)
      pages.back().push_back(numPages++);
  }
  std::vector<int32_t> order(numPages);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(11));
  for (std::vector<int32_t> &row : pages)
    for (int32_t &page : row)
      page = order[page];
  Cache cache(format, 512, 64, 1, /*isPower=*/false, pageSize, numPages);
  ASSERT_TRUE(cache.steps);
  std::vector<int64_t> slots(numPages * pageSize);
  std::iota(slots.begin(), slots.end(), 0);
  auto rows = randomVector<Bf16>(slots.size() * 576, 12);
  cache.append(rows, slots);
  std::vector<Bf16> got = cache.gatherChunk(chunk, pages, lengths, capacity);
  size_t at = 0;
  for (size_t r = 0; r < lengths.size(); ++r)
    for (int64_t i = 0; i < lengths[r]; ++i) {
      int64_t token = start + i;
      int64_t slot = pages[r][token / pageSize] * pageSize + token % pageSize;
      for (int64_t column = 0; column < 576; ++column, ++at) {
        float exact = rows[slot * 576 + column], read = got[at];
        if (column < 512) // e4m3 has three bits of mantissa; subnormals by the largest scale
          ASSERT_NEAR(read, exact, std::abs(exact) / 16 + 0x1p-9)
              << r << ", " << i << ", " << column;
        else
          ASSERT_EQ(got[at].bits, rows[slot * 576 + column].bits)
              << r << ", " << i << ", " << column;
      }
    }
  for (; at < got.size(); ++at)
    ASSERT_EQ(float(got[at]), kUntouchedRow);
}

TEST(QuantizedCache, B21_B04_ChunksFromTheFirstToken) { checkUpconvert("fp8_ds_mla", 0, 512); }
TEST(QuantizedCache, B21_B04_ChunksFromWithinAPage) { checkUpconvert("fp8_ds_mla", 1, 549); }
TEST(QuantizedCache, B21_B04_ChunksFromAPageBoundary) { checkUpconvert("fp8_ds_mla", 1, 576); }

TEST(QuantizedCache, A23_PerTensorRowsAreThoseOfTheHost) {
  checkBothWays(Cache("mla_fp8_tensor", 48, 16, /*layerScale=*/0.37f, false));
  checkBothWays(Cache("mla_fp8_tensor", 512, 64, /*layerScale=*/1.0f, false));
}

TEST(QuantizedCache, B03_RowsOf656BytesAreThoseOfTheHost) {
  checkBothWays(Cache("fp8_ds_mla", 512, 64, 1, /*isPower=*/false));
  checkBothWays(Cache("fp8_ds_mla", 512, 64, 1, /*isPower=*/true));
}

/// Page padding and places without a row are compared, too.
TEST(QuantizedCache, V4_05_V4_06_V4_07_V4_08_RowsOf584BytesAreThoseOfTheHost) {
  for (int64_t pageSize : {2, 4, 16, 64})
    checkBothWays(Cache("model1_584", 448, 64, 1, /*isPower=*/true, pageSize, 16 / pageSize + 1));
}

TEST(SplitCache, C01_SectionsAreThoseOfTheHost) {
  checkBothWays(Cache("split_ckv_kpe", 48, 16, 1, /*isPower=*/false));
  checkBothWays(Cache("split_ckv_kpe", 512, 64, 1, /*isPower=*/false));
}

TEST(QuantizedCache, A21_ScaleIsHonoured) {
  Cache cache("mla_fp8_tensor", 48, 16, /*layerScale=*/0.5f, false);
  ASSERT_TRUE(cache.steps);
  cache.append(std::vector<Bf16>(64, Bf16(1.0)), {5});
  EXPECT_EQ(cache.pool[cache.layout.offset(0, 5)], 0x40); // 1 / 0.5 = 2
}

/// Absorbed decode against softmax attention over the rows that a reader gets, in double.
static void checkDecode(const std::string &format, int64_t latent, int64_t rope, double scale,
                        float layerScale) {
  constexpr int64_t heads = 3, keys = 13;
  Cache cache(format, latent, rope, layerScale, false);
  ASSERT_TRUE(cache.steps);
  auto rows = randomVector<Bf16>(16 * (latent + rope), 3);
  // Groups of a row differ in size, so that no scale stands for another.
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i] = Bf16(float(rows[i]) * (1 + i % (latent + rope) / 128));
  std::vector<int64_t> slots(16);
  for (int64_t i = 0; i < 16; ++i)
    slots[i] = i;
  cache.append(rows, slots);
  auto decode = Steps::compile(substitute(R"(
!cache = !mla.cache<page_size = 4, fields = [latent: $LATENT, rope: $ROPE], element = bf16, rope_order = half, format = "$FORMAT">
func.func @decode(%q_lat: tensor<?x3x$LATENTxbf16> {mla.input = "q_lat"}, %q_pe: tensor<?x3x$ROPExbf16> {mla.input = "q_pe"},
                  %batch: !mla.batch<query_len = 1>, %cache: !cache) -> (tensor<?x3x$LATENTxf32> {mla.output = "output"}) {
  %o = "mla.absorbed_attention"(%q_lat, %q_pe, %cache, %batch) <{scale = $SCALE : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>, resultSegmentSizes = array<i32: 1, 0>}>
      : (tensor<?x3x$LATENTxbf16>, tensor<?x3x$ROPExbf16>, !cache, !mla.batch<query_len = 1>) -> tensor<?x3x$LATENTxf32>
  return %o : tensor<?x3x$LATENTxf32>
}
)",
                                          {{"LATENT", std::to_string(latent)},
                                           {"ROPE", std::to_string(rope)},
                                           {"SCALE", std::to_string(scale)},
                                           {"FORMAT", format}}));
  ASSERT_TRUE(decode);
  auto qLat = randomVector<Bf16>(heads * latent, 4), qPe = randomVector<Bf16>(heads * rope, 5);
  std::vector<int32_t> table = {3, 0, 2, 1, kGarbagePage}, starts = {0, 1}, lengths = {keys};
  std::vector<float> output(heads * latent, std::numeric_limits<float>::quiet_NaN());
  decode->run("decode",
              {{"num_tokens", 1},
               {"num_requests", 1},
               {"num_pages", kPages},
               {"page_stride", cache.pageStride()},
               {"max_query_len", 1},
               {"max_seq_len", keys},
               {"max_blocks_per_request", int64_t(table.size())}},
              {{"cache", cache.pool},
               {"cache/scale", cache.scale},
               {"block_table", table},
               {"query_start_loc", starts},
               {"seq_lens", lengths},
               {"q_lat", qLat},
               {"q_pe", qPe},
               {"output", output}});
  for (int64_t head = 0; head < heads; ++head) {
    double sum = 0, largest = 0;
    std::vector<double> expected(latent, 0);
    for (int64_t key = 0; key < keys; ++key) {
      std::vector<Bf16> row(latent + rope);
      cache.layout.decode(cache.encoding, cache.pool.data(), table[key / 4] * 4 + key % 4,
                          row.data());
      double score = 0;
      for (int64_t i = 0; i < latent + rope; ++i)
        score += double(row[i]) *
                 double(i < latent ? qLat[head * latent + i] : qPe[head * rope + i - latent]);
      double weight = std::exp(scale * score);
      sum += weight;
      for (int64_t i = 0; i < latent; ++i) {
        expected[i] += weight * double(row[i]);
        largest = std::max(largest, std::abs(double(row[i])));
      }
    }
    for (int64_t i = 0; i < latent; ++i) // weights are rounded to bf16 before the product
      ASSERT_NEAR(output[head * latent + i], expected[i] / sum, 0x1p-8 * std::max(1.0, largest))
          << head << ", " << i;
  }
}

TEST(SplitCache, C01_AbsorbedDecodeReadsBothSections) {
  checkDecode("split_ckv_kpe", 48, 16, 0.25, 1);
}

TEST(QuantizedCache, A23_AbsorbedDecodeReadsDequantisedRows) {
  checkDecode("mla_fp8_tensor", 48, 16, 0.3, 0.015625f);
}

TEST(QuantizedCache, B02_AbsorbedDecodeReadsRowsOf656Bytes) {
  checkDecode("fp8_ds_mla", 512, 64, 0.0625, 1);
}

//===----------------------------------------------------------------------===//
// e4m3 alone
//===----------------------------------------------------------------------===//

const char kConversions[] = R"(
tile.kernel @round(%in: memref<?xf32>, %out: memref<?xf8E4M3FN>, %n: index) {
  %pid = tile.program_id 0
  %c64 = arith.constant 64 : index
  %at = arith.muli %pid, %c64 : index
  %from = memref.reinterpret_cast %in to offset: [0], sizes: [%n], strides: [1] : memref<?xf32> to memref<?xf32, strided<[1]>>
  %to = memref.reinterpret_cast %out to offset: [0], sizes: [%n], strides: [1] : memref<?xf8E4M3FN> to memref<?xf8E4M3FN, strided<[1]>>
  %x = tile.load %from[%at] : memref<?xf32, strided<[1]>> -> tensor<64xf32>
  %q = arith.truncf %x : tensor<64xf32> to tensor<64xf8E4M3FN>
  tile.store %q, %to[%at] : tensor<64xf8E4M3FN>, memref<?xf8E4M3FN, strided<[1]>>
  tile.return
}
tile.kernel @widen(%in: memref<?xf8E4M3FN>, %out: memref<?xf32>, %n: index) {
  %pid = tile.program_id 0
  %c64 = arith.constant 64 : index
  %at = arith.muli %pid, %c64 : index
  %from = memref.reinterpret_cast %in to offset: [0], sizes: [%n], strides: [1] : memref<?xf8E4M3FN> to memref<?xf8E4M3FN, strided<[1]>>
  %to = memref.reinterpret_cast %out to offset: [0], sizes: [%n], strides: [1] : memref<?xf32> to memref<?xf32, strided<[1]>>
  %q = tile.load %from[%at] : memref<?xf8E4M3FN, strided<[1]>> -> tensor<64xf8E4M3FN>
  %x = arith.extf %q : tensor<64xf8E4M3FN> to tensor<64xf32>
  tile.store %x, %to[%at] : tensor<64xf32>, memref<?xf32, strided<[1]>>
  tile.return
}
)";

/// Every exponent of f32 with mantissas at, just below and just above every tie and
/// every value, and 2^20 random words.
std::vector<float> hardFloats() {
  std::vector<float> values;
  for (uint32_t exponent = 0; exponent < 256; ++exponent)
    for (uint32_t step = 0; step < 16; ++step)
      for (int32_t offset = -2; offset <= 2; ++offset) {
        uint32_t word = (exponent << 23) + (step << 19) + static_cast<uint32_t>(offset);
        values.push_back(std::bit_cast<float>(word & 0x7fffffff));
        values.push_back(std::bit_cast<float>(word | 0x80000000));
      }
  std::mt19937 engine(1);
  while (values.size() < (1 << 20) + 77) // the last tile is partly outside
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(engine())));
  return values;
}

TEST(E4m3, ConversionsAreThoseOfTheHost) {
  for (const std::string &cpu : runnableCpus()) {
    auto image = KernelImage::compile(kConversions, cpu);
    ASSERT_TRUE(image);
    std::vector<float> in = hardFloats();
    std::vector<uint8_t> out(in.size(), kUntouched);
    auto count = static_cast<int64_t>(in.size());
    image->launch("round", {in, out, count}, {(count + 63) / 64});
    for (size_t i = 0; i < in.size(); ++i)
      ASSERT_EQ(out[i], roundToE4m3(in[i])) << in[i];

    std::vector<uint8_t> codes(256);
    for (size_t i = 0; i < codes.size(); ++i)
      codes[i] = static_cast<uint8_t>(i);
    std::vector<float> wide(256);
    image->launch("widen", {codes, wide, 256}, {4});
    for (size_t i = 0; i < codes.size(); ++i)
      ASSERT_EQ(std::bit_cast<uint32_t>(wide[i]), std::bit_cast<uint32_t>(widenE4m3(codes[i])));
  }
}

} // namespace
