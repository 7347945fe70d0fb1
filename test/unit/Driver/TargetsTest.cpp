//===- TargetsTest.cpp - the registry of targets ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Everything that the compiler knows of a target follows from its line of Targets.def.
//
//===----------------------------------------------------------------------===//

#include "mla/Machine/Targets.h"
#include "mla/Driver/Compile.h"
#include "mla/Driver/CompileTarget.h"
#include "mla/Machine/TargetDescription.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <gtest/gtest.h>

using namespace mlac;

namespace {

TEST(Targets, EveryLineIsATargetThatErrorsName) {
  std::vector<const CompileTarget *> targets = getCompileTargets();
  ASSERT_EQ(targets.size(), getTargetInfos().size());
  std::string listed = listTargets(", ");
  for (auto [target, info] : llvm::zip_equal(targets, getTargetInfos())) {
    EXPECT_EQ(target->getName(), info.chip);
    EXPECT_EQ(&target->info, &getInfo(info.target));
    EXPECT_EQ(findCompileTarget(info.chip), target);
    EXPECT_NE(listed.find(info.chip.str()), std::string::npos) << listed;
  }
  EXPECT_EQ(findCompileTarget("sm_70"), nullptr);
  EXPECT_EQ(listTargets(), "cpu or sm_90a");
}

TEST(Targets, NoTwoShareAName) {
  llvm::StringSet<> chips, options;
  for (const TargetInfo &info : getTargetInfos()) {
    EXPECT_TRUE(chips.insert(info.chip).second) << info.chip.str();
    EXPECT_TRUE(options.insert(info.option).second) << info.option.str();
  }
}

TEST(Targets, EachHasAMachineOfItsChip) {
  for (const TargetInfo &info : getTargetInfos()) {
    const TargetDescription &machine = getMachineOf(info.chip);
    EXPECT_EQ(machine.chip, info.chip);
    EXPECT_GT(machine.numSms, 0);
    EXPECT_GT(machine.readGbps, 0);
    // What is scheduled by cost needs a multiprocessor's rates and its measured numbers.
    EXPECT_EQ(machine.sm.clockGhz > 0, info.isScheduled) << info.chip.str();
    EXPECT_EQ(machine.tuning.busyPrograms > 0, info.isScheduled) << info.chip.str();
    EXPECT_LE(machine.tuning.busyPrograms, machine.numSms) << info.chip.str();
  }
}

TEST(Targets, EveryLevelOfATargetCanBeAskedFor) {
  std::vector<std::string> levels = listLevels();
  EXPECT_EQ(levels.front(), "mla");
  EXPECT_EQ(levels.back(), "package");
  for (const CompileTarget *target : getCompileTargets()) {
    int64_t last = -1;
    for (const CompileLevel &level : target->getLevels()) {
      EXPECT_EQ(target->findLevel(level.name), &level);
      // In the order of the way down.
      int64_t place = llvm::find(levels, level.name.str()) - levels.begin();
      EXPECT_GT(place, last) << level.name.str();
      last = place;
    }
    EXPECT_LT(last, static_cast<int64_t>(levels.size()));
    EXPECT_EQ(target->findLevel("package"), nullptr);
  }
}

TEST(Targets, PackagesRecordTheOptionsOfTheirTargetsOnly) {
  mlir::MLIRContext context;
  context.loadDialect<mlir::mla::MlaDialect>();
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  CompileOptions options;
  options.targets = {"sm_90a"};
  std::string text = describeOptions(*module, options);
  EXPECT_EQ(text.find("--cpu="), std::string::npos) << text;
  EXPECT_NE(text.find("--assembler="), std::string::npos) << text;
  options.targets = {"cpu"};
  text = describeOptions(*module, options);
  EXPECT_NE(text.find("--cpu="), std::string::npos) << text;
  EXPECT_EQ(text.find("--assembler="), std::string::npos) << text;
}

TEST(Targets, AnOptionThatATargetCannotMeetIsNamed) {
  CompileOptions options;
  std::string error;
  options.cpu = "z80";
  EXPECT_FALSE(findCompileTarget("cpu")->check(options, "package", error));
  EXPECT_NE(error.find("--cpu: "), std::string::npos) << error;
  EXPECT_NE(error.find("z80"), std::string::npos) << error;
  EXPECT_TRUE(findCompileTarget("sm_90a")->check(options, "package", error));
  options.assembler.kind = AssemblerKind::None;
  EXPECT_FALSE(findCompileTarget("sm_90a")->check(options, "cubin", error));
  EXPECT_NE(error.find("--assembler=none"), std::string::npos) << error;
  EXPECT_TRUE(findCompileTarget("sm_90a")->check(options, "ptx", error));
}

} // namespace
