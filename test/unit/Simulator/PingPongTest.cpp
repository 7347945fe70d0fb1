//===- PingPongTest.cpp - expanded attention neither races nor hangs ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Prefill.h"

#include "mla/Simulator/Mutations.h"

#include "gtest/gtest.h"

using namespace mlac;
using namespace mlac::test;

namespace {

constexpr uint64_t kSeeds = 20;
/// As in DerivedSchedulesTest.cpp: weights and the result are rounded to bf16.
constexpr double kTolerance = 1.0 / 128;

class PingPong : public ::testing::TestWithParam<PrefillCase>, protected Context {};

TEST_P(PingPong, GivesTheReferenceUnderEverySeed) {
  Prefill prefill(GetParam(), context);
  ASSERT_EQ(prefill.chosen, "pingpong");
  Prefill::Reference expected = prefill.computeReference();
  Bits first;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Buffers buffers = prefill.plan.buffers;
    auto finding = prefill.run(buffers, seed);
    if (finding)
      finding->emit();
    ASSERT_FALSE(finding) << "seed " << seed << ": " << finding->text;
    const Bits &output = std::get<Bits>(buffers["output"]);
    if (seed > 0) {
      ASSERT_EQ(output, first) << "seed " << seed;
      continue;
    }
    first = output;
    for (size_t i = 0; i < expected.output.size(); ++i)
      if (!std::isnan(expected.output[i]))
        ASSERT_NEAR(toFloat(output[i]), expected.output[i], kTolerance) << i;
    const auto &lse = std::get<std::vector<float>>(buffers["lse"]);
    for (size_t i = 0; i < expected.lse.size(); ++i)
      if (expected.lse[i] == -INFINITY)
        ASSERT_EQ(lse[i], -INFINITY) << i;
      else if (!std::isnan(expected.lse[i]))
        ASSERT_NEAR(lse[i], expected.lse[i], kTolerance) << i;
  }
}

const PrefillCase kPrefills[] = {
    // name, schedule, heads, nope, rope, value, {keys of the chunk, queries}, SMs, causal,
    // parameters
    {"pingpong_ragged", "auto", 2, 128, 64, 128, {{0, 130}, {0, 1}, {0, 64}}, 2},
    {"pingpong_long", "auto", 1, 128, 64, 128, {{0, 390}}, 3},
    {"pingpong_many", "auto", 3, 64, 32, 64, {{0, 5}, {0, 0}, {0, 129}, {0, 128}}, 2},
    {"pingpong_wide", "auto", 1, 256, 0, 256, {{0, 150}, {0, 70}}, 1},
    {"pingpong_no_rope", "auto", 1, 128, 0, 128, {{0, 260}}, 2},
    {"pingpong_tiny", "auto", 2, 24, 8, 40, {{0, 200}, {0, 30}}, 1},
    {"pingpong_chunk",
     "auto",
     2,
     128,
     64,
     128,
     {{300, 70}, {0, 3}, {128, 130}},
     2,
     false},
    {"pingpong_poisoned",
     "pingpong",
     2,
     64,
     16,
     64,
     {{0, 130}, {0, 70}, {0, 3}},
     1,
     true,
     {},
     0.1,
     1},
    {"pingpong_blocks_of_64", "pingpong", 1, 64, 16, 64, {{0, 300}}, 1, true, {"key-block=64"}},
    {"pingpong_blocks_of_48", "pingpong", 1, 64, 16, 64, {{0, 200}}, 1, true, {"key-block=48"}},
    {"pingpong_jumps", "pingpong", 1, 64, 16, 64, {{0, 300}}, 2, true, {"lazy-threshold=0"}, 1},
};

INSTANTIATE_TEST_SUITE_P(Cases, PingPong, ::testing::ValuesIn(kPrefills),
                         [](const auto &info) { return info.param.name; });

//===----------------------------------------------------------------------===//
// Planted bugs
//===----------------------------------------------------------------------===//

/// The first place of each kind that can be found at all, in few seeds: how many kinds
/// are found.
static unsigned countFound(Prefill &step, const std::string &name) {
  Buffers right = step.plan.buffers;
  EXPECT_FALSE(step.run(right, 0));
  mlir::OwningOpRef<mlir::ModuleOp> original = step.module->clone();
  unsigned found = 0, planted = 0;
  for (const std::string &kind : simulator::getMutations()) {
    step.module = original->clone();
    auto kernel = step.module->lookupSymbol<mlir::sm90::KernelOp>(step.plan.launches[0].kernel);
    if (!simulator::mutate(kernel, kind, 0))
      continue;
    ++planted;
    std::string diagnosis;
    for (uint64_t seed = 0; seed < 4 && diagnosis.empty(); ++seed) {
      Buffers buffers = step.plan.buffers;
      if (auto finding = step.run(buffers, seed))
        diagnosis = simulator::stringify(finding->defect).str() + ": " +
                    finding->op->getName().getStringRef().str();
      else if (std::get<Bits>(buffers["output"]) != std::get<Bits>(right["output"]))
        diagnosis = "wrong result";
    }
    found += !diagnosis.empty();
    llvm::outs() << name << " " << kind << ": " << (diagnosis.empty() ? "not found" : diagnosis)
                 << "\n";
  }
  llvm::outs() << name << ": " << found << " of " << planted << " found\n";
  return found;
}

class PingPongMutations : public ::testing::Test, protected Context {};

TEST_F(PingPongMutations, AreFound) {
  PrefillCase test{"pingpong", "pingpong", 2, 64, 16, 64, {{0, 300}, {0, 70}}, 1};
  test.poisoned = 1;
  Prefill prefill(test, context);
  ASSERT_EQ(prefill.chosen, "pingpong");
  EXPECT_GE(countFound(prefill, test.name), 25u);
}

} // namespace
