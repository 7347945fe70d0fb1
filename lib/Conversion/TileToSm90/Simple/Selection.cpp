//===- Selection.cpp - tile.top_k by the threads of a CTA ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   at most K values        their positions are counted up
//   at most C               one program holds them in a list, in order (sm90.select_hold)
//   else                    what reaches a bound is kept in a list (sm90.select_keep)
//     several programs      put their lists together; the last one goes on
//   list of K to C          where its K largest end, and their positions in order
//   fewer, or more          the same of the whole row: slower, same result
//
// A list has fewer than K numbers if the bound, which a sample says, was no good, or if the row has
// no more; more than it has room for, if many are equal, or what is near in the row is near in
// value.
//
//===----------------------------------------------------------------------===//

#include "Simple/Selection.h"

#include "mla/Dialect/KernelAttrs.h"
#include "mla/Dialect/Sm90/Utils/Select.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlac;

/// A CTA that has a multiprocessor for itself; of short rows, which are many, four share one.
static constexpr int32_t kWarpgroups = 8, kShortWarpgroups = 2;
/// What shared memory and registers are to be left for.
static constexpr int64_t kShortPrograms = 4;
/// Candidates of a row. Twice K is twice what is kept of a row without order.
static constexpr int64_t kCapacity = 8192, kShortCapacity = 4096;
/// Positions whose bits there is room for beside the list: rows of up to so many are written at
/// once.
static constexpr int64_t kPositions = int64_t(1) << 19;
/// A program has at least so many values, or it would do nothing but meet others.
static constexpr int64_t kLeastOfProgram = 1024;
/// Parts of a row begin at a sector of memory.
static constexpr int64_t kPartMultiple = 32;

tile::TopKOp mlac::findSelection(tile::KernelOp kernel) {
  tile::TopKOp found;
  kernel.walk([&](tile::TopKOp op) { found = op; });
  return found;
}

/// Whether a few threads with little memory are enough.
static bool isShort(tile::TopKOp op) {
  return op.getLongest() && static_cast<int64_t>(*op.getLongest()) <= 2 * kShortCapacity &&
         op.getCount() <= kShortCapacity / 2;
}

int32_t mlac::getSelectionWarpgroups(tile::TopKOp op) {
  return isShort(op) ? kShortWarpgroups : kWarpgroups;
}

void mlac::setSelectionLimits(tile::TopKOp op, sm90::KernelOp kernel) {
  if (isShort(op))
    kernel->setAttr(tile::kResidentProgramsAttr,
                    OpBuilder(kernel).getI64IntegerAttr(kShortPrograms));
}

namespace {
class Selection {
public:
  Selection(OpBuilder &builder, tile::TopKOp op, const IRMapping &mapped);
  void emit();

private:
  using Predicate = arith::CmpIPredicate;
  Value get(Value value) { return mapped.lookup(value); }
  Value index(int64_t value) { return arith::ConstantIndexOp::create(b, value); }
  Value word(int64_t value) { return arith::ConstantIntOp::create(b, value, 32); }
  Value is(Value left, Predicate predicate, Value right) {
    return arith::CmpIOp::create(b, predicate, left, right);
  }
  Value alloc(ArrayRef<int64_t> shape, Type element) {
    auto type = sm90::SmemType::get(b.getContext(), shape, element, sm90::SmemLayout::Linear);
    return sm90::AllocOp::create(b, type, /*offset=*/IntegerAttr());
  }
  void barrier() { sm90::BarrierOp::create(b); }
  void ifThen(Value condition, llvm::function_ref<void()> body);
  void ifElse(Value condition, llvm::function_ref<void()> body,
              llvm::function_ref<void()> otherwise);
  /// Bodies return a flag.
  Value choose(Value condition, llvm::function_ref<Value()> body,
               llvm::function_ref<Value()> otherwise);
  Value flag(bool value) { return arith::ConstantIntOp::create(b, value, 1); }
  void begin();
  Value isFirst();
  Value getLength();
  // These return whether the whole row has to be searched.
  Value searchHeld();
  Value search();
  Value searchPart();
  Value finish(Value count);
  ValueRange meet(Value programs, Value kept);
  void finishRow();

  ImplicitLocOpBuilder b;
  tile::TopKOp op;
  const IRMapping &mapped;
  int64_t rank, capacity;
  Value values, row, out, length;
  Value work, list, bitmap, places;
};
} // namespace

Selection::Selection(OpBuilder &builder, tile::TopKOp op, const IRMapping &mapped)
    : b(op.getLoc(), builder), op(op), mapped(mapped), rank(op.getCount()),
      capacity(isShort(op) ? kShortCapacity : kCapacity), values(get(op.getValues())),
      row(get(op.getRow())), out(get(op.getOut())) {
  if (op.getLists())
    capacity = cast<MemRefType>(op.getLists().getType()).getDimSize(2);
  int64_t positions = kPositions;
  if (op.getLongest())
    positions = std::min(positions, static_cast<int64_t>(*op.getLongest()));
  constexpr int64_t blockWords = 4, blockBits = 32 * blockWords;
  int64_t blocks = llvm::divideCeil(positions, blockBits);
  work = alloc({1, sm90::kSelectWorkWords}, b.getI32Type());
  list = alloc({2, capacity}, b.getF32Type());
  bitmap = alloc({1, blocks * blockWords}, b.getI32Type());
  places = alloc({1, blocks}, b.getI32Type());
  length = getLength();
}

void Selection::ifThen(Value condition, llvm::function_ref<void()> body) {
  auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  body();
}

void Selection::ifElse(Value condition, llvm::function_ref<void()> body,
                       llvm::function_ref<void()> otherwise) {
  auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  body();
  b.setInsertionPointToStart(branch.elseBlock());
  otherwise();
}

Value Selection::choose(Value condition, llvm::function_ref<Value()> body,
                        llvm::function_ref<Value()> otherwise) {
  auto branch = scf::IfOp::create(b, b.getI1Type(), condition, /*addThenBlock=*/true,
                                  /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, body());
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, otherwise());
  return branch.getResult(0);
}

/// What is outside of the view is not there.
Value Selection::getLength() {
  Value most = memref::DimOp::create(b, values, 1);
  Value least = arith::MaxSIOp::create(b, get(op.getLength()), index(0));
  return arith::MinSIOp::create(b, least, most);
}

void Selection::begin() {
  sm90::SelectBeginOp::create(b, work);
  barrier();
}

/// Of the programs of a row.
Value Selection::isFirst() {
  return op.getSlice() ? is(get(op.getSlice()), Predicate::eq, index(0)) : flag(true);
}

void Selection::emit() {
  Value isWhole = is(length, Predicate::sle, index(rank));
  Value isHeld = is(length, Predicate::sle, index(capacity));
  auto countUp = [&] { sm90::SelectCountUpOp::create(b, out, row, length); };
  auto hold = [&] {
    return choose(
        isFirst(), [&] { return searchHeld(); }, [&] { return flag(false); });
  };
  auto keep = [&] { return op.getSlice() ? searchPart() : search(); };
  ifElse(
      isWhole, [&] { ifThen(isFirst(), countUp); },
      [&] { ifThen(choose(isHeld, hold, keep), [&] { finishRow(); }); });
}

/// No sample, no places by atomic operations, no bitmap, and nobody to meet.
Value Selection::searchHeld() {
  begin();
  Value numbers = sm90::SelectHoldOp::create(b, values, row, length, list, work);
  barrier();
  return choose(
      is(numbers, Predicate::uge, word(rank)),
      [&] {
        Value count = arith::IndexCastOp::create(b, b.getI32Type(), length);
        auto cut = sm90::SelectCutOp::create(b, list, /*in_order=*/true, Value(), Value(), count,
                                             rank, work);
        barrier();
        sm90::SelectWriteInOrderOp::create(b, list, count, cut.getKey(), cut.getBefore(), out, row,
                                           work);
        return flag(false);
      },
      [&] { return flag(true); });
}

/// A program that has the row for itself.
Value Selection::search() {
  begin();
  Value kept =
      sm90::SelectKeepOp::create(b, values, row, index(0), length, length, rank, list, work);
  barrier();
  return finish(kept);
}

/// One of several. Short rows are shared by fewer, and those that are left over have nothing to do.
Value Selection::searchPart() {
  Value useful = arith::CeilDivSIOp::create(b, length, index(kLeastOfProgram));
  Value programs = arith::MinSIOp::create(b, useful, get(op.getSlices()));
  Value slice = get(op.getSlice());
  auto nothing = [&] { return flag(false); };
  auto keepPart = [&] {
    Value part = arith::CeilDivSIOp::create(b, length, programs), multiple = index(kPartMultiple);
    part = arith::MulIOp::create(b, arith::CeilDivSIOp::create(b, part, multiple), multiple);
    Value begin = arith::MinSIOp::create(b, arith::MulIOp::create(b, slice, part), length);
    Value end = arith::MinSIOp::create(b, arith::AddIOp::create(b, begin, part), length);
    this->begin();
    Value kept = sm90::SelectKeepOp::create(b, values, row, begin, end, length, rank, list, work);
    ValueRange all = meet(programs, kept);
    auto goOn = [&] {
      barrier();
      return finish(all.back());
    };
    return choose(all.front(), goOn, nothing);
  };
  return choose(is(slice, Predicate::slt, programs), keepPart, nothing);
}

/// Whether this program goes on, and with what: a program that is alone does, with what it has.
ValueRange Selection::meet(Value programs, Value kept) {
  Value isAlone = is(programs, Predicate::eq, index(1));
  SmallVector<Value> alone = {flag(true), kept};
  auto branch = scf::IfOp::create(b, ValueRange(alone).getTypes(), isAlone,
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, alone);
  b.setInsertionPointToStart(branch.elseBlock());
  barrier();
  auto meet = sm90::SelectMeetOp::create(b, list, kept, work, get(op.getLists()),
                                         get(op.getCounters()), row, programs);
  scf::YieldOp::create(b, meet.getResults());
  return branch.getResults();
}

Value Selection::finish(Value count) {
  Value isEnough = is(count, Predicate::uge, word(rank));
  Value fits = is(count, Predicate::ule, word(capacity));
  auto finishList = [&] {
    auto cut =
        sm90::SelectCutOp::create(b, list, /*in_order=*/false, Value(), Value(), count, rank, work);
    barrier();
    sm90::SelectWriteOp::create(b, list, count, Value(), length, cut.getKey(), cut.getBefore(), out,
                                row, bitmap, places, work);
    return flag(false);
  };
  return choose(arith::AndIOp::create(b, isEnough, fits), finishList, [&] { return flag(true); });
}

void Selection::finishRow() {
  Value count = arith::IndexCastOp::create(b, b.getI32Type(), length);
  auto cut =
      sm90::SelectCutOp::create(b, Value(), /*in_order=*/false, values, row, count, rank, work);
  barrier();
  sm90::SelectWriteOp::create(b, Value(), Value(), values, length, cut.getKey(), cut.getBefore(),
                              out, row, bitmap, places, work);
}

void mlac::emitSelection(OpBuilder &builder, tile::TopKOp topK, const IRMapping &values) {
  Selection(builder, topK, values).emit();
}
