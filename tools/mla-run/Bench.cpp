//===- Bench.cpp - how long steps take ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Weights, cached rows and inputs are random: constant data would toggle fewer
// wires, so a GPU at its power limit would run faster than it does in earnest. A
// huge cache repeats one random block, so that it need not travel to the device.
//
//===----------------------------------------------------------------------===//

#include "Arguments.h"
#include "BenchMoves.h"
#include "BenchResult.h"
#include "Check.h"
#include "Commands.h"
#include "LayerKind.h"
#include "LayerWeights.h"
#include "Printable.h"
#include "StepMemory.h"
#include "TextFile.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>

using namespace mlac::run;
using nlohmann::json;

namespace {
struct BenchOptions {
  std::vector<int64_t> batches, contexts, queries;
  int64_t iterations;
  uint64_t seed;
  bool wantsProfile, wantsMoves;
};
} // namespace

static double timeStep(const Event &begin, const Event &end, mla_plan *plan,
                       const StepMemory &memory) {
  double milliseconds = 0;
  check(mla_event_record(begin.get(), nullptr), "recording an event");
  memory.run(plan);
  check(mla_event_record(end.get(), nullptr), "recording an event");
  check(mla_event_elapsed(begin.get(), end.get(), &milliseconds), "waiting for a step");
  return milliseconds / 1e3;
}

/// Times of the step's launches; the runtime takes them of whole layers only.
static json profile(mla_plan *plan, const StepFunction &function, const StepMemory &memory) {
  if (!function.isLayer())
    throw std::runtime_error("--profile and --trace: function '" + printable(function.name) +
                             "' is no layer from hidden to output");
  for (const StepBuffer &buffer : function.buffers)
    if (buffer.name != "hidden" && buffer.name != "output")
      throw std::runtime_error("--profile and --trace: function '" + printable(function.name) +
                               "' has '" + printable(buffer.name) +
                               "' beside hidden and output, which is bound in plain runs alone");
  const char *text = nullptr;
  check(mla_step_profile(plan, 0, memory.data("hidden"), memory.data("output"), nullptr, &text),
        "profiling");
  return json::parse(text);
}

static BenchResult timeSteps(const Session &session, mla_plan *plan, const BenchPoint &point,
                             const BenchOptions &options) {
  StepFunction function = plannedFunction(session, plan);
  StepMemory memory(session, function, point.batch * point.query, options.seed);
  Event begin, end;
  check(mla_event_create(session.device.get(), begin.out()), "making an event");
  check(mla_event_create(session.device.get(), end.out()), "making an event");
  constexpr int kWarmUps = 3;
  for (int i = 0; i < kWarmUps; ++i)
    (void)timeStep(begin, end, plan, memory);
  std::vector<double> seconds;
  for (int64_t i = 0; i < options.iterations; ++i)
    seconds.push_back(timeStep(begin, end, plan, memory));
  std::sort(seconds.begin(), seconds.end());
  BenchResult result;
  result.function = function.name;
  result.medianSeconds = seconds[seconds.size() / 2];
  result.leastSeconds = seconds[0];
  result.isLayer = function.isLayer();
  if (options.wantsProfile)
    result.profile = profile(plan, function, memory);
  return result;
}

static BenchResult measure(const Session &session, const BenchPoint &point,
                           const BenchOptions &options, const LayerWeights &weights) {
  int64_t tokens = point.context + point.query;
  EngineSizes sizes;
  sizes.requests = point.batch;
  sizes.sequenceTokens = tokens;
  sizes.tokens = point.batch * point.query;
  sizes.pages = point.batch * ((tokens + session.pageSize - 1) / session.pageSize);
  showProgress(describe(point) + ": binding weights");
  Engine engine;
  double engineSeconds = timeWork([&] { engine = makeEngine(session, sizes); });
  bindLayer(session, engine.get(), weights);
  showProgress(describe(point) + ": filling the cache");
  fillCache(session, engine.get(), options.seed + 1000);
  Plan plan;
  check(mla_plan_create(engine.get(), plan.out()), "making a plan");
  Sequences sequences(engine.get(), point.batch);
  Batch batch;
  for (int64_t r = 0; r < point.batch; ++r) {
    takeTokens(engine.get(), sequences[r], point.context);
    batch.sequences.push_back(sequences[r]);
    batch.queryLens.push_back(point.query);
  }
  double planSeconds = timeWork([&] { planStep(plan.get(), batch, nullptr); });
  showProgress(describe(point) + ": measuring");
  BenchResult result = timeSteps(session, plan.get(), point, options);
  result.point = point;
  result.engineSeconds = engineSeconds;
  result.planSeconds = planSeconds;
  result.work = countWork(session, point, result.isLayer);
  if (options.wantsMoves)
    result.moves = measureMoves(session, {point.batch, tokens, options.iterations, options.seed});
  showProgress("");
  return result;
}

static std::vector<BenchPoint> listPoints(const BenchOptions &options) {
  std::vector<BenchPoint> points;
  for (int64_t query : options.queries)
    for (int64_t context : options.contexts)
      for (int64_t batch : options.batches)
        points.push_back({batch, context, query});
  return points;
}

/// A point of a sweep that does not fit into the machine leaves the others.
static std::vector<BenchResult> sweep(const Session &session, const BenchOptions &options,
                                      const LayerWeights &weights) {
  std::vector<BenchPoint> points = listPoints(options);
  if (points.size() == 1)
    return {measure(session, points[0], options, weights)};
  std::vector<BenchResult> results;
  for (const BenchPoint &point : points) {
    try {
      results.push_back(measure(session, point, options, weights));
    } catch (const std::exception &error) {
      results.emplace_back();
      results.back().point = point;
      results.back().error = error.what();
    }
  }
  return results;
}

static Ceilings measureCeilings(const Session &session, const std::string &device) {
  showProgress("measuring the machine's ceilings");
  Ceilings ceilings;
  if (session.deviceInfo.at("kind") == "cpu") {
    ceilings = measureCpuCeilings(session.deviceInfo.at("num_sms"));
  } else {
    size_t colon = device.find(':');
    ceilings =
        measureCudaCeilings(colon == std::string::npos ? 0 : std::atoi(device.c_str() + colon + 1));
  }
  showProgress("");
  return ceilings;
}

static int printRun(const BenchRun &run, const Arguments &arguments) {
  if (arguments.has("json"))
    std::puts(printableJson(toJson(run), 2).c_str());
  else if (arguments.has("csv"))
    std::fputs(toCsv(run).c_str(), stdout);
  else {
    std::printf("%s: %s\n", arguments.positional(0).c_str(), run.session.describe().c_str());
    printText(run);
  }
  if (arguments.has("trace"))
    writeTextFile(arguments.get("trace", ""), printableJson(toTrace(run), -1) + "\n");
  if (arguments.has("report"))
    writeTextFile(arguments.get("report", ""), toReport(run));
  int code = kPassed;
  for (const BenchResult &result : run.results) {
    if (result.error.empty())
      continue;
    std::fprintf(stderr, "mla-run bench: error: %s: %s\n", describe(result.point).c_str(),
                 printable(result.error).c_str());
    code = kError;
  }
  return code;
}

static BenchOptions readOptions(const Arguments &arguments) {
  if (arguments.has("json") && arguments.has("csv"))
    throw std::runtime_error("--json and --csv exclude each other");
  if (arguments.has("csv") && arguments.has("moves"))
    throw std::runtime_error("option '--moves' has no columns in --csv: --json has its times");
  if (arguments.has("csv") && arguments.has("profile") && !arguments.has("report") &&
      !arguments.has("trace"))
    throw std::runtime_error("option '--profile' has no columns in --csv: expected --report or "
                             "--trace, too, or --json");
  if (arguments.has("module") && !arguments.has("weights"))
    throw std::runtime_error("option '--module' is for --weights");
  std::vector<std::string> taken = {arguments.positional(0), arguments.get("weights", "")};
  for (const char *file : {"trace", "report"}) {
    if (!arguments.has(file))
      continue;
    std::string path = arguments.get(file, "");
    checkWritable(path);
    for (const std::string &other : taken)
      if (isOneFile(path, other))
        throw std::runtime_error("option '--" + std::string(file) +
                                 "' expects a file of its own, got '" + path + "'");
    taken.push_back(path);
  }
  return {arguments.getIntegers("batch", {1}, 1, kMostRequests),
          arguments.getIntegers("context", {1024}, 0),
          arguments.getIntegers("query-len", {1}, 1),
          arguments.getInteger("iters", 20, 1),
          static_cast<uint64_t>(arguments.getInteger("seed", 1, 0)),
          arguments.has("profile") || arguments.has("trace"),
          arguments.has("moves")};
}

int mlac::run::runBench(const std::vector<std::string> &words) {
  Arguments arguments(words,
                      {{"device", true},
                       {"threads", true},
                       {"batch", true},
                       {"context", true},
                       {"query-len", true},
                       {"iters", true},
                       {"seed", true},
                       {"profile", false},
                       {"trace", true},
                       {"report", true},
                       {"no-ceilings", false},
                       {"moves", false},
                       {"weights", true},
                       {"module", true},
                       {"csv", false},
                       {"json", false},
                       kLayerOption},
                      {"PACKAGE"});
  BenchOptions options = readOptions(arguments);
  std::string device = arguments.get("device", "cpu");
  Session session(arguments, device, arguments.getInteger("threads", 0, 0));
  BenchRun run{session, {}, {}};
  if (!arguments.has("no-ceilings"))
    run.ceilings = measureCeilings(session, device);
  std::optional<Checkpoint> file;
  if (arguments.has("weights"))
    file.emplace(arguments.get("weights", ""));
  LayerWeights weights =
      file ? readLayer(session, *file, findAttention(*file, arguments.get("module", "")),
                       /*isRead=*/false)
           : makeRandomLayer(session, options.seed);
  run.results = sweep(session, options, weights);
  return printRun(run, arguments);
}
