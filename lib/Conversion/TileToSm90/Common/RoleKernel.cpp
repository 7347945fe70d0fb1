//===- RoleKernel.cpp - the frame of a warp-specialised kernel ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Common/RoleKernel.h"

#include "mla/Dialect/KernelAttrs.h"
#include "mla/Dialect/Tile/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlac;

//===----------------------------------------------------------------------===//
// Kernel and roles
//===----------------------------------------------------------------------===//

sm90::KernelOp mlac::createRoleKernel(ImplicitLocOpBuilder &b, tile::KernelOp source,
                                      int64_t warpgroups) {
  auto kernel =
      sm90::KernelOp::create(b, source.getSymName(), source.getArgumentTypes(), warpgroups);
  if (ArrayAttr attributes = source.getArgAttrsAttr())
    kernel.setArgAttrsAttr(attributes);
  kernel->setDiscardableAttrs(source->getDiscardableAttrDictionary());
  b.setInsertionPointToStart(&kernel.getBody().front());
  return kernel;
}

void mlac::emitLaunchDependents(ImplicitLocOpBuilder &b, tile::KernelOp source) {
  if (source->hasAttr(tile::kTriggersDependentsAttr))
    sm90::LaunchDependentsOp::create(b);
}

void mlac::emitRole(ImplicitLocOpBuilder &b, StringRef name, int32_t warpgroup,
                    IntegerAttr registers, llvm::function_ref<void()> body) {
  auto role = sm90::RoleOp::create(b, name, warpgroup, warpgroup + 1, registers);
  OpBuilder::InsertionGuard guard(b);
  b.createBlock(&role.getBody());
  sm90::EndOp::create(b);
  b.setInsertionPointToStart(&role.getBody().front());
  body();
}

void mlac::cloneScalars(LazyCloner &cloner, Block &block,
                        llvm::function_ref<bool(Operation *)> isShared) {
  for (Operation &op : block.without_terminator())
    if (isShared(&op) &&
        llvm::all_of(op.getOperands(), [&](Value v) { return cloner.isMapped(v); }))
      for (Value result : op.getResults())
        cloner.get(result);
}

//===----------------------------------------------------------------------===//
// Types of one warpgroup
//===----------------------------------------------------------------------===//

RankedTensorType mlac::getFragmentType(int64_t columns, Type element) {
  return RankedTensorType::get({sm90::kTileRows, columns}, element,
                               sm90::FragmentAttr::get(element.getContext(), /*column_split=*/1));
}

Type mlac::convertRoleType(Type type) {
  auto tile = dyn_cast<RankedTensorType>(type);
  if (!tile)
    return type;
  if (tile.getRank() == 1)
    return RankedTensorType::get(tile.getShape(), tile.getElementType(),
                                 sm90::RowsAttr::get(type.getContext()));
  return getFragmentType(tile.getDimSize(1), tile.getElementType());
}

Type mlac::convertTransposedType(Type type) {
  auto tile = dyn_cast<RankedTensorType>(type);
  if (!tile)
    return type;
  if (tile.getRank() == 1)
    return RankedTensorType::get(tile.getShape(), tile.getElementType(),
                                 sm90::ColumnsAttr::get(type.getContext()));
  assert(tile.getDimSize(1) == sm90::kTileRows && "a tile of 64 columns");
  return getFragmentType(tile.getDimSize(0), tile.getElementType());
}

sm90::SmemType mlac::getSharedType(ArrayRef<int64_t> shape, Type element) {
  return sm90::SmemType::get(element.getContext(), shape, element, sm90::SmemLayout::Swizzle128);
}
sm90::SmemType mlac::getSharedType(Value tile) {
  auto type = cast<RankedTensorType>(tile.getType());
  return getSharedType(type.getShape(), type.getElementType());
}

//===----------------------------------------------------------------------===//
// Small values
//===----------------------------------------------------------------------===//

Value RoleKernel::constant32(int64_t value) {
  return arith::ConstantIntOp::create(b, b.getI32Type(), value);
}
Value RoleKernel::constantIndex(int64_t value) { return arith::ConstantIndexOp::create(b, value); }
Value RoleKernel::constantFloat(float value, Type type) {
  FloatAttr number = b.getF32FloatAttr(value);
  auto tile = dyn_cast<ShapedType>(type);
  return arith::ConstantOp::create(b, tile ? TypedAttr(DenseElementsAttr::get(tile, number))
                                           : TypedAttr(number));
}
Value RoleKernel::toIndex(Value value) {
  return arith::IndexCastOp::create(b, b.getIndexType(), value);
}
Value RoleKernel::to32(Value value) { return arith::IndexCastOp::create(b, b.getI32Type(), value); }
Value RoleKernel::next(Value stage, Value ring) {
  return sm90::StageNextOp::create(b, stage, ring);
}
Value RoleKernel::tileOf(Value ring, Value stage, unsigned index) {
  Type type = cast<sm90::RingType>(ring.getType()).getTiles()[index];
  return sm90::StageTileOp::create(b, type, ring, stage, index);
}

//===----------------------------------------------------------------------===//
// Recognised programs
//===----------------------------------------------------------------------===//

std::string RoleProgram::chooseStages(std::optional<int64_t> given, int64_t standard, int64_t most,
                                      int64_t stageBytes) {
  stages = given.value_or(standard);
  if (stages >= 2 && stages <= most)
    return "";
  return std::to_string(std::max<int64_t>(stages, 2)) + " stages of " + std::to_string(stageBytes) +
         " bytes do not fit in shared memory";
}
