//===- FuseAppend.cpp - mla-fuse-append ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A latent projection whose latent and tail, rotated or as it is, go to the cache is one operation
// with the rotation and the append, where the target has a kernel that holds such a
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

/// What becomes of a projection's rows.
namespace {
struct Append {
  RopeOp rope; // of the whole tail; null: the tail is written as it is, if there is one
  AppendOp append;

  /// The tail as it is written, or null.
  Value getKey(LatentProjectOp project) { return rope ? rope.getResult() : project.getTail(); }
};
} // namespace

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

/// The one append of the latent and of the key.
static Append findAppend(LatentProjectOp project) {
  Append found{findRotation(project), {}};
  SmallVector<Value, 2> rows{project.getLatent()};
  if (Value key = found.getKey(project))
    rows.push_back(key);
  for (Operation *user : rows.back().getUsers()) {
    auto append = dyn_cast<AppendOp>(user);
    if (!append)
      continue;
    bool isWhole = append->getBlock() == project->getBlock() &&
                   (!found.rope || append.getBatch() == found.rope.getBatch()) &&
                   llvm::equal(append.getRows(), rows);
    if (!isWhole || found.append)
      return {};
    found.append = append;
  }
  return found;
}

static void fuse(LatentProjectOp project, Append found) {
  OpBuilder builder(project);
  auto [rope, append] = found;
  Value key = found.getKey(project);
  bool isRead = !project.getLatent().hasOneUse() || (key && !key.hasOneUse());
  auto fused = LatentAppendOp::create(
      builder, project.getLoc(), project.getInput(), project.getWeight(), project.getGamma(),
      project.getBias(), project.getEpsAttr(), project.getMultiplierAttr(),
      rope ? rope.getTable() : Value(), rope ? rope.getRopeAttr() : RopeAttr(), append.getCache(),
      append.getBatch(), isRead ? builder.getUnitAttr() : UnitAttr());
  append.getResult().replaceAllUsesWith(fused.getResult());
  if (isRead) {
    project.getLatent().replaceAllUsesWith(fused.getRows()[0]);
    if (key)
      key.replaceAllUsesWith(fused.getRows()[1]);
  }
  append->erase();
  if (rope)
    rope->erase();
  project->erase();
}

/// Rows as they are, codes of one scale, or groups of codes that are rows of a program's tile.
static bool canWrite(CacheType cache, const mlac::TileShapes &shapes) {
  if (!cache.isQuantized() || cache.hasLayerScale())
    return true;
  int64_t columns = cache.getFields().front().columns, group = cache.getLayout().scaleGroup;
  return cache.hasGroupedLatents() && columns % group == 0 && columns / group <= shapes.rows;
}

/// Whether the target's programs hold the rows, and all that the write needs is known where they
/// are made.
static bool canFuse(LatentProjectOp project, Append found, const mlac::TileShapes &shapes) {
  auto [rope, append] = found;
  if (project.getCodesGroup() || !append || !canWrite(append.getCache().getType(), shapes) ||
      !isKnownAt(append.getCache(), project) || !isKnownAt(append.getBatch(), project))
    return false;
  auto widthOf = [](Value rows) { return cast<RankedTensorType>(rows.getType()).getDimSize(1); };
  if (!shapes.canHoldRow(widthOf(project.getLatent())))
    return false;
  if (rope)
    return isKnownAt(rope.getTable(), project) && shapes.canHoldRow(rope.getRope().getDim() / 2);
  return !project.getTail() || shapes.canHoldRow(widthOf(project.getTail()));
}

namespace {
struct FuseAppend : mla::impl::MlaFuseAppendBase<FuseAppend> {
  using MlaFuseAppendBase::MlaFuseAppendBase;

  void runOnOperation() override {
    const mlac::TileShapes &shapes = mlac::TileShapes::get(target);
    SmallVector<LatentProjectOp> projections;
    getOperation().walk([&](LatentProjectOp op) { projections.push_back(op); });
    for (LatentProjectOp project : projections)
      if (Append found = findAppend(project); canFuse(project, found, shapes))
        fuse(project, found);
  }
};
} // namespace
