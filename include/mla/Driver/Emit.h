//===- Emit.h - levels short of a package ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DRIVER_EMIT_H
#define MLA_DRIVER_EMIT_H

#include "mla/Driver/Compile.h"

#include <string>

namespace mlac {

/// Levels that every target has; each has others below `tile` (CompileTarget.h).
inline constexpr llvm::StringLiteral kMlaLevel = "mla", kTileLevel = "tile",
                                     kPackageLevel = "package";

/// The name of standard output, for -o.
inline constexpr llvm::StringLiteral kStandardOutput = "-";

/// Writes a file, when complete, or to standard output.
llvm::Error writeResult(llvm::StringRef path, llvm::ArrayRef<uint8_t> bytes);

/// Whether a level is one file per kernel.
bool isBinaryLevel(llvm::StringRef level);

/// Writes one level (not `package`) for every target, in the order of the targets:
/// texts to the file `output` (standard output if empty), files of kernels into the
/// folder `output`. False: `error` says why, and nothing was written.
bool emitLevel(const std::string &level, mlir::ModuleOp module, const CompileOptions &options,
               StageTimer &timer, const std::string &output, std::string &error);

} // namespace mlac

#endif // MLA_DRIVER_EMIT_H
