//===- ProductKernel.h - the parts of a kernel in the product schedule ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Product.cpp recognises the program and makes the entry, ProductProgram.cpp answers what it takes;
// ProductRoles.cpp walks it once for each role.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_PRODUCT_PRODUCTKERNEL_H
#define MLAC_LIB_CONVERSION_TILETOSM90_PRODUCT_PRODUCTKERNEL_H

#include "Common/RoleKernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseSet.h"

namespace mlac::product {

/// Registers of a thread, where consumers hold 64x256 accumulators: three warpgroups
/// are launched with 168 each, 504 in all (docs/design.md).
inline constexpr int32_t kProducerRegisters = 40, kConsumerRegisters = 232;

/// An operand that is one of several loads, by conditions that all threads share: the first whose
/// condition holds, else the last.
struct Choice {
  mlir::SmallVector<mlir::Value, 3> conditions;
  mlir::SmallVector<mlir::tile::LoadOp, 4> loads;
};

/// A step's product that is multiplied by `factor` and then added to what a loop carries.
struct Promotion {
  mlir::math::FmaOp add;
  mlir::Value carried, factor;
};

/// What the schedule needs to know of a tile kernel.
struct Program : RoleProgram {
  using RoleProgram::RoleProgram;
  /// Of the first consumer, then of the second, as many; all in one block, as are the loads of
  /// their operands.
  mlir::SmallVector<mlir::tile::DotOp> dots;
  /// What each producer loads for a step.
  mlir::SmallVector<mlir::SmallVector<mlir::tile::LoadOp>> loads;
  /// By the first load of each.
  llvm::DenseMap<mlir::Operation *, Choice> choices;
  /// Vectors of scales that are copied with a step's operands.
  mlir::SmallVector<mlir::tile::LoadOp> scales;
  /// Whether the producer's loads may run ahead of a dependency.
  mlir::SmallVector<bool> areInvariant;
  /// Ops on tiles that belong to one dot only, its followers, by dot.
  mlir::SmallVector<llvm::DenseSet<mlir::Operation *>> members;
  /// Stores of whole rows: by way of shared memory and TMA.
  llvm::DenseSet<mlir::Operation *> staged;
  /// Of products that are added up so.
  llvm::DenseMap<mlir::Operation *, Promotion> promotions;
  /// Adds the sum of the second consumer to the first one's, which goes on with it; or null.
  mlir::arith::AddFOp joint;
  /// CTAs that have a part of the depth each, and of the results' columns.
  int64_t cluster = 1;

  /// What the loop over the depth carries for a product, and what it yields.
  mlir::Value getCarried(mlir::tile::DotOp dot) const {
    auto found = promotions.find(dot);
    return found == promotions.end() ? dot.getAcc() : found->second.carried;
  }
  mlir::Value getYielded(mlir::tile::DotOp dot) const {
    auto found = promotions.find(dot);
    return found == promotions.end() ? mlir::Value(dot.getResult())
                                     : found->second.add->getResult(0);
  }
  /// The product's sum over the depth.
  mlir::Value getSum(mlir::tile::DotOp dot) const;
  /// Whether weights are codes; whether a consumer turns them into operands, as activations are
  /// none.
  bool hasCodes() const;
  bool turnsCodes() const;
  /// Consumers, and the products of one: two of them have one or two each.
  unsigned countConsumers() const { return dots.size() > 1 ? 2 : 1; }
  llvm::ArrayRef<mlir::tile::DotOp> getDots(unsigned consumer) const {
    size_t each = dots.size() / countConsumers();
    return mlir::ArrayRef(dots).slice(consumer * each, each);
  }
  /// Whether consumers of the same step, whose scales come with its operands, take turns at the
  /// tensor cores: while the products of one are added to its sums, those of the other run.
  bool takesTurns() const { return !scales.empty() && countConsumers() > 1 && !joint; }
  /// Registers of a thread that a consumer's tiles take: of its sums and, beside them, of a step's
  /// product that is added to one, or behind the loop of what is (a bias).
  int64_t countRegisters() const;
  /// Whether a second producer's registers are missing, and consumers need more than they are
  /// launched with.
  bool isTight() const;
  /// Roles: producers and consumers.
  int64_t countRoles() const { return static_cast<int64_t>(loads.size() + countConsumers()); }

  /// Whether `op` is or encloses the steps.
  bool hasSteps(mlir::Operation *op) const {
    mlir::Operation *dot = dots.front();
    return op->isAncestor(dot);
  }
  /// The loop over the depth, whose steps CTAs of a cluster divide evenly; null without one.
  mlir::scf::ForOp getDepthLoop() const;
  /// Of the depth, for each CTA.
  int64_t getDepthSpan() const;
  /// Whether `op` computes with tiles of results: behind the loop over the depth.
  bool isBehindDepth(mlir::Operation *op) const;
  /// A result's columns that a CTA of the cluster has, as a tile.
  mlir::RankedTensorType getShare(mlir::RankedTensorType tile) const {
    return mlir::RankedTensorType::get({tile.getDimSize(0), tile.getDimSize(1) / cluster},
                                       tile.getElementType(), tile.getEncoding());
  }
  /// The type in a role of what `op` makes as `type`.
  mlir::Type convertType(mlir::Operation *op, mlir::Type type) const;
  /// Rows and columns of the view that a store writes.
  mlir::SmallVector<int64_t, 2> getStoredShape(mlir::tile::StoreOp store) const;
  /// Bytes of shared memory through which a cluster adds up its parts.
  int64_t getSumsBytes() const;
  /// Whether a consumer has its next product in flight before it frees the stage of the
  /// one before.
  bool overlapsProducts() const;
  /// The same of products that are promoted: two of them stand beside the sum.
  bool overlapsPromotions() const;
};

/// CTAs of a cluster at most: of more, a launch needs an opt-in (Sm90Limits.h).
inline constexpr int64_t kMostClusterCtas = 8;
/// How many CTAs may divide the program's depth, of those that the kernel allows.
int64_t chooseCluster(const Program &program);

/// Null, and in `why` the reason, for kernels that the schedule does not take.
std::optional<Program> matchProgram(mlir::tile::KernelOp kernel, std::string &why);

inline bool isTile(mlir::Value value) { return mlir::isa<mlir::RankedTensorType>(value.getType()); }
bool isOfCodes(mlir::Value tile);
/// The codes that an operand is turned from, by way of f32 values that `scale` (of the type of
/// tile.splat's operand) multiplies: `truncf(mulf(extf(codes), splat(scale)))`. Else the operand,
/// and no scale.
struct TurnedOperand {
  mlir::Value codes, scale;
};
TurnedOperand getTurned(mlir::Value operand);
/// Whether a vector has an element for each column of a tile: it is repeated over the rows.
bool isOfColumns(mlir::Value vector);
/// The type in a role of what `op` makes as `type`.
mlir::Type convertProductType(mlir::Operation *op, mlir::Type type);
/// The operand, or the codes that it is turned from, as a choice; of one load if it is no
/// arith.select. Null loads: no load.
Choice getChoice(mlir::Value operand);
/// Index arithmetic and views: every role has its own.
bool isScalar(mlir::Operation *op);

/// The shared tile of a staged store: rows and columns are those of its view.
mlir::sm90::SmemType getStagingType(const Program &program, mlir::tile::StoreOp store);

/// What the kernel's entry provides to the roles, by producer.
struct Entry {
  mlir::SmallVector<mlir::Value> rings;
  mlir::SmallVector<mlir::SmallVector<mlir::Value>> maps;
  /// Of what a choice loads besides, by its first load.
  llvm::DenseMap<mlir::Operation *, mlir::SmallVector<mlir::Value, 3>> otherMaps;
  /// Of a staged store: its tile, and the map of where that goes.
  struct Staging {
    mlir::Value tile, map;
  };
  /// Where the second consumer leaves its sum for the first.
  mlir::Value parkingRing;
  /// Of a cluster: this CTA's rank, where its part of the depth begins, and through what each
  /// consumer gets the others' sums.
  mlir::Value rank, depthBegin;
  mlir::SmallVector<mlir::Value, 2> sumsRings;
  llvm::DenseMap<mlir::Operation *, Staging> staging;
};

/// What a cluster's CTAs need of the entry.
void addCluster(mlir::ImplicitLocOpBuilder &b, const Program &program, Entry &entry);
/// Makes `kernel` one of clusters: each runs what one of the tile kernel's programs does.
void mapPrograms(mlir::ImplicitLocOpBuilder &b, const Program &program, LazyCloner &cloner,
                 mlir::sm90::KernelOp kernel);
/// What this CTA has of the sum of all CTAs' `sum`, by way of `ring`, whose `stage` goes on.
mlir::Value emitClusterSum(mlir::ImplicitLocOpBuilder &b, const Program &program,
                           const Entry &entry, mlir::Value ring, mlir::Value &stage,
                           mlir::Value sum);

/// Fills the role that `b` stands in.
void emitProducer(mlir::ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
                  unsigned producer, const LazyCloner &cloner);
void emitConsumer(mlir::ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
                  unsigned consumer, const LazyCloner &cloner);

} // namespace mlac::product

#endif // MLAC_LIB_CONVERSION_TILETOSM90_PRODUCT_PRODUCTKERNEL_H
