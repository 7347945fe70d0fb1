//===- CacheErrors.h - pools that are refused ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_IMPORT_CACHEERRORS_H
#define MLAC_LIB_IMPORT_CACHEERRORS_H

#include "mlir/IR/Diagnostics.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace mlac {

/// Whether a pool is fine; tells the function it is given what is wrong if not.
using VerifyCache =
    llvm::function_ref<mlir::LogicalResult(llvm::function_ref<mlir::InFlightDiagnostic()>)>;

/// The error at `loc` of a pool in a format that was asked for. Rows of the activations' type are
/// its way out where `verifyPlain` finds them fine, which a note says then.
mlir::InFlightDiagnostic emitCacheError(mlir::Location loc, VerifyCache verifyPlain);

} // namespace mlac

#endif // MLAC_LIB_IMPORT_CACHEERRORS_H
