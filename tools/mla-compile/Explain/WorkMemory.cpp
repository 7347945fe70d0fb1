//===- WorkMemory.cpp - what a launch reads and writes ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Explain/WorkCounter.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::work;

/// `elements` neighbours from `element` on.
void Counter::touch(const View &view, int64_t element, int64_t elements, bool isWrite) {
  int64_t begin = (view.offset + element) * view.elementBytes;
  int64_t end = begin + elements * view.elementBytes;
  if (elements <= 0 || begin < 0)
    return;
  if (end > kMostBytes) {
    failure = "an address of " + std::to_string(end) + " bytes behind its buffer's";
    return;
  }
  // One buffer may be two arguments.
  (isWrite ? writes : reads)[launch.arguments[view.buffer].buffer].mark(begin, end);
}

void Counter::touchRows(const View &view, int64_t row, int64_t rows, int64_t column,
                        int64_t columns, bool isWrite) {
  rows = std::min(rows, view.sizes[0] - row);
  columns = std::min(columns, view.sizes[1] - column);
  if (columns <= 0)
    return;
  int64_t width = (columns - 1) * view.strides[1] + 1;
  for (int64_t i = 0; i < rows; ++i)
    touch(view, (row + i) * view.strides[0] + column * view.strides[1], width, isWrite);
}

/// Tokens [first, end) of a pool [pages, page size, columns].
void Counter::touchPaged(const View &pool, const View &table, int64_t first, int64_t end,
                         int64_t column, int64_t columns) {
  columns = std::min(columns, pool.sizes[2] - column);
  for (int64_t token = first; token < end; ++token) {
    std::optional<int64_t> page = readInteger(table, token / pool.sizes[1]);
    if (!page) {
      touchLoosely(static_cast<double>(columns * pool.elementBytes), /*isWrite=*/false);
      continue;
    }
    touch(pool,
          *page * pool.strides[0] + token % pool.sizes[1] * pool.strides[1] +
              column * pool.strides[2],
          columns, /*isWrite=*/false);
  }
}

/// An element of the step's metadata; nothing of other memory. Not counted: lists of a few
/// words that every program reads.
std::optional<int64_t> Counter::readInteger(const View &list, int64_t index) {
  int buffer = launch.arguments[list.buffer].buffer;
  ArrayRef<uint8_t> bytes = buffers[buffer].metadata;
  int64_t at =
      (list.offset + index * (list.strides.empty() ? 1 : list.strides[0])) * list.elementBytes;
  if (at < 0 || at + list.elementBytes > static_cast<int64_t>(bytes.size()))
    return std::nullopt;
  int64_t value = 0;
  std::memcpy(&value, bytes.data() + at, list.elementBytes);
  return llvm::SignExtend64(value, 8 * list.elementBytes);
}

std::optional<int64_t> Counter::resolve(OpFoldResult value) {
  if (auto attribute = dyn_cast<Attribute>(value))
    return cast<IntegerAttr>(attribute).getInt();
  return number(cast<Value>(value));
}

bool Counter::runReinterpret(memref::ReinterpretCastOp op) {
  Known result{Known::Memory, 0, at(op.getSource()).view};
  std::optional<int64_t> offset = resolve(op.getMixedOffsets().front());
  if (!offset)
    return fail(*op, "an offset that only the device knows");
  result.view.offset = *offset;
  result.view.sizes.clear();
  result.view.strides.clear();
  for (OpFoldResult size : op.getMixedSizes()) {
    std::optional<int64_t> known = resolve(size);
    if (!known)
      return fail(*op, "a size that only the device knows");
    result.view.sizes.push_back(*known);
  }
  for (OpFoldResult stride : op.getMixedStrides()) {
    std::optional<int64_t> known = resolve(stride);
    if (!known)
      return fail(*op, "a stride that only the device knows");
    result.view.strides.push_back(*known);
  }
  at(op.getResult()) = std::move(result);
  return true;
}

bool Counter::runLoadScalar(memref::LoadOp op) {
  at(op.getResult()) = {};
  int64_t index = 0;
  const View &view = at(op.getMemRef()).view;
  for (auto [dim, value] : llvm::enumerate(op.getIndices())) {
    std::optional<int64_t> known = number(value);
    if (!known)
      return true;
    index += *known * (view.strides.empty() ? 1 : view.strides[dim]);
  }
  if (std::optional<int64_t> value =
          readInteger({view.buffer, view.offset, {}, {}, view.elementBytes}, index))
    set(op.getResult(), *value);
  return true;
}

bool Counter::runLoad(tile::LoadOp op) {
  const View &view = at(op.getView()).view;
  ArrayRef<int64_t> shape = cast<RankedTensorType>(op.getResult().getType()).getShape();
  SmallVector<int64_t, 2> offsets, extent;
  for (auto [dim, value] : llvm::enumerate(op.getOffsets())) {
    std::optional<int64_t> offset = number(value);
    if (!offset)
      return fail(*op, "a place that only the device knows");
    offsets.push_back(*offset);
    extent.push_back(std::clamp<int64_t>(view.sizes[dim] - *offset, 0, shape[dim]));
  }
  if (offsets.size() == 1)
    touch(view, offsets[0] * view.strides[0], (extent[0] - 1) * view.strides[0] + 1, false);
  else
    touchRows(view, offsets[0], extent[0], offsets[1], extent[1], false);
  setTile(op.getResult(), extent);
  return !failure;
}

bool Counter::runLoadRows(tile::LoadRowsOp op) {
  const View &view = at(op.getView()).view, &list = at(op.getIndices()).view;
  ArrayRef<int64_t> shape = cast<RankedTensorType>(op.getResult().getType()).getShape();
  std::optional<int64_t> first = number(op.getFirst()), column = number(op.getColumn());
  if (!first || !column)
    return fail(*op, "a place that only the device knows");
  int64_t count = list.sizes.empty() ? shape[0] : std::min(shape[0], list.sizes[0] - *first);
  int64_t columns = std::min(shape[1], view.sizes.back() - *column);
  bool isOfPages = view.sizes.size() == 3;
  for (int64_t i = 0; i < count; ++i) {
    std::optional<int64_t> row = readInteger(list, *first + i);
    if (!row || isOfPages)
      touchLoosely(static_cast<double>(columns * view.elementBytes), false);
    else if (*row >= 0)
      touchRows(view, *row, 1, *column, columns, false);
  }
  setTile(op.getResult(), {std::max<int64_t>(count, 0), columns});
  return !failure;
}

bool Counter::runLoadPaged(tile::LoadPagedOp op) {
  std::optional<int64_t> token = number(op.getToken()), column = number(op.getColumn()),
                         limit = number(op.getLimit());
  if (!token || !column || !limit)
    return fail(*op, "a place that only the device knows");
  ArrayRef<int64_t> shape = cast<RankedTensorType>(op.getResult().getType()).getShape();
  const View &pool = at(op.getPool()).view;
  int64_t end = std::min(*token + shape[0], *limit);
  touchPaged(pool, at(op.getTable()).view, *token, end, *column, shape[1]);
  setTile(op.getResult(),
          {std::max<int64_t>(end - *token, 0), std::min(shape[1], pool.sizes[2] - *column)});
  return !failure;
}

bool Counter::runLoadElements(tile::LoadElementsOp op) {
  auto type = cast<RankedTensorType>(op.getResult().getType());
  touchLoosely(static_cast<double>(type.getNumElements()) * at(op.getView()).view.elementBytes,
               false);
  setTile(op.getResult(), type.getShape());
  return true;
}

bool Counter::runStore(tile::StoreOp op) {
  noteStored(op);
  const View &view = at(op.getView()).view;
  SmallVector<int64_t, 2> shape(cast<RankedTensorType>(op.getValue().getType()).getShape());
  if (op.getTransposed())
    std::swap(shape[0], shape[1]);
  SmallVector<int64_t, 2> offsets;
  for (Value value : op.getOffsets()) {
    std::optional<int64_t> offset = number(value);
    if (!offset)
      return fail(*op, "a place that only the device knows");
    offsets.push_back(*offset);
  }
  if (offsets.size() > 1) {
    touchRows(view, offsets[0], shape[0], offsets[1], shape[1], true);
  } else {
    int64_t count = std::min(shape[0], view.sizes[0] - offsets[0]);
    touch(view, offsets[0] * view.strides[0], (count - 1) * view.strides[0] + 1, true);
  }
  return !failure;
}

/// Rows of an attention's result are those of the view that they are stored to.
void Counter::noteStored(tile::StoreOp op) {
  const View &view = at(op.getView()).view;
  std::optional<int64_t> first = number(op.getOffsets().front());
  if (!first || op.getTransposed())
    return;
  int64_t rows = cast<RankedTensorType>(op.getValue().getType()).getDimSize(0);
  rows = std::clamp<int64_t>(view.sizes[0] - *first, 0, rows);
  for (int each = at(op.getValue()).attention; each >= 0; each = attentions[each].before)
    attentions[each].stored = std::max(attentions[each].stored, rows);
}

bool Counter::runStoreSlots(tile::StoreSlotsOp op) {
  std::optional<int64_t> first = number(op.getFirst()), column = number(op.getColumn());
  if (!first || !column)
    return fail(*op, "a place that only the device knows");
  const View &pool = at(op.getPool()).view, &slots = at(op.getSlots()).view;
  ArrayRef<int64_t> shape = cast<RankedTensorType>(op.getValue().getType()).getShape();
  int64_t columns = std::min(shape[1], pool.sizes[2] - *column);
  int64_t count = slots.sizes.empty() ? shape[0] : std::min(shape[0], slots.sizes[0] - *first);
  for (int64_t i = 0; i < count; ++i) {
    std::optional<int64_t> slot = readInteger(slots, *first + i);
    if (!slot)
      return fail(*op, "slots that only the device knows");
    if (*slot >= 0)
      touch(pool,
            *slot / pool.sizes[1] * pool.strides[0] + *slot % pool.sizes[1] * pool.strides[1] +
                *column * pool.strides[2],
            columns, true);
  }
  return !failure;
}

/// A row of values is read where more are there than are selected.
bool Counter::runTopK(tile::TopKOp op) {
  const View &scores = at(op.getValues()).view, &out = at(op.getOut()).view;
  std::optional<int64_t> row = number(op.getRow()), length = number(op.getLength());
  if (!row || !length)
    return fail(*op, "a row that only the device knows");
  if (*length > out.sizes[1])
    touchRows(scores, *row, 1, 0, *length, false);
  touchRows(out, *row, 1, 0, out.sizes[1], true);
  return !failure;
}
