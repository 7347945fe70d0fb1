//===- KernelBench.cpp - times CPU kernels against plain loops ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Single-threaded times of representative kernels, next to what bounds them: the
// machine's read bandwidth, and loops as one writes them by hand, compiled with
// -O3 -march=native (this file is). Not a test; `cpu-kernel-bench [cpu]`.
//
//===----------------------------------------------------------------------===//

#include "KernelRunner.h"
#include "Kernels.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>

using namespace mlac::test;

/// Best of several runs, in seconds.
static double timeOf(const std::function<void()> &run) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9;
  Clock::time_point start = Clock::now();
  for (int i = 0; i < 3 || Clock::now() - start < std::chrono::milliseconds(700); ++i) {
    Clock::time_point before = Clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - before).count());
  }
  return best;
}

static volatile uint64_t sink;

static double readBandwidth() {
  std::vector<uint64_t> data(size_t(64) << 20); // 512 MiB
  std::fill(data.begin(), data.end(), 1);
  double seconds = timeOf([&] {
    uint64_t sum = 0;
    for (uint64_t value : data)
      sum += value;
    sink = sum;
  });
  return data.size() * sizeof(uint64_t) / seconds;
}

static std::unique_ptr<KernelImage> compileTimed(const char *name, const std::string &text,
                                                 const std::string &cpu) {
  std::unique_ptr<KernelImage> image;
  double seconds = timeOf([&] { image = KernelImage::compile(text, cpu); });
  std::printf("%-28s compiled in %.1f ms, image of %zu bytes\n", name, seconds * 1e3,
              image->image().bytes.size());
  return image;
}

static void benchGemv(const std::string &cpu, GemmTile tile) {
  constexpr int64_t kIn = 7168, kOut = 2112, kCopies = 16; // copies: beyond every cache
  auto image = compileTimed("gemv bf16", gemmText("bf16", tile, true), cpu);
  auto x = randomVector<Bf16>(kIn, 1), w = randomVector<Bf16>(kIn * kOut * kCopies, 2);
  std::vector<float> y(kOut * kCopies);
  double seconds = timeOf([&] {
    image->launch("gemm", {x, w, y, 1, kOut * kCopies, kIn}, {1, kOut * kCopies / tile.n});
  });
  std::printf("  [1,7168]x[2112,7168] tile %ldx%ldx%ld: %.3f ms, %.1f GB/s\n", tile.m, tile.n,
              tile.k, seconds * 1e3 / kCopies, w.size() * 2 / seconds * 1e-9);
}

template <typename T>
static void benchGemm(const std::string &cpu, const char *type, GemmTile tile, bool transposed) {
  constexpr int64_t kM = 256, kN = 512, kK = 512;
  auto image = compileTimed("gemm", gemmText(type, tile, transposed), cpu);
  auto a = randomVector<T>(kM * kK, 1), b = randomVector<T>(kN * kK, 2);
  std::vector<float> c(kM * kN);
  double seconds =
      timeOf([&] { image->launch("gemm", {a, b, c, kM, kN, kK}, {kM / tile.m, kN / tile.n}); });
  std::printf("  256x512x512 %s %s tile %ldx%ldx%ld: %.3f ms, %.1f GFLOP/s\n", type,
              transposed ? "[N,K]" : "[K,N]", tile.m, tile.n, tile.k, seconds * 1e3,
              2.0 * kM * kN * kK / seconds * 1e-9);
}

static float widen(float value) { return value; }
static float widen(Bf16 value) { return std::bit_cast<float>(uint32_t(value.bits) << 16); }

/// Two loops over the cache for each head: scores, then the weighted sum.
template <typename T>
static void decodeByHand(const T *query, const T *pool, const int32_t *table, int64_t length,
                         int64_t heads, float scale, float *output, float *scores) {
  constexpr int64_t kRank = 512, kWidth = 576, kPage = 16;
  for (int64_t h = 0; h < heads; ++h) {
    const T *q = query + h * kWidth;
    float most = -1e30f, sum = 0;
    for (int64_t t = 0; t < length; ++t) {
      const T *row = pool + (table[t / kPage] * kPage + t % kPage) * kWidth;
      float score = 0;
      for (int64_t d = 0; d < kWidth; ++d)
        score += widen(q[d]) * widen(row[d]);
      scores[t] = score * scale;
      most = std::max(most, scores[t]);
    }
    float *out = output + h * kRank;
    std::fill_n(out, kRank, 0.0f);
    for (int64_t t = 0; t < length; ++t) {
      const T *row = pool + (table[t / kPage] * kPage + t % kPage) * kWidth;
      float weight = std::exp(scores[t] - most);
      sum += weight;
      for (int64_t d = 0; d < kRank; ++d)
        out[d] += weight * widen(row[d]);
    }
    for (int64_t d = 0; d < kRank; ++d)
      out[d] /= sum;
  }
}

template <typename T>
static void benchDecode(const std::string &cpu, const char *type, int64_t heads) {
  constexpr int64_t kPages = 256, kPage = 16, kWidth = 576, kLength = kPages * kPage;
  auto image = compileTimed("absorbed decode", decodeText(type, heads), cpu);
  auto query = randomVector<T>(heads * kWidth, 1), pool = randomVector<T>(kLength * kWidth, 2);
  std::vector<int32_t> table(kPages), lens = {int32_t(kLength)};
  for (int64_t i = 0; i < kPages; ++i)
    table[i] = i * 37 % kPages;
  std::vector<float> output(heads * 512), expected(heads * 512), lse(heads), scores(kLength);
  float scale = 0.1f;
  double seconds = timeOf([&] {
    image->launch("decode",
                  {query, pool, table, lens, output, lse, kPages, kPages, scale * 1.44269504f}, {});
  });
  double byHand = timeOf([&] {
    decodeByHand(query.data(), pool.data(), table.data(), kLength, heads, scale, expected.data(),
                 scores.data());
  });
  double worst = 0;
  for (size_t i = 0; i < output.size(); ++i)
    worst = std::max(worst, double(std::abs(output[i] - expected[i])));
  double flops = 2.0 * heads * kLength * (kWidth + 512);
  std::printf("  %ld heads, kv 4096, %s: %.3f ms (%.1f GFLOP/s), by hand %.3f ms: %.2f of it; "
              "differ by %.1e\n",
              heads, type, seconds * 1e3, flops / seconds * 1e-9, byHand * 1e3, seconds / byHand,
              worst);
}

int main(int argc, char **argv) {
  std::string cpu = argc > 1 ? argv[1] : "native";
  std::printf("read bandwidth %.1f GB/s, one thread\n", readBandwidth() * 1e-9);
  for (GemmTile tile : {GemmTile{1, 16, 512}, {1, 32, 1024}, {1, 64, 512}})
    benchGemv(cpu, tile);
  for (bool transposed : {true, false})
    for (GemmTile tile : {GemmTile{16, 64, 256}, {16, 64, 512}, {8, 64, 512}, {64, 64, 256}}) {
      benchGemm<float>(cpu, "f32", tile, transposed);
      benchGemm<Bf16>(cpu, "bf16", tile, transposed);
    }
  for (int64_t heads : {1, 8, 16}) {
    benchDecode<float>(cpu, "f32", heads);
    benchDecode<Bf16>(cpu, "bf16", heads);
  }
  return 0;
}
