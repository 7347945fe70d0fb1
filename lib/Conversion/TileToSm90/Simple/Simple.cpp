//===- Simple.cpp - one step after the other ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits the tile program op by op. The state between two ops is what others
// have to be told before the next access to shared memory; every op asks for
// what it needs, and at the borders of regions all of it is settled, so each
// block can be read by itself:
//
//   before a write to shared memory   barrier, if any thread may still read any
//                                     of it                       (beforeWrite)
//   before a wgmma                    wait for copies and barrier, if anything
//                                     was written                     (publish)
//   at the start and end of a region  both                             (settle)
//
// The proxy fence of a publish is inserted by sm90-insert-proxy-fences.
//
//===----------------------------------------------------------------------===//

#include "Simple/Simple.h"
#include "Simple/Bits.h"
#include "Simple/ColumnRun.h"
#include "Simple/KernelMemory.h"
#include "Simple/Selection.h"

#include "Common/ScheduleBuilder.h"

#include "mla/Dialect/KernelAttrs.h"
#include "mla/Dialect/Sm90/Utils/Layout.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlac;

namespace {
class SimpleSchedule {
public:
  explicit SimpleSchedule(tile::KernelOp kernel)
      : kernel(kernel), placement(kernel), pairs(kernel, placement), builder(kernel) {}

  FailureOr<sm90::KernelOp> build();

private:
  LogicalResult emitBlock(Block &block);
  LogicalResult emit(Operation *op);
  LogicalResult emitFor(scf::ForOp loop);
  LogicalResult emitIf(scf::IfOp branch);
  LogicalResult emitRegion(Region &from, Region &to);
  LogicalResult emitDot(tile::DotOp dot);
  LogicalResult emitReduce(tile::ReduceOp reduce);
  LogicalResult emitSumGroups(tile::SumGroupsOp sum);
  LogicalResult emitLoadElements(tile::LoadElementsOp load);
  LogicalResult emitSlice(tensor::ExtractSliceOp slice);
  LogicalResult emitConcat(tensor::ConcatOp concat);
  LogicalResult sharePiece(Value piece);
  LogicalResult emitCopied(Operation *op);
  template <typename OpTy> LogicalResult emitLoad(OpTy load);
  template <typename OpTy> void emitStore(OpTy store, Value view, Value column);
  void emitStore(tile::StoreOp store);
  bool emitPairs(Operation *op);
  void aroundStore(Location loc, Value view, llvm::function_ref<void()> store);

  /// A load of `type` at `column`: into registers, or into `target`.
  Value loadFragment(tile::LoadOp load, Type type, Value column);
  Value loadFragment(tile::LoadRowsOp load, Type type, Value column);
  Value loadFragment(tile::LoadPagedOp load, Type type, Value column);
  void copyToShared(tile::LoadOp load, Value target, int64_t vectorBytes);
  void copyToShared(tile::LoadRowsOp load, Value target, int64_t vectorBytes);
  void copyToShared(tile::LoadPagedOp load, Value target, int64_t vectorBytes);
  void store(tile::StoreOp op, Value value, bool paired);
  void store(tile::StoreSlotsOp op, Value value, bool paired);

  Type convert(Operation *op, Type type) { return *convertTileType(op, type); }
  Value get(Value value) { return fragments.lookup(value); }
  SmallVector<Value> get(ValueRange values) {
    return llvm::map_to_vector(values, [&](Value value) { return get(value); });
  }
  Value alloc(Location loc, sm90::SmemType type) {
    return sm90::AllocOp::create(builder, loc, type, /*offset=*/IntegerAttr());
  }
  Value addColumns(Location loc, Value column, int64_t more);

  /// Stores the results and arguments that dots read to shared memory.
  LogicalResult shareResults(Operation *op, ValueRange values);

  void beforeWrite(Location loc);
  void publish(Location loc);
  void settle(Location loc);

  tile::KernelOp kernel;
  Placement placement;
  PairAccesses pairs;
  OpBuilder builder;
  /// Scalars, views and register tiles of the new kernel, by those of the old.
  IRMapping fragments;
  /// Shared tiles, by the tiles of the old kernel.
  DenseMap<Value, Value> shared;
  llvm::DenseSet<Value> reusedBuffers;
  /// A dependent kernel waits before this op of the old one; null: never.
  Operation *waitingOp = nullptr;

  bool copiesInFlight = false; // cp.async issued, not waited for
  bool written = false;        // shared memory written since the last barrier
  bool read = false;           // shared memory read since the last barrier
};
} // namespace

//===----------------------------------------------------------------------===//
// Synchronisation
//===----------------------------------------------------------------------===//

/// Any read may be of the bytes that are written next: tiles may share bytes.
void SimpleSchedule::beforeWrite(Location loc) {
  if (!read)
    return;
  sm90::BarrierOp::create(builder, loc);
  read = false;
}

void SimpleSchedule::publish(Location loc) {
  if (copiesInFlight) {
    sm90::CopyCommitOp::create(builder, loc);
    sm90::CopyWaitOp::create(builder, loc, /*pending=*/0);
  }
  if (written)
    sm90::BarrierOp::create(builder, loc);
  if (written)
    read = false;
  copiesInFlight = written = false;
}

void SimpleSchedule::settle(Location loc) {
  publish(loc);
  beforeWrite(loc);
}

//===----------------------------------------------------------------------===//
// Kernel and regions
//===----------------------------------------------------------------------===//

/// Attention of whatever shape no other schedule takes compiles, if slowly: latents of 256 with
/// RoPE of 36 columns spill 8 bytes (ptxas 13.0).
static constexpr int64_t kSpillBytes = 256;

static bool isAttention(tile::KernelOp kernel) {
  int64_t products = 0;
  kernel.walk([&](tile::DotOp) { ++products; });
  return products > 1;
}

FailureOr<sm90::KernelOp> SimpleSchedule::build() {
  tile::TopKOp selection = findSelection(kernel);
  FailureOr<int32_t> warpgroups =
      selection ? getSelectionWarpgroups(selection) : chooseWarpgroups(kernel, placement);
  if (failed(warpgroups))
    return failure();
  reusedBuffers = findReusedBuffers(kernel, *warpgroups);
  auto result = sm90::KernelOp::create(builder, kernel.getLoc(), kernel.getSymName(),
                                       kernel.getArgumentTypes(), *warpgroups);
  if (ArrayAttr attributes = kernel.getArgAttrsAttr())
    result.setArgAttrsAttr(attributes);
  result->setDiscardableAttrs(kernel->getDiscardableAttrDictionary());
  if (selection)
    setSelectionLimits(selection, result);
  if (isAttention(kernel))
    result->setAttr(sm90::kSpillBytesAttr, builder.getI64IntegerAttr(kSpillBytes));
  if (kernel->hasAttr(tile::kRowKernelAttr))
    result->setAttr(sm90::kColumnRunAttr,
                    builder.getI64IntegerAttr(chooseColumnRun(kernel, pairs)));
  Block &body = result.getBody().front();
  fragments.map(kernel.getBody().getArguments(), body.getArguments());
  builder.setInsertionPointToStart(&body);
  if (kernel->hasAttr(tile::kTriggersDependentsAttr))
    sm90::LaunchDependentsOp::create(builder, kernel.getLoc());
  waitingOp = findWaitingOp(kernel);
  if (failed(emitBlock(kernel.getBody().front()))) {
    result.erase();
    return failure();
  }
  settle(kernel.getLoc());
  if (waitingOp == kernel.getBody().front().getTerminator())
    sm90::WaitDependencyOp::create(builder, kernel.getLoc());
  sm90::ReturnOp::create(builder, kernel.getLoc());
  return result;
}

LogicalResult SimpleSchedule::emitBlock(Block &block) {
  for (Operation &op : block.without_terminator())
    if (failed(emit(&op)))
      return failure();
  return success();
}

/// Fills the block of `to` with the ops of `from`, terminator included.
LogicalResult SimpleSchedule::emitRegion(Region &from, Region &to) {
  OpBuilder::InsertionGuard guard(builder);
  Block &source = from.front();
  builder.setInsertionPointToEnd(&to.front());
  if (failed(shareResults(from.getParentOp(), source.getArguments())) || failed(emitBlock(source)))
    return failure();
  Location loc = source.getTerminator()->getLoc();
  settle(loc);
  scf::YieldOp::create(builder, loc, get(source.getTerminator()->getOperands()));
  return success();
}

LogicalResult SimpleSchedule::emitFor(scf::ForOp loop) {
  Location loc = loop.getLoc();
  settle(loc);
  auto result =
      scf::ForOp::create(builder, loc, get(loop.getLowerBound()), get(loop.getUpperBound()),
                         get(loop.getStep()), get(loop.getInitArgs()));
  fragments.map(loop.getBody()->getArguments(), result.getBody()->getArguments());
  // The builder has ended the body of a loop without results.
  if (result.getNumResults() == 0)
    result.getBody()->getTerminator()->erase();
  if (failed(emitRegion(loop.getRegion(), result.getRegion())))
    return failure();
  fragments.map(loop.getResults(), result.getResults());
  return shareResults(loop, loop.getResults());
}

LogicalResult SimpleSchedule::emitIf(scf::IfOp branch) {
  Location loc = branch.getLoc();
  settle(loc);
  bool hasElse = !branch.getElseRegion().empty();
  SmallVector<Type> types;
  for (Type type : branch.getResultTypes())
    types.push_back(convert(branch, type));
  auto result = scf::IfOp::create(builder, loc, types, get(branch.getCondition()),
                                  /*addThenBlock=*/true, /*addElseBlock=*/hasElse);
  if (failed(emitRegion(branch.getThenRegion(), result.getThenRegion())))
    return failure();
  if (hasElse && failed(emitRegion(branch.getElseRegion(), result.getElseRegion())))
    return failure();
  fragments.map(branch.getResults(), result.getResults());
  return shareResults(branch, branch.getResults());
}

/// Vectors with an element per column are those of swapped kernels, which have
/// fewer columns than a tile has rows (convertTileType).
static LogicalResult verifyVector(Operation *op) {
  RankedTensorType vector;
  if (auto reduce = dyn_cast<tile::ReduceOp>(op); reduce && reduce.getDim() == 0)
    vector = cast<RankedTensorType>(reduce.getType());
  if (auto broadcast = dyn_cast<tile::BroadcastOp>(op); broadcast && broadcast.getDim() == 0)
    vector = cast<RankedTensorType>(broadcast.getSource().getType());
  if (!vector || vector.getDimSize(0) < sm90::kTileRows)
    return success();
  return op->emitOpError("expected dim 1 or less than ")
         << sm90::kTileRows << " columns in the simple schedule for sm_90a, got dim 0 and "
         << vector;
}

LogicalResult SimpleSchedule::emit(Operation *op) {
  if (op == waitingOp)
    sm90::WaitDependencyOp::create(builder, op->getLoc());
  if (failed(verifyVector(op)))
    return failure();
  if (emitPairs(op))
    return success();
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](scf::ForOp op) { return emitFor(op); })
      .Case([&](scf::IfOp op) { return emitIf(op); })
      .Case<tile::LoadOp, tile::LoadRowsOp, tile::LoadPagedOp>(
          [&](auto op) { return emitLoad(op); })
      .Case([&](tile::LoadElementsOp op) { return emitLoadElements(op); })
      .Case([&](tensor::ExtractSliceOp op) { return emitSlice(op); })
      .Case([&](tensor::ConcatOp op) { return emitConcat(op); })
      .Case([&](tile::TopKOp op) {
        emitSelection(builder, op, fragments);
        return success();
      })
      .Case([&](tile::SetBitsOp op) {
        emitSetBits(builder, op, fragments);
        return success();
      })
      .Case([&](tile::TestBitsOp op) {
        return emitTestBits(builder, op, convert(op, op.getType()), fragments);
      })
      .Case([&](tile::DotOp op) { return emitDot(op); })
      .Case([&](tile::ReduceOp op) { return emitReduce(op); })
      .Case([&](tile::SumGroupsOp op) { return emitSumGroups(op); })
      .Case([&](tile::StoreOp op) {
        emitStore(op);
        return success();
      })
      .Case([&](tile::StoreSlotsOp op) {
        emitStore(op, op.getPool(), op.getColumn());
        return success();
      })
      .Default([&](Operation *op) { return emitCopied(op); });
}

//===----------------------------------------------------------------------===//
// Loads and stores
//===----------------------------------------------------------------------===//

Value SimpleSchedule::addColumns(Location loc, Value column, int64_t more) {
  if (more == 0)
    return column;
  Value constant = arith::ConstantIndexOp::create(builder, loc, more);
  return arith::AddIOp::create(builder, loc, column, constant);
}

Value SimpleSchedule::loadFragment(tile::LoadOp load, Type type, Value column) {
  SmallVector<Value> offsets = get(load.getOffsets());
  offsets.back() = column;
  bool paired = offsets.size() == 2 && arePaired(load.getView(), load.getOffsets().back());
  return sm90::LoadOp::create(builder, load.getLoc(), type, get(load.getView()), offsets, paired);
}

Value SimpleSchedule::loadFragment(tile::LoadRowsOp load, Type type, Value column) {
  return sm90::LoadRowsOp::create(builder, load.getLoc(), type, get(load.getView()),
                                  get(load.getIndices()), get(load.getFirst()), column,
                                  arePaired(load.getView(), load.getColumn()));
}

Value SimpleSchedule::loadFragment(tile::LoadPagedOp load, Type type, Value column) {
  return sm90::LoadPagedOp::create(
      builder, load.getLoc(), type, get(load.getPool()), get(load.getTable()), get(load.getToken()),
      column, get(load.getLimit()), arePaired(load.getPool(), load.getColumn()));
}

void SimpleSchedule::copyToShared(tile::LoadOp load, Value target, int64_t vectorBytes) {
  sm90::CopyOp::create(builder, load.getLoc(), get(load.getView()), get(load.getOffsets()), target,
                       vectorBytes);
}

void SimpleSchedule::copyToShared(tile::LoadRowsOp load, Value target, int64_t vectorBytes) {
  sm90::CopyRowsOp::create(builder, load.getLoc(), get(load.getView()), get(load.getIndices()),
                           get(load.getFirst()), get(load.getColumn()), target, vectorBytes);
}

void SimpleSchedule::copyToShared(tile::LoadPagedOp load, Value target, int64_t vectorBytes) {
  sm90::CopyPagedOp::create(builder, load.getLoc(), get(load.getPool()), get(load.getTable()),
                            get(load.getToken()), get(load.getColumn()), get(load.getLimit()),
                            target, vectorBytes);
}

static Value getView(tile::LoadOp load) { return load.getView(); }
static Value getView(tile::LoadRowsOp load) { return load.getView(); }
static Value getView(tile::LoadPagedOp load) { return load.getPool(); }
static Value getColumn(tile::LoadOp load) { return load.getOffsets().back(); }
static Value getColumn(tile::LoadRowsOp load) { return load.getColumn(); }
static Value getColumn(tile::LoadPagedOp load) { return load.getColumn(); }

/// Everything that is made of a load is made where the load stands, so that no
/// store comes between.
template <typename OpTy> LogicalResult SimpleSchedule::emitLoad(OpTy load) {
  Location loc = load.getLoc();
  Value tile = load.getResult();
  if (placement.needsShared(tile)) {
    FailureOr<sm90::SmemType> type = convertSharedType(load, tile.getType());
    if (failed(type))
      return failure();
    beforeWrite(loc);
    Value target = alloc(loc, *type);
    copyToShared(load, target, chooseVectorBytes(getView(load), getColumn(load)));
    shared[tile] = target;
    copiesInFlight = written = true;
  }
  if (placement.needsFragment(tile)) {
    fragments.map(tile, loadFragment(load, convert(load, tile.getType()), get(getColumn(load))));
    if (failed(sharePiece(tile)))
      return failure();
  }
  for (Operation *user : tile.getUsers()) {
    auto slice = dyn_cast<tensor::ExtractSliceOp>(user);
    if (!slice || !placement.needsFragment(slice.getResult()))
      continue;
    if (failed(verifySlice(slice, placement)))
      return failure();
    FailureOr<Type> type = convertTileType(slice, slice.getType());
    if (failed(type))
      return failure();
    Value column = addColumns(loc, get(getColumn(load)), slice.getStaticOffset(1));
    fragments.map(slice.getResult(), loadFragment(load, *type, column));
  }
  return success();
}

/// Indices are in registers, and so is what they pick.
LogicalResult SimpleSchedule::emitLoadElements(tile::LoadElementsOp load) {
  FailureOr<Type> type = convertTileType(load, load.getType());
  if (failed(type))
    return failure();
  fragments.map(load.getResult(),
                sm90::LoadElementsOp::create(builder, load.getLoc(), *type, get(load.getView()),
                                             get(load.getIndices()))
                    .getResult());
  return shareResults(load, load.getResult());
}

/// The fragment of a slice was loaded with its source; here only the view of
/// shared memory remains.
LogicalResult SimpleSchedule::emitSlice(tensor::ExtractSliceOp slice) {
  if (failed(verifySlice(slice, placement)))
    return failure();
  if (!placement.needsShared(slice.getResult()))
    return success();
  FailureOr<sm90::SmemType> type = convertSharedType(slice, slice.getType());
  if (failed(type))
    return failure();
  shared[slice.getResult()] = sm90::SliceOp::create(
      builder, slice.getLoc(), *type, shared.lookup(slice.getSource()), slice.getStaticOffset(1));
  return success();
}

/// Columns of fragments side by side meet in shared memory, where each was stored as it was made.
LogicalResult SimpleSchedule::emitConcat(tensor::ConcatOp concat) {
  auto isPiece = [&](Value piece) {
    int64_t columns = cast<RankedTensorType>(piece.getType()).getDimSize(1);
    return columns % sm90::kWgmmaDepth == 0 && chooseColumnSplit(columns) == 1;
  };
  if (concat.getDim() != 1 || placement.needsFragment(concat.getResult()) ||
      !llvm::all_of(concat.getInputs(), isPiece) || !shared.count(concat.getResult()))
    return concat.emitOpError("expected operands of dots side by side, of multiples of ")
           << sm90::kWgmmaDepth << " columns that a warpgroup holds";
  return success();
}

/// Of a piece of a concatenation, at once, so that few of them are in registers.
LogicalResult SimpleSchedule::sharePiece(Value piece) {
  for (Operation *user : piece.getUsers()) {
    auto concat = dyn_cast<tensor::ConcatOp>(user);
    if (!concat)
      continue;
    FailureOr<sm90::SmemType> type = convertSharedType(concat, concat.getType());
    if (failed(type))
      return failure();
    beforeWrite(piece.getLoc());
    Value &target = shared[concat.getResult()];
    if (!target)
      target = alloc(concat.getLoc(), *type);
    int64_t column = 0;
    for (Value input : concat.getInputs()) {
      if (input == piece)
        sm90::StoreSharedOp::create(builder, piece.getLoc(), get(piece), target,
                                    /*transposed=*/false, builder.getI64IntegerAttr(column));
      column += cast<RankedTensorType>(input.getType()).getDimSize(1);
    }
    written = true;
  }
  return success();
}

void SimpleSchedule::store(tile::StoreOp op, Value value, bool paired) {
  sm90::StoreOp::create(builder, op.getLoc(), value, get(op.getView()), get(op.getOffsets()),
                        paired && !op.getTransposed() && op.getOffsets().size() == 2,
                        op.getTransposed());
}

void SimpleSchedule::store(tile::StoreSlotsOp op, Value value, bool paired) {
  sm90::StoreSlotsOp::create(builder, op.getLoc(), value, get(op.getPool()), get(op.getSlots()),
                             get(op.getFirst()), get(op.getColumn()), paired);
}

/// A buffer that is also loaded from: other threads' loads before the store are
/// done at the barrier before it, loads after it see it by the barrier after.
void SimpleSchedule::aroundStore(Location loc, Value view, llvm::function_ref<void()> store) {
  bool reused = reusedBuffers.contains(findBuffer(view));
  if (reused) {
    publish(loc);
    sm90::BarrierOp::create(builder, loc);
  }
  store();
  if (!reused)
    return;
  sm90::BarrierOp::create(builder, loc);
  read = false;
}

template <typename OpTy> void SimpleSchedule::emitStore(OpTy op, Value view, Value column) {
  aroundStore(op.getLoc(), view, [&] { store(op, get(op.getValue()), arePaired(view, column)); });
}

void SimpleSchedule::emitStore(tile::StoreOp op) {
  emitStore(op, op.getView(), op.getOffsets().back());
}

/// Pairs are loaded where the first of their two loads stands, and stored where the second store
/// does. Whether `op` accesses some.
bool SimpleSchedule::emitPairs(Operation *op) {
  if (auto load = dyn_cast_or_null<tile::LoadOp>(pairs.getSecond(op))) {
    auto first = cast<tile::LoadOp>(op);
    Type type = convert(op, first.getType());
    auto both = sm90::LoadPairsOp::create(builder, op->getLoc(), type, type, get(first.getView()),
                                          get(first.getOffsets()));
    fragments.map(first.getResult(), both.getFirst());
    fragments.map(load.getResult(), both.getSecond());
  } else if (auto store = dyn_cast_or_null<tile::StoreOp>(pairs.getFirst(op))) {
    auto second = cast<tile::StoreOp>(op);
    aroundStore(op->getLoc(), store.getView(), [&] {
      sm90::StorePairsOp::create(builder, op->getLoc(), get(store.getValue()),
                                 get(second.getValue()), get(store.getView()),
                                 get(store.getOffsets()));
    });
  } else {
    return pairs.getSecond(op) || pairs.getFirst(op);
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Computation
//===----------------------------------------------------------------------===//

LogicalResult SimpleSchedule::emitDot(tile::DotOp dot) {
  if (failed(verifyDot(dot)))
    return failure();
  Location loc = dot.getLoc();
  publish(loc);
  Value acc = get(dot.getAcc());
  sm90::WgmmaFenceOp::create(builder, loc);
  Value inFlight = sm90::WgmmaOp::create(builder, loc, acc.getType(), shared.lookup(dot.getLhs()),
                                         shared.lookup(dot.getRhs()), acc, dot.getTransposeLhs(),
                                         dot.getTransposeRhs());
  sm90::WgmmaCommitOp::create(builder, loc);
  auto wait = sm90::WgmmaWaitOp::create(builder, loc, inFlight.getType(), /*pending=*/0, inFlight);
  fragments.map(dot.getResult(), wait.getResult(0));
  read = true;
  return shareResults(dot, dot.getResult());
}

LogicalResult SimpleSchedule::emitReduce(tile::ReduceOp reduce) {
  Location loc = reduce.getLoc();
  Value source = get(reduce.getSource());
  int64_t split = sm90::getColumnSplit(source.getType());
  bool ofColumns = reduce.getDim() == 0;
  Value scratch;
  if (ofColumns || split > 1) {
    // Parts that meet: the warps' rows, or the warpgroups' columns.
    int64_t parts = ofColumns ? sm90::kWarpgroupWarps : split;
    int64_t width = cast<RankedTensorType>(reduce.getType()).getDimSize(0);
    beforeWrite(loc);
    scratch = alloc(loc, sm90::SmemType::get(builder.getContext(), {parts, width},
                                             builder.getF32Type(), sm90::SmemLayout::Linear));
    read = true;
  }
  sm90::ReduceKind kind = convertReduceKind(reduce.getKind());
  Type type = convert(reduce, reduce.getType());
  fragments.map(reduce.getResult(),
                sm90::ReduceOp::create(builder, loc, type, kind, source, scratch, reduce.getDim())
                    .getResult());
  return success();
}

LogicalResult SimpleSchedule::emitSumGroups(tile::SumGroupsOp sum) {
  int64_t size = sum.getSize();
  if (size > sm90::kWarpRows)
    return sum.emitOpError("expected groups of at most ")
           << sm90::kWarpRows << " rows, those of a warp, on sm_90a, got " << size;
  fragments.map(
      sum.getResult(),
      sm90::SumGroupsOp::create(builder, sum.getLoc(), get(sum.getSource()), size).getResult());
  return success();
}

LogicalResult SimpleSchedule::emitCopied(Operation *op) {
  if (failed(cloneElementwise(builder, op, fragments, convertTileType)))
    return failure();
  return shareResults(op, op->getResults());
}

/// A value that a dot reads is stored once, where it is defined: a value from
/// outside a loop is not stored again in each iteration.
LogicalResult SimpleSchedule::shareResults(Operation *op, ValueRange values) {
  for (Value value : values) {
    if (isa<RankedTensorType>(value.getType()) && failed(sharePiece(value)))
      return failure();
    if (!placement.needsShared(value))
      continue;
    FailureOr<sm90::SmemType> type = convertSharedType(op, value.getType());
    if (failed(type))
      return failure();
    beforeWrite(op->getLoc());
    Value target = alloc(op->getLoc(), *type);
    sm90::StoreSharedOp::create(builder, op->getLoc(), get(value), target, /*transposed=*/false,
                                /*column=*/IntegerAttr());
    shared[value] = target;
    written = true;
  }
  return success();
}

FailureOr<sm90::KernelOp> mlac::buildSimpleSchedule(tile::KernelOp kernel) {
  return SimpleSchedule(kernel).build();
}
