//===- CheckReference.cpp - checks a package against the float64 reference ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Check.h"
#include "Functions.h"

#include <algorithm>
#include <cstring>

using namespace mlac::run;

std::vector<CachedRequest> mlac::run::makeRequests(const CheckOptions &options, int64_t query) {
  std::vector<CachedRequest> requests;
  int64_t count = options.batch ? options.batch : options.contexts.size();
  for (int64_t i = 0; i < count; ++i)
    requests.push_back({options.contexts[i % options.contexts.size()], query});
  return requests;
}

std::vector<Sample> mlac::run::chooseSamples(const std::vector<CachedRequest> &requests,
                                             const CheckOptions &options) {
  size_t kinds = std::min(options.contexts.size(), requests.size());
  size_t chosen = std::min<size_t>(options.samples, requests.size());
  std::vector<Sample> samples;
  for (size_t i = 0; i < chosen; ++i) {
    // A step of requests.size() / chosen alone would meet one context again and again.
    size_t kind = chosen < kinds ? kinds - 1 - i * kinds / chosen : i % kinds;
    size_t alike = (requests.size() - kind + kinds - 1) / kinds; // every so many are of one context
    size_t request = (alike - 1 - i * alike / chosen) * kinds + kind;
    Sample sample{request, {0}};
    if (requests[request].query > 1)
      sample.rows.push_back(requests[request].query - 1);
    samples.push_back(sample);
  }
  return samples;
}

std::vector<float> mlac::run::makeCachedRows(const Session &session, uint64_t seed,
                                             int64_t tokens) {
  return randomBf16(seed, tokens * session.rowWidth, 1.0);
}

void mlac::run::writeRows(const Session &session, mla_engine *engine, mla_sequence sequence,
                          const std::vector<float> &rows) {
  int64_t tokens = rows.size() / session.rowWidth, count = 0;
  (void)mla_sequence_pages(engine, sequence, nullptr, 0, &count);
  std::vector<int32_t> pages(count);
  check(mla_sequence_pages(engine, sequence, pages.data(), count, &count), "asking for pages");
  std::vector<uint8_t> bytes = encodeRows(session, rows);
  size_t rowBytes = tokens ? bytes.size() / tokens : 0;
  for (int64_t first = 0; first < tokens; first += session.pageSize) {
    int64_t slot = pages[first / session.pageSize] * session.pageSize;
    check(mla_cache_write(engine, 0, 0, slot, std::min(session.pageSize, tokens - first),
                          bytes.data() + first * rowBytes),
          "writing cache rows");
  }
}

/// New rows as a reader of the cache gets them. Where it holds the activations' type, they stay as
/// exact as they are: then what is rounded is the package's error.
static std::vector<double> storeRows(const Session &session, std::vector<double> rows) {
  if (!session.isCacheQuantized)
    return rows;
  std::vector<float> stored =
      decodeRows(session, encodeRows(session, std::vector<float>(rows.begin(), rows.end())));
  return {stored.begin(), stored.end()};
}

/// Reference output of one sample's rows, compared with the step's.
static void compareSample(const Session &session, const Reference &reference,
                          const CachedRequest &request, const Sample &sample, uint64_t contextSeed,
                          const float *hidden, const float *output, ErrorMeasure &errors) {
  std::vector<float> context = decodeRows(
      session, encodeRows(session, makeCachedRows(session, contextSeed, request.context)));
  std::vector<double> rows(context.begin(), context.end());
  std::vector<double> added =
      storeRows(session, reference.cachedRows(hidden, request.query, request.context));
  rows.insert(rows.end(), added.begin(), added.end());
  std::vector<const float *> queries;
  std::vector<int64_t> positions;
  for (int64_t row : sample.rows) {
    queries.push_back(hidden + row * session.hidden);
    positions.push_back(request.context + row);
  }
  std::vector<double> expected = reference.attend(queries, positions, rows);
  for (size_t i = 0; i < sample.rows.size(); ++i)
    errors.addRow(output + sample.rows[i] * session.hidden, expected.data() + i * session.hidden,
                  session.hidden);
}

static ErrorMeasure runRequests(const Session &session, mla_engine *engine, mla_plan *plan,
                                const Reference &reference,
                                const std::vector<CachedRequest> &requests,
                                const CheckOptions &options) {
  auto contextSeed = [&](size_t r) { return options.seed + 1000 + r; };
  Sequences sequences(engine, requests.size());
  for (size_t r = 0; r < requests.size(); ++r)
    takeTokens(engine, sequences[r], requests[r].context);
  check(mla_cache_poison(engine, 0), "poisoning the cache");
  check(mla_engine_poison_workspace(engine), "poisoning the workspace");
  Batch batch;
  std::vector<int64_t> firstRow = {0};
  for (size_t r = 0; r < requests.size(); ++r) {
    writeRows(session, engine, sequences[r],
              makeCachedRows(session, contextSeed(r), requests[r].context));
    batch.sequences.push_back(sequences[r]);
    batch.queryLens.push_back(requests[r].query);
    firstRow.push_back(firstRow.back() + requests[r].query);
  }
  planStep(plan, batch, nullptr);
  std::vector<float> hidden = randomBf16(options.seed + 500, firstRow.back() * session.hidden, 1.0);
  std::vector<float> output = runStep(session, plan, hidden);

  ErrorMeasure errors;
  for (const Sample &sample : chooseSamples(requests, options)) {
    showProgress("reference of request " + std::to_string(sample.request));
    int64_t offset = firstRow[sample.request] * session.hidden;
    compareSample(session, reference, requests[sample.request], sample, contextSeed(sample.request),
                  hidden.data() + offset, output.data() + offset, errors);
  }
  return errors;
}

std::string mlac::run::describeRequests(const std::vector<CachedRequest> &requests,
                                        const CheckOptions &options) {
  std::string contexts;
  for (size_t i = 0; i < std::min(options.contexts.size(), requests.size()); ++i)
    contexts += (i ? "," : "") + std::to_string(options.contexts[i]);
  std::string fresh = std::to_string(requests.front().query);
  if (requests.back().query != requests.front().query)
    fresh += " and " + std::to_string(requests.back().query);
  return std::to_string(requests.size()) + " requests, " + fresh + " new, context " + contexts;
}

EngineSizes mlac::run::getCheckSizes(const Session &session, const CheckOptions &options,
                                     int64_t longestQuery) {
  EngineSizes sizes;
  int64_t pages = 0;
  std::vector<CachedRequest> largest = makeRequests(options, longestQuery);
  for (const CachedRequest &request : largest) {
    int64_t tokens = request.context + request.query;
    sizes.sequenceTokens = std::max(sizes.sequenceTokens, tokens);
    pages += (tokens + session.pageSize - 1) / session.pageSize;
  }
  sizes.requests = largest.size();
  sizes.tokens = std::max<int64_t>(longestQuery * largest.size(), 1);
  sizes.pages = pages + 3; // three stay poisoned
  sizes.workspaceTokens = options.chunkTokens;
  sizes.processors = options.processors.value_or(0);
  return sizes;
}

/// The projections whose activations the package quantises: all whose weights are codes.
static QuantisedProjections findQuantised(const Session &session) {
  QuantisedProjections found;
  if (!session.quantisesActivations)
    return found;
  if (!session.weightBlock.empty()) // as the weights' blocks have
    found.columns = session.weightBlock[1];
  const std::string suffix = ".weight";
  for (const nlohmann::json &weight : session.info.at("weights"))
    if (std::string name = weight.at("name"); weight.at("dtype") == "e4m3")
      found.names.insert(name.substr(0, name.size() - suffix.size()));
  return found;
}

/// What the package says of its layer.
static LayerFacts readFacts(const Session &session, int64_t longestSequence) {
  LayerFacts facts;
  facts.heads = session.heads;
  facts.ranks = session.ranks;
  facts.layer = session.layerNumber();
  facts.longestSequence = longestSequence;
  facts.quantised = findQuantised(session);
  return facts;
}

/// Batches whose requests have one new token, several, and both, decodes in front, where the
/// package takes them.
static std::vector<std::vector<CachedRequest>>
makeBatches(const Session &session, const CheckOptions &options, int64_t longest) {
  if (options.queryLen)
    return {makeRequests(options, longest)};
  std::vector<std::vector<CachedRequest>> batches = {makeRequests(options, 1)};
  if (longest == 1)
    return batches;
  batches.push_back(makeRequests(options, longest));
  if (std::vector<CachedRequest> mixed = batches.back(); hasStep(session) && mixed.size() > 1) {
    for (size_t r = 0; r < mixed.size() / 2; ++r)
      mixed[r].query = 1;
    batches.push_back(std::move(mixed));
  }
  return batches;
}

std::vector<Finding> mlac::run::checkReference(const Session &session, const LayerWeights &weights,
                                               const CheckOptions &options) {
  constexpr int64_t kSeveral = 5;
  int64_t longest = options.queryLen.value_or(longestQuery(session, kSeveral));
  EngineSizes sizes = getCheckSizes(session, options, longest);
  requireDense(session, sizes.sequenceTokens);
  showProgress("binding weights");
  std::unique_ptr<Reference> reference = makeReference(
      session.modelConfig(), readFacts(session, sizes.sequenceTokens), weights.values);
  Engine engine = makeEngine(session, sizes);
  bindLayer(session, engine.get(), weights);
  Plan plan;
  check(mla_plan_create(engine.get(), plan.out()), "making a plan");
  std::vector<Finding> findings;
  for (const std::vector<CachedRequest> &requests : makeBatches(session, options, longest))
    findings.push_back(
        {describeRequests(requests, options),
         runRequests(session, engine.get(), plan.get(), *reference, requests, options)});
  return findings;
}
