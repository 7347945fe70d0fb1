//===- ProductRanges.h - tiles of products by their rows ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A step of dozens to hundreds of rows (decodes of many requests, the chunks of prompts) has a few
// tiles for each multiprocessor, or less than one. Which tiles leave few of them idle depends on
// the rows: 256 rows of 4096 x 8192 are 32 tiles of 128 x 256 on 132 multiprocessors, and 128 of
// 128 x 64. A product has a handful of kernels, and each range of rows the fastest of them:
//
//     rows    65 to 96 | to 128 | to 192 | ... | to 1024 | more
//     kernel  64 x 64  | 64 x 64| 64 x128|     | 128x192 | 128 x 256, last turn 128 x 128
//
//===----------------------------------------------------------------------===//

#ifndef MLA_ANALYSIS_PRODUCTRANGES_H
#define MLA_ANALYSIS_PRODUCTRANGES_H

#include "mla/Analysis/ProductCost.h"

#include "llvm/ADT/SmallVector.h"

namespace mlac {

/// A kernel is worth compiling, and its code loading, for so much of the time on the average over
/// the ranges of rows.
inline constexpr double kWorthwhileKernel = 0.02;

/// How a product is divided: tiles of `rows` (64 or 128; of turned codes 64 to 256) by `columns`,
/// in the last turn, if it then is one, of `tailColumns` (0: the same); in `parts` of the depth,
/// whose sums another kernel adds up, or by `cluster` CTAs, which do so themselves.
struct RangeTiles {
  int64_t rows = kProductTileRows, columns = 0, tailColumns = 0, parts = 1, cluster = 1;

  bool operator==(const RangeTiles &other) const {
    return rows == other.rows && columns == other.columns && tailColumns == other.tailColumns &&
           parts == other.parts && cluster == other.cluster;
  }
  bool operator!=(const RangeTiles &other) const { return !(*this == other); }
};

/// Ranges end here: with more rows the tiles of many rows are within 5 % of the best of all
/// (docs/lab/products.md).
inline constexpr int64_t kMostRangeRows = 1024;

/// Microseconds of the product of `rows` rows in these tiles: turns of programs, each bound by
/// tensor cores, copies out of L2 or the power limit, or reading operands from device memory.
double predictRangeMicroseconds(const ProductShape &shape, int64_t rows, const RangeTiles &tiles,
                                const TargetDescription &target);

/// Which tiles products of more than 64 rows have.
struct ProductRanges {
  /// Up to so many rows, and more than the range before has: `tiles[number]`.
  struct Range {
    int64_t mostRows;
    size_t number;
  };
  llvm::SmallVector<RangeTiles> tiles; ///< the first for more rows than all ranges have
  llvm::SmallVector<Range> ranges;     ///< ascending, neighbours differ

  /// Of so many rows.
  const RangeTiles &find(int64_t rows) const {
    for (const Range &range : ranges)
      if (rows <= range.mostRows)
        return tiles[range.number];
    return tiles.front();
  }
};

/// Microseconds of a product of codes and codes of `rows`, 65 to 128, in tiles with tokens as
/// columns, whose depth `cluster` CTAs divide.
double predictTokensAsColumns(const ProductShape &shape, int64_t rows, int64_t cluster,
                              const TargetDescription &target);

/// `mayCut`: the depth may be cut in parts, of at most 128 rows, or of more where the kernel that
/// reads the product's rows adds them up (`shape.isRead`).
ProductRanges chooseProductRanges(const ProductShape &shape, bool mayCut,
                                  const TargetDescription &target);

/// Weights of codes that are turned into values in registers, columns first: tiles of
/// `kTurnedColumns` of the product's columns by so many of its rows, or more.
inline constexpr int64_t kTurnedColumns = 128, kLeastTurnedRows = 64;

/// The same for such a product.
ProductRanges chooseTurnedRanges(const ProductShape &shape, const TargetDescription &target);

/// Of more than 128 rows, up to how many such a product is faster than writing all of the weight's
/// values and multiplying these: 0 where it never is, the largest number where it always is.
int64_t findMostTurnedRows(const ProductShape &shape, const ProductRanges &turned,
                           const TargetDescription &target);

} // namespace mlac

#endif // MLA_ANALYSIS_PRODUCTRANGES_H
