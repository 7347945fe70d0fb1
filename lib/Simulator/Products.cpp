//===- Products.cpp - asynchronous matrix products ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Machine.h"

using namespace mlac::simulator;
using namespace mlir;
using namespace mlir::sm90;

namespace {
/// Operands of one product, as of its issue.
struct Product {
  int64_t columns, depth;
  std::pair<int64_t, int64_t> own;
  std::shared_ptr<Tile> lhsTile; ///< or null
  Place lhs, rhs;
  bool transposeLhs, transposeRhs;
  std::shared_ptr<Tile> acc, result;
};
} // namespace

static void transpose(SmallVectorImpl<float> &values, int64_t rows, int64_t columns) {
  SmallVector<float> result(values.size());
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      result[column * rows + row] = values[row * columns + column];
  values = std::move(result);
}

/// result = acc + lhs * rhs for the own columns; the others stay as they are.
static void multiply(const SharedMemory &memory, const Product &product) {
  SmallVector<float> lhs, rhs;
  if (product.lhsTile)
    lhs.assign(product.lhsTile->reals.begin(), product.lhsTile->reals.end());
  else
    memory.load(product.lhs, lhs);
  if (product.transposeLhs)
    transpose(lhs, product.depth, kTileRows);
  memory.load(product.rhs, rhs);
  if (product.transposeRhs)
    transpose(rhs, product.columns, product.depth);
  std::vector<float> &result = product.result->reals;
  result = product.acc->reals;
  int64_t columns = product.columns, first = product.own.first;
  for (int64_t row = 0; row < kTileRows; ++row) {
    float *__restrict sums = &result[row * columns + first];
    for (int64_t k = 0; k < product.depth; ++k) {
      float factor = lhs[row * product.depth + k];
      const float *__restrict values = &rhs[k * columns + first];
      for (int64_t column = 0; column < product.own.second - first; ++column)
        sums[column] += factor * values[column];
    }
  }
}

/// Registers: fenced, and not results of something else in flight.
Step Machine::checkOperands(Warpgroup &warpgroup, WgmmaOp op, uint64_t sequence) {
  TileRef &acc = getAs<TileRef>(warpgroup, op.getAcc());
  if (!warpgroup.isGroupFenced && acc.wgmma == 0) // else it goes on with a group in flight
    return fail(Defect::MissingWgmmaFence, op, "begins a group without a wgmma_fence");
  warpgroup.isGroupFenced = true;
  if (acc.wgmma == 0 && !acc.tile->isConstant && acc.tile->usedBy > warpgroup.products.waited)
    return fail(Defect::MissingWait, op, "adds to registers that a wgmma in flight still uses");
  for (mlir::Value operand : {op.getLhs(), op.getAcc()}) {
    auto *reference = std::get_if<TileRef>(&get(warpgroup, operand));
    if (!reference)
      continue;
    Tile &tile = *reference->tile;
    if (operand == op.getLhs() && reference->wgmma > 0)
      return fail(Defect::MissingWait, op,
                  "takes the result of a wgmma in flight as its left side");
    if (reference->wgmma == 0 && !tile.isConstant && tile.writtenAt > warpgroup.fencedAt)
      return fail(Defect::MissingWgmmaFence, op,
                  "reads registers that were written after the last wgmma_fence",
                  operand.getDefiningOp(), "the value");
    if (!tile.isConstant)
      tile.usedBy = sequence;
  }
  return Step::Advanced;
}

/// Shared tiles: rows 16w.. of lhs are read by warp w, all of the own columns of
/// rhs by every warp.
Step Machine::readOperands(Warpgroup &warpgroup, WgmmaOp op, uint64_t sequence,
                           std::pair<int64_t, int64_t> own) {
  constexpr int64_t chunkElements = kCellBytes / 2, warpRows = kTileRows / kWarps;
  auto read = [&](const Place &place, const SharedMemory::Range &range, unsigned warps) {
    if (!isInside(place))
      return fail(Defect::OutOfBounds, op, "reaches beyond the kernel's shared memory");
    Accessor accessor = makeAccessor(warpgroup, op, Unit::Wgmma, warps);
    accessor.access.count = sequence;
    return check(memory->read(place, range, accessor), op, place);
  };
  if (auto *lhs = std::get_if<Place>(&get(warpgroup, op.getLhs())))
    for (int64_t warp = 0; warp < kWarps; ++warp) {
      SharedMemory::Range range{warp * warpRows, (warp + 1) * warpRows, 0,
                                SharedMemory::getChunks(*lhs)};
      if (op.getTransposeLhs())
        range = {0, lhs->type.getRows(), warp * warpRows / chunkElements,
                 (warp + 1) * warpRows / chunkElements};
      if (read(*lhs, range, 1 << warp) == Step::Failed)
        return Step::Failed;
    }
  const Place &rhs = getAs<Place>(warpgroup, op.getRhs());
  SharedMemory::Range range{0, rhs.type.getRows(), own.first / chunkElements,
                            llvm::divideCeilSigned(own.second, chunkElements)};
  if (op.getTransposeRhs())
    range = {own.first, own.second, 0, SharedMemory::getChunks(rhs)};
  return read(rhs, range, (1 << kWarps) - 1);
}

Step Machine::runWgmma(Warpgroup &warpgroup, WgmmaOp op) {
  uint64_t sequence = ++warpgroup.products.issued;
  auto own = getOwnColumns(warpgroup, op.getResult().getType());
  if (checkOperands(warpgroup, op, sequence) == Step::Failed ||
      readOperands(warpgroup, op, sequence, own) == Step::Failed)
    return Step::Failed;
  auto product = std::make_shared<Product>();
  product->columns = cast<RankedTensorType>(op.getResult().getType()).getDimSize(1);
  product->depth = op.getDepth();
  product->own = own;
  const Value &lhs = get(warpgroup, op.getLhs());
  if (auto *tile = std::get_if<TileRef>(&lhs))
    product->lhsTile = tile->tile;
  else
    product->lhs = std::get<Place>(lhs);
  product->rhs = getAs<Place>(warpgroup, op.getRhs());
  product->transposeLhs = op.getTransposeLhs();
  product->transposeRhs = op.getTransposeRhs();
  product->acc = getAs<TileRef>(warpgroup, op.getAcc()).tile;
  product->result = std::make_shared<Tile>();
  set(warpgroup, op.getResult(), TileRef{product->result, sequence});
  warpgroup.products.pending.push_back({op, sequence, false, [product, this]() -> Step {
                                          multiply(*memory, *product);
                                          return Step::Advanced;
                                        }});
  return Step::Advanced;
}

Step Machine::runWgmmaWait(Warpgroup &warpgroup, WgmmaWaitOp op) {
  if (waitGroups(warpgroup, warpgroup.products, Unit::Wgmma, op.getPending()) == Step::Failed)
    return Step::Failed;
  for (auto [accumulator, result] : llvm::zip(op.getAccumulators(), op.getResults())) {
    TileRef reference = getAs<TileRef>(warpgroup, accumulator);
    if (reference.wgmma <= warpgroup.products.waited)
      reference.wgmma = 0;
    set(warpgroup, result, reference);
  }
  return Step::Advanced;
}
