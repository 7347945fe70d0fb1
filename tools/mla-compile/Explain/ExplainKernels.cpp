//===- ExplainKernels.cpp - schedules, shared memory, registers ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Explain/Sections.h"
#include "report/Plot.h"

#include "mla/Analysis/ScheduleModel.h"
#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"
#include "mla/Dialect/Sm90/Transforms/RegisterEstimate.h"
#include "mla/Driver/CompileTarget.h"
#include "mla/Machine/Sm90Limits.h"

#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"

#include <map>

using namespace mlac;
using namespace mlir;
using llvm::Error;

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

/// What was asked for the kernel of this name, as tile-plan-schedules reads it.
static ScheduleRequest readRequest(const CompileOptions &options, llvm::StringRef kernel) {
  ScheduleRequest request;
  std::string ignored; // the options have been checked
  (void)request.setKind(options.schedule, ignored);
  for (const std::string &option : options.scheduleOptions)
    (void)request.set(option, ignored);
  for (const std::string &text : options.kernelSchedules)
    if (std::optional<KernelRequest> named = parseKernelRequest(text, ignored);
        named && named->kernel == kernel)
      return named->request;
  return request;
}

static void addTerms(report::Page &page, const StepCost &cost, llvm::StringRef step,
                     double memoryCycles) {
  std::vector<report::Bar> bars;
  auto add = [&](const char *name, double cycles) {
    if (cycles > 0)
      bars.push_back({name, cycles, 0, report::format(cycles, 4) + " cycles"});
  };
  add("tensor cores", cost.tensorCycles);
  add("shared memory", cost.sharedCycles);
  add("copies from L2", cost.loadCycles);
  add("roles and rings, or the softmax", cost.recurrenceCycles);
  add("device memory", memoryCycles);
  page.figure(report::drawBars(bars),
              "What " + step.str() + " takes of a multiprocessor: the longest bar is the period.");
}

template <typename Choice, typename Bound>
static void addChoice(report::Page &page, const Choice &choice, Bound boundOf) {
  report::Table table;
  table.header = {"schedule", "parameters",     "tensor", "shared",
                  "copies",   "roles, softmax", "bound",  "shared bytes"};
  table.textColumns = 2;
  for (const auto &cost : choice.costs) {
    std::string name = getName(cost.parameters.kind).str();
    if (&cost == &choice.get())
      name += " (chosen)";
    if (!cost.isFeasible()) {
      table.rows.push_back({name, "not: " + cost.whyNot, "", "", "", "", "", ""});
      continue;
    }
    table.rows.push_back({name, llvm::join(cost.parameters.list(), " "),
                          report::format(cost.tensorCycles, 4),
                          report::format(cost.sharedCycles, 4), report::format(cost.loadCycles, 4),
                          report::format(cost.recurrenceCycles, 4), boundOf(cost),
                          std::to_string(cost.sharedBytes)});
  }
  page.table(table);
}

static void addTimeline(report::Page &page, const AttentionProblem &problem,
                        const TargetDescription &machine, const ScheduleCost &cost) {
  auto follow = getModel(cost.parameters.kind).paged->follow;
  if (!follow) {
    page.paragraph("The cost model of this schedule has no events, so there is no timeline.");
    return;
  }
  constexpr int64_t kBlocks = 4;
  ScheduleTimeline timeline = follow(problem, machine, cost.parameters, kBlocks);
  report::Lanes lanes{"cycles", timeline.lanes, {}};
  for (const ScheduleTimeline::Span &span : timeline.spans) {
    std::string block = span.block < 0 ? "" : " of block " + std::to_string(span.block);
    std::string times =
        ": " + report::format(span.begin, 5) + " to " + report::format(span.end, 5) + " cycles";
    lanes.spans.push_back({span.lane, span.begin, span.end,
                           span.isWait ? -1 : static_cast<int>(std::max<int64_t>(span.block, 0)),
                           span.what + block + times, span.isWait ? "" : span.what});
  }
  page.figure(report::draw(lanes),
              "Roles, their products and the rings' copies in the steady state, as the cost model "
              "follows them; a hue is a block of 64 keys, grey is waiting.");
}

static void addPaged(report::Page &page, const AttentionProblem &problem,
                     const TargetDescription &machine, const ScheduleChoice &choice) {
  addChoice(page, choice, [&](const ScheduleCost &cost) { return cost.getBound(machine).str(); });
  page.paragraph(describeChoice(problem, machine, choice));
  addTerms(page, choice.get(), "a block of 64 keys",
           choice.get().memoryNanoseconds * machine.sm.clockGhz);
  addTimeline(page, problem, machine, choice.get());
}

static void addDense(report::Page &page, const DenseAttentionProblem &problem,
                     const TargetDescription &machine, const DenseScheduleChoice &choice) {
  addChoice(page, choice, [](const DenseScheduleCost &cost) { return cost.getBound().str(); });
  page.paragraph(describeChoice(problem, machine, choice));
  addTerms(page, choice.get(),
           std::to_string(choice.get().rows) + " rows and " + std::to_string(choice.get().keys) +
               " keys",
           0);
}

static Error addSchedules(report::Page &page, const Explained &explained) {
  FailureOr<std::vector<AttentionKernel>> kernels =
      listAttentionKernels(explained.module, explained.name, explained.options);
  if (failed(kernels))
    return llvm::createStringError("the module was not lowered again");
  for (const AttentionKernel &kernel : *kernels) {
    page.subsection("Schedule of '" + kernel.name + "'");
    ScheduleRequest request = readRequest(explained.options, kernel.name);
    if (const auto *problem = std::get_if<AttentionProblem>(&kernel.problem))
      addPaged(page, *problem, kernel.machine,
               chooseSchedule(*problem, kernel.machine, request.filter(getPagedScheduleKinds()),
                              kernel.objections));
    else if (const auto *dense = std::get_if<DenseAttentionProblem>(&kernel.problem))
      addDense(page, *dense, kernel.machine,
               chooseDenseSchedule(*dense, kernel.machine, request.filter(getDenseScheduleKinds()),
                                   kernel.objections));
  }
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Maps
//===----------------------------------------------------------------------===//

namespace {
/// Hues of what lies in shared memory, and of roles.
enum Hue { kRingHue, kTileHue, kBarrierHue };

class Maps {
public:
  explicit Maps(const Explained &explained);
  void add(mlir::sm90::KernelOp kernel);
  void finish(report::Page &page);

private:
  void addShared(mlir::sm90::KernelOp kernel);
  void addRegisters(mlir::sm90::KernelOp kernel);
  void addRange(int64_t begin, int64_t bytes, Hue hue, const std::string &what);

  std::map<std::string, const package::Kernel *> kernels;
  size_t lane = 0;
  report::Lanes shared{"bytes of shared memory", {}, {}};
  report::Lanes registers{"registers of a CTA", {}, {}};
  report::Table roles;
};
} // namespace

Maps::Maps(const Explained &explained) {
  const auto *list = explained.package.targets()[explained.target].raw->kernels();
  for (const package::Kernel *kernel : *list)
    kernels[std::string(runtime::text(kernel->name()))] = kernel;
  roles.header = {"kernel", "role", "warpgroups", "registers", "in fragments and addresses"};
  roles.textColumns = 2;
}

void Maps::addRange(int64_t begin, int64_t bytes, Hue hue, const std::string &what) {
  if (bytes == 0)
    return;
  auto from = static_cast<double>(begin), to = static_cast<double>(begin + bytes);
  shared.spans.push_back(
      {lane, from, to, hue,
       what + ": bytes " + std::to_string(begin) + " to " + std::to_string(begin + bytes), what});
}

void Maps::addShared(mlir::sm90::KernelOp kernel) {
  kernel.walk([&](mlir::sm90::AllocOp tile) {
    auto type = cast<mlir::sm90::SmemType>(tile.getResult().getType());
    addRange(tile.getOffset().value_or(0), type.getByteSize(), kTileHue, "tile");
  });
  kernel.walk([&](mlir::sm90::RingOp ring) {
    auto type = cast<mlir::sm90::RingType>(ring.getResult().getType());
    std::string label = ring.getLabel().value_or("ring").str();
    for (int64_t stage = 0; stage < type.getStages(); ++stage)
      addRange(ring.getOffset().value_or(0) + stage * type.getStageBytes(), type.getStageBytes(),
               kRingHue, label + " " + std::to_string(stage));
    addRange(ring.getBarrierOffset().value_or(0),
             ring.getBarrierCount() * mlir::sm90::kBarrierBytes, kBarrierHue, label + ": barriers");
  });
}

/// Roles without a budget have what the kernel was assembled with.
void Maps::addRegisters(mlir::sm90::KernelOp kernel) {
  auto found = kernels.find(kernel.getSymName().str());
  int64_t assembled = found == kernels.end() ? 0 : found->second->registers();
  double at = 0;
  auto add = [&](const std::string &name, int64_t warpgroups, int64_t perThread, int64_t estimate) {
    double count = static_cast<double>(warpgroups * mlir::sm90::kWarpgroupThreads * perThread);
    roles.rows.push_back({kernel.getSymName().str(), name, std::to_string(warpgroups),
                          perThread ? std::to_string(perThread) : "not known",
                          std::to_string(estimate)});
    if (perThread)
      registers.spans.push_back({lane, at, at + count, static_cast<int>(registers.spans.size() % 3),
                                 name + ": " + std::to_string(perThread) + " of a thread", name});
    at += count;
  };
  bool hasRoles = false;
  kernel.walk([&](mlir::sm90::RoleOp role) {
    hasRoles = true;
    add(role.getName().str(), role.getWarpgroups(),
        role.getRegisters() ? static_cast<int64_t>(*role.getRegisters()) : assembled,
        mlir::sm90::estimateRegisters(role.getBody().front()).getTotal());
  });
  if (!hasRoles)
    add("all", kernel.getWarpgroups(), assembled,
        mlir::sm90::estimateRegisters(kernel.getBody().front()).getTotal());
}

void Maps::add(mlir::sm90::KernelOp kernel) {
  shared.names.push_back(kernel.getSymName().str());
  registers.names.push_back(kernel.getSymName().str());
  addShared(kernel);
  addRegisters(kernel);
  ++lane;
}

void Maps::finish(report::Page &page) {
  page.subsection("Shared memory of every kernel");
  page.figure(report::draw(shared), "Stages of rings, tiles and barriers; a CTA may have " +
                                        std::to_string(mlir::sm90::kMaxSharedBytes) + " bytes.");
  page.subsection("Registers of every kernel");
  page.figure(report::draw(registers), "Roles side by side; a multiprocessor has " +
                                           std::to_string(mlir::sm90::kRegisterFile) +
                                           ". Kernels that no assembler has seen are left out.");
  page.table(roles);
}

Error mlac::explainKernels(report::Page &page, const Explained &explained) {
  if (Error error = addSchedules(page, explained))
    return error;
  FailureOr<std::vector<EmittedCode>> code =
      findCompileTarget(explained.name)->emit(explained.tileModule, "sm90", explained.options);
  if (failed(code))
    return llvm::createStringError("the module was not lowered again");
  OwningOpRef<ModuleOp> lowered = parseSourceString<ModuleOp>(
      code->front().bytes, ParserConfig(ModuleOp(explained.module).getContext()));
  if (!lowered)
    return llvm::createStringError("the kernels' text was not read again");
  Maps maps(explained);
  for (auto kernel : lowered->getOps<mlir::sm90::KernelOp>())
    maps.add(kernel);
  maps.finish(page);
  return Error::success();
}
