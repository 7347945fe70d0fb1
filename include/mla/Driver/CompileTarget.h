//===- CompileTarget.h - what differs between targets ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A target is a line of Targets.def and a class of this interface: the way from tile
// programs to its code, and the options that only it has. Everything that compiles,
// emits, describes or refuses by target asks here, so that no other place names one.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DRIVER_COMPILETARGET_H
#define MLA_DRIVER_COMPILETARGET_H

#include "mla/Machine/Targets.h"
#include "package_generated.h"

#include "mlir/Support/LLVM.h"

#include <string>
#include <vector>

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace mlac {

struct CompileOptions;
class StageTimer;

/// Where the way down from `tile` can stop.
struct CompileLevel {
  llvm::StringLiteral name;
  /// One file per kernel, for assemblers and disassemblers, instead of one text.
  bool isBinary = false;
};

/// What a level holds: all of a text, or a kernel's binary.
struct EmittedCode {
  std::string kernel; // empty: of all
  std::string bytes;
};

class CompileTarget {
public:
  explicit CompileTarget(TileTarget target) : info(getInfo(target)) {}
  virtual ~CompileTarget() = default;

  const TargetInfo &info;
  /// As `--target` and packages have it.
  std::string getName() const { return info.chip.str(); }

  virtual llvm::ArrayRef<CompileLevel> getLevels() const = 0;
  const CompileLevel *findLevel(llvm::StringRef name) const;
  virtual bool takesF32() const = 0;

  /// Whether `options` of this target alone can be met down to `level`, `package` for all;
  /// else `error` names option and value.
  virtual bool check(const CompileOptions &options, llvm::StringRef level,
                     std::string &error) const = 0;
  /// The options of this target alone that shape a package, as a command line.
  virtual std::string describeOptions(const CompileOptions &options) const = 0;

  /// A level's code, from the `tile` level. Errors go to the context's diagnostics.
  virtual mlir::FailureOr<std::vector<EmittedCode>>
  emit(mlir::ModuleOp tileModule, llvm::StringRef level, const CompileOptions &options) const = 0;
  /// Kernels and code objects of a package; `target.arch` is set.
  virtual mlir::LogicalResult compile(mlir::ModuleOp tileModule, const CompileOptions &options,
                                      StageTimer &timer, package::TargetT &target) const = 0;
};

/// All, in the order of Targets.def.
std::vector<const CompileTarget *> getCompileTargets();
/// The one of this name, or null.
const CompileTarget *findCompileTarget(llvm::StringRef name);

/// "a, b or c": the targets for which `takes`, by default all.
std::string listTargets(
    llvm::StringRef last = " or ", llvm::function_ref<bool(const CompileTarget &)> takes =
                                       [](const CompileTarget &) { return true; });
/// "mla", "tile", every level of any target on the way down, "package".
std::vector<std::string> listLevels();
/// "a, b or c".
std::string joinNames(llvm::ArrayRef<std::string> names, llvm::StringRef last);

// The classes' only objects, one for each line of Targets.def.
#define MLAC_TARGET(name, option, chip, isScheduled, summary)                                      \
  const CompileTarget &get##name##Target();
#include "mla/Machine/Targets.def"

} // namespace mlac

#endif // MLA_DRIVER_COMPILETARGET_H
