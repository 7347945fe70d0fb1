//===- RowsTest.cpp - rows normalised, rotated and appended ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The sm90 kernels of what mla-fuse-rows makes, out of the operations that it makes them of,
// against float64. Some rows have no place in the pool. Outputs and pools start as NaN.
//
//===----------------------------------------------------------------------===//

#include "CodeRows.h"
#include "ScheduledStep.h"

#include "llvm/Support/FormatVariadic.h"

#include "gtest/gtest.h"

using namespace mlac;
using namespace mlac::test;
using namespace mlir;

namespace {

constexpr int64_t kLength = 64; // positions of the table
constexpr int64_t kPages = 3, kPage = 16;
constexpr float kUntouched = 0x1p100f;

struct RowsCase {
  std::string name;
  int64_t tokens, heads; // heads: 0 where rows are tokens'
  int64_t width, rope, offset;
  bool isInterleaved, hasNorm, hasGamma, isInverse;
  int64_t every;
  std::string target; // "tensor", "latent" or "index"

  /// Gamma has the rows' type.
  bool hasWideRows() const { return hasGamma || (!hasNorm && target != "tensor"); }
};

std::vector<int64_t> makePositions(int64_t tokens) {
  std::vector<int64_t> positions;
  for (int64_t t = 0; t < tokens; ++t)
    positions.push_back((7 * t + 3) % kLength);
  return positions;
}

/// One in five rows has none.
std::vector<int64_t> makeSlots(int64_t tokens) {
  std::vector<int64_t> slots;
  for (int64_t t = 0; t < tokens; ++t)
    slots.push_back(t % 5 == 2 ? (t % 2 ? -1 : kPages * kPage) : (t * 11) % (kPages * kPage));
  return slots;
}

std::string makeGraph(const RowsCase &test) {
  std::string rows = test.heads ? llvm::formatv("?x{0}x{1}", test.heads, test.width).str()
                                : llvm::formatv("?x{0}", test.width).str();
  std::string order = test.isInterleaved ? "interleaved" : "half";
  std::string rope = llvm::formatv("<order = {0}, dim = {1}, theta = 1.0e4, length = {2}>", order,
                                   test.rope, kLength);
  std::string cache = llvm::formatv(
      "!mla.cache<page_size = {0}, fields = [{1}: {2}], element = bf16, rope_order = {3}{4}{5}>",
      kPage, test.target == "index" ? "index" : "latent", test.width, order,
      test.target == "index" ? ", format = \"index_k\", scale_rule = power_of_two" : "",
      test.every > 1 ? llvm::formatv(", tokens_per_row = {0}", test.every).str() : "");
  bool isTensor = test.target == "tensor";
  std::string input = test.hasWideRows() ? "f32" : "bf16";
  std::string between = test.hasNorm ? "f32" : input;
  std::string text = llvm::formatv(
      "func.func @step(%x: tensor<{0}x{1}> {{mla.input = \"x\"}, %g: tensor<{2}xf32> {{mla.weight "
      "= \"g\"}, "
      "%batch: !mla.batch, %cache: {3}) -> {4} {{\n"
      "  %table = mla.rope_table {5} : tensor<?x{6}xf32>\n",
      rows, input, test.width, cache,
      isTensor
          ? llvm::formatv("(tensor<{0}xbf16> {{mla.output = \"output\"}, {1})", rows, cache).str()
          : cache,
      rope, test.rope);
  std::string value = "%x";
  if (test.hasNorm) {
    text += llvm::formatv(
        "  %n = mla.rms_norm %x{0} eps 1.0e-6 : tensor<{1}x{2}>{3} -> tensor<{1}xf32>\n",
        test.hasGamma ? ", %g" : "", rows, input,
        test.hasGamma ? llvm::formatv(", tensor<{0}xf32>", test.width).str() : "");
    value = "%n";
  }
  text += llvm::formatv(
      "  %r = mla.rope {0}, %table, %batch with {1} offset {2}{3}{4} : tensor<{5}x{6}>, "
      "tensor<?x{7}xf32>, <query_len = ?>{8}\n",
      value, rope, test.offset, test.isInverse ? " inverse" : "",
      test.every > 1 ? llvm::formatv(" every {0}", test.every).str() : "", rows, between, test.rope,
      between == "f32" ? llvm::formatv(" -> tensor<{0}xbf16>", rows).str() : "");
  if (isTensor)
    return text +
           llvm::formatv("  return %r, %cache : tensor<{0}xbf16>, {1}\n}", rows, cache).str();
  return text +
         llvm::formatv("  %new = mla.append %r into %cache, %batch : tensor<{0}xbf16> into {1}, "
                       "<query_len = ?>\n  return %new : {1}\n}",
                       rows, cache)
             .str();
}

struct Step : ScheduledStep {
  Step(const RowsCase &test, MLIRContext &context) : test(test) {
    int64_t count = rows() * test.width;
    plan.dims = {{"num_sms", 3},     {"num_tokens", test.tokens}, {"num_pages", kPages},
                 {"page_stride", 0}, {"rope_length", kLength},    {"num_requests", 1}};
    Bits x = makeRandom(count, 1);
    if (test.hasWideRows())
      plan.buffers["x"] = widen(x);
    else
      plan.buffers["x"] = x;
    plan.buffers["g"] = widen(makeRandom(test.width, 2));
    plan.buffers["rope_table"] = widen(makeRandom(kLength * test.rope, 3));
    plan.buffers["positions"] = makePositions(test.tokens);
    plan.buffers["slot_mapping"] = makeSlots(test.tokens);
    plan.buffers["output"] = Bits(count, kNaN);
    if (test.target == "index") {
      plan.dims["page_stride"] = kPage * (test.width + 4);
      plan.buffers["cache"] = Codes(kPages * kPage * (test.width + 4), 0x7F);
      plan.buffers["cache/scale"] =
          std::vector<float>(kPages * kPage * (test.width + 4) / 4, kUntouched);
    } else {
      plan.dims["page_stride"] = kPage * test.width;
      plan.buffers["cache"] = Bits(kPages * kPage * test.width, kNaN);
    }
    isLowered = lowerByPipelines(context, makeGraph(test));
  }
  static std::vector<float> widen(const Bits &bits) {
    std::vector<float> values;
    for (uint16_t value : bits)
      values.push_back(toFloat(value));
    return values;
  }
  int64_t rows() const { return test.tokens * std::max<int64_t>(test.heads, 1); }
  const std::vector<float> &floats(const char *name) const {
    return std::get<std::vector<float>>(plan.buffers.at(name));
  }

  /// Row `row` of the input, normalised and rotated.
  std::vector<double> expect(int64_t row) const {
    const Data &x = plan.buffers.at("x");
    std::vector<double> values;
    double squares = 0;
    for (int64_t i = 0; i < test.width; ++i) {
      int64_t at = row * test.width + i;
      const Bits *bits = std::get_if<Bits>(&x);
      values.push_back(bits ? toFloat((*bits)[at]) : floats("x")[at]);
      squares += values.back() * values.back();
    }
    double factor = 1 / std::sqrt(squares / double(test.width) + 1e-6);
    for (int64_t i = 0; test.hasNorm && i < test.width; ++i)
      values[i] *= factor * (test.hasGamma ? floats("g")[i] : 1);
    int64_t position = makePositions(test.tokens)[row / std::max<int64_t>(test.heads, 1)];
    const float *angles = &floats("rope_table")[position / test.every * test.every * test.rope];
    int64_t half = test.rope / 2;
    for (int64_t i = 0; i < half; ++i) {
      double cos = angles[i], sin = test.isInverse ? -angles[half + i] : angles[half + i];
      double &first = values[test.offset + (test.isInterleaved ? 2 * i : i)];
      double &second = values[test.offset + (test.isInterleaved ? 2 * i + 1 : i + half)];
      double a = first, b = second;
      first = a * cos - b * sin;
      second = b * cos + a * sin;
    }
    return values;
  }

  const RowsCase &test;
  bool isLowered = false;
};

/// A graph whose sizes and buffers a test says.
struct ScheduledStepOfRows : ScheduledStep {
  ScheduledStepOfRows(MLIRContext &context, std::string graph)
      : context(context), graph(std::move(graph)) {}
  bool lower() { return lowerByPipelines(context, graph); }

  MLIRContext &context;
  std::string graph;
};

class Rows : public ::testing::TestWithParam<RowsCase>, protected Context {};

/// bf16, of f32 arithmetic.
void expectBits(const uint16_t *bits, const std::vector<double> &row) {
  for (auto [column, wanted] : llvm::enumerate(row))
    ASSERT_NEAR(toFloat(bits[column]), wanted, std::abs(wanted) * 0x1p-8 + 1e-5) << column;
}

void expectCodes(const uint8_t *codes, float scale, const std::vector<double> &row) {
  double most = 1e-4;
  for (double value : row)
    most = std::max(most, std::abs(value));
  EXPECT_EQ(std::exp2(std::round(std::log2(scale))), scale);
  EXPECT_GE(scale, most / 448 * (1 - 0x1p-7));
  EXPECT_LE(scale, 2 * most / 448 * (1 + 0x1p-7));
  for (auto [column, wanted] : llvm::enumerate(row))
    ASSERT_NEAR(decode(codes[column]) * scale, wanted,
                std::abs(wanted) * (0x1p-4 + 0x1p-8) + scale * 0x1p-9)
        << column;
}

TEST_P(Rows, V4_05_V4_13_AreThoseOfFloat64) {
  const RowsCase &test = GetParam();
  Step step(test, context);
  ASSERT_TRUE(step.isLowered);
  ASSERT_EQ(step.plan.launches.size(), 1u) << "one kernel makes rows";
  bool isTensor = test.target == "tensor";
  std::optional<Buffers> buffers =
      runUnderEverySeed(step.plan, *step.module, {isTensor ? "output" : "cache"});
  ASSERT_TRUE(buffers);
  if (isTensor) {
    for (int64_t row = 0; row < step.rows(); ++row)
      expectBits(&std::get<Bits>((*buffers)["output"])[row * test.width], step.expect(row));
    return;
  }
  std::vector<bool> isWritten(kPages * kPage, false);
  std::vector<int64_t> slots = makeSlots(test.tokens);
  const Data &pool = (*buffers)["cache"];
  for (int64_t t = 0; t < test.tokens; ++t) {
    if (slots[t] < 0 || slots[t] >= kPages * kPage)
      continue;
    isWritten[slots[t]] = true;
    std::vector<double> row = step.expect(t);
    if (test.target == "latent") {
      expectBits(&std::get<Bits>(pool)[slots[t] * test.width], row);
      continue;
    }
    int64_t page = slots[t] / kPage * kPage * (test.width + 4), inPage = slots[t] % kPage;
    const Codes &codes = std::get<Codes>(pool);
    float scale;
    memcpy(&scale, &codes[page + kPage * test.width + inPage * 4], 4);
    expectCodes(&codes[page + inPage * test.width], scale, row);
  }
  for (int64_t slot = 0; slot < kPages * kPage; ++slot)
    if (!isWritten[slot] && test.target == "latent")
      for (int64_t i = 0; i < test.width; ++i)
        ASSERT_EQ(std::get<Bits>(pool)[slot * test.width + i], kNaN) << slot;
}

constexpr int64_t kRank = 512, kRope = 64, kGroup = 128, kDepth = 64;

struct LatentStep : ScheduledStep {
  /// `isKept`: something else reads the latents and rotated keys, too.
  explicit LatentStep(MLIRContext &context, bool isKept = false) {
    plan.dims = {{"num_sms", 3},           {"num_tokens", kTokens},
                 {"num_pages", kPages},    {"page_stride", kPage * kRow},
                 {"rope_length", kLength}, {"num_requests", 1}};
    plan.buffers["x"] = makeRandom(kTokens * kDepth, 1);
    plan.buffers["w"] = makeRandom((kRank + kRope) * kDepth, 2);
    plan.buffers["g"] = makeRandom(kRank, 3);
    plan.buffers["rope_table"] = Step::widen(makeRandom(kLength * kRope, 4));
    plan.buffers["positions"] = makePositions(kTokens);
    plan.buffers["slot_mapping"] = makeSlots(kTokens);
    plan.buffers["cache"] = Codes(kPages * kPage * kRow, 0x7F);
    plan.buffers["latents"] = Bits(kTokens * kRank, kNaN);
    plan.buffers["keys"] = Bits(kTokens * kRope, kNaN);
    const char *graph = R"(
!cache = !mla.cache<page_size = 16, fields = [latent: 512, rope: 64], element = bf16, rope_order = interleaved, format = "fp8_ds_mla">
#rope = #mla.rope<order = interleaved, dim = 64, theta = 1.0e4, length = 64>
func.func @step(%x: tensor<?x64xbf16> {{mla.input = "x"}, %w: tensor<576x64xbf16> {{mla.weight = "w"},
                %g: tensor<512xbf16> {{mla.weight = "g"}, %batch: !mla.batch, %cache: !cache) -> (!cache{0}) {{
  %table = mla.rope_table #rope : tensor<?x64xf32>
  %c, %tail = mla.latent_project %x, %w, %g eps 1.0e-6 : tensor<?x64xbf16>, tensor<576x64xbf16>, tensor<512xbf16>
      -> tensor<?x512xbf16>, tensor<?x64xbf16>
  %k = mla.rope %tail, %table, %batch with #rope : tensor<?x64xbf16>, tensor<?x64xf32>, <query_len = ?>
  %new = mla.append %c, %k into %cache, %batch : tensor<?x512xbf16>, tensor<?x64xbf16> into !cache, !mla.batch
  return %new{1} : !cache{2}
})";
    const char *
        results =
           R"(, tensor<?x512xbf16> {mla.output = "latents"}, tensor<?x64xbf16> {mla.output = "keys"})",
       *types = ", tensor<?x512xbf16>, tensor<?x64xbf16>";
    isLowered =
        lowerByPipelines(context, llvm::formatv(graph, isKept ? results : "",
                                                isKept ? ", %c, %k" : "", isKept ? types : ""));
  }
  /// Products, normalised and rotated.
  std::vector<double> expect(int64_t token) const {
    const auto &x = std::get<Bits>(plan.buffers.at("x")), &w = std::get<Bits>(plan.buffers.at("w")),
               &g = std::get<Bits>(plan.buffers.at("g"));
    std::vector<double> row;
    double squares = 0;
    for (int64_t i = 0; i < kRank + kRope; ++i) {
      double sum = 0;
      for (int64_t k = 0; k < kDepth; ++k)
        sum += double(toFloat(x[token * kDepth + k])) * toFloat(w[i * kDepth + k]);
      row.push_back(sum);
      squares += i < kRank ? sum * sum : 0;
    }
    for (int64_t i = 0; i < kRank; ++i)
      row[i] *= toFloat(g[i]) / std::sqrt(squares / double(kRank) + 1e-6);
    const float *angles = &std::get<std::vector<float>>(
        plan.buffers.at("rope_table"))[makePositions(kTokens)[token] * kRope];
    for (int64_t i = 0; i < kRope / 2; ++i) {
      double a = row[kRank + 2 * i], b = row[kRank + 2 * i + 1];
      double cos = angles[i], sin = angles[kRope / 2 + i];
      row[kRank + 2 * i] = a * cos - b * sin;
      row[kRank + 2 * i + 1] = b * cos + a * sin;
    }
    return row;
  }
  static constexpr int64_t kTokens = 7, kRow = kRank + kRank / kGroup * 4 + kRope * 2;
  bool isLowered = false;
};

class GroupedLatents : public ::testing::TestWithParam<bool>, protected Context {};

/// A scale for each 128 columns of a latent that the product's kernel writes. What is kept beside
/// the cache is of every token, and no codes.
TEST_P(GroupedLatents, B03_AreCodesOfFloat64) {
  LatentStep step(context, GetParam());
  ASSERT_TRUE(step.isLowered);
  ASSERT_EQ(step.plan.launches.size(), 2u) << "a product, and norm, rotation and append";
  std::optional<Buffers> buffers =
      runUnderEverySeed(step.plan, *step.module, {"cache", "latents", "keys"});
  ASSERT_TRUE(buffers);
  const auto &pool = std::get<Codes>((*buffers)["cache"]);
  std::vector<int64_t> slots = makeSlots(LatentStep::kTokens);
  for (int64_t t = 0; t < LatentStep::kTokens; ++t) {
    if (GetParam()) {
      std::vector<double> kept = step.expect(t);
      for (int64_t i = 0; i < kRank + kRope; ++i) {
        uint16_t bits = i < kRank ? std::get<Bits>((*buffers)["latents"])[t * kRank + i]
                                  : std::get<Bits>((*buffers)["keys"])[t * kRope + i - kRank];
        ASSERT_NEAR(toFloat(bits), kept[i], std::abs(kept[i]) * 0x1p-6 + 0x1p-6) << i;
      }
    }
    if (slots[t] < 0 || slots[t] >= kPages * kPage)
      continue;
    const uint8_t *row = &pool[slots[t] * LatentStep::kRow];
    std::vector<double> wanted = step.expect(t);
    for (int64_t group = 0; group < kRank / kGroup; ++group) {
      float scale;
      memcpy(&scale, row + kRank + group * 4, 4);
      double most = 0;
      for (int64_t i = 0; i < kGroup; ++i)
        most = std::max(most, std::abs(wanted[group * kGroup + i]));
      EXPECT_NEAR(scale, most / 448, most / 448 * 0x1p-6);
      for (int64_t i = 0; i < kGroup; ++i)
        ASSERT_NEAR(decode(row[group * kGroup + i]) * scale, wanted[group * kGroup + i],
                    std::abs(wanted[group * kGroup + i]) * (0x1p-4 + 0x1p-6) + scale * 0x1p-8)
            << group << ", " << i;
    }
    for (int64_t i = 0; i < kRope; ++i) {
      uint16_t bits;
      memcpy(&bits, row + kRank + kRank / kGroup * 4 + 2 * i, 2);
      ASSERT_NEAR(toFloat(bits), wanted[kRank + i], std::abs(wanted[kRank + i]) * 0x1p-6 + 0x1p-6);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kept, GroupedLatents, ::testing::Bool());

/// An indexer's keys and queries of few tokens, a program a row.
struct IndexStep : ScheduledStep {
  explicit IndexStep(MLIRContext &context) {
    constexpr int64_t row = kColumns + 4;
    plan.dims = {{"num_sms", 3},           {"num_tokens", kTokens},
                 {"num_pages", kPages},    {"page_stride", kPage * row},
                 {"rope_length", kLength}, {"num_requests", 1}};
    std::vector<float> far = Step::widen(makeRandom(kTokens * kColumns, 1));
    Bits keys; // far from zero, so that a variance from squares would cancel
    for (float value : far)
      keys.push_back(toBf16(20 + value));
    plan.buffers["k"] = keys;
    plan.buffers["g"] = Step::widen(makeRandom(kColumns, 2));
    plan.buffers["u"] = Step::widen(makeRandom(kColumns, 3));
    plan.buffers["q"] = makeRandom(kTokens * kHeads * kColumns, 4);
    plan.buffers["h"] = makeRandom(kTokens * kHeads, 5);
    plan.buffers["rope_table"] = Step::widen(makeRandom(kLength * kRope, 6));
    plan.buffers["positions"] = makePositions(kTokens);
    plan.buffers["slot_mapping"] = makeSlots(kTokens);
    plan.buffers["cache"] = Codes(kPages * kPage * row, 0x7F);
    plan.buffers["codes"] = Codes(kTokens * kHeads * kColumns, 0x7F);
    plan.buffers["weights"] = std::vector<float>(kTokens * kHeads, NAN);
    isLowered = lowerByPipelines(context, R"(
!cache = !mla.cache<page_size = 16, fields = [index: 128], element = bf16, rope_order = half, format = "index_k", scale_rule = power_of_two>
#rope = #mla.rope<order = half, dim = 64, theta = 1.0e4, length = 64>
func.func @step(%k: tensor<?x128xbf16> {mla.input = "k"}, %q: tensor<?x6x128xbf16> {mla.input = "q"}, %h: tensor<?x6xbf16> {mla.input = "h"},
                %g: tensor<128xf32> {mla.weight = "g"}, %u: tensor<128xf32> {mla.weight = "u"}, %batch: !mla.batch, %cache: !cache)
    -> (tensor<?x6x128xf8E4M3FN> {mla.output = "codes"}, tensor<?x6xf32> {mla.output = "weights"}, !cache) {
  %table = mla.rope_table #rope : tensor<?x64xf32>
  %new = mla.index_append %k, %g, %u epsilon 1.0e-6 rope %table with #rope offset 0 into %cache, %batch
      : tensor<?x128xbf16>, tensor<128xf32>, tensor<128xf32> rope tensor<?x64xf32> into !cache, !mla.batch
  %codes, %weights = mla.index_query %q, %h factor 0.125 rope %table, %batch with #rope offset 0 rule <power_of_two> floor 1.0e-38 amax_floor 1.0e-4
      : tensor<?x6x128xbf16>, tensor<?x6xbf16> rope tensor<?x64xf32>, !mla.batch -> tensor<?x6x128xf8E4M3FN>, tensor<?x6xf32>
  return %codes, %weights, %new : tensor<?x6x128xf8E4M3FN>, tensor<?x6xf32>, !cache
})");
  }
  const std::vector<float> &floats(const char *name) const {
    return std::get<std::vector<float>>(plan.buffers.at(name));
  }
  /// The first 64 columns are halves of pairs.
  void rotate(std::vector<double> &row, int64_t token) const {
    const float *angles = &floats("rope_table")[makePositions(kTokens)[token] * kRope];
    for (int64_t i = 0; i < kRope / 2; ++i) {
      double a = row[i], b = row[i + kRope / 2], cos = angles[i], sin = angles[kRope / 2 + i];
      row[i] = a * cos - b * sin;
      row[i + kRope / 2] = b * cos + a * sin;
    }
  }
  std::vector<double> expectKey(int64_t token) const {
    std::vector<double> row;
    for (int64_t i = 0; i < kColumns; ++i)
      row.push_back(toFloat(std::get<Bits>(plan.buffers.at("k"))[token * kColumns + i]));
    double mean = 0, variance = 0;
    for (double value : row)
      mean += value / kColumns;
    for (double value : row)
      variance += (value - mean) * (value - mean) / kColumns;
    for (int64_t i = 0; i < kColumns; ++i)
      row[i] = (row[i] - mean) / std::sqrt(variance + 1e-6) * floats("g")[i] + floats("u")[i];
    rotate(row, token);
    return row;
  }
  std::vector<double> expectQuery(int64_t token, int64_t head) const {
    std::vector<double> row;
    for (int64_t i = 0; i < kColumns; ++i)
      row.push_back(
          toFloat(std::get<Bits>(plan.buffers.at("q"))[(token * kHeads + head) * kColumns + i]));
    rotate(row, token);
    return row;
  }
  static constexpr int64_t kTokens = 6, kHeads = 6, kColumns = 128;
  bool isLowered = false;
};

class IndexRows : public ::testing::Test, protected Context {};

TEST_F(IndexRows, B38_OfFewTokensAreCodesOfFloat64) {
  IndexStep step(context);
  ASSERT_TRUE(step.isLowered);
  ASSERT_EQ(step.plan.launches.size(), 2u);
  EXPECT_EQ(step.plan.launches[0].grid[0], IndexStep::kTokens);
  EXPECT_EQ(step.plan.launches[1].grid[1], IndexStep::kHeads);
  std::optional<Buffers> buffers =
      runUnderEverySeed(step.plan, *step.module, {"cache", "codes", "weights"});
  ASSERT_TRUE(buffers);
  const auto &pool = std::get<Codes>((*buffers)["cache"]),
             &codes = std::get<Codes>((*buffers)["codes"]);
  const auto &weights = std::get<std::vector<float>>((*buffers)["weights"]);
  constexpr int64_t columns = IndexStep::kColumns, heads = IndexStep::kHeads;
  std::vector<int64_t> slots = makeSlots(IndexStep::kTokens);
  for (int64_t t = 0; t < IndexStep::kTokens; ++t) {
    if (slots[t] >= 0 && slots[t] < kPages * kPage) {
      const uint8_t *page = &pool[slots[t] / kPage * kPage * (columns + 4)];
      float scale;
      memcpy(&scale, page + kPage * columns + slots[t] % kPage * 4, 4);
      expectCodes(page + slots[t] % kPage * columns, scale, step.expectKey(t));
    }
    for (int64_t h = 0; h < heads; ++h) {
      int64_t row = t * heads + h;
      float head = toFloat(std::get<Bits>(step.plan.buffers.at("h"))[row]);
      expectCodes(&codes[row * columns], weights[row] / (head * 0.125F), step.expectQuery(t, h));
    }
  }
}

/// A rotation of what a norm made and another one reads changes nothing but the pairs, where it is.
TEST_F(IndexRows, V4_38_RotationInPlace) {
  constexpr int64_t tokens = 3, heads = 2, width = 512, rope = 64;
  ScheduledStepOfRows step(context, R"(
func.func @step(%x: tensor<?x2x512xbf16> {mla.input = "x"}, %batch: !mla.batch) -> (tensor<?x2x512xbf16> {mla.output = "output"}) {
  %table = mla.rope_table <order = interleaved, dim = 64, theta = 1.0e4, length = 64> : tensor<?x64xf32>
  %n = mla.rms_norm %x eps 1.0e-6 : tensor<?x2x512xbf16> -> tensor<?x2x512xbf16>
  %r = mla.rope %n, %table, %batch with <order = interleaved, dim = 64, theta = 1.0e4, length = 64> offset 448 inverse
      : tensor<?x2x512xbf16>, tensor<?x64xf32>, <query_len = ?>
  %y = mla.rms_norm %r eps 1.0e-6 : tensor<?x2x512xbf16> -> tensor<?x2x512xbf16>
  return %y : tensor<?x2x512xbf16>
})");
  step.plan.dims = {{"num_sms", 3}, {"num_tokens", tokens}, {"rope_length", kLength}};
  Bits x = makeRandom(tokens * heads * width, 1);
  step.plan.buffers["x"] = x;
  step.plan.buffers["rope_table"] = Step::widen(makeRandom(kLength * rope, 3));
  step.plan.buffers["positions"] = makePositions(tokens);
  step.plan.buffers["output"] = Bits(x.size(), kNaN);
  ASSERT_TRUE(step.lower());
  ASSERT_EQ(step.plan.launches.size(), 3u);
  EXPECT_EQ(step.plan.launches[1].bindings[0].buffer, step.plan.launches[0].bindings[2].buffer);
  std::optional<Buffers> buffers = runUnderEverySeed(step.plan, *step.module, {"output"});
  ASSERT_TRUE(buffers);
  const auto &output = std::get<Bits>((*buffers)["output"]);
  const auto &table = std::get<std::vector<float>>(step.plan.buffers.at("rope_table"));
  for (int64_t row = 0; row < tokens * heads; ++row) {
    std::vector<double> values;
    for (int64_t i = 0; i < width; ++i)
      values.push_back(toFloat(x[row * width + i]));
    auto normalise = [&] {
      double squares = 0;
      for (double value : values)
        squares += value * value;
      for (double &value : values)
        value /= std::sqrt(squares / width + 1e-6);
    };
    normalise();
    const float *angles = &table[makePositions(tokens)[row / heads] * rope];
    for (int64_t i = 0; i < rope / 2; ++i) {
      double a = values[448 + 2 * i], b = values[449 + 2 * i];
      values[448 + 2 * i] = a * angles[i] + b * angles[rope / 2 + i];
      values[449 + 2 * i] = b * angles[i] - a * angles[rope / 2 + i];
    }
    normalise();
    for (int64_t i = 0; i < width; ++i)
      ASSERT_NEAR(toFloat(output[row * width + i]), values[i], std::abs(values[i]) * 0x1p-6 + 1e-2)
          << row << ", " << i;
  }
}

/// The last 32 tokens, and entries of 4 tokens, as rows of their pools, of two requests of two new
/// tokens each; behind what a request has there is -1, or nothing beyond its longest sequence.
TEST_F(IndexRows, V4_24_V4_31_SeenKeysAreRowsOfThePool) {
  constexpr int64_t tokens = 4, window = 32, most = 2048, every = 4, blocks = 5, longest = 70;
  constexpr int32_t untouched = 0x7FFFFFF0;
  ScheduledStepOfRows step(context, R"(
!near = !mla.cache<page_size = 16, fields = [latent: 512], element = bf16, rope_order = interleaved>
!far = !mla.cache<page_size = 16, fields = [latent: 512], element = bf16, rope_order = interleaved, tokens_per_row = 4>
func.func @step(%batch: !mla.batch, %near: !near, %far: !far {mla.pool = "far"})
    -> (tensor<?xi32> {mla.output = "n"}, tensor<?x32xi32> {mla.output = "near_rows"}, tensor<?xi32> {mla.output = "m"}, tensor<?x2048xi32> {mla.output = "far_rows"}) {
  %n, %k = mla.seen_keys %batch window 32 : !mla.batch -> tensor<?xi32>, tensor<?x32xi32>
  %r = mla.convert_indices %k in %near, %batch : tensor<?x32xi32> in !near, !mla.batch
  %m, %e = mla.seen_keys %batch every 4 : !mla.batch -> tensor<?xi32>, tensor<?x2048xi32>
  %f = mla.convert_indices %e in %far, %batch : tensor<?x2048xi32> in !far, !mla.batch
  return %n, %r, %m, %f : tensor<?xi32>, tensor<?x32xi32>, tensor<?xi32>, tensor<?x2048xi32>
})");
  std::vector<int32_t> lengths = {longest, 5}, starts = {0, 2, 4}, requests = {0, 0, 1, 1};
  std::vector<int32_t> table = {7, 2, 9, 4, 1, 3, -1, 99, 0, 8},
                       farTable = {5, 6, 1, 0, 2, 8, 3, 4, 9, 7};
  step.plan.dims = {{"num_sms", 3},
                    {"num_tokens", tokens},
                    {"num_requests", 2},
                    {"max_seq_len", longest},
                    {"num_pages", 10},
                    {"page_stride", 16 * 512},
                    {"max_blocks_per_request", blocks},
                    {"far/num_pages", 10},
                    {"far/page_stride", 16 * 512},
                    {"far/max_blocks_per_request", blocks}};
  step.plan.buffers["req_id_per_token"] = requests;
  step.plan.buffers["query_start_loc"] = starts;
  step.plan.buffers["seq_lens"] = lengths;
  step.plan.buffers["block_table"] = table;
  step.plan.buffers["far/block_table"] = farTable;
  step.plan.buffers["cache"] = Bits(1);
  step.plan.buffers["far"] = Bits(1);
  step.plan.buffers["n"] = std::vector<int32_t>(tokens, untouched);
  step.plan.buffers["m"] = std::vector<int32_t>(tokens, untouched);
  step.plan.buffers["near_rows"] = std::vector<int32_t>(tokens * window, untouched);
  step.plan.buffers["far_rows"] = std::vector<int32_t>(tokens * most, untouched);
  ASSERT_TRUE(step.lower());
  ASSERT_EQ(step.plan.launches.size(), 2u);
  std::optional<Buffers> buffers =
      runUnderEverySeed(step.plan, *step.module, {"n", "m", "near_rows", "far_rows"});
  ASSERT_TRUE(buffers);
  auto listOf = [&](const char *name) -> const std::vector<int32_t> & {
    return std::get<std::vector<int32_t>>((*buffers)[name]);
  };
  auto rowOf = [&](const std::vector<int32_t> &pages, int64_t request, int64_t key) {
    int32_t page = pages[request * blocks + key / 16];
    return page < 0 || page >= 10 ? -1 : page * 16 + int32_t(key % 16);
  };
  for (int64_t t = 0; t < tokens; ++t) {
    int64_t request = requests[t], seen = lengths[request] - (starts[request + 1] - 1 - t);
    int64_t count = std::min(seen, window), entries = seen / every;
    EXPECT_EQ(listOf("n")[t], count);
    EXPECT_EQ(listOf("m")[t], entries);
    for (int64_t i = 0; i < window; ++i)
      ASSERT_EQ(listOf("near_rows")[t * window + i],
                i < count ? rowOf(table, request, seen - count + i) : -1)
          << t << ", " << i;
    // A program has 1024 places, of which those behind the entries are none.
    for (int64_t i = 0; i < most; ++i)
      ASSERT_EQ(listOf("far_rows")[t * most + i], i < entries ? rowOf(farTable, request, i)
                                                  : i < 1024  ? -1
                                                              : untouched)
          << t << ", " << i;
  }
}

const RowsCase kCases[] = {
    {"heads_of_queries", 3, 4, 512, 64, 448, true, true, false, false, 1, "tensor"},
    {"heads_with_gamma", 3, 2, 128, 64, 0, false, true, true, false, 1, "tensor"},
    {"inverse", 2, 5, 512, 64, 448, true, false, false, true, 1, "tensor"},
    {"rows_of_tokens", 7, 0, 256, 32, 96, false, false, false, false, 1, "tensor"},
    {"latents", 7, 0, 512, 64, 448, true, false, false, false, 1, "latent"},
    {"entries", 9, 0, 512, 64, 448, true, true, true, false, 4, "latent"},
    {"keys_of_an_indexer", 9, 0, 128, 64, 64, true, true, true, false, 4, "index"},
    {"keys_that_are_turned_in_front", 6, 0, 128, 64, 0, false, true, false, false, 1, "index"},
};

INSTANTIATE_TEST_SUITE_P(Cases, Rows, ::testing::ValuesIn(kCases),
                         [](const auto &info) { return info.param.name; });

} // namespace
