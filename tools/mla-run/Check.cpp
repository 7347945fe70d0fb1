//===- Check.cpp - options, table and verdict of mla-run check ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Check.h"

#include "Commands.h"
#include "Functions.h"
#include "LayerKind.h"
#include "Printable.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

using namespace mlac::run;
using nlohmann::json;

void mlac::run::showProgress(const std::string &what) {
  if (isatty(STDERR_FILENO))
    std::fprintf(stderr, "\r\033[K%s", what.c_str());
}

ModuleNames mlac::run::findModule(const Checkpoint &file, const std::string &module) {
  static const std::string golden = "weights/";
  std::string prefix = findAttention(file, module);
  ModuleNames names{prefix, "", ""};
  if (prefix.size() < golden.size() ||
      prefix.compare(prefix.size() - golden.size(), golden.size(), golden) != 0)
    return names;
  std::string base = prefix.substr(0, prefix.size() - golden.size()); // "" or "MODULE/"
  auto findFirst = [&](std::initializer_list<const char *> tensors) {
    for (const char *tensor : tensors)
      if (file.find(base + tensor))
        return base + tensor;
    return std::string();
  };
  names.input = findFirst({"hidden_states", "arg0"});
  names.output = findFirst({"output.0", "output"});
  return names;
}

static CheckOptions readOptions(const Arguments &arguments) {
  CheckOptions options;
  options.chunkTokens = arguments.getInteger("chunk-tokens", 0, 1);
  if (arguments.has("num-sms"))
    options.processors = arguments.getInteger("num-sms", 1, 1);
  options.prefillLens = arguments.getIntegers("prefill-lens", {}, 0);
  options.batch = arguments.getInteger("batch", 0, 1, kMostRequests);
  // One token, page boundaries and their neighbours for the usual page sizes.
  options.contexts = arguments.getIntegers("context", {0, 1, 15, 16, 63, 64, 65, 300}, 0);
  if (arguments.has("query-len"))
    options.queryLen = arguments.getInteger("query-len", 1, 1);
  if (options.batch && arguments.has("context") &&
      static_cast<int64_t>(options.contexts.size()) > options.batch)
    throw std::runtime_error("option '--context' has " + std::to_string(options.contexts.size()) +
                             " contexts, expected at most one for each request of --batch=" +
                             std::to_string(options.batch));
  // What is named is compared.
  auto named = static_cast<int64_t>(options.contexts.size());
  options.samples = arguments.getInteger("samples", std::max(options.samples, named), 1);
  options.seed = arguments.getInteger("seed", 1, 0);
  return options;
}

/// What was asked for and would not be done.
static void refuse(const Arguments &arguments, std::initializer_list<const char *> names,
                   const std::string &why) {
  for (const char *name : names)
    if (arguments.has(name))
      throw std::runtime_error("option '--" + std::string(name) + "' " + why);
}

static std::vector<Finding> runChecks(const Session &session, const Arguments &arguments) {
  CheckOptions options = readOptions(arguments);
  if (arguments.has("random") == arguments.has("weights"))
    throw std::runtime_error("expected either --weights=PATH or --random");
  constexpr const char *kStored = "is for outputs that the file of --weights stores";
  if (arguments.has("random"))
    refuse(arguments, {"module"}, "is for --weights, not for --random");
  if (arguments.has("random") || arguments.has("batch"))
    refuse(arguments, {"prefill-lens"}, kStored);
  if (!hasLayers(session)) {
    if (arguments.has("weights"))
      throw std::runtime_error("the package holds no layer, so that weights have no use: --random");
    return checkLatents(session, options);
  }
  if (arguments.has("random"))
    return checkReference(session, makeRandomLayer(session, options.seed), options);
  Checkpoint file(arguments.get("weights", ""));
  ModuleNames names = findModule(file, arguments.get("module", ""));
  bool isGolden = !names.input.empty() && !names.output.empty() && !arguments.has("batch");
  if (isGolden)
    refuse(arguments, {"context", "query-len", "samples"},
           "is for the reference: give --batch, too, or --random");
  else
    refuse(arguments, {"prefill-lens"}, kStored);
  LayerWeights weights = readLayer(session, file, names.weights, /*isRead=*/!isGolden);
  return isGolden ? checkGolden(session, weights, file, names, options)
                  : checkReference(session, weights, options);
}

static void printTable(const std::vector<Finding> &findings, const Tolerance &tolerance) {
  std::printf("  %-64s %6s %10s %10s %10s %10s %11s %10s\n", "step", "rows", "relative", "cosdiff",
              "WMAPE", "worst row", "cosine", "MSE");
  for (const Finding &finding : findings) {
    const ErrorMeasure &errors = finding.errors;
    std::printf("  %-64s %6zu %10.2e %10.2e %10.2e %10.2e %11.8f %10.2e  %s", finding.what.c_str(),
                errors.rows(), errors.relative(), errors.cosineDifference(), errors.wmape(),
                errors.worstRow(), errors.cosine(), errors.meanSquaredError(),
                tolerance.accepts(errors) ? "ok" : "FAIL");
    if (!errors.isFinite())
      std::printf(" (%zu rows with NaN or inf)", errors.countNonFiniteRows());
    std::printf("\n");
  }
  std::printf("  %-64s %6s %10.2e %10.2e %10.2e %10.2e\n", "allowed", "", tolerance.relative,
              tolerance.cosineDifference, tolerance.wmape, tolerance.worstRow);
}

static void printJson(const Session &session, const std::vector<Finding> &findings,
                      const Tolerance &tolerance, bool passed) {
  json result = {{"package", session.describe()}, {"passed", passed}, {"steps", json::array()}};
  for (const Finding &finding : findings)
    result["steps"].push_back({{"what", finding.what},
                               {"rows", finding.errors.rows()},
                               {"relative", finding.errors.relative()},
                               {"cosine_difference", finding.errors.cosineDifference()},
                               {"cosine", finding.errors.cosine()},
                               {"wmape", finding.errors.wmape()},
                               {"mse", finding.errors.meanSquaredError()},
                               {"worst_row", finding.errors.worstRow()},
                               {"non_finite_rows", finding.errors.countNonFiniteRows()},
                               {"passed", tolerance.accepts(finding.errors)}});
  std::puts(printableJson(result, 2).c_str());
}

static float readScale(const std::string &text) {
  char *end = nullptr;
  float scale = std::strtof(text.c_str(), &end);
  if (end == text.c_str() || *end || !(scale > 0 && std::isfinite(scale)))
    throw std::runtime_error("--cache-scale: expected a positive number, got '" + text + "'");
  return scale;
}

/// "X" of all fields of a row, or "KEYS,VALUES".
static void readScales(const std::string &text, mla_cache_layout &layout) {
  size_t comma = text.find(',');
  layout.layer_scale = readScale(text.substr(0, comma));
  layout.value_scale =
      comma == std::string::npos ? layout.layer_scale : readScale(text.substr(comma + 1));
}

int mlac::run::runCheck(const std::vector<std::string> &words) {
  Arguments arguments(words,
                      {{"weights", true},
                       {"random", false},
                       {"module", true},
                       {"device", true},
                       {"threads", true},
                       {"chunk-tokens", true},
                       {"num-sms", true},
                       {"prefill-lens", true},
                       {"batch", true},
                       {"context", true},
                       {"query-len", true},
                       {"samples", true},
                       {"cache-scale", true},
                       {"seed", true},
                       {"json", false},
                       kLayerOption},
                      {"PACKAGE"});
  Session session(arguments, arguments.get("device", "cpu"), arguments.getInteger("threads", 0, 0));
  if (arguments.has("cache-scale"))
    readScales(arguments.get("cache-scale", ""), session.cache);
  if (!arguments.has("json"))
    std::printf("%s: %s\n", arguments.positional(0).c_str(), session.describe().c_str());
  std::vector<Finding> findings = runChecks(session, arguments);
  showProgress("");

  bool hasCodes = session.quantisesActivations || session.requantisesAbsorbed;
  Tolerance tolerance = hasCodes                   ? getCodedTolerance()
                        : session.isCacheQuantized ? getQuantizedTolerance()
                                                   : getTolerance(session.activation);
  bool passed = !findings.empty() &&
                std::all_of(findings.begin(), findings.end(), [&](const Finding &finding) {
                  return tolerance.accepts(finding.errors);
                });
  if (arguments.has("json")) {
    printJson(session, findings, tolerance, passed);
  } else {
    printTable(findings, tolerance);
    std::printf("%s\n", passed ? "PASS: every step is within the allowed errors"
                               : "FAIL: see the marked steps");
  }
  return passed ? kPassed : kCheckFailed;
}
