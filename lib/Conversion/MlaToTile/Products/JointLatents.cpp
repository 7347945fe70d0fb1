//===- JointLatents.cpp - many rows of projections as one product ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Products/CodedWeights.h"
#include "Products/Latents.h"
#include "Products/PersistentProduct.h"
#include "Products/TurnedProduct.h"

#include <numeric>

using namespace mlir;
using namespace mlac::mla_to_tile;

std::optional<Product> mlac::mla_to_tile::joinAll(ArrayRef<Latent> latents) {
  SmallVector<Product, 0> products;
  for (const Latent &latent : latents)
    products.push_back(latent.product);
  return joinProducts(products);
}

void mlac::mla_to_tile::emitJointRows(StepLowering &step, ArrayRef<Latent> latents,
                                      const Product &joint, RowSource source) {
  SmallVector<LatentRows, 0> rows;
  for (const Latent &latent : latents) {
    rows.push_back(latent.rowsOf(source));
    source.rows.offset += latent.product.columns;
  }
  emitLatentRows(step, joint.rows, rows);
}

namespace {
/// Projections of the same rows, as one product.
struct JointLatents {
  ArrayRef<Latent> latents;
  Product product;
  TensorRef raw; ///< where whole rows of it go

  JointLatents(StepLowering &step, ArrayRef<Latent> latents);
  /// What becomes of its rows: sums of parts of the depth, or whole.
  void emitRows(StepLowering &step, const PartialSums *sums) const;
  void emitMany(StepLowering &step, int64_t moreThan) const;
};
} // namespace

/// f32 if that is the type of any projection's result, which is not rounded before.
static Type findWidestElement(ArrayRef<Latent> latents) {
  const auto *wide =
      llvm::find_if(latents, [](const Latent &latent) { return latent.raw.element().isF32(); });
  return (wide == latents.end() ? latents.front() : *wide).raw.element();
}

JointLatents::JointLatents(StepLowering &step, ArrayRef<Latent> latents)
    : latents(latents), product(*joinAll(latents)), raw(latents.front().raw) {
  if (latents.size() != 1)
    raw = step.workspace({raw.sizes[0], step.plan().getIndexAttr(product.columns)},
                         findWidestElement(latents));
  product.out = tokenRows(raw);
}

void JointLatents::emitRows(StepLowering &step, const PartialSums *sums) const {
  if (sums)
    return emitJointRows(step, latents, product, {sums->sums, sums->count, product.columns});
  if (latents.size() == 1) // what is behind the norm stays where it is
    return latents.front().emitRows(step);
  emitJointRows(step, latents, product, {raw});
}

/// More than `moreThan` rows in the tiles of many; as if the projections stood alone where the
/// target or the operands do not suit these.
void JointLatents::emitMany(StepLowering &step, int64_t moreThan) const {
  auto read = [&](const PartialSums *sums) { emitRows(step, sums); };
  if (std::optional<mlac::ProductRanges> ranges = findReadRanges(step, product))
    return emitReadRanges(step, product, *ranges, moreThan, read);
  for (const Latent &latent : latents)
    latent.emitWhole(step, moreThan);
}

/// Whether tiles as wide as they are high, or wider, end where a weight of `columns` does.
static bool takesWideTiles(int64_t columns) {
  return llvm::any_of(ArrayRef<int64_t>{128, 192},
                      [&](int64_t tileColumns) { return columns % tileColumns == 0; });
}

/// Projections, in order, that have such tiles together, and that a kernel reads in any case: the
/// results of those without a norm are where they belong if they stand alone.
static SmallVector<ArrayRef<Latent>> groupByTiles(ArrayRef<Latent> latents) {
  SmallVector<ArrayRef<Latent>> groups;
  for (size_t first = 0; first < latents.size();) {
    size_t end = first;
    int64_t columns = 0, weightColumns = 0; // what all begin at a multiple of
    do {
      columns += latents[end++].product.columns;
      weightColumns = std::gcd(weightColumns, columns);
    } while (end < latents.size() && latents[first].norm && latents[end].norm &&
             takesWideTiles(weightColumns));
    groups.push_back(latents.slice(first, end - first));
    first = end;
  }
  return groups;
}

/// Up to how many rows, at most those that ranges are chosen for, one product takes no longer than
/// one for each group does, which are a product and a kernel of its rows each.
static int64_t findMostJointRows(StepLowering &step, const JointLatents &all,
                                 ArrayRef<JointLatents> groups) {
  std::optional<mlac::ProductRanges> ranges = findReadRanges(step, all.product);
  if (!ranges)
    return 0;
  SmallVector<mlac::ProductRanges> others;
  for (const JointLatents &group : groups) {
    others.push_back({});
    if (std::optional<mlac::ProductRanges> own = findReadRanges(step, group.product))
      others.back() = *own;
    else
      return 0;
  }
  double launches = 2 * static_cast<double>(groups.size() - 1) * step.machine.launchMicroseconds;
  int64_t most = 0;
  for (int64_t rows = 2 * mlac::kProductTileRows; rows <= mlac::kMostRangeRows;
       rows += mlac::kProductTileRows) {
    double apart = launches;
    for (auto [group, own] : llvm::zip_equal(groups, others))
      apart += predictReadRanges(step, group.product, own, rows);
    if (predictReadRanges(step, all.product, *ranges, rows) > apart)
      break;
    most = rows;
  }
  return most;
}

void mlac::mla_to_tile::emitMany(StepLowering &step, ArrayRef<Latent> latents, int64_t moreThan) {
  JointLatents all(step, latents);
  if (all.product.rhs.scales && !all.product.lhs.scales)
    return emitReadTurned(
        step, all.product, moreThan, [&](const PartialSums *sums) { all.emitRows(step, sums); },
        [&](int64_t few) {
          SmallVector<Latent, 2> plain(latents);
          for (Latent &latent : plain)
            latent.product = dequantiseWeights(step, latent.product);
          emitMany(step, plain, few);
        });
  SmallVector<JointLatents, 0> groups;
  for (ArrayRef<Latent> group : groupByTiles(latents))
    groups.emplace_back(step, group);
  if (groups.size() == 1)
    return all.emitMany(step, moreThan);
  auto emitGroups = [&](int64_t few) {
    for (const JointLatents &group : groups)
      group.emitMany(step, few);
  };
  int64_t most = findMostJointRows(step, all, groups);
  if (most <= moreThan)
    return emitGroups(moreThan);
  step.versionByRows(
      all.product.rows, most, [&] { all.emitMany(step, moreThan); }, [&] { emitGroups(most); });
}
