//===- BenchTrace.cpp - a step as Chrome trace events ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// chrome://tracing and Perfetto open it. Times are microseconds from the beginning of the
// step's planning.
//
//===----------------------------------------------------------------------===//

#include "BenchResult.h"

using namespace mlac::run;
using nlohmann::json;

namespace {
/// Rows of a process, from above.
enum Track { kHost = 1, kStep = 2, kLaunches = 3 };
} // namespace

static json nameOf(const char *what, int64_t process, int track, const std::string &name) {
  return {
      {"ph", "M"}, {"name", what}, {"pid", process}, {"tid", track}, {"args", {{"name", name}}}};
}

static json slice(int64_t process, Track track, const std::string &name, double begin,
                  double duration, json arguments) {
  return {{"ph", "X"},
          {"name", name},
          {"pid", process},
          {"tid", track},
          {"ts", begin},
          {"dur", duration},
          {"args", std::move(arguments)}};
}

static void addPoint(const BenchResult &result, int64_t process, json &events) {
  double planned = result.planSeconds * 1e6;
  events.push_back(
      nameOf("process_name", process, 0, result.function + ", " + describe(result.point)));
  events.push_back(nameOf("thread_name", process, kHost, "host"));
  events.push_back(nameOf("thread_name", process, kStep, "whole step, median"));
  events.push_back(nameOf("thread_name", process, kLaunches, "launches, each timed apart"));
  events.push_back(slice(process, kHost, "plan", 0, planned, json::object()));
  events.push_back(slice(process, kStep, result.function, planned, result.medianSeconds * 1e6,
                         {{"least_us", result.leastSeconds * 1e6},
                          {"bytes", result.work.bytes},
                          {"flops", result.work.flops}}));
  double at = planned;
  for (const json &launch : result.profile) {
    double duration = launch.at("microseconds").get<double>();
    events.push_back(slice(process, kLaunches, launch.at("kernel").get<std::string>(), at, duration,
                           {{"label", launch.at("label")}, {"grid", launch.at("grid")}}));
    at += duration;
  }
}

json mlac::run::toTrace(const BenchRun &run) {
  json events = json::array();
  int64_t process = 0;
  for (const BenchResult &result : run.results)
    if (result.error.empty())
      addPoint(result, ++process, events);
  return {{"traceEvents", events},
          {"displayTimeUnit", "ns"},
          {"otherData", {{"package", run.session.describe()}}}};
}
