//===- RotatedRow.cpp - norm and rotation of whole rows ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program has a row of a token, or of one of its heads, or a few of them. A row is four tiles at
// most (RotatedRows.h), each laid out as RowKernel.h says, in equally many columns:
//
//     first elements of the pairs | second ones | channels in front | behind
//
//     norm over all tiles, where there is one
//     rotation of the first two
//     to a tensor; or to the token's slot in the pool's format; or as codes, with the head's weight
//
// Rows that nothing else reads are rotated in place: channels that pass through stay where they
// are.
//
// Few rows are as many programs as there are rows: they are latency, not bytes.
//
//===----------------------------------------------------------------------===//

#include "Plan/Limits.h"
#include "Plan/PagedPool.h"
#include "Rows/Codes.h"
#include "Rows/RotatedRows.h"
#include "Rows/RowKernel.h"

#include "mla/Dialect/Mla/IR/TokenAngles.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/Support/FormatVariadic.h"

#include <numeric>
#include <variant>

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;

namespace {
/// Of rows, in f32: distances from the mean, divided by their deviation (mla.layer_norm).
struct LayerNorm {
  TensorRef weight, bias;
  double epsilon;
};

/// The pool that rows go to, at their tokens' slots; rounded to its element type before they are
/// codes, or not at all.
struct PoolTarget {
  Value cache, batch;
  bool isRounded;

  cache::Part part() const {
    return cast<mla::CacheType>(cache.getType()).getFields().front().part;
  }
};

/// Where the input is: of `row` only the pairs are read and written.
struct InPlace {};

/// Codes of heads' rows, whose scales are factors of the heads' weights (mla.index_query).
struct QueryTarget {
  TensorRef codes, weights, headWeights;
  double factor;
  cache::ScaleRule rule;
};

/// What an operation says of its rows.
struct RotatedRowSpec {
  TensorRef input; ///< [T, D] or [T, N, D]
  std::variant<std::monostate, RmsNorm, LayerNorm> norm = {};
  TensorRef table;
  RotatedRows row;
  int64_t every = 1;
  bool isByToken = false; ///< whether the table has a row for each token
  std::variant<TensorRef, InPlace, PoolTarget, QueryTarget> target; ///< a tensor as the input

  const RmsNorm *rms() const { return std::get_if<RmsNorm>(&norm); }
  const LayerNorm *layer() const { return std::get_if<LayerNorm>(&norm); }
  const TensorRef *output() const { return std::get_if<TensorRef>(&target); }
  const PoolTarget *pool() const { return std::get_if<PoolTarget>(&target); }
  const QueryTarget *query() const { return std::get_if<QueryTarget>(&target); }
  int64_t width() const { return input.size(input.rank() - 1); }
};

class RotatedRow {
public:
  RotatedRow(StepLowering &step, RotatedRowSpec rows)
      : step(step), spec(std::move(rows)), columns(foldedColumns(step.shapes, spec.row)),
        hasHeads(spec.input.rank() == 3) {}
  static int64_t foldedColumns(const TileShapes &shapes, const RotatedRows &row) {
    return shapes.foldedColumns(
        llvm::map_to_vector(row.runs, [](const Run &run) { return run.width; }));
  }
  /// Of many rows several together, or what `many` launches.
  void launch(llvm::function_ref<void()> many = nullptr);
  /// Rows of heads, and of the same tokens those of `key`: one launch, unless tokens are many.
  void launchWith(RotatedRow &key);

private:
  enum Argument { kInput, kFactors, kAddends, kTable, kLength, kPositions, kTokens, kTarget };
  /// A row on its way.
  struct Loaded {
    Value token, head, slot;
    SmallVector<Value> tiles;
    TilePair angles;
  };
  /// A tile for each of a row's, or none.
  struct Weights {
    SmallVector<Value> factors, addends;
  };
  SmallVector<Value> args();
  std::string name() const;
  void launchTogether(int64_t together);
  void launchTogether(int64_t together, RotatedRow &key);
  void write(KernelBuilder &b, ValueRange args, int64_t together);
  RowKernel kernelOf(KernelBuilder &b, const Run &run, int64_t stride) const {
    return RowKernel(step, b, run.width, run.stride * stride, columns);
  }
  RowKernel wholeTile(KernelBuilder &b) const { return kernelOf(b, spec.row.runs.front(), 1); }
  Value baseOf(KernelBuilder &b, const TensorRef &ref, const Loaded &row) const;
  SmallVector<Value> loadTiles(KernelBuilder &b, Value buffer, Value base, const TensorRef &ref);
  TilePair loadAngles(KernelBuilder &b, ValueRange args, Value token);
  Loaded load(KernelBuilder &b, ValueRange args, Value token, Value head);
  Weights loadWeights(KernelBuilder &b, ValueRange args);
  Value factorOf(KernelBuilder &b, SmallVectorImpl<Value> &tiles) const;
  void normalise(KernelBuilder &b, const Weights &weights, SmallVectorImpl<Value> &tiles) const;
  Value scaleOf(KernelBuilder &b, const cache::ScaleRule &rule, ArrayRef<Value> tiles) const;
  void store(KernelBuilder &b, ValueRange args, const Loaded &row);
  void storeTiles(KernelBuilder &b, ArrayRef<Value> tiles, Value buffer, const TensorRef &ref,
                  const Loaded &row);
  void append(KernelBuilder &b, ValueRange args, Value slot, SmallVector<Value> tiles);
  void storeQuery(KernelBuilder &b, ValueRange args, const Loaded &row, ArrayRef<Value> tiles);

  StepLowering &step;
  RotatedRowSpec spec;
  int64_t columns; // of a tile
  bool hasHeads;
};
} // namespace

/// Whether `op` alone reads its input, and nothing decides where its result lies.
static bool canRotateInPlace(mla::RopeOp op) {
  Operation *maker = op.getInput().getDefiningOp();
  bool isOwn = maker && op.getInput().hasOneUse() && maker->getBlock() == op->getBlock() &&
               op.getInput().getType() == op.getType() &&
               !isa<tensor::ExtractSliceOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp>(maker);
  return isOwn && llvm::none_of(op->getUsers(), [&](Operation *user) {
           return user->getBlock() != op->getBlock() ||
                  isa<func::ReturnOp, scf::YieldOp, scf::ForOp, mla::YieldOp, mla::JoinPartsOp>(
                      user);
         });
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

Value RotatedRow::baseOf(KernelBuilder &b, const TensorRef &ref, const Loaded &row) const {
  Value base = b.mul(row.token, ref.strides[0]);
  return row.head ? b.add(base, b.mul(row.head, ref.strides[1])) : base;
}

SmallVector<Value> RotatedRow::loadTiles(KernelBuilder &b, Value buffer, Value base,
                                         const TensorRef &ref) {
  int64_t stride = ref.strides.back();
  return spec.row.map([&](const Run &run) {
    return kernelOf(b, run, stride).load(buffer, base, ref.offset + run.first * stride);
  });
}

/// Of a token's position, or of the first one of the tokens that its row stands for; or the
/// token's.
TilePair RotatedRow::loadAngles(KernelBuilder &b, ValueRange args, Value token) {
  AngleTable table = AngleTable::of(spec.table, args[kTable], args[kLength], spec.row.half);
  Value position = spec.isByToken ? token : b.loadScalar(args[kPositions], token);
  if (spec.every > 1)
    position = b.mul(b.divNarrow(position, b.index(spec.every)), spec.every);
  Value base = b.mul(position, 2 * spec.row.half);
  RowKernel row = kernelOf(b, {0, spec.row.half, 1}, table.pairStride());
  return {row.load(table.buffer, base, 0), row.load(table.buffer, base, table.sineOffset())};
}

RotatedRow::Loaded RotatedRow::load(KernelBuilder &b, ValueRange args, Value token, Value head) {
  Loaded row{token, head, {}, {}, {}};
  if (spec.pool())
    row.slot = b.loadScalar(args.back(), token);
  row.tiles = loadTiles(b, args[kInput], baseOf(b, spec.input, row), spec.input);
  row.angles = loadAngles(b, args, token);
  return row;
}

RotatedRow::Weights RotatedRow::loadWeights(KernelBuilder &b, ValueRange args) {
  Value zero = b.index(0);
  if (const RmsNorm *norm = spec.rms(); norm && norm->gamma.buffer)
    return {loadTiles(b, args[kFactors], zero, norm->gamma), {}};
  if (const LayerNorm *norm = spec.layer())
    return {loadTiles(b, args[kFactors], zero, norm->weight),
            loadTiles(b, args[kAddends], zero, norm->bias)};
  return {};
}

//===----------------------------------------------------------------------===//
// One row
//===----------------------------------------------------------------------===//

/// Combines tiles of one shape, element by element.
static Value join(ArrayRef<Value> tiles, llvm::function_ref<Value(Value, Value)> combine) {
  return std::accumulate(tiles.begin() + 1, tiles.end(), tiles.front(), combine);
}

/// What each element is multiplied by; a layer's norm subtracts the mean from them here.
Value RotatedRow::factorOf(KernelBuilder &b, SmallVectorImpl<Value> &tiles) const {
  int64_t width = spec.width();
  auto sum = [&](ArrayRef<Value> parts) {
    return wholeTile(b).sum(join(parts, [&](Value x, Value y) { return b.addf(x, y); }));
  };
  if (spec.layer()) {
    Value total = sum(tiles);
    Value mean =
        wholeTile(b).broadcast(b.mulf(total, b.like(total, 1.0 / static_cast<double>(width))));
    // Behind the row tiles have zeros, which are some distance from the mean.
    for (auto [tile, run] : llvm::zip_equal(tiles, spec.row.runs)) {
      ArrayRef<int64_t> shape = cast<RankedTensorType>(tile.getType()).getShape();
      Value rows = b.constantI32(shape, static_cast<int32_t>(run.width / columns));
      Value isInside = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, b.iota(0, shape), rows);
      tile = b.select(isInside, b.subf(tile, mean), b.like(tile, 0));
    }
  }
  auto squares = llvm::map_to_vector(tiles, [&](Value tile) { return b.mulf(tile, tile); });
  RmsNorm norm = spec.rms() ? *spec.rms() : RmsNorm{{}, {}, spec.layer()->epsilon, 1};
  return rmsScale(b, sum(squares), width, norm);
}

void RotatedRow::normalise(KernelBuilder &b, const Weights &weights,
                           SmallVectorImpl<Value> &tiles) const {
  if (!spec.rms() && !spec.layer())
    return;
  Value factor = wholeTile(b).broadcast(factorOf(b, tiles));
  for (auto [index, tile] : llvm::enumerate(tiles)) {
    tile = b.mulf(tile, factor);
    if (!weights.factors.empty())
      tile = b.mulf(tile, weights.factors[index]);
    if (!weights.addends.empty())
      tile = b.addf(tile, weights.addends[index]);
  }
}

/// The one scale of a row's codes. Behind the row tiles have zeros.
Value RotatedRow::scaleOf(KernelBuilder &b, const cache::ScaleRule &rule,
                          ArrayRef<Value> tiles) const {
  auto sizes = llvm::map_to_vector(tiles, [&](Value tile) { return b.zeroNan(b.absf(tile)); });
  Value largest = join(sizes, [&](Value x, Value y) { return b.maxf(x, y); });
  return scalesOfLargest(b, rule, wholeTile(b).most(largest));
}

/// A slot outside of the pool drops the row (paged-cache.md section 5).
void RotatedRow::append(KernelBuilder &b, ValueRange args, Value slot, SmallVector<Value> tiles) {
  const PoolTarget &target = *spec.pool();
  Pool pool = Pool::ofPlan(step, target.cache).inKernel(args.drop_front(kTarget));
  Pool::Slot place = pool.findSlot(b, slot);
  Value base = pool.row(b, target.part(), place.page, place.inPage);
  if (pool.type.isQuantized()) {
    if (target.isRounded)
      for (Value &tile : tiles)
        tile = b.widen(b.narrow(tile, pool.type.getElement()));
    cache::ScaleRule rule = pool.type.getLayout().rule;
    rule.isPowerOfTwo = pool.type.getScaleRule() == mla::ScaleRule::PowerOfTwo;
    Value scale = scaleOf(b, rule, tiles);
    for (Value &tile : tiles)
      tile = divideToCodes(b, tile, scale);
    wholeTile(b).storeOneIf(place.isInside, scale, pool.find(cache::Part::Scale).memory->buffer,
                            pool.row(b, cache::Part::Scale, place.page, place.inPage));
  }
  Value memory = pool.find(target.part()).memory->buffer;
  for (auto [tile, run] : llvm::zip_equal(tiles, spec.row.runs))
    kernelOf(b, run, 1).storeIf(place.isInside, tile, memory, base, run.first);
}

void RotatedRow::storeTiles(KernelBuilder &b, ArrayRef<Value> tiles, Value buffer,
                            const TensorRef &ref, const Loaded &row) {
  Value base = baseOf(b, ref, row);
  int64_t stride = ref.strides.back();
  for (auto [tile, run] : llvm::zip_equal(tiles, spec.row.runs))
    kernelOf(b, run, stride).store(tile, buffer, base, ref.offset + run.first * stride);
}

/// The scale of a head's codes is in its weight: relu commutes with it.
void RotatedRow::storeQuery(KernelBuilder &b, ValueRange args, const Loaded &row,
                            ArrayRef<Value> tiles) {
  const QueryTarget &query = *spec.query();
  Value scale = scaleOf(b, query.rule, tiles);
  auto codes =
      llvm::map_to_vector(tiles, [&](Value tile) { return divideToCodes(b, tile, scale); });
  storeTiles(b, codes, args[kTarget], query.codes, row);
  auto viewOf = [&](Value buffer, const TensorRef &ref) {
    return b.view(buffer, b.extent(baseOf(b, ref, row), ref.offset), {b.fixed(1), b.fixed(1)},
                  {b.fixed(1), b.fixed(1)});
  };
  SmallVector<Value, 2> first = {b.index(0), b.index(0)};
  Value x =
      b.loadWide(viewOf(args[kTarget + 2], query.headWeights), first, {step.shapes.rows, columns});
  Value weight = b.mulf(b.mulf(x, b.like(x, query.factor)), wholeTile(b).broadcast(scale));
  b.store(weight, viewOf(args[kTarget + 1], query.weights), first);
}

void RotatedRow::store(KernelBuilder &b, ValueRange args, const Loaded &row) {
  SmallVector<Value> tiles = row.tiles;
  spec.row.rotatePairs(b, tiles, row.angles);
  if (spec.pool())
    return append(b, args, row.slot, std::move(tiles));
  if (spec.query())
    return storeQuery(b, args, row, tiles);
  // The input's argument itself: two of one buffer may be taken for two buffers.
  if (const TensorRef *output = spec.output())
    return storeTiles(b, tiles, args[kTarget], *output, row);
  storeTiles(b, tiles, args[kInput], spec.input, row);
}

/// Loads of all rows are in flight together. Behind the last row the last one again, with the same
/// result.
void RotatedRow::write(KernelBuilder &b, ValueRange args, int64_t together) {
  b.markRowKernel();
  Weights weights = loadWeights(b, args);
  Value token = b.programId(0), head = hasHeads ? b.programId(1) : Value();
  Value &own = hasHeads ? head : token;
  Value begin = b.mul(own, together);
  Value last = hasHeads ? b.index(spec.input.size(1) - 1) : b.sub(args[kTokens], b.index(1));
  SmallVector<Loaded> rows;
  for (int64_t i = 0; i < together; ++i) {
    own = together == 1 ? begin : b.minimum(b.add(begin, i), last);
    rows.push_back(load(b, args, token, head));
  }
  for (Loaded &row : rows) {
    normalise(b, weights, row.tiles);
    store(b, args, row);
  }
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

SmallVector<Value> RotatedRow::args() {
  Value none = spec.input.buffer, factors = none, addends = none;
  if (const RmsNorm *norm = spec.rms(); norm && norm->gamma.buffer)
    factors = norm->gamma.buffer;
  if (const LayerNorm *norm = spec.layer())
    factors = norm->weight.buffer, addends = norm->bias.buffer;
  SmallVector<Value> args = {spec.input.buffer,
                             factors,
                             addends,
                             spec.table.buffer,
                             step.value(spec.table.sizes[0]),
                             step.metadata("positions"),
                             step.value(spec.input.sizes[0])};
  if (const TensorRef *output = spec.output())
    args.push_back(output->buffer);
  if (const QueryTarget *query = spec.query())
    args.append({query->codes.buffer, query->weights.buffer, query->headWeights.buffer});
  if (const PoolTarget *pool = spec.pool()) {
    llvm::append_range(args, Pool::ofPlan(step, pool->cache).args());
    args.push_back(step.poolMetadata(pool->cache, pool->batch, "slot_mapping"));
  }
  return args;
}

std::string RotatedRow::name() const {
  StringRef norm = spec.rms() ? "norm_" : spec.layer() ? "layer_norm_" : "";
  StringRef target = spec.pool() ? "append_" : spec.query() ? "query_" : "";
  return llvm::formatv("{0}rope_{1}{2}_{3}", norm, target, 2 * spec.row.half, spec.width()).str();
}

void RotatedRow::launchTogether(int64_t together) {
  Value tokens = step.value(spec.input.sizes[0]), one = step.constant(1);
  std::array<Value, 3> grid = {step.ceilDiv(tokens, together), one, one};
  if (hasHeads)
    grid = {tokens, step.constant(llvm::divideCeil(spec.input.size(1), together)), one};
  std::string name = this->name();
  if (together > 1)
    name += llvm::formatv("_rows_{0}", together).str();
  step.launch(
      name, grid, args(), [&](KernelBuilder &b, ValueRange inner) { write(b, inner, together); },
      step.chained());
}

void RotatedRow::launch(llvm::function_ref<void()> many) {
  const Tuning &tuning = step.machine.tuning;
  Value tokens = step.value(spec.input.sizes[0]), rows = tokens;
  if (hasHeads)
    rows = step.multiply(tokens, spec.input.size(1));
  auto together = [&] { launchTogether(tuning.latentRowsTogether); };
  auto launchMany = [&] {
    if (!many)
      return together();
    if (!hasHeads) // as many programs as there were, of more rows each
      return step.versionByRows(rows, tuning.manyLatentRows * tuning.latentRowsTogether, together,
                                many);
    // Tiles of heads are faster as soon as they are as many programs as keep the machine busy: one
    // H100, 128 tokens of 64 heads of an indexer 5.6 us for 9.9.
    Value tiles = step.multiply(tokens, llvm::divideCeil(spec.input.size(1), step.shapes.rows));
    step.versionByRows(tiles, tuning.busyPrograms - 1, together, many);
  };
  step.versionByRows(
      rows, tuning.manyLatentRows, [&] { launchTogether(1); }, launchMany);
}

/// The last program of each token has the key's row.
void RotatedRow::launchTogether(int64_t together, RotatedRow &key) {
  SmallVector<Value> args = this->args(), others = key.args();
  size_t own = args.size();
  args.append(others);
  int64_t programs = llvm::divideCeil(spec.input.size(1), together);
  std::string suffix = together > 1 ? "_rows_" + std::to_string(together) : "";
  step.launch(
      name() + suffix + "_" + key.name(),
      {step.value(spec.input.sizes[0]), step.constant(programs + 1), step.constant(1)}, args,
      [&](KernelBuilder &b, ValueRange inner) {
        b.ifThenElse(
            b.isBelow(b.programId(1), b.index(programs)),
            [&] { write(b, inner.take_front(own), together); },
            [&] { key.write(b, inner.drop_front(own), /*together=*/1); });
      },
      step.chained());
}

void RotatedRow::launchWith(RotatedRow &key) {
  const Tuning &tuning = step.machine.tuning;
  Value tokens = step.value(spec.input.sizes[0]);
  auto one = [&] { launchTogether(1, key); };
  auto several = [&] { launchTogether(tuning.latentRowsTogether, key); };
  auto apart = [&] {
    launchTogether(tuning.latentRowsTogether);
    key.launchTogether(tuning.latentRowsTogether);
  };
  step.versionByRows(step.multiply(tokens, spec.input.size(1)), tuning.manyLatentRows, one,
                     [&] { step.versionByRows(tokens, tuning.manyLatentRows, several, apart); });
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

static RmsNorm normOf(StepLowering &step, Value gamma, const APFloat &eps) {
  return {gamma ? step.lookup(gamma) : TensorRef(), {}, eps.convertToDouble(), /*multiplier=*/1};
}

/// Whether a program of the step's target can hold such a row.
static bool canHold(StepLowering &step, const RotatedRows &row) {
  return step.shapes.isRowCountFixed && RotatedRow::foldedColumns(step.shapes, row) != 0;
}

static LogicalResult refuseWidths(StepLowering &step, Operation *op, const RotatedRows &row) {
  std::string widths;
  for (const Run &run : row.runs)
    widths += (widths.empty() ? "runs of " : ", ") + std::to_string(run.width);
  return refuseRow(step, op, widths + " columns");
}

/// The norm and rotation of heads that is launched with `append`, of the same tokens; null: none
/// is. Neither depends on the other, since `append` directly follows: what a token has of both is
/// ready at once (V4's queries and its key).
static mla::NormRopeOp findCompanion(StepLowering &step, mla::RopeAppendOp append) {
  auto heads = dyn_cast_or_null<mla::NormRopeOp>(append->getPrevNode());
  bool canJoin = heads && heads.getBatch() == append.getBatch() &&
                 append.getInput() != heads.getResult() &&
                 static_cast<int64_t>(append.getEvery()) == 1 &&
                 cast<RankedTensorType>(heads.getInput().getType()).getRank() == 3;
  return canJoin && step.shapes.isRowCountFixed ? heads : mla::NormRopeOp();
}

static FailureOr<RotatedRow> makeRow(StepLowering &step, mla::NormRopeOp op) {
  TensorRef input = step.lookup(op.getInput());
  RotatedRows row(op.getRope(), op.getOffset(), input.size(input.rank() - 1));
  if (!canHold(step, row))
    return refuseWidths(step, op, row);
  return RotatedRow(step, {.input = input,
                           .norm = normOf(step, op.getGamma(), op.getEps()),
                           .table = step.lookup(op.getTable()),
                           .row = row,
                           .target = step.allocate(op.getResult())});
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::NormRopeOp op) {
  auto append = dyn_cast_or_null<mla::RopeAppendOp>(op->getNextNode());
  if (append && findCompanion(step, append))
    return success();
  FailureOr<RotatedRow> row = makeRow(step, op);
  if (succeeded(row))
    row->launch();
  return row;
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::RopeAppendOp op) {
  step.forwardCache(op.getResult(), op.getCache());
  TensorRef input = step.lookup(op.getInput());
  RotatedRows row(op.getRope(), op.getOffset(), input.size(1));
  if (!canHold(step, row))
    return refuseWidths(step, op, row);
  RotatedRowSpec spec{.input = input,
                      .table = step.lookup(op.getTable()),
                      .row = row,
                      .every = static_cast<int64_t>(op.getEvery()),
                      .target = PoolTarget{op.getCache(), op.getBatch(), /*isRounded=*/true}};
  if (std::optional<APFloat> eps = op.getEps())
    spec.norm = normOf(step, op.getGamma(), *eps);
  RotatedRow key(step, spec);
  mla::NormRopeOp companion = findCompanion(step, op);
  if (!companion) {
    key.launch();
    return success();
  }
  FailureOr<RotatedRow> heads = makeRow(step, companion);
  if (succeeded(heads))
    heads->launchWith(key);
  return heads;
}

bool mlac::mla_to_tile::lowerRopeByRow(StepLowering &step, mla::RopeOp op) {
  TensorRef input = step.lookup(op.getInput());
  int64_t columns = input.size(input.rank() - 1);
  RotatedRows row(op.getRope(), op.getOffset().value_or(0), columns, op.getInverse());
  if (op.getRope().getDim() == columns || !canHold(step, row))
    return false;
  RotatedRowSpec spec{.input = input,
                      .table = step.lookup(op.getTable()),
                      .row = row,
                      .every = static_cast<int64_t>(op.getEvery()),
                      .isByToken = mla::hasTokenAngles(op),
                      .target = InPlace{}};
  if (canRotateInPlace(op)) {
    spec.row.runs.resize(2);
    step.setView(op.getResult(), input);
  } else {
    spec.target = step.allocate(op.getResult());
  }
  RotatedRow(step, spec).launch();
  return true;
}

void mlac::mla_to_tile::lowerByRow(StepLowering &step, mla::IndexAppendOp op,
                                   llvm::function_ref<void()> many) {
  TensorRef input = step.lookup(op.getInput());
  RotatedRows row(op.getRope(), op.getOffset(), input.size(1));
  if (!canHold(step, row))
    return many();
  RotatedRow(step, {.input = input,
                    .norm = LayerNorm{step.lookup(op.getWeight()), step.lookup(op.getBias()),
                                      op.getEpsilon().convertToDouble()},
                    .table = step.lookup(op.getTable()),
                    .row = row,
                    .target = PoolTarget{op.getCache(), op.getBatch(), /*isRounded=*/false}})
      .launch(many);
}

void mlac::mla_to_tile::lowerByRow(StepLowering &step, mla::IndexQueryOp op,
                                   const IndexQueryOutputs &to, llvm::function_ref<void()> many) {
  TensorRef input = step.lookup(op.getInput());
  RotatedRows row(op.getRope(), op.getOffset(), input.size(2));
  if (!canHold(step, row))
    return many();
  RotatedRow(step, {.input = input,
                    .table = step.lookup(op.getTable()),
                    .row = row,
                    .target = QueryTarget{to.codes, to.weights, step.lookup(op.getHeadWeights()),
                                          op.getFactor().convertToDouble(), to.rule}})
      .launch(many);
}
