//===- Sm90SelectOps.cpp - verifiers of the steps of a selection ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Check numbers (C1) ... are those of the op descriptions in Sm90SelectOps.td.
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"
#include "mla/Dialect/Sm90/Utils/Select.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::sm90;

static LogicalResult verifyTile(Operation *op, StringRef name, Value tile, ArrayRef<int64_t> shape,
                                Type element) {
  auto expected = SmemType::get(op->getContext(), shape, element, SmemLayout::Linear);
  if (tile.getType() == expected)
    return success();
  return op->emitOpError("expected ")
         << name << " of type " << expected << ", got " << tile.getType();
}

/// The histogram takes the threads of two warpgroups; barriers are those of the CTA.
static LogicalResult verifyWork(Operation *op, Value work) {
  auto kernel = op->getParentOfType<KernelOp>();
  constexpr int32_t kLeast = 2;
  if (kernel && (op->getParentOfType<RoleOp>() || kernel.getWarpgroups() < kLeast))
    return op->emitOpError("expected a kernel of at least ")
           << kLeast << " warpgroups, and no role: all threads of the CTA work together";
  return verifyTile(op, "work", work, {1, kSelectWorkWords}, Builder(op).getI32Type());
}

/// A list [2, C].
static LogicalResult verifyList(Operation *op, Value list) {
  int64_t capacity = cast<SmemType>(list.getType()).getColumns();
  return verifyTile(op, "a list", list, {2, capacity}, Builder(op).getF32Type());
}

static LogicalResult verifyRows(Operation *op, StringRef name, Value view, Type element,
                                bool hasStaticColumns) {
  auto type = cast<MemRefType>(view.getType());
  if (type.getRank() == 2 && type.getElementType() == element &&
      !(hasStaticColumns && type.isDynamicDim(1)))
    return success();
  return op->emitOpError("expected ")
         << name << " [rows, columns] of " << element
         << (hasStaticColumns ? " with static columns" : "") << ", got " << type;
}

LogicalResult SelectBeginOp::verify() { return verifyWork(*this, getWork()); } // (C1)

LogicalResult SelectCountUpOp::verify() {
  return verifyRows(*this, "out", getOut(), Builder(*this).getI32Type(), true); // (C1)
}

LogicalResult SetBitsOp::verify() {
  Type word = Builder(*this).getI32Type();
  if (failed(verifyRows(*this, "list", getList(), word, true)) || // (C1)
      failed(verifyRows(*this, "out", getOut(), word, false)))
    return failure();
  auto work = cast<SmemType>(getWork().getType());
  constexpr int64_t multiple = 4;
  if (work.getElementType() != word || work.getLayout() != SmemLayout::Linear ||
      work.getRows() != 1 || work.getColumns() % multiple != 0) // (C2)
    return emitOpError("expected work [1, W] of i32, linear, W a multiple of ")
           << multiple << ", got " << work;
  return success();
}

LogicalResult SelectKeepOp::verify() {
  if (failed(
          verifyRows(*this, "values", getValues(), Builder(*this).getF32Type(), false)) || // (C1)
      failed(verifyList(*this, getList())))                                                // (C2)
    return failure();
  auto kernel = (*this)->getParentOfType<KernelOp>();
  int64_t samples = kernel ? kernel.getThreads() * kSelectLongSamples : 0;
  int64_t room = 2 * cast<SmemType>(getList().getType()).getColumns();
  if (room < samples) // (C2)
    return emitOpError("expected a list with room for ") << samples << " samples, got " << room;
  return verifyWork(*this, getWork()); // (C3)
}

LogicalResult SelectHoldOp::verify() {
  if (failed(
          verifyRows(*this, "values", getValues(), Builder(*this).getF32Type(), false)) || // (C1)
      failed(verifyList(*this, getList())))                                                // (C2)
    return failure();
  return verifyWork(*this, getWork()); // (C3)
}

LogicalResult SelectMeetOp::verify() {
  auto lists = cast<MemRefType>(getLists().getType());
  int64_t capacity = cast<SmemType>(getList().getType()).getColumns();
  if (!lists.getElementType().isF32() || lists.getRank() != 3 || lists.getDimSize(1) != 2 ||
      lists.getDimSize(2) != capacity) // (C1)
    return emitOpError("expected lists [rows, 2, ") << capacity << "] of f32, got " << lists;
  if (failed(verifyList(*this, getList()))) // (C2)
    return failure();
  return verifyWork(*this, getWork()); // (C2)
}

LogicalResult SelectCutOp::verify() {
  if (!getList() == !getValues() || !getValues() != !getRow()) // (C1)
    return emitOpError("expected a list, or a row of values");
  if (getInOrder() && !getList()) // (C1)
    return emitOpError("expected a list where they are in order");
  if (getList()
          ? failed(verifyList(*this, getList())) // (C1)
          : failed(verifyRows(*this, "values", getValues(), Builder(*this).getF32Type(), false)))
    return failure();
  return verifyWork(*this, getWork()); // (C2)
}

LogicalResult SelectWriteOp::verify() {
  if (!getList() == !getValues() || !getList() != !getCount()) // (C1)
    return emitOpError("expected a list with a count, or values");
  Builder builder(*this);
  if (getList() ? failed(verifyList(*this, getList())) // (C1)
                : failed(verifyRows(*this, "values", getValues(), builder.getF32Type(), false)))
    return failure();
  if (failed(verifyRows(*this, "out", getOut(), builder.getI32Type(), true))) // (C2)
    return failure();
  int64_t blocks = cast<SmemType>(getPlaces().getType()).getColumns();
  if (failed(verifyTile(*this, "places", getPlaces(), {1, blocks}, builder.getI32Type())) || // (C3)
      failed(verifyTile(*this, "a bitmap", getBitmap(), {1, 4 * blocks}, builder.getI32Type())))
    return failure();
  return verifyWork(*this, getWork()); // (C4)
}

LogicalResult SelectWriteInOrderOp::verify() {
  if (failed(verifyList(*this, getList())) ||                                        // (C1)
      failed(verifyRows(*this, "out", getOut(), Builder(*this).getI32Type(), true))) // (C2)
    return failure();
  return verifyWork(*this, getWork()); // (C3)
}
