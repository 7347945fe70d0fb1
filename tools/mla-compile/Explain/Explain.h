//===- Explain.h - a page about what was compiled ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every number is the cost model's or was counted in the package's own programs; nothing is
// measured. Equal inputs give equal bytes.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_COMPILE_EXPLAIN_EXPLAIN_H
#define MLA_COMPILE_EXPLAIN_EXPLAIN_H

#include "mla/Driver/Compile.h"

namespace mlac {

/// `package`: what compilePackage made of `module` and `options`.
llvm::Expected<std::string> explain(mlir::ModuleOp module, const CompileOptions &options,
                                    llvm::ArrayRef<uint8_t> package);

} // namespace mlac

#endif // MLA_COMPILE_EXPLAIN_EXPLAIN_H
