//===- TuneTimer.cpp - the steps kernels are timed in, and predictions ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TuneTimer.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace mlac;
using llvm::Expected;

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

int64_t TuneStep::countRequests() const {
  int64_t count = 0;
  for (const Requests &each : requests)
    count += each.count;
  return count;
}

int64_t TuneStep::countTokens() const {
  int64_t count = 0;
  for (const Requests &each : requests)
    count += each.count * each.added;
  return count;
}

int64_t TuneStep::getLongest() const {
  int64_t longest = 0;
  for (const Requests &each : requests)
    longest = std::max(longest, each.cached + each.added);
  return longest;
}

std::string TuneStep::describe() const {
  std::string text = function + ":";
  llvm::raw_string_ostream stream(text);
  for (const Requests &each : requests)
    stream << (&each == &requests.front() ? " " : ", ") << each.count << " x (" << each.cached
           << " + " << each.added << ")";
  return text;
}

/// New tokens of a request that prefill still attends to in the absorbed form, where
/// it has the choice: far below every crossover (docs/spec/mla.md section 12).
static constexpr int64_t kFewTokens = 4;

static std::vector<TuneStep> listStepsOf(const AttentionKernel::Launcher &launcher,
                                         const TuneOptions &options) {
  const std::string &name = launcher.function;
  TuneStep::Requests decodes{options.batch, options.context, 1};
  if (launcher.maxQueryLen > 0) {
    decodes.added = launcher.maxQueryLen;
    return {{name, launcher.maxQueryLen, {decodes}}};
  }
  TuneStep::Requests fresh{1, 0, options.prefill}, later{1, options.context, options.prefill};
  if (name == "step")
    return {{name, 0, {decodes, fresh, later}}, {name, 0, {decodes, fresh}}};
  TuneStep::Requests few{options.batch, options.context, kFewTokens};
  return {{name, 0, {fresh}}, {name, 0, {later}}, {name, 0, {few}}};
}

/// Decodes come first: their kernels run in other functions, too.
std::vector<TuneStep> mlac::listSteps(const AttentionKernel &kernel, const TuneOptions &options) {
  std::vector<AttentionKernel::Launcher> launchers = kernel.launchers;
  llvm::stable_sort(launchers, [](const auto &a, const auto &b) {
    return (a.maxQueryLen > 0) > (b.maxQueryLen > 0);
  });
  std::vector<TuneStep> steps;
  for (const AttentionKernel::Launcher &launcher : launchers)
    llvm::append_range(steps, listStepsOf(launcher, options));
  return steps;
}

//===----------------------------------------------------------------------===//
// Predictions
//===----------------------------------------------------------------------===//

namespace {
class ModelTimer : public TuneTimer {
public:
  ModelTimer(const TargetDescription &target, int64_t heads) : target(target), heads(heads) {}
  std::string getName() const override { return "model of " + target.name.str(); }
  bool needsPackage() const override { return false; }
  Expected<std::optional<double>> time(const AttentionKernel &kernel, const TunePoint &point,
                                       const TuneStep &step, const std::vector<uint8_t> &) override;

private:
  double predictDense(const DenseScheduleCost &cost, const TuneStep &step) const;

  TargetDescription target;
  int64_t heads;
};
} // namespace

/// Rows of a fresh prompt see half of it on average.
double ModelTimer::predictDense(const DenseScheduleCost &cost, const TuneStep &step) const {
  double pairs = 0;
  for (const TuneStep::Requests &each : step.requests)
    pairs += each.count * each.added * (each.cached + each.added / 2.0);
  double cycles = pairs * heads * cost.getRelativeCycles() / target.numSms;
  return target.sm.kernelMicroseconds + cycles / target.sm.clockGhz * 1e-3;
}

Expected<std::optional<double>> ModelTimer::time(const AttentionKernel &kernel,
                                                 const TunePoint &point, const TuneStep &step,
                                                 const std::vector<uint8_t> &) {
  if (const auto *dense = std::get_if<DenseScheduleCost>(&point))
    return predictDense(*dense, step);
  return predictMicroseconds(std::get<AttentionProblem>(kernel.problem), target,
                             std::get<ScheduleCost>(point), step.countRequests(),
                             step.getLongest());
}

std::unique_ptr<TuneTimer> mlac::createModelTimer(const TargetDescription &target, int64_t heads) {
  return std::make_unique<ModelTimer>(target, heads);
}
