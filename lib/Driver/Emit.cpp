//===- Emit.cpp - levels short of a package ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Driver/Emit.h"

#include "mla/Driver/CompileTarget.h"
#include "mla/Package/PackageFile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlac;
using mlir::failed;
using mlir::FailureOr;
using mlir::ModuleOp;
using mlir::OwningOpRef;

llvm::Error mlac::writeResult(llvm::StringRef path, llvm::ArrayRef<uint8_t> bytes) {
  if (path != kStandardOutput)
    return writeFileAtomically(path, bytes);
  llvm::raw_fd_ostream &stream = llvm::outs();
  stream.write(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  stream.flush();
  std::error_code code = stream.error();
  stream.clear_error(); // else the end of the process would be an abort
  if (!code)
    return llvm::Error::success();
  return llvm::createStringError(code, "cannot write to standard output: " + code.message());
}

static std::string print(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  stream << "\n";
  return text;
}

/// What one target has at a level. Errors go to the context's diagnostics.
static FailureOr<std::vector<EmittedCode>> makeCode(const std::string &level, ModuleOp module,
                                                    const CompileTarget &target,
                                                    const CompileOptions &options) {
  FailureOr<OwningOpRef<ModuleOp>> lowered = level == kMlaLevel
                                                 ? lowerMla(module, target.getName(), options)
                                                 : lowerToTile(module, target.getName(), options);
  if (failed(lowered))
    return mlir::failure();
  if (level == kMlaLevel || level == kTileLevel)
    return std::vector<EmittedCode>{{"", print(**lowered)}};
  return target.emit(**lowered, level, options);
}

static bool takeError(llvm::Error result, std::string &error) {
  if (!result)
    return true;
  error = llvm::toString(std::move(result));
  return false;
}

static llvm::ArrayRef<uint8_t> getBytes(const std::string &text) {
  return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

/// One file per kernel, whose extension is the level.
static bool writeFiles(llvm::ArrayRef<EmittedCode> kernels, const std::string &level,
                       const std::string &folder, std::string &error) {
  if (std::error_code code = llvm::sys::fs::create_directories(folder)) {
    error = "cannot make the folder '" + folder + "': " + code.message();
    return false;
  }
  for (const EmittedCode &kernel : kernels) {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, kernel.kernel + "." + level);
    if (!takeError(writeFileAtomically(path, getBytes(kernel.bytes)), error))
      return false;
  }
  return true;
}

static bool emitFiles(const std::string &level, mlir::ModuleOp module,
                      const CompileOptions &options, StageTimer &timer, const std::string &output,
                      std::string &error) {
  if (output.empty() || output == kStandardOutput) {
    error = "--emit=" + level + " writes one file per kernel: give their folder with -o";
    return false;
  }
  for (const std::string &target : options.targets) {
    timer.begin(target + ": compile and assemble");
    FailureOr<std::vector<EmittedCode>> code =
        makeCode(level, module, *findCompileTarget(target), options);
    if (failed(code)) {
      error = "no " + level + " was written";
      return false;
    }
    if (!writeFiles(*code, level, output, error))
      return false;
  }
  return true;
}

bool mlac::isBinaryLevel(llvm::StringRef level) {
  return llvm::any_of(getCompileTargets(), [&](const CompileTarget *target) {
    const CompileLevel *found = target->findLevel(level);
    return found && found->isBinary;
  });
}

/// Which targets have a level that `target` lacks.
static std::string describeLack(const CompileTarget &target, llvm::StringRef level) {
  std::vector<std::string> names = {kMlaLevel.str(), kTileLevel.str()};
  for (const CompileLevel &each : target.getLevels())
    names.push_back(each.name.str());
  return "--emit: the target " + target.getName() + " has only " + joinNames(names, " and ") +
         "; use --target=" + listTargets(" or --target=", [&](const CompileTarget &other) {
           return other.findLevel(level) != nullptr;
         });
}

bool mlac::emitLevel(const std::string &level, mlir::ModuleOp module, const CompileOptions &options,
                     StageTimer &timer, const std::string &output, std::string &error) {
  for (const std::string &name : options.targets) {
    const CompileTarget &target = *findCompileTarget(name);
    if (level != kMlaLevel && level != kTileLevel && !target.findLevel(level)) {
      error = describeLack(target, level);
      return false;
    }
  }
  if (isBinaryLevel(level))
    return emitFiles(level, module, options, timer, output, error);
  std::string text;
  for (const std::string &target : options.targets) {
    timer.begin(target + ": lower");
    FailureOr<std::vector<EmittedCode>> part =
        makeCode(level, module, *findCompileTarget(target), options);
    if (failed(part)) {
      error = "nothing was written";
      return false;
    }
    for (const EmittedCode &code : *part)
      text += code.bytes;
  }
  timer.end();
  llvm::StringRef path = output.empty() ? llvm::StringRef(kStandardOutput) : output;
  return takeError(writeResult(path, getBytes(text)), error);
}
