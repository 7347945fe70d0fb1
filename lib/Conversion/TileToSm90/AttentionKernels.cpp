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
#include "Common/DenseRows.h"
#include "Common/Divisibility.h"
#include "Schedules.h"

#include "mla/Analysis/ScheduleModel.h"
#include "mla/Dialect/Tile/IR/MachineAttr.h"
#include "mla/Dialect/Tile/Transforms/ExpandAttend.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"

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

/// How much of the pool a key takes where it is stored as codes: fields and scales.
static void readCodes(tile::AttendOp attend, AttentionProblem &problem) {
  if (!attend.getScales())
    return;
  auto bytes = [](Value view) {
    auto type = cast<MemRefType>(view.getType());
    int64_t columns = type.getRank() > 1 ? type.getShape().back() : 0;
    return columns * type.getElementTypeBitWidth() / 8;
  };
  problem.codedRowBytes = bytes(attend.getScales());
  for (Value keys : attend.getKeys())
    problem.codedRowBytes += bytes(keys);
  if (attend.getValues())
    problem.codedRowBytes += bytes(attend.getValues());
  problem.hasRopeCodes =
      attend.getKeys().size() > 1 && isa<Float8E4M3FNType>(attend.getStorageType(1));
}

/// Of [pages, page_size, columns].
static constexpr unsigned kTokenDim = 1;

/// Without a bound, the fewest rows that a plan gives a request: its decode step.
/// A list is a table of pages of one row.
static AttentionProblem readPaged(tile::KernelOp kernel, tile::AttendOp attend) {
  AttentionProblem problem;
  problem.kvLoraRank = attend.getOutputWidth();
  problem.ropeDim = 0;
  for (unsigned term = 1; term < attend.getQueries().size(); ++term)
    problem.ropeDim += attend.getWidth(term);
  problem.pageSize =
      attend.isListed() ? 1 : cast<MemRefType>(attend.getKeys()[0].getType()).getDimSize(kTokenDim);
  if (attend.getValues()) {
    problem.keyWidth = attend.getWidth(0) + std::exchange(problem.ropeDim, 0);
    int64_t valuePage = cast<MemRefType>(attend.getValues().getType()).getDimSize(kTokenDim);
    problem.pageSize = std::min(problem.pageSize, valuePage);
  }
  problem.elementBytes = attend.getElementType().getIntOrFloatBitWidth() / 8;
  readCodes(attend, problem);
  auto maxRows = kernel->getAttrOfType<IntegerAttr>(tile::kMaxRowsAttr);
  problem.areRowsBounded = static_cast<bool>(maxRows);
  problem.rowsPerToken = maxRows ? maxRows.getInt() : 0;
  for (tile::PlanOp plan : findPlans(kernel)) {
    auto works = plan.getOps<tile::WorkOp>();
    if (works.empty() || attend.isListed()) // the runtime's work is of requests
      continue;
    int64_t rows = (*works.begin()).getRowsPerToken() * std::max<int64_t>(1, plan.getMaxQueryLen());
    if (maxRows) {
      auto runs = static_cast<int64_t>((*works.begin()).getRunsPerToken());
      problem.runs = std::max(runs, rows / maxRows.getInt());
      continue;
    }
    problem.rowsPerToken = problem.rowsPerToken ? std::min(problem.rowsPerToken, rows) : rows;
  }
  if (!problem.rowsPerToken)
    problem.rowsPerToken = attend.getRows();
  return problem;
}

/// Whether rows in groups are those of a buffer whose rows are counted.
static bool areGroupsCounted(Value memory) {
  auto view = memory.getDefiningOp<memref::ReinterpretCastOp>();
  auto buffer = view ? dyn_cast<BlockArgument>(view.getSource()) : BlockArgument();
  auto kernel =
      buffer ? dyn_cast<tile::KernelOp>(buffer.getOwner()->getParentOp()) : tile::KernelOp();
  return kernel && view.getType().getRank() == 3 &&
         kernel.getArgAttr(buffer.getArgNumber(), tile::kRowCountAttr);
}

/// Whether each program has a tile of one head's queries of one request, so that programs can be
/// looped over, whose keys and values are dense or in pages.
static bool isOfPrograms(tile::AttendOp attend) {
  auto isCounted = [](Value query) {
    std::string why;
    auto load = query.getDefiningOp<tile::LoadOp>();
    return load && (DenseRows::match(load.getView(), why) || areGroupsCounted(load.getView()));
  };
  if (!attend.isPaged())
    return !attend.isListed();
  return attend.getValues() && llvm::all_of(attend.getQueries(), isCounted);
}

static DenseAttentionProblem readDense(tile::AttendOp attend) {
  DenseAttentionProblem problem;
  for (unsigned term = 0; term < attend.getQueries().size(); ++term)
    problem.keyWidths.push_back(attend.getWidth(term));
  problem.valueWidth = attend.getOutputWidth();
  problem.elementBytes = attend.getElementType().getIntOrFloatBitWidth() / 8;
  problem.markedKeys = attend.getMarks() ? tile::AttendOp::kWordKeys : 0;
  if (!attend.isPaged())
    return problem;
  for (Value view : {Value(attend.getKeys().front()), Value(attend.getValues())})
    problem.pageSizes.push_back(cast<MemRefType>(view.getType()).getDimSize(kTokenDim));
  if (!matchPattern(attend.getFirst(), m_Zero()))
    problem.firstMultiple = getKnownDivisor(OpFoldResult(attend.getFirst()));
  return problem;
}

/// What of `attend` stands against the schedules that may be for it.
static ScheduleObjections findObjections(tile::AttendOp attend) {
  ScheduleObjections objections;
  for (ScheduleKind kind :
       isOfPrograms(attend) ? getDenseScheduleKinds() : getPagedScheduleKinds()) {
    std::string why;
    if (auto accepts = getSchedule(kind).accepts; accepts && !accepts(attend, why))
      objections[kind] = why;
  }
  return objections;
}

std::optional<AttentionKernel> mlac::readAttentionKernel(tile::KernelOp kernel, std::string &why) {
  AttentionKernel result;
  result.name = kernel.getSymName().str();
  result.machine = tile::getMachine(kernel);
  for (tile::PlanOp plan : findPlans(kernel))
    result.launchers.push_back(
        {plan.getSymName().str(), static_cast<int64_t>(plan.getMaxQueryLen())});
  tile::AttendOp attend = tile::findAttend(kernel);
  why = "it has not one attention";
  bool isDense = attend && isOfPrograms(attend);
  if (!attend || (!isDense && !isInItems(attend, why)))
    return std::nullopt;
  if (!isDense) {
    result.problem = readPaged(kernel, attend);
  } else {
    result.problem = readDense(attend);
  }
  result.objections = findObjections(attend);
  return result;
}

std::vector<AttentionKernel> mlac::findAttentionKernels(ModuleOp module) {
  std::vector<AttentionKernel> kernels;
  std::string why;
  for (tile::KernelOp kernel : module.getOps<tile::KernelOp>())
    if (std::optional<AttentionKernel> found = readAttentionKernel(kernel, why))
      kernels.push_back(std::move(*found));
  return kernels;
}
