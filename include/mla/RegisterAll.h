//===- RegisterAll.h - what every mlac tool registers ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one list of our dialects and passes (and of the upstream ones they need),
// shared by mla-opt, mla-lsp-server, mla-compile and the unit tests.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_REGISTERALL_H
#define MLA_REGISTERALL_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace mlac {

/// Adds our dialects and the upstream dialects and interfaces they lower to.
void registerAllDialects(mlir::DialectRegistry &registry);

/// Registers our passes and pipelines and the upstream passes users combine
/// them with (canonicalize, cse, symbol-dce, the conversions to LLVM).
void registerAllPasses();

} // namespace mlac

#endif // MLA_REGISTERALL_H
