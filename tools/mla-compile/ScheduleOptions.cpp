//===- ScheduleOptions.cpp - options of a GPU's schedules ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScheduleOptions.h"

#include "Progress.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlac;
namespace cl = llvm::cl;

cl::OptionCategory mlac::scheduleCategory("Schedules of a GPU's kernels");

static const std::string scheduleText =
    "Schedule of the GPU's kernels: auto (default, by predicted time), " + listScheduleNames() +
    ". Kernels of a sort that it is not for (of attention over pages: simple, relay, stream; over "
    "dense keys: simple, pingpong) keep the predicted best; an error where none can have it";
static cl::opt<std::string> schedule("schedule", cl::init("auto"), cl::value_desc("kind"),
                                     cl::cat(scheduleCategory), cl::desc(scheduleText));
static cl::list<std::string>
    scheduleOptions("schedule-option", cl::value_desc("key=value"), cl::cat(scheduleCategory),
                    cl::desc("A parameter of the schedule, instead of the predicted best; may be "
                             "repeated (keys: see below)"));
static cl::list<std::string>
    kernelSchedules("kernel-schedule", cl::value_desc("kernel:kind:key=value:..."),
                    cl::cat(scheduleCategory),
                    cl::desc("Schedule and parameters of one kernel; may be repeated (--tune "
                             "chooses them, --schedule-report names the kernels)"));
static cl::opt<std::string>
    batchInvariant("batch-invariant", cl::ValueOptional, cl::value_desc("blocks"),
                   cl::cat(scheduleCategory),
                   cl::desc("Cut requests every so many blocks of 64 keys (default: by cost), and "
                            "lists of selected keys never, so that what a query reads of the cache "
                            "is summed in one order, whatever the rest of the batch"));
static cl::alias batchInvariantBlocks("batch-invariant-blocks", cl::aliasopt(batchInvariant),
                                      cl::Hidden);
static cl::opt<double> itemCost("item-cost", cl::init(-1), cl::value_desc("blocks"),
                                cl::cat(scheduleCategory),
                                cl::desc("GPU: fixed cost of a piece of attention, in blocks "
                                         "of 64 keys (default: by the cost model)"));
static cl::opt<double> mergeCost("merge-cost", cl::init(-1), cl::value_desc("blocks"),
                                 cl::cat(scheduleCategory),
                                 cl::desc("GPU: cost of cutting any request, in blocks of 64 "
                                          "keys (default: by the cost model)"));
static cl::opt<double> partialCost("partial-cost", cl::init(-1), cl::value_desc("blocks"),
                                   cl::cat(scheduleCategory),
                                   cl::desc("GPU: cost of a token's partial result, in blocks of "
                                            "64 keys (default: by the cost model)"));

const std::string &mlac::listScheduleKeys() {
  static const std::string text =
      "\nParameters of schedules, for --schedule-option:\n" + describeScheduleOptions();
  return text;
}

/// Longer than any context; the package's limit.
static constexpr int64_t kMostBlocks = 1 << 20;

static bool hasScheduled(const CompileOptions &options) {
  return llvm::any_of(options.targets, [](const std::string &name) {
    return isScheduled(*findCompileTarget(name));
  });
}

/// Checks what needs no kernel; the rest is checked where one is planned.
static bool readSchedules(CompileOptions &options) {
  ScheduleRequest request;
  std::string error;
  if (!request.setKind(schedule, error))
    return fail("--schedule: " + error);
  for (const std::string &option : scheduleOptions)
    if (!request.set(option, error))
      return fail("--schedule-option: " + error);
  options.schedule = schedule;
  options.scheduleOptions.assign(scheduleOptions.begin(), scheduleOptions.end());
  for (const std::string &kernel : kernelSchedules)
    if (!parseKernelRequest(kernel, error))
      return fail("--kernel-schedule: " + error);
  options.kernelSchedules.assign(kernelSchedules.begin(), kernelSchedules.end());
  if (batchInvariant.getNumOccurrences() > 0) {
    options.batchInvariant = 0;
    if (!batchInvariant.empty() &&
        (llvm::StringRef(batchInvariant).getAsInteger(10, options.batchInvariant) ||
         options.batchInvariant < 1 || options.batchInvariant > kMostBlocks))
      return fail("--batch-invariant: expected 1 to " + llvm::Twine(kMostBlocks) +
                  " blocks, got '" + batchInvariant + "'");
  }
  bool asks = schedule != "auto" || !scheduleOptions.empty() || !kernelSchedules.empty() ||
              options.batchInvariant >= 0;
  if (asks && !hasScheduled(options))
    return fail("--schedule, --schedule-option, --kernel-schedule and --batch-invariant are for " +
                listTargets(" and ", isScheduled) + ", the target is " +
                llvm::join(options.targets, ","));
  return true;
}

static bool readCosts(CompileOptions &options) {
  for (const cl::opt<double> *cost : {&itemCost, &mergeCost, &partialCost})
    if (cost->getNumOccurrences() > 0 && !(*cost >= 0 && *cost <= kMostBlocks))
      return fail("--" + cost->ArgStr + ": expected 0 to " + llvm::Twine(kMostBlocks) + ", got " +
                  llvm::formatv("{0}", cost->getValue()).str());
  if (partialCost.getNumOccurrences() > 0 && !hasScheduled(options))
    return fail("--partial-cost is for " + listTargets(" and ", isScheduled) + ", the target is " +
                llvm::join(options.targets, ","));
  options.itemCost = itemCost;
  options.mergeCost = mergeCost;
  options.partialCost = partialCost;
  return true;
}

bool mlac::readScheduling(CompileOptions &options) {
  return readSchedules(options) && readCosts(options);
}
