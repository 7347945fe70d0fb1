//===- Assembler.cpp - choosing an assembler, reading its log ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Target/Nvptx/Assembler.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"

using namespace mlac;

namespace {
constexpr std::pair<AssemblerKind, llvm::StringLiteral> kKindNames[] = {
    {AssemblerKind::Auto, "auto"},
    {AssemblerKind::NvPtxCompiler, "nvptxcompiler"},
    {AssemblerKind::NvJitLink, "nvjitlink"},
    {AssemblerKind::Ptxas, "ptxas"},
    {AssemblerKind::None, "none"}};
} // namespace

llvm::StringRef mlac::stringifyAssemblerKind(AssemblerKind kind) {
  for (const auto &[value, name] : kKindNames)
    if (value == kind)
      return name;
  llvm_unreachable("every kind has a name");
}

std::optional<AssemblerKind> mlac::parseAssemblerKind(llvm::StringRef name) {
  for (const auto &[value, spelling] : kKindNames)
    if (spelling == name)
      return value;
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Search
//===----------------------------------------------------------------------===//

/// The folder of get-assembler.sh: beside bin/ of the running program, unless the environment
/// names another (a wheel's programs name the folder of Python's packages).
static std::string getAssemblerDir(const AssemblerOptions &options) {
  if (!options.assemblerDir.empty())
    return options.assemblerDir;
  if (std::optional<std::string> value = llvm::sys::Process::GetEnv("MLAC_ASSEMBLER_DIR"))
    return *value;
  static int anchor; // an address in this program, for systems without /proc
  std::string program = llvm::sys::fs::getMainExecutable(nullptr, &anchor);
  llvm::SmallString<256> dir(llvm::sys::path::parent_path(llvm::sys::path::parent_path(program)));
  llvm::sys::path::append(dir, "assembler");
  return std::string(dir);
}

std::vector<std::string> detail::getToolkitRoots(const AssemblerOptions &options) {
  std::vector<std::string> roots;
  auto add = [&](llvm::StringRef root) {
    if (!root.empty() && !llvm::is_contained(roots, root))
      roots.push_back(root.str());
  };
  // Wheels of the CUDA 13 generation share one folder with a toolkit's lay-out.
  llvm::SmallString<256> wheels(getAssemblerDir(options));
  llvm::sys::path::append(wheels, "nvidia", "cu13");
  add(wheels);
  if (options.toolkitRoots) {
    for (const std::string &root : *options.toolkitRoots)
      add(root);
    return roots;
  }
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
    if (std::optional<std::string> value = llvm::sys::Process::GetEnv(variable))
      add(*value);
  if (llvm::ErrorOr<std::string> found = llvm::sys::findProgramByName("ptxas"))
    add(llvm::sys::path::parent_path(llvm::sys::path::parent_path(*found)));
  add("/usr/local/cuda");
  return roots;
}

/// An error that lists what was tried and what to do.
static llvm::Error makeMissingError(llvm::StringRef what, llvm::ArrayRef<std::string> tried) {
  std::string text = ("no " + what + " found; tried:").str();
  for (const std::string &place : tried)
    text += "\n  " + place;
  text += "\ninstall a CUDA toolkit, or run scripts/get-assembler.sh, or name one by "
          "--ptxas, or stop at PTX with --assembler=none";
  return llvm::createStringError(llvm::inconvertibleErrorCode(), text);
}

llvm::Expected<std::unique_ptr<Assembler>> mlac::createAssembler(const AssemblerOptions &options) {
  using Factory = llvm::Expected<std::unique_ptr<Assembler>> (*)(const AssemblerOptions &,
                                                                 std::vector<std::string> &);
  llvm::SmallVector<Factory, 3> factories;
  switch (options.kind) {
  case AssemblerKind::Auto:
    factories = {detail::createPtxas, detail::createNvPtxCompiler, detail::createNvJitLink};
    break;
  case AssemblerKind::Ptxas:
    factories = {detail::createPtxas};
    break;
  case AssemblerKind::NvPtxCompiler:
    factories = {detail::createNvPtxCompiler};
    break;
  case AssemblerKind::NvJitLink:
    factories = {detail::createNvJitLink};
    break;
  case AssemblerKind::None:
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "assembler 'none' assembles nothing: stop at PTX");
  }
  std::vector<std::string> tried;
  for (Factory factory : factories) {
    llvm::Expected<std::unique_ptr<Assembler>> assembler = factory(options, tried);
    if (!assembler)
      return assembler.takeError();
    if (*assembler)
      return std::move(*assembler);
  }
  return makeMissingError(options.kind == AssemblerKind::Auto
                              ? "assembler (ptxas, nvptxcompiler or nvjitlink)"
                              : stringifyAssemblerKind(options.kind),
                          tried);
}

//===----------------------------------------------------------------------===//
// Log
//===----------------------------------------------------------------------===//

/// Reads the number before `unit` in `line`, for instance "168" before
/// "registers" in "Used 168 registers, used 1 barriers"; 0 if there is none.
static uint32_t readCount(llvm::StringRef line, llvm::StringRef unit) {
  llvm::SmallVector<llvm::StringRef, 2> groups;
  uint32_t count = 0;
  if (llvm::Regex("([0-9]+) " + unit.str()).match(line, &groups))
    (void)groups[1].getAsInteger(10, count);
  return count;
}

AssemblerReport mlac::parseAssemblerLog(llvm::StringRef log) {
  AssemblerReport report;
  const llvm::Regex wgmmaCode("C75[0-9][0-9]");
  llvm::SmallVector<llvm::StringRef, 16> lines;
  log.split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef line : lines) {
    if (wgmmaCode.match(line)) {
      report.wgmmaMessages.push_back(line.trim().str());
      continue;
    }
    if (line.contains_insensitive("warning")) {
      report.warnings.push_back(line.trim().str());
      continue;
    }
    if (line.contains("spill stores")) {
      report.stackBytes += readCount(line, "bytes stack frame");
      report.spillStoreBytes += readCount(line, "bytes spill stores");
      report.spillLoadBytes += readCount(line, "bytes spill loads");
    }
    if (line.contains(" registers")) {
      report.known = true;
      report.registers = std::max(report.registers, readCount(line, "registers"));
      report.staticSharedBytes += readCount(line, "bytes smem");
    }
  }
  return report;
}
