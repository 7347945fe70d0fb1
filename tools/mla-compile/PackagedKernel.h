//===- PackagedKernel.h - a package's kernel and this compiler's ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The simulator runs what is compiled now. Whether that says anything about a package depends
// on whether the package has the same kernel, launched alike: equal compilations give equal
// bytes, so this is a comparison of bytes.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_COMPILE_PACKAGEDKERNEL_H
#define MLA_COMPILE_PACKAGEDKERNEL_H

#include "mla/Driver/Compile.h"

#include "llvm/Support/Error.h"

namespace mlac {

class CompileTarget;

/// A kernel as it is compiled now.
struct FreshKernel {
  const CompileTarget &target;
  std::string name;
  mlir::ModuleOp module;           ///< the tile program of this kernel alone
  llvm::ArrayRef<uint8_t> package; ///< whose first target has the functions
  const CompileOptions &options;   ///< whose assembler is that of the package, if it is here
};

/// Compares it with the package in the file `path`, and prints to `os` what was compared. Code
/// that another assembler made is not, which is said. Error: they differ, and where.
llvm::Error comparePackaged(const std::string &path, const FreshKernel &fresh,
                            llvm::raw_ostream &os);

} // namespace mlac

#endif // MLA_COMPILE_PACKAGEDKERNEL_H
