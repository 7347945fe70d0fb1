//===- Product.h - matrix products out of rings ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A loop over the depth of one product or of several that share an operand, with
// element-wise work behind it. Each product has a consumer warpgroup, which keeps its
// accumulator; one thread of a producer warpgroup copies operands by TMA into a ring,
// as far ahead as the ring is deep and into the program's next tile:
//
//   producer   | A(0) A(1) ... A(n-1) | A(n)       | A(n+1) ...   next tile: A(0) ...
//   consumer   |     wait  C += A(0)·B(0), free | C += A(1)·B(1), free | ... store C
//
// What no kernel of the step writes (`tile.invariant`: weights) and what others of the
// step made have a producer each. In a dependent launch only the latter waits: while
// the kernels before still run, the weights' ring fills.
//
//   launch        |== kernel before ==========|
//   weights       | W(0) W(1) ... W(n-1)      .  W(n) W(n+1) ...
//   activations   | wait_dependency ..........| X(0) X(1) ...
//   consumer      |                             C += W(0)·X(0) ...
//
// Two products that share an operand (tiles of 128 rows) are bound by the tensor cores: a
// consumer starts the next product before it waits for the one before. Results in whole
// panels leave through shared memory by TMA, under the next tile's products:
//
//   consumer 0    | C += A(0)·B | C += A(1)·B, free stage 0 | ... | C to shared memory | next tile
//   copy engine   |                                                                    | C to
//   memory
//
// Codes times codes whose scales lie together have these in the ring, too, where tiles have 64
// columns, or more whose parts of the depth are added, or a consumer two products. Consumers of the
// same steps go by turns: a product is added to its sum while those of the other consumer run.
//
//   consumer 0    | turn, start P(0) | wait, P(0) times scales to C(0) | turn, start P(1) | ...
//   consumer 1                       | turn, start P(2) | wait, P(2) times scales to C(2) | ...
//
// CTAs of a cluster may divide the steps (ProductCluster.cpp).
//
// Two CTAs share a multiprocessor if the next kernel begins early and half the shared memory
// still holds enough of the invariant operand to cover memory's latency; so do the CTAs of this
// kernel and of the next.
//
// An operand may be one of two loads, chosen by a scalar: a stage gets the chosen one's copy.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_PRODUCT_PRODUCT_H
#define MLAC_LIB_CONVERSION_TILETOSM90_PRODUCT_PRODUCT_H

#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"
#include "mla/Dialect/Tile/IR/TileDialect.h"

#include <string>

namespace mlac {

/// What the schedule gives `kernel`: stages of its rings, those `given` if they fit, or 0 and in
/// `why` what does not (a kernel without products is not worth a reason); and CTAs that divide the
/// depth.
struct ProductPlan {
  int64_t stages = 0, cluster = 1;
};
ProductPlan planProduct(mlir::tile::KernelOp kernel, std::optional<int64_t> given,
                        std::string &why);

/// Builds, before `kernel`, the sm90.kernel of the same name in the product
/// schedule; a null op, and in `why` what does not fit, for kernels it does not
/// take. The given kernel is left as it is.
mlir::sm90::KernelOp buildProductSchedule(mlir::tile::KernelOp kernel, std::string &why);

} // namespace mlac

#endif // MLAC_LIB_CONVERSION_TILETOSM90_PRODUCT_PRODUCT_H
