//===- CeilingsCpu.cpp - what the processor can do at most ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Ceilings.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

using namespace mlac::run;

using Clock = std::chrono::steady_clock;

/// Best of several runs of `body(thread)` on all threads: a ceiling is what the
/// machine can do when nothing else runs.
static double bestSeconds(int64_t threads, const std::function<void(int64_t)> &body) {
  constexpr int kRuns = 5;
  double best = 1e30;
  for (int run = 0; run < kRuns; ++run) {
    Clock::time_point begin = Clock::now();
    std::vector<std::thread> pool;
    for (int64_t i = 0; i < threads; ++i)
      pool.emplace_back(body, i);
    for (std::thread &thread : pool)
      thread.join();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

static double measureRead(int64_t threads) {
  constexpr size_t kWords = size_t{1} << 26; // 512 MiB in all: beyond every cache
  std::vector<uint64_t> data(kWords, 1);
  std::vector<uint64_t> sums(threads);
  double seconds = bestSeconds(threads, [&](int64_t thread) {
    size_t begin = kWords * thread / threads, end = kWords * (thread + 1) / threads;
    uint64_t sum = 0;
    for (size_t i = begin; i < end; ++i)
      sum += data[i];
    sums[thread] = sum;
  });
  return kWords * sizeof(uint64_t) / seconds;
}

// Blocks of a matrix product whose operands stay in the first cache: rows x
// kLanes accumulators in registers, kDepth steps.
static constexpr int64_t kRows = 6, kDepth = 256, kRepeats = 20000;

/// One block per call: C[kRows, 2 * lanes] += A[kRows, kDepth] B[kDepth, 2 * lanes].
template <int lanes>
[[gnu::always_inline]] static inline float multiplyBlocks(const float *a, const float *b) {
  using Vector [[gnu::vector_size(lanes * sizeof(float))]] = float;
  Vector sums[kRows][2] = {};
  for (int64_t repeat = 0; repeat < kRepeats; ++repeat)
    for (int64_t k = 0; k < kDepth; ++k) {
      Vector right[2];
      __builtin_memcpy(right, b + k * 2 * lanes, sizeof(right));
      for (int64_t row = 0; row < kRows; ++row)
        for (int64_t column = 0; column < 2; ++column)
          sums[row][column] += a[row * kDepth + k] * right[column];
    }
  float total = 0;
  for (auto &row : sums)
    for (Vector &sum : row)
      total += sum[0];
  return total;
}

[[gnu::target("avx512f")]] static float multiplyAvx512(const float *a, const float *b) {
  return multiplyBlocks<16>(a, b);
}
[[gnu::target("avx2,fma")]] static float multiplyAvx2(const float *a, const float *b) {
  return multiplyBlocks<8>(a, b);
}
static float multiplyPlain(const float *a, const float *b) { return multiplyBlocks<4>(a, b); }

static double measureProduct(int64_t threads, std::string &notes) {
  bool hasAvx512 = __builtin_cpu_supports("avx512f");
  bool hasAvx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  auto *multiply = hasAvx512 ? multiplyAvx512 : (hasAvx2 ? multiplyAvx2 : multiplyPlain);
  int64_t lanes = hasAvx512 ? 16 : (hasAvx2 ? 8 : 4);
  notes = "f32 FMA product with vectors of " + std::to_string(lanes);
  std::vector<float> a(kRows * kDepth, 1e-6f), b(kDepth * 2 * lanes, 1e-6f), sums(threads);
  double seconds =
      bestSeconds(threads, [&](int64_t thread) { sums[thread] = multiply(a.data(), b.data()); });
  return 2.0 * kRows * 2 * lanes * kDepth * kRepeats * threads / seconds;
}

Ceilings mlac::run::measureCpuCeilings(int64_t threads) {
  Ceilings ceilings;
  ceilings.readBytesPerSecond = measureRead(threads);
  ceilings.flopsPerSecond = measureProduct(threads, ceilings.notes);
  return ceilings;
}
