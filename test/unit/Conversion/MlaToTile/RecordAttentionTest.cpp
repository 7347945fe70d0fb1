//===- RecordAttentionTest.cpp - attention over rows of 584 bytes ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One query of 512 columns over the whole rows of two pools, whose latents are codes with bare
// exponents in a section of their own, against sums in double over what the host decodes of the
// same bytes (v4.md sections 4 and 9). Whatever no valid entry names is NaN.
//
//===----------------------------------------------------------------------===//

#include "PlanRunner.h"
#include "package/CacheFormat.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

using namespace mlac::runtime;
using namespace mlac::test;

namespace {

constexpr int64_t kHeads = 5, kWidth = 512, kTokens = 4, kPages = 3;
constexpr double kScale = 0.04;
/// Bytes that are NaN as e4m3 and as bf16, and the largest exponent.
constexpr uint8_t kNanCode = 0x7f, kNanByte = 0xff, kLargestExponent = 0xfe;

/// A pool and, of each token, a list of its rows.
struct Scope {
  Scope(int64_t page, int64_t entries, std::mt19937 &random) : entries(entries) {
    CacheShape shape{MLA_BF16, {448, 64}, page, 0};
    EXPECT_TRUE(CacheLayout::make("model1_584", shape, layout).isOk());
    shape.pageStride = layout.pageStride() + 576; // room behind each page
    EXPECT_TRUE(CacheLayout::make("model1_584", shape, layout).isOk());
    poison();
    for (int64_t t = 0; t < kTokens; ++t) {
      lengths.push_back(t == 1 ? 0 : static_cast<int32_t>(random() % entries + 1));
      for (int64_t k = 0; k < entries; ++k)
        lists.push_back(makeEntry(k < lengths[t], random));
    }
  }

  void poison() {
    memory.assign(layout.poolBytes(kPages), kNanCode);
    for (int64_t slot = 0; slot < countRows(); ++slot) {
      std::fill_n(&memory[layout.offset(1, slot)], 128, kNanByte);
      std::fill_n(&memory[layout.offset(2, slot)], 8, kLargestExponent);
    }
  }

  int64_t countRows() const { return kPages * layout.shape().pageSize; }

  int32_t makeEntry(bool isInside, std::mt19937 &random) {
    constexpr int32_t kHostile[] = {std::numeric_limits<int32_t>::min(), -1,
                                    std::numeric_limits<int32_t>::max()};
    if (!isInside || random() % 5 == 0)
      return random() % 4 == 0 ? static_cast<int32_t>(countRows()) : kHostile[random() % 3];
    auto row = static_cast<int32_t>(random() % countRows());
    std::vector<Bf16> values(kWidth);
    for (int64_t i = 0; i < kWidth; ++i) // groups of other sizes each
      values[i] = Bf16(std::ldexp(random() % 2001 / 1000.0 - 1, int(i / 64 + row) % 5 - 3));
    layout.encode(layout.defaultEncoding(), values.data(), row, memory.data());
    return row;
  }

  std::vector<double> read(int64_t row) const {
    std::vector<Bf16> values(kWidth);
    layout.decode(layout.defaultEncoding(), memory.data(), row, values.data());
    return {values.begin(), values.end()};
  }

  int64_t entries;
  CacheLayout layout;
  std::vector<uint8_t> memory;
  std::vector<int32_t> lists, lengths;
};

std::string moduleOf(const Scope &near, const Scope &far) {
  return substitute(R"(
!q = tensor<?x$Nx512xbf16>
!o = tensor<?x$Nx512xf32>
!near = !mla.cache<page_size = $NEAR, fields = [latent: 448, rope: 64], element = bf16, rope_order = interleaved, format = "model1_584", scale_rule = power_of_two>
!far = !mla.cache<page_size = $FAR, fields = [latent: 448, rope: 64], element = bf16, rope_order = interleaved, format = "model1_584", scale_rule = power_of_two, tokens_per_row = 4>
func.func @step(%q: !q {mla.input = "q"}, %rows: tensor<?x$WNxi32> {mla.input = "rows"},
                %len: tensor<?xi32> {mla.input = "lengths"}, %others: tensor<?x$WFxi32> {mla.input = "others"},
                %count: tensor<?xi32> {mla.input = "counts"},
                %batch: !mla.batch, %near: !near, %far: !far {mla.pool = "far"}) -> (!o {mla.output = "output"}) {
  %o = mla.sparse_attention query(%q : !q) rows(%rows : tensor<?x$WNxi32>) lengths(%len : tensor<?xi32>)
      over %near, %batch : !near, !mla.batch
      beside(%others, %count, %far : tensor<?x$WFxi32>, tensor<?xi32>, !far) scale $SCALE -> !o
  return %o : !o
})",
                    {{"SCALE", std::to_string(kScale)},
                     {"NEAR", std::to_string(near.layout.shape().pageSize)},
                     {"FAR", std::to_string(far.layout.shape().pageSize)},
                     {"WN", std::to_string(near.entries)},
                     {"WF", std::to_string(far.entries)},
                     {"N", std::to_string(kHeads)}});
}

std::vector<double> reference(std::initializer_list<const Scope *> scopes, int64_t token,
                              const Bf16 *query) {
  double sum = 0;
  std::vector<double> output(kWidth, 0);
  for (const Scope *scope : scopes)
    for (int64_t k = 0; k < scope->lengths[token]; ++k) {
      int32_t index = scope->lists[token * scope->entries + k];
      if (index < 0 || index >= scope->countRows())
        continue;
      std::vector<double> row = scope->read(index);
      double score = 0;
      for (int64_t i = 0; i < kWidth; ++i)
        score += kScale * row[i] * double(query[i]);
      sum += std::exp(score);
      for (int64_t i = 0; i < kWidth; ++i)
        output[i] += std::exp(score) * row[i];
    }
  for (double &value : output)
    value = sum > 0 ? value / sum : 0;
  return output;
}

void check(int64_t nearPage, int64_t farPage, unsigned seed) {
  std::mt19937 random(seed);
  Scope near(nearPage, 21, random), far(farPage, 70, random);
  auto steps = Steps::compile(moduleOf(near, far));
  ASSERT_TRUE(steps);
  auto query = randomVector<Bf16>(kTokens * kHeads * kWidth, seed + 1);
  std::vector<float> output(query.size(), std::numeric_limits<float>::quiet_NaN());
  steps->run("step",
             {{"num_tokens", kTokens},
              {"num_pages", kPages},
              {"page_stride", near.layout.pageStride()},
              {"far/num_pages", kPages},
              {"far/page_stride", far.layout.pageStride()}},
             {{"q", query},
              {"rows", near.lists},
              {"lengths", near.lengths},
              {"others", far.lists},
              {"counts", far.lengths},
              {"cache", near.memory},
              {"far", far.memory},
              {"output", output}});
  for (int64_t row = 0; row < kTokens * kHeads; ++row) {
    std::vector<double> expected = reference({&near, &far}, row / kHeads, &query[row * kWidth]);
    double largest = 0;
    for (double value : expected)
      largest = std::max(largest, std::abs(value));
    for (int64_t i = 0; i < kWidth; ++i) // weights are rounded to bf16 before the product
      ASSERT_NEAR(output[row * kWidth + i], expected[i], 0x1p-8 * largest)
          << "row " << row << ", column " << i;
  }
}

TEST(RecordAttention, V4_08_V4_27_V4_30_V4_47_WholeRowsOfTwoPools) {
  check(64, 64, 1);
  check(64, 2, 2);
  check(61, 69, 3);
}

} // namespace
