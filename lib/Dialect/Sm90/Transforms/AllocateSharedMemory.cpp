//===- AllocateSharedMemory.cpp - places of shared tiles ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// First fit over intervals of program order. Positions are pre-order numbers of
// the kernel's ops, so an interval that ends at an op with regions covers them.
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/KernelAttrs.h"
#include "mla/Dialect/Sm90/Transforms/Passes.h"
#include "mla/Dialect/Sm90/Transforms/SharedMemoryOrder.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::sm90 {
#define GEN_PASS_DEF_SM90ALLOCATESHAREDMEMORY
#include "mla/Dialect/Sm90/Transforms/Passes.h.inc"
} // namespace mlir::sm90

using namespace mlir;
using namespace mlir::sm90;

namespace {
/// A tile or the tiles of a ring: bytes that need a place.
struct Piece {
  Operation *op; ///< AllocOp or RingOp
  int64_t bytes;
  int64_t alignment;
  int64_t firstPosition; ///< in the text, and of its life
  /// The threads whose program orders its accesses; null: it lives for the whole kernel.
  Operation *scope = nullptr;
  int64_t lastPosition = 0; ///< of its life within the scope
  int64_t begin = 0;

  int64_t getEnd() const { return begin + bytes; }
  /// Different roles run at the same time, whatever the order of their text.
  bool livesWith(const Piece &other) const {
    return !scope || scope != other.scope ||
           (firstPosition <= other.lastPosition && other.firstPosition <= lastPosition);
  }
};

/// Numbers ops in program order; an op's last position is that of its last
/// nested op.
class Positions {
public:
  explicit Positions(KernelOp kernel) { number(kernel); }
  int64_t getFirst(Operation *op) const { return range.lookup(op).first; }
  int64_t getLast(Operation *op) const { return range.lookup(op).second; }

private:
  void number(Operation *op) {
    int64_t first = next++;
    for (Region &region : op->getRegions())
      for (Operation &nested : region.getOps())
        number(&nested);
    range[op] = {first, next - 1};
  }
  int64_t next = 0;
  DenseMap<Operation *, std::pair<int64_t, int64_t>> range;
};

struct AllocateSharedMemory : sm90::impl::Sm90AllocateSharedMemoryBase<AllocateSharedMemory> {
  void runOnOperation() override;

private:
  SmallVector<Piece> findPieces();
  Piece describe(AllocOp alloc, const SharedTileUses &uses, const Positions &positions);
  void setPlaces(ArrayRef<Piece> pieces, int64_t barriers);
  void reportOverflow(ArrayRef<Piece> pieces, int64_t total);
};
} // namespace

/// The last position at which `value` or a slice of it is used, seen from `block`.
/// A tile that is written but never read has no read for a later write to wait
/// for, so it keeps its bytes to the end of the block.
static int64_t findLastUse(Value value, Block *block, const Positions &positions) {
  int64_t last = 0;
  bool isRead = llvm::any_of(value.getUsers(),
                             llvm::IsaPred<SliceOp, WgmmaOp, ReduceOp, LoadSharedOp, TmaStoreOp>);
  if (!isRead)
    return positions.getLast(block->getTerminator());
  for (Operation *user : value.getUsers()) {
    last = std::max(last, positions.getLast(block->findAncestorOpInBlock(*user)));
    if (auto slice = dyn_cast<SliceOp>(user))
      last = std::max(last, findLastUse(slice.getResult(), block, positions));
  }
  return last;
}

/// Tiles that several roles or TMA touch are ordered by barriers that this pass
/// does not follow: they live for the whole kernel.
Piece AllocateSharedMemory::describe(AllocOp alloc, const SharedTileUses &uses,
                                     const Positions &positions) {
  Value tile = alloc.getResult();
  SmemType type = alloc.getResult().getType();
  Piece piece{alloc, type.getByteSize(), type.getAlignment(), positions.getFirst(alloc)};
  if (!uses.isPrivate(tile, alloc))
    return piece;
  piece.scope = getScope(alloc);
  piece.lastPosition = findLastUse(tile, alloc->getBlock(), positions);
  return piece;
}

/// All pieces, the most aligned first (no gaps between them), else in program order.
SmallVector<Piece> AllocateSharedMemory::findPieces() {
  KernelOp kernel = getOperation();
  Positions positions(kernel);
  SharedTileUses uses(kernel);
  llvm::SmallPtrSet<Operation *, 4> unordered = findUnorderedScopes(kernel);
  SmallVector<Piece> pieces;
  bool isPlaced = false;
  for (RingOp ring : kernel.getOps<RingOp>())
    if (RingType type = ring.getResult().getType(); type.getByteSize() > 0)
      pieces.push_back({ring, type.getByteSize(), type.getAlignment(), positions.getFirst(ring)});
  kernel.walk<WalkOrder::PreOrder>([&](AllocOp alloc) {
    isPlaced |= alloc.getOffset().has_value();
    pieces.push_back(describe(alloc, uses, positions));
  });
  for (Piece &piece : pieces)
    if (isPlaced || unordered.contains(piece.scope))
      piece.scope = nullptr;
  llvm::sort(pieces, [](const Piece &a, const Piece &b) {
    return std::pair(b.alignment, a.firstPosition) < std::pair(a.alignment, b.firstPosition);
  });
  return pieces;
}

/// The lowest aligned offset at which no piece alive at the same time lies.
static int64_t findPlace(ArrayRef<Piece> placed, const Piece &piece) {
  SmallVector<Piece> others =
      llvm::filter_to_vector(placed, [&](const Piece &other) { return other.livesWith(piece); });
  llvm::sort(others, [](const Piece &a, const Piece &b) { return a.begin < b.begin; });
  int64_t begin = 0;
  for (Piece &other : others) {
    if (begin + piece.bytes <= other.begin)
      break;
    begin = std::max<int64_t>(begin, llvm::alignTo(other.getEnd(), piece.alignment));
  }
  return begin;
}

void AllocateSharedMemory::setPlaces(ArrayRef<Piece> pieces, int64_t barriers) {
  for (const Piece &piece : pieces) {
    if (auto ring = dyn_cast<RingOp>(piece.op))
      ring.setOffset(piece.begin);
    else
      cast<AllocOp>(piece.op).setOffset(piece.begin);
  }
  for (RingOp ring : getOperation().getOps<RingOp>()) {
    ring.setBarrierOffset(barriers);
    barriers += ring.getBarrierCount() * kBarrierBytes;
  }
}

void AllocateSharedMemory::reportOverflow(ArrayRef<Piece> pieces, int64_t total) {
  KernelOp kernel = getOperation();
  InFlightDiagnostic diag = emitError(kernel.getLoc())
                            << "kernel '" << kernel.getSymName() << "': needs " << total
                            << " bytes of shared memory, more than the limit of "
                            << kMaxSharedBytes;
  for (const Piece &piece : pieces)
    diag.attachNote(piece.op->getLoc())
        << piece.op->getResult(0).getType() << " takes " << piece.bytes << " bytes";
  for (RingOp ring : getOperation().getOps<RingOp>())
    diag.attachNote(ring.getLoc()) << ring.getBarrierCount() << " barriers take "
                                   << ring.getBarrierCount() * kBarrierBytes << " bytes";
  signalPassFailure();
}

void AllocateSharedMemory::runOnOperation() {
  SmallVector<Piece> pieces = findPieces();
  int64_t total = 0;
  for (auto [index, piece] : llvm::enumerate(pieces)) {
    piece.begin = findPlace(ArrayRef(pieces).take_front(index), piece);
    total = std::max(total, piece.getEnd());
  }
  int64_t barriers = llvm::alignTo(total, kBarrierBytes);
  int64_t numBarriers = 0;
  for (RingOp ring : getOperation().getOps<RingOp>())
    numBarriers += ring.getBarrierCount();
  if (numBarriers > 0)
    total = barriers + numBarriers * kBarrierBytes;
  if (total > kMaxSharedBytes)
    return reportOverflow(pieces, total);
  setPlaces(pieces, barriers);
  // Where one program is to be alone, a second one does not fit.
  auto resident = getOperation()->getAttrOfType<IntegerAttr>(tile::kResidentProgramsAttr);
  if (resident && resident.getInt() == 1)
    total = std::max(total, kHalfSharedBytes + kBarrierBytes);
  getOperation().setSharedBytes(total);
}
