//===- FuseAppend.cpp - mla-fuse-append ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A latent projection whose latent and rotated tail go to the cache and nowhere else is one
// operation with the rotation and the append, where the target has a kernel that holds such a
// row. Assumes nothing; afterwards no such projection remains.
//
//===----------------------------------------------------------------------===//

#include "KnownAt.h"

#include "CacheFormats.h"

#include "mla/Dialect/Mla/IR/TokenAngles.h"
#include "mla/Dialect/Mla/Transforms/Passes.h"
#include "mla/Machine/TileShapes.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::mla {
#define GEN_PASS_DEF_MLAFUSEAPPEND
#include "mla/Dialect/Mla/Transforms/Passes.h.inc"
} // namespace mlir::mla

using namespace mlir;
using namespace mlir::mla;

/// The rotation of the whole tail, if it is the tail's only use.
static RopeOp findRotation(LatentProjectOp project) {
  Value tail = project.getTail();
  if (!tail || !tail.hasOneUse())
    return {};
  auto rope = dyn_cast<RopeOp>(*tail.user_begin());
  bool isWhole = rope && !rope.getInverse() && !hasTokenAngles(rope) &&
                 rope.getTable().getType().getRank() == 2 &&
                 rope.getRope().getDim() == cast<RankedTensorType>(tail.getType()).getDimSize(1);
  return isWhole ? rope : RopeOp();
}

/// The one append of the latent and of `rope`'s result.
static AppendOp findAppend(LatentProjectOp project, RopeOp rope) {
  AppendOp found;
  for (Operation *user : rope.getResult().getUsers()) {
    auto append = dyn_cast<AppendOp>(user);
    if (!append)
      continue;
    bool isBoth = append->getBlock() == project->getBlock() &&
                  append.getBatch() == rope.getBatch() &&
                  llvm::equal(append.getRows(), ValueRange{project.getLatent(), rope.getResult()});
    if (!isBoth || found)
      return {};
    found = append;
  }
  return found;
}

static void fuse(LatentProjectOp project, RopeOp rope, AppendOp append) {
  OpBuilder builder(project);
  bool isRead = !project.getLatent().hasOneUse() || !rope.getResult().hasOneUse();
  auto fused = LatentAppendOp::create(
      builder, project.getLoc(), project.getInput(), project.getWeight(), project.getGamma(),
      project.getBias(), project.getEpsAttr(), project.getMultiplierAttr(), rope.getTable(),
      rope.getRopeAttr(), append.getCache(), append.getBatch(),
      isRead ? builder.getUnitAttr() : UnitAttr());
  append.getResult().replaceAllUsesWith(fused.getResult());
  if (isRead) {
    project.getLatent().replaceAllUsesWith(fused.getRows()[0]);
    rope.getResult().replaceAllUsesWith(fused.getRows()[1]);
  }
  append->erase();
  rope->erase();
  project->erase();
}

/// Rows as they are, or groups of codes that are rows of a program's tile.
static bool canWrite(CacheType cache, const mlac::TileShapes &shapes) {
  if (!cache.isQuantized())
    return true;
  int64_t columns = cache.getFields().front().columns, group = cache.getLayout().scaleGroup;
  return cache.hasGroupedLatents() && columns % group == 0 && columns / group <= shapes.rows;
}

namespace {
struct FuseAppend : mla::impl::MlaFuseAppendBase<FuseAppend> {
  using MlaFuseAppendBase::MlaFuseAppendBase;

  void runOnOperation() override {
    const mlac::TileShapes &shapes = mlac::TileShapes::get(target);
    SmallVector<LatentProjectOp> projections;
    getOperation().walk([&](LatentProjectOp op) { projections.push_back(op); });
    for (LatentProjectOp project : projections) {
      RopeOp rope = project.getCodesGroup() ? RopeOp() : findRotation(project);
      AppendOp append = rope ? findAppend(project, rope) : AppendOp();
      if (!append || !canWrite(append.getCache().getType(), shapes) ||
          !isKnownAt(rope.getTable(), project) || !isKnownAt(append.getCache(), project) ||
          !isKnownAt(append.getBatch(), project))
        continue;
      int64_t width = cast<RankedTensorType>(project.getLatent().getType()).getDimSize(1);
      if (shapes.canHoldRow(width) && shapes.canHoldRow(rope.getRope().getDim() / 2))
        fuse(project, rope, append);
    }
  }
};
} // namespace
