//===- ProductProgram.cpp - what a product's program takes and allows ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Questions about the parts of a matched program: codes, registers, which products may be in flight
// together.
//
//===----------------------------------------------------------------------===//

#include "Product/ProductKernel.h"

#include "mla/Dialect/Sm90/Transforms/RegisterEstimate.h"
#include "mla/Dialect/Sm90/Utils/Layout.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::product;

/// What a consumer's tiles may take of a thread's registers beside a second producer: a thread of
/// four warpgroups has 128.
static constexpr int64_t kRegistersOfFourRoles = 128;
static constexpr int64_t kMostRegistersOfTwoProducers =
    kRegistersOfFourRoles - sm90::kAddressRegisters;

bool product::isOfCodes(Value tile) {
  auto type = dyn_cast<RankedTensorType>(tile.getType());
  return type && isa<Float8E4M3FNType>(type.getElementType());
}

bool product::Program::hasCodes() const {
  return llvm::any_of(dots,
                      [](tile::DotOp dot) { return isOfCodes(getTurned(dot.getLhs()).codes); });
}

bool product::Program::turnsCodes() const {
  return llvm::any_of(dots, [](tile::DotOp dot) {
    return isOfCodes(getTurned(dot.getLhs()).codes) && !isOfCodes(dot.getRhs());
  });
}

TurnedOperand product::getTurned(Value operand) {
  auto narrow = operand.getDefiningOp<arith::TruncFOp>();
  auto product = narrow ? narrow.getIn().getDefiningOp<arith::MulFOp>() : arith::MulFOp();
  if (!product || !narrow->hasOneUse() || !product->hasOneUse())
    return {operand, Value()};
  for (auto [tile, factor] : {std::pair(product.getLhs(), product.getRhs()),
                              std::pair(product.getRhs(), product.getLhs())}) {
    auto wide = tile.getDefiningOp<arith::ExtFOp>();
    auto scale = factor.getDefiningOp<tile::SplatOp>();
    if (wide && scale && wide->hasOneUse() && isOfCodes(wide.getIn()))
      return {wide.getIn(), scale.getOperand()};
  }
  return {operand, Value()};
}

bool product::isOfColumns(Value vector) {
  auto type = dyn_cast<RankedTensorType>(vector.getType());
  if (!type || type.getRank() != 1)
    return false;
  return llvm::any_of(vector.getUsers(), [](Operation *user) {
    if (auto repeated = dyn_cast<tile::BroadcastOp>(user))
      return repeated.getDim() == 0;
    return user->getNumResults() == 1 && isOfColumns(user->getResult(0));
  });
}

Type product::convertProductType(Operation *op, Type type) {
  bool isVector = op->getNumResults() == 1 && isOfColumns(op->getResult(0));
  return isVector ? convertTransposedType(type) : convertRoleType(type);
}

/// Of a thread, for a tile that a warpgroup holds, by its type or as f32.
static int64_t countRegisters(Type tile, bool isWide = false) {
  constexpr int64_t bits = 32;
  auto type = cast<RankedTensorType>(tile);
  return llvm::divideCeil(type.getNumElements() * (isWide ? bits : type.getElementTypeBitWidth()),
                          bits * sm90::kWarpgroupThreads);
}

int64_t product::Program::countRegisters() const {
  int64_t most = 0;
  for (auto [dot, ops] : llvm::zip_equal(dots, members)) {
    int64_t sum = ::countRegisters(tile::DotOp(dot).getAcc().getType()), loaded = 0;
    bool isPromoted = !turnsCodes() && promotions.contains(dot);
    // All of it arrives before any of it is added; with one step, nothing keeps LLVM from widening
    // it ahead of the product.
    bool hasOneStep = getSum(dot) == tile::DotOp(dot).getResult();
    for (Operation *op : ops)
      if (isa<tile::LoadOp>(op))
        loaded = std::max(loaded, ::countRegisters(op->getResult(0).getType(), hasOneStep));
    auto sums = static_cast<int64_t>(getDots(0).size()) * sum;
    most = std::max(most, sums + (isPromoted ? std::max(sum, loaded) : loaded));
  }
  return most;
}

/// From so many columns of a result on what a product takes is more than what its stage, freed one
/// step later, costs the copies: 64 x 64 tiles take 142 ns a step for 200, 64 x 128 183 for 262
/// (one H100); with 16 columns parts of a depth, which are few steps, take 3 to 7 % more
/// (docs/lab/products.md).
static constexpr int64_t kOverlappedColumns = 64;

bool product::Program::overlapsProducts() const {
  if (turnsCodes() || !promotions.empty())
    return false;
  tile::DotOp dot = dots.front();
  return dots.size() > 1 || dot.getType().getDimSize(1) >= kOverlappedColumns;
}

bool product::Program::overlapsPromotions() const {
  if (turnsCodes() || promotions.size() != dots.size() || !scales.empty())
    return false;
  tile::DotOp dot = dots.front();
  int64_t sum = ::countRegisters(dot.getType());
  // Scales of a tile's columns or rows; of both, and of each row and block, they are a tile.
  auto factor = promotions.lookup(dot).factor.getDefiningOp<tile::BroadcastOp>();
  int64_t scales = sum;
  if (factor)
    scales = isOfColumns(factor.getSource()) ? dot.getType().getDimSize(1) / sm90::kQuadLanes
                                             : sm90::kFragmentRows;
  // Of 124 by this count, in four roles, ptxas 13.0 spilled two.
  constexpr int64_t spare = 8;
  return 3 * sum + 2 * scales + sm90::kAddressRegisters + spare <=
         (isTight() ? kConsumerRegisters : kRegistersOfFourRoles);
}

bool product::Program::isTight() const {
  return takesTurns() || countRegisters() > kMostRegistersOfTwoProducers;
}

Value product::Program::getSum(tile::DotOp dot) const {
  scf::ForOp loop = getDepthLoop();
  if (!loop)
    return dot.getResult();
  return loop.getResult(cast<BlockArgument>(getCarried(dot)).getArgNumber() - 1);
}

SmallVector<int64_t, 2> product::Program::getStoredShape(tile::StoreOp store) const {
  SmallVector<int64_t, 2> shape(
      getShare(cast<RankedTensorType>(store.getValue().getType())).getShape());
  if (store.getTransposed())
    std::swap(shape[0], shape[1]);
  return shape;
}

sm90::SmemType product::getStagingType(const Program &program, tile::StoreOp store) {
  return getSharedType(program.getStoredShape(store),
                       cast<RankedTensorType>(store.getValue().getType()).getElementType());
}

Choice product::getChoice(Value operand) {
  operand = getTurned(operand).codes;
  Choice choice;
  while (auto select = operand.getDefiningOp<arith::SelectOp>()) {
    choice.conditions.push_back(select.getCondition());
    choice.loads.push_back(select.getTrueValue().getDefiningOp<tile::LoadOp>());
    operand = select.getFalseValue();
  }
  choice.loads.push_back(operand.getDefiningOp<tile::LoadOp>());
  return choice;
}

bool product::isScalar(Operation *op) {
  return op->getNumRegions() == 0 && op->getNumResults() != 0 && !isa<memref::LoadOp>(op) &&
         llvm::none_of(op->getOperands(), isTile) && llvm::none_of(op->getResults(), isTile);
}
