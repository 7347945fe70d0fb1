//===- StudyOptions.cpp - options of --tune and --simulate ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StudyOptions.h"

#include "Progress.h"

#include "mla/Simulator/Mutations.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

using namespace mlac;
namespace cl = llvm::cl;

cl::OptionCategory mlac::reportCategory("Reports");
cl::OptionCategory mlac::tuneCategory("Tuning on this machine's GPU");

static cl::opt<bool> wantsTuning("tune", cl::cat(tuneCategory),
                                 cl::desc("Measure, kernel by kernel, the schedules that the "
                                          "cost model finds worth it, and compile with the "
                                          "fastest of each"));
static cl::opt<std::string>
    tuneCache("tune-cache", cl::value_desc("file"), cl::cat(tuneCategory),
              cl::desc("Times that were measured, so that a run can go on (default: the output's "
                       "name with .tune.json)"));
static cl::opt<std::string> tuneTimer("tune-timer", cl::init("device"), cl::value_desc("who"),
                                      cl::cat(tuneCategory),
                                      cl::desc("device (default), or model: predicted times, "
                                               "which need no GPU"));
static cl::opt<std::string> tuneDevice("tune-device", cl::init("cuda"), cl::value_desc("name"),
                                       cl::cat(tuneCategory),
                                       cl::desc("Device to measure on: cuda (default), cuda:N"));
static cl::opt<int64_t> tuneBatch("tune-batch", cl::init(64), cl::value_desc("requests"),
                                  cl::cat(tuneCategory),
                                  cl::desc("Requests of the measured decodes (default 64)"));
static cl::opt<int64_t> tuneContext("tune-context", cl::init(4096), cl::value_desc("tokens"),
                                    cl::cat(tuneCategory),
                                    cl::desc("Cached tokens of each (default 4096)"));
static cl::opt<int64_t> tunePrefill("tune-prefill", cl::init(4096), cl::value_desc("tokens"),
                                    cl::cat(tuneCategory),
                                    cl::desc("New tokens of the measured prefills (default 4096)"));
static cl::opt<int64_t> tuneLimit("tune-limit", cl::init(0), cl::value_desc("n"),
                                  cl::cat(tuneCategory),
                                  cl::desc("Schedules to measure in this run (default: all)"));
static cl::opt<std::string> simulatedKernel(
    "simulate", cl::value_desc("kernel"), cl::cat(reportCategory),
    cl::desc("Write nothing: run one launch of this kernel (step: every launch, each on "
             "what those before it wrote) in the simulator and as "
             "the CPU's code for the same program, and compare"));
static cl::opt<std::string>
    simulatedStep("simulate-step", cl::init("2:100:1"), cl::value_desc("requests:cached:new"),
                  cl::cat(reportCategory),
                  cl::desc("The step that --simulate takes the launch of (default 2:100:1)"));
static cl::opt<int64_t> simulatedSeeds("simulate-seeds", cl::init(2), cl::value_desc("n"),
                                       cl::cat(reportCategory),
                                       cl::desc("Orders of events of --simulate (default 2)"));

static cl::opt<std::string>
    simulatedPackage("simulate-package", cl::value_desc("file"), cl::cat(reportCategory),
                     cl::desc("Of --simulate: a package of this model and these options, whose "
                              "code must be what is compiled now"));
static cl::opt<std::string>
    simulatedBug("simulate-bug", cl::value_desc("kind:place"), cl::Hidden, cl::cat(reportCategory),
                 cl::desc("Plant a bug in the kernel that --simulate runs, to see that it is "
                          "found (docs/simulator.md)"));

/// Options that would change nothing without `needed` are errors.
static bool areUnused(llvm::ArrayRef<const cl::Option *> options, llvm::StringRef needed) {
  for (const cl::Option *option : options)
    if (option->getNumOccurrences() > 0)
      return fail("--" + option->ArgStr + " is for " + needed);
  return true;
}

/// Whether a file can lie beside what is written there: not beside a device or a pipe.
static bool hasPlaceBeside(llvm::StringRef output) {
  llvm::sys::fs::file_status status;
  return llvm::sys::fs::status(output, status) || !llvm::sys::fs::exists(status) ||
         llvm::sys::fs::is_regular_file(status) || llvm::sys::fs::is_directory(status);
}

bool mlac::readTuning(llvm::StringRef output, bool isQuiet, std::optional<TuneOptions> &chosen) {
  if (!wantsTuning)
    return areUnused({&tuneCache, &tuneTimer, &tuneDevice, &tuneBatch, &tuneContext, &tunePrefill,
                      &tuneLimit},
                     "--tune");
  if (tuneTimer != "device" && tuneTimer != "model")
    return fail("--tune-timer: expected device or model, got '" + tuneTimer + "'");
  constexpr int64_t kMost = 1 << 20;
  for (const cl::opt<int64_t> *count : {&tuneBatch, &tuneContext, &tunePrefill})
    if (*count < 1 || *count > kMost)
      return fail("--" + count->ArgStr + ": expected 1 to " + llvm::Twine(kMost) + ", got " +
                  llvm::Twine(count->getValue()));
  if (tuneCache.getNumOccurrences() > 0 && tuneCache.empty())
    return fail("--tune-cache: expected the name of a file, got none");
  if (tuneCache.empty() && !hasPlaceBeside(output))
    return fail("--tune: expected a --tune-cache, since the output '" + output +
                "' is no regular file, which the times could be kept beside");
  if (tuneLimit < 0)
    return fail("--tune-limit: expected at least 0, got " + llvm::Twine(tuneLimit));
  TuneOptions &tuning = chosen.emplace();
  tuning.timer = tuneTimer;
  tuning.device = tuneDevice;
  tuning.cachePath = tuneCache.empty() ? (output + ".tune.json").str() : tuneCache.getValue();
  tuning.batch = tuneBatch;
  tuning.context = tuneContext;
  tuning.prefill = tunePrefill;
  tuning.limit = tuneLimit;
  tuning.isQuiet = isQuiet;
  return true;
}

/// Reads a bug as "shift-box-row:1".
static bool readBug(SimulateOptions &simulation) {
  if (simulatedBug.empty())
    return true;
  auto [kind, place] = llvm::StringRef(simulatedBug).split(':');
  std::vector<std::string> kinds = simulator::getMutations();
  simulation.bug = kind.str();
  if (llvm::is_contained(kinds, simulation.bug) && !place.getAsInteger(10, simulation.bugPlace))
    return true;
  return fail("--simulate-bug: expected KIND:PLACE with one of " + llvm::join(kinds, ", ") +
              ", got '" + simulatedBug + "'");
}

/// Reads a step as "2:100:1".
bool mlac::readSimulation(std::optional<SimulateOptions> &chosen) {
  if (simulatedKernel.empty())
    return areUnused({&simulatedPackage, &simulatedBug, &simulatedStep, &simulatedSeeds},
                     "--simulate");
  SimulateOptions &simulation = chosen.emplace();
  simulation.kernel = simulatedKernel;
  constexpr int64_t kMost = 1 << 20;
  llvm::SmallVector<llvm::StringRef, 3> parts;
  llvm::StringRef(simulatedStep).split(parts, ':');
  StepSize &step = simulation.step;
  bool isRead = parts.size() == 3 && !parts[0].getAsInteger(10, step.requests) &&
                !parts[1].getAsInteger(10, step.contextLen) &&
                !parts[2].getAsInteger(10, step.queryLen);
  if (!isRead || step.requests < 1 || step.requests > kMost || step.contextLen < 0 ||
      step.contextLen > kMost || step.queryLen < 1 || step.queryLen > kMost)
    return fail("--simulate-step: expected REQUESTS:CACHED:NEW up to " + llvm::Twine(kMost) +
                ", got '" + simulatedStep + "'");
  if (simulatedSeeds < 1 || simulatedSeeds > kMost)
    return fail("--simulate-seeds: expected 1 to " + llvm::Twine(kMost) + ", got " +
                llvm::Twine(simulatedSeeds.getValue()));
  simulation.seeds = static_cast<uint64_t>(simulatedSeeds);
  if (simulatedPackage.getNumOccurrences() > 0 && simulatedPackage.empty())
    return fail("--simulate-package: expected the name of a file, got none");
  simulation.package = simulatedPackage;
  return readBug(simulation);
}
