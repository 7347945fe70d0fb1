//===- CheckLatents.cpp - checks attention alone against float64 ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Packages of attention over latents have no weights and no configuration: queries
// q_lat [T, N, Lkv] and q_pe [T, N, R] attend to the cached rows [S, Lkv + R], and give
// the weighted sums of their latents (spec: mla.md, the absorbed form without its
// projections).
//
//===----------------------------------------------------------------------===//

#include "Check.h"
#include "Functions.h"
#include "StepMemory.h"

#include <algorithm>
#include <cmath>

using namespace mlac::run;

namespace {
/// A step's queries and its output, of all rows and heads.
struct Latents {
  std::vector<float> latent, rope, output;
};

/// The sizes of one head.
struct Widths {
  int64_t heads, latent, rope;
};
} // namespace

static Widths widthsOf(const Session &session) {
  return {session.heads, session.cache.columns[0], session.cache.columns[1]};
}

/// One row's output [N, Lkv] over the first `visible` of a sequence's cached rows.
static std::vector<double> attend(const Widths &widths, double scale, const float *latent,
                                  const float *rope, const std::vector<float> &rows,
                                  int64_t visible) {
  std::vector<double> output(widths.heads * widths.latent);
  int64_t width = widths.latent + widths.rope;
  parallelFor(widths.heads, [&](size_t begin, size_t end) {
    for (size_t head = begin; head < end; ++head) {
      std::vector<double> scores(visible);
      for (int64_t s = 0; s < visible; ++s) {
        for (int64_t i = 0; i < widths.latent; ++i)
          scores[s] += double(latent[head * widths.latent + i]) * rows[s * width + i];
        for (int64_t i = 0; i < widths.rope; ++i)
          scores[s] += double(rope[head * widths.rope + i]) * rows[s * width + widths.latent + i];
        scores[s] *= scale;
      }
      double top = *std::max_element(scores.begin(), scores.end()), total = 0;
      for (double &score : scores)
        total += score = std::exp(score - top);
      for (int64_t s = 0; s < visible; ++s)
        for (int64_t i = 0; i < widths.latent; ++i)
          output[head * widths.latent + i] += scores[s] / total * rows[s * width + i];
    }
  });
  return output;
}

/// Runs the planned step on random queries.
static Latents runLatents(const Session &session, mla_plan *plan, const StepFunction &function,
                          int64_t tokens, uint64_t seed) {
  Widths widths = widthsOf(session);
  StepMemory memory(session, function, tokens, seed);
  Latents step{memory.fill("q_lat", tokens * widths.heads * widths.latent, seed), {}, {}};
  if (function.has("q_pe"))
    step.rope = memory.fill("q_pe", tokens * widths.heads * widths.rope, seed + 1);
  memory.run(plan);
  step.output = memory.read("output", tokens * widths.heads * widths.latent);
  return step;
}

static void requireLatents(const StepFunction &function, const Widths &widths) {
  std::string list;
  for (const StepBuffer &buffer : function.buffers) {
    list += (list.empty() ? "" : ", ") + buffer.name;
    bool isKnown = buffer.name == "q_lat" || buffer.name == "q_pe" || !buffer.isInput;
    if (!isKnown)
      list += " (unknown to the reference)";
  }
  bool isKnown = function.isLatentAttention() && function.has("q_pe") == (widths.rope > 0) &&
                 list.find("unknown") == std::string::npos;
  if (!isKnown)
    throw std::runtime_error("function '" + function.name +
                             "': the reference knows hidden -> output and q_lat, q_pe -> output, "
                             "this one has " +
                             list);
}

/// The contexts' rows and those of the new tokens, which such functions do not append.
static ErrorMeasure runRequests(const Session &session, mla_engine *engine, mla_plan *plan,
                                int64_t query, const CheckOptions &options) {
  Widths widths = widthsOf(session);
  std::vector<CachedRequest> requests = makeRequests(options, query);
  Sequences sequences(engine, requests.size());
  Batch batch;
  for (size_t r = 0; r < requests.size(); ++r) {
    takeTokens(engine, sequences[r], requests[r].context);
    batch.sequences.push_back(sequences[r]);
    batch.queryLens.push_back(static_cast<int32_t>(query));
  }
  planStep(plan, batch, nullptr);
  StepFunction function = plannedFunction(session, plan);
  requireLatents(function, widths);
  check(mla_cache_poison(engine, 0), "poisoning the cache");
  check(mla_engine_poison_workspace(engine), "poisoning the workspace");
  auto makeRows = [&](size_t r) {
    return makeCachedRows(session, options.seed + 1000 + r, requests[r].context + query);
  };
  for (size_t r = 0; r < requests.size(); ++r)
    writeRows(session, engine, sequences[r], makeRows(r));
  Latents step = runLatents(session, plan, function, batch.tokens(), options.seed + 500);

  ErrorMeasure errors;
  double scale = session.info.at("model").at("softmax_scale");
  for (const Sample &sample : chooseSamples(requests, options)) {
    showProgress("reference of request " + std::to_string(sample.request));
    std::vector<float> rows = decodeRows(session, encodeRows(session, makeRows(sample.request)));
    for (int64_t row : sample.rows) {
      int64_t token = static_cast<int64_t>(sample.request) * query + row;
      int64_t latentOffset = token * widths.heads * widths.latent;
      std::vector<double> expected = attend(widths, scale, step.latent.data() + latentOffset,
                                            step.rope.data() + token * widths.heads * widths.rope,
                                            rows, requests[sample.request].context + row + 1);
      errors.addRow(step.output.data() + latentOffset, expected.data(), expected.size());
    }
  }
  return errors;
}

std::vector<Finding> mlac::run::checkLatents(const Session &session, const CheckOptions &options) {
  if (!session.info.at("weights").empty())
    throw std::runtime_error("the package's functions take no hidden states (mla-compile "
                             "--inputs=latents, --cached): the reference knows whole layers, from "
                             "hidden states on, and attention alone");
  constexpr int64_t kSeveral = 5;
  int64_t longest = options.queryLen.value_or(longestQuery(session, kSeveral));
  Engine engine = makeEngine(session, getCheckSizes(session, options, longest));
  bindLayer(session, engine.get(), {});
  Plan plan;
  check(mla_plan_create(engine.get(), plan.out()), "making a plan");
  std::vector<int64_t> queries = {1};
  if (options.queryLen)
    queries = {longest};
  else if (longest > 1)
    queries.push_back(longest);
  std::vector<Finding> findings;
  for (int64_t query : queries)
    findings.push_back({describeRequests(makeRequests(options, query), options),
                        runRequests(session, engine.get(), plan.get(), query, options)});
  return findings;
}
