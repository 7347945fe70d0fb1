//===- Softcap.h - which bounds of scores kernels keep to ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_MLA_IR_SOFTCAP_H
#define MLA_DIALECT_MLA_IR_SOFTCAP_H

namespace mlir::mla {

/// Of c tanh(s / c), f32 keeps a score s to about c 2^-24: of a layer in f32 a c of 1000 leaves an
/// error of 8e-6 where 1e-5 is allowed. Models have 20 to 50.
inline constexpr double kMaxSoftcap = 512;

} // namespace mlir::mla

#endif // MLA_DIALECT_MLA_IR_SOFTCAP_H
