//===- BenchReport.cpp - measurements as a page of figures ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BenchResult.h"
#include "report/Html.h"
#include "report/Plot.h"

#include <map>

using namespace mlac;
using namespace mlac::run;
using nlohmann::json;

namespace {
/// Steps that differ in the context only: a curve.
using CurveKey = std::pair<int64_t, int64_t>; // new tokens, batch
} // namespace

static std::string nameOf(const CurveKey &key) {
  return "batch " + std::to_string(key.second) + ", " + std::to_string(key.first) + " new";
}

static std::map<CurveKey, std::vector<const BenchResult *>> findCurves(const BenchRun &run) {
  std::map<CurveKey, std::vector<const BenchResult *>> curves;
  for (const BenchResult &result : run.results)
    if (result.error.empty())
      curves[{result.point.query, result.point.batch}].push_back(&result);
  return curves;
}

static std::string percentOf(const std::optional<double> &ceiling, double rate) {
  return ceiling ? report::format(100 * rate / *ceiling) : "";
}

static void addTable(report::Page &page, const BenchRun &run) {
  report::Table table;
  table.header = {"step",           "function", "median us",        "least us", "GB/s",
                  "% of read rate", "GFLOP/s",  "% of matrix rate", "plan us"};
  table.textColumns = 2;
  for (const BenchResult &result : run.results) {
    if (!result.error.empty()) {
      table.rows.push_back({describe(result.point), "not measured: " + result.error});
      continue;
    }
    double readRate = result.work.bytes / result.medianSeconds;
    double matrixRate = result.work.flops / result.medianSeconds;
    table.rows.push_back(
        {describe(result.point), result.function, report::format(result.medianSeconds * 1e6, 4),
         report::format(result.leastSeconds * 1e6, 4), report::format(readRate / 1e9),
         percentOf(run.ceilings.readBytesPerSecond, readRate), report::format(matrixRate / 1e9),
         percentOf(run.ceilings.flopsPerSecond, matrixRate),
         report::format(result.planSeconds * 1e6)});
  }
  page.section("Measured");
  page.table(table);
  page.paragraph("Rates count the least that a step must read and compute: every weight and cached "
                 "row once, and the cheaper form of the attention.");
  if (!run.ceilings.notes.empty())
    page.paragraph("Ceilings of this machine, measured in the same run: " + run.ceilings.notes);
}

static void addTimes(report::Page &page, const BenchRun &run) {
  report::LogPlot plot;
  plot.xLabel = "keys of a request";
  plot.yLabel = "median time of a step, us";
  for (const auto &[key, results] : findCurves(run)) {
    plot.series.push_back({nameOf(key), {}, /*isLine=*/true});
    for (const BenchResult *result : results) {
      double keys = static_cast<double>(result->point.context + result->point.query);
      double time = result->medianSeconds * 1e6;
      plot.series.back().marks.push_back(
          {keys, time, describe(result->point) + ": " + report::format(time, 4) + " us"});
    }
  }
  page.section("Time");
  page.figure(report::draw(plot), "Cached and new tokens of each request; a curve for each batch.");
}

static void addRoofline(report::Page &page, const BenchRun &run) {
  report::LogPlot plot;
  plot.xLabel = "FLOPs per byte that the step must read or write";
  plot.yLabel = "FLOP/s";
  plot.roofHeight = run.ceilings.flopsPerSecond;
  plot.roofSlope = run.ceilings.readBytesPerSecond;
  for (const auto &[key, results] : findCurves(run)) {
    plot.series.push_back({nameOf(key), {}});
    for (const BenchResult *result : results)
      plot.series.back().marks.push_back({result->work.flops / result->work.bytes,
                                          result->work.flops / result->medianSeconds,
                                          describe(result->point)});
  }
  page.section("Roofline");
  page.figure(report::draw(plot),
              plot.roofHeight && plot.roofSlope
                  ? "The roof is what this machine reads and multiplies at most, measured."
                  : "The machine's ceilings were not measured, so there is no roof.");
}

static void addLaunches(report::Page &page, const BenchRun &run) {
  bool isFirst = true;
  for (const BenchResult &result : run.results) {
    if (result.profile.empty())
      continue;
    if (isFirst)
      page.section("Launches");
    isFirst = false;
    std::vector<report::Bar> bars;
    for (const json &launch : result.profile) {
      double time = launch.at("microseconds").get<double>();
      bars.push_back({launch.at("kernel").get<std::string>(), time, 0,
                      report::format(time) + " us, grid " + launch.at("grid").dump()});
    }
    page.subsection(describe(result.point));
    page.figure(report::drawBars(bars),
                "Launches in order, each timed apart: they add up to more than the step.");
  }
}

std::string mlac::run::toReport(const BenchRun &run) {
  report::Page page("mla-run bench: " + run.session.describe());
  addTable(page, run);
  addTimes(page, run);
  addRoofline(page, run);
  addLaunches(page, run);
  return page.finish();
}
