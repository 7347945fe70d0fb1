//===- Progress.cpp - what mla-compile shows on the way ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Progress.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/WithColor.h"

using namespace mlac;

static bool isQuiet = false;

void mlac::silenceProgress() { isQuiet = true; }

bool mlac::isSilent() { return isQuiet; }

void mlac::showStage(const std::string &name) {
  if (isQuiet)
    return;
  if (llvm::sys::Process::StandardErrIsDisplayed())
    llvm::errs() << "\r\033[K" << name;
  else
    llvm::errs() << "mla-compile: " << name << "\n";
}

void mlac::endProgress() {
  if (!isQuiet && llvm::sys::Process::StandardErrIsDisplayed())
    llvm::errs() << "\r\033[K";
}

void mlac::printTiming(const StageTimer &timer) {
  double total = 0;
  for (const StageTimer::Stage &stage : timer.stages()) {
    llvm::errs() << llvm::format("  %8.3f s  ", stage.seconds) << stage.name << "\n";
    total += stage.seconds;
  }
  llvm::errs() << llvm::format("  %8.3f s  total\n", total);
}

bool mlac::fail(const llvm::Twine &message) {
  endProgress();
  llvm::WithColor::error(llvm::errs(), "mla-compile") << message << "\n";
  return false;
}
