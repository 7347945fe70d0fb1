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
/// A tile, the positions between which it lives, and its bytes.
struct Tile {
  AllocOp alloc;
  int64_t firstPosition;
  int64_t lastPosition;
  int64_t begin = 0;

  int64_t getBytes() { return alloc.getResult().getType().getByteSize(); }
  int64_t getEnd() { return begin + getBytes(); }
  bool livesWith(const Tile &other) const {
    return firstPosition <= other.lastPosition && other.firstPosition <= lastPosition;
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
  void runOnOperation() override {
    SmallVector<Tile> tiles = findTiles();
    bool mayShare = writesWaitForReads(getOperation()) && llvm::none_of(tiles, [](Tile &tile) {
                      return tile.alloc.getOffset().has_value();
                    });
    int64_t total = 0;
    for (auto [index, tile] : llvm::enumerate(tiles)) {
      tile.begin = findPlace(ArrayRef(tiles).take_front(index), tile, mayShare);
      total = std::max(total, tile.getEnd());
    }
    if (total > kMaxSharedBytes)
      return reportOverflow(tiles, total);
    OpBuilder builder(&getContext());
    for (Tile &tile : tiles)
      tile.alloc.setOffset(tile.begin);
    getOperation().setSharedBytes(total);
  }

private:
  SmallVector<Tile> findTiles();
  int64_t findPlace(ArrayRef<Tile> placed, Tile tile, bool mayShare);
  void reportOverflow(MutableArrayRef<Tile> tiles, int64_t total);
};
} // namespace

/// The last position at which `value` or a slice of it is used, seen from `block`.
/// A tile that is written but never read has no read for a later write to wait
/// for, so it keeps its bytes to the end of the block.
static int64_t findLastUse(Value value, Block *block, const Positions &positions) {
  int64_t last = 0;
  bool isRead = llvm::any_of(value.getUsers(), llvm::IsaPred<SliceOp, WgmmaOp, ReduceOp>);
  if (!isRead)
    return positions.getLast(block->getTerminator());
  for (Operation *user : value.getUsers()) {
    last = std::max(last, positions.getLast(block->findAncestorOpInBlock(*user)));
    if (auto slice = dyn_cast<SliceOp>(user))
      last = std::max(last, findLastUse(slice.getResult(), block, positions));
  }
  return last;
}

SmallVector<Tile> AllocateSharedMemory::findTiles() {
  Positions positions(getOperation());
  SmallVector<Tile> tiles;
  getOperation().walk<WalkOrder::PreOrder>([&](AllocOp alloc) {
    int64_t last = findLastUse(alloc.getResult(), alloc->getBlock(), positions);
    tiles.push_back({alloc, positions.getFirst(alloc), last});
  });
  return tiles;
}

/// The lowest aligned offset at which no tile alive at the same time lies.
int64_t AllocateSharedMemory::findPlace(ArrayRef<Tile> placed, Tile tile, bool mayShare) {
  SmallVector<Tile> others;
  for (const Tile &other : placed)
    if (!mayShare || other.livesWith(tile))
      others.push_back(other);
  llvm::sort(others, [](const Tile &a, const Tile &b) { return a.begin < b.begin; });
  int64_t alignment = tile.alloc.getResult().getType().getAlignment();
  int64_t begin = 0;
  for (Tile &other : others) {
    if (begin + tile.getBytes() <= other.begin)
      break;
    begin = std::max<int64_t>(begin, llvm::alignTo(other.getEnd(), alignment));
  }
  return begin;
}

void AllocateSharedMemory::reportOverflow(MutableArrayRef<Tile> tiles, int64_t total) {
  InFlightDiagnostic diag = getOperation().emitOpError("needs ")
                            << total << " bytes of shared memory, more than the limit of "
                            << kMaxSharedBytes;
  for (Tile &tile : tiles)
    diag.attachNote(tile.alloc.getLoc())
        << tile.alloc.getResult().getType() << " takes " << tile.getBytes() << " bytes";
  signalPassFailure();
}
