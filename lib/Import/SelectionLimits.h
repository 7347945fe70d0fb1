//===- SelectionLimits.h - what can be selected ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A configuration may ask for more than the dialect selects, or for keys of an indexer that its
// cache cannot hold: said by the key's name before any op is made.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_IMPORT_SELECTIONLIMITS_H
#define MLAC_LIB_IMPORT_SELECTIONLIMITS_H

#include "mla/Import/ImportConfig.h"
#include "mla/Import/ModelConfig.h"

#include "mlir/IR/Location.h"

namespace mlac {

/// Fails with an error at `loc` where attention over lists of keys cannot be as `config` says.
/// Anything goes where a layer attends to all keys.
llvm::LogicalResult verifySelection(mlir::Location loc, const ModelConfig &config,
                                    const ImportOptions &options);

} // namespace mlac

#endif // MLAC_LIB_IMPORT_SELECTIONLIMITS_H
