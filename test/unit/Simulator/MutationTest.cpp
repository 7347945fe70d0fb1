//===- MutationTest.cpp - planted bugs are found ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every kind of bug is planted at every place of the hand-made kernels that can
// take it. Found means: the simulator reports a defect under one of a few seeds,
// or the result differs from the right kernel's. What must not be found, because
// the change is harmless there, is listed with its reason. The table of
// diagnoses is printed.
//
//===----------------------------------------------------------------------===//

#include "Kernels.h"

#include "mla/Simulator/Mutations.h"

#include "mlir/IR/Verifier.h"

#include "gtest/gtest.h"

#include <map>
#include <set>

using namespace mlac;
using namespace mlac::test;

namespace {

constexpr uint64_t kSeeds = 8; // each policy twice

struct Place {
  std::string kernel, kind;
  unsigned index;
  auto operator<=>(const Place &) const = default;
};

/// Changes that leave a right program.
const char *kImplied = "the weights come after the keys and the signal";
const char *kOneSlot = "the ring has one slot";
const char *kOnlyEarlier = "the signal or the read only comes at another time";
const char *kFencedLater = "the readers fence again before they read";
const std::map<Place, std::string> kHarmless = {
    {{"relay", "drop-await", 3}, kImplied},
    {{"relay", "drop-await", 4}, kImplied},
    {{"relay", "drop-await", 5}, kImplied},
    {{"relay", "await-late", 3}, kImplied},
    {{"relay", "await-late", 4}, kImplied},
    {{"relay", "await-late", 5}, kImplied},
    {{"relay", "await-wrong-part", 2}, kImplied},
    {{"relay", "await-wrong-part", 3}, kImplied},
    {{"relay", "elect-await", 3}, kImplied},
    {{"relay", "elect-await", 4}, kImplied},
    {{"relay", "elect-await", 5}, kImplied},
    {{"relay", "drop-wgmma-commit", 0}, kOnlyEarlier},
    {{"relay", "drop-wgmma-fence", 1}, "the group goes on with the accumulator before"},
    {{"relay", "drop-wgmma-wait", 0}, kOnlyEarlier},
    {{"relay", "bypass-wgmma-wait", 0}, kOnlyEarlier},
    {{"relay", "weaken-wgmma-wait", 0}, kOnlyEarlier},
    {{"relay", "release-early", 0}, "the other consumer frees the slot after the weights"},
    {{"relay", "proxy-fence-early", 0}, "what stays behind it is read by ordinary loads"},
    {{"relay", "tile-of-next-stage", 0}, kOneSlot},
    {{"relay", "tile-of-next-stage", 2}, kOneSlot},
    {{"relay", "tile-of-next-stage", 4}, kOneSlot},
    {{"relay", "tile-of-next-stage", 5}, kOneSlot},
    {{"relay", "tile-of-next-stage", 7}, kOneSlot},
    {{"relay", "tile-of-next-stage", 8}, kOneSlot},
    {{"gather", "drop-proxy-fence", 0}, kFencedLater},
    {{"gather", "proxy-fence-early", 0}, kFencedLater},
    {{"gather", "alias-alloc", 0}, "all reads of the ring are over by then"},
    {{"codes", "drop-barrier", 1}, "each warp reads the rows that it has written"},
    {{"cluster", "drop-acquire", 0}, "the first use of a slot waits for nobody"},
    {{"cluster", "release-early", 1}, "nothing is sent behind the second turn"},
    {{"cluster", "tile-of-next-stage", 0}, kOneSlot},
    {{"cluster", "tile-of-next-stage", 1}, kOneSlot},
};

/// What is wrong, or "" if the kernel gives `expected` under all seeds.
std::string diagnose(mlir::ModuleOp module, const Kernel &kernel,
                     const std::vector<Data> &expected) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::vector<Data> data = kernel.arguments;
    if (auto finding = run(module, data, seed))
      return (simulator::stringify(finding->defect) + ": " + finding->op->getName().getStringRef())
          .str();
    for (size_t i = 0; i < data.size(); ++i) {
      bool isSame = std::visit(
          [&](auto &value) {
            auto &other = std::get<std::decay_t<decltype(value)>>(expected[i]);
            if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>)
              return value == other;
            else
              return memcmp(value.data(), other.data(), value.size() * sizeof(value[0])) == 0;
          },
          data[i]);
      if (!isSame)
        return "wrong result";
    }
  }
  return "";
}

class Mutations : public ::testing::TestWithParam<Kernel>, protected Context {};

TEST_P(Mutations, AreFound) {
  Kernel kernel = GetParam();
  auto module = parse(kernel.name, context);
  ASSERT_TRUE(module);
  std::vector<Data> expected = kernel.arguments;
  ASSERT_FALSE(run(*module, expected, 0));
  for (const std::string &kind : simulator::getMutations())
    for (unsigned index = 0;; ++index) {
      mlir::OwningOpRef<mlir::ModuleOp> mutant = module->clone();
      auto target = *mutant->getOps<mlir::sm90::KernelOp>().begin();
      if (!simulator::mutate(target, kind, index))
        break;
      ASSERT_TRUE(mlir::succeeded(mlir::verify(*mutant))) << kind << " " << index;
      std::string diagnosis = diagnose(*mutant, kernel, expected);
      bool isHarmless = kHarmless.count({kernel.name, kind, index});
      EXPECT_EQ(diagnosis.empty(), isHarmless)
          << kernel.name << " " << kind << " " << index << ": " << diagnosis;
      llvm::outs() << kernel.name << " " << kind << " " << index << ": "
                   << (diagnosis.empty() ? "harmless" : diagnosis) << "\n";
    }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Mutations,
                         ::testing::Values(makeRelay(300), makeGather(300), makeSelect(2900),
                                           makeHeld(1900), makeMarks(), makeCodes(), makeCluster()),
                         [](const auto &info) { return info.param.name; });

/// Every kind is found somewhere.
TEST(MutationKinds, AreAllPlanted) {
  Context all;
  std::set<std::string> planted;
  for (const char *name : {"relay", "gather", "select", "held", "marks", "codes", "cluster"}) {
    auto module = parse(name, all.context);
    for (const std::string &kind : simulator::getMutations())
      for (unsigned index = 0;; ++index) {
        mlir::OwningOpRef<mlir::ModuleOp> mutant = module->clone();
        if (!simulator::mutate(*mutant->getOps<mlir::sm90::KernelOp>().begin(), kind, index))
          break;
        if (!kHarmless.count({name, kind, index}))
          planted.insert(kind);
      }
  }
  for (const std::string &kind : simulator::getMutations())
    EXPECT_TRUE(planted.count(kind)) << kind;
  EXPECT_GE(planted.size(), 25u);
}

} // namespace
