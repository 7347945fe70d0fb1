//===- ProductSchedulesTest.cpp - products out of rings neither race nor hang ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Linear operations from the `mla` graph to sm90 kernels by the compiler's own
// pipelines, against plain loops. Outputs and workspaces start as NaN.
//
//===----------------------------------------------------------------------===//

#include "ScheduledStep.h"

#include "llvm/Support/FormatVariadic.h"

#include "gtest/gtest.h"

using namespace mlac;
using namespace mlac::test;
using namespace mlir;

namespace {

struct ProductCase {
  std::string name, op; ///< project, plain, heads, rows (contract_rows), columns, latent, latents,
                        ///< joined
  int64_t tokens, heads, columns, depth;
  bool isSimple = false;
  int64_t numSms = 4; ///< some programs have several tiles, some none

  /// No tile of 64 columns has those of two weights, or, of very many rows, no wider one.
  bool isJoint() const {
    return op == "joined" || (op == "latents" && columns % 64 == 0 && tokens <= 1024);
  }
};

/// heads · columns results of `depth`; latent: the last 64 columns are the tail; latents: they
/// are a projection of their own; joined: one without a norm, twice, once in f32.
std::string makeGraph(const ProductCase &test) {
  int64_t n = test.heads, c = test.columns, d = test.depth;
  if (test.op == "project")
    return llvm::formatv(R"(
func.func @step(%x: tensor<?x{0}xbf16> {{mla.input = "x"}, %w: tensor<{1}x{0}xbf16> {{mla.weight = "w"},
                %b: tensor<{1}xbf16> {{mla.weight = "b"}) -> (tensor<?x{1}xbf16> {{mla.output = "output"}) {{
  %y = mla.project %x, %w bias(%b : tensor<{1}xbf16>) : tensor<?x{0}xbf16>, tensor<{1}x{0}xbf16> -> tensor<?x{1}xbf16>
  return %y : tensor<?x{1}xbf16>
})",
                         d, c);
  if (test.op == "plain")
    return llvm::formatv(R"(
func.func @step(%x: tensor<?x{0}xbf16> {{mla.input = "x"}, %w: tensor<{1}x{0}xbf16> {{mla.weight = "w"})
    -> (tensor<?x{1}xbf16> {{mla.output = "output"}) {{
  %y = mla.project %x, %w : tensor<?x{0}xbf16>, tensor<{1}x{0}xbf16> -> tensor<?x{1}xbf16>
  return %y : tensor<?x{1}xbf16>
})",
                         d, c);
  if (test.op == "latents")
    return llvm::formatv(R"(
func.func @step(%x: tensor<?x{0}xbf16> {{mla.input = "x"}, %w: tensor<{1}x{0}xbf16> {{mla.weight = "w"},
                %v: tensor<64x{0}xbf16> {{mla.weight = "v"},
                %g: tensor<{1}xbf16> {{mla.weight = "g"}, %h: tensor<64xbf16> {{mla.weight = "h"})
    -> (tensor<?x{1}xbf16> {{mla.output = "output"}, tensor<?x64xbf16> {{mla.output = "tail"}) {{
  %y = mla.latent_project %x, %w, %g eps 1.0e-6
      : tensor<?x{0}xbf16>, tensor<{1}x{0}xbf16>, tensor<{1}xbf16> -> tensor<?x{1}xbf16>
  %z = mla.latent_project %x, %v, %h eps 1.0e-6
      : tensor<?x{0}xbf16>, tensor<64x{0}xbf16>, tensor<64xbf16> -> tensor<?x64xbf16>
  return %y, %z : tensor<?x{1}xbf16>, tensor<?x64xbf16>
})",
                         d, c - 64);
  if (test.op == "joined")
    return llvm::formatv(R"(
func.func @step(%x: tensor<?x{0}xbf16> {{mla.input = "x"}, %w: tensor<{1}x{0}xbf16> {{mla.weight = "w"},
                %v: tensor<64x{0}xbf16> {{mla.weight = "v"}, %u: tensor<64x{0}xbf16> {{mla.weight = "u"},
                %g: tensor<{1}xbf16> {{mla.weight = "g"})
    -> (tensor<?x{1}xbf16> {{mla.output = "output"}, tensor<?x64xbf16> {{mla.output = "tail"},
        tensor<?x64xf32> {{mla.output = "again"}) {{
  %y = mla.latent_project %x, %w, %g eps 1.0e-6
      : tensor<?x{0}xbf16>, tensor<{1}x{0}xbf16>, tensor<{1}xbf16> -> tensor<?x{1}xbf16>
  %z = mla.project %x, %v : tensor<?x{0}xbf16>, tensor<64x{0}xbf16> -> tensor<?x64xbf16>
  %a = mla.project %x, %u : tensor<?x{0}xbf16>, tensor<64x{0}xbf16> -> tensor<?x64xf32>
  return %y, %z, %a : tensor<?x{1}xbf16>, tensor<?x64xbf16>, tensor<?x64xf32>
})",
                         d, c - 64);
  if (test.op == "heads") // the second half of each head's rows
    return llvm::formatv(R"(
func.func @step(%x: tensor<?x{0}xbf16> {{mla.input = "x"}, %all: tensor<{2}x{3}x{0}xbf16> {{mla.weight = "w"})
    -> (tensor<?x{2}x{1}xbf16> {{mla.output = "output"}) {{
  %w = tensor.extract_slice %all[0, {1}, 0] [{2}, {1}, {0}] [1, 1, 1] : tensor<{2}x{3}x{0}xbf16> to tensor<{2}x{1}x{0}xbf16>
  %y = mla.project %x, %w : tensor<?x{0}xbf16>, tensor<{2}x{1}x{0}xbf16> -> tensor<?x{2}x{1}xbf16>
  return %y : tensor<?x{2}x{1}xbf16>
})",
                         d, c, n, 2 * c);
  if (test.op == "latent")
    return llvm::formatv(R"(
func.func @step(%x: tensor<?x{0}xbf16> {{mla.input = "x"}, %w: tensor<{1}x{0}xbf16> {{mla.weight = "w"},
                %g: tensor<{2}xbf16> {{mla.weight = "g"})
    -> (tensor<?x{2}xbf16> {{mla.output = "output"}, tensor<?x64xbf16> {{mla.output = "tail"}) {{
  %y, %tail = mla.latent_project %x, %w, %g eps 1.0e-6
      : tensor<?x{0}xbf16>, tensor<{1}x{0}xbf16>, tensor<{2}xbf16> -> tensor<?x{2}xbf16>, tensor<?x64xbf16>
  return %y, %tail : tensor<?x{2}xbf16>, tensor<?x64xbf16>
})",
                         d, c, c - 64);
  bool byRows = test.op == "rows";
  std::string weight = llvm::formatv("tensor<{0}x{1}x{2}xbf16>", n, byRows ? d : c, byRows ? c : d);
  return llvm::formatv(R"(
func.func @step(%x: tensor<?x{2}x{0}xbf16> {{mla.input = "x"}, %w: {3} {{mla.weight = "w"})
    -> (tensor<?x{2}x{1}xbf16> {{mla.output = "output"}) {{
  %y = mla.head_project %x, %w {4} : tensor<?x{2}x{0}xbf16>, {3} -> tensor<?x{2}x{1}xbf16>
  return %y : tensor<?x{2}x{1}xbf16>
})",
                       d, c, n, weight, byRows ? "contract_rows" : "");
}

/// A case, lowered.
struct Step : ScheduledStep {
  Step(const ProductCase &test, MLIRContext &context) : test(test) {
    plan.dims["num_tokens"] = test.tokens;
    plan.dims["num_sms"] = test.numSms;
    bool perHead = test.op == "rows" || test.op == "columns", isHalf = test.op == "heads";
    plan.buffers["x"] = makeRandom(test.tokens * test.depth * (perHead ? test.heads : 1), 1);
    plan.buffers["w"] = makeRandom(test.heads * test.columns * test.depth * (isHalf ? 2 : 1), 2);
    plan.buffers["b"] = makeRandom(test.columns, 3);
    plan.buffers["g"] = makeRandom(test.columns, 4);
    if (test.op == "latents" ||
        test.op == "joined") { // the last rows of w and the last elements of g
      const Bits &w = std::get<Bits>(plan.buffers["w"]), &g = std::get<Bits>(plan.buffers["g"]);
      plan.buffers["v"] = Bits(w.end() - 64 * test.depth, w.end());
      plan.buffers["u"] = plan.buffers["v"];
      plan.buffers["h"] = Bits(g.end() - 64, g.end());
    }
    plan.buffers["output"] = Bits(test.tokens * test.heads * test.columns, kNaN);
    plan.buffers["tail"] = Bits(test.tokens * 64, kNaN);
    plan.buffers["again"] = std::vector<float>(test.tokens * 64, NAN);
    isLowered = lowerByPipelines(context, makeGraph(test), test.isSimple ? "simple" : "auto");
  }

  float product(int64_t token, int64_t head, int64_t column) const {
    const Bits &x = std::get<Bits>(plan.buffers.at("x")), &w = std::get<Bits>(plan.buffers.at("w"));
    bool perHead = test.op == "rows" || test.op == "columns";
    int64_t d = test.depth, c = test.columns;
    double sum = test.op == "project" ? toFloat(std::get<Bits>(plan.buffers.at("b"))[column]) : 0;
    for (int64_t k = 0; k < d; ++k) {
      int64_t row = perHead ? token * test.heads + head : token;
      int64_t at = (head * c + column) * d + k;
      if (test.op == "rows")
        at = (head * d + k) * c + column;
      if (test.op == "heads")
        at = (head * 2 * c + c + column) * d + k;
      sum += double(toFloat(x[row * d + k])) * toFloat(w[at]);
    }
    return sum;
  }

  bool hasTail() const {
    return test.op == "latent" || test.op == "latents" || test.op == "joined";
  }

  void normalise(std::vector<double> &row, const char *gamma) const {
    double squares = 0;
    for (double value : row)
      squares += value * value;
    double scale = 1 / std::sqrt(squares / double(row.size()) + 1e-6);
    for (auto [value, factor] : llvm::zip(row, std::get<Bits>(plan.buffers.at(gamma))))
      value *= scale * toFloat(factor);
  }

  /// `output`, and behind it `tail`.
  std::vector<double> computeReference() const {
    std::vector<double> y, tail;
    for (int64_t token = 0; token < test.tokens; ++token)
      for (int64_t head = 0; head < test.heads; ++head) {
        std::vector<double> row(test.columns);
        for (int64_t column = 0; column < test.columns; ++column)
          row[column] = product(token, head, column);
        if (hasTail()) {
          std::vector<double> rest(row.end() - 64, row.end());
          row.resize(test.columns - 64);
          normalise(row, "g");
          if (test.op == "latents")
            normalise(rest, "h");
          llvm::append_range(tail, rest);
        }
        y.insert(y.end(), row.begin(), row.end());
      }
    y.insert(y.end(), tail.begin(), tail.end());
    return y;
  }

  ProductCase test;
  bool isLowered = false;
};

class ProductSchedules : public ::testing::TestWithParam<ProductCase>, protected Context {};

/// The same sums in f32, which nothing has rounded before.
void compareUnrounded(ArrayRef<float> sums, ArrayRef<uint16_t> rounded) {
  size_t exact = 0;
  for (auto [sum, bits] : llvm::zip_equal(sums, rounded)) {
    ASSERT_EQ(toBf16(sum), bits);
    exact += sum == toFloat(bits);
  }
  EXPECT_LT(exact, sums.size() / 2);
}

TEST_P(ProductSchedules, GiveTheReferenceUnderEverySeed) {
  Step step(GetParam(), context);
  ASSERT_TRUE(step.isLowered);
  bool hasProduct = false, hasCluster = false;
  for (const Launch &launch : step.plan.launches) {
    hasProduct |= step.schedules[launch.kernel] == "product";
    auto kernel = step.module->lookupSymbol<sm90::KernelOp>(launch.kernel);
    hasCluster |= kernel.getClusterSize() > 1;
  }
  ASSERT_EQ(hasProduct, !GetParam().isSimple);
  EXPECT_EQ(hasCluster, llvm::StringRef(GetParam().name).contains("cluster"));
  if (GetParam().isJoint()) {
    ASSERT_EQ(step.plan.launches.size(), 2u) << "one product, and a kernel of its rows";
    EXPECT_TRUE(GetParam().tokens <= 64 || GetParam().depth < 512 ||
                llvm::StringRef(step.plan.launches[0].kernel).contains("_parts_"))
        << step.plan.launches[0].kernel;
  } else if (GetParam().op == "latents") {
    EXPECT_GE(step.plan.launches.size(), 4u) << "two products, each with a kernel of its rows";
  }
  std::vector<double> expected = step.computeReference();
  std::optional<Buffers> buffers =
      runUnderEverySeed(step.plan, *step.module, {"output", "tail", "again"});
  ASSERT_TRUE(buffers);
  Bits output = std::get<Bits>((*buffers)["output"]);
  if (step.hasTail()) {
    output.resize(GetParam().tokens * (GetParam().columns - 64));
    llvm::append_range(output, std::get<Bits>((*buffers)["tail"]));
    if (GetParam().op == "joined")
      compareUnrounded(std::get<std::vector<float>>((*buffers)["again"]),
                       std::get<Bits>((*buffers)["tail"]));
  }
  ASSERT_EQ(output.size(), expected.size());
  // Rounded to bf16 (2^-9), after a norm twice.
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(toFloat(output[i]), expected[i], std::abs(expected[i]) / 120 + 0.01) << i;
}

const ProductCase kCases[] = {
    {"project_1", "project", 1, 1, 192, 256},
    {"project_16", "project", 16, 1, 72, 128},
    {"project_ragged", "project", 17, 1, 200, 200},
    {"project_70", "project", 70, 1, 136, 320},
    {"project_140", "project", 140, 1, 136, 320},
    {"project_300", "project", 300, 1, 456, 200},
    {"project_330", "project", 330, 1, 200, 72},         // 4 wide tiles and 4 narrow ones
    {"project_200_shallow", "project", 200, 1, 128, 64}, // narrow ones only
    {"project_2100", "project", 2100, 1, 64, 64},        // two strips
    {"project_wide_bias", "project", 130, 1, 2880, 64},  // one producer: the bias takes registers
    {"project_simple", "project", 20, 1, 72, 128, true},
    {"heads_3", "heads", 3, 4, 64, 192},
    {"heads_90", "heads", 90, 2, 128, 64},
    {"rows_1", "rows", 1, 3, 192, 128},
    {"rows_33", "rows", 33, 2, 128, 64},
    {"columns_5", "columns", 5, 3, 64, 256},
    {"columns_100", "columns", 100, 2, 64, 192},
    {"columns_150", "columns", 150, 3, 64, 128},
    {"rows_260", "rows", 260, 2, 128, 64},
    {"heads_270", "heads", 270, 2, 128, 192},
    {"plain_70", "plain", 70, 1, 128, 2048}, // in four parts
    {"project_32", "project", 32, 1, 72, 256},
    // Tiles of 64 rows and of 128; the last one begins at row 37, and at 205.
    {"project_101", "project", 101, 1, 136, 512},
    {"plain_333", "plain", 333, 1, 64, 512},
    {"joined_5", "joined", 5, 1, 192, 512}, // one product with three weights
    {"joined_100", "joined", 100, 1, 192, 512},
    {"joined_140", "joined", 140, 1, 192, 256},
    {"joined_200", "joined", 200, 1, 192, 512}, // in parts, too
    {"latent_1", "latent", 1, 1, 576, 512},
    {"latent_20", "latent", 20, 1, 320, 768},
    {"latent_130", "latent", 130, 1, 320, 256},
    {"latent_simple", "latent", 3, 1, 320, 256, true},
    // CTAs of a cluster divide the depth; columns behind the last, and parts of a batch.
    {"cluster_10", "project", 10, 1, 72, 4096},
    {"cluster_60", "plain", 60, 1, 128, 4096},
    {"cluster_heads_5", "columns", 5, 3, 64, 4096},
};

/// Two latents, each with a norm of its own, by one product with two weights.
const ProductCase kLatents[] = {
    {"latents_5", "latents", 5, 1, 192, 512},       {"latents_40", "latents", 40, 1, 192, 512},
    {"latents_100", "latents", 100, 1, 192, 512},   {"latents_140", "latents", 140, 1, 192, 256},
    {"latents_200", "latents", 200, 1, 192, 512},   {"latents_uneven", "latents", 7, 1, 160, 256},
    {"latents_1100", "latents", 1100, 1, 128, 512}, // two products
};

INSTANTIATE_TEST_SUITE_P(V4_01, ProductSchedules, ::testing::ValuesIn(kLatents),
                         [](const auto &info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Cases, ProductSchedules, ::testing::ValuesIn(kCases),
                         [](const auto &info) { return info.param.name; });

//===----------------------------------------------------------------------===//
// Planted bugs
//===----------------------------------------------------------------------===//

class ProductMutations : public ::testing::Test, protected Context {};

TEST_F(ProductMutations, OfClustersAreFound) {
  // More steps than stages for each of four CTAs.
  Step step({"cluster", "project", 20, 1, 64, 8192}, context);
  ASSERT_TRUE(step.isLowered);
  EXPECT_GE(step.countFoundMutations("cluster"), 45u);
}

TEST_F(ProductMutations, AreFound) {
  // One program with more steps than stages in each of its tiles' sum.
  Step step({"tiles", "project", 260, 1, 128, 320, false, 1}, context);
  ASSERT_TRUE(step.isLowered);
  ASSERT_NE(step.plan.launches[0].kernel.find("_tile_"), std::string::npos);
  EXPECT_GE(step.countFoundMutations("tiles"), 40u);
}

} // namespace
