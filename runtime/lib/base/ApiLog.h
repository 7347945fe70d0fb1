//===- ApiLog.h - the log of calls ------------------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where messages go is set by the environment, or by mla_set_log. A logger that is off
// costs its callers one relaxed load.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_APILOG_H
#define MLAC_RUNTIME_APILOG_H

#include "base/Status.h"

#include "mla_runtime/operation.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <string_view>

namespace mlac::runtime {

/// The level that is on.
extern std::atomic<int> logLevel;

inline bool isLogged(mla_log_level level) {
  return logLevel.load(std::memory_order_relaxed) >= level;
}

/// `message` of one line, at a level that is on.
void writeLog(mla_log_level level, std::string_view message);

/// A file's name, with the process id for each %p.
std::string expandProcessId(std::string path);

/// Of where messages go; held around fork().
std::mutex &logMutex();

Status setLog(mla_log_level level, mla_log_function function, void *user);

/// One call of the C API, from its first line to its status.
class LoggedCall {
public:
  explicit LoggedCall(const char *name) : name(name), isTimed(isLogged(MLA_LOG_ERRORS)) {
    if (isTimed)
      begin = std::chrono::steady_clock::now();
  }
  /// `message` says what was wrong.
  void end(mla_status status, const char *message) const {
    if (isTimed)
      write(status, message);
  }

private:
  void write(mla_status status, const char *message) const;

  const char *name;
  bool isTimed;
  std::chrono::steady_clock::time_point begin;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_APILOG_H
