//===- ScoresTest.cpp - the indexer's scores in schedules, simulated ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mla.index_scores from the graph through the compiler's pipelines, under 20 orders of events
// each (B39; V4-19 to V4-21 over keys in MXFP4). Codes and weights are small integers, so that
// every result is exact.
//
//===----------------------------------------------------------------------===//

#include "ScheduledStep.h"

#include "mla/Dialect/Tile/IR/TileDialect.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include "gtest/gtest.h"

#include <bit>

using namespace mlac;
using namespace mlac::test;
using namespace mlir;

namespace {

struct ScoresCase {
  std::string name;
  std::string schedule; ///< "" or a forced one; the planner must choose `chosen`
  std::string chosen;
  int64_t heads, width, page;
  std::vector<Request> requests;
  int64_t numSms;
  std::vector<std::string> parameters = {};
  bool isMxfp4 = false;
  /// A slice of the tokens: its first one and how many.
  int64_t first = 0, rows = 0;

  /// Columns that share a scale.
  int64_t group() const { return isMxfp4 ? 32 : 128; }
  int64_t codeBytes() const { return isMxfp4 ? width / 2 : width; }
  int64_t scaleBytes() const { return width / group() * (isMxfp4 ? 1 : 4); }
};

constexpr uint8_t kNanCode = 0x7f;
constexpr float kNone = -12345;

uint8_t encode(float value) {
  llvm::APFloat number(value);
  bool lost;
  number.convert(llvm::APFloat::Float8E4M3FN(), llvm::APFloat::rmNearestTiesToEven, &lost);
  return static_cast<uint8_t>(number.bitcastToAPInt().getZExtValue());
}

/// Of an integer of at most 4.
uint8_t encodeFour(float value) {
  constexpr uint8_t magnitudes[] = {0, 2, 4, 5, 6};
  return magnitudes[int(std::abs(value))] | (value < 0 ? 8 : 0);
}

uint16_t encodeBf16(float value) { return std::bit_cast<uint32_t>(value) >> 16; }

/// A case, lowered and planned. Pools hold NaN where nothing was stored, tables absurd entries
/// where they are not used.
class Scores : public ScheduledStep {
public:
  Scores(const ScoresCase &test, MLIRContext &context);

  int64_t columns() const { return llvm::alignTo(longest(), 64); }
  int64_t rows() const { return test.rows ? test.rows : countTokens(test.requests); }
  /// visit(row, column, score) for all that rows see.
  void forEachSeen(llvm::function_ref<void(int64_t, int64_t, float)> visit) const;

private:
  std::string makeGraph() const;
  void makePool();
  void storeKey(uint8_t *codes, uint8_t *scales, llvm::ArrayRef<float> key, int64_t token) const;
  int64_t longest() const {
    int64_t most = 1;
    for (const Request &request : test.requests)
      most = std::max<int64_t>(most, request.seqLen);
    return most;
  }
  /// Integers that make up a query or a key.
  std::vector<float> draw(unsigned seed, size_t count, int limit) const {
    std::mt19937 engine(seed);
    std::vector<float> values(count);
    for (float &value : values)
      value = float(int(engine() % (2 * limit + 1)) - limit);
    return values;
  }
  static unsigned keySeed(size_t request, int64_t token) { return 1000 * request + token + 7; }
  static float scaleOf(int64_t token, int64_t group) {
    return std::ldexp(1.0f, int((token + group) % 5) - 2);
  }

  ScoresCase test;
};

} // namespace

std::string Scores::makeGraph() const {
  bool isDecode =
      llvm::all_of(test.requests, [](Request request) { return request.queryLen == 1; });
  constexpr const char *text = R"(
!keys = !mla.cache<page_size = {2}, fields = [index: {1}], element = bf16, format = {4}>
func.func @scores(%q: tensor<?x{0}x{1}x{5}> {{mla.input = "q"}, %w: tensor<?x{0}xf32> {{mla.input = "w"},
                  %batch: !mla.batch<query_len = {3}>, %keys: !keys) -> (tensor<?x?xf32> {{mla.output = "scores"}) {{
  %first = arith.constant {6} : index
  %rows = arith.constant {7} : index
  %s = mla.index_scores query(%q : tensor<?x{0}x{1}x{5}>) weights(%w : tensor<?x{0}xf32>)
      over %keys, %batch {8} : !keys, !mla.batch<query_len = {3}> -> tensor<?x?xf32>
  return %s : tensor<?x?xf32>
})";
  return llvm::formatv(text, test.heads, test.width, test.page, isDecode ? "1" : "?",
                       test.isMxfp4 ? "\"index_k_mxfp4\", scale_rule = power_of_two"
                                    : "\"index_k\"",
                       test.isMxfp4 ? "bf16" : "f8E4M3FN", test.first, test.rows,
                       test.rows ? "from %first rows %rows" : "");
}

/// A row of a page in either format.
void Scores::storeKey(uint8_t *codes, uint8_t *scales, llvm::ArrayRef<float> key,
                      int64_t token) const {
  for (int64_t i = 0; i < test.codeBytes(); ++i)
    codes[i] =
        test.isMxfp4 ? encodeFour(key[2 * i]) | encodeFour(key[2 * i + 1]) << 4 : encode(key[i]);
  for (int64_t group = 0; group < test.width / test.group(); ++group) {
    float scale = scaleOf(token, group);
    if (test.isMxfp4)
      scales[group] = std::bit_cast<uint32_t>(scale) >> 23;
    else
      memcpy(scales + 4 * group, &scale, sizeof scale);
  }
}

void Scores::makePool() {
  int64_t pages = 1, most = 1, pageBytes = test.page * (test.codeBytes() + test.scaleBytes());
  for (const Request &request : test.requests) {
    int64_t count = llvm::divideCeil(request.seqLen, test.page);
    pages += count;
    most = std::max(most, count);
  }
  Codes pool(pages * pageBytes, kNanCode);
  std::vector<int32_t> table(most * test.requests.size(), kAbsurd);
  int32_t next = pages;
  for (auto [index, request] : llvm::enumerate(test.requests))
    for (int64_t token = 0; token < request.seqLen; ++token) {
      int32_t &entry = table[index * most + token / test.page];
      if (token % test.page == 0)
        entry = --next;
      int64_t start = entry * pageBytes, place = token % test.page;
      storeKey(&pool[start + place * test.codeBytes()],
               &pool[start + test.page * test.codeBytes() + place * test.scaleBytes()],
               draw(keySeed(index, token), test.width, 4), token);
    }
  plan.buffers["cache"] = std::move(pool);
  plan.buffers["block_table"] = std::move(table);
  plan.dims["num_pages"] = pages;
  plan.dims["page_stride"] = pageBytes;
  plan.dims["max_blocks_per_request"] = most;
}

Scores::Scores(const ScoresCase &test, MLIRContext &context) : test(test) {
  if (!lowerToTile(context, makeGraph(), test.schedule.empty() ? "auto" : test.schedule,
                   test.parameters))
    return;
  std::vector<int32_t> starts{0}, lengths;
  for (const Request &request : test.requests) {
    starts.push_back(starts.back() + request.queryLen);
    lengths.push_back(request.seqLen);
  }
  plan.buffers["query_start_loc"] = starts;
  plan.buffers["seq_lens"] = lengths;
  plan.dims["num_tokens"] = countTokens(test.requests);
  plan.dims["num_requests"] = test.requests.size();
  plan.dims["max_query_len"] = getMaxQueryLen(test.requests);
  plan.dims["max_seq_len"] = longest();
  plan.dims["num_sms"] = test.numSms;
  makePool();
  int64_t tokens = countTokens(test.requests);
  std::vector<float> query = draw(1, tokens * test.heads * test.width, 4);
  if (test.isMxfp4) {
    Bits bits(query.size());
    llvm::transform(query, bits.begin(), encodeBf16);
    plan.buffers["q"] = std::move(bits);
  } else {
    Codes codes(query.size());
    llvm::transform(query, codes.begin(), encode);
    plan.buffers["q"] = std::move(codes);
  }
  plan.buffers["w"] = draw(2, tokens * test.heads, 3);
  plan.buffers["scores"] = std::vector<float>(rows() * columns(), kNone);
  auto planOp = *module->getOps<tile::PlanOp>().begin();
  if (!plan.evaluate(planOp.getBody().front()) || !lowerToSm90())
    chosen.clear();
}

void Scores::forEachSeen(llvm::function_ref<void(int64_t, int64_t, float)> visit) const {
  int64_t tokens = countTokens(test.requests);
  std::vector<float> query = draw(1, tokens * test.heads * test.width, 4),
                     weights = draw(2, tokens * test.heads, 3);
  int64_t row = 0;
  for (auto [index, request] : llvm::enumerate(test.requests))
    for (int64_t j = 0; j < request.queryLen; ++j, ++row)
      for (int64_t s = 0; s < request.seqLen - request.queryLen + j + 1; ++s) {
        std::vector<float> key = draw(keySeed(index, s), test.width, 4);
        float total = 0;
        for (int64_t h = 0; h < test.heads; ++h) {
          float sum = 0;
          for (int64_t d = 0; d < test.width; ++d)
            sum += query[(row * test.heads + h) * test.width + d] * key[d] *
                   scaleOf(s, d / test.group());
          total += weights[row * test.heads + h] * std::max(sum, 0.0f);
        }
        if (row >= test.first && row < test.first + rows())
          visit(row - test.first, s, total);
      }
}

namespace {

class IndexScores : public ::testing::TestWithParam<ScoresCase>, protected Context {};

TEST_P(IndexScores, AreExactUnderEverySeed) {
  Scores scores(GetParam(), context);
  ASSERT_EQ(scores.chosen, GetParam().chosen);
  std::optional<Buffers> buffers = runUnderEverySeed(scores.plan, *scores.module, {"scores"});
  ASSERT_TRUE(buffers);
  const auto &output = std::get<std::vector<float>>((*buffers)["scores"]);
  scores.forEachSeen([&](int64_t row, int64_t column, float expected) {
    ASSERT_EQ(output[row * scores.columns() + column], expected) << row << ", " << column;
  });
}

const ScoresCase kCases[] = {
    // name, schedule, what is chosen, heads, columns, page, {length, queries}, SMs, parameters
    {"decode", "", "scores", 64, 128, 64, {{130, 1}, {0, 1}, {64, 1}, {1, 1}}, 1},
    {"decode_many_blocks", "", "scores", 32, 128, 64, {{700, 1}}, 1, {"scores-stages=2"}},
    {"decode_few_heads", "", "scores", 16, 128, 64, {{65, 1}, {63, 1}}, 4},
    // Heads that fill no tile: TMA cannot copy them without the next token's.
    {"decode_odd_heads", "", "simple", 5, 128, 64, {{65, 1}, {63, 1}}, 4},
    {"decode_small_pages", "", "scores", 16, 128, 16, {{100, 1}, {17, 1}}, 1},
    {"queries", "", "scores", 64, 128, 64, {{130, 3}, {5, 5}, {70, 2}}, 1},
    {"odd_query", "", "scores", 16, 128, 64, {{70, 3}}, 1},
    {"simple_decode", "simple", "simple", 64, 128, 64, {{130, 1}, {63, 1}}, 1},
    {"simple_groups", "", "simple", 16, 256, 64, {{130, 2}, {5, 1}}, 1},
    {"simple_tiny_pages", "", "simple", 16, 128, 4, {{70, 1}}, 1},
};

INSTANTIATE_TEST_SUITE_P(B39, IndexScores, ::testing::ValuesIn(kCases),
                         [](const auto &info) { return info.param.name; });

const ScoresCase kMxfp4Cases[] = {
    {"decode", "", "simple", 64, 128, 64, {{130, 1}, {0, 1}, {64, 1}, {1, 1}}, 1, {}, true},
    {"queries", "", "simple", 5, 128, 16, {{130, 3}, {5, 5}}, 4, {}, true},
    {"one_block", "", "simple", 16, 32, 64, {{70, 2}}, 1, {}, true},
    {"three_blocks", "", "simple", 16, 96, 64, {{70, 1}}, 1, {}, true},
};

INSTANTIATE_TEST_SUITE_P(V4_19_V4_20_V4_21, IndexScores, ::testing::ValuesIn(kMxfp4Cases),
                         [](const auto &info) { return info.param.name; });

// Six tokens of three requests, and those behind the first three, fewer than the slice may have.
const ScoresCase kSliceCases[] = {
    {"slice", "", "scores", 64, 128, 64, {{130, 3}, {5, 5}, {70, 2}}, 1, {}, false, 2, 6},
    {"last_slice", "", "scores", 16, 128, 64, {{70, 3}, {130, 2}}, 1, {}, false, 3, 64},
};

INSTANTIATE_TEST_SUITE_P(V4_48, IndexScores, ::testing::ValuesIn(kSliceCases),
                         [](const auto &info) { return info.param.name; });

class ScoresMutations : public ::testing::Test, protected Context {};

TEST_F(ScoresMutations, AreFound) {
  Scores scores({"scores", "", "scores", 16, 128, 64, {{700, 3}}, 1, {"scores-stages=2"}}, context);
  ASSERT_EQ(scores.chosen, "scores");
  // Of 39: the ring of queries has one stage, whose first turn waits for nobody.
  EXPECT_GE(scores.countFoundMutations("scores", "scores"), 37u);
}

} // namespace
