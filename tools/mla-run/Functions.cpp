//===- Functions.cpp - what a package's functions take and give ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Functions.h"

#include "Printable.h"

#include <algorithm>

using namespace mlac::run;
using nlohmann::json;

bool StepFunction::has(const std::string &buffer) const {
  return std::any_of(buffers.begin(), buffers.end(),
                     [&](const StepBuffer &each) { return each.name == buffer; });
}

static StepFunction readFunction(const json &function) {
  StepFunction result{function.at("name"), function.at("max_query_len"), {}};
  for (const json &buffer : function.at("buffers"))
    if (bool isInput = buffer.at("kind") == "Input"; isInput || buffer.at("kind") == "Output")
      result.buffers.push_back({buffer.at("name"), isInput, buffer.at("dtype")});
  return result;
}

/// The targets of a package have the same functions. One of the device's kind, or, where
/// there is none, which the engine will say better, any.
static const json &chooseTarget(const Session &session) {
  const json &targets = session.info.at("targets");
  for (const json &target : targets)
    if (target.at("kind") == session.deviceInfo.at("kind"))
      return target;
  return targets.at(0);
}

std::vector<StepFunction> mlac::run::listSteps(const Session &session) {
  std::vector<StepFunction> steps;
  for (const json &function : chooseTarget(session).at("functions"))
    if (StepFunction step = readFunction(function); step.has("output"))
      steps.push_back(std::move(step));
  return steps;
}

bool mlac::run::hasLayers(const Session &session) {
  std::vector<StepFunction> steps = listSteps(session);
  return std::any_of(steps.begin(), steps.end(),
                     [](const StepFunction &step) { return step.isLayer(); });
}

bool mlac::run::hasStep(const Session &session) {
  std::vector<StepFunction> steps = listSteps(session);
  return std::any_of(steps.begin(), steps.end(),
                     [](const StepFunction &step) { return step.name == "step"; });
}

int64_t mlac::run::longestQuery(const Session &session, int64_t otherwise) {
  int64_t longest = 0;
  for (const StepFunction &step : listSteps(session))
    longest = std::max(longest, step.takes(otherwise) ? otherwise : step.longestQuery);
  if (longest == 0)
    throw std::runtime_error("the package has no function that gives an 'output'");
  return longest;
}

StepFunction mlac::run::plannedFunction(const Session &session, mla_plan *plan) {
  const char *name = nullptr;
  check(mla_plan_function(plan, &name), "asking for the function");
  for (const StepFunction &step : listSteps(session))
    if (step.name == name)
      return step;
  throw std::runtime_error("function '" + printable(name) +
                           "', which takes queries of this length, gives no 'output'");
}

void mlac::run::takeTokens(mla_engine *engine, mla_sequence sequence, int64_t tokens) {
  Cache cache;
  check(mla_engine_cache(engine, cache.out()), "asking for the cache");
  int64_t taken = 0;
  auto append = [&](int64_t count) {
    auto tokensOfStep = static_cast<int32_t>(count);
    mla_cache_append_batch batch = {sizeof batch, 1, &sequence, &taken, &tokensOfStep};
    return mla_cache_append(cache.get(), &batch, nullptr, 0);
  };
  // Pools with windows have room for a window and a step's tokens: long sequences grow by steps,
  // and one of no tokens gives back what the last one left behind.
  for (int64_t step = tokens; taken < tokens;) {
    int64_t count = std::min(step, tokens - taken);
    mla_status status = append(count);
    if (status == MLA_OUT_OF_PAGES && step > 1) {
      step /= 2;
      continue;
    }
    check(status, "taking pages");
    taken += count;
    check(append(0), "leaving windows");
  }
}
