//===- Groups.cpp - a step of grouped attention, simulated ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Groups.h"

#include "CodeRows.h"

#include "mla/Dialect/Tile/IR/TileDialect.h"

#include "llvm/Support/FormatVariadic.h"

#include "gtest/gtest.h"

using namespace mlac;
using namespace mlac::test;
using namespace mlir;

/// Of softmax.
static constexpr double kScale = 0.1;

static unsigned seedOf(unsigned field, int64_t request, int64_t token) {
  return 100000 * (field + 1) + 1000 * request + token + 7;
}

std::string Groups::makeMasks() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (test.hasSink)
    os << "sink(%sink : tensor<" << test.heads << "xf32>) ";
  if (test.window)
    os << "window " << test.window << " ";
  if (test.softcap)
    os << llvm::formatv("softcap {0:f2}", test.softcap);
  return text;
}

std::string Groups::makeGraph() const {
  // {0} heads, {1} and {2} columns of keys and values, {3} types of pools, {4} arguments, {5} what
  // is read, {6} queries of a request, {7} sink, window and cap, {8} scale.
  constexpr const char *text = R"({3}
func.func @decode(%q: tensor<?x{0}x{1}xbf16> {{mla.input = "q"}, %batch: !mla.batch<query_len = {6}>, {4})
    -> (tensor<?x{0}x{2}xbf16> {{mla.output = "output"}) {{
  %o = mla.grouped_attention query(%q : tensor<?x{0}x{1}xbf16>) {5} over %batch
      : !mla.batch<query_len = {6}> {7} scale {8} -> tensor<?x{0}x{2}xbf16>
  return %o : tensor<?x{0}x{2}xbf16>
})";
  // Of prompts nobody knows the length.
  constexpr int64_t kMostKnown = 64;
  int64_t most = getMaxQueryLen(test.requests);
  bool isUniform = most <= kMostKnown && llvm::all_of(test.requests, [&](const Request &request) {
                     return request.queryLen == most;
                   });
  std::string queryLen = isUniform ? std::to_string(most) : "?";
  std::string key = llvm::formatv("key: {0}x{1}", test.kvHeads, test.keyDim);
  std::string value = llvm::formatv("value: {0}x{1}", test.kvHeads, test.valueDim);
  auto pool = [&](StringRef name, int64_t page, const std::string &fields, StringRef format) {
    return llvm::formatv("!{0} = !mla.cache<page_size = {1}, fields = [{2}], element = bf16, "
                         "format = \"{3}{4}\">\n",
                         name, page, fields, format, test.scales.empty() ? "" : "_fp8")
        .str();
  };
  bool isOne = test.valuePage == 0;
  std::string types = isOne ? pool("both", test.keyPage, key + ", " + value, "kv_nhd")
                            : pool("keys", test.keyPage, key, "k_nhd") +
                                  pool("values", test.valuePage, value, "v_nhd");
  std::string sink;
  if (test.hasSink)
    sink = llvm::formatv("%sink: tensor<{0}xf32> {{mla.input = \"sink\"}, ", test.heads).str();
  return llvm::formatv(
      text, test.heads, test.keyDim, test.valueDim, types,
      sink + (isOne ? "%both: !both" : "%keys: !keys, %values: !values {mla.pool = \"values\"}"),
      isOne ? "keys(%both : !both) values(%both : !both)"
            : "keys(%keys : !keys) values(%values : !values)",
      queryLen, makeMasks(), llvm::formatv("{0:f2}", kScale).str());
}

std::vector<float> Groups::storeRow(Data &pool, int64_t place, unsigned field, int64_t width,
                                    unsigned seed) const {
  std::vector<float> values;
  if (!test.scales.empty()) {
    storeCodeRow(&std::get<Codes>(pool)[place], width, /*rope=*/0, /*isGrouped=*/false,
                 test.scales[field], seed, values);
    return values;
  }
  Bits bits = makeRandom(width, seed);
  std::copy_n(bits.begin(), width, &std::get<Bits>(pool)[place]);
  for (uint16_t value : bits)
    values.push_back(toFloat(value));
  return values;
}

/// Fields of a page follow each other, each with the rows of its tokens. The first pool goes
/// without a name.
void Groups::makePool(const std::string &name, int64_t page, ArrayRef<int64_t> widths) {
  int64_t pages = 1, most = 1, row = 0;
  for (const Request &request : test.requests) {
    int64_t count = llvm::divideCeil(request.seqLen, page);
    pages += count;
    most = std::max(most, count);
  }
  for (int64_t width : widths)
    row += width;
  constexpr uint8_t nanCode = 0xFF;
  Data pool = Bits(test.scales.empty() ? pages * page * row : 0, kNaN);
  if (!test.scales.empty())
    pool = Codes(pages * page * row, nanCode);
  std::vector<int32_t> table(most * test.requests.size(), kAbsurd);
  int32_t next = pages;
  bool areValues = name == "values";
  for (auto &field : rows)
    field.resize(test.requests.size());
  for (auto [index, request] : llvm::enumerate(test.requests))
    for (int64_t token = 0; token < request.seqLen; ++token) {
      int32_t &entry = table[index * most + token / page];
      if (token % page == 0)
        entry = --next;
      int64_t start = entry * page * row;
      for (auto [field, width] : llvm::enumerate(widths)) {
        unsigned own = areValues ? 1 : field;
        rows[own][index].push_back(
            storeRow(pool, start + token % page * width, own, width, seedOf(own, index, token)));
        start += page * width;
      }
    }
  std::string prefix = name.empty() ? "" : name + "/";
  if (!test.scales.empty()) {
    assert(test.valuePage == 0 && "codes of keys and values share a pool");
    plan.buffers["cache/scale"] = test.scales;
  }
  plan.buffers[name.empty() ? "cache" : name] = std::move(pool);
  plan.buffers[prefix + "block_table"] = std::move(table);
  plan.dims[prefix + "num_pages"] = pages;
  plan.dims[prefix + "page_stride"] = page * row;
  plan.dims[prefix + "max_blocks_per_request"] = most;
}

Groups::Groups(const GroupsCase &test, MLIRContext &context) : test(test) {
  if (!lowerToTile(context, makeGraph(), test.schedule.empty() ? "auto" : test.schedule,
                   test.parameters))
    return;
  int64_t keyWidth = test.kvHeads * test.keyDim, valueWidth = test.kvHeads * test.valueDim;
  if (test.valuePage == 0) {
    makePool("", test.keyPage, {keyWidth, valueWidth});
  } else {
    makePool("", test.keyPage, keyWidth);
    makePool("values", test.valuePage, valueWidth);
  }
  int64_t rows = countTokens(test.requests) * test.heads;
  plan.buffers["q"] = makeRandom(rows * test.keyDim, 1);
  if (test.hasSink)
    plan.buffers["sink"] = makeSinks();
  plan.buffers["output"] = Bits(rows * test.valueDim, kNaN);
  planPrompts(test.requests, test.numSms, test.isCut, test.hasFixedSizes);
  auto planOp = *module->getOps<tile::PlanOp>().begin();
  if (!plan.evaluate(planOp.getBody().front()) || !lowerToSm90())
    chosen.clear();
}

/// No sink, one beside which nothing counts, and usual ones.
std::vector<float> Groups::makeSinks() const {
  std::vector<float> sinks(test.heads);
  for (int64_t head = 0; head < test.heads; ++head)
    sinks[head] = head % 5 == 0 ? -INFINITY : head % 5 == 1 ? INFINITY : 0.5f * (head % 7) - 1;
  return sinks;
}

void Groups::expectReference() {
  ASSERT_EQ(chosen, test.chosen);
  std::vector<double> expected = computeReference();
  std::optional<Buffers> buffers = runUnderEverySeed(plan, *module, {"output"});
  ASSERT_TRUE(buffers);
  const Bits &output = std::get<Bits>((*buffers)["output"]);
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(toFloat(output[i]), expected[i], kTolerance) << i;
}

std::vector<double> Groups::computeReference() const {
  const Bits &q = std::get<Bits>(plan.buffers.at("q"));
  std::vector<double> output(countTokens(test.requests) * test.heads * test.valueDim);
  int64_t group = test.heads / test.kvHeads, token = 0;
  std::vector<float> sinks = makeSinks();
  for (auto [index, request] : llvm::enumerate(test.requests)) {
    const std::vector<std::vector<float>> &keys = rows[0][index], &values = rows[1][index];
    for (int64_t query = 0; query < request.queryLen; ++query, ++token)
      for (int64_t head = 0; head < test.heads; ++head) {
        int64_t row = token * test.heads + head, kv = head / group;
        int64_t end = std::max<int64_t>(request.seqLen - request.queryLen + query + 1, 0);
        int64_t first = test.window ? std::max<int64_t>(end - test.window, 0) : 0;
        std::vector<double> weights(end);
        double max = -INFINITY, sum = 0;
        for (int64_t key = first; key < end; ++key) {
          for (int64_t i = 0; i < test.keyDim; ++i)
            weights[key] +=
                kScale * toFloat(q[row * test.keyDim + i]) * keys[key][kv * test.keyDim + i];
          if (test.softcap)
            weights[key] = test.softcap * std::tanh(weights[key] / test.softcap);
          max = std::max(max, weights[key]);
        }
        if (test.hasSink && sinks[head] > max)
          max = sinks[head];
        if (max == INFINITY)
          continue; // the output is 0
        if (test.hasSink)
          sum = std::exp(sinks[head] - max);
        for (int64_t key = first; key < end; ++key)
          sum += weights[key] = std::exp(weights[key] - max);
        for (int64_t key = first; key < end; ++key)
          for (int64_t i = 0; i < test.valueDim; ++i)
            output[row * test.valueDim + i] +=
                weights[key] / sum * values[key][kv * test.valueDim + i];
      }
  }
  return output;
}
