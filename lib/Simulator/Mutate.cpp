//===- Mutate.cpp - plants bugs for the simulator to find ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each kind is one edit of a right kernel, of the sort that a wrong schedule pass
// would make. A kind may be harmless in some places (a wait that another one
// implies); the tests say where which one must be found.
//
//===----------------------------------------------------------------------===//

#include "mla/Simulator/Mutations.h"
#include "mla/Simulator/Passes.h"

#include "mla/Dialect/Sm90/IR/Sm90CodeOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

namespace mlac::simulator {
#define GEN_PASS_DEF_TESTSM90MUTATE
#include "mla/Simulator/Passes.h.inc"
} // namespace mlac::simulator

using namespace mlac::simulator;
using namespace mlir;
using namespace mlir::sm90;

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

/// The `index`-th op of the types for which `accept` holds, in program order.
template <typename... OpTypes>
static Operation *find(KernelOp kernel, unsigned index,
                       function_ref<bool(Operation *)> accept = nullptr) {
  Operation *found = nullptr;
  kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (!isa<OpTypes...>(op) || (accept && !accept(op)) || index-- > 0)
      return WalkResult::advance();
    found = op;
    return WalkResult::interrupt();
  });
  return found;
}

/// The nearest op of the types before (after) `op` in its block.
template <typename... OpTypes> static Operation *findBefore(Operation *op) {
  for (op = op->getPrevNode(); op && !isa<OpTypes...>(op);)
    op = op->getPrevNode();
  return op;
}
template <typename... OpTypes> static Operation *findAfter(Operation *op) {
  for (op = op->getNextNode(); op && !isa<OpTypes...>(op);)
    op = op->getNextNode();
  return op;
}

//===----------------------------------------------------------------------===//
// Edits
//===----------------------------------------------------------------------===//

namespace {
using Edit = bool (*)(KernelOp kernel, unsigned index);
} // namespace

/// Erases an op without results.
template <typename OpType> static bool drop(KernelOp kernel, unsigned index) {
  Operation *op = find<OpType>(kernel, index);
  if (op)
    op->erase();
  return op;
}

template <typename OpType> static bool repeat(KernelOp kernel, unsigned index) {
  Operation *op = find<OpType>(kernel, index);
  if (op)
    OpBuilder(op).clone(*op);
  return op;
}

/// Moves an op before the nearest of `Others` above it, or behind the next below.
template <typename OpType, typename... Others> static bool moveUp(KernelOp kernel, unsigned index) {
  Operation *op =
      find<OpType>(kernel, index, [](Operation *op) { return findBefore<Others...>(op); });
  if (op)
    op->moveBefore(findBefore<Others...>(op));
  return op;
}
template <typename OpType, typename... Others>
static bool moveDown(KernelOp kernel, unsigned index) {
  Operation *op =
      find<OpType>(kernel, index, [](Operation *op) { return findAfter<Others...>(op); });
  if (op)
    op->moveAfter(findAfter<Others...>(op));
  return op;
}

/// Only this CTA's barrier is reached, or what others wrote is not asked for.
template <typename OpType> static bool stayLocal(KernelOp kernel, unsigned index) {
  auto isRemote = [](Operation *op) { return cast<OpType>(op).getRemote(); };
  Operation *op = find<OpType>(kernel, index, isRemote);
  if (op)
    cast<OpType>(op).setRemote(false);
  return op;
}

static bool parkElsewhere(KernelOp kernel, unsigned index) {
  auto isRemote = [](Operation *op) { return cast<ParkOp>(op).getRank().has_value(); };
  auto park = cast_or_null<ParkOp>(find<ParkOp>(kernel, index, isRemote));
  if (!park)
    return false;
  park.setRank((*park.getRank() + 1) % static_cast<int64_t>(kernel.getClusterSize()));
  return true;
}

static bool dropWgmmaWait(KernelOp kernel, unsigned index) {
  Operation *op = find<WgmmaWaitOp>(kernel, index);
  if (!op)
    return false;
  op->replaceAllUsesWith(op->getOperands());
  op->erase();
  return true;
}

/// The wait stays, but what it waits for is used directly.
static bool bypassWgmmaWait(KernelOp kernel, unsigned index) {
  Operation *op = find<WgmmaWaitOp>(kernel, index);
  if (op)
    op->replaceAllUsesWith(op->getOperands());
  return op;
}

template <typename OpType> static bool weakenWait(KernelOp kernel, unsigned index) {
  auto op = cast_or_null<OpType>(find<OpType>(kernel, index));
  if (op)
    op.setPending(op.getPending() + 1);
  return op;
}

/// Uses the stage after the right one.
template <typename OpType> static bool shiftStage(KernelOp kernel, unsigned index) {
  auto op = cast_or_null<OpType>(find<OpType>(kernel, index));
  if (!op)
    return false;
  OpBuilder builder(op);
  Value next = StageNextOp::create(builder, op.getLoc(), op.getStage().getType(), op.getStage(),
                                   op.getRing());
  op.getStageMutable().assign(next);
  return true;
}

static bool skipStageNext(KernelOp kernel, unsigned index) {
  auto op = cast_or_null<StageNextOp>(find<StageNextOp>(kernel, index));
  if (!op)
    return false;
  op.getResult().replaceAllUsesWith(op.getStage());
  op.erase();
  return true;
}

template <int change> static bool changeFullCount(KernelOp kernel, unsigned index) {
  Operation *op = find<RingOp>(
      kernel, index, [](Operation *op) { return cast<RingOp>(op).getFullCount() + change >= 1; });
  if (op)
    cast<RingOp>(op).setFullCount(cast<RingOp>(op).getFullCount() + change);
  return op;
}

template <int change> static bool changeEmptyCount(KernelOp kernel, unsigned index) {
  Operation *op = find<RingOp>(kernel, index,
                               [](Operation *op) { return cast<RingOp>(op).getEmptyCount() > 1; });
  if (op)
    cast<RingOp>(op).setEmptyCount(cast<RingOp>(op).getEmptyCount() + change);
  return op;
}

template <int change> static bool changeBytes(KernelOp kernel, unsigned index) {
  auto op = cast_or_null<ExpectOp>(find<ExpectOp>(kernel, index));
  if (op)
    op.setBytes(op.getBytes() + change);
  return op;
}

template <typename OpType> static bool changePart(KernelOp kernel, unsigned index) {
  Operation *op = find<OpType>(kernel, index, [](Operation *op) {
    return cast<OpType>(op).getRing().getType().getParts() > 1;
  });
  if (!op)
    return false;
  auto access = cast<OpType>(op);
  access.setPart((access.getPart() + 1) % access.getRing().getType().getParts());
  return true;
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

static bool hasTiles(Operation *op) {
  return !cast<RingOp>(op).getResult().getType().getTiles().empty();
}

/// Puts a ring where the ring before it lies.
static bool aliasRing(KernelOp kernel, unsigned index) {
  auto op = cast_or_null<RingOp>(find<RingOp>(kernel, index + 1, hasTiles));
  if (!op)
    return false;
  op.setOffset(cast<RingOp>(find<RingOp>(kernel, index, hasTiles)).getOffset());
  return true;
}

/// Puts a tile where the first ring lies.
static bool aliasAlloc(KernelOp kernel, unsigned index) {
  auto op = cast_or_null<AllocOp>(find<AllocOp>(kernel, index));
  Operation *ring = find<RingOp>(kernel, 0, hasTiles);
  if (!op || !ring)
    return false;
  op.setOffset(cast<RingOp>(ring).getOffset());
  return true;
}

/// Puts barriers on the last bytes of a tile.
static bool barriersOnTile(KernelOp kernel, unsigned index) {
  auto op = cast_or_null<RingOp>(find<RingOp>(kernel, index, hasTiles));
  if (!op)
    return false;
  op.setBarrierOffset(*op.getOffset() + op.getResult().getType().getByteSize() - kBarrierBytes);
  return true;
}

/// Forgets the barriers at the end.
static bool shrinkShared(KernelOp kernel, unsigned index) {
  if (index > 0 || !kernel.getSharedBytes())
    return false;
  kernel.setSharedBytes(*kernel.getSharedBytes() - kBarrierBytes);
  return true;
}

/// One stage more than there is memory for.
static bool addStage(KernelOp kernel, unsigned index) {
  auto op = cast_or_null<RingOp>(find<RingOp>(kernel, index, hasTiles));
  if (!op)
    return false;
  RingType type = op.getResult().getType();
  op.getResult().setType(
      RingType::get(kernel.getContext(), type.getStages() + 1, type.getParts(), type.getTiles()));
  return true;
}

static bool shiftSlice(KernelOp kernel, unsigned index) {
  Operation *op = find<SliceOp>(kernel, index, [](Operation *op) {
    auto slice = cast<SliceOp>(op);
    return static_cast<int64_t>(slice.getColumn()) + slice.getSource().getType().getPanelColumns() +
               slice.getResult().getType().getColumns() <=
           slice.getSource().getType().getColumns();
  });
  if (op)
    cast<SliceOp>(op).setColumn(cast<SliceOp>(op).getColumn() +
                                cast<SliceOp>(op).getSource().getType().getPanelColumns());
  return op;
}

//===----------------------------------------------------------------------===//
// Registers, control flow, coordinates
//===----------------------------------------------------------------------===//

/// An ordinary op that reads `value` right behind `op`.
static void touch(Operation *op, Value value) {
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  arith::NegFOp::create(builder, op->getLoc(), value);
}

static bool touchAccumulator(KernelOp kernel, unsigned index) {
  Operation *op = find<WgmmaOp>(kernel, index);
  if (op)
    touch(op, op->getResult(0));
  return op;
}

static bool touchOperand(KernelOp kernel, unsigned index) {
  Operation *op = find<WgmmaOp>(kernel, index, [](Operation *op) {
    return isa<RankedTensorType>(op->getOperand(0).getType());
  });
  if (op)
    touch(op, op->getOperand(0));
  return op;
}

static bool shrinkBudget(KernelOp kernel, unsigned index) {
  Operation *op = find<RoleOp>(kernel, index, [](Operation *op) {
    return op->walk([](WgmmaOp) { return WalkResult::interrupt(); }).wasInterrupted();
  });
  if (op)
    cast<RoleOp>(op).setRegisters(kMinRoleRegisters);
  return op;
}

/// Only one thread of the warpgroup does it.
template <typename OpType> static bool elect(KernelOp kernel, unsigned index) {
  Operation *op =
      find<OpType>(kernel, index, [](Operation *op) { return !op->getParentOfType<ElectOp>(); });
  if (!op)
    return false;
  OpBuilder builder(op);
  auto elected = ElectOp::create(builder, op->getLoc());
  ElectOp::ensureTerminator(elected.getBody(), builder, op->getLoc());
  op->moveBefore(elected.getBody().front().getTerminator());
  return true;
}

/// A role runs one iteration more (less) than the others.
template <bool isMore> static bool changeIterations(KernelOp kernel, unsigned index) {
  auto loop = cast_or_null<scf::ForOp>(find<scf::ForOp>(
      kernel, index, [](Operation *op) { return op->getParentOfType<RoleOp>() != nullptr; }));
  if (!loop)
    return false;
  OpBuilder builder(loop);
  Value upper = loop.getUpperBound(), step = loop.getStep();
  Value changed = isMore ? arith::AddIOp::create(builder, loop.getLoc(), upper, step).getResult()
                         : arith::SubIOp::create(builder, loop.getLoc(), upper, step).getResult();
  loop.getUpperBoundMutable().assign(changed);
  return true;
}

/// Shifts a coordinate of a box, the one before last being its row (the column of a
/// box of several panels stays a constant multiple of 64).
template <int fromEnd, int change> static bool shiftBox(KernelOp kernel, unsigned index) {
  auto op = cast_or_null<TmaLoadOp>(find<TmaLoadOp>(kernel, index));
  if (!op)
    return false;
  OpBuilder builder(op);
  MutableOperandRange coordinates = op.getCoordinatesMutable();
  unsigned at = coordinates.size() - fromEnd;
  Value offset = arith::ConstantIndexOp::create(builder, op.getLoc(), change);
  Value old = op.getCoordinates()[at];
  coordinates.slice(at, 1).assign(builder.createOrFold<arith::AddIOp>(op.getLoc(), old, offset));
  return true;
}

template <int change> static bool changeWarps(KernelOp kernel, unsigned index) {
  auto op = cast_or_null<NamedBarrierOp>(find<NamedBarrierOp>(kernel, index));
  if (op)
    op.setWarps(op.getWarps() + change);
  return op;
}

/// Clears rows (with the branch around it) before the wait above it.
static bool zeroRowsEarly(KernelOp kernel, unsigned index) {
  Operation *op = find<ZeroRowsOp>(kernel, index);
  if (!op)
    return false;
  if (isa<scf::IfOp>(op->getParentOp()))
    op = op->getParentOp();
  Operation *wait = findBefore<AwaitOp>(op);
  if (!wait)
    return false;
  // Operands in between were computed from scalars; the wait goes down instead.
  wait->moveAfter(op);
  return true;
}

/// Takes a list's blocks for ones without gaps.
static bool ignoreGap(KernelOp kernel, unsigned index) {
  auto op = cast_or_null<HasGapOp>(find<HasGapOp>(kernel, index));
  if (!op)
    return false;
  OpBuilder builder(op);
  op.replaceAllUsesWith(
      arith::ConstantOp::create(builder, op.getLoc(), builder.getBoolAttr(false)).getResult());
  return true;
}

//===----------------------------------------------------------------------===//
// Table
//===----------------------------------------------------------------------===//

static const std::pair<StringLiteral, Edit> kEdits[] = {
    {"drop-await", drop<AwaitOp>},
    {"drop-acquire", drop<AcquireOp>},
    {"drop-expect", drop<ExpectOp>},
    {"drop-publish", drop<PublishOp>},
    {"drop-release", drop<ReleaseOp>},
    {"drop-tma-load", drop<TmaLoadOp>},
    {"drop-copy-publish", drop<CopyPublishOp>},
    {"drop-copy-commit", drop<CopyCommitOp>},
    {"drop-copy-wait", drop<CopyWaitOp>},
    {"drop-store-commit", drop<StoreCommitOp>},
    {"drop-store-wait", drop<StoreWaitOp>},
    {"drop-proxy-fence", drop<ProxyFenceOp>},
    {"drop-wgmma-fence", drop<WgmmaFenceOp>},
    {"drop-wgmma-commit", drop<WgmmaCommitOp>},
    {"drop-wgmma-wait", dropWgmmaWait},
    {"drop-barrier", drop<BarrierOp>},
    {"drop-named-barrier", drop<NamedBarrierOp>},
    {"drop-zero-rows", drop<ZeroRowsOp>},
    {"drop-store-shared", drop<StoreSharedOp>},
    {"drop-select-begin", drop<SelectBeginOp>},
    {"drop-transform-codes", drop<TransformCodesOp>},
    {"drop-park", drop<ParkOp>},
    {"park-elsewhere", parkElsewhere},
    {"publish-locally", stayLocal<PublishOp>},
    {"await-locally", stayLocal<AwaitOp>},
    {"release-locally", stayLocal<ReleaseOp>},
    {"bypass-wgmma-wait", bypassWgmmaWait},
    {"weaken-wgmma-wait", weakenWait<WgmmaWaitOp>},
    {"weaken-copy-wait", weakenWait<CopyWaitOp>},
    {"weaken-store-wait", weakenWait<StoreWaitOp>},
    {"double-expect", repeat<ExpectOp>},
    {"double-publish", repeat<PublishOp>},
    {"double-release", repeat<ReleaseOp>},
    {"double-tma-load", repeat<TmaLoadOp>},
    {"double-barrier-arrival", repeat<NamedBarrierOp>},
    {"release-early", moveUp<ReleaseOp, WgmmaWaitOp, TransformCodesOp, UnparkOp, LoadCodeWordsOp,
                             LoadCodeColumnsOp>},
    {"publish-early", moveUp<PublishOp, StoreSharedOp, TransformCodesOp, ParkOp>},
    {"copy-publish-early", moveUp<CopyPublishOp, CopyOp, CopyRowsOp, CopyPagedOp>},
    {"proxy-fence-early", moveUp<ProxyFenceOp, StoreSharedOp, TransformCodesOp, OrderRunsOp,
                                 ZeroRowsOp, CopyWaitOp, AwaitOp>},
    {"wgmma-fence-early", moveUp<WgmmaFenceOp, arith::MulFOp, ScaleCodesOp>},
    {"acquire-late", moveDown<AcquireOp, TmaLoadOp, StoreSharedOp, TransformCodesOp, ParkOp,
                              CopyRowsOp, CopyPagedOp>},
    {"await-late", moveDown<AwaitOp, WgmmaOp, LoadSharedOp, TransformCodesOp, UnparkOp,
                            LoadCodeWordsOp, LoadCodeColumnsOp, OrderRunsOp>},
    {"zero-rows-early", zeroRowsEarly},
    {"ignore-gap", ignoreGap},
    {"tile-of-next-stage", shiftStage<StageTileOp>},
    {"await-next-stage", shiftStage<AwaitOp>},
    {"release-next-stage", shiftStage<ReleaseOp>},
    {"publish-next-stage", shiftStage<PublishOp>},
    {"signal-next-stage", shiftStage<TmaLoadOp>},
    {"skip-stage-next", skipStageNext},
    {"double-stage-next", shiftStage<StageNextOp>},
    {"full-count-plus", changeFullCount<1>},
    {"full-count-minus", changeFullCount<-1>},
    {"empty-count-plus", changeEmptyCount<1>},
    {"empty-count-minus", changeEmptyCount<-1>},
    {"bytes-plus", changeBytes<128>},
    {"bytes-minus", changeBytes<-128>},
    {"await-wrong-part", changePart<AwaitOp>},
    {"signal-wrong-part", changePart<TmaLoadOp>},
    {"alias-ring", aliasRing},
    {"alias-alloc", aliasAlloc},
    {"barriers-on-tile", barriersOnTile},
    {"shrink-shared", shrinkShared},
    {"add-stage", addStage},
    {"shift-slice", shiftSlice},
    {"touch-accumulator", touchAccumulator},
    {"touch-operand", touchOperand},
    {"shrink-budget", shrinkBudget},
    {"elect-publish", elect<PublishOp>},
    {"elect-release", elect<ReleaseOp>},
    {"elect-await", elect<AwaitOp>},
    {"extra-iteration", changeIterations<true>},
    {"missing-iteration", changeIterations<false>},
    {"shift-box-row", shiftBox<2, 8>},
    {"shift-box-column", shiftBox<1, kPanelColumns>},
    {"named-barrier-count", changeWarps<4>},
};

std::vector<std::string> mlac::simulator::getMutations() {
  std::vector<std::string> names;
  for (const auto &[name, edit] : kEdits)
    names.push_back(name.str());
  return names;
}

bool mlac::simulator::mutate(KernelOp kernel, StringRef kind, unsigned index) {
  for (const auto &[name, edit] : kEdits)
    if (name == kind)
      return edit(kernel, index);
  return false;
}

namespace {
struct Mutate : mlac::simulator::impl::TestSm90MutateBase<Mutate> {
  using Base::Base;
  void runOnOperation() override {
    if (mutate(getOperation(), kind, index))
      return;
    emitError(getOperation().getLoc())
        << "has no place " << index.getValue() << " for a bug of kind '" << kind.getValue() << "'";
    signalPassFailure();
  }
};
} // namespace
