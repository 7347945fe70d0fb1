//===- Attention.cpp - a step of absorbed attention, simulated ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Attention.h"

#include "step/WorkPlanner.h"

#include "mla/Dialect/Tile/IR/TileDialect.h"
#include "mla/Pipelines/Pipelines.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlac;
using namespace mlac::test;
using namespace mlir;

/// An index that no table may be read at.
constexpr int32_t kAbsurd = 0x7FFFFFF0;

int64_t AttentionCase::getMaxQueryLen() const {
  int64_t most = 1;
  for (const Request &request : requests)
    most = std::max<int64_t>(most, request.queryLen);
  return most;
}

std::string AttentionCase::getSchedule() const {
  constexpr llvm::StringLiteral automatic = "auto: ";
  StringRef name = schedule;
  name.consume_front(automatic);
  return name.str();
}

int64_t AttentionCase::getTokens() const {
  int64_t tokens = 0;
  for (const Request &request : requests)
    tokens += request.queryLen;
  return tokens;
}

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

static std::string makeGraph(const AttentionCase &test) {
  // {0} heads, {1} rank, {2} RoPE width, {3} page size, {4} queries of a request;
  // {5} to {7} are about the second half of queries, {8} is the scale, {9} the format.
  constexpr const char *text = R"(
!cache = !mla.cache<page_size = {3}, fields = [latent: {1}, rope: {2}], element = bf16, rope_order = half{9}>
func.func @decode(%q: tensor<?x{0}x{1}xbf16> {{mla.input = "q"}, {5} %batch: !mla.batch<query_len = {4}>, %cache: !cache)
    -> (tensor<?x{0}x{1}xbf16> {{mla.output = "output"}) {{
  %o = mla.absorbed_attention query(%q {6} : tensor<?x{0}x{1}xbf16> {7}) over %cache, %batch
      : <page_size = {3}, fields = [latent: {1}, rope: {2}], element = bf16, rope_order = half{9}>, <query_len = {4}>
      scale {8} -> tensor<?x{0}x{1}xbf16>
  return %o : tensor<?x{0}x{1}xbf16>
})";
  bool isUniform = llvm::all_of(test.requests, [&](const Request &request) {
    return request.queryLen == test.getMaxQueryLen();
  });
  std::string queryLen = isUniform ? std::to_string(test.getMaxQueryLen()) : "?";
  std::string type = llvm::formatv("tensor<?x{0}x{1}xbf16>", test.heads, test.rope);
  bool hasRope = test.rope > 0;
  return llvm::formatv(text, test.heads, test.rank, test.rope, test.pageSize, queryLen,
                       hasRope ? "%q_pe: " + type + " {mla.input = \"q_pe\"}," : "",
                       hasRope ? ", %q_pe" : "", hasRope ? ", " + type : "",
                       llvm::formatv("{0:f2}", test.scale).str(),
                       test.isSplit ? ", format = \"split_ckv_kpe\"" : "");
}

bool Attention::lowerToSm90() {
  chosen = "simple";
  for (auto kernel : module->getOps<tile::KernelOp>())
    if (auto schedule = kernel->getAttrOfType<DictionaryAttr>("tile.schedule")) {
      chosen = cast<StringAttr>(schedule.get("kind")).str();
      NamedAttrList entries(schedule);
      for (const auto &[name, value] : test.attributes)
        entries.set(name, Builder(module->getContext()).getI32IntegerAttr(value));
      kernel->setAttr("tile.schedule", entries.getDictionary(module->getContext()));
    }
  PassManager passes(module->getContext());
  buildTileToSm90Pipeline(passes);
  return succeeded(passes.run(*module));
}

//===----------------------------------------------------------------------===//
// Work and plan
//===----------------------------------------------------------------------===//

template <typename T> static std::vector<int32_t> flatten(std::span<const T> records) {
  const auto *first = reinterpret_cast<const int32_t *>(records.data());
  std::vector<int32_t> flat(first, first + records.size_bytes() / sizeof(int32_t));
  flat.resize(std::max<size_t>(flat.size(), 1));
  return flat;
}

void Attention::planWork() {
  runtime::WorkParams params{64, test.heads, 64, 5, 2, 0};
  module->walk([&](tile::WorkOp work) {
    params = {int64_t(work.getKeysPerBlock()),
              int64_t(work.getRowsPerToken()),
              int64_t(work.getRowsPerTile()),
              test.isCut ? 0 : work.getItemCost().convertToDouble(),
              test.isCut ? 0 : work.getMergeCost().convertToDouble(),
              0};
    if (std::optional<ArrayRef<int64_t>> forms = work.getMergeForms())
      for (size_t i = 0; i < forms->size() / 3; ++i)
        params.mergeForms[i] = {(*forms)[3 * i], (*forms)[3 * i + 1], (*forms)[3 * i + 2]};
    params.mergePrograms = work.getMergePrograms().value_or(0);
  });
  std::vector<runtime::WorkRequest> requests;
  int32_t firstToken = 0;
  for (const Request &request : test.requests) {
    requests.push_back({request.seqLen, firstToken, request.queryLen});
    firstToken += request.queryLen;
  }
  runtime::WorkPlanner planner;
  planner.plan(params, requests, test.numSms);
  const runtime::WorkSizes &sizes = planner.sizes();
  std::vector<int32_t> seqLens;
  for (const Request &request : test.requests)
    seqLens.push_back(request.seqLen);
  plan.buffers["seq_lens"] = seqLens;
  plan.buffers["work_starts"] = flatten(planner.starts());
  plan.buffers["work_items"] = flatten(planner.items());
  plan.buffers["merge_items"] = flatten(planner.merges());
  plan.buffers["merge_starts"] = flatten(planner.mergeStarts());
  plan.dims["num_parts"] = sizes.parts;
  plan.dims["num_partials"] = sizes.partials;
  plan.dims["partial_tokens"] = sizes.partialTokens;
  plan.dims["num_merges"] = sizes.merges;
  plan.dims["num_merge_programs"] = sizes.mergePrograms;
  plan.dims["num_tokens"] = test.getTokens();
  plan.dims["num_requests"] = test.requests.size();
  plan.dims["max_query_len"] = test.getMaxQueryLen();
  plan.dims["num_sms"] = test.numSms;
}

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

int64_t Attention::findLatent(int64_t page, int64_t inPage) const {
  int64_t row = test.isSplit ? test.rank : test.rank + test.rope;
  return page * test.pageSize * (test.rank + test.rope) + inPage * row;
}

int64_t Attention::findRope(int64_t page, int64_t inPage) const {
  if (!test.isSplit)
    return findLatent(page, inPage) + test.rank;
  return findLatent(page, test.pageSize) + inPage * test.rope;
}

Attention::Attention(const AttentionCase &test, MLIRContext &context) : test(test) {
  std::string schedule = test.schedule == test.getSchedule() ? test.schedule : "auto";
  if (!lowerToTile(context, makeGraph(test), schedule, test.parameters))
    return;
  planWork();
  int64_t width = test.rank + test.rope, stride = test.pageSize * width, pages = 1, most = 1;
  for (const Request &request : test.requests) {
    int64_t count = llvm::divideCeil(request.seqLen, test.pageSize);
    pages += count;
    most = std::max(most, count);
  }
  plan.dims["num_pages"] = pages;
  plan.dims["page_stride"] = stride;
  plan.dims["max_blocks_per_request"] = most;
  Bits pool(pages * stride, kNaN);
  std::vector<int32_t> table(most * test.requests.size(), kAbsurd);
  int32_t page = pages;
  for (auto [index, request] : llvm::enumerate(test.requests))
    for (int64_t token = 0; token < request.seqLen; ++token) {
      int32_t &entry = table[index * most + token / test.pageSize];
      if (token % test.pageSize == 0)
        entry = --page;
      Bits row = makeRandom(width, 1000 * index + token + 7);
      int64_t inPage = token % test.pageSize;
      std::copy_n(row.begin(), test.rank, &pool[findLatent(entry, inPage)]);
      std::copy_n(row.begin() + test.rank, test.rope, pool.begin() + findRope(entry, inPage));
    }
  plan.buffers["cache"] = pool;
  plan.buffers["block_table"] = table;
  plan.buffers["q"] = makeRandom(test.getTokens() * test.heads * test.rank, 1);
  plan.buffers["q_pe"] =
      makeRandom(test.getTokens() * test.heads * std::max<int64_t>(test.rope, 1), 2);
  plan.buffers["output"] = Bits(test.getTokens() * test.heads * test.rank, kNaN);
  auto planOp = *module->getOps<tile::PlanOp>().begin();
  if (!plan.evaluate(planOp.getBody().front()) || !lowerToSm90())
    chosen.clear();
}

std::vector<double> Attention::computeReference() const {
  const Bits &q = std::get<Bits>(plan.buffers.at("q")),
             &pe = std::get<Bits>(plan.buffers.at("q_pe"));
  const Bits &pool = std::get<Bits>(plan.buffers.at("cache"));
  const auto &table = std::get<std::vector<int32_t>>(plan.buffers.at("block_table"));
  int64_t most = plan.dims.at("max_blocks_per_request");
  std::vector<double> output(test.getTokens() * test.heads * test.rank);
  int64_t token = 0;
  for (auto [index, request] : llvm::enumerate(test.requests))
    for (int64_t query = 0; query < request.queryLen; ++query, ++token)
      for (int64_t head = 0; head < test.heads; ++head) {
        int64_t row = token * test.heads + head;
        int64_t keys = std::max<int64_t>(request.seqLen - request.queryLen + query + 1, 0);
        std::vector<const uint16_t *> latents(keys);
        std::vector<double> weights(keys);
        double max = -INFINITY, sum = 0;
        for (int64_t key = 0; key < keys; ++key) {
          int32_t page = table[index * most + key / test.pageSize];
          latents[key] = &pool[findLatent(page, key % test.pageSize)];
          const uint16_t *ropeKey = pool.data() + findRope(page, key % test.pageSize);
          float score = 0; // order of sums is not compared, only values
          for (int64_t i = 0; i < test.rank; ++i)
            score += toFloat(q[row * test.rank + i]) * toFloat(latents[key][i]);
          for (int64_t i = 0; i < test.rope; ++i)
            score += toFloat(pe[row * test.rope + i]) * toFloat(ropeKey[i]);
          weights[key] = score * test.scale;
          max = std::max(max, weights[key]);
        }
        for (double &weight : weights)
          sum += weight = std::exp(weight - max);
        for (int64_t key = 0; key < keys; ++key)
          for (int64_t i = 0; i < test.rank; ++i)
            output[row * test.rank + i] += weights[key] / sum * toFloat(latents[key][i]);
      }
  return output;
}
