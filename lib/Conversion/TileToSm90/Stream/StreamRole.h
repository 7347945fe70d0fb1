//===- StreamRole.h - a walk over the program, for one role ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A role keeps the loops and branches of the tile program. Stages of rings are
// values, so loops and branches carry those of the rings used inside.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_STREAM_STREAMROLE_H
#define MLAC_LIB_CONVERSION_TILETOSM90_STREAM_STREAMROLE_H

#include "Stream/StreamKernel.h"

#include "llvm/ADT/DenseSet.h"

namespace mlac::stream {

inline bool isTile(mlir::Value value) { return mlir::isa<mlir::RankedTensorType>(value.getType()); }

/// A walk over the program that keeps its control flow. Stages are values, so loops
/// and branches carry those of the rings that are used inside.
class Role {
public:
  using TypeConversion = mlir::Type (*)(mlir::Type);
  using Value = mlir::Value;

  Role(mlir::ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
       const LazyCloner &cloner, TypeConversion convert = convertType)
      : b(b), program(program), entry(entry),
        cloner(cloner, [convert](mlir::Operation *, mlir::Type type) { return convert(type); }),
        convert(convert) {}
  virtual ~Role() = default;

  void run();

protected:
  /// Whether the role has its own copy of a value that control flow carries.
  virtual bool keeps(mlir::Value value) const = 0;
  virtual void emit(mlir::Operation *op) = 0;
  /// Before the first op, when stages are the first.
  virtual void begin() {}
  /// Before a loop or a branch, before and after the body of a region.
  virtual void settle() {}
  virtual void beginRegion() {}

  void emitBlock(mlir::Block &block);
  virtual void emitFor(mlir::scf::ForOp loop);
  void emitIf(mlir::scf::IfOp branch);
  /// The body of the loop over sides for one of them.
  void emitSide(int64_t side);
  void emitRegion(mlir::Region &from, mlir::Block &to, mlir::Operation *parent);
  /// What the role's loop in the place of another goes over, and what it starts from.
  struct Range {
    Value first, end, step;
  };
  virtual Range getRange(mlir::scf::ForOp loop) {
    return {cloner.get(loop.getLowerBound()), cloner.get(loop.getUpperBound()),
            cloner.get(loop.getStep())};
  }
  virtual mlir::SmallVector<Value> getInits(mlir::scf::ForOp loop) {
    return getKept(loop.getInitArgs(), loop.getRegionIterArgs());
  }
  /// Scalars, and for roles that have them tiles, op by op.
  void clone(mlir::Operation *op) {
    for (mlir::Value result : op->getResults())
      cloner.get(result);
  }

  /// Of `values` those whose counterparts in `places` are kept.
  mlir::SmallVector<mlir::Value> getKept(mlir::ValueRange values, mlir::ValueRange places);
  void mapKept(mlir::ValueRange olds, mlir::ValueRange news);
  /// The stages that `op`'s regions change.
  virtual mlir::SmallVector<mlir::Value *> getStages(mlir::Operation *op);
  mlir::Value next(mlir::Value stage, mlir::Value ring) {
    return mlir::sm90::StageNextOp::create(b, stage, ring);
  }
  mlir::Value getTile(mlir::Value ring, mlir::Value stage, unsigned index) {
    mlir::Type type = mlir::cast<mlir::sm90::RingType>(ring.getType()).getTiles()[index];
    return mlir::sm90::StageTileOp::create(b, type, ring, stage, index);
  }
  /// Finds the stages of the parts of the block at hand.
  void placeParts();
  /// A stage of the ring of keys that has `part` of the block at hand, and the barrier's number.
  Value getStage(unsigned part) const { return program.slots ? slots[part] : keyStage; }
  int32_t getBarrier(unsigned part) const { return program.slots ? 0 : static_cast<int32_t>(part); }
  /// The shared tile of a part.
  Value getPart(unsigned part) {
    const Part &at = program.parts[part];
    Value tile = getTile(entry.keyRing, getStage(part), program.slots ? 0 : at.tile);
    return slice(tile, program.slots ? 0 : at.column, at.columns);
  }
  /// Goes on to the next block.
  void leaveBlock() { keyStage = next(program.slots ? slots.back() : keyStage, entry.keyRing); }
  /// Columns [column, column + columns) of a shared tile.
  mlir::Value slice(mlir::Value tile, int64_t column, int64_t columns) {
    auto type = mlir::cast<mlir::sm90::SmemType>(tile.getType());
    if (columns == type.getColumns())
      return tile;
    auto part = mlir::sm90::SmemType::get(b.getContext(), {type.getRows(), columns},
                                          type.getElementType(), type.getLayout());
    return mlir::sm90::SliceOp::create(b, part, tile, column);
  }

  mlir::ImplicitLocOpBuilder &b;
  const Program &program;
  const Entry &entry;
  LazyCloner cloner;
  TypeConversion convert; // of tiles
  mlir::Value keyStage, queryStage;
  /// Stages of the block's parts, from `keyStage` on, where each has one.
  llvm::SmallVector<mlir::Value> slots;
  /// Ops that were emitted ahead of their turn.
  llvm::DenseSet<mlir::Operation *> done;
};

} // namespace mlac::stream

#endif // MLAC_LIB_CONVERSION_TILETOSM90_STREAM_STREAMROLE_H
