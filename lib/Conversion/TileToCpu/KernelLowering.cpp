//===- KernelLowering.cpp - signature, scratch and control flow ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"

#include "VectorMath.h"
#include "mla/Dialect/KernelAttrs.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

#include <limits>

using namespace mlir;
using namespace mlac::tile_to_cpu;

TileShape::TileShape(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  rows = tensor.getRank() == 2 ? tensor.getDimSize(0) : 1;
  columns = tensor.getDimSize(tensor.getRank() - 1);
  element = tensor.getElementType();
}

int64_t TileShape::pitch() const { return llvm::alignTo(columns, kRowPadding) * bytesPerElement(); }

/// `kernel` ABI: (args, pid0, pid1, pid2).
static constexpr unsigned kArgsParameter = 0, kFirstProgramId = 1;
static constexpr int64_t kArgumentBytes = 8;

KernelLowering::KernelLowering(tile::KernelOp kernel, int64_t lanes)
    : kernel(kernel), lanes(lanes), uses(kernel), e(kernel->getBlock(), kernel.getLoc()) {}

LogicalResult KernelLowering::run() {
  createFunction();
  unpackArguments();
  if (failed(lowerBlock(kernel.getBody().front())))
    return failure();
  LLVM::ReturnOp::create(e, kernel.getLoc(), ValueRange());
  function->setAttr(mlac::kScratchBytesAttr, e.getI64IntegerAttr(scratchBytes));
  function->moveBefore(kernel);
  std::string name = kernel.getSymName().str();
  kernel.erase();
  function.setSymName(name);
  return success();
}

//===----------------------------------------------------------------------===//
// Signature
//===----------------------------------------------------------------------===//

void KernelLowering::createFunction() {
  Type i64 = e.getI64Type();
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(e.getContext()),
                                          {e.pointerType(), i64, i64, i64});
  e.setInsertionPoint(kernel);
  // The kernel owns its name until it is erased.
  function =
      LLVM::LLVMFuncOp::create(e, kernel.getLoc(), (kernel.getSymName() + "__cpu").str(), type);
  Block *entry = function.addEntryBlock(e);
  // Scratch is allocated in the entry block; the program starts after it.
  scratchBlock = entry;
  auto *body = new Block();
  function.getBody().push_back(body);
  e.setInsertionPointToEnd(entry);
  LLVM::BrOp::create(e, kernel.getLoc(), ValueRange(), body);
  e.setInsertionPointToStart(body);
}

void KernelLowering::unpackArguments() {
  Value args = function.getArgument(kArgsParameter);
  for (BlockArgument argument : kernel.getBody().getArguments()) {
    Value slot = e.advance(args, e.i64(argument.getArgNumber() * kArgumentBytes));
    if (auto buffer = dyn_cast<MemRefType>(argument.getType())) {
      Value pointer = LLVM::LoadOp::create(e, e.loc, e.pointerType(), slot, kArgumentBytes);
      // Its length is unknown: the views made of it say how far they reach.
      Value unbounded = e.i64(std::numeric_limits<int64_t>::max());
      views[argument] = {pointer, e.i64(0), {unbounded}, {e.i64(1)}, buffer.getElementType()};
    } else if (argument.getType().isIndex()) {
      Value value = e.loadScalar(e.getI64Type(), slot);
      map.map(argument, Value(arith::IndexCastOp::create(e, e.loc, e.getIndexType(), value)));
    } else {
      map.map(argument, e.loadScalar(e.getF32Type(), slot));
    }
  }
}

//===----------------------------------------------------------------------===//
// Scratch
//===----------------------------------------------------------------------===//

Value KernelLowering::allocate(int64_t bytes) {
  bytes = llvm::alignTo(bytes, kScratchAlignment);
  scratchBytes += bytes;
  OpBuilder::InsertionGuard guard(e);
  e.setInsertionPointToStart(scratchBlock);
  return LLVM::AllocaOp::create(e, e.loc, e.pointerType(), e.getI8Type(), e.i64(bytes),
                                kScratchAlignment);
}

TileRef KernelLowering::allocateTile(Type type) {
  TileShape shape(type);
  TileRef ref;
  ref.pointer = allocate(shape.rows * shape.pitch());
  ref.rowBytes = e.i64(shape.pitch());
  ref.isPadded = ref.isOwned = true;
  return ref;
}

/// A row of zeros for all gathers of the kernel; it grows with their demands.
Value KernelLowering::zeroRow(int64_t bytes) {
  bytes = llvm::alignTo(bytes, kScratchAlignment);
  OpBuilder::InsertionGuard guard(e);
  if (!zeroRowPointer) {
    e.setInsertionPointToStart(scratchBlock);
    zeroRowBytes = arith::ConstantOp::create(e, e.loc, e.getI64IntegerAttr(0));
    zeroRowPointer = LLVM::AllocaOp::create(e, e.loc, e.pointerType(), e.getI8Type(), zeroRowBytes,
                                            kScratchAlignment);
    e.zeroBytes(zeroRowPointer, zeroRowBytes);
  }
  int64_t current = cast<IntegerAttr>(zeroRowBytes.getValue()).getInt();
  if (bytes > current) {
    zeroRowBytes.setValueAttr(e.getI64IntegerAttr(bytes));
    scratchBytes += bytes - current;
  }
  return zeroRowPointer;
}

TileRef KernelLowering::destination(Value value) {
  auto it = chosen.find(value);
  return it != chosen.end() ? it->second : allocateTile(value.getType());
}

TileRef KernelLowering::memoryOf(Value value) {
  auto it = memory.find(value);
  if (it != memory.end())
    return it->second;
  TileRef ref = allocateTile(value.getType());
  store(value, ref);
  return ref;
}

bool KernelLowering::isSameMemory(Value value, const TileRef &ref) {
  auto it = memory.find(value);
  return it != memory.end() && it->second.pointer == ref.pointer;
}

Value KernelLowering::rowPointer(const TileRef &ref, Value row) {
  if (ref.firstRow)
    row = e.add(row, e.i64(ref.firstRow));
  Value pointer;
  if (ref.isTable()) {
    Value slot = e.advance(ref.pointer, e.mul(row, kArgumentBytes));
    pointer = LLVM::LoadOp::create(e, e.loc, e.pointerType(), slot, kArgumentBytes);
  } else {
    pointer = e.advance(ref.pointer, e.mul(row, ref.rowBytes));
  }
  return e.advance(pointer, e.i64(ref.columnBytes));
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

LogicalResult KernelLowering::lowerBlock(Block &block) {
  for (Operation &op : block.without_terminator()) {
    e.loc = op.getLoc();
    if (failed(lowerOp(&op)))
      return failure();
  }
  return success();
}

LogicalResult KernelLowering::lowerOp(Operation *op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](scf::ForOp loop) { return lowerFor(loop); })
      .Case([&](scf::IfOp branch) { return lowerIf(branch); })
      .Case([&](memref::ReinterpretCastOp view) { return lowerView(view); })
      .Case([&](memref::CastOp cast) {
        views[cast.getResult()] = viewOf(cast.getSource());
        return success();
      })
      .Case([&](arith::SelectOp choice) {
        return isa<MemRefType>(choice.getType()) ? lowerChoice(choice) : lowerOther(choice);
      })
      .Case<memref::LoadOp, memref::StoreOp>([&](Operation *access) {
        lowerScalarAccess(access);
        return success();
      })
      .Default([&](Operation *other) { return lowerOther(other); });
}

/// Of tiles or of scalars.
LogicalResult KernelLowering::lowerOther(Operation *op) {
  bool hasTiles = llvm::any_of(op->getResults(), isTile) || llvm::any_of(op->getOperands(), isTile);
  return hasTiles || isa<tile::TileDialect>(op->getDialect()) ? lowerTileOp(op) : lowerScalarOp(op);
}

LogicalResult KernelLowering::lowerTileOp(Operation *op) {
  bool known = true;
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](tile::ProgramIdOp id) {
        Value value = function.getArgument(kFirstProgramId + id.getDim());
        map.map(id.getResult(),
                Value(arith::IndexCastOp::create(e, e.loc, e.getIndexType(), value)));
      })
      .Case([&](tile::LoadOp load) { lowerLoad(load); })
      .Case([&](tile::LoadRowsOp load) { lowerLoadRows(load); })
      .Case([&](tile::LoadPagedOp load) { lowerLoadPaged(load); })
      .Case([&](tile::LoadElementsOp load) { lowerLoadElements(load); })
      .Case([&](tile::StoreOp storeOp) { lowerStore(storeOp); })
      .Case([&](tile::StoreSlotsOp storeOp) { lowerStoreSlots(storeOp); })
      .Case([&](tile::TopKOp topK) { lowerTopK(topK); })
      .Case([&](tile::SetBitsOp setBits) { lowerSetBits(setBits); })
      .Case([&](tile::DotOp dot) { lowerDot(dot); })
      .Case([&](tile::ReduceOp reduce) { lowerReduce(reduce); })
      .Case([&](tile::SumGroupsOp sum) { lowerSumGroups(sum); })
      .Case([&](tensor::ExtractSliceOp slice) { lowerSlice(slice); })
      .Case([&](tensor::ConcatOp concat) { lowerConcat(concat); })
      .Default([&](Operation *other) {
        if (uses.isVirtual(other->getResult(0)))
          return; // its consumers evaluate it
        known = isElementwise(other);
        if (!known)
          return;
        Value result = other->getResult(0);
        TileRef target = destination(result);
        store(result, target);
        memory[result] = target;
      });
  if (!known)
    return op->emitOpError("expected an operation that the CPU target lowers on tiles");
  return success();
}

LogicalResult KernelLowering::lowerScalarOp(Operation *op) {
  if (op->getNumRegions() != 0 || !isa<arith::ArithDialect>(op->getDialect()))
    return op->emitOpError("expected scalar arithmetic in a tile.kernel for the CPU target");
  auto narrowing = dyn_cast<arith::TruncFOp>(op);
  if (narrowing && narrowing.getType().isBF16() && narrowing.getIn().getType().isF32())
    map.map(narrowing.getOut(), emitRoundToBf16(e, map.lookup(narrowing.getIn())));
  else
    e.clone(*op, map);
  return success();
}

SmallVector<Value> KernelLowering::lookupAll(ValueRange values) {
  return llvm::map_to_vector(values, [&](Value value) { return map.lookup(value); });
}

void KernelLowering::lowerSlice(Operation *op) {
  auto slice = cast<tensor::ExtractSliceOp>(op);
  TileRef ref = memoryOf(slice.getSource());
  ref.isOwned = ref.isPadded = false;
  ArrayRef<int64_t> offsets = slice.getStaticOffsets();
  if (offsets.size() == 2)
    ref.firstRow += offsets.front();
  ref.columnBytes += offsets.back() * TileShape(slice.getType()).bytesPerElement();
  memory[slice.getResult()] = ref;
}

/// Columns side by side: each operand is stored to its part of the rows.
void KernelLowering::lowerConcat(Operation *op) {
  auto concat = cast<tensor::ConcatOp>(op);
  TileRef target = destination(concat.getResult()), part = target;
  part.isOwned = part.isPadded = false;
  for (Value operand : concat.getInputs()) {
    TileShape shape(operand.getType());
    store(operand, part);
    part.columnBytes += shape.columns * shape.bytesPerElement();
  }
  memory[concat.getResult()] = target;
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

/// The memory of a tile carried by a loop, holding the initial value.
TileRef KernelLowering::carriedMemory(scf::ForOp op, unsigned index) {
  Value init = op.getInitArgs()[index], result = op.getResult(index);
  auto it = memory.find(init);
  bool isLastUse =
      it != memory.end() && it->second.isOwned && init.hasOneUse() && !chosen.count(result);
  TileRef ref = isLastUse ? it->second : destination(result);
  if (!isSameMemory(init, ref))
    store(init, ref);
  return ref;
}

/// Chooses the memory of the tiles that `op` carries; fills in what its body's
/// yield has to do.
KernelLowering::Yield KernelLowering::prepareCarriedTiles(scf::ForOp op) {
  Yield result;
  Operation *yield = op.getBody()->getTerminator();
  for (auto [index, init] : llvm::enumerate(op.getInitArgs())) {
    Value next = yield->getOperand(index);
    if (!isTile(init)) {
      result.scalars.push_back(next);
      continue;
    }
    TileRef ref = carriedMemory(op, index);
    memory[op.getResult(index)] = ref;
    // The body overwrites it, so nothing in the body may take it over.
    ref.isOwned = false;
    Value argument = op.getRegionIterArg(index);
    memory[argument] = ref;
    bool isHere = next.getDefiningOp() && next.getDefiningOp()->getBlock() == op.getBody();
    if (isHere && !chosen.count(next) && uses.canOverwrite(argument, op.getBody(), next))
      chosen[next] = ref;
    result.tiles.push_back(next);
    result.targets.push_back(ref);
  }
  return result;
}

LogicalResult KernelLowering::lowerFor(scf::ForOp op) {
  Yield yield = prepareCarriedTiles(op);
  SmallVector<Value> inits;
  for (Value init : op.getInitArgs())
    if (!isTile(init))
      inits.push_back(map.lookup(init));
  auto loop = scf::ForOp::create(e, op.getLoc(), map.lookup(op.getLowerBound()),
                                 map.lookup(op.getUpperBound()), map.lookup(op.getStep()), inits);
  map.map(op.getInductionVar(), loop.getInductionVar());
  unsigned scalarIndex = 0;
  for (unsigned index = 0; index < op.getNumResults(); ++index) {
    if (isTile(op.getResult(index)))
      continue;
    map.map(op.getRegionIterArg(index), loop.getRegionIterArg(scalarIndex));
    map.map(op.getResult(index), loop.getResult(scalarIndex++));
  }

  OpBuilder::InsertionGuard guard(e);
  e.setInsertionPointToStart(loop.getBody());
  if (failed(lowerBlock(*op.getBody())))
    return failure();
  yieldTiles(yield.tiles, yield.targets);
  if (!inits.empty())
    scf::YieldOp::create(e, op.getLoc(), lookupAll(yield.scalars));
  return success();
}

/// Ends an iteration or a branch: moves what was not computed in place. A value
/// that lives in another target, or is computed from one, is saved first.
void KernelLowering::yieldTiles(ValueRange values, ArrayRef<TileRef> targets) {
  SmallVector<std::optional<TileRef>> saved(values.size());
  for (auto [value, target, copy] : llvm::zip_equal(values, targets, saved)) {
    auto it = memory.find(value);
    bool isInTarget = it != memory.end() && llvm::any_of(targets, [&](const TileRef &other) {
                        return other.pointer == it->second.pointer;
                      });
    bool isBroadcast = isa_and_nonnull<tile::BroadcastOp>(value.getDefiningOp());
    if (isSameMemory(value, target) || !(isInTarget || isBroadcast))
      continue;
    copy = allocateTile(value.getType());
    store(value, *copy);
  }
  for (auto [value, target, copy] : llvm::zip_equal(values, targets, saved)) {
    if (copy)
      copyTile(value.getType(), *copy, target);
    else if (!isSameMemory(value, target))
      store(value, target);
  }
}

LogicalResult KernelLowering::lowerIf(scf::IfOp op) {
  SmallVector<Type> scalarTypes;
  for (Value result : op.getResults()) {
    if (isTile(result))
      memory[result] = destination(result);
    else
      scalarTypes.push_back(result.getType());
  }
  bool hasElse = !op.getElseRegion().empty();
  auto branch = scf::IfOp::create(e, op.getLoc(), scalarTypes, map.lookup(op.getCondition()),
                                  /*addThenBlock=*/true, /*addElseBlock=*/hasElse);
  if (failed(lowerIfRegion(op, op.getThenRegion(), branch.getThenRegion())))
    return failure();
  if (hasElse && failed(lowerIfRegion(op, op.getElseRegion(), branch.getElseRegion())))
    return failure();
  unsigned scalarIndex = 0;
  for (Value result : op.getResults())
    if (!isTile(result))
      map.map(result, branch.getResult(scalarIndex++));
  return success();
}

LogicalResult KernelLowering::lowerIfRegion(scf::IfOp op, Region &region, Region &target) {
  Operation *yield = region.front().getTerminator();
  Yield result;
  for (auto [tile, value] : llvm::zip_equal(op.getResults(), yield->getOperands())) {
    if (!isTile(value)) {
      result.scalars.push_back(value);
      continue;
    }
    TileRef ref = memory[tile];
    // The memory is new, or canOverwrite has looked at this branch.
    bool isHere = value.getDefiningOp() && value.getDefiningOp()->getBlock() == &region.front();
    if (isHere && !chosen.count(value))
      chosen[value] = ref;
    result.tiles.push_back(value);
    result.targets.push_back(ref);
  }
  OpBuilder::InsertionGuard guard(e);
  e.setInsertionPointToStart(&target.front());
  if (failed(lowerBlock(region.front())))
    return failure();
  yieldTiles(result.tiles, result.targets);
  scf::YieldOp::create(e, op.getLoc(), lookupAll(result.scalars));
  return success();
}
