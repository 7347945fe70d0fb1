//===- Simulate.cpp - one kernel of a package in the simulator ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The simulator is the compiler's: a package says what it was compiled from and how, so
// mla-compile --simulate makes the kernel again and runs it.
//
//===----------------------------------------------------------------------===//

#include "Api.h"
#include "Arguments.h"
#include "Commands.h"
#include "LayerKind.h"

#include "nlohmann/json.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace mlac::run;
using nlohmann::json;

/// MLAC_COMPILER, what lies beside this program, or the PATH's.
static std::string findCompiler() {
  if (const char *named = std::getenv("MLAC_COMPILER"); named && *named)
    return named;
  std::error_code ignored;
  std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  std::filesystem::path beside = self.parent_path() / "mla-compile";
  return std::filesystem::exists(beside, ignored) ? beside.string() : "mla-compile";
}

namespace {
/// A file of this process that has no name, so that nothing is left of it however it ends.
class NamelessFile {
public:
  explicit NamelessFile(const std::string &text) : descriptor(memfd_create("config.json", 0)) {
    for (size_t done = 0; isOpen() && done < text.size();) {
      ssize_t count = write(descriptor, text.data() + done, text.size() - done);
      if (count < 0)
        throw std::runtime_error("keeping the configuration: " + std::string(strerror(errno)));
      done += count;
    }
    if (!isOpen())
      throw std::runtime_error("keeping the configuration: " + std::string(strerror(errno)));
  }
  NamelessFile(const NamelessFile &) = delete;
  ~NamelessFile() {
    if (isOpen())
      close(descriptor);
  }
  /// For a program that this one starts.
  std::string path() const { return "/dev/fd/" + std::to_string(descriptor); }

private:
  bool isOpen() const { return descriptor >= 0; }
  int descriptor;
};
} // namespace

/// Runs a program and returns its exit code; one that a signal ended is an error.
static int runProgram(const std::vector<std::string> &words) {
  constexpr int kNotStarted = 127; // as a shell has it
  std::vector<char *> arguments;
  for (const std::string &word : words)
    arguments.push_back(const_cast<char *>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = fork();
  if (child == 0) {
    execvp(arguments[0], arguments.data());
    std::fprintf(stderr, "mla-run simulate: error: %s: %s\n", arguments[0], std::strerror(errno));
    _exit(kNotStarted);
  }
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) != child)
    if (errno != EINTR)
      child = -1;
  if (child < 0)
    throw std::runtime_error("starting " + words[0] + ": " + std::strerror(errno));
  if (WIFSIGNALED(status))
    throw std::runtime_error(words[0] + " was ended by signal " + std::to_string(WTERMSIG(status)) +
                             " (" + strsignal(WTERMSIG(status)) + ")");
  return WEXITSTATUS(status) == kNotStarted ? kError : WEXITSTATUS(status);
}

/// The options that the package was compiled with, for mla-compile; it finds the scheduled
/// target among them.
static std::vector<std::string> readOptions(const json &info) {
  std::istringstream stream(info.at("options").get<std::string>());
  std::vector<std::string> words;
  for (std::string word; stream >> word;)
    words.push_back(word);
  return words;
}

int mlac::run::runSimulate(const std::vector<std::string> &words) {
  Arguments arguments(words,
                      {kLayerOption,
                       {"kernel", true},
                       {"batch", true},
                       {"context", true},
                       {"query-len", true},
                       {"seeds", true}},
                      {"PACKAGE"});
  if (arguments.get("kernel", "").empty())
    throw std::runtime_error("expected --kernel=NAME (mla-run info lists them)");
  json info = readInfo(openLayer(arguments));
  std::string config = info.at("model").at("config");
  if (config.empty())
    throw std::runtime_error("the package was compiled from a module, which it does not keep: "
                             "mla-compile MODULE --simulate=KERNEL");
  NamelessFile file(config);
  std::vector<std::string> command = {findCompiler(), file.path(), "--quiet"};
  for (const std::string &option : readOptions(info))
    command.push_back(option);
  auto number = [&](const char *name, int64_t otherwise, int64_t least) {
    return std::to_string(arguments.getInteger(name, otherwise, least));
  };
  command.push_back("--simulate=" + arguments.get("kernel", ""));
  command.push_back("--simulate-step=" + number("batch", 2, 1) + ":" + number("context", 100, 0) +
                    ":" + number("query-len", 1, 1));
  command.push_back("--simulate-seeds=" + number("seeds", 2, 1));
  command.push_back("--simulate-package=" + arguments.positional(0));
  return runProgram(command);
}
