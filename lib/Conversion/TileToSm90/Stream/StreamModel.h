//===- StreamModel.h - the parameters of stream ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_STREAM_STREAMMODEL_H
#define MLAC_LIB_CONVERSION_TILETOSM90_STREAM_STREAMMODEL_H

#include "mla/Analysis/ScheduleCost.h"

namespace mlac::stream {

/// All columns of a block of 64 keys that fits.
constexpr int64_t kMostColumns = mlir::sm90::kMaxSharedBytes /
                                 (kBlockKeys * mlir::sm90::kPanelRowBytes) *
                                 mlir::sm90::kPanelColumns;
inline constexpr auto kStages = makeInteger("stages", "blocks in the ring", 1, kMostStages);
inline constexpr auto kPartColumns =
    makeInteger("part-columns", "columns of keys that one barrier announces",
                mlir::sm90::kPanelColumns, kMostColumns, mlir::sm90::kPanelColumns);

} // namespace mlac::stream

#endif // MLAC_LIB_CONVERSION_TILETOSM90_STREAM_STREAMMODEL_H
