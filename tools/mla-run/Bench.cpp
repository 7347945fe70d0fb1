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
#include "Ceilings.h"
#include "Check.h"
#include "Commands.h"
#include "LayerWeights.h"
#include "Printable.h"
#include "StepMemory.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>

using namespace mlac::run;
using nlohmann::json;

namespace {
struct BenchOptions {
  int64_t batch, context, query, iterations;
  uint64_t seed;
  bool wantsProfile, wantsCeilings, wantsMoves;
};

/// What one step must do at the least.
struct StepWork {
  double bytes, flops;
};

struct Measured {
  std::string function;
  double medianSeconds, leastSeconds;
  json profile;
  bool isLayer = true;                       // or attention alone
  double engineSeconds = 0, planSeconds = 0; // without weights
  json moves = json::array();
};
} // namespace

/// Bytes: every weight, every cached row and the step's rows once. FLOPs: the
/// cheaper of the expanded and the absorbed form, by the counts of both. Attention alone
/// reads the cached rows and latents of all heads, and writes such.
static StepWork countWork(const Session &session, const BenchOptions &options, bool isLayer) {
  const json &model = session.info.at("model");
  double hidden = session.hidden, heads = session.heads;
  double queryRank = model.at("q_lora_rank"), latent = model.at("kv_lora_rank");
  double nope = model.at("qk_nope_head_dim"), rope = model.at("qk_rope_head_dim");
  double value = model.at("v_head_dim");
  double tokens = options.batch * options.query;
  double keys = options.batch * (options.context + options.query);
  double pairs = options.batch * (options.query * static_cast<double>(options.context) +
                                  options.query * (options.query + 1) / 2.0);
  double width = heads * (nope + rope);
  double queryFlops =
      queryRank > 0 ? tokens * (hidden * queryRank + queryRank * width) : tokens * hidden * width;
  double projections =
      queryFlops + tokens * hidden * (latent + rope) + tokens * heads * value * hidden;
  double expanded = keys * latent * heads * (nope + value) + heads * (nope + rope + value) * pairs;
  double absorbed = tokens * heads * latent * (nope + value) + heads * (2 * latent + rope) * pairs;

  auto perElement = static_cast<double>(mlac::run::elementBytes(session.activation));
  double weightElements = 0;
  for (const json &tensor : session.info.at("weights")) {
    double count = 1;
    for (const json &size : tensor.at("shape"))
      count *= size.get<double>();
    weightElements += count;
  }
  if (!isLayer)
    return {perElement * (keys * (latent + rope) + tokens * heads * (2 * latent + rope)),
            2 * heads * (2 * latent + rope) * pairs};
  double bytes = perElement * (weightElements + keys * (latent + rope) + 2 * tokens * hidden);
  return {bytes, 2 * (projections + std::min(expanded, absorbed))};
}

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
    throw std::runtime_error("--profile: function '" + printable(function.name) +
                             "' is no layer from hidden to output");
  const char *text = nullptr;
  check(mla_step_profile(plan, 0, memory.data("hidden"), memory.data("output"), nullptr, &text),
        "profiling");
  return json::parse(text);
}

static Measured timeSteps(const Session &session, mla_plan *plan, const BenchOptions &options) {
  StepFunction function = plannedFunction(session, plan);
  StepMemory memory(session, function, options.batch * options.query, options.seed);
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
  Measured measured{function.name, seconds[seconds.size() / 2], seconds[0], json::array()};
  measured.isLayer = function.isLayer();
  if (options.wantsProfile)
    measured.profile = profile(plan, function, memory);
  return measured;
}

static Measured measure(const Session &session, const BenchOptions &options,
                        const LayerWeights &weights) {
  int64_t tokens = options.context + options.query;
  EngineSizes sizes;
  sizes.requests = options.batch;
  sizes.sequenceTokens = tokens;
  sizes.tokens = options.batch * options.query;
  sizes.pages = options.batch * ((tokens + session.pageSize - 1) / session.pageSize);
  showProgress("binding weights");
  Engine engine;
  double engineSeconds = timeWork([&] { engine = makeEngine(session, sizes); });
  bindLayer(session, engine.get(), weights);
  showProgress("filling the cache");
  fillCache(session, engine.get(), options.seed + 1000);
  Plan plan;
  check(mla_plan_create(engine.get(), plan.out()), "making a plan");
  Sequences sequences(engine.get(), options.batch);
  Batch batch;
  for (int64_t r = 0; r < options.batch; ++r) {
    takeTokens(engine.get(), sequences[r], options.context);
    batch.sequences.push_back(sequences[r]);
    batch.queryLens.push_back(options.query);
  }
  double planSeconds = timeWork([&] { planStep(plan.get(), batch, nullptr); });
  showProgress("measuring");
  Measured measured = timeSteps(session, plan.get(), options);
  measured.engineSeconds = engineSeconds;
  measured.planSeconds = planSeconds;
  showProgress("");
  return measured;
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

static void printBench(const Session &session, const BenchOptions &options, const StepWork &work,
                       const Measured &measured, const Ceilings &ceilings) {
  double seconds = measured.medianSeconds;
  std::printf("  loading: package %.2f ms, engine %.2f ms, plan %.3f ms (no weights)\n",
              session.openSeconds * 1e3, measured.engineSeconds * 1e3, measured.planSeconds * 1e3);
  std::printf("  %s, batch %ld, context %ld, %ld new: median %.1f us, least %.1f us\n",
              printable(measured.function).c_str(), static_cast<long>(options.batch),
              static_cast<long>(options.context), static_cast<long>(options.query), seconds * 1e6,
              measured.leastSeconds * 1e6);
  auto line = [&](const char *what, double amount, const char *unit, double scale,
                  const std::optional<double> &ceiling) {
    std::printf("  %-8s %12.3f %s  %10.1f %s/s", what, amount / scale, unit,
                amount / seconds / scale, unit);
    if (ceiling)
      std::printf("  %5.1f %% of the ceiling %.1f %s/s", 100 * amount / seconds / *ceiling,
                  *ceiling / scale, unit);
    std::printf("\n");
  };
  line("memory", work.bytes, "GB", 1e9, ceilings.readBytesPerSecond);
  line("compute", work.flops, "GFLOP", 1e9, ceilings.flopsPerSecond);
  if (!ceilings.notes.empty())
    std::printf("  ceilings: %s\n", ceilings.notes.c_str());
  for (const json &move : measured.moves)
    std::printf("  %-8s %12.3f GB  %10.1f GB/s  %.1f us: %ld pages\n",
                move.at("what").get<std::string>().c_str(), move.at("bytes").get<double>() / 1e9,
                move.at("bytes").get<double>() / move.at("median_us").get<double>() / 1e3,
                move.at("median_us").get<double>(), move.at("pages").get<long>());
  for (const json &launch : measured.profile)
    std::printf("  %10.1f us  %-48s %-24s grid %s\n", launch.at("microseconds").get<double>(),
                printable(launch.at("kernel").get<std::string>()).c_str(),
                printable(launch.at("label").get<std::string>()).c_str(),
                launch.at("grid").dump().c_str());
}

static void printBenchJson(const Session &session, const BenchOptions &options,
                           const StepWork &work, const Measured &measured,
                           const Ceilings &ceilings) {
  auto orNull = [](const std::optional<double> &value) { return value ? json(*value) : json(); };
  json result = {{"package", session.describe()},
                 {"function", measured.function},
                 {"batch", options.batch},
                 {"context", options.context},
                 {"query_len", options.query},
                 {"median_us", measured.medianSeconds * 1e6},
                 {"least_us", measured.leastSeconds * 1e6},
                 {"package_ms", session.openSeconds * 1e3},
                 {"engine_ms", measured.engineSeconds * 1e3},
                 {"plan_ms", measured.planSeconds * 1e3},
                 {"bytes", work.bytes},
                 {"flops", work.flops},
                 {"read_ceiling_bytes_per_s", orNull(ceilings.readBytesPerSecond)},
                 {"matrix_ceiling_flops_per_s", orNull(ceilings.flopsPerSecond)},
                 {"notes", ceilings.notes},
                 {"moves", measured.moves},
                 {"profile", measured.profile}};
  std::puts(printableJson(result, 2).c_str());
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
                       {"no-ceilings", false},
                       {"moves", false},
                       {"weights", true},
                       {"module", true},
                       {"json", false}},
                      {"PACKAGE"});
  BenchOptions options{arguments.getInteger("batch", 1, 1, kMostRequests),
                       arguments.getInteger("context", 1024, 0),
                       arguments.getInteger("query-len", 1, 1),
                       arguments.getInteger("iters", 20, 1),
                       static_cast<uint64_t>(arguments.getInteger("seed", 1, 0)),
                       arguments.has("profile"),
                       !arguments.has("no-ceilings"),
                       arguments.has("moves")};
  std::string device = arguments.get("device", "cpu");
  Session session(arguments.positional(0), device, arguments.getInteger("threads", 0, 0));
  Ceilings ceilings = options.wantsCeilings ? measureCeilings(session, device) : Ceilings{};
  std::optional<Checkpoint> file;
  if (arguments.has("weights"))
    file.emplace(arguments.get("weights", ""));
  LayerWeights weights =
      file ? readLayer(session, *file, findAttention(*file, arguments.get("module", "")),
                       /*isRead=*/false)
           : makeRandomLayer(session, options.seed);
  Measured measured = measure(session, options, weights);
  if (options.wantsMoves)
    measured.moves = measureMoves(session, {options.batch, options.context + options.query,
                                            options.iterations, options.seed});
  StepWork work = countWork(session, options, measured.isLayer);
  if (arguments.has("json")) {
    printBenchJson(session, options, work, measured, ceilings);
    return kPassed;
  }
  std::printf("%s: %s\n", arguments.positional(0).c_str(), session.describe().c_str());
  printBench(session, options, work, measured, ceilings);
  return kPassed;
}
