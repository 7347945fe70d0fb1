//===- ExplainSteps.cpp - every launch of some steps on a roofline ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Explain/KernelWork.h"
#include "Explain/Sections.h"
#include "report/Plot.h"

#include <algorithm>

using namespace mlac;
using llvm::Error;
using llvm::Expected;

/// What an engine serves: one user, many users, a prompt.
static constexpr StepSize kSteps[] = {{1, 4096, 1}, {64, 4096, 1}, {1, 0, 2048}};

static std::string describe(const StepSize &size) {
  return std::to_string(size.requests) + (size.requests == 1 ? " request, " : " requests, ") +
         std::to_string(size.contextLen) + " cached, " + std::to_string(size.queryLen) +
         " new tokens";
}

/// Made smaller where the model's positions end before.
static StepSize fit(StepSize size, int64_t longest) {
  size.queryLen = std::min(size.queryLen, longest);
  size.contextLen = std::min(size.contextLen, longest - size.queryLen);
  return size;
}

namespace {
/// The launches of one step, counted.
struct CountedStep {
  StepSize size;
  std::string function;
  std::vector<std::pair<StepLaunch, KernelWork>> launches;
};
} // namespace

static CountedStep countStep(const Explained &explained, const PlannedStep &step,
                             const StepSize &size) {
  CountedStep counted{size, step.function, {}};
  for (const StepLaunch &launch : step.launches) {
    KernelWork work;
    auto kernel =
        mlir::ModuleOp(explained.tileModule).lookupSymbol<mlir::tile::KernelOp>(launch.kernel);
    if (kernel)
      work = countWork(kernel, launch, step.buffers);
    else
      work.whyNot = "the module has no such kernel";
    counted.launches.emplace_back(launch, work);
  }
  return counted;
}

/// At these rates; nothing is launched for free.
static double leastMicroseconds(const TargetDescription &machine, const KernelWork &work) {
  return std::max(work.flops / (machine.matmulTflops * 1e6),
                  work.bytes() / (machine.readGbps * 1e3));
}

static std::string describeGrid(const StepLaunch &launch) {
  return std::to_string(launch.grid[0]) + " x " + std::to_string(launch.grid[1]) + " x " +
         std::to_string(launch.grid[2]);
}

static void addTable(report::Page &page, const TargetDescription &machine,
                     const CountedStep &step) {
  report::Table table;
  table.header = {"kernel", "grid", "FLOPs", "read", "written", "FLOP/B", "bound", "least us"};
  double flops = 0, read = 0, written = 0, time = 0;
  for (const auto &[launch, work] : step.launches) {
    if (!work.whyNot.empty()) {
      table.rows.push_back(
          {launch.kernel, describeGrid(launch), "not counted: " + work.whyNot, "", "", "", "", ""});
      continue;
    }
    double least = leastMicroseconds(machine, work);
    bool isCompute = work.flops / (machine.matmulTflops * 1e6) >= least;
    table.rows.push_back({launch.kernel, describeGrid(launch), report::formatScaled(work.flops),
                          report::formatScaled(work.readBytes) + "B",
                          report::formatScaled(work.writtenBytes) + "B",
                          work.bytes() > 0 ? report::format(work.flops / work.bytes()) : "",
                          isCompute ? "products" : "memory", report::format(least)});
    flops += work.flops;
    read += work.readBytes;
    written += work.writtenBytes;
    time += least;
  }
  table.rows.push_back({"all", "", report::formatScaled(flops), report::formatScaled(read) + "B",
                        report::formatScaled(written) + "B", "", "", report::format(time)});
  page.table(table);
}

static void addMarks(report::LogPlot &plot, const TargetDescription &machine,
                     const CountedStep &step) {
  plot.series.push_back({describe(step.size), {}});
  for (const auto &[launch, work] : step.launches) {
    double least = leastMicroseconds(machine, work);
    if (work.flops <= 0 || work.bytes() <= 0)
      continue;
    plot.series.back().marks.push_back({work.flops / work.bytes(), work.flops / least * 1e6,
                                        launch.kernel + ": " + report::formatScaled(work.flops) +
                                            "FLOPs, " + report::formatScaled(work.bytes()) +
                                            "B, at least " + report::format(least) + " us"});
  }
}

Error mlac::explainSteps(report::Page &page, const Explained &explained) {
  const TargetDescription &machine = explained.machine;
  Expected<int64_t> longest = getLongestSequence(explained.bytes);
  if (!longest)
    return longest.takeError();
  report::LogPlot plot;
  plot.xLabel = "FLOPs per byte of device memory";
  plot.yLabel = "FLOP/s that the roof allows";
  plot.roofHeight = machine.matmulTflops * 1e12;
  plot.roofSlope = machine.readGbps * 1e9;
  std::vector<CountedStep> steps;
  std::vector<std::string> refusals;
  for (const StepSize &asked : kSteps) {
    StepSize size = fit(asked, *longest);
    Expected<PlannedStep> step = planStep(explained.bytes, explained.target, machine.numSms, size);
    if (!step) {
      refusals.push_back(describe(size) + ": " + llvm::toString(step.takeError()));
      continue;
    }
    steps.push_back(countStep(explained, *step, size));
    addMarks(plot, machine, steps.back());
  }
  page.subsection("Kernels on the roofline");
  page.figure(
      report::draw(plot),
      "Each mark is a launch with products; what only moves bytes is in the tables. Counted "
      "in the launches' own programs: FLOPs of real rows, each 32 bytes of memory once.");
  for (const CountedStep &step : steps) {
    page.subsection("Function '" + step.function + "': " + describe(step.size));
    addTable(page, machine, step);
  }
  for (const std::string &refusal : refusals)
    page.paragraph("Not planned: " + refusal);
  return Error::success();
}
