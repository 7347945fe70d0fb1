//===- SimulatorTest.cpp - right kernels give right results ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels.h"

#include "gtest/gtest.h"

using namespace mlac;
using namespace mlac::test;

namespace {

constexpr uint64_t kSeeds = 20;
/// Of a bf16: one rounding of the result and one of each weight, both 2^-9.
constexpr double kTolerance = 1.0 / 128;

template <typename T> const T &at(const std::vector<Data> &data, size_t index) {
  return std::get<T>(data[index]);
}

/// What relay.mlir says, in double.
std::vector<double> computeRelay(const Kernel &kernel, int64_t length) {
  const Bits &q = at<Bits>(kernel.arguments, 0), &pool = at<Bits>(kernel.arguments, 1);
  const auto &table = at<std::vector<int32_t>>(kernel.arguments, 2);
  double scale = at<float>(kernel.arguments, 6);
  std::vector<double> o(64 * 128);
  for (int64_t first = 0; first < length; first += 64)
    for (int64_t row = 0; row < 64; ++row) {
      std::vector<double> p(64);
      const uint16_t *page = &pool[table[first / 64] * 64 * 128];
      for (int64_t key = 0; key < std::min<int64_t>(64, length - first); ++key) {
        for (int64_t k = 0; k < 128; ++k)
          p[key] += double(toFloat(q[row * 128 + k])) * toFloat(page[key * 128 + k]);
        p[key] = std::min(p[key] * scale, 1.0);
      }
      double alpha = *std::max_element(p.begin(), p.end()) / 4;
      for (int64_t column = 0; column < 128; ++column) {
        double sum = o[row * 128 + column] * alpha;
        for (int64_t key = 0; key < std::min<int64_t>(64, length - first); ++key)
          sum += p[key] * toFloat(page[key * 128 + column]);
        o[row * 128 + column] = sum;
      }
    }
  return o;
}

void expectNear(const Bits &actual, const std::vector<double> &expected) {
  double largest = 1;
  for (double value : expected)
    largest = std::max(largest, std::fabs(value));
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(toFloat(actual[i]), expected[i], kTolerance * largest) << i;
}

/// Runs the kernel, which must have no defect, under every seed; `check` sees what it wrote.
template <typename Check>
static void underEverySeed(mlir::ModuleOp module, const Kernel &kernel, Check check) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::vector<Data> data = kernel.arguments;
    auto finding = run(module, data, seed);
    if (finding)
      finding->emit();
    ASSERT_FALSE(finding) << finding->text;
    check(data);
  }
}

class Relay : public ::testing::TestWithParam<int64_t>, protected Context {};

TEST_P(Relay, GivesTheResultUnderEverySeed) {
  auto module = parse("relay", context);
  ASSERT_TRUE(module);
  Kernel kernel = makeRelay(GetParam());
  std::vector<double> expected = computeRelay(kernel, GetParam());
  underEverySeed(*module, kernel,
                 [&](const std::vector<Data> &data) { expectNear(at<Bits>(data, 3), expected); });
}

INSTANTIATE_TEST_SUITE_P(Lengths, Relay, ::testing::Values(0, 1, 63, 64, 65, 128, 300, 384));

class Gather : public ::testing::TestWithParam<int64_t>, protected Context {};

TEST_P(Gather, GivesTheResultUnderEverySeed) {
  auto module = parse("gather", context);
  ASSERT_TRUE(module);
  Kernel kernel = makeGather(GetParam());
  const Bits &q = at<Bits>(kernel.arguments, 0), &k = at<Bits>(kernel.arguments, 1);
  const auto &indices = at<std::vector<int32_t>>(kernel.arguments, 2);
  std::vector<double> expected(64 * 128), sums(64);
  for (int64_t row = 0; row < 64; ++row)
    for (size_t i = 0; i < indices.size(); ++i)
      for (int64_t column = 0; column < 128 && indices[i] >= 0 && indices[i] < 100; ++column) {
        double term = double(toFloat(q[row * 64 + i % 64])) * toFloat(k[indices[i] * 128 + column]);
        expected[row * 128 + column] += term;
        sums[row] += 2 * term; // the first block of all counts has a gap
      }
  underEverySeed(*module, kernel, [&](const std::vector<Data> &data) {
    expectNear(at<Bits>(data, 3), expected);
    for (int64_t row = 0; row < 64; ++row)
      ASSERT_NEAR(at<std::vector<float>>(data, 4)[row], sums[row], 1e-3) << row;
  });
}

INSTANTIATE_TEST_SUITE_P(Counts, Gather, ::testing::Values(1, 64, 150, 320));

class Marks : public ::testing::Test, protected Context {};

TEST_F(Marks, B06_GiveTheResultUnderEverySeed) {
  auto module = parse("marks", context);
  ASSERT_TRUE(module);
  Kernel kernel = makeMarks();
  const auto &list = at<std::vector<int32_t>>(kernel.arguments, 0);
  std::vector<float> expected(2 * 128);
  std::vector<int32_t> words(2 * 4);
  for (int64_t i = 0; i < 2 * 24; ++i)
    if (int64_t bit = list[i] - kFirstMark; bit >= 0 && bit < 128) {
      expected[i / 24 * 128 + bit] = 1;
      words[i / 24 * 4 + bit / 32] |= 1u << bit % 32;
    }
  underEverySeed(*module, kernel, [&](const std::vector<Data> &data) {
    ASSERT_EQ(at<std::vector<int32_t>>(data, 1), words);
    ASSERT_EQ(at<std::vector<float>>(data, 2), expected);
  });
}

// A deadlock names every waiter, its ring, slot and phase.
TEST(Deadlock, NamesWaiters) {
  Context all;
  auto module = parse("relay", all.context);
  ASSERT_TRUE(module);
  module->walk([](mlir::sm90::RingOp ring) {
    if (ring.getLabel() == "weights")
      ring.setFullCount(5);
  });
  Kernel kernel = makeRelay(128);
  auto finding = run(*module, kernel.arguments, 0);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->defect, simulator::Defect::Deadlock);
  ASSERT_EQ(finding->notes.size(), 2u); // the loader has done its part
  EXPECT_NE(
      finding->notes[1].text.find("role 'values' waits for phase 0 of ring 'weights', slot 0, "
                                  "full, part 0 (in phase 0, 1 of 5 arrivals"),
      std::string::npos)
      << finding->notes[1].text;
}

} // namespace
