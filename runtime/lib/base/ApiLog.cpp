//===- ApiLog.cpp - the log of calls ----------------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "base/ApiLog.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>

using namespace mlac::runtime;

static constexpr const char *kLevelVariable = "MLAC_LOG", *kFileVariable = "MLAC_LOG_FILE";
static constexpr std::string_view kLevels[] = {"off", "errors", "calls", "steps"};

namespace {
/// Who gets messages. Never destroyed: threads may log while the process exits.
struct Sink {
  std::mutex mutex;
  mla_log_function function = nullptr;
  void *user = nullptr;
  FILE *file = nullptr; // opened for the first message
};
} // namespace

static Sink &sink() {
  static Sink &instance = *new Sink;
  return instance;
}

std::mutex &mlac::runtime::logMutex() { return sink().mutex; }

static int readLevel() {
  const char *text = std::getenv(kLevelVariable);
  if (!text)
    return MLA_LOG_OFF;
  for (size_t level = 0; level < std::size(kLevels); ++level)
    if (text == kLevels[level])
      return static_cast<int>(level);
  std::fprintf(stderr, "mlac: %s: expected off, errors, calls or steps, got '%s'\n", kLevelVariable,
               text);
  return MLA_LOG_OFF;
}

constinit std::atomic<int> mlac::runtime::logLevel = MLA_LOG_OFF;
[[maybe_unused]] static const bool isLevelRead = (logLevel = readLevel(), true);

std::string mlac::runtime::expandProcessId(std::string path) {
  constexpr std::string_view place = "%p";
  std::string id = std::to_string(getpid());
  for (size_t at = path.find(place); at != std::string::npos; at = path.find(place, at + id.size()))
    path.replace(at, place.size(), id);
  return path;
}

static FILE *openFile() {
  const char *name = std::getenv(kFileVariable);
  if (!name || !*name)
    return stderr;
  std::string path = expandProcessId(name);
  if (FILE *file = std::fopen(path.c_str(), "ae")) {
    std::setvbuf(file, nullptr, _IOLBF, BUFSIZ); // what a crash leaves ends with a whole line
    return file;
  }
  std::fprintf(stderr, "mlac: %s: cannot append to '%s': %s\n", kFileVariable, path.c_str(),
               std::strerror(errno));
  return stderr;
}

void mlac::runtime::writeLog(mla_log_level level, std::string_view message) {
  Sink &to = sink();
  std::lock_guard lock(to.mutex);
  std::string line(message);
  if (to.function)
    return to.function(to.user, level, line.c_str());
  if (!to.file)
    to.file = openFile();
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  std::fprintf(to.file, "mlac %lld.%06ld %d/%d %s\n", static_cast<long long>(now.tv_sec),
               now.tv_nsec / 1000, getpid(), gettid(), line.c_str());
}

Status mlac::runtime::setLog(mla_log_level level, mla_log_function function, void *user) {
  if (level < MLA_LOG_OFF || level > MLA_LOG_STEPS)
    return error(MLA_INVALID_ARGUMENT, "level = ", static_cast<int>(level), ", expected ",
                 static_cast<int>(MLA_LOG_OFF), " to ", static_cast<int>(MLA_LOG_STEPS));
  Sink &to = sink();
  std::lock_guard lock(to.mutex);
  to.function = function;
  to.user = user;
  logLevel = level;
  return Status();
}

void LoggedCall::write(mla_status status, const char *message) const {
  bool isFailure = status != MLA_OK && status != MLA_OUT_OF_PAGES;
  mla_log_level level = isFailure ? MLA_LOG_ERRORS : MLA_LOG_CALLS;
  if (!isLogged(level))
    return;
  using Microseconds = std::chrono::duration<double, std::micro>;
  double time = Microseconds(std::chrono::steady_clock::now() - begin).count();
  char text[64];
  std::snprintf(text, sizeof text, " in %.1f us", time);
  try {
    std::string line = std::string(name) + ": " + mla_status_name(status) + text;
    writeLog(level, isFailure ? line + ": " + message : line);
  } catch (...) { // no memory for a message is no reason for a call to fail
  }
}
