//===- IndexRows.cpp - keys and queries of an indexer, a row at once ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A row is four tiles at most (RotatedRows.h).
//
// Keys, a program for some tokens:      norm over all tiles, rotation, codes, to the token's slot
// Queries, a program for some heads of a token:      rotation, codes; weight times scale
//
// Nothing is rounded before the codes. Few rows are a program each where it can hold them
// (Rows/RotatedRow.cpp).
//
//===----------------------------------------------------------------------===//

#include "Indexer/TokenRows.h"
#include "Plan/Lowerings.h"
#include "Plan/PagedPool.h"
#include "Rows/Codes.h"
#include "Rows/RotatedRows.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;
using cache::Part;

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

namespace {
class IndexKeys {
public:
  IndexKeys(StepLowering &step, mla::IndexAppendOp op)
      : step(step), op(op), pool(Pool::ofPlan(step, op.getCache())),
        input(step.lookup(op.getInput())), weight(step.lookup(op.getWeight())),
        bias(step.lookup(op.getBias())), table(step.lookup(op.getTable())),
        row(op.getRope(), op.getOffset(), input.size(1)), tileRows(step.shapes.rows) {}
  void launch();

private:
  enum Argument { kInput, kWeight, kBias, kTable, kLength, kPositions, kSlots, kTokens };
  void write(KernelBuilder &b, ValueRange args);
  SmallVector<Value> load(KernelBuilder &b, Value buffer, const TensorRef &ref, int64_t rowStride,
                          ValueRange own, Value first);
  void normalise(KernelBuilder &b, SmallVectorImpl<Value> &tiles, ValueRange own, Value first);
  void store(KernelBuilder &b, const Pool &inner, ArrayRef<Value> tiles, ValueRange own,
             Value first);

  StepLowering &step;
  mla::IndexAppendOp op;
  Pool pool;
  TensorRef input, weight, bias, table;
  RotatedRows row;
  int64_t tileRows;
};
} // namespace

SmallVector<Value> IndexKeys::load(KernelBuilder &b, Value buffer, const TensorRef &ref,
                                   int64_t rowStride, ValueRange own, Value first) {
  int64_t stride = ref.strides.back();
  return row.map([&](const Run &run) {
    Value view =
        b.view(buffer, b.fixed(ref.offset + run.first * stride), {own[kTokens], b.fixed(run.width)},
               {b.fixed(rowStride), b.fixed(run.stride * stride)});
    return b.loadWide(view, {first, b.index(0)}, {tileRows, run.width});
  });
}

/// mla.layer_norm: the variance of distances from the mean.
void IndexKeys::normalise(KernelBuilder &b, SmallVectorImpl<Value> &tiles, ValueRange own,
                          Value first) {
  auto meanOf = [&](llvm::function_ref<Value(Value)> addend) {
    Value sum;
    for (Value tile : tiles) {
      Value part = b.reduceSum(addend(tile));
      sum = sum ? b.addf(sum, part) : part;
    }
    return b.mulf(sum, b.like(sum, 1.0 / static_cast<double>(input.size(1))));
  };
  auto widthOf = [](Value tile) { return cast<RankedTensorType>(tile.getType()).getDimSize(1); };
  Value mean = meanOf([](Value tile) { return tile; });
  for (Value &tile : tiles)
    tile = b.subf(tile, b.broadcast(mean, widthOf(tile)));
  Value variance = meanOf([&](Value tile) { return b.mulf(tile, tile); });
  Value scale = b.rsqrt(b.addf(variance, b.like(variance, op.getEpsilon().convertToDouble())));
  SmallVector<Value> factors = load(b, own[kWeight], weight, 0, own, first),
                     addends = load(b, own[kBias], bias, 0, own, first);
  for (auto [tile, factor, addend] : llvm::zip_equal(tiles, factors, addends))
    tile = b.addf(b.mulf(b.mulf(tile, b.broadcast(scale, widthOf(tile))), factor), addend);
}

/// A negative slot drops the row (paged-cache.md section 5).
void IndexKeys::store(KernelBuilder &b, const Pool &inner, ArrayRef<Value> tiles, ValueRange own,
                      Value first) {
  Value slots = b.view(own[kSlots], b.fixed(0), {OpFoldResult(own[kTokens])}, {b.fixed(1)});
  auto scatter = [&](Value tile, Value to) {
    tile::StoreSlotsOp::create(b, tile, to, slots, first, b.index(0));
  };
  cache::ScaleRule rule = pool.type.getLayout().rule;
  rule.isPowerOfTwo = pool.type.getScaleRule() == mla::ScaleRule::PowerOfTwo;
  Value scale = chooseScales(b, rule, tiles);
  for (auto [tile, run] : llvm::zip_equal(tiles, row.runs))
    scatter(divideToCodes(b, tile, scale),
            inner.view(b, Part::Index, b.fixed(run.first), run.width, run.stride));
  // One element wide: of the tile's equal columns the first is stored.
  scatter(b.broadcast(scale, kWidthMultiple), inner.view(b, Part::Scale, b.fixed(0), 1));
}

void IndexKeys::write(KernelBuilder &b, ValueRange args) {
  b.markRowKernel();
  Pool inner = pool.inKernel(args);
  ValueRange own = args.drop_front(pool.args().size());
  Value first = b.mul(b.programId(0), tileRows);
  SmallVector<Value> tiles = load(b, own[kInput], input, input.strides[0], own, first);
  normalise(b, tiles, own, first);
  TilePair angles = loadTokenAngles(b, {own[kTable], own[kLength], row.half}, own[kPositions],
                                    own[kTokens], first, tileRows);
  row.rotatePairs(b, tiles, angles);
  store(b, inner, tiles, own, first);
}

void IndexKeys::launch() {
  Value tokens = step.value(input.sizes[0]);
  SmallVector<Value> args = pool.args();
  args.append({input.buffer, weight.buffer, bias.buffer, table.buffer, step.value(table.sizes[0]),
               step.metadata("positions"),
               step.poolMetadata(op.getCache(), op.getBatch(), "slot_mapping"), tokens});
  step.launch(
      llvm::formatv("index_append_{0}", input.size(1)).str(),
      {step.ceilDiv(tokens, tileRows), step.constant(1), step.constant(1)}, args,
      [&](KernelBuilder &b, ValueRange inner) { write(b, inner); }, step.chained());
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::IndexAppendOp op) {
  step.forwardCache(op.getResult(), op.getCache());
  lowerByRow(step, op, [&] { IndexKeys(step, op).launch(); });
  return success();
}

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

namespace {
class IndexQueries {
public:
  IndexQueries(StepLowering &step, mla::IndexQueryOp op)
      : step(step), op(op), input(step.lookup(op.getInput())),
        headWeights(step.lookup(op.getHeadWeights())), table(step.lookup(op.getTable())),
        codes(step.allocate(op.getCodes())), weights(step.allocate(op.getWeights())),
        row(op.getRope(), op.getOffset(), input.size(2)), heads(step, input) {}
  void launch();
  IndexQueryOutputs outputs() {
    return {codes, weights,
            cache::ScaleRule{op.getRule() == mla::ScaleRule::PowerOfTwo,
                             static_cast<float>(op.getAmaxFloor().convertToDouble()),
                             static_cast<float>(op.getScaleFloor().convertToDouble())}};
  }

private:
  enum Argument { kInput, kHeadWeights, kTable, kLength, kPositions, kCodes, kWeights, kTokens };
  void write(KernelBuilder &b, ValueRange args);
  void storeWeights(KernelBuilder &b, ValueRange args, Value scale);
  Value view(KernelBuilder &b, ValueRange args, Argument buffer, const TensorRef &ref,
             const Run &run);

  StepLowering &step;
  mla::IndexQueryOp op;
  TensorRef input, headWeights, table, codes, weights;
  RotatedRows row;
  TokenRows heads;
};
} // namespace

/// Of the program's token: [heads, run].
Value IndexQueries::view(KernelBuilder &b, ValueRange args, Argument buffer, const TensorRef &ref,
                         const Run &run) {
  return heads.view(b, args[buffer], ref, args[kTokens], b.index(run.first), run.width, run.stride);
}

/// The scale of a head's codes is in its weight: relu commutes with it.
void IndexQueries::storeWeights(KernelBuilder &b, ValueRange args, Value scale) {
  auto rowOf = [&](Argument buffer, const TensorRef &ref) {
    Value base = b.mul(b.programId(0), ref.strides[0]);
    return b.view(args[buffer], b.extent(base, ref.offset), {b.fixed(input.size(1))},
                  {b.fixed(ref.strides[1])});
  };
  Value first = heads.first(b);
  Value x = b.loadWide(rowOf(kHeadWeights, headWeights), {first}, {heads.tileRows});
  Value scaled = b.mulf(b.mulf(x, b.like(x, op.getFactor().convertToDouble())), scale);
  b.store(scaled, rowOf(kWeights, weights), {first});
}

void IndexQueries::write(KernelBuilder &b, ValueRange args) {
  b.markRowKernel();
  Value first = heads.first(b), zero = b.index(0);
  SmallVector<Value> tiles = row.map([&](const Run &run) {
    return b.loadWide(view(b, args, kInput, input, run), {first, zero},
                      {heads.tileRows, run.width});
  });
  Value position = b.loadScalar(args[kPositions], b.programId(0));
  row.rotatePairs(b, tiles,
                  loadPositionAngles(b, {args[kTable], args[kLength], row.half}, position, zero,
                                     b.fixed(input.size(1)), {heads.tileRows, row.half}));
  Value scale = chooseScales(b, outputs().rule, tiles);
  for (auto [tile, run] : llvm::zip_equal(tiles, row.runs))
    b.store(divideToCodes(b, tile, scale), view(b, args, kCodes, codes, run), {first, zero});
  storeWeights(b, args, scale);
}

void IndexQueries::launch() {
  step.launch(
      llvm::formatv("index_query_{0}x{1}", input.size(1), input.size(2)).str(),
      heads.grid(step, /*blocks=*/1),
      {input.buffer, headWeights.buffer, table.buffer, step.value(table.sizes[0]),
       step.metadata("positions"), codes.buffer, weights.buffer, heads.count()},
      [&](KernelBuilder &b, ValueRange args) { write(b, args); }, step.chained());
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::IndexQueryOp op) {
  IndexQueries queries(step, op);
  lowerByRow(step, op, queries.outputs(), [&] { queries.launch(); });
  return success();
}
