//===- Codes.h - e4m3 codes and their scales ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How kernels quantise rows, bit by bit as the runtime does on the host
// (runtime/lib/package/CacheFormat).
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_ROWS_CODES_H
#define MLAC_LIB_CONVERSION_MLATOTILE_ROWS_CODES_H

#include "CacheFormats.h"
#include "mla/Dialect/Tile/Utils/KernelBuilder.h"

namespace mlac::mla_to_tile {

/// That of activations on their way to products with codes (mla.md section 7).
inline constexpr cache::ScaleRule kActivationRule = {
    .isPowerOfTwo = false, .amaxFloor = 0, .scaleFloor = 1e-12F};

/// The scales [rows] of f32 tiles whose rows together are one group each (chooseScale of the
/// runtime).
mlir::Value chooseScales(KernelBuilder &b, const cache::ScaleRule &rule, mlir::ValueRange wide);

/// The scales of groups whose largest magnitudes are `amax`.
mlir::Value scalesOfLargest(KernelBuilder &b, const cache::ScaleRule &rule, mlir::Value amax);

/// The codes of rows `wide` divided by their scales [rows], or by those of each element.
mlir::Value divideToCodes(KernelBuilder &b, mlir::Value wide, mlir::Value scale);

/// The codes of f32 rows `wide` by the one scale of all of them, rounded to the model's `element`
/// first, as rows outside of the cache are.
mlir::Value toLayerCodes(KernelBuilder &b, mlir::Value wide, mlir::Type element, mlir::Value scale);

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_ROWS_CODES_H
