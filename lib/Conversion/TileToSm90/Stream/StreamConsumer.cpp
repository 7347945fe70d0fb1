//===- StreamConsumer.cpp - products and softmax of the stream schedule ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Stream/StreamConsumer.h"

#include "mla/Dialect/Sm90/IR/Sm90CodeOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::stream;

void Consumer::barrier() {
  sm90::BarrierOp::create(b);
  written = operandsRead = keysRead = false;
  scratchUsed.clear();
}

void Consumer::settle() {
  if (written || !scratchUsed.empty())
    barrier();
}

void Consumer::beginRegion() { operandsRead = true; }

void Consumer::emit(Operation *op) {
  if (op == program.sides)
    return emitSide(number);
  if (program.transforms.contains(op))
    return;
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](scf::ForOp loop) { emitFor(loop); })
      .Case([&](scf::IfOp branch) { emitIf(branch); })
      .Case([&](tile::LoadOp load) {
        if (load == program.queries.front())
          awaitQueries();
        else if (!llvm::is_contained(program.queries, load))
          loadRows(load);
      })
      .Case<tile::LoadPagedOp, tile::LoadRowsOp>([&](Operation *load) {
        auto index = llvm::find(program.keys, load) - program.keys.begin();
        if (index == 0) {
          awaited.clear();
          placeParts();
        }
        if (!program.slots)
          shared[load->getResult(0)] = getTile(entry.keyRing, keyStage, index);
        else if (program.getLoadWidth(index) <= sm90::kPanelColumns)
          shared[load->getResult(0)] = getPart(program.findPart(program.operands[index], 0));
      })
      .Case([&](tensor::ExtractSliceOp slice) {
        int64_t column = slice.getStaticOffset(1), columns = slice.getType().getDimSize(1);
        shared[slice.getResult()] =
            program.slots ? getPart(program.findPart(slice.getSource(), column))
                          : this->slice(shared.lookup(slice.getSource()), column, columns);
      })
      .Case([&](tile::DotOp dot) { emitRun(dot); })
      .Case([&](tile::ReduceOp reduce) { emitReduce(reduce); })
      .Case([&](tile::StoreOp store) { emitStore(store); })
      .Default([&](Operation *op) {
        if (!isOperand(op))
          return clone(op);
        share(op);
      });
  if (op == program.queriesEnd) {
    sm90::ReleaseOp::create(b, entry.queryRing, queryStage);
    queryStage = next(queryStage, entry.queryRing);
    // Results may go where the kernels before still read.
    if (program.waits)
      sm90::WaitDependencyOp::create(b);
  }
}

void Consumer::awaitQueries() {
  sm90::AwaitOp::create(b, entry.queryRing, queryStage, /*part=*/0);
  for (auto [index, load] : llvm::enumerate(program.queries))
    shared[load->getResult(0)] =
        getTile(entry.queryRing, queryStage, number * program.queries.size() + index);
}

/// What rows start from may come from the kernels before.
void Consumer::loadRows(tile::LoadOp load) {
  bool isOfRows =
      load.getType().getRank() == 1 && load->getBlock() == program.queries.front()->getBlock();
  if (program.waits && isOfRows)
    sm90::WaitDependencyOp::create(b);
  clone(load);
}

/// The barrier inside the op says that all warps have come this far.
void Consumer::emitReduce(tile::ReduceOp reduce) {
  Value result = this->reduce(convertReduceKind(reduce.getKind()), convertType(reduce.getType()),
                              cloner.get(reduce.getSource()), entry.scratch.lookup(reduce));
  cloner.map(reduce.getResult(), result);
}

Value Consumer::reduce(sm90::ReduceKind kind, Type type, Value source, Value scratch) {
  if (scratchUsed.contains(scratch))
    barrier();
  Value result = sm90::ReduceOp::create(b, type, kind, source, scratch, /*dim=*/0);
  operandsRead = keysRead = false;
  scratchUsed.clear();
  scratchUsed.insert(scratch);
  return result;
}

void Consumer::emitStore(tile::StoreOp store) {
  sm90::StoreOp::create(b, cloner.get(store.getValue()), cloner.get(store.getView()),
                        cloner.get(store.getOffsets()), /*paired=*/false, store.getTransposed());
}

Value Consumer::getConstant(float number, Type type) {
  auto tile = dyn_cast<ShapedType>(type);
  FloatAttr value = b.getF32FloatAttr(number);
  if (!tile)
    return arith::ConstantOp::create(b, value);
  return arith::ConstantOp::create(b, DenseElementsAttr::get(tile, value));
}

/// Weights are narrowed to what values are, which of codes is f16.
Value Consumer::makeOperand(Operation *op, sm90::SmemType target) {
  auto narrow = dyn_cast<arith::TruncFOp>(op);
  Value value = cloner.get(narrow ? narrow.getIn() : op->getResult(0));
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getElementType() == target.getElementType())
    return value;
  return arith::TruncFOp::create(b, type.clone(target.getElementType()), value);
}

/// Stores what a product reads, transposed: [64 keys, N] to [N, 64], K-major.
void Consumer::share(Operation *op) {
  Value result = op->getResult(0), target = entry.operands.lookup(result);
  Value operand = makeOperand(op, cast<sm90::SmemType>(target.getType()));
  if (operandsRead)
    barrier();
  sm90::StoreSharedOp::create(b, operand, target, /*transposed=*/true, /*column=*/IntegerAttr());
  shared[result] = target;
  written = true;
}

bool Consumer::isOperand(Operation *op) const {
  return op->getNumResults() == 1 && entry.operands.contains(op->getResult(0));
}

/// Ops that neither wait nor write may run earlier than they stand.
bool Consumer::canMove(Operation *op) {
  return op->getNumRegions() == 0 && !isOperand(op) && !isa<tile::ReduceOp, tile::StoreOp>(op);
}

/// The dots that follow `first` and read nothing that an earlier one makes but its
/// accumulator.
Run Consumer::collectRun(tile::DotOp first) {
  Run run;
  DenseSet<Operation *> needed;
  SmallVector<Operation *> moved;
  auto isOfRun = [&](Value value) { return llvm::is_contained(run.dots, value.getDefiningOp()); };
  for (Operation *op = first; op && !op->hasTrait<OpTrait::IsTerminator>();
       op = op->getNextNode()) {
    auto dot = dyn_cast<tile::DotOp>(op);
    bool depends = llvm::any_of(op->getOperands(), isOfRun);
    if (dot && !isOfRun(dot.getLhs()) && !isOfRun(dot.getRhs()))
      run.dots.push_back(dot);
    else if (!dot && !depends && canMove(op))
      moved.push_back(op);
    else
      break;
  }
  auto need = [&](Operation *op) {
    for (Value operand : op->getOperands())
      if (Operation *source = operand.getDefiningOp())
        needed.insert(source);
  };
  for (tile::DotOp dot : run.dots)
    need(dot);
  for (Operation *op : llvm::reverse(moved))
    if (needed.contains(op))
      need(op);
  for (Operation *op : moved)
    (needed.contains(op) ? run.early : run.late).push_back(op);
  return run;
}

void Consumer::awaitPart(unsigned part) {
  if (!awaited.insert(part).second)
    return;
  sm90::AwaitOp::create(b, entry.keyRing, getStage(part), getBarrier(part));
  // Waiting is a loop: ptxas must see the registers as ordered behind it.
  needsFence = true;
}

Value Consumer::multiply(Value lhs, Value rhs, Value acc, bool transposeLhs) {
  if (needsFence)
    sm90::WgmmaFenceOp::create(b);
  needsFence = false;
  return sm90::WgmmaOp::create(b, acc.getType(), lhs, rhs, acc, transposeLhs,
                               /*transpose_rhs=*/true);
}

/// The parts of the keys in the order in which they arrive.
Value Consumer::emitScores(tile::DotOp dot, Value acc) {
  Value queries = shared.lookup(dot.getRhs());
  for (auto [index, part] : llvm::enumerate(program.parts)) {
    if (program.operands[part.tile] != dot.getLhs())
      continue;
    awaitPart(index);
    acc = multiply(getPart(index), slice(queries, part.column, part.columns), acc,
                   /*transposeLhs=*/false);
  }
  keysRead = true;
  return acc;
}

Value Consumer::emitOutput(tile::DotOp dot, Value acc) {
  Value values = shared.lookup(dot.getLhs()), weights = shared.lookup(dot.getRhs());
  operandsRead = true;
  return multiply(values, weights, acc, /*transposeLhs=*/true);
}

/// Where consumers that share values meet behind zeroed rows: a named barrier.
static constexpr int32_t kMeeting = 8;

/// Weights behind the request's end are 0, but values there may be NaN. Of consumers that share a
/// block the first clears them, the others wait.
void Consumer::zeroTail(tile::LoadPagedOp keys, ArrayRef<Value> tiles) {
  Value rows = arith::SubIOp::create(b, cloner.get(keys.getLimit()), cloner.get(keys.getToken()));
  Value all = arith::ConstantIndexOp::create(b, keys.getType().getDimSize(0));
  Value isShort = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, rows, all);
  if (keysRead)
    barrier();
  auto branch = scf::IfOp::create(b, isShort, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  int64_t sides = program.countSides();
  if (sides == 1 || number == 0)
    for (Value tile : tiles)
      sm90::ZeroRowsOp::create(b, tile, rows);
  written = true;
  if (sides > 1)
    sm90::NamedBarrierOp::create(b, kMeeting, sides * sm90::kWarpgroupWarps, /*arrive=*/false);
}

/// Of a load, by its place among the keys'.
SmallVector<Value> Consumer::getTiles(unsigned load) {
  if (!program.slots)
    return {shared.lookup(program.operands[load])};
  SmallVector<Value> tiles;
  for (auto [index, part] : llvm::enumerate(program.parts))
    if (part.tile == load)
      tiles.push_back(getPart(index));
  return tiles;
}

/// Copies without TMA have put zeros there.
void Consumer::zeroTails(ArrayRef<Operation *> loads) {
  for (Operation *load : loads) {
    auto index = llvm::find(program.keys, load) - program.keys.begin();
    if (program.usesTma)
      zeroTail(cast<tile::LoadPagedOp>(load), getTiles(index));
  }
}

void Consumer::releaseKeys() {
  if (!program.slots)
    sm90::ReleaseOp::create(b, entry.keyRing, keyStage);
  for (Value slot : slots)
    sm90::ReleaseOp::create(b, entry.keyRing, slot);
  leaveBlock();
}

Operation *Consumer::getLoad(Value tile) const {
  if (auto slice = tile.getDefiningOp<tensor::ExtractSliceOp>())
    tile = slice.getSource();
  auto found = llvm::find(program.operands, tile);
  return found == program.operands.end() ? nullptr : program.keys[found - program.operands.begin()];
}

void Consumer::emitRun(tile::DotOp first) {
  Run run = collectRun(first);
  for (Operation *op : run.early)
    emit(op);
  llvm::SetVector<Operation *> values;
  for (tile::DotOp dot : run.dots)
    if (dot.getTransposeLhs())
      values.insert(getLoad(dot.getLhs()));
  for (auto [index, part] : llvm::enumerate(program.parts))
    if (values.contains(program.keys[part.tile]) && awaitsValues())
      awaitPart(index);
  zeroTails(values.getArrayRef());
  publish();
  needsFence = true;
  SmallVector<Value> ends, inFlight;
  for (tile::DotOp dot : run.dots) {
    if (!takes(dot))
      continue;
    Value acc = cloner.get(dot.getAcc());
    Value result = dot.getTransposeLhs() ? emitOutput(dot, acc) : emitScores(dot, acc);
    cloner.map(dot.getResult(), result);
    // A chain of products is waited for at its end.
    auto previous = llvm::find(inFlight, acc);
    if (previous != inFlight.end()) {
      *previous = result;
      ends[previous - inFlight.begin()] = dot.getResult();
    } else {
      inFlight.push_back(result);
      ends.push_back(dot.getResult());
    }
  }
  sm90::WgmmaCommitOp::create(b);
  emitBeside(run);
  auto emitLate = [&] {
    for (Operation *op : run.late)
      emit(op);
  };
  if (worksBeside())
    emitLate();
  auto wait =
      sm90::WgmmaWaitOp::create(b, TypeRange(ValueRange(inFlight)), /*pending=*/0, inFlight);
  for (auto [end, result] : llvm::zip_equal(ends, wait.getResults()))
    cloner.map(end, finish(end.getDefiningOp<tile::DotOp>(), result));
  if (!worksBeside())
    emitLate();
  done.insert(run.dots.begin(), run.dots.end());
  done.insert(run.early.begin(), run.early.end());
  done.insert(run.late.begin(), run.late.end());
  if (llvm::is_contained(run.dots, program.keysEnd))
    releaseKeys();
}

void stream::emitConsumer(ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
                          const LazyCloner &cloner, unsigned side) {
  Consumer(b, program, entry, cloner).run(side);
}
