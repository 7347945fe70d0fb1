//===- cpu_decode_reference.cpp - a decode step as anyone would write it --===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The yardstick for the CPU back end: one decode step of a DeepSeek-V3 layer
// (absorbed form, one token, `heads` heads, `context` cached tokens, f32), in
// plain loops over rows and columns, to be compiled with -O3 -march=native. It
// rounds nothing and skips RoPE's angles (cos and sin are inputs), which
// favours it.
//
// Usage: cpu_decode_reference [hidden heads context iterations]
// Prints the median microseconds of one step on one thread.
//
//===----------------------------------------------------------------------===//

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace {

constexpr int kQueryRank = 1536, kLatent = 512, kNope = 128, kRope = 64, kValue = 128;
constexpr int kRow = kLatent + kRope;
constexpr float kScale = 0.1352338f; // DeepSeek-V3 (mla.md section 2)

using Vector = std::vector<float>;

Vector random(size_t count, double scale, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, static_cast<float>(scale));
  Vector values(count);
  for (float &value : values)
    value = normal(engine);
  return values;
}

/// y[o] = sum_i w[o, i] x[i]
void project(const float *w, const float *x, float *y, int rows, int columns) {
  for (int o = 0; o < rows; ++o) {
    float sum = 0;
    for (int i = 0; i < columns; ++i)
      sum += w[static_cast<size_t>(o) * columns + i] * x[i];
    y[o] = sum;
  }
}

void normalise(float *x, const float *gamma, int width) {
  float squares = 0;
  for (int i = 0; i < width; ++i)
    squares += x[i] * x[i];
  float factor = 1 / std::sqrt(squares / width + 1e-6f);
  for (int i = 0; i < width; ++i)
    x[i] *= factor * gamma[i];
}

void rotate(float *x, const float *cosSin) {
  for (int i = 0; i < kRope / 2; ++i) {
    float a = x[2 * i], b = x[2 * i + 1];
    x[2 * i] = a * cosSin[i] - b * cosSin[kRope / 2 + i];
    x[2 * i + 1] = a * cosSin[kRope / 2 + i] + b * cosSin[i];
  }
}

struct Layer {
  int hidden, heads, context;
  Vector wQa = random(size_t(kQueryRank) * hidden, 1 / std::sqrt(hidden), 1);
  Vector wQb = random(size_t(heads) * (kNope + kRope) * kQueryRank, 1 / std::sqrt(kQueryRank), 2);
  Vector wKva = random(size_t(kRow) * hidden, 1 / std::sqrt(hidden), 3);
  Vector wKvb = random(size_t(heads) * (kNope + kValue) * kLatent, 1 / std::sqrt(kLatent), 4);
  Vector wO = random(size_t(hidden) * heads * kValue, 1 / std::sqrt(heads * kValue), 5);
  Vector gamma = Vector(kQueryRank, 1.0f);
  Vector cache = random(size_t(context) * kRow, 1, 6);
  Vector cosSin = random(kRope, 0.7, 7);

  void attend(const float *query, const float *wUk, const float *wUv, float *out,
              Vector &scores) const {
    float latent[kLatent] = {};
    for (int p = 0; p < kNope; ++p)
      for (int l = 0; l < kLatent; ++l)
        latent[l] += query[p] * wUk[size_t(p) * kLatent + l];
    float top = -1e30f;
    for (int s = 0; s < context; ++s) {
      const float *row = &cache[size_t(s) * kRow];
      float sum = 0;
      for (int l = 0; l < kLatent; ++l)
        sum += latent[l] * row[l];
      for (int r = 0; r < kRope; ++r)
        sum += query[kNope + r] * row[kLatent + r];
      scores[s] = sum * kScale;
      top = std::max(top, scores[s]);
    }
    float total = 0, mean[kLatent] = {};
    for (int s = 0; s < context; ++s) {
      float weight = std::exp(scores[s] - top);
      total += weight;
      for (int l = 0; l < kLatent; ++l)
        mean[l] += weight * cache[size_t(s) * kRow + l];
    }
    for (float &value : mean)
      value /= total;
    project(wUv, mean, out, kValue, kLatent);
  }

  void step(const Vector &x, Vector &y) {
    Vector qLatent(kQueryRank), row(kRow), query(size_t(heads) * (kNope + kRope));
    Vector out(size_t(heads) * kValue), scores(context);
    project(wQa.data(), x.data(), qLatent.data(), kQueryRank, hidden);
    normalise(qLatent.data(), gamma.data(), kQueryRank);
    project(wQb.data(), qLatent.data(), query.data(), heads * (kNope + kRope), kQueryRank);
    project(wKva.data(), x.data(), row.data(), kRow, hidden);
    normalise(row.data(), gamma.data(), kLatent);
    rotate(&row[kLatent], cosSin.data());
    std::copy(row.begin(), row.end(), cache.end() - kRow);
    for (int n = 0; n < heads; ++n) {
      float *head = &query[size_t(n) * (kNope + kRope)];
      rotate(head + kNope, cosSin.data());
      const float *up = &wKvb[size_t(n) * (kNope + kValue) * kLatent];
      attend(head, up, up + size_t(kNope) * kLatent, &out[size_t(n) * kValue], scores);
    }
    project(wO.data(), out.data(), y.data(), hidden, heads * kValue);
  }
};

} // namespace

int main(int argc, char **argv) {
  auto argument = [&](int index, int fallback) {
    return argc > index ? std::atoi(argv[index]) : fallback;
  };
  Layer layer{argument(1, 7168), argument(2, 8), argument(3, 4096)};
  int iterations = argument(4, 15);
  Vector x = random(layer.hidden, 1, 8), y(layer.hidden);
  std::vector<double> times;
  for (int i = 0; i < iterations; ++i) {
    auto begin = std::chrono::steady_clock::now();
    layer.step(x, y);
    std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - begin;
    times.push_back(elapsed.count());
  }
  std::sort(times.begin(), times.end());
  std::printf("%.1f us (check %.6f)\n", times[times.size() / 2], y[0]);
  return 0;
}
