//===- PackageModelTest.cpp - a package's model from a configuration ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Import/ImportConfig.h"
#include "mla/Package/ModelDescription.h"

#include "mlir/IR/MLIRContext.h"

#include "../Import/Configs.h"

using namespace mlac;
using namespace mlac::test;

namespace {

package::PackageT describe(llvm::StringRef name, const ConfigOptions &parsing = {},
                           const ImportOptions &options = {}) {
  package::PackageT package;
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module =
      importConfig(mlir::UnknownLoc::get(&context), loadConfig(name, parsing), options);
  EXPECT_TRUE(module && mlir::succeeded(describeModel(*module, package)));
  return package;
}

TEST(PackageModel, DeepSeekV3OnOneOfEightRanks) {
  package::PackageT package = describe("deepseek_v3", {.tensorParallel = 8});
  EXPECT_EQ(package.model->model_type, "deepseek_v3");
  EXPECT_EQ(package.model->num_heads, 16u);
  EXPECT_EQ(package.model->tensor_parallel, 8u);
  EXPECT_EQ(package.model->q_lora_rank, 1536u);
  EXPECT_FLOAT_EQ(package.model->softmax_scale, 0.1352338f);
  EXPECT_EQ(package.model->config_json, readConfigText("deepseek_v3"));
  EXPECT_EQ(package.pools[0]->format, "mla_16");
  EXPECT_EQ(package.pools[0]->page_size, 64u);
  EXPECT_EQ(package.pools[0]->row_bytes, 1152u); // 576 bf16
  EXPECT_EQ(package.pools[0]->rope_order, "interleaved");
  EXPECT_EQ(package.rope->inv_freq.size(), 32u);
  EXPECT_EQ(package.rope->length, 163840u);
  ASSERT_EQ(package.weights.size(), 7u);
  EXPECT_EQ(package.weights[2]->name, "q_b_proj.weight");
  EXPECT_EQ(package.weights[2]->shape, (std::vector<int64_t>{3072, 1536}));
  EXPECT_EQ(package.weights[2]->dtype, package::DataType::BF16);
}

TEST(PackageModel, F32AndHalfSplit) {
  package::PackageT package =
      describe("minicpm3_4b", {}, {.activationType = ActivationType::F32, .pageSize = 1});
  EXPECT_EQ(package.pools[0]->format, "mla_f32");
  EXPECT_EQ(package.pools[0]->row_bytes, 1152u); // 288 f32
  EXPECT_EQ(package.pools[0]->rope_order, "half");
  EXPECT_EQ(package.rope->inv_freq_long.size(), 16u);
  EXPECT_EQ(package.rope->short_length, 32768u);
  EXPECT_EQ(package.weights[0]->dtype, package::DataType::F32);
}

TEST(PackageModel, SparseModelsHaveAnIndexPool_B44) {
  package::PackageT package = describe("deepseek_v32");
  EXPECT_EQ(package.rope->length, 163840u);
  ASSERT_EQ(package.pools.size(), 2u);
  EXPECT_EQ(package.pools[1]->name, "index");
  EXPECT_EQ(package.pools[1]->format, "index_k");
  EXPECT_EQ(package.pools[1]->row_bytes, 132u); // 128 codes and a scale
  EXPECT_EQ(package.pools[1]->page_size, package.pools[0]->page_size);
}

TEST(PackageModel, DenseLayersOfSparseModelsAreLimitedToTopk) {
  package::PackageT package = describe("deepseek_v32", {.indexer = IndexerUse::None});
  EXPECT_EQ(package.rope->length, 2048u);
  EXPECT_EQ(package.pools.size(), 1u);
}

TEST(PackageModel, NoRopeDims) {
  package::PackageT package = describe("glm_5_3_flash");
  EXPECT_TRUE(package.rope->inv_freq.empty());
  EXPECT_EQ(package.rope->length, 131072u); // positions stay limited
}

} // namespace
