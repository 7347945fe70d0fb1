//===- GroupedCache.h - the pool of groups of heads ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_IMPORT_GROUPEDCACHE_H
#define MLAC_LIB_IMPORT_GROUPEDCACHE_H

#include "CacheFormats.h"
#include "mla/Import/ImportConfig.h"

namespace mlac {

/// Keys and values of each KV head beside each other in a page, of the activations' type. Null,
/// with a diagnostic at `loc`, where there is no such pool.
inline mlir::mla::CacheType getGroupedCache(mlir::Location loc, const ImportOptions &options,
                                            int64_t kvHeads, int64_t keyDim, int64_t valueDim) {
  llvm::SmallVector<mlir::mla::CacheField, 2> fields = {{cache::Part::Key, kvHeads, keyDim},
                                                        {cache::Part::Value, kvHeads, valueDim}};
  mlir::Type element = getElementType(*loc.getContext(), options.activationType);
  constexpr llvm::StringLiteral format = "kv_nhd";
  constexpr int64_t tokensPerRow = 1, window = 0;
  constexpr bool hadamard = false;
  if (mlir::failed(
          mlir::mla::CacheType::verify([loc] { return mlir::emitError(loc); }, options.pageSize,
                                       fields, element, mlir::mla::RopeOrder::Half, format,
                                       mlir::mla::ScaleRule::Raw, tokensPerRow, window, hadamard)))
    return {};
  return mlir::mla::CacheType::get(loc.getContext(), options.pageSize, fields, element,
                                   mlir::mla::RopeOrder::Half, format, mlir::mla::ScaleRule::Raw,
                                   tokensPerRow, window, hadamard);
}

} // namespace mlac

#endif // MLAC_LIB_IMPORT_GROUPEDCACHE_H
