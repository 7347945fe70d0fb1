//===- Targets.h - the targets that there are ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_MACHINE_TARGETS_H
#define MLA_MACHINE_TARGETS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/CommandLine.h"

namespace mlac {

/// Whose tile shapes `convert-mla-to-tile` uses. The algorithms are the same for all.
enum class TileTarget {
#define MLAC_TARGET(name, option, chip, isScheduled, summary) name,
#include "mla/Machine/Targets.def"
};

/// A line of Targets.def.
struct TargetInfo {
  TileTarget target;
  llvm::StringLiteral option, chip;
  bool isScheduled;
  llvm::StringLiteral summary;
};
llvm::ArrayRef<TargetInfo> getTargetInfos();
const TargetInfo &getInfo(TileTarget target);

/// The values of an option that takes one.
llvm::cl::ValuesClass getTileTargetValues();

} // namespace mlac

#endif // MLA_MACHINE_TARGETS_H
