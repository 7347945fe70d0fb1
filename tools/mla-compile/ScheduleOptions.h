//===- ScheduleOptions.h - options of a GPU's schedules ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which schedules kernels get, and what cutting requests costs: options, help and limits.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_COMPILE_SCHEDULEOPTIONS_H
#define MLA_COMPILE_SCHEDULEOPTIONS_H

#include "mla/Driver/Compile.h"
#include "mla/Driver/CompileTarget.h"

#include "llvm/Support/CommandLine.h"

namespace mlac {

extern llvm::cl::OptionCategory scheduleCategory;

inline bool isScheduled(const CompileTarget &target) { return target.info.isScheduled; }

/// What --help says of the parameters of schedules.
const std::string &listScheduleKeys();

/// Reads schedules and costs; the targets are known. False: an error was printed.
bool readScheduling(CompileOptions &options);

} // namespace mlac

#endif // MLA_COMPILE_SCHEDULEOPTIONS_H
