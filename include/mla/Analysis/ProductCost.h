//===- ProductCost.h - tiles of matrix products of many rows ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// As many programs as there are multiprocessors go over tiles of 128 rows in turns. A
// tile takes
//
//     steps of 64 of the depth, each the larger of
//       tensor   cycles of its products
//       load     bytes of both operands / bytes per clock that copies bring from L2
//     and what follows: writing the results to shared memory
//
// Wide tiles need fewer bytes for a product. The last turn may leave most programs
// without one; narrower tiles, so many that still one turn is enough, shorten it:
//
//     program 0  | tile 0 | tile 4 | tile 8a |
//             1  | tile 1 | tile 5 | tile 8b |
//             2  | tile 2 | tile 6 | tile 9a |
//             3  | tile 3 | tile 7 | tile 9b |
//
//===----------------------------------------------------------------------===//

#ifndef MLA_ANALYSIS_PRODUCTCOST_H
#define MLA_ANALYSIS_PRODUCTCOST_H

#include "mla/Machine/TargetDescription.h"
#include "mla/Machine/TileShapes.h"

namespace mlac {

/// A tile's rows, and what a step takes of the depth.
inline constexpr int64_t kProductTileRows = 128, kProductDepth = 64;

/// What is multiplied: values of 2 bytes; these with weights of codes; codes with codes, whose
/// sums of 128 of the depth are promoted.
enum class ProductOperands { Values, CodedWeights, Codes };

/// CTAs of a cluster that divide a product's depth.
inline constexpr int64_t kDepthClusters[] = {2, 4};

/// Columns of a tile of codes, at most: of both a sum and what is promoted to it, which take the
/// registers of twice as many, and of a block that has one scale.
inline constexpr int64_t kMostCodedColumns = 128;

/// Rows of a tile of codes, where a consumer's two sums and a step's product are no wider than
/// that: they take 3/4 of what two tiles of 128 rows copy from the L2 cache.
inline constexpr int64_t kMostCodedRows = 256;

/// [rows, depth] times [depth, columns], `batch` times.
struct ProductShape {
  int64_t columns = 0, depth = 0, batch = 1;
  ProductOperands operands = ProductOperands::Values;
  int64_t mostColumns = 256;           ///< of a tile
  int64_t mostRows = kProductTileRows; ///< of a tile
  /// Columns at multiples of which another weight begins, which no tile reaches into; 0: one
  /// weight.
  int64_t weightColumns = 0;
  bool isRead = false; ///< by a kernel of its rows, which adds up parts of the depth

  /// Whether tiles may have so many columns: none reaches from one part of a batch into the next.
  bool takesTiles(int64_t tileColumns) const {
    return tileColumns <= mostColumns && (batch == 1 || columns % tileColumns == 0) &&
           weightColumns % tileColumns == 0;
  }
};

/// Columns of the tiles, and of those that replace them in the last turn (0: none), which have as
/// many rows.
struct ProductTiles {
  int64_t columns = 0, tailColumns = 0;
  int64_t rows = kProductTileRows;
};

/// Clocks of the product with these tiles.
double predictProductCycles(const ProductShape &shape, int64_t rows, const ProductTiles &tiles,
                            const TargetDescription &target);

/// The tiles that suit hundreds to thousands of rows.
ProductTiles chooseProductTiles(const ProductShape &shape, const TargetDescription &target);

/// Into how many parts the depth of a product of few rows, computed columns first, is cut so
/// that its programs keep the machine busy; 1 where its columns do. Every tile's blocks of the
/// depth are then divided evenly.
int64_t chooseDepthParts(const ProductShape &shape, const TileShapes &tiles,
                         const TargetDescription &target);

/// Whether the programs of a product of few rows, computed columns first, leave much of the
/// machine idle. (A product alone has the whole depth in each.)
bool isTooNarrow(const ProductShape &shape, const TargetDescription &target);

/// `parts`, or more where the last turn of programs would be nearly empty: the fewest for which a
/// multiprocessor's turns take the least of the depth. With 36 tiles on 132 multiprocessors four
/// parts are two turns of a quarter, seven are two of a seventh.
int64_t balanceDepthParts(const ProductShape &shape, int64_t parts, const TileShapes &tiles,
                          const TargetDescription &target);

/// Clusters of so many CTAs that run at once.
int64_t countClusters(int64_t cluster, const TargetDescription &target);

/// Microseconds in which a cluster's CTAs, which have parts of the depth of a tile, send each other
/// what belongs to the others' columns, and start together.
double predictClusterSum(int64_t rows, int64_t columns, int64_t cluster);

/// Of how many CTAs a cluster is that divides the depth of a program of few rows, columns first, in
/// tiles of `rows` tokens and steps of `blockDepth`: 1 where programs keep the machine busy, or
/// where adding up takes as long as the parts save.
int64_t chooseDepthCluster(const ProductShape &shape, int64_t rows, int64_t blockDepth,
                           const TargetDescription &target);

/// Clocks of a product with a weight for so many rows, and of what its operands need besides:
///
///     rows         values         weights of codes               codes and codes
///     up to 128    the product    the product                    quantising the rows, the product
///     more         the product    the product of turned codes    quantising the rows, the product
///                                 (findMostTurnedRows), else
///                                 writing values, theirs
///
/// Up to 128 rows are the larger of reading the weight from device memory and of what a program
/// does in its turns: copies out of L2, products, and turning codes into operands.
double predictWeightCycles(const ProductShape &shape, int64_t rows,
                           const TargetDescription &target);

/// How much of the time with values a weight of codes takes: the geometric mean over `rows`.
double predictCodesShare(const ProductShape &shape, llvm::ArrayRef<int64_t> rows,
                         const TargetDescription &target);

} // namespace mlac

#endif // MLA_ANALYSIS_PRODUCTCOST_H
