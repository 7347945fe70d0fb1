//===- TiledProduct.h - tiles of a product, in order ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A persistent kernel goes over tiles of a product's result, numbered so that those computed
// together are about a square (PersistentProduct.h). What a tile's sums are is the kernel's own.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_PRODUCTS_TILEDPRODUCT_H
#define MLAC_LIB_CONVERSION_MLATOTILE_PRODUCTS_TILEDPRODUCT_H

#include "Products/ProductViews.h"

namespace mlac::mla_to_tile {

/// Rows of one product, which a warpgroup multiplies.
inline constexpr int64_t kRowsOfProduct = 64;

class TiledProduct {
public:
  virtual ~TiledProduct() = default;
  bool fits() const { return isAligned() && views.fit(shape.numbered, shape.depth); }
  int64_t countParts() const { return shape.numbered / shape.columns; }
  int64_t countColumnTiles() const { return llvm::divideCeil(p.columns, shape.numbered); }
  /// Of a row tile.
  int64_t countTiles() const { return countColumnTiles() * p.batch * shape.depthParts; }
  /// The tiles from `first` to `end`, numbered with all before them. `early`: the next kernel
  /// begins while this one runs.
  void launch(StepLowering &step, mlir::Value first, mlir::Value end, bool early = false);

protected:
  /// Each tile of `numbered` columns is several of `columns`, one behind the other, and computed in
  /// `depthParts`, which are stored side by side; a step multiplies `depth`. `cluster` CTAs may
  /// divide the steps.
  struct Shape {
    int64_t rows, numbered, columns, depthParts, depth, cluster = 1;
  };
  TiledProduct(const StepLowering &step, const Product &product, Shape shape)
      : p(product), views(product), shape(shape), stripTiles(step.machine.tuning.stripTiles) {}

  /// Which tile the program computes.
  struct Tile {
    mlir::Value row, column, batch, depthPart;
  };
  virtual void writeTile(KernelBuilder &b, mlir::ValueRange args, const Tile &tile) = 0;
  /// Where the tile's results go: those of parts of the depth side by side.
  ProductViews::Place placeOut(KernelBuilder &b, mlir::ValueRange args, const Tile &tile);
  /// `body` for each block of the depth, or of the tile's part of it.
  mlir::SmallVector<mlir::Value> forDepth(
      KernelBuilder &b, const Tile &tile, mlir::ValueRange init,
      llvm::function_ref<mlir::SmallVector<mlir::Value>(mlir::Value k, mlir::ValueRange)> body);
  /// Behind the others: the weights of other columns, biases, scales.
  mlir::ValueRange otherWeights(mlir::ValueRange args) const {
    return args.slice(countOwnArgs(), p.others.size());
  }
  mlir::ValueRange getBiases(mlir::ValueRange args) const {
    return args.drop_front(countOwnArgs() + p.others.size());
  }
  /// Rows of activations that tiles read: of whole tiles, where there is memory behind the last.
  mlir::Value getReadRows(mlir::ValueRange args) const {
    return args[hasRowsBehind ? kOwnArgs : 3];
  }

  const Product &p;
  ProductViews views;
  Shape shape;

private:
  /// Arguments before other weights.
  static constexpr unsigned kOwnArgs = 7;
  unsigned countOwnArgs() const { return kOwnArgs + (hasRowsBehind ? 1 : 0); }
  bool isAligned() const;
  Tile find(KernelBuilder &b, mlir::Value number, mlir::Value rows);
  void write(KernelBuilder &b, mlir::ValueRange args);
  /// Whether the last row tile ends with the rows, and has some of the tile before, too. Copies of
  /// rows that do not exist take longer than those of rows that do (64 columns, 160 rows of 8192:
  /// 52 us for 32 on one H100), 1.35 ns for 64 of the depth; to write a row twice takes 11 ns for
  /// 128 columns. (Scales of codes' rows are copied in blocks of 64: there are up to 63 more.)
  bool endsWithRows() const { return p.depth / shape.depthParts >= 4 * shape.columns; }

  int64_t stripTiles;
  bool isInvariant = false, hasRowsBehind = false;
};

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_PRODUCTS_TILEDPRODUCT_H
