//===- UpProjectionCost.cpp - where keys and values are made ----*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Analysis/UpProjectionCost.h"

#include "mla/Analysis/DenseScheduleCost.h"
#include "mla/Analysis/ProductCost.h"
#include "mla/Analysis/ScheduleCost.h"
#include "mla/Machine/Sm90Limits.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlac;
using namespace mlir;

llvm::StringRef UpProjectionCost::getBest() const {
  if (absorbed <= std::min(planned, fused))
    return "absorbed";
  return planned <= fused ? "planned" : "fused";
}

namespace {
class Model {
public:
  Model(const FormProblem &problem, const TargetDescription &target)
      : problem(problem), dims(problem.dims), target(target), sm(target.sm),
        b(problem.elementBytes), keys(problem.numRequests * problem.contextLen),
        outputs(dims.qkNopeHeadDim + dims.vHeadDim) {}

  /// False: heads of this shape have no schedule to compare with.
  bool findAttention();
  double predictPlanned() const;
  double predictFused(StepCost &step) const;
  double predictAbsorbed() const;

private:
  double cyclesPerMicrosecond() const { return target.numSms * sm.clockGhz * 1e3; }
  double readMicroseconds(double bytes) const { return bytes / (target.readGbps * 1e3); }
  double readWeights() const { return double(dims.kvLoraRank) * dims.numHeads * outputs * b; }
  double readLatents() const { return keys * problem.bytesPerCachedToken(); }
  /// All programs' steps; their work is divided evenly.
  double predictSteps(double stepCycles) const {
    double tiles = double(dims.numHeads) * llvm::divideCeil(problem.queryLen, attention.rows);
    return tiles * keys / attention.keys * stepCycles / cyclesPerMicrosecond();
  }

  const FormProblem &problem;
  const LayerDims &dims;
  const TargetDescription &target;
  const SmDescription &sm;
  const double b, keys, outputs; // P + V
  DenseScheduleCost attention;
};
} // namespace

bool Model::findAttention() {
  DenseAttentionProblem heads;
  heads.keyWidths = {dims.qkNopeHeadDim};
  if (dims.qkRopeHeadDim)
    heads.keyWidths.push_back(dims.qkRopeHeadDim);
  heads.valueWidth = dims.vHeadDim;
  heads.elementBytes = problem.elementBytes;
  attention = computeDenseScheduleCost(heads, target, ScheduleKind::PingPong);
  return attention.isFeasible();
}

double Model::predictPlanned() const {
  ProductShape shape{static_cast<int64_t>(dims.numHeads * outputs), dims.kvLoraRank, 1};
  double cycles = predictProductCycles(shape, static_cast<int64_t>(keys),
                                       chooseProductTiles(shape, target), target);
  double made = keys * dims.numHeads * outputs * b;
  double product =
      std::max(cycles / (sm.clockGhz * 1e3),
               readMicroseconds(readLatents() + readWeights()) + made / (target.copyGbps * 1e3));
  // What the L2 cache holds is not read from memory.
  double read = made + keys * dims.qkRopeHeadDim * b;
  double attend = std::max(predictSteps(attention.getStepCycles()),
                           readMicroseconds(read > target.l2Bytes ? read : 0));
  return 2 * target.launchMicroseconds + product + attend;
}

double Model::predictFused(StepCost &step) const {
  double block = attention.keys, rank = dims.kvLoraRank;
  double weights = rank * outputs * b, latents = block * rank * b;
  double results = block * outputs * b, rope = block * dims.qkRopeHeadDim * b;
  // Queries, a block of keys and values, and the latents that it is made from.
  double resident = attention.rows * (outputs - dims.vHeadDim + dims.qkRopeHeadDim) * b + results +
                    rope + latents;
  double streamed = weights + resident <= target.sharedBytes ? 0 : weights;
  // Of the up-projection, rows are keys: each group of 64 reads all weights, and itself
  // once for every accumulator's columns.
  double groups = block / sm90::kTileRows;
  double accumulators = llvm::divideCeil(static_cast<int64_t>(outputs), sm90::kMaxWgmmaColumns);
  double operands = latents * accumulators + groups * weights;
  step = attention;
  step.tensorCycles += 2 * block * rank * outputs / sm.tensorFlopsPerClock;
  step.loadCycles = (latents + rope + streamed) / sm.l2BytesPerClock;
  // Attention's own copies of keys and values are now results.
  step.sharedCycles += (operands + latents + streamed) / sm.sharedBytesPerClock;
  return target.launchMicroseconds +
         std::max(predictSteps(step.getStepCycles()), readMicroseconds(readLatents()));
}

double Model::predictAbsorbed() const {
  AttentionProblem paged;
  paged.rowsPerToken = dims.numHeads;
  paged.queryLen = problem.queryLen;
  paged.kvLoraRank = dims.kvLoraRank;
  paged.ropeDim = dims.qkRopeHeadDim;
  paged.elementBytes = problem.elementBytes;
  const ScheduleCost &cost = chooseSchedule(paged, target).get();
  double tiles = paged.rowTiles(cost.parameters.kind);
  double attend =
      tiles * keys / kBlockKeys * cost.getBlockNanoseconds(target) * 1e-3 / target.numSms;
  // Both sides' projections.
  double flops = 2.0 * problem.numRequests * problem.queryLen * readWeights() / b;
  double project = std::max(flops / (target.matmulTflops * 1e6), readMicroseconds(readWeights()));
  return 3 * target.launchMicroseconds + attend + project;
}

std::optional<UpProjectionCost> mlac::computeUpProjectionCost(const FormProblem &problem,
                                                              const TargetDescription &target) {
  Model model(problem, target);
  if (problem.contextLen == 0 || target.sm.tensorFlopsPerClock == 0 || !model.findAttention())
    return std::nullopt;
  UpProjectionCost cost;
  cost.planned = model.predictPlanned();
  cost.fused = model.predictFused(cost.fusedStep);
  cost.absorbed = model.predictAbsorbed();
  return cost;
}
