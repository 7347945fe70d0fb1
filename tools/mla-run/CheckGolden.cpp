//===- CheckGolden.cpp - checks a package against stored outputs ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Check.h"
#include "Functions.h"

#include <algorithm>

using namespace mlac::run;

namespace {
/// Inputs and outputs of whole sequences: [sequences][tokens, H].
struct Golden {
  int64_t sequences, tokens, width;
  std::vector<float> inputs;
  std::vector<double> outputs;

  const float *input(int64_t sequence, int64_t token) const {
    return inputs.data() + (sequence * tokens + token) * width;
  }
  const double *output(int64_t sequence, int64_t token) const {
    return outputs.data() + (sequence * tokens + token) * width;
  }
};

/// One request: which stored sequence it repeats, and its new tokens per step.
struct Request {
  int64_t source;
  std::vector<int64_t> pieces;
};

/// A way of cutting sequences into steps.
struct Scenario {
  std::string name;
  std::vector<Request> requests;
  const char *function = nullptr; // null: the runtime chooses
};

/// How an engine is set up for every scenario.
struct Variant {
  std::string name;
  bool hasSmallChunks;
  int64_t processors;
};
} // namespace

static Golden readGolden(const Session &session, const Checkpoint &file, const ModuleNames &names) {
  std::vector<int64_t> shape = file.shape(names.input);
  if (shape.size() != 3 || shape[2] != session.hidden || file.shape(names.output) != shape)
    throw std::runtime_error("'" + names.input + "' and '" + names.output +
                             "': expected [batch, tokens, " + std::to_string(session.hidden) +
                             "] as the package's hidden size says");
  std::vector<float> outputs = file.read(names.output);
  return {shape[0], shape[1], shape[2], file.read(names.input), {outputs.begin(), outputs.end()}};
}

//===----------------------------------------------------------------------===//
// Scenarios
//===----------------------------------------------------------------------===//

/// Lengths around a page, around half, one token and everything.
static std::vector<int64_t> makePrefixes(int64_t tokens, int64_t page) {
  std::vector<int64_t> prefixes = {tokens, 1, tokens / 2, page - 1, page, page + 1, tokens - 1};
  for (int64_t &prefix : prefixes)
    prefix = std::clamp<int64_t>(prefix, 1, tokens);
  return prefixes;
}

/// Requests that all cut their sequence alike; `pieces` need not reach the end.
static std::vector<Request> cutAlike(const Golden &golden, const std::vector<int64_t> &pieces) {
  std::vector<Request> requests;
  for (int64_t source = 0; source < golden.sequences; ++source)
    requests.push_back({source, pieces});
  return requests;
}

/// The user's lengths, then the rest token by token.
static std::vector<Scenario> makeUserScenario(const Golden &golden,
                                              const std::vector<int64_t> &lens) {
  std::vector<int64_t> pieces;
  int64_t left = golden.tokens;
  for (int64_t len : lens) {
    pieces.push_back(std::min(len, left));
    left -= pieces.back();
  }
  pieces.insert(pieces.end(), left, 1);
  return {{"prefill as given, then decode", cutAlike(golden, pieces)}};
}

static Scenario makeChunks(const Golden &golden, int64_t page) {
  int64_t first = std::clamp<int64_t>(page + 1, 1, std::max<int64_t>(golden.tokens / 2, 1));
  int64_t second = std::min<int64_t>(1, golden.tokens - first);
  int64_t third = (golden.tokens - first - second) / 2;
  int64_t rest = golden.tokens - first - second - third;
  return {"prefill in 4 steps over cached context", cutAlike(golden, {first, second, third, rest}),
          "prefill"};
}

static Scenario makeRagged(const Golden &golden, int64_t page) {
  Scenario scenario{"ragged prefill, two steps (some empty)", {}, "prefill"};
  for (int64_t prefix : makePrefixes(golden.tokens, page))
    scenario.requests.push_back({static_cast<int64_t>(scenario.requests.size()) % golden.sequences,
                                 {prefix, golden.tokens - prefix}});
  return scenario;
}

/// Ragged contexts, a few tokens decoded one by one.
static Scenario makeRaggedDecode(const Golden &golden, int64_t page) {
  constexpr int64_t kDecoded = 4;
  Scenario scenario{"ragged decode after prefill", {}};
  for (int64_t prefix : makePrefixes(golden.tokens, page)) {
    std::vector<int64_t> pieces(kDecoded + 1, 1);
    pieces[0] = std::max<int64_t>(std::min(prefix, golden.tokens - kDecoded), 0);
    scenario.requests.push_back(
        {static_cast<int64_t>(scenario.requests.size()) % golden.sequences, pieces});
  }
  return scenario;
}

/// One step with decodes in front of prefills, all over different contexts; by `step`
/// where the package has it, since that is what the runtime then chooses.
static Scenario makeMixed(const Golden &golden) {
  int64_t tokens = golden.tokens;
  Scenario scenario{"decodes and prefills in one step", {}};
  for (int64_t context : {tokens - 1, tokens / 2, int64_t{0}, tokens / 3, int64_t{1}}) {
    bool isDecode = scenario.requests.size() < 2;
    scenario.requests.push_back({static_cast<int64_t>(scenario.requests.size()) % golden.sequences,
                                 {context, isDecode ? 1 : tokens - context}});
  }
  return scenario;
}

/// Request r begins at step r: contexts of all lengths, without a prefill.
static Scenario makeStaggered(const Golden &golden) {
  constexpr int64_t kRequests = 5;
  Scenario scenario{"staggered decode token by token", {}};
  int64_t least = std::max<int64_t>(golden.tokens - kRequests, 1);
  for (int64_t r = 0; r < kRequests; ++r) {
    std::vector<int64_t> pieces(r, 0);
    pieces.insert(pieces.end(), least, 1);
    pieces.resize(least + kRequests, 0);
    scenario.requests.push_back({r % golden.sequences, pieces});
  }
  return scenario;
}

/// What a package can do whose functions take so many new tokens of a request at most.
static std::vector<Scenario> keepShort(std::vector<Scenario> scenarios, int64_t longest) {
  std::erase_if(scenarios, [&](const Scenario &scenario) {
    return std::any_of(
        scenario.requests.begin(), scenario.requests.end(), [&](const Request &request) {
          return *std::max_element(request.pieces.begin(), request.pieces.end()) > longest;
        });
  });
  return scenarios;
}

static std::vector<Scenario> makeScenarios(const Golden &golden, int64_t page) {
  return {{"prefill in one step", cutAlike(golden, {golden.tokens}), "prefill"},
          makeChunks(golden, page),
          makeRagged(golden, page),
          makeMixed(golden),
          {"decode token by token", cutAlike(golden, std::vector<int64_t>(golden.tokens, 1))},
          makeRaggedDecode(golden, page)};
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

static EngineSizes getSizes(const Golden &golden, const Scenario &scenario, int64_t page) {
  EngineSizes sizes;
  sizes.sequenceTokens = golden.tokens;
  sizes.requests = scenario.requests.size();
  for (size_t step = 0; step < scenario.requests[0].pieces.size(); ++step) {
    int64_t tokens = 0;
    for (const Request &request : scenario.requests)
      tokens += request.pieces[step];
    sizes.tokens = std::max(sizes.tokens, tokens);
  }
  // Three pages more than needed: they stay poisoned.
  sizes.pages = sizes.requests * ((golden.tokens + page - 1) / page) + 3;
  return sizes;
}

/// The inputs of a step's new tokens; `done[r]` tokens came before.
static std::vector<float> gatherInputs(const Golden &golden, const Scenario &scenario, size_t step,
                                       const std::vector<int64_t> &done) {
  std::vector<float> hidden;
  for (size_t r = 0; r < scenario.requests.size(); ++r) {
    const Request &request = scenario.requests[r];
    const float *first = golden.input(request.source, done[r]);
    hidden.insert(hidden.end(), first, first + request.pieces[step] * golden.width);
  }
  return hidden;
}

/// Outputs of every step on one rank.
static std::vector<std::vector<float>> runOnRank(const Session &session,
                                                 const LayerWeights &weights,
                                                 const EngineSizes &sizes, const Golden &golden,
                                                 const Scenario &scenario) {
  Engine engine = makeEngine(session, sizes);
  bindLayer(session, engine.get(), weights);
  Plan plan;
  check(mla_plan_create(engine.get(), plan.out()), "making a plan");
  Sequences sequences(engine.get(), scenario.requests.size());
  check(mla_cache_poison(engine.get(), 0), "poisoning the cache");
  check(mla_engine_poison_workspace(engine.get()), "poisoning the workspace");

  std::vector<int64_t> done(scenario.requests.size(), 0);
  std::vector<std::vector<float>> outputs;
  for (size_t step = 0; step < scenario.requests[0].pieces.size(); ++step) {
    Batch batch;
    for (size_t r = 0; r < scenario.requests.size(); ++r) {
      batch.sequences.push_back(sequences[r]);
      batch.queryLens.push_back(scenario.requests[r].pieces[step]);
    }
    planStep(plan.get(), batch, scenario.function);
    outputs.push_back(runStep(session, plan.get(), gatherInputs(golden, scenario, step, done)));
    for (size_t r = 0; r < done.size(); ++r)
      done[r] += scenario.requests[r].pieces[step];
  }
  return outputs;
}

static ErrorMeasure compareSteps(const Golden &golden, const Scenario &scenario,
                                 const std::vector<std::vector<float>> &outputs) {
  ErrorMeasure errors;
  std::vector<int64_t> done(scenario.requests.size(), 0);
  for (size_t step = 0; step < outputs.size(); ++step) {
    const float *row = outputs[step].data();
    for (size_t r = 0; r < scenario.requests.size(); ++r) {
      const Request &request = scenario.requests[r];
      for (int64_t i = 0; i < request.pieces[step]; ++i, row += golden.width)
        errors.addRow(row, golden.output(request.source, done[r] + i), golden.width);
      done[r] += request.pieces[step];
    }
  }
  return errors;
}

/// The ranks of a tensor-parallel package run one after the other here; their
/// outputs are added, as the caller's all-reduce would.
static ErrorMeasure runScenario(const Session &session, const LayerWeights &weights,
                                EngineSizes sizes, const Golden &golden, const Scenario &scenario) {
  std::vector<std::vector<float>> total;
  for (sizes.rank = 0; sizes.rank < session.ranks; ++sizes.rank) {
    std::vector<std::vector<float>> outputs = runOnRank(session, weights, sizes, golden, scenario);
    if (total.empty()) {
      total = std::move(outputs);
      continue;
    }
    for (size_t step = 0; step < total.size(); ++step)
      for (size_t i = 0; i < total[step].size(); ++i)
        total[step][i] += outputs[step][i];
  }
  return compareSteps(golden, scenario, total);
}

std::vector<Finding> mlac::run::checkGolden(const Session &session, const LayerWeights &weights,
                                            const Checkpoint &file, const ModuleNames &names,
                                            const CheckOptions &options) {
  Golden golden = readGolden(session, file, names);
  requireDense(session, golden.tokens);
  std::vector<Scenario> scenarios = options.prefillLens.empty()
                                        ? makeScenarios(golden, session.pageSize)
                                        : makeUserScenario(golden, options.prefillLens);
  int64_t longest = longestQuery(session, golden.tokens);
  if (longest < golden.tokens && options.prefillLens.empty())
    scenarios.push_back(makeStaggered(golden));
  scenarios = keepShort(std::move(scenarios), longest);
  if (scenarios.empty())
    throw std::runtime_error("the package's functions take queries of at most " +
                             std::to_string(longest) + " tokens, which no given step keeps to");
  constexpr int64_t kManyProcessors = 132; // an H200's
  std::vector<Variant> variants = {{"", false, 1},
                                   {" (small chunks, splits)", true, kManyProcessors}};
  if (options.chunkTokens && options.processors)
    variants.pop_back();
  std::vector<Finding> findings;
  for (const Variant &variant : variants)
    for (const Scenario &scenario : scenarios) {
      showProgress(scenario.name + variant.name);
      EngineSizes sizes = getSizes(golden, scenario, session.pageSize);
      // The least workspace makes most chunks, many processors make most splits.
      sizes.workspaceTokens = variant.hasSmallChunks ? sizes.requests * session.pageSize : 0;
      if (options.chunkTokens)
        sizes.workspaceTokens = options.chunkTokens;
      sizes.processors = options.processors.value_or(variant.processors);
      findings.push_back(
          {scenario.name + variant.name, runScenario(session, weights, sizes, golden, scenario)});
    }
  return findings;
}
