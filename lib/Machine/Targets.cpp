//===- Targets.cpp - the targets that there are ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Machine/Targets.h"

using namespace mlac;

static constexpr TargetInfo kInfos[] = {
#define MLAC_TARGET(name, option, chip, isScheduled, summary)                                      \
  {TileTarget::name, option, chip, isScheduled, summary},
#include "mla/Machine/Targets.def"
};

llvm::ArrayRef<TargetInfo> mlac::getTargetInfos() { return kInfos; }

const TargetInfo &mlac::getInfo(TileTarget target) { return kInfos[static_cast<size_t>(target)]; }

llvm::cl::ValuesClass mlac::getTileTargetValues() {
  return llvm::cl::ValuesClass({
#define MLAC_TARGET(name, option, chip, isScheduled, summary)                                      \
  clEnumValN(TileTarget::name, option, summary),
#include "mla/Machine/Targets.def"
  });
}
