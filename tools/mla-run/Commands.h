//===- Commands.h - the commands of mla-run ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_RUN_COMMANDS_H
#define MLA_RUN_COMMANDS_H

#include <cstdint>
#include <string>
#include <vector>

namespace mlac::run {

/// Exit codes: a check that found wrong numbers is not a wrong call.
enum ExitCode { kPassed = 0, kCheckFailed = 1, kError = 2 };

/// What the runtime allows in one step.
inline constexpr int64_t kMostRequests = 65536;

/// What `mla-run COMMAND --help` prints; for "" what `mla-run --help` prints;
/// null if there is no such command.
const char *getHelp(const std::string &command);

/// Each takes the words after the command's name and throws std::runtime_error.
int runInfo(const std::vector<std::string> &words);
int runCheck(const std::vector<std::string> &words);
int runBench(const std::vector<std::string> &words);
int runReplay(const std::vector<std::string> &words);
int runSimulate(const std::vector<std::string> &words);

} // namespace mlac::run

#endif // MLA_RUN_COMMANDS_H
