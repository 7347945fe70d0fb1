//===- CacheFormatTest.cpp - cache rows on the host -------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The literal examples of docs/spec/paged-cache.md section 4, sparse.md section 3 and
// v4.md sections 2 and 4: rows of features.md B03 (656 bytes), C21 (64-bit offsets),
// V4-06 (scale bytes), V4-09 (pages of the 584-byte record) and V4-19 (MXFP4), and the sizes of A20
// and B02.
//
//===----------------------------------------------------------------------===//

#include "base/NarrowFloat.h"

#include "mla_runtime.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

using namespace mlac::runtime;

namespace {

constexpr uint8_t kUntouched = 0xa5;

/// A pool in host memory with rows of f32 values rounded to the layout's dtype.
struct HostPool {
  explicit HostPool(const char *format, int64_t pages = 4) {
    mla_cache_layout_init(&layout, format);
    layout.num_pages = pages;
  }

  int64_t offset(const char *field, int64_t slot) {
    int64_t result = -1;
    EXPECT_EQ(mla_cache_layout_offset(&layout, field, slot, &result), MLA_OK) << mla_last_error();
    return result;
  }
  uint8_t at(const char *field, int64_t slot, int64_t byte) {
    return bytes[static_cast<size_t>(offset(field, slot) + byte)];
  }
  float scale(int64_t slot, int64_t group) {
    float value;
    std::memcpy(&value, &bytes[static_cast<size_t>(offset("scale", slot) + 4 * group)], 4);
    return value;
  }
  size_t width() const { return static_cast<size_t>(layout.columns[0] + layout.columns[1]); }

  void encode(const std::vector<float> &values, const std::vector<int64_t> &slots) {
    int64_t stride = layout.page_stride_bytes ? layout.page_stride_bytes : 1 << 20;
    bytes.assign(static_cast<size_t>(stride * layout.num_pages), kUntouched);
    std::vector<uint16_t> rows;
    for (float value : values)
      rows.push_back(roundToBf16(value));
    ASSERT_EQ(mla_cache_encode(&layout, rows.data(), static_cast<int64_t>(slots.size()),
                               slots.data(), bytes.data(), bytes.size()),
              MLA_OK)
        << mla_last_error();
  }
  std::vector<float> decode(const std::vector<int64_t> &slots) {
    std::vector<uint16_t> rows(slots.size() * width());
    EXPECT_EQ(mla_cache_decode(&layout, bytes.data(), bytes.size(),
                               static_cast<int64_t>(slots.size()), slots.data(), rows.data()),
              MLA_OK)
        << mla_last_error();
    std::vector<float> values;
    for (uint16_t bits : rows)
      values.push_back(widenBf16(bits));
    return values;
  }

  mla_cache_layout layout;
  std::vector<uint8_t> bytes;
};

void expectRefused(const mla_cache_layout &layout, mla_status status, const char *message) {
  EXPECT_EQ(mla_cache_encode(&layout, nullptr, 0, nullptr, nullptr, SIZE_MAX), status);
  EXPECT_NE(std::string(mla_last_error()).find(message), std::string::npos) << mla_last_error();
}

} // namespace

TEST(CacheFormat, B03_RowOf656BytesGoldenBytes) {
  HostPool pool("fp8_ds_mla");
  std::vector<float> row(pool.width(), 0.0f);
  row[0] = -896, row[1] = 1;    // group 0: amax 896
  row[128] = 1, row[129] = 0.5; // group 1: amax 1
  row[512] = 3.140625f;
  pool.encode(row, {130});
  EXPECT_EQ(pool.offset("latent", 130), 2 * 64 * 656 + 1312);
  EXPECT_EQ(pool.offset("scale", 130), 2 * 64 * 656 + 1312 + 512);
  EXPECT_EQ(pool.offset("rope", 130), 2 * 64 * 656 + 1312 + 528);
  EXPECT_EQ(pool.scale(130, 0), 2.0f);
  EXPECT_EQ(pool.at("latent", 130, 0), 0xfe);
  EXPECT_EQ(pool.at("latent", 130, 1), 0x30);
  EXPECT_EQ(pool.scale(130, 1), 1.0f / 448);
  EXPECT_EQ(pool.at("latent", 130, 128), 0x7e);
  EXPECT_EQ(pool.at("latent", 130, 129), 0x76);
  EXPECT_EQ(pool.scale(130, 2), std::numeric_limits<float>::min()); // all zeros
  EXPECT_EQ(pool.at("latent", 130, 256), 0);
  EXPECT_EQ(pool.at("rope", 130, 0) | pool.at("rope", 130, 1) << 8, roundToBf16(3.140625f));

  pool.layout.scale_rule = MLA_SCALE_POWER_OF_TWO;
  pool.encode(row, {130});
  EXPECT_EQ(pool.scale(130, 0), 2.0f);
  EXPECT_EQ(pool.scale(130, 1), 0x1p-8f);
  EXPECT_EQ(pool.at("latent", 130, 128), 0x78);
}

TEST(CacheFormat, FloorsOfPublishedWriters) { // paged-cache.md section 4
  HostPool pool("fp8_ds_mla");
  std::vector<float> row(pool.width(), 0.0f);
  row[0] = 1e-5f;
  pool.layout.scale_floor = 1e-4f;
  pool.encode(row, {0});
  EXPECT_EQ(pool.scale(0, 0), 1e-4f);
  pool.layout.scale_floor = -1;
  pool.layout.amax_floor = 1e-4f;
  pool.encode(row, {0});
  EXPECT_EQ(pool.scale(0, 0), 1e-4f / 448);
}

TEST(CacheFormat, IndexKeysAreSplitFromTheirScales) { // sparse.md section 3
  HostPool pool("index_k");
  ASSERT_EQ(pool.width(), 128u);
  EXPECT_EQ(pool.offset("index", 130), 17152);
  EXPECT_EQ(pool.offset("scale", 130), 25096);
  std::vector<float> row(128, 0.0f);
  row[3] = -3.5f;
  pool.encode(row, {130});
  EXPECT_EQ(pool.scale(130, 0), 0x1p-7f); // 3.5 / 448 = 2^-7
  EXPECT_EQ(pool.at("index", 130, 3), 0xfe);
  pool.layout.page_stride_bytes = 8640; // V4's pools share pages
  EXPECT_EQ(pool.offset("scale", 130), 2 * 8640 + 8192 + 8);
}

TEST(CacheFormat, V4_19_IndexKeysInMxfp4) { // v4.md sections 2 and 4
  HostPool pool("index_k_mxfp4");
  ASSERT_EQ(pool.width(), 128u);
  EXPECT_EQ(pool.offset("index", 130), 2 * 4352 + 2 * 64);
  EXPECT_EQ(pool.offset("scale", 130), 2 * 4352 + 4096 + 2 * 4);
  // All magnitudes, then what is between two of them, which goes to the even code.
  const std::vector<float> values = {0,     0.5f,  1,     1.5f,  2,    3,    4, 6,
                                     0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5, -0.25f};
  const std::vector<uint8_t> codes = {0, 1, 2, 3, 4, 5, 6, 7, 0, 2, 2, 4, 4, 6, 6, 8};
  std::vector<float> row(128, 0.0f);
  for (size_t i = 0; i < values.size(); ++i) {
    row[i] = values[i];
    row[32 + i] = -values[i] * 0x1p-20f;
  }
  row[64] = 6.5f; // above 6: the next power of two
  row[65] = 6;
  pool.encode(row, {130});
  for (size_t i = 0; i < codes.size(); i += 2) {
    EXPECT_EQ(pool.at("index", 130, int64_t(i / 2)), codes[i] | codes[i + 1] << 4) << i;
    EXPECT_EQ(pool.at("index", 130, int64_t(16 + i / 2)), (codes[i] | codes[i + 1] << 4) ^ 0x88);
  }
  EXPECT_EQ(pool.at("index", 130, 32), 5 | 5 << 4); // 3.25 and 3
  EXPECT_EQ(pool.at("scale", 130, 0), 127);
  EXPECT_EQ(pool.at("scale", 130, 1), 107);
  EXPECT_EQ(pool.at("scale", 130, 2), 128);
  EXPECT_EQ(pool.at("scale", 130, 3), 1); // of zeros: 2^-126
  std::vector<float> got = pool.decode({130});
  EXPECT_EQ(std::vector<float>(got.begin(), got.begin() + 8),
            std::vector<float>(values.begin(), values.begin() + 8));
  EXPECT_EQ(got[64], 6);

  pool.layout.page_stride_bytes = 8640; // V4's pools share pages
  EXPECT_EQ(pool.offset("scale", 130), 2 * 8640 + 4096 + 8);
  mla_cache_layout wrong = pool.layout;
  wrong.columns[0] = 80;
  expectRefused(wrong, MLA_INVALID_ARGUMENT, "expected a multiple of the scales' group of 32");
  wrong = pool.layout, wrong.dtype = MLA_F16;
  expectRefused(wrong, MLA_INVALID_ARGUMENT, "does not take rows of f16");
  wrong = pool.layout, wrong.scale_rule = MLA_SCALE_RAW;
  expectRefused(wrong, MLA_INVALID_ARGUMENT, "powers of two");
}

TEST(CacheFormat, C01_LatentsAndRopeKeysApart) { // paged-cache.md section 2, split_ckv_kpe
  HostPool pool("split_ckv_kpe");
  pool.layout.page_stride_bytes = 64 * 1152 + 16;
  // Slot 130 of pages of 64: row 2 of page 2.
  EXPECT_EQ(pool.offset("latent", 130), 2 * (64 * 1152 + 16) + 2 * 1024);
  EXPECT_EQ(pool.offset("rope", 130), 2 * (64 * 1152 + 16) + 64 * 1024 + 2 * 128);
  std::vector<float> row(576);
  for (size_t i = 0; i < row.size(); ++i)
    row[i] = static_cast<float>(i % 256);
  pool.encode(row, {130});
  EXPECT_EQ(pool.at("latent", 130, 1024), kUntouched); // the next token's
  EXPECT_EQ(pool.at("latent", 130, -1), kUntouched);
  EXPECT_EQ(pool.at("rope", 130, 128), kUntouched);
  EXPECT_EQ(pool.decode({130}), row);
}

TEST(CacheFormat, V4_06_V4_09_RecordOf584Bytes) {
  HostPool pool("model1_584");
  EXPECT_EQ(pool.offset("latent", 130), 2 * 37440 + 2 * 576);
  EXPECT_EQ(pool.offset("rope", 130), 2 * 37440 + 2 * 576 + 448);
  EXPECT_EQ(pool.offset("scale", 130), 2 * 37440 + 64 * 576 + 2 * 8);
  struct {
    float amax;
    int byte;
  } golden[] = {{0, 105},    {0.05f, 114}, {0.5f, 118}, {1, 119},   {1.75f, 119},
                {3.5f, 120}, {7, 121},     {448, 127},  {450, 128}, {1e4f, 132}};
  for (auto [amax, byte] : golden) {
    std::vector<float> row(pool.width(), 0.0f);
    row[64] = -amax;
    pool.encode(row, {1});
    EXPECT_EQ(pool.at("scale", 1, 1), byte) << amax;
    EXPECT_EQ(pool.at("scale", 1, 0), 105); // a zero block
    EXPECT_EQ(pool.at("latent", 1, 0), 0);
    EXPECT_EQ(pool.at("scale", 1, 7), 0); // padding
  }
  pool.layout.page_stride_bytes = 64 * 584; // not a multiple of 576
  expectRefused(pool.layout, MLA_INVALID_ARGUMENT, "multiple of 576");
}

/// DeepSeek-V4's compressors keep two numbers a channel of the last tokens, a key and a gate (v4.md
/// section 3): keys and values of one head in f32, with the strides of its pages.
TEST(CacheFormat, CompressorStatesAreKeysAndValues) {
  struct State {
    int64_t pageSize, channels, pageStride;
  };
  for (const State &state : {State{4, 1024, 32832}, {8, 512, 32832}, {4, 256, 8640}}) {
    HostPool pool("kv_nhd");
    pool.layout.dtype = MLA_F32;
    pool.layout.columns[0] = pool.layout.columns[1] = state.channels;
    pool.layout.page_size = state.pageSize;
    pool.layout.page_stride_bytes = state.pageStride;
    std::vector<float> rows(2 * state.channels * 2);
    for (size_t i = 0; i < rows.size(); ++i)
      rows[i] = 1.0f + static_cast<float>(i) / 1024;
    const int64_t slots[] = {1, state.pageSize + 2};
    std::vector<uint8_t> bytes(static_cast<size_t>(state.pageStride * pool.layout.num_pages));
    ASSERT_EQ(mla_cache_encode(&pool.layout, rows.data(), 2, slots, bytes.data(), bytes.size()),
              MLA_OK)
        << mla_last_error();
    EXPECT_EQ(pool.offset("key", state.pageSize), state.pageStride);
    EXPECT_LE(pool.offset("value", state.pageSize - 1) + 4 * state.channels, state.pageStride);
    std::vector<float> read(rows.size());
    ASSERT_EQ(mla_cache_decode(&pool.layout, bytes.data(), bytes.size(), 2, slots, read.data()),
              MLA_OK);
    EXPECT_EQ(read, rows);
  }
}

/// k_scale and v_scale: each is of its own section (paged-cache.md section 3).
TEST(CacheFormat, CodesOfKeysAndValuesHaveAScaleEach) {
  HostPool pool("kv_nhd_fp8");
  pool.layout.columns[0] = pool.layout.columns[1] = 16; // two heads of 8
  pool.layout.page_size = 2;
  pool.layout.layer_scale = 0.5f, pool.layout.value_scale = 2;
  std::vector<float> row(32, 1.0f);
  row[0] = -3, row[15] = 448, row[16] = -3, row[31] = 2000;
  pool.encode(row, {3});
  EXPECT_EQ(pool.offset("key", 3), 2 * 32 + 16);
  EXPECT_EQ(pool.offset("value", 3), 2 * 32 + 2 * 16 + 16);
  EXPECT_EQ(pool.at("key", 3, 0), 0xcc);    // -6
  EXPECT_EQ(pool.at("key", 3, 1), 0x40);    // 2
  EXPECT_EQ(pool.at("key", 3, 15), 0x7e);   // 896 saturates
  EXPECT_EQ(pool.at("value", 3, 0), 0xbc);  // -1.5
  EXPECT_EQ(pool.at("value", 3, 1), 0x30);  // 0.5
  EXPECT_EQ(pool.at("value", 3, 15), 0x7e); // 1000 saturates
  row[15] = 224, row[31] = 896;
  EXPECT_EQ(pool.decode({3}), row);
  EXPECT_EQ(pool.bytes[0], kUntouched);
  pool.layout.value_scale = 0;
  expectRefused(pool.layout, MLA_INVALID_ARGUMENT, "scale = 0");
}

TEST(CacheFormat, C21_OffsetsAre64Bit) { // page 262144 of 32 rows of 512 elements
  mla_cache_layout layout;
  mla_cache_layout_init(&layout, "mla_16");
  layout.columns[0] = 512, layout.columns[1] = 0, layout.page_size = 32;
  layout.num_pages = 262145;
  int64_t offset;
  ASSERT_EQ(mla_cache_layout_offset(&layout, "latent", int64_t(262144) * 32, &offset), MLA_OK);
  EXPECT_EQ(offset, int64_t(262144) * 32 * 512 * 2);
  layout.page_stride_bytes = int64_t(1) << 40;
  layout.num_pages = 1 << 22;
  ASSERT_EQ(mla_cache_layout_offset(&layout, "latent", (int64_t(1) << 27) - 1, &offset), MLA_OK);
  EXPECT_EQ(offset, ((int64_t(1) << 22) - 1) * (int64_t(1) << 40) + 31 * 1024);
  layout.num_pages = int64_t(1) << 24; // 2^64 bytes
  expectRefused(layout, MLA_INVALID_ARGUMENT, "below 2^63");
}

TEST(CacheFormat, RowsOfEveryFormatComeBack) {
  for (const char *format :
       {"mla_16", "mla_fp8_tensor", "fp8_ds_mla", "index_k", "index_k_mxfp4", "model1_584"}) {
    HostPool pool(format);
    // Half an ulp of e4m3 is 2^-4 relative, subnormals are 2^-10 of the scale; between numbers of
    // e2m1 lies half of the smaller one at most, and 0.25 of the scale.
    bool hasFours = std::string(format) == "index_k_mxfp4";
    float relative = hasFours ? 0.25f : 1.0f / 16;
    float absolute = hasFours ? 0.25f : 0x1p-10f * 3.1f / 448 * 2;
    pool.layout.layer_scale = 0.0078125f;
    std::vector<int64_t> slots = {3, 255, -1, 64, 0};
    std::vector<float> rows;
    for (size_t i = 0; i < slots.size() * pool.width(); ++i)
      rows.push_back(std::sin(0.37f * static_cast<float>(i)) * 3);
    pool.encode(rows, slots);
    std::vector<float> got = pool.decode(slots);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i / pool.width() == 2)
        ASSERT_EQ(got[i], 0) << "a skipped row was written";
      else
        ASSERT_NEAR(got[i], rows[i], std::fabs(rows[i]) * relative + absolute)
            << format << " element " << i;
    }
    size_t written = 0;
    for (uint8_t byte : pool.bytes)
      written += byte != kUntouched;
    EXPECT_LE(written, 4 * 1152u) << format;
  }
}

TEST(CacheFormat, NanAndInfinityStayInTheirElements) {
  HostPool pool("fp8_ds_mla");
  std::vector<float> row(pool.width(), 1.0f);
  row[5] = std::numeric_limits<float>::quiet_NaN();
  row[130] = -std::numeric_limits<float>::infinity();
  pool.encode(row, {0});
  EXPECT_EQ(pool.scale(0, 0), 1.0f / 448);
  EXPECT_EQ(pool.at("latent", 0, 5) & 0x7f, 0x7f);
  EXPECT_EQ(pool.at("latent", 0, 6), 0x7e);
  EXPECT_EQ(pool.at("latent", 0, 130), 0xfe);
  EXPECT_TRUE(std::isfinite(pool.scale(0, 1)));
  std::vector<float> got = pool.decode({0});
  EXPECT_TRUE(std::isnan(got[5]));
}

TEST(CacheFormat, B02_WrongWidthsAndTypesAreRefused) {
  HostPool pool("fp8_ds_mla");
  mla_cache_layout wrong = pool.layout;
  wrong.columns[0] = 256;
  expectRefused(wrong, MLA_INVALID_ARGUMENT, "latent = 256, expected 512");
  wrong = pool.layout, wrong.columns[1] = 32;
  expectRefused(wrong, MLA_INVALID_ARGUMENT, "rope = 32, expected 64");
  wrong = pool.layout, wrong.dtype = MLA_F32;
  expectRefused(wrong, MLA_INVALID_ARGUMENT, "does not take rows of f32");
  wrong = pool.layout, wrong.page_stride_bytes = 64 * 656 - 16;
  expectRefused(wrong, MLA_INVALID_ARGUMENT, "needs at least 41984");
  wrong = pool.layout, wrong.scale_floor = std::numeric_limits<float>::quiet_NaN();
  expectRefused(wrong, MLA_INVALID_ARGUMENT, "floor of a scale");
  wrong = pool.layout, wrong.format = "fp4";
  expectRefused(wrong, MLA_UNSUPPORTED, "known: mla_16, mla_f32, mla_fp8_tensor, fp8_ds_mla");
  HostPool tensor("mla_fp8_tensor"), record("model1_584");
  tensor.layout.layer_scale = 0;
  expectRefused(tensor.layout, MLA_INVALID_ARGUMENT, "scale = 0");
  record.layout.scale_rule = MLA_SCALE_RAW;
  expectRefused(record.layout, MLA_INVALID_ARGUMENT, "powers of two");
  std::vector<uint16_t> rows(2 * 576);
  std::vector<int64_t> slots = {0, 256};
  std::vector<uint8_t> bytes(4 * 64 * 656, kUntouched);
  EXPECT_EQ(
      mla_cache_encode(&pool.layout, rows.data(), 2, slots.data(), bytes.data(), bytes.size()),
      MLA_INVALID_ARGUMENT);
  EXPECT_STREQ(mla_last_error(), "slot 256 of row 1, the pool has 256");
  EXPECT_EQ(bytes[0], kUntouched) << "a refused call wrote";
  EXPECT_EQ(mla_cache_encode(&pool.layout, rows.data(), 1, nullptr, bytes.data(), 100),
            MLA_INVALID_ARGUMENT);
}

TEST(CacheFormat, A20_B02_TableIsText) { // shapes [nb, page, 576] and [nb, page, 656]
  const char *json;
  ASSERT_EQ(mla_cache_formats(&json), MLA_OK);
  for (const char *name : {"mla_16", "mla_f32", "mla_fp8_tensor", "fp8_ds_mla", "index_k",
                           "model1_584", "power_of_two"})
    EXPECT_NE(std::strstr(json, name), nullptr) << name;
}
