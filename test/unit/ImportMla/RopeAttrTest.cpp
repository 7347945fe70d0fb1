//===- RopeAttrTest.cpp - rotary embeddings through IR ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Import/ImportConfig.h"

#include "../Import/Configs.h"

using namespace mlac;
using namespace mlac::test;

namespace {

// A package made from textual IR must hold the frequencies that the importer
// would have written.
TEST(RopeAttr, HoldsWhatTheTableNeeds) {
  mlir::MLIRContext context;
  context.loadDialect<mlir::mla::MlaDialect>();
  for (const char *name : {"deepseek_v2", "deepseek_v3", "kimi_k2_0905",
                           "minicpm3_4b", "glm_4_7_flash", "longcat_flash"}) {
    ModelConfig config = loadConfig(name);
    RopeTable direct = computeRopeTable(config);
    RopeTable fromAttr = computeRopeTable(getRopeAttr(context, config));
    EXPECT_EQ(fromAttr.inverseFrequencies, direct.inverseFrequencies) << name;
    EXPECT_EQ(fromAttr.longInverseFrequencies, direct.longInverseFrequencies);
    EXPECT_EQ(fromAttr.shortLength, direct.shortLength);
    EXPECT_EQ(fromAttr.multiplier, direct.multiplier);
    EXPECT_EQ(fromAttr.length, direct.length);
  }
}

TEST(RopeAttr, NoneWithoutRopeDims) {
  mlir::MLIRContext context;
  context.loadDialect<mlir::mla::MlaDialect>();
  EXPECT_FALSE(getRopeAttr(context, loadConfig("glm_5_3_flash")));
}

} // namespace
