//===- LaunchEffects.cpp - what launches read and write ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Tile/IR/LaunchEffects.h"

#include "mlir/Interfaces/ViewLikeInterface.h"

using namespace mlir;
using namespace mlir::tile;

Operation *LaunchEffects::findConflict(const LaunchEffects &other) const {
  for (Operation *buffer : writes)
    if (other.reads.contains(buffer))
      return buffer;
  for (Operation *buffer : other.writes)
    if (reads.contains(buffer))
      return buffer;
  return nullptr;
}

void LaunchEffects::add(const LaunchEffects &other) {
  reads.insert_range(other.reads);
  writes.insert_range(other.writes);
}

/// The kernel's argument that `memory` is a view of; null for anything else.
static BlockArgument findArgument(Value memory) {
  while (Operation *op = memory.getDefiningOp()) {
    auto view = dyn_cast<ViewLikeOpInterface>(op);
    if (!view)
      return {};
    memory = view.getViewSource();
  }
  return dyn_cast<BlockArgument>(memory);
}

/// The arguments that the kernel may write. Memory that cannot be followed is any of them.
static llvm::BitVector findWritten(KernelOp kernel) {
  llvm::BitVector written(kernel.getNumArguments());
  auto write = [&](Value memory) {
    BlockArgument argument = memory ? findArgument(memory) : BlockArgument();
    if (argument && argument.getOwner() == &kernel.getBody().front())
      written.set(argument.getArgNumber());
    else
      written.set();
  };
  kernel.getBody().walk([&](Operation *op) {
    if (op->getNumRegions() || isa<ViewLikeOpInterface>(op) || isMemoryEffectFree(op))
      return;
    auto effects = dyn_cast<MemoryEffectOpInterface>(op);
    if (!effects) {
      for (Value operand : op->getOperands())
        if (isa<MemRefType>(operand.getType()))
          write(operand);
      return;
    }
    SmallVector<MemoryEffects::EffectInstance> instances;
    effects.getEffects(instances);
    for (const MemoryEffects::EffectInstance &instance : instances)
      if (isa<MemoryEffects::Write, MemoryEffects::Free>(instance.getEffect()))
        write(instance.getValue());
  });
  return written;
}

EffectsOfPlan::EffectsOfPlan(PlanOp plan, SymbolTableCollection &symbols) : symbols(symbols) {
  llvm::DenseMap<std::pair<BufferKind, StringAttr>, Operation *> named;
  for (auto buffer : plan.getBody().getOps<BufferOp>())
    first[buffer] =
        named.try_emplace({buffer.getKind(), buffer.getNameAttr()}, buffer).first->second;
}

const llvm::BitVector &EffectsOfPlan::getWritten(LaunchOp launch) {
  auto kernel = symbols.lookupNearestSymbolFrom<KernelOp>(launch, launch.getKernelAttr());
  assert(kernel && "verified with the launch");
  auto [known, isNew] = written.try_emplace(kernel);
  if (isNew)
    known->second = findWritten(kernel);
  return known->second;
}

Operation *EffectsOfPlan::getBuffer(Value value) const {
  Operation *op = value.getDefiningOp();
  Operation *same = first.lookup(op);
  return same ? same : op;
}

LaunchEffects EffectsOfPlan::get(Operation *op) {
  LaunchEffects effects;
  op->walk([&](LaunchOp launch) {
    const llvm::BitVector &isWritten = getWritten(launch);
    for (auto [index, argument] : llvm::enumerate(launch.getArgs())) {
      if (!isa<MemRefType>(argument.getType()))
        continue;
      Operation *buffer = getBuffer(argument);
      effects.reads.insert(buffer);
      if (isWritten.test(index))
        effects.writes.insert(buffer);
    }
  });
  return effects;
}
