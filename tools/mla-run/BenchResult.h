//===- BenchResult.h - what mla-run bench measured, and its forms ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A sweep measures every batch size at every context and query length. Each point is what
// a run of it alone would be: an engine of its own, as large as the point needs.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_RUN_BENCHRESULT_H
#define MLA_RUN_BENCHRESULT_H

#include "Ceilings.h"
#include "Session.h"
#include "StepWork.h"

#include <string>
#include <vector>

namespace mlac::run {

struct BenchResult {
  BenchPoint point = {0, 0, 0};
  std::string error; // why nothing was measured; else empty
  std::string function;
  double medianSeconds = 0, leastSeconds = 0;
  nlohmann::json profile = nlohmann::json::array(); // of mla_step_profile
  bool isLayer = true;                              // or attention alone
  double engineSeconds = 0, planSeconds = 0;        // without weights
  nlohmann::json moves = nlohmann::json::array();
  StepWork work = {0, 0};
};

struct BenchRun {
  const Session &session;
  Ceilings ceilings;
  std::vector<BenchResult> results;
};

/// "batch 4, context 1024, 1 new".
std::string describe(const BenchPoint &point);

/// One point with all its details, several as a table; on standard output.
void printText(const BenchRun &run);
/// A header and a line for each point (RFC 4180).
std::string toCsv(const BenchRun &run);
/// An object, of several points an array of such.
nlohmann::json toJson(const BenchRun &run);
/// Chrome's trace events: a process for each point, with the step planned and run, and its
/// launches one after another. These were timed apart, so they add up to more than the step.
nlohmann::json toTrace(const BenchRun &run);

/// A page of figures (report/Html.h).
std::string toReport(const BenchRun &run);

} // namespace mlac::run

#endif // MLA_RUN_BENCHRESULT_H
