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

#include "Schedules.h"

#include "mla/Analysis/ScheduleModel.h"
#include "mla/Conversion/Passes.h"
#include "mla/Conversion/TileToSm90/AttentionKernels.h"
#include "mla/Dialect/Tile/IR/MachineAttr.h"
#include "mla/Dialect/Tile/Transforms/ExpandAttend.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
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
  LogicalResult checkUsed();
  LogicalResult plan(tile::KernelOp kernel, const ScheduleRequest &request);
  LogicalResult plan(tile::KernelOp kernel, const AttentionProblem &problem,
                     const ScheduleRequest &request, const ScheduleObjections &objections);
  LogicalResult plan(tile::KernelOp kernel, const DenseAttentionProblem &problem,
                     const ScheduleRequest &request, const ScheduleObjections &objections);
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

/// What a schedule is for.
static StringRef describeUse(const ScheduleModel &model) {
  return model.paged   ? "attention over a paged cache"
         : model.dense ? "attention over dense keys and values"
                       : "matrix products";
}

static StringRef describeWork(tile::KernelOp kernel) {
  StringRef work = "no attention";
  kernel.walk([&](tile::AttendOp attend) {
    work = attend.isPaged()    ? "attention over a paged cache"
           : attend.isListed() ? "attention over rows by a list"
                               : "attention over dense keys and values";
  });
  return work;
}

/// A schedule that was asked for and that no kernel has: all would silently be what they are
/// anyway.
LogicalResult TilePlanSchedules::checkUsed() {
  if (!general.kind || *general.kind == ScheduleKind::Simple)
    return success();
  StringRef name = mlac::getName(*general.kind);
  auto kernels = getOperation().getOps<tile::KernelOp>();
  if (llvm::any_of(kernels, [&](tile::KernelOp kernel) {
        auto schedule = kernel->getAttrOfType<tile::ScheduleInterface>(tile::kScheduleAttr);
        return schedule && schedule.getScheduleName() == name;
      }))
    return success();
  InFlightDiagnostic error = getOperation().emitError("schedule: no kernel can be ")
                             << name << ", which is for " << describeUse(getModel(*general.kind))
                             << "; kernels here:";
  for (tile::KernelOp kernel : kernels)
    error << " '" << kernel.getSymName() << "' (" << describeWork(kernel) << ")";
  return error;
}

static void setSchedule(tile::KernelOp kernel, const ScheduleParameters &parameters) {
  kernel->setAttr(tile::kScheduleAttr,
                  getSchedule(parameters.kind).describe(kernel.getContext(), parameters));
}

void TilePlanSchedules::tellWork(tile::KernelOp kernel, const AttentionProblem &problem,
                                 const ScheduleCost &cost) {
  if (tile::findAttend(kernel).isListed())
    return; // the work is of requests
  for (tile::PlanOp plan : findPlans(kernel)) {
    auto works = plan.getOps<tile::WorkOp>();
    if (works.empty())
      continue;
    tile::WorkOp work = *works.begin();
    // The problem's rows are those of a request, whose tokens may be several.
    auto rowsOfToken = static_cast<int64_t>(work.getRowsPerToken());
    WorkCosts costs = getWorkCosts(problem, rowsOfToken, target, cost);
    work.setItemCost(APFloat(itemCost >= 0 ? itemCost : costs.item));
    work.setMergeCost(APFloat(mergeCost >= 0 ? mergeCost : costs.merge));
    work.setPartialCost(APFloat(partialCost >= 0 ? partialCost : costs.partial));
    if (batchInvariant >= 0)
      work.setFixedBlocks(batchInvariant > 0 ? batchInvariant : chooseFixedBlocks(costs));
  }
}

static std::string describe(tile::KernelOp kernel) {
  return ("kernel '" + kernel.getSymName() + "': ").str();
}

/// A plan's grid counts CTAs, of which a cluster runs a program.
static void countCtas(tile::KernelOp kernel) {
  auto cluster = kernel->getAttrOfType<IntegerAttr>(tile::kDepthClusterAttr);
  if (!cluster)
    return;
  for (tile::PlanOp plan : findPlans(kernel))
    plan.walk([&](tile::LaunchOp launch) {
      if (launch.getKernel() != kernel.getSymName())
        return;
      OpBuilder b(launch);
      Location loc = launch.getLoc();
      Value count = arith::ConstantIndexOp::create(b, loc, cluster.getInt());
      launch.getGridXMutable().assign(b.createOrFold<arith::MulIOp>(loc, launch.getGridX(), count));
    });
}

/// Of a kernel without attention: the first that takes it.
static LogicalResult planOther(tile::KernelOp kernel, const ScheduleRequest &request) {
  for (ScheduleKind kind : kAllScheduleKinds) {
    auto plan = getSchedule(kind).planOther;
    ScheduleRequest own = request.filter({ScheduleKind::Simple, kind});
    if (!plan || own.kind == ScheduleKind::Simple)
      continue;
    std::string why;
    if (std::optional<ScheduleParameters> parameters = plan(kernel, own, why)) {
      emitRemark(kernel.getLoc(), describe(kernel)) << "schedule " << parameters->describe();
      setSchedule(kernel, *parameters);
      if (kind == ScheduleKind::Product)
        countCtas(kernel);
      return success();
    }
    if (own.kind == kind && !why.empty())
      return emitError(kernel.getLoc(), describe(kernel))
             << "not " << mlac::getName(kind) << ": " << why;
    if (!why.empty())
      emitRemark(kernel.getLoc(), describe(kernel)) << "schedule simple: " << why;
  }
  return success();
}

LogicalResult TilePlanSchedules::plan(tile::KernelOp kernel, const DenseAttentionProblem &problem,
                                      const ScheduleRequest &request,
                                      const ScheduleObjections &objections) {
  DenseScheduleChoice choice =
      chooseDenseSchedule(problem, target, request.filter(getDenseScheduleKinds()), objections);
  if (!choice.error.empty())
    return emitError(kernel.getLoc(), describe(kernel)) << "not " << choice.error;
  emitRemark(kernel.getLoc(), describe(kernel)) << describeChoice(problem, target, choice);
  setSchedule(kernel, choice.get().parameters);
  return success();
}

LogicalResult TilePlanSchedules::plan(tile::KernelOp kernel, const AttentionProblem &problem,
                                      const ScheduleRequest &request,
                                      const ScheduleObjections &objections) {
  ScheduleChoice choice =
      chooseSchedule(problem, target, request.filter(getPagedScheduleKinds()), objections);
  if (!choice.error.empty())
    return emitError(kernel.getLoc(), describe(kernel)) << "not " << choice.error;
  emitRemark(kernel.getLoc(), describe(kernel)) << describeChoice(problem, target, choice);
  setSchedule(kernel, choice.get().parameters);
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
        [&](const auto &problem) { return plan(kernel, problem, request, attention->objections); },
        attention->problem);
  if (kernel.walk([](tile::AttendOp) { return WalkResult::interrupt(); }).wasInterrupted())
    return keepSimple(kernel, request.filter(getPagedScheduleKinds()), why);
  return planOther(kernel, request);
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
  if (failed(checkUsed()))
    return signalPassFailure();
}
