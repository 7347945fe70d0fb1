//===- WeightScales.h - how a module's weights are stored ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A module computes on weights of the types of its arguments. That a checkpoint stores them
// as e4m3 codes, with a scale for each rows x columns of a matrix [out, in] (0: all of it),
// is said beside: the runtime dequantises when it binds.
//
//   module attributes {mla.weight_scales = array<i64: 128, 128>}
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_MLA_IR_WEIGHTSCALES_H
#define MLA_DIALECT_MLA_IR_WEIGHTSCALES_H

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/STLExtras.h"

namespace mlir::mla {

inline constexpr llvm::StringLiteral kWeightScalesAttr = "mla.weight_scales";

/// Whether the attribute is a block of scales.
inline bool isScaleBlock(Attribute value) {
  auto block = llvm::dyn_cast<DenseI64ArrayAttr>(value);
  return block && block.size() == 2 &&
         llvm::all_of(block.asArrayRef(), [](int64_t extent) { return extent >= 0; });
}

} // namespace mlir::mla

#endif // MLA_DIALECT_MLA_IR_WEIGHTSCALES_H
