//===- CompileKinds.h - one package of several kinds of layers ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A module is one layer. Of a model whose layers differ in kind (DeepSeek-V4), each kind is
// compiled by itself, as its first layer, and one file holds the packages of all of them.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DRIVER_COMPILEKINDS_H
#define MLA_DRIVER_COMPILEKINDS_H

#include "mla/Driver/Compile.h"
#include "mla/Import/LayerKinds.h"

namespace mlac {

/// `module` is a layer of the configuration that has these kinds; `options.parsing.layer` does not
/// matter. Errors go to the context's diagnostics and name the kind.
mlir::FailureOr<std::vector<uint8_t>> compileKinds(mlir::ModuleOp module,
                                                   llvm::ArrayRef<LayerKind> kinds,
                                                   const CompileOptions &options,
                                                   StageTimer &timer);

} // namespace mlac

#endif // MLA_DRIVER_COMPILEKINDS_H
