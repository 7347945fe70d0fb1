//===- TileUses.cpp - which tiles need memory, and when it is free ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileUses.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlac::tile_to_cpu;

bool mlac::tile_to_cpu::isTile(Value value) { return isa<RankedTensorType>(value.getType()); }

bool mlac::tile_to_cpu::isElementwise(Operation *op) {
  if (isa<arith::ConstantOp>(op) || op->getNumResults() != 1 || !isTile(op->getResult(0)))
    return false;
  return isa<arith::ArithDialect, math::MathDialect>(op->getDialect());
}

/// Values that are computed from nothing stored but a vector.
static bool isGenerator(Operation *op) {
  return isa_and_nonnull<arith::ConstantOp, tile::SplatOp, tile::IotaOp, tile::BroadcastOp>(op);
}

/// Arithmetic per element, in units of one addition.
static int64_t operationCost(Operation *op) {
  constexpr int64_t kPolynomial = 20, kDivision = 8, kSimple = 1;
  if (isa<math::ExpOp, math::Exp2Op, math::LogOp, math::Log2Op>(op))
    return kPolynomial;
  if (isa<arith::DivFOp, arith::DivSIOp, arith::RemSIOp, math::SqrtOp, math::RsqrtOp>(op))
    return kDivision;
  return kSimple;
}

TileUses::TileUses(tile::KernelOp kernel) {
  // Pre-order visits definitions before uses, so operands' costs are known.
  kernel.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op->getNumResults() == 1 && isTile(op->getResult(0)))
      decide(op->getResult(0));
  });
}

void TileUses::decide(Value value) {
  Operation *op = value.getDefiningOp();
  if (isGenerator(op)) {
    virtualCost[value] = 0;
    return;
  }
  if (!isElementwise(op))
    return;
  int64_t cost = operationCost(op);
  for (Value operand : op->getOperands())
    if (auto it = virtualCost.find(operand); it != virtualCost.end())
      cost += it->second;
  if (isCheapAtUses(value, cost))
    virtualCost[value] = cost;
}

bool TileUses::isCheapAtUses(Value value, int64_t cost) const {
  // A store and the loads of two consumers cost about this many additions.
  constexpr int64_t kCostOfMemory = 3;
  SmallPtrSet<Operation *, 4> users;
  for (Operation *user : value.getUsers()) {
    // Memory is needed by users that read elements in another order, and by
    // terminators, which must not be the place where their operands are computed.
    bool needsMemory =
        isa<tile::BroadcastOp, tile::SumGroupsOp, tensor::ExtractSliceOp, tile::LoadElementsOp>(
            user) ||
        user->hasTrait<OpTrait::IsTerminator>();
    if (auto dot = dyn_cast<tile::DotOp>(user))
      needsMemory |= dot.getRhs() == value;
    if (needsMemory || user->getBlock() != value.getParentBlock())
      return false;
    users.insert(user);
  }
  return users.size() <= 1 || cost * static_cast<int64_t>(users.size() - 1) <= kCostOfMemory;
}

//===----------------------------------------------------------------------===//
// Effective uses
//===----------------------------------------------------------------------===//

void TileUses::collectUses(Value value, bool sameElement, SmallVectorImpl<Use> &uses) const {
  for (OpOperand &operand : value.getUses()) {
    Operation *user = operand.getOwner();
    bool isView = isa<tensor::ExtractSliceOp>(user);
    if (isView || (user->getNumResults() == 1 && isVirtual(user->getResult(0)))) {
      collectUses(user->getResult(0), sameElement && isElementwise(user), uses);
      continue;
    }
    uses.push_back({user, &operand, sameElement});
  }
}

SmallVector<TileUses::Use> TileUses::effectiveUses(Value value) const {
  SmallVector<Use> uses;
  collectUses(value, /*sameElement=*/true, uses);
  return uses;
}

static bool isStore(Operation *op) {
  return isa<tile::StoreOp, tile::StoreSlotsOp, memref::StoreOp>(op);
}

static bool containsStore(Operation *op) {
  return op
      ->walk([](Operation *inner) {
        return isStore(inner) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// The kernel argument that a view is made of.
static Value rootOf(Value view) {
  while (Operation *op = view.getDefiningOp())
    view = op->getOperand(0);
  return view;
}

bool TileUses::canReadInPlace(Operation *load) const {
  Block *block = load->getBlock();
  Operation *last = load;
  for (const Use &use : effectiveUses(load->getResult(0))) {
    Operation *user = block->findAncestorOpInBlock(*use.user);
    if (!user)
      return false;
    if (last->isBeforeInBlock(user))
      last = user;
  }
  for (Operation *op = load->getNextNode(); op && op != last; op = op->getNextNode())
    if (containsStore(op))
      return false;
  // The last user may itself store, row after row, while it still reads.
  if (auto store = dyn_cast<tile::StoreOp>(last))
    return rootOf(store.getView()) != rootOf(load->getOperand(0));
  return last == load || !containsStore(last);
}

//===----------------------------------------------------------------------===//
// Overwriting
//===----------------------------------------------------------------------===//

/// Whether `use`, at the definition of `next`, reads each element of `current`
/// before it is overwritten.
bool TileUses::mayWriteOver(const Use &use, Value current, Value next) const {
  Operation *definition = next.getDefiningOp();
  if (isa<scf::IfOp>(definition))
    return true; // canOverwriteInIf looks at its branches
  if (use.user != definition)
    return false; // inside a loop that computes `next`
  if (isElementwise(definition))
    return use.sameElement;
  if (auto dot = dyn_cast<tile::DotOp>(definition))
    return use.sameElement && use.operand->get() == dot.getAcc() &&
           use.operand->getOperandNumber() == dot.getAccMutable().getOperandNumber();
  auto loop = dyn_cast<scf::ForOp>(definition);
  return loop && use.sameElement && use.operand->get() == current &&
         loop.getTiedLoopResult(use.operand) == next;
}

bool TileUses::canOverwriteInIf(Value current, Operation *ifOp, Value next) const {
  unsigned index = cast<OpResult>(next).getResultNumber();
  for (Region &region : ifOp->getRegions()) {
    Value yielded = region.front().getTerminator()->getOperand(index);
    if (yielded != current && !canOverwrite(current, &region.front(), yielded))
      return false;
  }
  return true;
}

bool TileUses::canOverwrite(Value current, Block *block, Value next) const {
  Operation *definition = next.getDefiningOp();
  // Values from elsewhere are copied at the end of the block.
  bool isHere = definition && definition->getBlock() == block && !isVirtual(next);
  if (isHere && !isElementwise(definition) &&
      !isa<tile::DotOp, tile::ReduceOp, scf::ForOp, scf::IfOp>(definition))
    return false;
  for (const Use &use : effectiveUses(current)) {
    Operation *user = block->findAncestorOpInBlock(*use.user);
    if (!user)
      continue;
    if (isHere && definition->isBeforeInBlock(user))
      return false;
    if (isHere && user == definition && !mayWriteOver(use, current, next))
      return false;
    if (!isHere && user == block->getTerminator())
      return false;
  }
  if (isHere && isa<scf::IfOp>(definition))
    return canOverwriteInIf(current, definition, next);
  return true;
}
