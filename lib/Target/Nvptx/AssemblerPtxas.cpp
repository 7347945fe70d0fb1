//===- AssemblerPtxas.cpp - runs the ptxas program ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX goes in and the cubin comes out through files of one private temporary
// folder. Their names are fixed inside it, and its path is removed from the
// log, so that nothing about the run gets into the results.
//
//===----------------------------------------------------------------------===//

#include "mla/Target/Nvptx/Assembler.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/raw_ostream.h"

#include <unistd.h>

using namespace mlac;

namespace {
/// A command's exit status and what it printed on both streams.
struct CommandResult {
  int status;
  std::string output;
};

class TemporaryDir {
public:
  TemporaryDir() { error = llvm::sys::fs::createUniqueDirectory("mlac-ptxas", path); }
  ~TemporaryDir() {
    if (!error)
      llvm::sys::fs::remove_directories(path);
  }
  std::string file(llvm::StringRef name) const {
    llvm::SmallString<128> result(path);
    llvm::sys::path::append(result, name);
    return std::string(result);
  }
  std::error_code error;
  llvm::SmallString<128> path;
};
} // namespace

static std::string readFile(llvm::StringRef path) {
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> buffer =
      llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  return buffer ? (*buffer)->getBuffer().str() : std::string();
}

/// This process's environment, in which glibc's allocator asks for huge pages: most of what the
/// system does for ptxas is to give it pages one by one, a fifteenth of its time.
static std::vector<std::string> makeEnvironment() {
  static constexpr llvm::StringLiteral name = "GLIBC_TUNABLES=",
                                       hugePages = "glibc.malloc.hugetlb=1";
  std::vector<std::string> result;
  std::string tunables = (name + hugePages).str();
  for (char **entry = environ; *entry; ++entry) {
    llvm::StringRef text(*entry);
    if (text.consume_front(name)) // the last of two counts
      tunables = (name + hugePages + ":" + text).str();
    else
      result.push_back(text.str());
  }
  result.push_back(tunables);
  return result;
}

/// Runs `program` and collects what it prints in a file of `dir`.
static CommandResult runCommand(llvm::StringRef program, llvm::ArrayRef<llvm::StringRef> arguments,
                                const TemporaryDir &dir) {
  std::string logPath = dir.file("log");
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(), llvm::StringRef(logPath),
                                                llvm::StringRef(logPath)};
  llvm::SmallVector<llvm::StringRef, 8> command{program};
  command.append(arguments.begin(), arguments.end());
  std::string message;
  std::vector<std::string> environment = makeEnvironment();
  llvm::SmallVector<llvm::StringRef, 64> entries(environment.begin(), environment.end());
  int status = llvm::sys::ExecuteAndWait(program, command, llvm::ArrayRef(entries), redirects,
                                         /*SecondsToWait=*/0, /*MemoryLimit=*/0, &message);
  std::string output = readFile(logPath);
  if (!message.empty())
    output += message + "\n";
  return {status, output};
}

static llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message.str());
}

/// Writes a file; an error names it and the reason.
static llvm::Error writeFile(llvm::StringRef path, llvm::StringRef text) {
  std::error_code error;
  llvm::raw_fd_ostream file(path, error);
  file << text;
  file.close();
  bool isWritten = !error && !file.has_error();
  std::error_code reason = error ? error : file.error();
  file.clear_error(); // else its destructor ends the process
  if (isWritten)
    return llvm::Error::success();
  return makeError("cannot write '" + path + "': " + reason.message());
}

/// Whether the folder was made.
static llvm::Error check(const TemporaryDir &dir) {
  if (!dir.error)
    return llvm::Error::success();
  llvm::SmallString<128> parent;
  llvm::sys::path::system_temp_directory(/*ErasedOnReboot=*/true, parent);
  return makeError("cannot make a temporary folder in '" + parent +
                   "' (TMPDIR): " + dir.error.message());
}

namespace {
class PtxasAssembler : public Assembler {
public:
  PtxasAssembler(std::string path, std::string version)
      : path(std::move(path)), version(std::move(version)) {}

  std::string getDescription() const override { return "ptxas " + version; }
  std::string getPath() const override { return path; }

  llvm::Expected<AssemblerResult> assemble(llvm::StringRef ptx,
                                           llvm::StringRef chip) const override {
    TemporaryDir dir;
    if (llvm::Error error = check(dir))
      return std::move(error);
    std::string input = dir.file("kernel.ptx"), output = dir.file("kernel.cubin");
    if (llvm::Error error = writeFile(input, ptx))
      return std::move(error);
    CommandResult result = runCommand(path, {"-arch", chip, "-O3", "-v", input, "-o", output}, dir);
    std::string log = dropDir(result.output, dir);
    if (result.status != 0)
      return makeError(path + " failed with status " + llvm::Twine(result.status) + ":\n" + log);
    std::string cubin = readFile(output);
    if (cubin.empty())
      return makeError(path + " reported success but wrote no cubin:\n" + log);
    return AssemblerResult{std::vector<char>(cubin.begin(), cubin.end()), std::move(log)};
  }

private:
  static std::string dropDir(llvm::StringRef log, const TemporaryDir &dir) {
    std::string result, prefix = (dir.path + "/").str();
    for (auto [head, tail] = log.split(prefix);; std::tie(head, tail) = tail.split(prefix)) {
      result += head;
      if (tail.empty())
        return result;
    }
  }

  std::string path, version;
};
} // namespace

/// The version of the `ptxas` at `path`, for instance "13.0.88"; empty if it
/// does not run or is something else. Where there is no room for what it prints, nobody can
/// tell: that is an error, as another assembler would make other code.
static llvm::Expected<std::string> readVersion(llvm::StringRef path) {
  TemporaryDir dir;
  if (llvm::Error error = check(dir))
    return std::move(error);
  constexpr size_t kMoreThanItPrints = 4096;
  if (llvm::Error error = writeFile(dir.file("log"), std::string(kMoreThanItPrints, ' ')))
    return std::move(error);
  CommandResult result = runCommand(path, {"--version"}, dir);
  llvm::SmallVector<llvm::StringRef, 2> groups;
  if (result.status == 0 && llvm::Regex(", V([0-9.]+)").match(result.output, &groups))
    return groups[1].str();
  return std::string();
}

llvm::Expected<std::unique_ptr<Assembler>> detail::createPtxas(const AssemblerOptions &options,
                                                               std::vector<std::string> &tried) {
  if (!options.ptxasPath.empty()) {
    llvm::Expected<std::string> version = readVersion(options.ptxasPath);
    if (!version)
      return version.takeError();
    if (version->empty())
      return makeError("--ptxas names '" + options.ptxasPath +
                       "', which does not run or is not ptxas");
    return std::make_unique<PtxasAssembler>(options.ptxasPath, *version);
  }
  for (const std::string &root : getToolkitRoots(options)) {
    llvm::SmallString<256> path(root);
    llvm::sys::path::append(path, "bin", "ptxas");
    tried.push_back(std::string(path));
    if (!llvm::sys::fs::can_execute(path))
      continue;
    llvm::Expected<std::string> version = readVersion(path);
    if (!version)
      return version.takeError();
    if (!version->empty())
      return std::make_unique<PtxasAssembler>(std::string(path), *version);
    tried.back() += " (does not run)";
  }
  return nullptr;
}
