//===- RangeVersions.cpp - a kernel for each range of rows ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Products/RangeVersions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;

/// Which of the tiles the step's rows have.
static Value chooseTiles(StepLowering &step, Value rows, const ProductRanges &ranges) {
  std::optional<int64_t> known = getConstantIntValue(rows);
  Value choice = step.constant(0);
  for (const ProductRanges::Range &range : llvm::reverse(ranges.ranges)) {
    Value number = step.constant(static_cast<int64_t>(range.number));
    if (known) {
      choice = *known <= range.mostRows ? number : choice;
      continue;
    }
    Value isIn = arith::CmpIOp::create(step.plan(), rows.getLoc(), arith::CmpIPredicate::sle, rows,
                                       step.constant(range.mostRows));
    choice = arith::SelectOp::create(step.plan(), rows.getLoc(), isIn, number, choice);
  }
  return choice;
}

/// The ranges of more rows than `moreThan`, and what they use.
static ProductRanges dropRanges(const ProductRanges &all, int64_t moreThan) {
  ProductRanges kept;
  kept.tiles.push_back(all.tiles.front());
  for (ProductRanges::Range range : all.ranges) {
    if (range.mostRows <= moreThan)
      continue;
    const RangeTiles &tiles = all.tiles[range.number];
    auto found = llvm::find(kept.tiles, tiles);
    range.number = static_cast<size_t>(found - kept.tiles.begin());
    if (found == kept.tiles.end())
      kept.tiles.push_back(tiles);
    kept.ranges.push_back(range);
  }
  return kept;
}

/// One kernel after the other asks whether the choice is its number.
static void emitFrom(StepLowering &step, const ProductRanges &ranges, Value choice, size_t number,
                     llvm::function_ref<void(const RangeTiles &)> launch) {
  if (number + 1 == ranges.tiles.size())
    return launch(ranges.tiles[number]);
  step.versionByRows(
      choice, static_cast<int64_t>(number), [&] { launch(ranges.tiles[number]); },
      [&] { emitFrom(step, ranges, choice, number + 1, launch); });
}

void mlac::mla_to_tile::emitRanges(StepLowering &step, Value rows, const ProductRanges &all,
                                   int64_t moreThan,
                                   llvm::function_ref<void(const RangeTiles &)> launch) {
  ProductRanges ranges = dropRanges(all, moreThan);
  emitFrom(step, ranges, chooseTiles(step, rows, ranges), /*number=*/0, launch);
}

/// As many of `rows` as are in parts: a plan's memory is for all of its versions.
static OpFoldResult findMostCutRows(StepLowering &step, Value rows, const ProductRanges &ranges) {
  int64_t most = 0;
  for (const ProductRanges::Range &range : ranges.ranges)
    if (ranges.tiles[range.number].parts != 1)
      most = range.mostRows;
  return step.plan().createOrFold<arith::MinSIOp>(rows.getLoc(), rows, step.constant(most));
}

void mlac::mla_to_tile::emitRangesInParts(
    StepLowering &step, const Product &product, const ProductRanges &ranges, int64_t moreThan,
    llvm::function_ref<void(const Product &, const RangeTiles &)> launch,
    llvm::function_ref<void(const PartialSums *)> read) {
  emitRanges(step, product.rows, ranges, moreThan, [&](const RangeTiles &tiles) {
    if (tiles.parts == 1) {
      launch(product, tiles);
      if (read)
        read(nullptr);
      return;
    }
    PartialSums sums =
        makePartialSums(step, product, tiles.parts, findMostCutRows(step, product.rows, ranges));
    Product partial = product;
    partial.out = sums.matrices(product.columns);
    launch(partial, tiles);
    read(&sums);
  });
}
