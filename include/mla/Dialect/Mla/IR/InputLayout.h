//===- InputLayout.h - how inputs of a step lie in memory ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_MLA_IR_INPUTLAYOUT_H
#define MLA_DIALECT_MLA_IR_INPUTLAYOUT_H

#include "llvm/ADT/StringRef.h"

namespace mlir::mla {

/// Of an input [T, N, C] (unit): it lies in memory as [N, T, C], as a product for each head leaves
/// it. Attention reads such latent queries as they lie; nothing else takes them.
inline constexpr llvm::StringLiteral kHeadsOutermostAttr = "mla.heads_outermost";

} // namespace mlir::mla

#endif // MLA_DIALECT_MLA_IR_INPUTLAYOUT_H
