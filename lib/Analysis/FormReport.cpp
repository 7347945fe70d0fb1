//===- FormReport.cpp - what each form costs, as text ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Analysis/FormReport.h"

#include "mla/Analysis/UpProjectionCost.h"

#include "llvm/Support/Format.h"

#include <algorithm>

using namespace mlac;

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
