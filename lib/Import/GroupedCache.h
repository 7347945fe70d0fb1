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

/// Keys and values of each KV head beside each other in a page, of the activations' type or, where
/// the options say so, codes. Null, with a diagnostic at `loc`, where there is no such pool.
mlir::mla::CacheType getGroupedCache(mlir::Location loc, const ImportOptions &options,
                                     int64_t kvHeads, int64_t keyDim, int64_t valueDim);

} // namespace mlac

#endif // MLAC_LIB_IMPORT_GROUPEDCACHE_H
