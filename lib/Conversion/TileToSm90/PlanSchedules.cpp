//===- PlanSchedules.cpp - which schedule a kernel gets ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Asks the cost model about the problem that AttentionKernels.cpp reads off a kernel,
// and writes the answer as attributes.
//
//===----------------------------------------------------------------------===//

#include "Product/Product.h"

#include "mla/Conversion/Passes.h"
#include "mla/Conversion/TileToSm90/AttentionKernels.h"
#include "mla/Dialect/Tile/IR/MachineAttr.h"
#include "mla/Dialect/Tile/Transforms/Passes.h"

#include "llvm/ADT/StringMap.h"

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
  LogicalResult readRequests();
  LogicalResult checkNames();
  LogicalResult plan(tile::KernelOp kernel, const ScheduleRequest &request);
  LogicalResult plan(tile::KernelOp kernel, const AttentionProblem &problem,
                     const ScheduleRequest &request, llvm::StringRef whyNotRelay);
  LogicalResult plan(tile::KernelOp kernel, const DenseAttentionProblem &problem,
                     const ScheduleRequest &request, llvm::StringRef whyNotPingPong);
  void tellWork(tile::KernelOp kernel, const AttentionProblem &problem, const ScheduleCost &cost);

  TargetDescription target; // the module's
  ScheduleRequest general;
  llvm::StringMap<ScheduleRequest> byKernel;
};
} // namespace

LogicalResult TilePlanSchedules::readRequests() {
  std::string error;
  if (!general.setKind(schedule, error))
    return getOperation().emitError("schedule: ") << error;
  for (const std::string &parameter : parameters) {
    if (!isKernelRequest(parameter)) {
      if (!general.set(parameter, error))
        return getOperation().emitError("schedule: ") << error;
      continue;
    }
    std::optional<KernelRequest> named = parseKernelRequest(parameter, error);
    if (!named)
      return getOperation().emitError("schedule of a kernel: ") << error;
    byKernel[named->kernel] = named->request;
  }
  return success();
}

/// A misspelt kernel would silently get what it gets anyway.
LogicalResult TilePlanSchedules::checkNames() {
  for (const auto &[name, request] : byKernel) {
    if (getOperation().lookupSymbol<tile::KernelOp>(name))
      continue;
    InFlightDiagnostic error = getOperation().emitError("schedule of a kernel: no kernel '")
                               << name << "'; attention kernels here:";
    for (const AttentionKernel &kernel : findAttentionKernels(getOperation()))
      error << " " << kernel.name;
    return error;
  }
  return success();
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
    auto works = plan.getOps<tile::WorkOp>();
    if (works.empty())
      continue;
    tile::WorkOp work = *works.begin();
    work.setItemCost(APFloat(itemCost >= 0 ? itemCost : costs.item));
    work.setMergeCost(APFloat(mergeCost >= 0 ? mergeCost : costs.merge));
    work.setPartialCost(APFloat(partialCost >= 0 ? partialCost : costs.partial));
    if (batchInvariant >= 0)
      work.setFixedBlocks(batchInvariant > 0 ? batchInvariant : chooseFixedBlocks(costs));
  }
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

LogicalResult TilePlanSchedules::plan(tile::KernelOp kernel, const DenseAttentionProblem &problem,
                                      const ScheduleRequest &request,
                                      llvm::StringRef whyNotPingPong) {
  DenseScheduleChoice choice =
      chooseDenseSchedule(problem, target, request.filter(kDenseScheduleKinds), whyNotPingPong);
  if (!choice.error.empty())
    return emitError(kernel.getLoc(), describe(kernel)) << "not " << choice.error;
  emitRemark(kernel.getLoc(), describe(kernel)) << describeChoice(problem, target, choice);
  kernel->setAttr(tile::kScheduleAttr,
                  makeAttribute(choice.get().parameters, Builder(kernel.getContext())));
  return success();
}

LogicalResult TilePlanSchedules::plan(tile::KernelOp kernel, const AttentionProblem &problem,
                                      const ScheduleRequest &request, llvm::StringRef whyNotRelay) {
  ScheduleChoice choice =
      chooseSchedule(problem, target, request.filter(kPagedScheduleKinds), whyNotRelay);
  if (!choice.error.empty())
    return emitError(kernel.getLoc(), describe(kernel)) << "not " << choice.error;
  emitRemark(kernel.getLoc(), describe(kernel)) << describeChoice(problem, target, choice);
  kernel->setAttr(tile::kScheduleAttr,
                  makeAttribute(choice.get().parameters, Builder(kernel.getContext())));
  tellWork(kernel, problem, choice.get());
  return success();
}

/// An attention over pages that schedules do not know.
static LogicalResult keepSimple(tile::KernelOp kernel, const ScheduleRequest &request,
                                llvm::StringRef why) {
  if (request.kind && *request.kind != ScheduleKind::Simple)
    return emitError(kernel.getLoc(), describe(kernel))
           << "not " << mlac::getName(*request.kind) << ": " << why;
  emitRemark(kernel.getLoc(), describe(kernel)) << "schedule simple: " << why;
  return success();
}

LogicalResult TilePlanSchedules::plan(tile::KernelOp kernel, const ScheduleRequest &request) {
  if (kernel->hasAttr(tile::kScheduleAttr))
    return success();
  std::string why;
  std::optional<AttentionKernel> attention = readAttentionKernel(kernel, why);
  if (attention)
    return std::visit(
        [&](const auto &problem) { return plan(kernel, problem, request, attention->whyNot); },
        attention->problem);
  if (kernel.walk([](tile::AttendOp) { return WalkResult::interrupt(); }).wasInterrupted())
    return keepSimple(kernel, request.filter(kPagedScheduleKinds), why);
  planProduct(kernel, request);
  return success();
}

void TilePlanSchedules::runOnOperation() {
  target = tile::getMachine(getOperation());
  if (failed(readRequests()) || failed(checkNames()))
    return signalPassFailure();
  for (tile::KernelOp kernel : getOperation().getOps<tile::KernelOp>()) {
    auto named = byKernel.find(kernel.getSymName());
    if (failed(plan(kernel, named == byKernel.end() ? general : named->second)))
      return signalPassFailure();
  }
}
