//===- SharedMemoryOrder.cpp - who may touch shared memory when ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Sm90/Transforms/SharedMemoryOrder.h"

#include "mla/Dialect/Sm90/IR/Sm90CodeOps.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::sm90;

//===----------------------------------------------------------------------===//
// Uses of tiles
//===----------------------------------------------------------------------===//

SharedRoot mlir::sm90::getSharedRoot(Value tile) {
  // Columns of a tile, and the tile in another order, lie where it does.
  while (isa_and_present<SliceOp, OrderRunsOp>(tile.getDefiningOp()))
    tile = tile.getDefiningOp()->getOperand(0);
  if (auto alloc = tile.getDefiningOp<AllocOp>())
    return {alloc, 0};
  auto stage = tile.getDefiningOp<StageTileOp>();
  Operation *ring = stage ? stage.getRing().getDefiningOp() : nullptr;
  return {ring, ring ? stage.getIndex() : 0};
}

Operation *mlir::sm90::getScope(Operation *op) {
  if (auto role = op->getParentOfType<RoleOp>())
    return role;
  return op->getParentOfType<KernelOp>();
}

SharedTileUses::SharedTileUses(KernelOp kernel) {
  kernel.walk([&](Operation *op) { addOp(op); });
}

void SharedTileUses::addOp(Operation *op) {
  llvm::TypeSwitch<Operation *>(op)
      .Case<RoleOp>([&](auto) { roles = true; })
      .Case<WgmmaOp>([&](WgmmaOp wgmma) {
        for (Value operand : {wgmma.getLhs(), Value(wgmma.getRhs())})
          if (isa<SmemType>(operand.getType()))
            addAsyncRead(op, operand);
      })
      .Case<TmaStoreOp>([&](auto store) { addAsyncRead(op, store.getSource()); })
      .Case<CopyOp, CopyRowsOp, CopyPagedOp>(
          [&](auto copy) { copied.insert(getSharedRoot(copy.getTarget())); })
      .Case<TmaLoadOp, BulkLoadOp>(
          [&](auto load) { bulkWritten.insert(getSharedRoot(load.getTarget())); })
      .Case<CopyPublishOp>([&](auto publish) { copyPublished.insert(publish.getRing()); });
}

void SharedTileUses::addAsyncRead(Operation *op, Value tile) {
  SharedRoot root = getSharedRoot(tile);
  asyncRead.insert(root);
  asyncReadRings.insert({getScope(op), root.first});
}

bool SharedTileUses::isReadByAsyncProxy(Operation *ring, Operation *op) const {
  Operation *scope = getScope(op);
  return asyncReadRings.contains({scope, ring}) || asyncReadRings.contains({scope, nullptr});
}

bool SharedTileUses::isBulkFilled(Value ring) const {
  return llvm::any_of(bulkWritten, [&](SharedRoot root) {
    return !root.first || root.first == ring.getDefiningOp();
  });
}

/// Without roles an unknown tile belongs to the only scope there is.
bool SharedTileUses::isPrivate(Value tile, Operation *op) const {
  Operation *root = getSharedRoot(tile).first;
  if (!root)
    return !roles;
  bool isShared = roles && !isa<RoleOp>(getScope(root));
  return isa<AllocOp>(root) && !isShared && getScope(root) == getScope(op) && !isBulkTarget(tile);
}

//===----------------------------------------------------------------------===//
// The walk
//===----------------------------------------------------------------------===//

void SharedMemoryState::join(const SharedMemoryState &other) {
  copiesInFlight |= other.copiesInFlight;
  unfenced |= other.unfenced;
  unfencedRings.insert(other.unfencedRings.begin(), other.unfencedRings.end());
  landed |= other.landed;
  unfencedReads |= other.unfencedReads;
  ownCopies |= other.ownCopies;
  ownUnfenced |= other.ownUnfenced;
  unpublished |= other.unpublished;
  reading |= other.reading;
  asyncReads |= other.asyncReads;
}

namespace {
/// Carries the state through blocks. While a loop's state is sought, `report`
/// is off and only the state changes.
class Walker {
public:
  Walker(KernelOp kernel, const SharedMemoryOrderCallbacks &callbacks)
      : uses(kernel), callbacks(callbacks) {}

  void walkKernel(KernelOp kernel);

private:
  void walkBlock(Block &block, SharedMemoryState &state, bool report) {
    for (Operation &op : block.without_terminator())
      walkOp(&op, state, report);
  }
  void walkOp(Operation *op, SharedMemoryState &state, bool report);
  void walkElected(ElectOp op, SharedMemoryState &state, bool report);
  void walkRegions(Operation *op, SharedMemoryState &state, bool report);
  bool showsUnfencedStages(Operation *op, const SharedMemoryState &state) const;
  void copy(Operation *op, Value tile, SharedMemoryState &state, bool report);
  void write(Operation *op, Value tile, SharedMemoryState &state, bool report);
  void checkWrite(Operation *op, SharedMemoryState &state, bool report);
  void read(Operation *op, Value tile, SharedMemoryState &state, bool report);
  void readGenerically(Operation *op, Value tile, SharedMemoryState &state, bool report) {
    state.unfencedReads |= uses.isBulkTarget(tile);
    read(op, tile, state, report);
  }
  void readByAsyncProxy(Operation *op, Value tile, SharedMemoryState &state, bool report);
  void waitForCopies(CopyWaitOp op, SharedMemoryState &state);
  void meet(SharedMemoryState &state);
  void fence(Operation *op, SharedMemoryState &state, bool report);
  void hazard(Operation *op, bool report, StringRef what) {
    if (report)
      callbacks.hazard(op, what);
  }

  SharedTileUses uses;
  const SharedMemoryOrderCallbacks &callbacks;
};
} // namespace

static void clearUnfenced(SharedMemoryState &state) {
  state.unfenced = state.ownUnfenced = state.landed = state.unfencedReads = false;
  state.unfencedRings.clear();
}

/// Asks for a fence of every executing thread's writes before `op`.
void Walker::fence(Operation *op, SharedMemoryState &state, bool report) {
  if (callbacks.fenceBefore && (!report || callbacks.fenceBefore(op)))
    clearUnfenced(state);
}

void Walker::checkWrite(Operation *op, SharedMemoryState &state, bool report) {
  if (state.reading)
    hazard(op, report,
           "writes shared memory that other warps may still read: no barrier after the last read");
  state.unpublished = true;
}

void Walker::write(Operation *op, Value tile, SharedMemoryState &state, bool report) {
  bool isAsync = uses.isReadByAsyncProxy(tile);
  Operation *root = getSharedRoot(tile).first;
  if (isAsync && isa_and_present<RingOp>(root))
    state.unfencedRings.insert(root);
  else
    state.unfenced |= isAsync;
  if (!uses.isPrivate(tile, op))
    return;
  checkWrite(op, state, report);
  state.ownUnfenced |= isAsync;
}

void Walker::copy(Operation *op, Value tile, SharedMemoryState &state, bool report) {
  state.copiesInFlight |= uses.isReadByAsyncProxy(tile);
  if (!uses.isPrivate(tile, op))
    return;
  checkWrite(op, state, report);
  state.ownCopies = true;
}

/// What has landed is a write like any other now.
void Walker::waitForCopies(CopyWaitOp op, SharedMemoryState &state) {
  state.unfenced |= state.copiesInFlight;
  state.ownUnfenced |= state.ownCopies && state.copiesInFlight;
  if (op.getPending() == 0)
    state.copiesInFlight = state.ownCopies = false;
}

void Walker::read(Operation *op, Value tile, SharedMemoryState &state, bool report) {
  if (!uses.isPrivate(tile, op))
    return;
  if (state.ownCopies)
    hazard(op, report, "reads shared memory before a wait for the copies into it");
  else if (state.unpublished)
    hazard(op, report, "reads shared memory without a barrier after the last write");
  state.reading = true;
}

void Walker::readByAsyncProxy(Operation *op, Value tile, SharedMemoryState &state, bool report) {
  if (!isa<SmemType>(tile.getType()))
    return;
  if (state.landed && uses.isCopyTarget(tile))
    fence(op, state, report);
  read(op, tile, state, report);
  if (!uses.isPrivate(tile, op))
    return;
  if (!state.ownCopies && !state.unpublished && state.ownUnfenced)
    hazard(op, report, "reads shared memory without a proxy fence after the last write");
  state.asyncReads = true;
}

/// All threads of the scope meet: what is complete is published.
void Walker::meet(SharedMemoryState &state) {
  state.unpublished = state.ownCopies;
  state.reading = state.asyncReads;
}

void Walker::walkOp(Operation *op, SharedMemoryState &state, bool report) {
  llvm::TypeSwitch<Operation *>(op)
      .Case<CopyOp, CopyRowsOp, CopyPagedOp>(
          [&](auto copyOp) { copy(op, copyOp.getTarget(), state, report); })
      .Case<StoreSharedOp, ZeroRowsOp, ParkOp>(
          [&](auto writer) { write(op, writer.getTarget(), state, report); })
      .Case<TransformCodesOp>([&](TransformCodesOp transform) {
        readGenerically(op, transform.getCodes(), state, report);
        write(op, transform.getTarget(), state, report);
      })
      .Case<OrderRunsOp>([&](OrderRunsOp order) {
        readGenerically(op, order.getSource(), state, report);
        write(op, order.getSource(), state, report);
      })
      // Its reads are ordered with its writes, warp by warp.
      .Case<StoreStagedOp>([&](auto store) { write(op, store.getScratch(), state, report); })
      .Case<ReduceOp>([&](ReduceOp reduce) {
        if (!reduce.getScratch())
          return;
        write(op, reduce.getScratch(), state, report);
        state.reading |= uses.isPrivate(reduce.getScratch(), op);
      })
      .Case<WgmmaOp>([&](WgmmaOp wgmma) {
        readByAsyncProxy(op, wgmma.getLhs(), state, report);
        if (wgmma.getRhs() != wgmma.getLhs())
          readByAsyncProxy(op, wgmma.getRhs(), state, report);
      })
      .Case<TmaStoreOp>(
          [&](TmaStoreOp store) { readByAsyncProxy(op, store.getSource(), state, report); })
      .Case<LoadSharedOp, UnparkOp>(
          [&](auto load) { readGenerically(op, load.getSource(), state, report); })
      .Case<LoadCodeWordsOp, LoadCodeColumnsOp>(
          [&](auto load) { readGenerically(op, load.getCodes(), state, report); })
      .Case<CopyWaitOp>([&](CopyWaitOp wait) { waitForCopies(wait, state); })
      .Case<WgmmaWaitOp, StoreWaitOp>([&](auto wait) {
        if (wait.getPending() == 0)
          state.asyncReads = false;
      })
      .Case<ProxyFenceOp>([&](auto) { clearUnfenced(state); })
      .Case<BarrierOp, RoleAnyOp, ClusterBarrierOp, NamedBarrierOp, PublishOp, ReleaseOp>(
          [&](auto) {
            // An mbarrier alone lets TMA overwrite what is still being read.
            auto release = dyn_cast<ReleaseOp>(op);
            bool isRefilled =
                release && state.unfencedReads && uses.isBulkFilled(release.getRing());
            bool isUnfenced = state.unfenced || isRefilled || showsUnfencedStages(op, state);
            // One thread cannot fence the accesses of others: they met before.
            if (isUnfenced && !op->getParentOfType<ElectOp>())
              fence(op, state, report);
            auto named = dyn_cast<NamedBarrierOp>(op);
            if (isa<BarrierOp, RoleAnyOp, ClusterBarrierOp>(op) || (named && !named.getArrive()))
              meet(state);
          })
      .Case<AwaitOp>([&](AwaitOp await) { state.landed |= uses.isCopyPublished(await.getRing()); })
      .Case<ElectOp>([&](ElectOp elect) { walkElected(elect, state, report); })
      .Default([&](Operation *) { walkRegions(op, state, report); });
}

/// Whether others may read, behind `op`, what was written into stages of rings. Readers of other
/// roles wait for a ring that has tiles, so neither what frees another ring's stage nor a ring
/// without tiles, which orders roles, shows it to them. At a barrier a role shows it to itself.
bool Walker::showsUnfencedStages(Operation *op, const SharedMemoryState &state) const {
  if (auto release = dyn_cast<ReleaseOp>(op))
    return state.unfencedRings.count(release.getRing().getDefiningOp()) != 0;
  if (isa<BarrierOp, RoleAnyOp>(op))
    return llvm::any_of(state.unfencedRings,
                        [&](Operation *ring) { return uses.isReadByAsyncProxy(ring, op); });
  auto publish = dyn_cast<PublishOp>(op);
  bool isSignal = publish && cast<RingType>(publish.getRing().getType()).getTiles().empty();
  return !state.unfencedRings.empty() && !isSignal;
}

/// What one thread fences of its own leaves the other threads' writes as they were.
void Walker::walkElected(ElectOp op, SharedMemoryState &state, bool report) {
  SharedMemoryState before = state;
  walkBlock(op.getBody().front(), state, report);
  state.unfenced |= before.unfenced;
  state.unfencedRings.insert(before.unfencedRings.begin(), before.unfencedRings.end());
  state.ownUnfenced |= before.ownUnfenced;
  state.landed |= before.landed;
  state.unfencedReads |= before.unfencedReads;
}

/// Regions of `scf.if` are alternatives, those of a loop are repeated until
/// its state no longer changes (a few bits that only rise).
void Walker::walkRegions(Operation *op, SharedMemoryState &state, bool report) {
  if (op->getNumRegions() == 0)
    return;
  if (isa<scf::IfOp>(op)) {
    SharedMemoryState out;
    for (Region &region : op->getRegions()) {
      SharedMemoryState branch = state;
      for (Block &block : region)
        walkBlock(block, branch, report);
      out.join(branch);
    }
    state = out;
    return;
  }
  SharedMemoryState entry = state;
  while (true) {
    SharedMemoryState around = entry;
    for (Region &region : op->getRegions())
      for (Block &block : region)
        walkBlock(block, around, /*report=*/false);
    around.join(entry);
    if (around == entry)
      break;
    entry = around;
  }
  SharedMemoryState exit = entry;
  for (Region &region : op->getRegions())
    for (Block &block : region)
      walkBlock(block, exit, report);
  state = entry;
  state.join(exit);
}

/// Roles run side by side, so each starts with what stood before the first of
/// them; what comes behind them sees what any left.
void Walker::walkKernel(KernelOp kernel) {
  SharedMemoryState state, left;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    if (auto role = dyn_cast<RoleOp>(op)) {
      SharedMemoryState inside = state;
      walkBlock(role.getBody().front(), inside, /*report=*/true);
      left.join(inside);
      continue;
    }
    if (!isMemoryEffectFree(&op)) {
      state.join(left);
      left = SharedMemoryState();
    }
    walkOp(&op, state, /*report=*/true);
  }
}

void mlir::sm90::walkSharedMemoryOrder(KernelOp kernel,
                                       const SharedMemoryOrderCallbacks &callbacks) {
  Walker(kernel, callbacks).walkKernel(kernel);
}

llvm::SmallPtrSet<Operation *, 4> mlir::sm90::findUnorderedScopes(KernelOp kernel) {
  llvm::SmallPtrSet<Operation *, 4> unordered;
  SharedMemoryOrderCallbacks callbacks;
  // A read that comes too early is another matter: InsertProxyFences reports it.
  auto onHazard = [&](Operation *op, StringRef) {
    if (!isa<WgmmaOp, LoadSharedOp, TmaStoreOp>(op))
      unordered.insert(getScope(op));
  };
  callbacks.hazard = onHazard;
  walkSharedMemoryOrder(kernel, callbacks);
  return unordered;
}
