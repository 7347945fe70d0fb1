//===- Metrics.cpp - counters of what was served ----------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "engine/Metrics.h"

#include "engine/Engine.h"

#include <shared_mutex>

using namespace mlac::runtime;

Metrics &Metrics::get() {
  static Metrics &instance = *new Metrics; // threads may count while the process exits
  return instance;
}

void Metrics::countPlan(std::string_view function, int64_t requests, int64_t tokens) {
  std::lock_guard lock(mutex);
  auto found = steps.find(function);
  if (found == steps.end())
    found = steps.emplace(function, Steps()).first;
  Steps &counted = found->second;
  ++counted.plans;
  counted.requests += static_cast<uint64_t>(requests);
  counted.tokens += static_cast<uint64_t>(tokens);
}

static void addHeader(std::string &text, std::string_view name, std::string_view help,
                      std::string_view type = "counter") {
  text += concat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
}

/// As the value of a label.
static std::string escape(std::string_view value) {
  std::string text;
  for (char c : value) {
    if (c == '\\' || c == '"')
      text += '\\';
    text += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return text;
}

std::string Metrics::print() {
  std::string text;
  auto addSteps = [&](std::string_view name, std::string_view help, uint64_t Steps::*count) {
    addHeader(text, name, help);
    for (const auto &[function, counted] : steps)
      text += concat(name, "{function=\"", escape(function), "\"} ", counted.*count, "\n");
  };
  {
    std::lock_guard lock(mutex);
    addSteps("mlac_plans_total", "Steps planned.", &Steps::plans);
    addSteps("mlac_requests_total", "Requests of planned steps.", &Steps::requests);
    addSteps("mlac_tokens_total", "New tokens of planned steps.", &Steps::tokens);
  }
  addHeader(text, "mlac_layer_runs_total", "Runs and captures of a layer's step.");
  text += concat("mlac_layer_runs_total ", runs.load(std::memory_order_relaxed), "\n");
  addHeader(text, "mlac_failed_calls_total",
            "Calls that did not return MLA_OK; MLA_OUT_OF_PAGES means try later.");
  for (int status = MLA_OK + 1; status < kStatuses; ++status)
    text += concat("mlac_failed_calls_total{status=\"",
                   mla_status_name(static_cast<mla_status>(status)), "\"} ",
                   failures[static_cast<size_t>(status)].load(std::memory_order_relaxed), "\n");
  return text;
}

static constexpr std::string_view kPages = "mlac_pool_pages";

std::string_view Metrics::poolsHeader() {
  static const std::string text = [] {
    std::string header;
    addHeader(header, kPages, "Pages of an open engine's pools, in one layer.", "gauge");
    return header;
  }();
  return text;
}

void Metrics::printPools(std::string &text, uint64_t id, Engine &engine) {
  if (engine.hasExternalPools()) // whose pages are counted by their owner
    return;
  const KVCache &cache = engine.cache();
  std::shared_lock lock(cache.mutex);
  for (size_t pool = 0; pool < engine.package().pools().size(); ++pool) {
    int64_t all = engine.limits().pool(pool).numPages, free = cache.pool(pool).numFree();
    for (auto [state, pages] : {std::pair("free", free), {"used", all - free}})
      text += concat(kPages, "{engine=\"", id, "\",pool=\"",
                     escape(engine.package().pools()[pool].name), "\",state=\"", state, "\"} ",
                     pages, "\n");
  }
}
