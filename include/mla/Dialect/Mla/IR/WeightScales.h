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
// is said beside: the runtime dequantises when it binds, or binds codes and scales where
// mla-keep-codes has made arguments of both.
//
//   module attributes {mla.weight_scales = array<i64: 128, 128>}
//   "o_proj.weight"            tensor<7168x16384xbf16>, or xf8E4M3FN beside
//   "o_proj.weight_scale_inv"  tensor<56x128xf32>
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_MLA_IR_WEIGHTSCALES_H
#define MLA_DIALECT_MLA_IR_WEIGHTSCALES_H

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/STLExtras.h"

namespace mlir::mla {

inline constexpr llvm::StringLiteral kWeightScalesAttr = "mla.weight_scales";

/// What is behind the name of a weight in that of its scales.
inline constexpr llvm::StringLiteral kScaleSuffix = "_scale_inv";

/// Whether the attribute is a block of scales.
inline bool isScaleBlock(Attribute value) {
  auto block = llvm::dyn_cast<DenseI64ArrayAttr>(value);
  return block && block.size() == 2 &&
         llvm::all_of(block.asArrayRef(), [](int64_t extent) { return extent >= 0; });
}

} // namespace mlir::mla

#endif // MLA_DIALECT_MLA_IR_WEIGHTSCALES_H
