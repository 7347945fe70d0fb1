//===- Passes.h - passes that import models ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_IMPORT_PASSES_H
#define MLA_IMPORT_PASSES_H

#include "mla/Dialect/Graph/IR/GraphDialect.h"
#include "mla/Dialect/Mla/IR/MlaDialect.h"
#include "mla/Import/ImportConfig.h"

#include "mlir/Pass/Pass.h"

namespace mlac {

#define GEN_PASS_DECL
#include "mla/Import/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "mla/Import/Passes.h.inc"

} // namespace mlac

#endif // MLA_IMPORT_PASSES_H
