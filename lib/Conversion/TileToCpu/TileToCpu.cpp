//===- TileToCpu.cpp - the pass convert-tile-to-cpu ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks what the lowering assumes of a kernel, then lowers the kernels one by
// one (KernelLowering.h) and erases what belongs to the host.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"

#include "mla/Conversion/Passes.h"
#include "mla/Dialect/Tile/Transforms/ExpandAttend.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlac {
#define GEN_PASS_DEF_CONVERTTILETOCPU
#include "mla/Conversion/Passes.h.inc"
} // namespace mlac

using namespace mlir;
using namespace mlac::tile_to_cpu;

static LogicalResult checkTileType(Operation *op, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return success();
  if (tensor.getRank() < 1 || tensor.getRank() > 2 || !tensor.hasStaticShape())
    return op->emitOpError("expected static tiles of rank 1 or 2, got ") << tensor;
  if (!tensor.getElementType().isIntOrFloat())
    return op->emitOpError("expected tiles of integers or floats, got ") << tensor;
  return success();
}

static LogicalResult checkOperation(Operation *op) {
  for (Type type : op->getResultTypes()) {
    if (failed(checkTileType(op, type)))
      return failure();
    if (isa<MemRefType>(type) &&
        !isa<memref::ReinterpretCastOp, memref::CastOp, arith::SelectOp>(op))
      return op->emitOpError("expected views to be made by memref.reinterpret_cast");
  }
  auto constant = dyn_cast<arith::ConstantOp>(op);
  if (constant && isTile(constant) && !isa<SplatElementsAttr>(constant.getValue()))
    return op->emitOpError("expected a tile constant of equal elements");
  auto concat = dyn_cast<tensor::ConcatOp>(op);
  if (concat && (concat.getDim() != 1 || concat.getResultType().getRank() != 2))
    return op->emitOpError("expected tiles of rank 2 side by side");
  auto slice = dyn_cast<tensor::ExtractSliceOp>(op);
  if (slice && (slice.getType().getRank() != slice.getSourceType().getRank() ||
                llvm::any_of(slice.getStaticOffsets(), ShapedType::isDynamic) ||
                llvm::any_of(slice.getStaticStrides(), [](int64_t s) { return s != 1; })))
    return op->emitOpError("expected static offsets, unit strides and the source's rank");
  return success();
}

namespace {
struct ConvertTileToCpu : mlac::impl::ConvertTileToCpuBase<ConvertTileToCpu> {
  using ConvertTileToCpuBase::ConvertTileToCpuBase;

  void runOnOperation() override {
    if (lanes != 8 && lanes != 16) {
      getOperation().emitError("expected lanes 8 or 16, got ") << lanes.getValue();
      return signalPassFailure();
    }
    SmallVector<tile::KernelOp> kernels(getOperation().getOps<tile::KernelOp>());
    for (tile::PlanOp plan : llvm::make_early_inc_range(getOperation().getOps<tile::PlanOp>()))
      plan.erase();
    for (tile::KernelOp kernel : kernels) {
      tile::expandAttends(kernel);
      expandTestBits(kernel);
      WalkResult checked = kernel.getBody().walk([](Operation *op) {
        return failed(checkOperation(op)) ? WalkResult::interrupt() : WalkResult::advance();
      });
      if (checked.wasInterrupted() || failed(KernelLowering(kernel, lanes).run()))
        return signalPassFailure();
    }
  }
};
} // namespace
