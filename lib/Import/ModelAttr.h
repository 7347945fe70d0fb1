//===- ModelAttr.h - what a module remembers of its import ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_IMPORT_MODELATTR_H
#define MLAC_LIB_IMPORT_MODELATTR_H

#include "mla/Dialect/Mla/IR/MlaDialect.h"
#include "mla/Import/ImportConfig.h"

namespace mlac {

/// What the functions do not say: the configuration, and the options as a command line of
/// mla-compile.
mlir::mla::ModelAttr getModelAttr(mlir::MLIRContext *context, const ModelConfig &config,
                                  const ImportOptions &options);

} // namespace mlac

#endif // MLAC_LIB_IMPORT_MODELATTR_H
