//===- CodedProductsTest.cpp - products with weights that are codes ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From the `mla` graph to sm90 kernels by the compiler's own pipelines, against plain loops over
// codes times scales: those of weights, and those of activations, which are quantised here, too.
// Outputs and workspaces start as NaN.
//
//===----------------------------------------------------------------------===//

#include "CodeRows.h"
#include "ScheduledStep.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include "gtest/gtest.h"

using namespace mlac;
using namespace mlac::test;
using namespace mlir;

namespace {

struct CodedCase {
  /// plain, bias, heads (the last 64 rows of three times as many), per_head (each head's columns
  /// of a token with a weight of its own, as absorbed ones are), latents, chain (of a latent whose
  /// norm makes codes, as many columns as the depth has).
  std::string name, op;
  int64_t tokens, columns, depth, blockRows, blockColumns;
  bool quantises = false; ///< activations

  int64_t width() const { return op == "per_head" ? 2 * depth : depth; }
  /// Columns of a token that have one scale: all beside weights without blocks.
  int64_t group() const { return blockColumns == 0 ? width() : kCodeGroup; }
};

constexpr int64_t kHeads = 2, kHeadRows = 192, kUsedRows = 64, kOther = 128;

/// A weight's arguments and its values; a digit tells several apart.
std::string makeArguments(const CodedCase &test, int64_t rows, int number) {
  auto grid = [](int64_t size, int64_t step) { return step ? llvm::divideCeil(size, step) : 1; };
  return llvm::formatv("%c{0}: tensor<{1}x{2}xf8E4M3FN> {{mla.weight = \"c{0}\"}, "
                       "%s{0}: tensor<{3}x{4}xf32> {{mla.weight = \"s{0}\"}",
                       number, rows, test.depth, grid(rows, test.blockRows),
                       grid(test.depth, test.blockColumns));
}
std::string makeWeight(const CodedCase &test, int64_t rows, int number) {
  auto grid = [](int64_t size, int64_t step) { return step ? llvm::divideCeil(size, step) : 1; };
  return llvm::formatv("%w{0} = mla.scaled_weight %c{0}, %s{0} block [{1}, {2}] : "
                       "tensor<{3}x{4}xf8E4M3FN>, tensor<{5}x{6}xf32> -> tensor<{3}x{4}xbf16>\n",
                       number, test.blockRows, test.blockColumns, rows, test.depth,
                       grid(rows, test.blockRows), grid(test.depth, test.blockColumns));
}

std::string makeGraph(const CodedCase &test) {
  std::string x = llvm::formatv("tensor<?x{0}xbf16>", test.depth);
  std::string y = llvm::formatv("tensor<?x{0}xbf16>", test.columns);
  std::string arguments = "%x: " + x + " {mla.input = \"x\"}, ";
  std::string coded =
      test.quantises
          ? llvm::formatv("  %a = mla.coded_rows %x group {0} : {1}\n", test.group(), x).str()
          : std::string();
  std::string in = test.quantises ? "%a" : "%x";
  if (test.op == "chain") {
    std::string z = llvm::formatv("tensor<?x{0}xbf16>", kOther);
    return "func.func @step(" + arguments + makeArguments(test, test.columns, 0) + ", " +
           makeArguments(test, kOther, 1) +
           llvm::formatv(
               R"(, %g: tensor<{0}xbf16> {{mla.weight = "g"}) -> ({1} {{mla.output = "tail"}) {{
)",
               test.columns, z)
               .str() +
           makeWeight(test, test.columns, 0) + makeWeight(test, kOther, 1) + coded +
           llvm::formatv(R"(
  %y = mla.latent_project {6}, %w0, %g eps 1.0e-6 {{codes_group = 128 : i64} : {0}, tensor<{1}x{2}xbf16>, tensor<{1}xbf16> -> {3}
  %z = mla.project %y, %w1 : {3}, tensor<{4}x{2}xbf16> -> {5}
  return %z : {5}
})",
                         x, test.columns, test.depth, y, kOther, z, in)
               .str();
  }
  if (test.op == "latents") {
    std::string z = llvm::formatv("tensor<?x{0}xbf16>", kOther);
    return "func.func @step(" + arguments + makeArguments(test, test.columns, 0) + ", " +
           makeArguments(test, kOther, 1) +
           llvm::formatv(
               R"(, %g: tensor<{0}xbf16> {{mla.weight = "g"}, %h: tensor<{1}xbf16> {{mla.weight = "h"})
    -> ({2} {{mla.output = "output"}, {3} {{mla.output = "tail"}) {{
)",
               test.columns, kOther, y, z)
               .str() +
           makeWeight(test, test.columns, 0) + makeWeight(test, kOther, 1) + coded +
           llvm::formatv(R"(
  %y = mla.latent_project {6}, %w0, %g eps 1.0e-6 : {0}, tensor<{1}x{2}xbf16>, tensor<{1}xbf16> -> {3}
  %z = mla.latent_project {6}, %w1, %h eps 1.0e-6 : {0}, tensor<{4}x{2}xbf16>, tensor<{4}xbf16> -> {5}
  return %y, %z : {3}, {5}
})",
                         x, test.columns, test.depth, y, kOther, z, in)
               .str();
  }
  if (test.op == "heads")
    return "func.func @step(" + arguments + makeArguments(test, kHeads * kHeadRows, 0) +
           llvm::formatv(") -> (tensor<?x{0}x{1}xbf16> {{mla.output = \"output\"}) {{\n", kHeads,
                         kUsedRows)
               .str() +
           makeWeight(test, kHeads * kHeadRows, 0) + coded +
           llvm::formatv(R"(
  %e = tensor.expand_shape %w0 [[0, 1], [2]] output_shape [{0}, {1}, {2}] : tensor<{3}x{2}xbf16> into tensor<{0}x{1}x{2}xbf16>
  %w = tensor.extract_slice %e[0, {4}, 0] [{0}, {5}, {2}] [1, 1, 1] : tensor<{0}x{1}x{2}xbf16> to tensor<{0}x{5}x{2}xbf16>
  %y = mla.project {7}, %w : {6}, tensor<{0}x{5}x{2}xbf16> -> tensor<?x{0}x{5}xbf16>
  return %y : tensor<?x{0}x{5}xbf16>
})",
                         kHeads, kHeadRows, test.depth, kHeads * kHeadRows, kHeadRows - kUsedRows,
                         kUsedRows, x, in)
               .str();
  if (test.op == "per_head") {
    std::string heads = llvm::formatv("tensor<?x{0}x{1}xbf16>", kHeads, test.depth);
    return "func.func @step(%x: " + heads + " {mla.input = \"x\"}, " +
           makeArguments(test, test.columns, 0) +
           llvm::formatv(") -> (tensor<?x{0}x{1}xbf16> {{mla.output = \"output\"}) {{\n", kHeads,
                         test.columns / kHeads)
               .str() +
           makeWeight(test, test.columns, 0) +
           (test.quantises
                ? llvm::formatv("  %a = mla.coded_rows %x group {0} : {1}\n", test.group(), heads)
                      .str()
                : std::string()) +
           llvm::formatv(R"(
  %w = tensor.expand_shape %w0 [[0, 1], [2]] output_shape [{0}, {1}, {2}] : tensor<{3}x{2}xbf16> into tensor<{0}x{1}x{2}xbf16>
  %y = mla.head_project {4}, %w : {5}, tensor<{0}x{1}x{2}xbf16> -> tensor<?x{0}x{1}xbf16>
  return %y : tensor<?x{0}x{1}xbf16>
})",
                         kHeads, test.columns / kHeads, test.depth, test.columns, in, heads)
               .str();
  }
  bool hasBias = test.op == "bias";
  std::string bias = llvm::formatv("tensor<{0}xbf16>", test.columns);
  return "func.func @step(" + arguments + makeArguments(test, test.columns, 0) +
         (hasBias ? ", %b: " + bias + " {mla.weight = \"g\"}" : "") + ") -> (" + y +
         " {mla.output = \"output\"}) {\n" + makeWeight(test, test.columns, 0) + coded +
         llvm::formatv(R"(
  %y = mla.project {5}, %w0 {0} : {1}, tensor<{2}x{3}xbf16> -> {4}
  return %y : {4}
})",
                       hasBias ? "bias(%b : " + bias + ")" : "", x, test.columns, test.depth, y, in)
             .str();
}

/// A matrix as a checkpoint has it.
struct CodedMatrix {
  CodedMatrix(const CodedCase &test, int64_t rows, unsigned seed)
      : depth(test.depth), blockRows(test.blockRows), blockColumns(test.blockColumns),
        codes(rows * depth) {
    across = blockColumns ? llvm::divideCeil(depth, blockColumns) : 1;
    std::mt19937 engine(seed);
    std::uniform_int_distribution<int> magnitude(0, 0x4F), sign(0, 1);
    std::uniform_real_distribution<float> factor(0.05f, 0.2f);
    for (uint8_t &code : codes)
      code = magnitude(engine) | sign(engine) << 7;
    scales.resize((blockRows ? llvm::divideCeil(rows, blockRows) : 1) * across);
    for (float &scale : scales)
      scale = factor(engine);
  }
  double at(int64_t row, int64_t column) const {
    int64_t i = blockRows ? row / blockRows : 0, j = blockColumns ? column / blockColumns : 0;
    return double(decode(codes[row * depth + column])) * scales[i * across + j];
  }
  int64_t depth, blockRows, blockColumns, across;
  Codes codes;
  std::vector<float> scales;
};

/// The nearest number of e4m3, of two the one with an even code.
double roundToCode(float value) {
  double best = 0;
  for (int code = 1; code < 0x7F; ++code) {
    double number = decode(code), error = std::abs(std::abs(value) - number),
           known = std::abs(std::abs(value) - best);
    if (error < known || (error == known && code % 2 == 0))
      best = number;
  }
  return std::copysign(best, value);
}

/// What rows stand for as codes with a scale for each group (mla.md section 7).
std::vector<double> quantise(const std::vector<double> &row, size_t group = kCodeGroup) {
  std::vector<double> values(row.size());
  for (size_t first = 0; first < row.size(); first += group) {
    float most = 0;
    for (size_t i = first; i < first + group; ++i)
      most = std::max(most, std::abs(static_cast<float>(row[i])));
    float scale = std::max(most / 448, 1e-12F);
    for (size_t i = first; i < first + group; ++i)
      values[i] = roundToCode(static_cast<float>(row[i]) / scale) * scale;
  }
  return values;
}

struct Step : ScheduledStep {
  Step(const CodedCase &test, MLIRContext &context)
      : test(test), first(test, test.op == "heads" ? kHeads * kHeadRows : test.columns, 2),
        second(test, kOther, 3) {
    plan.dims["num_tokens"] = test.tokens;
    plan.dims["num_sms"] = 3;
    plan.buffers["x"] = makeRandom(test.tokens * test.width(), 1);
    plan.buffers["c0"] = first.codes;
    plan.buffers["s0"] = first.scales;
    plan.buffers["c1"] = second.codes;
    plan.buffers["s1"] = second.scales;
    plan.buffers["g"] = makeRandom(test.columns, 4);
    plan.buffers["h"] = makeRandom(kOther, 5);
    plan.buffers["output"] = Bits(test.tokens * test.columns, kNaN);
    plan.buffers["tail"] = Bits(test.tokens * kOther, kNaN);
    for (int64_t token = 0; token < test.tokens; ++token) {
      std::vector<double> row;
      for (int64_t k = 0; k < test.width(); ++k)
        row.push_back(toFloat(bits("x")[token * test.width() + k]));
      rows.push_back(test.quantises ? quantise(row, test.group()) : row);
    }
    isLowered = lowerByPipelines(context, makeGraph(test));
  }

  const Bits &bits(const char *name) const { return std::get<Bits>(plan.buffers.at(name)); }

  static double product(const CodedMatrix &weight, const std::vector<double> &row, int64_t at,
                        int64_t from = 0) {
    double sum = 0;
    for (int64_t k = 0; k < weight.depth; ++k)
      sum += row[from + k] * weight.at(at, k);
    return sum;
  }
  std::vector<double> row(const CodedMatrix &weight, int64_t token, int64_t columns,
                          const char *gamma) const {
    std::vector<double> values(columns);
    double squares = 0;
    for (int64_t i = 0; i < columns; ++i) {
      int64_t at = test.op == "heads"
                       ? i / kUsedRows * kHeadRows + kHeadRows - kUsedRows + i % kUsedRows
                       : i;
      int64_t head = test.op == "per_head" ? i / (columns / kHeads) : 0;
      values[i] = product(weight, rows[token], at, head * test.depth);
      if (test.op == "bias")
        values[i] += toFloat(bits("g")[i]);
      squares += values[i] * values[i];
    }
    if (test.op == "latents" || test.op == "chain")
      for (int64_t i = 0; i < columns; ++i)
        values[i] *= toFloat(bits(gamma)[i]) / std::sqrt(squares / double(columns) + 1e-6);
    return values;
  }

  CodedCase test;
  CodedMatrix first, second;
  std::vector<std::vector<double>> rows; ///< what is multiplied
  bool isLowered = false;
};

class CodedProducts : public ::testing::TestWithParam<CodedCase>, protected Context {};

/// A product of codes that a norm made. Rounding what is normalised, and so the scales, moves some
/// of them to the next one, an eighth away: adds up squares of the errors, and of what they are a
/// share of.
void compareChain(const Step &step, const Bits &got, int64_t token,
                  const std::vector<double> &coded, double &moved, double &all) {
  for (int64_t i = 0; i < kOther; ++i) {
    double expected = Step::product(step.second, coded, i), squares = 0;
    for (int64_t k = 0; k < step.second.depth; ++k)
      squares += std::pow(coded[k] * step.second.at(i, k), 2);
    double value = toFloat(got[token * kOther + i]);
    ASSERT_NEAR(value, expected, std::abs(expected) / 240 + std::sqrt(squares) / 8)
        << token << ", " << i;
    moved += std::pow(value - expected, 2);
    all += squares;
  }
}

TEST_P(CodedProducts, A12_A16_A46_A47_GiveTheReferenceUnderEverySeed) {
  const CodedCase &test = GetParam();
  Step step(test, context);
  ASSERT_TRUE(step.isLowered);
  auto launches = [&](llvm::StringRef prefix) {
    return llvm::any_of(step.plan.launches, [&](const Launch &launch) {
      return llvm::StringRef(launch.kernel).starts_with(prefix);
    });
  };
  bool hasCluster = false;
  for (const Launch &launch : step.plan.launches) {
    if (llvm::StringRef(launch.kernel).starts_with("linear_code"))
      EXPECT_EQ(step.schedules[launch.kernel], "product") << launch.kernel;
    auto kernel = step.module->lookupSymbol<sm90::KernelOp>(launch.kernel);
    hasCluster |= kernel && kernel.getClusterSize() > 1;
  }
  EXPECT_EQ(hasCluster, llvm::StringRef(test.name).contains("cluster"));
  // More rows of 16-bit values: codes are turned for them unless each has a scale for a block, or
  // parts of the batch have less columns than a tile.
  bool hasMany = !test.quantises && test.tokens > 128,
       hasValues =
           hasMany && ((test.blockRows == 1 && test.blockColumns != 0) || test.op == "heads");
  EXPECT_EQ(launches("linear_coded_"), test.quantises);
  // A token that is one group has the kernel of whole rows.
  bool hasOneGroup = test.group() == test.width();
  EXPECT_EQ(launches(hasOneGroup ? "quantize_row" : "quantize_128"), test.quantises);
  EXPECT_EQ(launches("linear_codes_"), !test.quantises && !hasValues);
  EXPECT_EQ(launches("dequantise_"), hasValues);
  if (test.op == "latents") {
    EXPECT_EQ(step.plan.launches.size(), test.quantises ? 3u : 2u) << "one product, one of rows";
    bool hasParts = llvm::any_of(step.plan.launches, [](const Launch &launch) {
      return llvm::StringRef(launch.kernel).contains("_parts_");
    });
    EXPECT_EQ(hasParts, test.tokens > 128); // of more rows than one unit multiplies
  }
  std::optional<Buffers> buffers = runUnderEverySeed(step.plan, *step.module, {"output", "tail"});
  ASSERT_TRUE(buffers);
  const Bits &output = std::get<Bits>((*buffers)["output"]),
             &tail = std::get<Bits>((*buffers)["tail"]);
  // Rounded to bf16 once (half of 2^-7); many rows of a latent ahead of their norm, too, and where
  // values are dequantised each of them.
  double roundings = test.op == "latents" && test.tokens > 128 ? 2 : 1;
  auto compare = [&](const Bits &got, int64_t token, const std::vector<double> &expected,
                     double allowed) {
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(toFloat(got[token * expected.size() + i]), expected[i],
                  roundings * std::abs(expected[i]) / 240 + allowed)
          << token << ", " << i;
  };
  bool roundsValues = hasMany && test.blockColumns != 0;
  double allowed = roundsValues ? 0.03 : 0.002, moved = 0, all = 0;
  for (int64_t token = 0; token < test.tokens; ++token) {
    std::vector<double> row = step.row(step.first, token, test.columns, "g");
    if (test.op == "chain") {
      compareChain(step, tail, token, quantise(row), moved, all);
      continue;
    }
    compare(output, token, row, allowed);
    if (test.op == "latents")
      compare(tail, token, step.row(step.second, token, kOther, "h"), allowed);
  }
  // What is not quantised differs by 0.036 of this.
  EXPECT_LE(std::sqrt(moved), 0.02 * std::sqrt(all));
}

const CodedCase kCases[] = {
    {"blocks_1", "plain", 1, 192, 256, 128, 128},
    {"blocks_5", "plain", 5, 128, 512, 128, 128},
    {"one_step", "plain", 3, 64, 128, 128, 128},
    {"odd_steps", "bias", 2, 192, 384, 128, 128},
    {"blocks_33", "bias", 33, 128, 512, 128, 128},
    {"blocks_100", "plain", 100, 128, 512, 64, 128},
    {"blocks_130", "plain", 130, 128, 256, 128, 128},
    {"channels_3", "plain", 3, 128, 256, 1, 0},
    {"channels_130", "plain", 130, 128, 128, 1, 0},
    {"tensor_70", "plain", 70, 64, 512, 0, 0},
    {"tensor_131", "plain", 131, 64, 128, 0, 0},
    // Several tiles of tokens, the last of which ends with them or reaches behind them; 64 columns
    // behind the last of a tile's 128, in a block of their own.
    {"turned_blocks_300", "plain", 300, 192, 256, 64, 128},
    {"turned_bias_517", "bias", 517, 128, 640, 128, 128},
    {"turned_channels_260", "bias", 260, 192, 256, 1, 0},
    {"turned_tensor_140", "bias", 140, 192, 384, 0, 0},
    {"heads_150", "heads", 150, kHeads *kUsedRows, 256, 128, 128},
    {"turned_absorbed_200", "per_head", 200, 256, 256, 128, 128},
    {"turned_latents_200", "latents", 200, 192, 256, 128, 128},
    {"heads_4", "heads", 4, kHeads *kUsedRows, 256, 128, 128},
    {"heads_channels", "heads", 4, kHeads *kUsedRows, 256, 1, 0},
    {"absorbed_1", "per_head", 1, 256, 128, 128, 128},
    {"absorbed_100", "per_head", 100, 256, 256, 128, 128},
    {"absorbed_channels_5", "per_head", 5, 128, 256, 1, 0},
    {"latents_5", "latents", 5, 192, 1024, 128, 128},
    {"latents_40_channels", "latents", 40, 192, 512, 1, 0},
    {"latents_3_tensors", "latents", 3, 192, 512, 0, 0},
    {"both_1", "plain", 1, 192, 256, 128, 128, true},
    {"both_17", "bias", 17, 128, 512, 128, 128, true},
    {"both_one_step", "plain", 3, 64, 128, 128, 128, true},
    {"both_100", "plain", 100, 192, 384, 64, 128, true},
    {"both_130", "plain", 130, 192, 256, 128, 128, true},
    {"both_200_narrow_blocks", "plain", 200, 128, 256, 64, 128, true},
    {"both_heads_4", "heads", 4, kHeads *kUsedRows, 256, 128, 128, true},
    {"both_heads_140", "heads", 140, kHeads *kUsedRows, 128, 128, 128, true},
    {"both_absorbed_3", "per_head", 3, 256, 128, 128, 128, true},
    {"both_absorbed_140", "per_head", 140, 256, 256, 128, 128, true},
    {"both_absorbed_tensor", "per_head", 5, 128, 256, 0, 0, true},
    {"both_latents_5", "latents", 5, 192, 1024, 128, 128, true},
    {"both_latents_140", "latents", 140, 192, 256, 128, 128, true},
    // A deep product (TurnsTest.cpp: of four products). The last tile ends with the rows.
    {"both_cluster_deep_390", "plain", 390, 64, 4096, 128, 128, true},
    {"both_chain_3", "chain", 3, 256, 256, 128, 128, true},
    {"both_chain_130", "chain", 130, 256, 256, 128, 128, true},
    {"rows_and_blocks_3", "plain", 3, 192, 384, 1, 128},
    {"rows_and_blocks_130", "plain", 130, 128, 256, 1, 128},
    {"both_rows_and_blocks_5", "bias", 5, 128, 512, 1, 128, true},
    {"both_rows_and_blocks_140", "plain", 140, 192, 256, 1, 128, true},
    {"both_tensor_3", "plain", 3, 128, 384, 0, 0, true},
    {"both_tensor_140", "bias", 140, 192, 256, 0, 0, true},
    {"both_channels_5", "bias", 5, 128, 512, 1, 0, true},
    {"both_channels_140", "plain", 140, 192, 256, 1, 0, true},
    {"both_channels_17", "plain", 17, 192, 384, 1, 0, true},
    {"both_channels_100", "bias", 100, 192, 384, 1, 0, true},
    {"both_absorbed_channels", "per_head", 5, 128, 256, 1, 0, true},
    {"both_absorbed_channels_140", "per_head", 140, 256, 128, 1, 0, true},
    {"both_latents_channels_5", "latents", 5, 192, 1024, 1, 0, true},
    {"both_latents_channels_140", "latents", 140, 192, 256, 1, 0, true},
    {"both_heads_channels", "heads", 4, kHeads *kUsedRows, 256, 1, 0, true},
    {"both_latents_tensors", "latents", 140, 192, 256, 0, 0, true},
    // CTAs of a cluster divide the depth.
    {"cluster_5", "bias", 5, 128, 4096, 128, 128},
    {"cluster_channels_40", "plain", 40, 64, 4096, 1, 0},
    {"both_cluster_3", "plain", 3, 64, 4096, 128, 128, true},
    {"both_cluster_20", "bias", 20, 128, 4096, 128, 128, true},
    {"both_cluster_70", "bias", 70, 64, 4096, 128, 128, true},
    {"both_cluster_140", "plain", 140, 64, 4096, 128, 128, true},
    {"both_cluster_channels_150", "bias", 150, 64, 4096, 1, 0, true},
};

INSTANTIATE_TEST_SUITE_P(Cases, CodedProducts, ::testing::ValuesIn(kCases),
                         [](const auto &info) { return info.param.name; });

class CodedMutations : public ::testing::Test, protected Context {};

TEST_F(CodedMutations, AreFound) {
  // More steps than stages, an odd number that no cluster divides, and a second tile after the
  // exchange of sums.
  Step step({"tiles", "plain", 16, 128, 15 * 256, 128, 128}, context);
  ASSERT_TRUE(step.isLowered);
  EXPECT_GE(step.countFoundMutations("tiles"), 47u);
}

TEST_F(CodedMutations, A46_OfTurnedCodesAreFound) {
  // Several tiles for each program, and more steps than stages.
  Step step({"turned", "bias", 300, 512, 6 * 128, 128, 128}, context);
  ASSERT_TRUE(step.isLowered);
  EXPECT_GE(step.countFoundMutations("turned"), 49u);
}

TEST_F(CodedMutations, A47_OfProductsOfCodesAreFound) {
  // Tokens as columns: more steps than stages, tokens' scales among the operands, and a second
  // tile. No cluster divides an odd number of steps.
  Step step({"both", "plain", 64, 128, 7 * 256, 128, 128, true}, context);
  ASSERT_TRUE(step.isLowered);
  EXPECT_GE(step.countFoundMutations("both", "output", /*launch=*/1), 50u);
}

TEST_F(CodedMutations, A47_OfRowsOfCodesAreFound) {
  // Several tiles for each program, so that results lie where others were. Of 47 a fence that
  // comes early is not found.
  Step step({"rows", "plain", 140, 512, 4 * 128, 128, 128, true}, context);
  ASSERT_TRUE(step.isLowered);
  EXPECT_GE(step.countFoundMutations("rows", "output", /*launch=*/1), 46u);
}

TEST_F(CodedMutations, A47_OfClustersAreFound) {
  // Two tiles for a cluster, which exchanges sums behind each.
  Step step({"cluster", "bias", 140, 64, 4096, 128, 128, true}, context);
  ASSERT_TRUE(step.isLowered);
  EXPECT_GE(step.countFoundMutations("cluster", "output", /*launch=*/1), 45u);
}

TEST_F(CodedMutations, A47_OfChannelsAreFound) {
  // Scales of rows and a bias behind the sums; several tiles for each program, too.
  Step step({"channels", "bias", 140, 512, 3 * 128, 1, 0, true}, context);
  ASSERT_TRUE(step.isLowered);
  EXPECT_GE(step.countFoundMutations("channels", "output", /*launch=*/1), 46u);
}

} // namespace
