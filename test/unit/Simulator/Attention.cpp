//===- Attention.cpp - a step of absorbed attention, simulated ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Attention.h"
#include "CodeRows.h"

#include "mla/Dialect/Tile/IR/TileDialect.h"
#include "mla/Pipelines/Pipelines.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

#include "gtest/gtest.h"

using namespace mlac;
using namespace mlac::test;
using namespace mlir;

std::string AttentionCase::getSchedule() const {
  constexpr llvm::StringLiteral automatic = "auto: ";
  StringRef name = schedule;
  name.consume_front(automatic);
  return name.str();
}

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

static std::string makeGraph(const AttentionCase &test) {
  // {0} heads, {1} rank, {2} RoPE field, {3} page size, {4} queries of a request;
  // {5} to {7} are about the second half of queries, {8} is the scale, {9} the format, {10} how
  // queries lie.
  constexpr const char *text = R"(
!cache = !mla.cache<page_size = {3}, fields = [latent: {1}{2}], element = bf16, rope_order = half{9}>
func.func @decode(%q: tensor<?x{0}x{1}xbf16> {{mla.input = "q"{10}}, {5} %batch: !mla.batch<query_len = {4}>, %cache: !cache)
    -> (tensor<?x{0}x{1}xbf16> {{mla.output = "output"}) {{
  %o = mla.absorbed_attention query(%q {6} : tensor<?x{0}x{1}xbf16> {7}) over %cache, %batch
      : <page_size = {3}, fields = [latent: {1}{2}], element = bf16, rope_order = half{9}>, <query_len = {4}>
      scale {8} -> tensor<?x{0}x{1}xbf16>
  return %o : tensor<?x{0}x{1}xbf16>
})";
  bool isUniform = llvm::all_of(test.requests, [&](const Request &request) {
    return request.queryLen == getMaxQueryLen(test.requests);
  });
  std::string queryLen = isUniform ? std::to_string(getMaxQueryLen(test.requests)) : "?";
  std::string type = llvm::formatv("tensor<?x{0}x{1}xbf16>", test.heads, test.rope);
  bool hasRope = test.rope > 0;
  return llvm::formatv(text, test.heads, test.rank,
                       hasRope ? ", rope: " + std::to_string(test.rope) : "", test.pageSize,
                       queryLen, hasRope ? "%q_pe: " + type + " {mla.input = \"q_pe\"}," : "",
                       hasRope ? ", %q_pe" : "", hasRope ? ", " + type : "",
                       llvm::formatv("{0:f2}", test.scale).str(),
                       test.format.empty() ? "" : ", format = \"" + test.format + "\"",
                       test.areHeadsOutermost ? ", mla.heads_outermost" : "");
}

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

/// Of rows with several types, bytes: those of fp8_ds_mla hold a scale for 128 codes.
int64_t Attention::countRow() const {
  return isGrouped() ? countGroupedRow(test.rank, test.rope) : test.rank + test.rope;
}

int64_t Attention::findLatent(int64_t page, int64_t inPage) const {
  int64_t row = test.format == "split_ckv_kpe" ? test.rank : countRow();
  return page * test.pageSize * countRow() + inPage * row;
}

int64_t Attention::findRope(int64_t page, int64_t inPage) const {
  if (test.format != "split_ckv_kpe")
    return findLatent(page, inPage) + test.rank;
  return findLatent(page, test.pageSize) + inPage * test.rope;
}

/// Everything NaN, whatever its type.
void Attention::makePool(int64_t pages) {
  constexpr uint8_t nanCode = 0xFF;
  int64_t elements = pages * test.pageSize * countRow();
  if (!hasCodes()) {
    plan.buffers["cache"] = Bits(elements, kNaN);
    return;
  }
  plan.buffers["cache"] = Codes(elements, nanCode);
  plan.buffers["cache/scale"] = std::vector<float>{test.cacheScale};
}

void Attention::storeCodes(int64_t page, int64_t inPage, unsigned seed, std::vector<float> &row) {
  float scale = std::get<std::vector<float>>(plan.buffers["cache/scale"])[0];
  Codes &pool = std::get<Codes>(plan.buffers["cache"]);
  storeCodeRow(&pool[findLatent(page, inPage)], test.rank, test.rope, isGrouped(), scale, seed,
               row);
}

void Attention::storeKey(int64_t page, int64_t inPage, unsigned seed, std::vector<float> &row) {
  if (hasCodes())
    return storeCodes(page, inPage, seed, row);
  Bits bits = makeRandom(test.rank + test.rope, seed);
  Bits &pool = std::get<Bits>(plan.buffers["cache"]);
  std::copy_n(bits.begin(), test.rank, &pool[findLatent(page, inPage)]);
  std::copy_n(bits.begin() + test.rank, test.rope, pool.begin() + findRope(page, inPage));
  for (uint16_t value : bits)
    row.push_back(toFloat(value));
}

static Bits makeQueries(const AttentionCase &test, int64_t columns, unsigned seed) {
  Bits queries = makeRandom(test.getTokens() * test.heads * columns, seed);
  for (uint16_t &query : queries)
    query = toBf16(toFloat(query) / test.getKeySize());
  return queries;
}

Attention::Attention(const AttentionCase &test, MLIRContext &context) : test(test) {
  std::string schedule = test.schedule == test.getSchedule() ? test.schedule : "auto";
  if (!lowerToTile(context, makeGraph(test), schedule, test.parameters))
    return;
  planWork(test.requests, test.numSms, test.isCut);
  int64_t pages = 1, most = 1;
  for (const Request &request : test.requests) {
    int64_t count = llvm::divideCeil(request.seqLen, test.pageSize);
    pages += count;
    most = std::max(most, count);
  }
  plan.dims["num_pages"] = pages;
  plan.dims["page_stride"] = test.pageSize * countRow();
  plan.dims["max_blocks_per_request"] = most;
  makePool(pages);
  keys.resize(test.requests.size());
  std::vector<int32_t> table(most * test.requests.size(), kAbsurd);
  int32_t page = pages;
  for (auto [index, request] : llvm::enumerate(test.requests))
    for (int64_t token = 0; token < request.seqLen; ++token) {
      int32_t &entry = table[index * most + token / test.pageSize];
      if (token % test.pageSize == 0)
        entry = --page;
      storeKey(entry, token % test.pageSize, 1000 * index + token + 7, keys[index]);
    }
  plan.buffers["block_table"] = table;
  plan.buffers["q"] = makeQueries(test, test.rank, 1);
  plan.buffers["q_pe"] = makeQueries(test, std::max<int64_t>(test.rope, 1), 2);
  plan.buffers["output"] = Bits(test.getTokens() * test.heads * test.rank, kNaN);
  auto planOp = *module->getOps<tile::PlanOp>().begin();
  if (!plan.evaluate(planOp.getBody().front()) || !lowerToSm90())
    chosen.clear();
}

void Attention::expectReference() {
  ASSERT_EQ(chosen, test.getSchedule());
  std::vector<double> expected = computeReference();
  std::optional<Buffers> buffers = runUnderEverySeed(plan, *module, {"output"});
  ASSERT_TRUE(buffers);
  const Bits &output = std::get<Bits>((*buffers)["output"]);
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(toFloat(output[i]), expected[i], kTolerance * test.getKeySize()) << i;
}

std::vector<double> Attention::computeReference() const {
  const Bits &q = std::get<Bits>(plan.buffers.at("q")),
             &pe = std::get<Bits>(plan.buffers.at("q_pe"));
  int64_t width = test.rank + test.rope;
  std::vector<double> output(test.getTokens() * test.heads * test.rank);
  int64_t token = 0;
  for (auto [index, request] : llvm::enumerate(test.requests))
    for (int64_t query = 0; query < request.queryLen; ++query, ++token)
      for (int64_t head = 0; head < test.heads; ++head) {
        int64_t row = token * test.heads + head, latentRow = test.findQuery(token, head);
        int64_t count = std::max<int64_t>(request.seqLen - request.queryLen + query + 1, 0);
        std::vector<double> weights(count);
        double max = -INFINITY, sum = 0;
        for (int64_t key = 0; key < count; ++key) {
          const float *latent = &keys[index][key * width], *ropeKey = latent + test.rank;
          float score = 0; // order of sums is not compared, only values
          for (int64_t i = 0; i < test.rank; ++i)
            score += toFloat(q[latentRow * test.rank + i]) * latent[i];
          for (int64_t i = 0; i < test.rope; ++i)
            score += toFloat(pe[row * test.rope + i]) * ropeKey[i];
          weights[key] = score * test.scale;
          max = std::max(max, weights[key]);
        }
        for (double &weight : weights)
          sum += weight = std::exp(weight - max);
        for (int64_t key = 0; key < count; ++key)
          for (int64_t i = 0; i < test.rank; ++i)
            output[row * test.rank + i] += weights[key] / sum * keys[index][key * width + i];
      }
  return output;
}
