//===- AttentionKernels.cpp - the kernels that schedules are chosen for ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the problem off a kernel and the plans that launch it.
//
//===----------------------------------------------------------------------===//

#include "mla/Conversion/TileToSm90/AttentionKernels.h"

#include "Common/AttentionLoop.h"
#include "Common/DenseAttentionLoop.h"
#include "PingPong/PingPong.h"
#include "Relay/Relay.h"

#include "mla/Dialect/Tile/Transforms/Passes.h"

#include <algorithm>

using namespace mlir;
using namespace mlac;

llvm::SmallVector<tile::PlanOp> mlac::findPlans(tile::KernelOp kernel) {
  llvm::SmallVector<tile::PlanOp> plans;
  for (tile::PlanOp plan : kernel->getParentOfType<ModuleOp>().getOps<tile::PlanOp>())
    plan.walk([&](tile::LaunchOp launch) {
      if (launch.getKernel() != kernel.getSymName())
        return WalkResult::advance();
      plans.push_back(plan);
      return WalkResult::interrupt();
    });
  return plans;
}

/// Without a bound, the fewest rows that a plan gives a request: its decode step.
static AttentionProblem readProblem(AttentionLoop &loop) {
  AttentionProblem problem;
  problem.kvLoraRank = loop.getOutputWidth();
  problem.ropeDim = 0;
  for (AttentionLoop::Term &term : llvm::drop_begin(loop.terms))
    problem.ropeDim += term.getWidth();
  constexpr unsigned kTokenDim = 1; // of [pages, page_size, columns]
  problem.pageSize = loop.terms.front().keys.getPool().getType().getDimSize(kTokenDim);
  problem.elementBytes = loop.getElementType().getIntOrFloatBitWidth() / 8;
  auto maxRows = loop.kernel->getAttrOfType<IntegerAttr>(tile::kMaxRowsAttr);
  problem.areRowsBounded = static_cast<bool>(maxRows);
  problem.rowsPerToken = maxRows ? maxRows.getInt() : 0;
  for (tile::PlanOp plan : findPlans(loop.kernel)) {
    auto works = plan.getOps<tile::WorkOp>();
    if (maxRows || works.empty())
      continue;
    int64_t rows = (*works.begin()).getRowsPerToken() * std::max<int64_t>(1, plan.getMaxQueryLen());
    problem.rowsPerToken = problem.rowsPerToken ? std::min(problem.rowsPerToken, rows) : rows;
  }
  if (!problem.rowsPerToken)
    problem.rowsPerToken = loop.getRows();
  return problem;
}

static DenseAttentionProblem readProblem(DenseAttentionLoop &loop) {
  DenseAttentionProblem problem;
  for (DenseAttentionLoop::Term &term : loop.terms)
    problem.keyWidths.push_back(term.getWidth());
  problem.valueWidth = loop.getOutputWidth();
  problem.elementBytes = loop.getElementType().getIntOrFloatBitWidth() / 8;
  return problem;
}

std::optional<AttentionKernel> mlac::readAttentionKernel(tile::KernelOp kernel, std::string &why) {
  AttentionKernel result;
  result.name = kernel.getSymName().str();
  for (tile::PlanOp plan : findPlans(kernel))
    result.launchers.push_back(
        {plan.getSymName().str(), static_cast<int64_t>(plan.getMaxQueryLen())});
  std::string whyNotDense;
  if (std::optional<AttentionLoop> paged = matchAttentionLoop(kernel, why)) {
    (void)canRelay(*paged, result.whyNot);
    result.problem = readProblem(*paged);
    return result;
  }
  if (std::optional<DenseAttentionLoop> dense = matchDenseAttentionLoop(kernel, whyNotDense)) {
    (void)canPingPong(*dense, result.whyNot);
    result.problem = readProblem(*dense);
    return result;
  }
  return std::nullopt;
}

std::vector<AttentionKernel> mlac::findAttentionKernels(ModuleOp module) {
  std::vector<AttentionKernel> kernels;
  std::string why;
  for (tile::KernelOp kernel : module.getOps<tile::KernelOp>())
    if (std::optional<AttentionKernel> found = readAttentionKernel(kernel, why))
      kernels.push_back(std::move(*found));
  return kernels;
}
