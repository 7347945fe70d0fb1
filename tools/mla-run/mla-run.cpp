//===- mla-run.cpp - runs, checks and measures packages ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Arguments.h"
#include "Check.h"
#include "Commands.h"
#include "Printable.h"

#include "mla_runtime.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <unistd.h>

using namespace mlac::run;

static int refuseCommand(const std::string &command) {
  std::string nearest = findNearest(command, {"info", "check", "bench", "replay", "simulate"});
  std::string question = nearest.empty() ? "" : "did you mean '" + nearest + "'? ";
  std::fprintf(
      stderr,
      "mla-run: error: unknown command '%s'; %sknown: info, check, bench, replay, simulate (see "
      "--help)\n",
      command.c_str(), question.c_str());
  return kError;
}

static int dispatch(const std::string &command, const std::vector<std::string> &words) {
  if (command == "info")
    return runInfo(words);
  if (command == "check")
    return runCheck(words);
  if (command == "replay")
    return runReplay(words);
  if (command == "simulate")
    return runSimulate(words);
  return runBench(words);
}

/// A closed descriptor would be the next file's, and that file get what is printed.
static void keepStandardDescriptors() {
  int descriptor = 0;
  while (descriptor >= 0 && descriptor <= STDERR_FILENO)
    descriptor = open("/dev/null", O_RDONLY); // the least that is free; writing to it fails
  if (descriptor >= 0)
    close(descriptor);
}

/// `code`, unless what was printed went nowhere: a full disk, a closed descriptor.
static int endOutput(int code) {
  errno = 0;
  if (std::fflush(stdout) == 0 && !std::ferror(stdout))
    return code;
  std::fprintf(stderr, "mla-run: error: cannot write to standard output: %s\n",
               std::strerror(errno != 0 ? errno : EIO));
  return kError;
}

static bool isHelp(const std::string &word) { return word == "--help" || word == "-h"; }

int main(int argc, char **argv) {
  keepStandardDescriptors();
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty()) {
    std::fputs(getHelp(""), stderr);
    return kError;
  }
  // `mla-run help check` reads as `mla-run check --help`.
  if (isHelp(words[0]) || words[0] == "help")
    words = {words.size() > 1 ? words[1] : "", "--help"};
  if (words[0] == "--version") {
    std::printf("mla-run %s\n", mla_runtime_version());
    return endOutput(kPassed);
  }
  const char *help = getHelp(words[0]);
  bool wantsHelp = std::any_of(words.begin() + 1, words.end(), isHelp);
  if (!help || (words[0].empty() && !wantsHelp))
    return refuseCommand(words[0]);
  if (wantsHelp) {
    std::fputs(help, stdout);
    return endOutput(kPassed);
  }
  try {
    return endOutput(dispatch(words[0], {words.begin() + 1, words.end()}));
  } catch (const std::exception &error) {
    showProgress("");
    std::fprintf(stderr, "mla-run %s: error: %s\n", words[0].c_str(),
                 printable(error.what()).c_str());
    return kError;
  }
}
