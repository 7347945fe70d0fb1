//===- PagedPool.cpp - ragged batches and paged pools in kernels ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Plan/PagedPool.h"

#include "mla/Dialect/KernelAttrs.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;
using cache::Part;

RowRange mlac::mla_to_tile::loadRange(KernelBuilder &b, Value starts, Value position) {
  Value begin = b.loadScalar(starts, position);
  Value end = b.loadScalar(starts, b.add(position, 1));
  return {begin, b.sub(end, begin)};
}

TokenArrays TokenArrays::ofPlan(StepLowering &step) {
  return {step.metadata("req_id_per_token"), step.metadata("query_start_loc"),
          step.metadata("seq_lens")};
}

Value TokenArrays::countKeys(KernelBuilder &b, Value row) const {
  using Predicate = arith::CmpIPredicate;
  Value request = b.loadScalar(requests, row);
  Value begin = b.loadScalar(starts, request), end = b.loadScalar(starts, b.add(request, 1));
  Value behind = b.sub(end, b.add(row, 1)); // the request's tokens behind this one
  Value count = b.maximum(b.sub(b.loadScalar(seqLens, request), behind), b.index(0));
  Value isToken = arith::AndIOp::create(b, arith::CmpIOp::create(b, Predicate::sge, row, begin),
                                        arith::CmpIOp::create(b, Predicate::slt, row, end));
  return b.choose(isToken, count, b.index(0));
}

Value mlac::mla_to_tile::blockTableRow(KernelBuilder &b, Value table, Value request,
                                       Value maxBlocks) {
  return b.view(table, b.mul(request, maxBlocks), {OpFoldResult(maxBlocks)}, {b.fixed(1)});
}

/// The unit of page_stride is the pool's first element.
Value mlac::mla_to_tile::rowsPerPage(StepLowering &step, Value cache) {
  auto type = cast<mla::CacheType>(cache.getType());
  if (cache::hasSections(type.getLayout()))
    return step.constant(type.getPageSize());
  auto pool = cast<MemRefType>(step.cache(cache).getType());
  int64_t unit = pool.getElementTypeBitWidth() / 8;
  return step.divide(step.poolDim(cache, "page_stride"), type.getRowBytes() / unit);
}

Pool Pool::ofPlan(StepLowering &step, Value cache) {
  Pool pool;
  pool.type = cast<mla::CacheType>(cache.getType());
  pool.pages = step.poolDim(cache, "num_pages");
  const cache::Format &format = pool.type.getLayout();
  // The runtime counts page_stride in bytes where a row has several types, which are
  // then no wider than its alignment.
  int64_t unit = 0;
  for (size_t i = 0; i < format.numFields; ++i) {
    Type element = pool.type.getStorageType(format.fields[i].storage);
    if (llvm::any_of(pool.memories, [&](const Memory &known) { return known.element == element; }))
      continue;
    int64_t bytes = element.getIntOrFloatBitWidth() / 8;
    unit = unit ? unit : bytes;
    assert(bytes % unit == 0 && "the first field of a format has the smallest elements");
    pool.memories.push_back({element, step.cacheMemory(cache, element),
                             step.divide(step.poolDim(cache, "page_stride"), bytes / unit)});
  }
  if (format.layerScales > 0)
    pool.layerScales = step.cacheScales(cache);
  return pool;
}

SmallVector<Value> Pool::args() const {
  SmallVector<Value> args{memories[0].buffer, pages, memories[0].pageStride};
  for (const Memory &memory : llvm::drop_begin(memories))
    args.append({memory.buffer, memory.pageStride});
  if (layerScales)
    args.push_back(layerScales);
  return args;
}

Pool Pool::inKernel(ValueRange args) const {
  Pool inner = *this;
  size_t position = 0;
  auto take = [&]() -> Value { return args[position++]; };
  inner.memories[0].buffer = take();
  inner.pages = take();
  inner.memories[0].pageStride = take();
  for (Memory &memory : llvm::drop_begin(inner.memories)) {
    memory.buffer = take();
    memory.pageStride = take();
  }
  if (layerScales)
    inner.layerScales = take();
  for (const Memory &memory : inner.memories) {
    auto stride = cast<BlockArgument>(memory.pageStride);
    auto kernel = cast<tile::KernelOp>(stride.getOwner()->getParentOp());
    // tile.kernel: "a multiple of 16 bytes"
    int64_t elements = cache::kPoolAlignment * 8 / memory.element.getIntOrFloatBitWidth();
    auto divisibility = IntegerAttr::get(IntegerType::get(kernel.getContext(), 64), elements);
    kernel.setArgAttr(stride.getArgNumber(), tile::kDivisibilityAttr, divisibility);
  }
  return inner;
}

int64_t Pool::width(cache::Part part) const {
  const cache::Format &format = type.getLayout();
  return cache::fieldCount(format, cache::findField(format, part), type.getWidths());
}

int64_t Pool::storedWidth(cache::Part part) const {
  const cache::Format &format = type.getLayout();
  size_t index = cache::findField(format, part);
  int64_t bytes = cache::fieldBytes(format, index, type.getWidths());
  return bytes * 8 / type.getStorageType(format.fields[index].storage).getIntOrFloatBitWidth();
}

Pool::Place Pool::find(cache::Part part) const {
  const cache::Format &format = type.getLayout();
  size_t index = cache::findField(format, part);
  const cache::Field &field = format.fields[index];
  Type element = type.getStorageType(field.storage);
  int64_t bytes = element.getIntOrFloatBitWidth() / 8;
  cache::Widths widths = type.getWidths();
  int64_t offset = cache::sectionStart(format, field.section, type.getPageSize(), widths) +
                   cache::fieldOffset(format, index, widths);
  auto isOf = [&](const Memory &known) { return known.element == element; };
  return {llvm::find_if(memories, isOf), offset / bytes,
          cache::sectionBytes(format, field.section, widths) / bytes};
}

Pool::Slot Pool::findSlot(KernelBuilder &b, Value slot) const {
  Value pageSize = b.index(type.getPageSize()), zero = b.index(0);
  Value isInside =
      arith::AndIOp::create(b, arith::CmpIOp::create(b, arith::CmpIPredicate::sge, slot, zero),
                            b.isBelow(slot, b.mul(pages, pageSize)));
  Value safe = b.choose(isInside, slot, zero);
  Value inPage = b.createOrFold<arith::RemUIOp>(safe, pageSize);
  return {isInside, b.createOrFold<arith::DivUIOp>(safe, pageSize), inPage};
}

Value Pool::row(KernelBuilder &b, cache::Part part, Value page, Value inPage) const {
  Place place = find(part);
  Value row = b.add(b.mul(page, place.memory->pageStride), b.mul(inPage, place.rowStride));
  return b.add(row, place.offset);
}

Value Pool::view(KernelBuilder &b, cache::Part part, OpFoldResult first, int64_t width,
                 int64_t stride) const {
  Place place = find(part);
  return b.view(place.memory->buffer, b.extent(b.value(first), place.offset),
                {pages, b.fixed(type.getPageSize()), b.fixed(width)},
                {place.memory->pageStride, b.fixed(place.rowStride), b.fixed(stride)});
}

/// Behind the last page there may be nothing.
Value Pool::countNumbers(StepLowering &step, Value cache) const {
  OpBuilder &plan = step.plan();
  Location loc = cache.getLoc();
  Value others = arith::SubIOp::create(plan, loc, pages, step.constant(1));
  Value ofOthers = arith::MulIOp::create(plan, loc, others, rowsPerPage(step, cache));
  return arith::AddIOp::create(plan, loc, ofOthers, step.constant(type.getPageSize()));
}

Value Pool::viewNumbered(KernelBuilder &b, Part part, Value count) const {
  if (cache::hasSections(type.getLayout()))
    return view(b, part, b.fixed(0), width(part));
  Place place = find(part);
  return b.view(place.memory->buffer, b.fixed(place.offset), {count, b.fixed(width(part))},
                {b.fixed(place.rowStride), b.fixed(1)});
}

Value Pool::viewNumberedScales(KernelBuilder &b, Value count) const {
  return type.getLayout().scaleGroup == 0 ? layerScales : viewNumbered(b, Part::Scale, count);
}

int64_t Pool::findLayerScale(Part part) const {
  const cache::Format &format = type.getLayout();
  return static_cast<int64_t>(cache::layerScale(format, cache::findField(format, part)));
}

Value Pool::loadLayerScale(KernelBuilder &b, Part part) const {
  return memref::LoadOp::create(b, layerScales, b.index(findLayerScale(part)));
}

Value Pool::viewScales(KernelBuilder &b) const {
  if (type.getLayout().scaleGroup == 0)
    return layerScales;
  return view(b, Part::Scale, b.fixed(0), width(Part::Scale));
}
