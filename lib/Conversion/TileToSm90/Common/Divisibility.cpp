//===- Divisibility.cpp - what an index is a multiple of ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All divisors are powers of two, so the greatest common divisor of two is their
// minimum.
//
//===----------------------------------------------------------------------===//

#include "Common/Divisibility.h"

#include "mla/Dialect/Tile/IR/TileDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

/// Longest chain of definitions followed; index arithmetic of kernels is short.
static constexpr int kMaxDepth = 16;

int64_t mlac::getKnownDivisor(int64_t value) {
  if (value == 0)
    return kMaxDivisor;
  return std::min(kMaxDivisor, int64_t(1) << llvm::countr_zero(static_cast<uint64_t>(value)));
}

static int64_t getDivisor(Value value, int depth);

/// Induction variables are lower bound plus multiples of the step.
static int64_t getArgumentDivisor(BlockArgument argument, int depth) {
  Operation *parent = argument.getOwner()->getParentOp();
  if (auto loop = dyn_cast<scf::ForOp>(parent)) {
    if (argument != loop.getInductionVar())
      return 1;
    return std::min(getDivisor(loop.getLowerBound(), depth), getDivisor(loop.getStep(), depth));
  }
  auto kernel = dyn_cast<tile::KernelOp>(parent);
  if (!kernel)
    return 1;
  auto promise =
      kernel.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), tile::kDivisibilityAttr);
  return promise ? mlac::getKnownDivisor(promise.getInt()) : 1;
}

static int64_t getDivisor(Value value, int depth) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return mlac::getKnownDivisor(constant.getSExtValue());
  if (depth == 0)
    return 1;
  if (auto argument = dyn_cast<BlockArgument>(value))
    return getArgumentDivisor(argument, depth - 1);
  Operation *op = value.getDefiningOp();
  auto ofOperand = [&](unsigned i) { return getDivisor(op->getOperand(i), depth - 1); };
  return llvm::TypeSwitch<Operation *, int64_t>(op)
      .Case<arith::MulIOp>(
          [&](Operation *) { return std::min(mlac::kMaxDivisor, ofOperand(0) * ofOperand(1)); })
      .Case<arith::AddIOp, arith::SubIOp, arith::MinSIOp, arith::MaxSIOp, arith::MinUIOp,
            arith::MaxUIOp, arith::RemSIOp, arith::RemUIOp>(
          [&](Operation *) { return std::min(ofOperand(0), ofOperand(1)); })
      .Case<arith::SelectOp>([&](Operation *) { return std::min(ofOperand(1), ofOperand(2)); })
      .Case<arith::IndexCastOp, arith::ExtSIOp, arith::ExtUIOp>(
          [&](Operation *) { return ofOperand(0); })
      .Default([](Operation *) { return 1; });
}

int64_t mlac::getKnownDivisor(OpFoldResult value) {
  if (auto attr = dyn_cast<Attribute>(value))
    return getKnownDivisor(cast<IntegerAttr>(attr).getInt());
  return getDivisor(cast<Value>(value), kMaxDepth);
}
