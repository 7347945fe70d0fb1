//===- PlanSchedules.cpp - which schedule a kernel gets ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the problem off a kernel and the plans that launch it, asks the cost
// model, and writes the answer as attributes.
//
//===----------------------------------------------------------------------===//

#include "AttentionLoop.h"
#include "DenseAttentionLoop.h"
#include "Schedules/PingPong.h"
#include "Schedules/Product.h"
#include "Schedules/Relay.h"

#include "mla/Analysis/DenseScheduleCost.h"
#include "mla/Analysis/ScheduleCost.h"
#include "mla/Conversion/Passes.h"
#include "mla/Dialect/Tile/Transforms/Passes.h"

#include "mlir/IR/BuiltinOps.h"

#include <algorithm>

namespace mlac {
#define GEN_PASS_DEF_TILEPLANSCHEDULES
#include "mla/Conversion/Passes.h.inc"
} // namespace mlac

using namespace mlir;
using namespace mlac;

namespace {
struct TilePlanSchedules : mlac::impl::TilePlanSchedulesBase<TilePlanSchedules> {
  using Base::Base;
  void runOnOperation() override;

private:
  LogicalResult readRequest(ScheduleRequest &request);
  LogicalResult plan(tile::KernelOp kernel, const ScheduleRequest &request);
  LogicalResult planPaged(tile::KernelOp kernel, const ScheduleRequest &request);
  LogicalResult planDense(DenseAttentionLoop &loop, const ScheduleRequest &request);
  void tellWork(tile::KernelOp kernel, const AttentionProblem &problem, const ScheduleCost &cost);
  llvm::SmallVector<tile::PlanOp> findPlans(tile::KernelOp kernel);
  AttentionProblem readProblem(AttentionLoop &loop);

  const TargetDescription &target = getScheduledMachine();
};
} // namespace

LogicalResult TilePlanSchedules::readRequest(ScheduleRequest &request) {
  std::string error;
  if (!request.setKind(schedule, error))
    return getOperation().emitError("schedule: ") << error;
  for (const std::string &parameter : parameters)
    if (!request.set(parameter, error))
      return getOperation().emitError("schedule: ") << error;
  return success();
}

llvm::SmallVector<tile::PlanOp> TilePlanSchedules::findPlans(tile::KernelOp kernel) {
  llvm::SmallVector<tile::PlanOp> plans;
  for (tile::PlanOp plan : getOperation().getOps<tile::PlanOp>())
    plan.walk([&](tile::LaunchOp launch) {
      if (launch.getKernel() != kernel.getSymName())
        return WalkResult::advance();
      plans.push_back(plan);
      return WalkResult::interrupt();
    });
  return plans;
}

static tile::WorkOp findWork(tile::PlanOp plan) {
  auto works = plan.getOps<tile::WorkOp>();
  return works.empty() ? tile::WorkOp() : *works.begin();
}

/// Without a bound, the fewest rows that a plan gives a request: its decode step.
AttentionProblem TilePlanSchedules::readProblem(AttentionLoop &loop) {
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
    tile::WorkOp work = findWork(plan);
    if (maxRows || !work)
      continue;
    int64_t rows = work.getRowsPerToken() * std::max<int64_t>(1, plan.getMaxQueryLen());
    problem.rowsPerToken = problem.rowsPerToken ? std::min(problem.rowsPerToken, rows) : rows;
  }
  if (!problem.rowsPerToken)
    problem.rowsPerToken = loop.getRows();
  return problem;
}

static DictionaryAttr makeAttribute(const ScheduleParameters &parameters, Builder builder) {
  NamedAttrList keys;
  keys.set("kind", builder.getStringAttr(getName(parameters.kind)));
  if (parameters.kind == ScheduleKind::Relay) {
    keys.set("left_stages", builder.getI32IntegerAttr(parameters.leftStages));
    keys.set("right_stages", builder.getI32IntegerAttr(parameters.rightStages));
    if (parameters.ropeStages)
      keys.set("rope_stages", builder.getI32IntegerAttr(parameters.ropeStages));
    bool isGated = gatesLeft(parameters.gate);
    keys.set("early", builder.getI32IntegerAttr(isGated ? parameters.early : -1));
    keys.set("score_registers", builder.getI32IntegerAttr(parameters.registers[0]));
    keys.set("output_registers", builder.getI32IntegerAttr(parameters.registers[1]));
  }
  if (parameters.stepsPerTurn)
    keys.set("steps_per_turn", builder.getI32IntegerAttr(parameters.stepsPerTurn));
  if (parameters.partColumns)
    keys.set("part_columns", builder.getI32IntegerAttr(parameters.partColumns));
  if (parameters.kind == ScheduleKind::Stream)
    keys.set("stages", builder.getI32IntegerAttr(parameters.stages));
  if (parameters.kind == ScheduleKind::PingPong) {
    keys.set("key_block", builder.getI32IntegerAttr(parameters.keyBlock));
    keys.set("stages", builder.getI32IntegerAttr(parameters.keyStages));
    keys.set("producer_registers", builder.getI32IntegerAttr(parameters.registers[0]));
    keys.set("consumer_registers", builder.getI32IntegerAttr(parameters.registers[1]));
  }
  if (parameters.kind != ScheduleKind::Simple)
    keys.set("lazy_threshold", builder.getF64FloatAttr(parameters.lazyThreshold));
  return keys.getDictionary(builder.getContext());
}

void TilePlanSchedules::tellWork(tile::KernelOp kernel, const AttentionProblem &problem,
                                 const ScheduleCost &cost) {
  WorkCosts costs = getWorkCosts(problem, target, cost);
  for (tile::PlanOp plan : findPlans(kernel)) {
    tile::WorkOp work = findWork(plan);
    if (!work)
      continue;
    work.setItemCost(APFloat(itemCost >= 0 ? itemCost : costs.item));
    work.setMergeCost(APFloat(mergeCost >= 0 ? mergeCost : costs.merge));
    work.setPartialCost(APFloat(partialCost >= 0 ? partialCost : costs.partial));
    if (batchInvariant >= 0)
      work.setFixedBlocks(batchInvariant > 0 ? batchInvariant : chooseFixedBlocks(costs));
  }
}

/// Whether the kernel multiplies what it loads through a block table.
static bool attendsToPages(tile::KernelOp kernel) {
  return kernel
      .walk([](tile::LoadPagedOp load) {
        bool isMultiplied = llvm::any_of(load->getUsers(), llvm::IsaPred<tile::DotOp>);
        return isMultiplied ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Products that are not part of an attention: rings if they fit.
static void planProduct(tile::KernelOp kernel, const ScheduleRequest &request) {
  bool hasProduct =
      kernel.walk([](tile::DotOp) { return WalkResult::interrupt(); }).wasInterrupted();
  if (!hasProduct || request.kind == ScheduleKind::Simple)
    return;
  std::string why, name = ("kernel '" + kernel.getSymName() + "': ").str();
  int64_t stages = chooseProductStages(kernel, why);
  if (stages == 0) {
    emitRemark(kernel.getLoc(), name) << "schedule simple: " << why;
    return;
  }
  emitRemark(kernel.getLoc(), name) << "schedule product stages=" << stages;
  Builder builder(kernel.getContext());
  NamedAttrList keys;
  keys.set("kind", builder.getStringAttr("product"));
  keys.set("stages", builder.getI32IntegerAttr(static_cast<int32_t>(stages)));
  kernel->setAttr(tile::kScheduleAttr, keys.getDictionary(kernel.getContext()));
}

static std::string describe(tile::KernelOp kernel) {
  return ("kernel '" + kernel.getSymName() + "': ").str();
}

LogicalResult TilePlanSchedules::planDense(DenseAttentionLoop &loop,
                                           const ScheduleRequest &request) {
  DenseAttentionProblem problem;
  for (DenseAttentionLoop::Term &term : loop.terms)
    problem.keyWidths.push_back(term.getWidth());
  problem.valueWidth = loop.getOutputWidth();
  problem.elementBytes = loop.getElementType().getIntOrFloatBitWidth() / 8;
  std::string why, name = describe(loop.kernel);
  (void)canPingPong(loop, why);
  DenseScheduleChoice choice = chooseDenseSchedule(problem, target, request, why);
  if (!choice.error.empty())
    return emitError(loop.kernel.getLoc(), name) << "not " << choice.error;
  emitRemark(loop.kernel.getLoc(), name) << describeChoice(problem, target, choice);
  loop.kernel->setAttr(tile::kScheduleAttr, makeAttribute(choice.get().parameters,
                                                          Builder(loop.kernel.getContext())));
  return success();
}

LogicalResult TilePlanSchedules::plan(tile::KernelOp kernel, const ScheduleRequest &request) {
  if (kernel->hasAttr(tile::kScheduleAttr))
    return success();
  if (attendsToPages(kernel))
    return planPaged(kernel, request.filter(kPagedScheduleKinds));
  std::string why;
  std::optional<DenseAttentionLoop> loop = matchDenseAttentionLoop(kernel, why);
  if (loop)
    return planDense(*loop, request.filter(kDenseScheduleKinds));
  planProduct(kernel, request);
  return success();
}

LogicalResult TilePlanSchedules::planPaged(tile::KernelOp kernel, const ScheduleRequest &request) {
  std::string why;
  std::optional<AttentionLoop> loop = matchAttentionLoop(kernel, why);
  std::string name = describe(kernel);
  if (!loop) {
    if (request.kind && *request.kind != ScheduleKind::Simple)
      return emitError(kernel.getLoc(), name)
             << "not " << mlac::getName(*request.kind) << ": " << why;
    emitRemark(kernel.getLoc(), name) << "schedule simple: " << why;
    return success();
  }
  AttentionProblem problem = readProblem(*loop);
  (void)canRelay(*loop, why);
  ScheduleChoice choice = chooseSchedule(problem, target, request, why);
  if (!choice.error.empty())
    return emitError(kernel.getLoc(), name) << "not " << choice.error;
  emitRemark(kernel.getLoc(), name) << describeChoice(problem, target, choice);
  kernel->setAttr(tile::kScheduleAttr,
                  makeAttribute(choice.get().parameters, Builder(kernel.getContext())));
  tellWork(kernel, problem, choice.get());
  return success();
}

void TilePlanSchedules::runOnOperation() {
  ScheduleRequest request;
  if (failed(readRequest(request)))
    return signalPassFailure();
  for (tile::KernelOp kernel : getOperation().getOps<tile::KernelOp>())
    if (failed(plan(kernel, request)))
      return signalPassFailure();
}
