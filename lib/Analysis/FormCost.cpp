//===- FormCost.cpp - what each form of the attention costs ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Formulas of mla.md section 12. Counts are doubles: the expanded form of a
// long batch passes 2^53 only beyond any machine's memory, and rates divide
// them anyway. The crossover comparison is exact in integers.
//
//===----------------------------------------------------------------------===//

#include "mla/Analysis/FormCost.h"

#include "mla/Analysis/UpProjectionCost.h"
#include "mla/Dialect/Sm90/IR/Limits.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlac;

//===----------------------------------------------------------------------===//
// Targets
//===----------------------------------------------------------------------===//

// h200: one NVIDIA H200, 132 SMs. Measured 2026-11, medians: bf16 matmul
//   8192^3 by cuBLAS in a short burst 800 TFLOP/s (672 sustained at the power
//   limit), read-only stream 4642 GB/s, device copy 4258 GB/s (read + write),
//   a second dependent kernel inside a CUDA graph 1.9 us. Derived: f32 outside the
//   tensor cores 132 SMs · 128 lanes · 2 FLOP · 1.98 GHz = 66.9. Data sheet: L2
//   50 MB. Its multiprocessor (docs/lab/multiprocessor.md):
//   4096 FLOP/clk and 128 B/clk are the architecture's (989 TFLOP/s at 1.83 GHz;
//   32 banks of 4 bytes); the rest is measured. The split of a softmax's 650 cycles
//   into 350 and 300 is fitted: it puts the variants of the schedule in their
//   measured order.
// cpu: two threads of a server core with AVX-512. Measured 2026-11: f32 matmul
//   1024^3 through MLIR's vector dialect 363 GFLOP/s, with bf16 inputs widened
//   446; sum over a 512 MB array 64 GB/s, memcpy 48 GB/s (read + write), thread
//   fork and join 18 us. L2: 2 MiB per core.
static constexpr TargetDescription kTargets[] = {
    {"h200",
     "sm_90a",
     132,
     800,
     66.9,
     4642,
     4258,
     50 << 20,
     mlir::sm90::kMaxSharedBytes,
     1.9,
     {.tensorFlopsPerClock = 4096,
      .sharedBytesPerClock = 128,
      .l2BytesPerClock = 56.5,
      .storeBytesPerClock = 16,
      .loadLatencyCycles = 2000,
      .copyIssueCycles = 85,
      .handoverCycles = 150,
      .exponentialCycles = 350,
      .packCycles = 300,
      .clockGhz = 1.6,
      .kernelMicroseconds = 0.65}},
    {"cpu", "cpu", 2, 0.446, 0.363, 64, 48, 2 << 20, 0, 18},
};

llvm::ArrayRef<TargetDescription> mlac::getKnownTargets() { return kTargets; }

std::optional<TargetDescription> mlac::findTargetDescription(llvm::StringRef name) {
  for (const TargetDescription &target : kTargets)
    if (target.name == name)
      return target;
  return std::nullopt;
}

const TargetDescription &mlac::getMachineOf(llvm::StringRef chip) {
  const auto *machine =
      llvm::find_if(kTargets, [&](const TargetDescription &target) { return target.chip == chip; });
  assert(machine != std::end(kTargets) && "no machine of this chip is described");
  return *machine;
}

llvm::StringRef mlac::getName(FormVariant variant) {
  switch (variant) {
  case FormVariant::Expanded:
    return "expanded";
  case FormVariant::AbsorbedOnline:
    return "absorbed online";
  case FormVariant::AbsorbedOffline:
    return "absorbed offline";
  case FormVariant::AbsorbedHalfQuery:
    return "absorbed half-query";
  case FormVariant::AbsorbedHalfOutput:
    return "absorbed half-output";
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Counting
//===----------------------------------------------------------------------===//

int64_t mlac::countAttendedPairs(int64_t queryLen, int64_t contextLen) {
  return queryLen * contextLen + queryLen * (queryLen + 1) / 2;
}

static bool foldsQuery(FormVariant variant) {
  return variant == FormVariant::AbsorbedOffline || variant == FormVariant::AbsorbedHalfQuery;
}
static bool foldsOutput(FormVariant variant) {
  return variant == FormVariant::AbsorbedOffline || variant == FormVariant::AbsorbedHalfOutput;
}

namespace {
/// Collects the steps of one variant. Lengths and dimensions are doubles so
/// that products do not overflow.
class StepCounter {
public:
  StepCounter(const FormProblem &problem, FormVariant variant)
      : problem(problem), cost{variant, {}}, B(problem.numRequests), Sq(problem.queryLen),
        Skv(problem.seqLen()), C(problem.contextLen), H(problem.dims.hiddenSize),
        N(problem.dims.numHeads), Lin(problem.dims.queryInputDim()), Lkv(problem.dims.kvLoraRank),
        P(problem.dims.qkNopeHeadDim), R(problem.dims.qkRopeHeadDim), V(problem.dims.vHeadDim),
        A(countAttendedPairs(problem.queryLen, problem.contextLen)),
        elementBytes(problem.elementBytes) {}

  FormCost count() {
    countInputProjections();
    if (cost.variant == FormVariant::Expanded)
      countExpandedCore();
    else
      countAbsorbedCore();
    addProjection("W_O", N * (foldsOutput(cost.variant) ? Lkv : V), H);
    return cost;
  }

private:
  void add(llvm::StringRef name, double flops, double bytes, bool isCore) {
    cost.steps.push_back({name, flops, bytes, isCore});
  }
  /// A dense projection of every new token, outside the core.
  void addProjection(llvm::StringRef name, double in, double out) {
    add(name, 2 * B * Sq * in * out, elementBytes * (in * out + B * Sq * (in + out)), false);
  }

  void countInputProjections() {
    if (problem.dims.qLoraRank)
      addProjection("q down", H, Lin);
    addProjection("q up", Lin, N * ((foldsQuery(cost.variant) ? Lkv : P) + R));
    addProjection("kv down", H, Lkv + R);
  }

  /// Keys and values are written once by the up-projection and read once by the
  /// attention: together κ = 2(P+V) elements per token and head, and 2(P+R)
  /// more if the keys are copied to join the rope part.
  void countExpandedCore() {
    double kvElements = B * Skv * N * (P + V);
    double concatElements = problem.concatenatesKeys ? B * Skv * N * 2 * (P + R) : 0;
    add("k/v up", 2 * B * Skv * Lkv * N * (P + V),
        B * C * problem.bytesPerCachedToken() +
            elementBytes * (Lkv * N * (P + V) + kvElements + concatElements),
        true);
    add("attention", 2 * B * N * (P + R + V) * A,
        elementBytes * (kvElements + B * Sq * N * (P + R + V)), true);
  }

  void countAbsorbedCore() {
    if (!foldsQuery(cost.variant))
      add("q·W_UK", 2 * B * Sq * N * P * Lkv, elementBytes * Lkv * N * P, true);
    double rowTiles = llvm::divideCeil(problem.queryLen * problem.dims.numHeads, problem.tileRows);
    double cacheBytes =
        B * problem.bytesPerCachedToken() * Skv * rowTiles * (1 - problem.l2HitRate);
    add("attention", 2 * B * N * (2 * Lkv + R) * A,
        cacheBytes + elementBytes * B * Sq * N * (2 * Lkv + R), true);
    if (!foldsOutput(cost.variant))
      add("W_UV", 2 * B * Sq * N * Lkv * V, elementBytes * Lkv * N * V, true);
  }

  const FormProblem &problem;
  FormCost cost;
  const double B, Sq, Skv, C, H, N, Lin, Lkv, P, R, V, A, elementBytes;
};
} // namespace

FormCost mlac::computeFormCost(const FormProblem &problem, FormVariant variant) {
  return StepCounter(problem, variant).count();
}

static double sum(llvm::ArrayRef<CostStep> steps, double CostStep::*field, bool coreOnly) {
  double total = 0;
  for (const CostStep &step : steps)
    if (step.isCore || !coreOnly)
      total += step.*field;
  return total;
}

double FormCost::totalFlops() const { return sum(steps, &CostStep::flops, false); }
double FormCost::coreFlops() const { return sum(steps, &CostStep::flops, true); }
double FormCost::totalBytes() const { return sum(steps, &CostStep::bytes, false); }
double FormCost::coreBytes() const { return sum(steps, &CostStep::bytes, true); }

double FormCost::predictMicroseconds(const TargetDescription &target) const {
  const double flopsPerMicrosecond = target.matmulTflops * 1e6;
  const double bytesPerMicrosecond = target.readGbps * 1e3;
  double microseconds = 0;
  for (const CostStep &step : steps)
    microseconds += target.launchMicroseconds +
                    std::max(step.flops / flopsPerMicrosecond, step.bytes / bytesPerMicrosecond);
  return microseconds;
}

double mlac::estimateL2HitRate(const FormProblem &problem) {
  double rowTiles = llvm::divideCeil(problem.queryLen * problem.dims.numHeads, problem.tileRows);
  return 1 - 1 / rowTiles;
}

double mlac::computeDecodeIntensity(const FormProblem &problem) {
  const LayerDims &dims = problem.dims;
  return 2.0 * dims.numHeads * problem.queryLen * (2 * dims.kvLoraRank + dims.qkRopeHeadDim) /
         problem.bytesPerCachedToken();
}

//===----------------------------------------------------------------------===//
// Crossover
//===----------------------------------------------------------------------===//

/// Lkv(P+V): MACs per head of up-projecting one cached token.
static int64_t upProjectionMacs(const LayerDims &dims) {
  return dims.kvLoraRank * (dims.qkNopeHeadDim + dims.vHeadDim);
}

/// 2·Lkv−P−V: MACs per head and attended pair that the absorbed form has more.
static int64_t extraPairMacs(const LayerDims &dims) {
  return 2 * dims.kvLoraRank - dims.qkNopeHeadDim - dims.vHeadDim;
}

bool mlac::isExpandedCheaper(const LayerDims &dims, int64_t contextTokens, int64_t attendedPairs) {
  return contextTokens * upProjectionMacs(dims) <= extraPairMacs(dims) * attendedPairs;
}

std::optional<double> mlac::computeCrossover(const LayerDims &dims) {
  if (extraPairMacs(dims) <= 0)
    return std::nullopt;
  return double(upProjectionMacs(dims)) / extraPairMacs(dims);
}

std::optional<int64_t> mlac::findSmallestExpandedQueryLen(const LayerDims &dims,
                                                          int64_t contextLen) {
  std::optional<double> crossover = computeCrossover(dims);
  if (!crossover)
    return std::nullopt;
  // A grows with Sq and A >= Sq·C, so ⌈Sq*⌉ wins for every context.
  int64_t low = 1, high = llvm::divideCeil(upProjectionMacs(dims), extraPairMacs(dims));
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (isExpandedCheaper(dims, contextLen, countAttendedPairs(middle, contextLen)))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

//===----------------------------------------------------------------------===//
// Report
//===----------------------------------------------------------------------===//

static void printPoint(llvm::raw_ostream &os, const TargetDescription &target,
                       const FormProblem &given) {
  FormProblem problem = given;
  problem.l2HitRate = std::max(problem.l2HitRate, estimateL2HitRate(problem));
  os << "requests " << problem.numRequests << ", query_len " << problem.queryLen << ", context_len "
     << problem.contextLen << "\n"
     << "  form                  core FLOPs  total FLOPs  FLOPs ratio   core bytes  total bytes"
        "  predicted us  time ratio\n";
  FormCost expanded = computeFormCost(problem, FormVariant::Expanded);
  for (FormVariant variant : kAllFormVariants) {
    FormCost cost = computeFormCost(problem, variant);
    double time = cost.predictMicroseconds(target);
    os << llvm::format("  %-20s  %10.3e   %10.3e  %11.4f   %10.3e   %10.3e  %12.1f  %10.4f\n",
                       getName(variant).data(), cost.coreFlops(), cost.totalFlops(),
                       cost.totalFlops() / expanded.totalFlops(), cost.coreBytes(),
                       cost.totalBytes(), time, time / expanded.predictMicroseconds(target));
  }
  if (std::optional<int64_t> queryLen =
          findSmallestExpandedQueryLen(problem.dims, problem.contextLen))
    os << "  expanded wins from query_len " << *queryLen << " with this context (FLOPs, online)\n";
  else
    os << "  expanded never wins with any context (2 Lkv <= P + V)\n";
  if (std::optional<UpProjectionCost> up = computeUpProjectionCost(problem, target))
    os << llvm::format("  up-projection: one product per chunk, %.1f us with its attention over "
                       "the context; fused into it %.1f us (bound by %s), absorbed %.1f us\n",
                       up->planned, up->fused, up->fusedStep.getLargestTerm("the softmax").data(),
                       up->absorbed);
}

void mlac::printFormReport(llvm::raw_ostream &os, const TargetDescription &target,
                           llvm::ArrayRef<FormProblem> points) {
  if (points.empty())
    return;
  const LayerDims &dims = points.front().dims;
  os << "cost of the attention layer: H " << dims.hiddenSize << ", N " << dims.numHeads << ", Lq "
     << dims.qLoraRank << ", Lkv " << dims.kvLoraRank << ", P " << dims.qkNopeHeadDim << ", R "
     << dims.qkRopeHeadDim << ", V " << dims.vHeadDim << "\n"
     << llvm::format("target %s: %.3g TFLOP/s, %.4g GB/s, %.3g us per launch\n", target.name.data(),
                     target.matmulTflops, target.readGbps, target.launchMicroseconds)
     << "ratios are to the expanded form of the same step\n";
  if (std::optional<double> crossover = computeCrossover(dims))
    os << llvm::format("crossover Sq* = Lkv(P+V)/(2Lkv-P-V) = %.1f new tokens\n", *crossover);
  for (const FormProblem &point : points)
    printPoint(os, target, point);
}
