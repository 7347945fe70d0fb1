//===- AttentionTest.cpp - absorbed attention and merge on the CPU ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlac::test;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int32_t kGarbagePage = 2147480000;

// DeepSeek-V3 (kv_lora_rank 512, qk_rope_head_dim 64).
constexpr int64_t kRank = 512, kWidth = 576;

class Attention : public testing::TestWithParam<std::string> {};

template <typename T> struct Decode {
  static constexpr int64_t kPage = 16, kPages = 40, kBlocks = 12;
  static constexpr float kScale = 0.1147213867929261f; // with YaRN, DeepSeek-V3's

  int64_t heads;
  std::vector<int32_t> lens = {0, 1, 15, 16, 17, 63, 64, 65, 129};
  std::vector<T> query, pool;
  std::vector<int32_t> table;
  std::vector<float> output, lse;

  explicit Decode(int64_t heads) : heads(heads) {
    int64_t requests = lens.size();
    query = randomVector<T>(requests * heads * kWidth, 12);
    pool.assign(kPages * kPage * kWidth, T(kNan));
    table.assign(requests * kBlocks, kGarbagePage);
    output.assign(requests * heads * kRank, kNan);
    lse.assign(requests * heads, kNan);
    auto rows = randomVector<T>(1000 * kWidth, 13);
    int64_t page = 0, source = 0;
    for (int64_t b = 0; b < requests; ++b)
      for (int64_t t = 0; t < lens[b]; ++t) {
        if (t % kPage == 0)
          table[b * kBlocks + t / kPage] = (page++ * 7 + 3) % kPages; // 7 and 40 are coprime
        std::copy_n(&rows[source++ * kWidth], kWidth, rowOf(b, t));
      }
  }
  T *rowOf(int64_t b, int64_t t) {
    return &pool[(table[b * kBlocks + t / kPage] * kPage + t % kPage) * kWidth];
  }
  void run(KernelImage &image) {
    // log2 e turns the scale into base 2.
    float scale = kScale * 1.4426950408889634f;
    image.launch("decode", {query, pool, table, lens, output, lse, kPages, kBlocks, scale},
                 {static_cast<int64_t>(lens.size())});
  }
  void check(double tolerance, double lseTolerance) {
    for (size_t b = 0; b < lens.size(); ++b)
      for (int64_t h = 0; h < heads; ++h)
        checkRow(b, h, tolerance, lseTolerance);
  }
  void checkRow(int64_t b, int64_t h, double tolerance, double lseTolerance) {
    std::vector<double> scores(lens[b]), expected(kRank, 0.0);
    double most = -kInfinity, sum = 0, largest = 0;
    const T *q = &query[(b * heads + h) * kWidth];
    for (int64_t t = 0; t < lens[b]; ++t) {
      for (int64_t d = 0; d < kWidth; ++d)
        scores[t] += double(q[d]) * double(rowOf(b, t)[d]) * double(kScale);
      most = std::max(most, scores[t]);
    }
    for (double &score : scores)
      sum += score = std::exp(score - most);
    for (int64_t d = 0; d < kRank; ++d) {
      for (int64_t t = 0; t < lens[b]; ++t)
        expected[d] += scores[t] / sum * double(rowOf(b, t)[d]);
      largest = std::max(largest, std::abs(expected[d]));
    }
    const float *row = &output[(b * heads + h) * kRank];
    for (int64_t d = 0; d < kRank; ++d)
      ASSERT_NEAR(row[d], expected[d], tolerance * largest)
          << "length " << lens[b] << ", head " << h;
    if (lens[b] == 0)
      ASSERT_EQ(lse[b * heads + h], -kInfinity);
    else
      ASSERT_NEAR(lse[b * heads + h], most + std::log(sum), lseTolerance);
  }
};

} // namespace

TEST_P(Attention, A02_AbsorbedDecodeOverPagesF32) {
  for (int64_t heads : {1, 3, 8, 16}) {
    auto image = KernelImage::compile(decodeText("f32", heads), GetParam());
    ASSERT_TRUE(image);
    Decode<float> decode(heads);
    decode.run(*image);
    decode.check(/*tolerance=*/1e-5, /*lseTolerance=*/1e-5);
  }
}

TEST_P(Attention, A02_AbsorbedDecodeOverPagesBf16) {
  auto image = KernelImage::compile(decodeText("bf16", 8), GetParam());
  ASSERT_TRUE(image);
  Decode<Bf16> decode(8);
  decode.run(*image);
  // Only the probabilities are rounded to bf16 (2^-9 relative each).
  decode.check(/*tolerance=*/0x1p-7, /*lseTolerance=*/1e-4);
}

//===----------------------------------------------------------------------===//
// Merge of partials
//===----------------------------------------------------------------------===//

/// Rows of `splits` partials of width 64 merged in ascending order.
constexpr const char *kMerge = R"(
!o = tensor<4x64xf32>
!r = tensor<4xf32>
tile.kernel @merge(%partial: memref<?xf32>, %partial_lse: memref<?xf32>, %output: memref<?xf32>,
                   %lse: memref<?xf32>, %splits: index, %rows: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %p = tile.program_id 0
  %row = arith.muli %p, %c4 : index
  %ov = memref.reinterpret_cast %output to offset: [0], sizes: [%rows, 64], strides: [64, 1] : memref<?xf32> to memref<?x64xf32, strided<[64, 1]>>
  %lv = memref.reinterpret_cast %lse to offset: [0], sizes: [%rows], strides: [1] : memref<?xf32> to memref<?xf32, strided<[1]>>
  %m0 = arith.constant dense<0xFF800000> : !r
  %zero = arith.constant dense<0.0> : !r
  %one = arith.constant dense<1.0> : !r
  %zero_o = arith.constant dense<0.0> : !o
  %m = scf.for %s = %c0 to %splits step %c1 iter_args(%mi = %m0) -> (!r) {
    %off = arith.muli %s, %rows : index
    %view = memref.reinterpret_cast %partial_lse to offset: [%off], sizes: [%rows], strides: [1] : memref<?xf32> to memref<?xf32, strided<[1], offset: ?>>
    %t = tile.load %view[%row] : memref<?xf32, strided<[1], offset: ?>> -> !r
    %mn = arith.maximumf %mi, %t : !r
    scf.yield %mn : !r
  }
  %none = arith.cmpf oeq, %m, %m0 : !r
  %base = arith.select %none, %zero, %m : tensor<4xi1>, !r
  %c64 = arith.constant 64 : index
  %sum, %acc = scf.for %s = %c0 to %splits step %c1 iter_args(%si = %zero, %ai = %zero_o) -> (!r, !o) {
    %off = arith.muli %s, %rows : index
    %view = memref.reinterpret_cast %partial_lse to offset: [%off], sizes: [%rows], strides: [1] : memref<?xf32> to memref<?xf32, strided<[1], offset: ?>>
    %off_o = arith.muli %off, %c64 : index
    %view_o = memref.reinterpret_cast %partial to offset: [%off_o], sizes: [%rows, 64], strides: [64, 1] : memref<?xf32> to memref<?x64xf32, strided<[64, 1], offset: ?>>
    %t = tile.load %view[%row] : memref<?xf32, strided<[1], offset: ?>> -> !r
    %d = arith.subf %t, %base : !r
    %w = math.exp %d : !r
    %x = tile.load %view_o[%row, %c0] : memref<?x64xf32, strided<[64, 1], offset: ?>> -> !o
    %wb = tile.broadcast %w : !r -> !o
    %wx = arith.mulf %x, %wb : !o
    %seen = arith.cmpf ogt, %wb, %zero_o : !o
    %wxs = arith.select %seen, %wx, %zero_o : tensor<4x64xi1>, !o
    %an = arith.addf %ai, %wxs : !o
    %sn = arith.addf %si, %w : !r
    scf.yield %sn, %an : !r, !o
  }
  %safe = arith.select %none, %one, %sum : tensor<4xi1>, !r
  %sb = tile.broadcast %safe : !r -> !o
  %out = arith.divf %acc, %sb : !o
  tile.store %out, %ov[%row, %c0] : !o, memref<?x64xf32, strided<[64, 1]>>
  %log = math.log %sum : !r
  %total = arith.addf %base, %log : !r
  tile.store %total, %lv[%row] : !r, memref<?xf32, strided<[1]>>
  tile.return
}
)";

TEST_P(Attention, A32_MergeEdgeCases) {
  auto image = KernelImage::compile(kMerge, GetParam());
  ASSERT_TRUE(image);
  constexpr int64_t kSplits = 3, kRows = 6, kColumns = 64;
  auto partial = randomVector<float>(kSplits * kRows * kColumns, 14);
  auto partialLse = randomVector<float>(kSplits * kRows, 15);
  for (int64_t split = 0; split < kSplits; ++split) {
    // Row 2 saw nothing at all, row 3 only in the last split; empty partials
    // hold anything.
    for (int64_t row : {2, 3}) {
      if (row == 3 && split == kSplits - 1)
        continue;
      partialLse[split * kRows + row] = -kInfinity;
      std::fill_n(&partial[(split * kRows + row) * kColumns], kColumns, kNan);
    }
    partialLse[split * kRows + 4] += 300.0f * split; // far apart
  }
  std::vector<float> output(kRows * kColumns, kNan), lse(kRows, kNan);
  image->launch("merge", {partial, partialLse, output, lse, kSplits, kRows}, {2});
  for (int64_t row = 0; row < kRows; ++row) {
    double most = -kInfinity, sum = 0;
    for (int64_t split = 0; split < kSplits; ++split)
      most = std::max(most, double(partialLse[split * kRows + row]));
    std::vector<double> expected(kColumns, 0.0);
    for (int64_t split = 0; split < kSplits && most > -kInfinity; ++split) {
      double weight = std::exp(partialLse[split * kRows + row] - most);
      sum += weight;
      for (int64_t j = 0; j < kColumns && weight > 0; ++j)
        expected[j] += weight * partial[(split * kRows + row) * kColumns + j];
    }
    for (int64_t j = 0; j < kColumns; ++j)
      ASSERT_NEAR(output[row * kColumns + j], sum > 0 ? expected[j] / sum : 0.0, 1e-6) << row;
    if (sum > 0)
      ASSERT_NEAR(lse[row], most + std::log(sum), 1e-6 * (1 + std::abs(most))) << row;
    else
      ASSERT_EQ(lse[row], -kInfinity);
  }
}

INSTANTIATE_TEST_SUITE_P(Cpus, Attention, testing::ValuesIn(runnableCpus()),
                         [](const auto &info) { return info.param.substr(info.param.size() - 2); });
