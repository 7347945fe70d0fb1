//===- Latents.h - projections whose rows a kernel reads ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Projections of the same rows to latents, or beside latents, are one product whose rows one kernel
// normalises, rotates and stores (LatentRow.cpp):
//
//     columns   0 .. 1536           .. 2112              .. 2240      .. 2304
//               query's latent      latent | rope key    index key    head weights
//
// Few rows and some hundreds are in parts of the depth, which that kernel adds up.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_PRODUCTS_LATENTS_H
#define MLAC_LIB_CONVERSION_MLATOTILE_PRODUCTS_LATENTS_H

#include "Plan/Lowerings.h"

namespace mlac::mla_to_tile {

/// Rows of an activation [T, I] or [T, N, K] as a [T, I] matrix. The trailing
/// dimensions lie together: activations of that shape are never slices.
Matrices tokenRows(const TensorRef &x);

/// y = x · wᵀ (+ bias), for every shape of mla.project.
Product makeProduct(StepLowering &step, const TensorRef &x, const TensorRef &w,
                    std::optional<TensorRef> bias, const TensorRef &y);

/// A projection: its product, where that goes, and what its rows become. Without a norm they
/// stay what they are.
struct Latent {
  Product product;
  TensorRef raw;
  std::optional<RmsNorm> norm;
  LatentTarget target;

  LatentRows rowsOf(const RowSource &source) const { return {source, norm, target}; }
  bool canHoldRows(const TileShapes &shapes) const;
  std::string describeRow() const;
  void emitWhole(StepLowering &step, int64_t moreThan) const;
  /// What becomes of the product's rows.
  void emitRows(StepLowering &step) const;
};

// JointLatents.cpp
/// What projections of the same rows are as one product, the columns of each behind those of the
/// one before; none where they do not suit.
std::optional<Product> joinAll(llvm::ArrayRef<Latent> latents);
/// All projections' rows by one kernel.
void emitJointRows(StepLowering &step, llvm::ArrayRef<Latent> latents, const Product &joint,
                   RowSource source);
/// More than `moreThan` rows: as one product where that has tiles, else as few.
void emitMany(StepLowering &step, llvm::ArrayRef<Latent> latents, int64_t moreThan);

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_PRODUCTS_LATENTS_H
