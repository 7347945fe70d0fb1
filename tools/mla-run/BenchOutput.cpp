//===- BenchOutput.cpp - measurements as text, CSV and JSON ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BenchResult.h"
#include "Printable.h"

#include <cstdio>

using namespace mlac::run;
using nlohmann::json;

std::string mlac::run::describe(const BenchPoint &point) {
  return "batch " + std::to_string(point.batch) + ", context " + std::to_string(point.context) +
         ", " + std::to_string(point.query) + " new";
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static void printPoint(const BenchRun &run, const BenchResult &result) {
  double seconds = result.medianSeconds;
  std::printf("  loading: package %.2f ms, engine %.2f ms, plan %.3f ms (no weights)\n",
              run.session.openSeconds * 1e3, result.engineSeconds * 1e3, result.planSeconds * 1e3);
  std::printf("  %s, %s: median %.1f us, least %.1f us\n", printable(result.function).c_str(),
              describe(result.point).c_str(), seconds * 1e6, result.leastSeconds * 1e6);
  auto line = [&](const char *what, double amount, const char *unit, double scale,
                  const std::optional<double> &ceiling) {
    std::printf("  %-8s %12.3f %s  %10.1f %s/s", what, amount / scale, unit,
                amount / seconds / scale, unit);
    if (ceiling)
      std::printf("  %5.1f %% of the ceiling %.1f %s/s", 100 * amount / seconds / *ceiling,
                  *ceiling / scale, unit);
    std::printf("\n");
  };
  line("memory", result.work.bytes, "GB", 1e9, run.ceilings.readBytesPerSecond);
  line("compute", result.work.flops, "GFLOP", 1e9, run.ceilings.flopsPerSecond);
}

static void printDetails(const BenchResult &result) {
  for (const json &move : result.moves)
    std::printf("  %-8s %12.3f GB  %10.1f GB/s  %.1f us: %ld pages\n",
                move.at("what").get<std::string>().c_str(), move.at("bytes").get<double>() / 1e9,
                move.at("bytes").get<double>() / move.at("median_us").get<double>() / 1e3,
                move.at("median_us").get<double>(), move.at("pages").get<long>());
  for (const json &launch : result.profile)
    std::printf("  %10.1f us  %-48s %-24s grid %s\n", launch.at("microseconds").get<double>(),
                printable(launch.at("kernel").get<std::string>()).c_str(),
                printable(launch.at("label").get<std::string>()).c_str(),
                launch.at("grid").dump().c_str());
}

/// "12.3", or "-" where the ceiling was not measured.
static std::string percentOf(const std::optional<double> &ceiling, double rate) {
  if (!ceiling)
    return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", 100 * rate / *ceiling);
  return text;
}

static void printTable(const BenchRun &run) {
  std::printf("  %7s %9s %6s %-10s %12s %12s %10s %6s %12s %6s\n", "batch", "context", "new",
              "function", "median us", "least us", "GB/s", "%", "GFLOP/s", "%");
  for (const BenchResult &result : run.results) {
    std::printf("  %7ld %9ld %6ld ", static_cast<long>(result.point.batch),
                static_cast<long>(result.point.context), static_cast<long>(result.point.query));
    if (!result.error.empty()) {
      std::printf("not measured\n");
      continue;
    }
    double readRate = result.work.bytes / result.medianSeconds;
    double matrixRate = result.work.flops / result.medianSeconds;
    std::printf("%-10s %12.1f %12.1f %10.1f %6s %12.1f %6s\n", printable(result.function).c_str(),
                result.medianSeconds * 1e6, result.leastSeconds * 1e6, readRate / 1e9,
                percentOf(run.ceilings.readBytesPerSecond, readRate).c_str(), matrixRate / 1e9,
                percentOf(run.ceilings.flopsPerSecond, matrixRate).c_str());
  }
}

void mlac::run::printText(const BenchRun &run) {
  bool isSweep = run.results.size() > 1;
  if (isSweep)
    printTable(run);
  else
    printPoint(run, run.results.at(0));
  if (!run.ceilings.notes.empty())
    std::printf("  ceilings: %s\n", run.ceilings.notes.c_str());
  for (const BenchResult &result : run.results) {
    if (isSweep && !(result.moves.empty() && result.profile.empty()))
      std::printf("  %s\n", describe(result.point).c_str());
    printDetails(result);
  }
}

//===----------------------------------------------------------------------===//
// CSV and JSON
//===----------------------------------------------------------------------===//

/// A field that may hold anything.
static std::string quoted(const std::string &text) {
  std::string result = "\"";
  for (char c : printable(text))
    result += c == '"' ? std::string("\"\"") : std::string(1, c);
  return result + '"';
}

static std::string number(double value) { return json(value).dump(); }
static std::string number(const std::optional<double> &value) {
  return value ? number(*value) : "";
}

std::string mlac::run::toCsv(const BenchRun &run) {
  std::string text = "batch,context,query_len,function,median_us,least_us,bytes,flops,"
                     "read_ceiling_bytes_per_s,matrix_ceiling_flops_per_s,plan_ms,package,error\n";
  for (const BenchResult &result : run.results) {
    const BenchPoint &point = result.point;
    text += std::to_string(point.batch) + "," + std::to_string(point.context) + "," +
            std::to_string(point.query) + ",";
    if (result.error.empty())
      text += quoted(result.function) + "," + number(result.medianSeconds * 1e6) + "," +
              number(result.leastSeconds * 1e6) + "," + number(result.work.bytes) + "," +
              number(result.work.flops);
    else
      text += ",,,,";
    text += "," + number(run.ceilings.readBytesPerSecond) + "," +
            number(run.ceilings.flopsPerSecond) + "," +
            (result.error.empty() ? number(result.planSeconds * 1e3) : "") + "," +
            quoted(run.session.describe()) + "," + quoted(result.error) + "\n";
  }
  return text;
}

static json toJson(const BenchRun &run, const BenchResult &result) {
  auto orNull = [](const std::optional<double> &value) { return value ? json(*value) : json(); };
  json object = {{"package", run.session.describe()},
                 {"batch", result.point.batch},
                 {"context", result.point.context},
                 {"query_len", result.point.query}};
  if (!result.error.empty()) {
    object["error"] = result.error;
    return object;
  }
  object.update({{"function", result.function},
                 {"median_us", result.medianSeconds * 1e6},
                 {"least_us", result.leastSeconds * 1e6},
                 {"package_ms", run.session.openSeconds * 1e3},
                 {"engine_ms", result.engineSeconds * 1e3},
                 {"plan_ms", result.planSeconds * 1e3},
                 {"bytes", result.work.bytes},
                 {"flops", result.work.flops},
                 {"read_ceiling_bytes_per_s", orNull(run.ceilings.readBytesPerSecond)},
                 {"matrix_ceiling_flops_per_s", orNull(run.ceilings.flopsPerSecond)},
                 {"notes", run.ceilings.notes},
                 {"moves", result.moves},
                 {"profile", result.profile}});
  return object;
}

json mlac::run::toJson(const BenchRun &run) {
  if (run.results.size() == 1)
    return ::toJson(run, run.results[0]);
  json list = json::array();
  for (const BenchResult &result : run.results)
    list.push_back(::toJson(run, result));
  return list;
}
