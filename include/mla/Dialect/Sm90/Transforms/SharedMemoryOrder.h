//===- SharedMemoryOrder.h - who may touch shared memory when ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A forward walk over a kernel's structured control flow that tracks what the
// next access to shared memory must wait for. A *scope* is a set of threads that
// run one program: a role, or the whole kernel where it has no roles. Tiles are
// told apart in two ways only:
//
//   private   a `sm90.alloc` of the scope that only its own threads touch: all of
//             them count as one buffer, ordered by the scope's barriers
//   the rest  tiles of rings, allocs that roles share, targets of TMA: ordered
//             by mbarriers, which this walk does not follow (the simulator does);
//             it only tracks which generic accesses to them lack a proxy fence
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_SM90_TRANSFORMS_SHAREDMEMORYORDER_H
#define MLA_DIALECT_SM90_TRANSFORMS_SHAREDMEMORYORDER_H

#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <set>

namespace mlir::sm90 {

/// Where the bytes of a shared tile come from: its `sm90.alloc`, or its
/// `sm90.ring` and the index of the tile in a stage; null if not known.
using SharedRoot = std::pair<Operation *, int64_t>;
SharedRoot getSharedRoot(Value tile);

/// The threads that run `op`: its role, else its kernel.
Operation *getScope(Operation *op);

/// How the tiles of a kernel are used, by root.
class SharedTileUses {
public:
  explicit SharedTileUses(KernelOp kernel);

  /// Whether wgmma or TMA stores may read the tile.
  bool isReadByAsyncProxy(Value tile) const { return isIn(asyncRead, tile); }
  /// Whether they may in the scope of `op`, of stages of `ring`.
  bool isReadByAsyncProxy(Operation *ring, Operation *op) const;
  /// Whether `sm90.copy*` may write the tile.
  bool isCopyTarget(Value tile) const { return isIn(copied, tile); }
  /// Whether TMA or bulk copies may write the tile.
  bool isBulkTarget(Value tile) const { return isIn(bulkWritten, tile); }
  /// Whether they fill the ring's stages.
  bool isBulkFilled(Value ring) const;
  /// Whether `op` touches a tile that only threads of its scope touch.
  bool isPrivate(Value tile, Operation *op) const;
  /// Whether arrivals on the ring's barriers are made by `sm90.copy_publish`.
  bool isCopyPublished(Value ring) const { return copyPublished.contains(ring); }
  bool hasRoles() const { return roles; }

private:
  /// An unknown tile may be any.
  static bool isIn(const llvm::DenseSet<SharedRoot> &set, Value tile) {
    SharedRoot root = getSharedRoot(tile);
    return root.first ? set.contains(root) || set.contains(SharedRoot()) : !set.empty();
  }
  void addOp(Operation *op);
  void addAsyncRead(Operation *op, Value tile);

  llvm::DenseSet<SharedRoot> asyncRead, copied, bulkWritten;
  /// Scopes, and the rings (null: any) whose stages the async proxy reads there.
  llvm::DenseSet<std::pair<Operation *, Operation *>> asyncReadRings;
  llvm::DenseSet<Value> copyPublished;
  bool roles = false;
};

/// What is outstanding at a program point. Joins of paths take the union.
struct SharedMemoryState {
  /// Of all tiles, for fences:
  bool copiesInFlight = false; ///< asynchronous copies that were not waited for
  bool unfenced = false;       ///< generic writes, for the async proxy, since the last proxy fence
  std::set<Operation *> unfencedRings; ///< the same, into stages of these rings
  bool landed = false;                 ///< copies of others awaited since the last proxy fence
  bool unfencedReads = false; ///< generic reads of what TMA fills again, since the last proxy fence
  /// Of private tiles, for hazards:
  bool ownCopies = false;   ///< as copiesInFlight
  bool ownUnfenced = false; ///< as unfenced
  bool unpublished = false; ///< writes since the last barrier
  bool reading = false;     ///< reads since the last barrier
  bool asyncReads = false;  ///< reads by wgmma or TMA that were not waited for

  void join(const SharedMemoryState &other);
  bool operator==(const SharedMemoryState &other) const = default;
};

struct SharedMemoryOrderCallbacks {
  /// Called for an op that must not run before a fence; returns true if it put
  /// one there.
  function_ref<bool(Operation *)> fenceBefore;
  /// Called for every access that is not ordered, with what is missing.
  function_ref<void(Operation *, StringRef)> hazard;
};

/// Walks the kernel; callbacks see each op once, with the state of the fixed
/// point. A fence that `fenceBefore` would put is taken into account.
void walkSharedMemoryOrder(KernelOp kernel, const SharedMemoryOrderCallbacks &callbacks);

/// The scopes in which a write to a private tile may overtake a read of one.
llvm::SmallPtrSet<Operation *, 4> findUnorderedScopes(KernelOp kernel);

} // namespace mlir::sm90

#endif // MLA_DIALECT_SM90_TRANSFORMS_SHAREDMEMORYORDER_H
