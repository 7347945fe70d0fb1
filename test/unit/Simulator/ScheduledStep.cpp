//===- ScheduledStep.cpp - a step's kernels in derived schedules, simulated ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScheduledStep.h"

#include "mla/Conversion/Passes.h"
#include "mla/Simulator/Mutations.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include "gtest/gtest.h"

using namespace mlac;
using namespace mlac::test;
using namespace mlir;

std::optional<Buffers> test::runUnderEverySeed(const PlanRun &plan, ModuleOp module,
                                               ArrayRef<const char *> outputs) {
  std::optional<Buffers> first;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Buffers buffers = plan.buffers;
    if (auto finding = plan.run(module, buffers, seed)) {
      finding->emit();
      ADD_FAILURE() << "seed " << seed << ": " << finding->text;
      return std::nullopt;
    }
    if (!first)
      first = buffers;
    for (const char *output : outputs)
      if (std::get<Bits>(buffers[output]) != std::get<Bits>((*first)[output])) {
        ADD_FAILURE() << "seed " << seed << ": " << output << " differs from that of seed 0";
        return std::nullopt;
      }
  }
  return first;
}

bool ScheduledStep::lowerToTile(MLIRContext &context, const std::string &graph,
                                const std::string &schedule,
                                const std::vector<std::string> &parameters) {
  module = parseSourceString<ModuleOp>(graph, &context);
  if (!module)
    return false;
  PassManager passes(&context);
  ConvertMlaToTileOptions options;
  options.target = TileTarget::Sm90;
  passes.addPass(createConvertMlaToTile(options));
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  TilePlanSchedulesOptions schedules;
  schedules.schedule = schedule;
  for (const std::string &parameter : parameters)
    schedules.parameters.push_back(parameter);
  passes.addPass(createTilePlanSchedules(schedules));
  return succeeded(passes.run(*module));
}

unsigned ScheduledStep::countFoundMutations(const std::string &name) {
  Buffers right = plan.buffers;
  EXPECT_FALSE(run(right, 0));
  OwningOpRef<ModuleOp> original = module->clone();
  unsigned found = 0, planted = 0;
  for (const std::string &kind : simulator::getMutations()) {
    module = original->clone();
    auto kernel = module->lookupSymbol<sm90::KernelOp>(plan.launches[0].kernel);
    if (!simulator::mutate(kernel, kind, 0))
      continue;
    ++planted;
    std::string diagnosis;
    for (uint64_t seed = 0; seed < 4 && diagnosis.empty(); ++seed) {
      Buffers buffers = plan.buffers;
      if (auto finding = run(buffers, seed))
        diagnosis = simulator::stringify(finding->defect).str() + ": " +
                    finding->op->getName().getStringRef().str();
      else if (std::get<Bits>(buffers["output"]) != std::get<Bits>(right["output"]))
        diagnosis = "wrong result";
    }
    found += !diagnosis.empty();
    llvm::outs() << name << " " << kind << ": " << (diagnosis.empty() ? "not found" : diagnosis)
                 << "\n";
  }
  llvm::outs() << name << ": " << found << " of " << planted << " found\n";
  return found;
}
