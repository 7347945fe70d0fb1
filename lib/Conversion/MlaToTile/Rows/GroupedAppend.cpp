//===- GroupedAppend.cpp - queries and keys rotated, keys and values appended ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program takes one token, a tile of heads and a block of columns, of its queries, keys and
// values as far as they have such a tile:
//
//     queries   some pairs of the heads, rotated to a tensor
//     keys      the same pairs by the same angles, to the token's slot in the cache
//     values    a part of the columns, as they are, to its slot
//
// It loads all of it before it stores anything. Where a part of the channels is rotated, the last
// block is that of the others. A slot outside of the pool drops the row (paged-cache.md section 5).
//
// Where heads are normalised first, there is one block: a program has all channels of its heads.
// Rows are loaded before anything is stored then, too, but for the keys' gammas and angles.
//
//===----------------------------------------------------------------------===//

#include "Attention/HeadRows.h"
#include "Plan/Lowerings.h"
#include "Rows/HeadNorm.h"

#include "mla/Dialect/Mla/IR/TokenAngles.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac::mla_to_tile;
using mlac::cache::Part;

namespace {
/// The heads of a token's query, key or value.
struct Heads {
  TensorRef rows;
  int64_t perTile; ///< heads of a program

  int64_t tiles() const { return llvm::divideCeil(rows.size(1), perTile); }
  ChannelRows from(KernelBuilder &b, Value buffer, Value token) const {
    return {buffer,          b.mul(token, rows.strides[0]),
            rows.offset,     b.fixed(rows.size(1)),
            rows.strides[1], rows.strides[2]};
  }
  /// Of the `width` columns of each head at most `count`.
  ChannelTile tile(KernelBuilder &b, const TileShapes &shapes, Value index, int64_t width,
                   int64_t count, Value column) const {
    return ChannelTile::ofHeads(shapes, std::min(perTile, rows.size(1)), width, count,
                                b.mul(index, perTile), column);
  }
};

class GroupedAppend {
public:
  GroupedAppend(StepLowering &step, mla::GroupedAppendOp op, TensorRef output,
                const RotatedChannels &channels, const HeadShare &share)
      : step(step), op(op), table(step.lookup(op.getTable())), output(std::move(output)),
        queryGamma(op.getQueryGamma() ? step.lookup(op.getQueryGamma()) : TensorRef()),
        keyGamma(op.getKeyGamma() ? step.lookup(op.getKeyGamma()) : TensorRef()),
        query{step.lookup(op.getQuery()), share.heads}, key{step.lookup(op.getKey()), share.heads},
        value{step.lookup(op.getValue()), share.heads}, channels(channels),
        tileColumns(share.columns), blocks(hasNorms() ? 1 : channels.programs(share.columns)),
        valueColumns(paddedWidth(llvm::divideCeil(value.rows.size(2), blocks))) {}

  /// Programs of a token.
  int64_t programs() const { return tiles() * blocks; }
  void launch(const std::string &suffix);

private:
  struct Argument {
    enum { Query, Output, Key, Value, Table, Length, Positions, QueryGamma, KeyGamma, First };
  };
  /// What a program has in a kernel; queries or keys and values may lack the tile.
  struct Program {
    ValueRange args;
    Value token, tile, block;
    bool hasQueries, hasKeys;
    ChannelRows query, output, key, keySlot, value, valueSlot;
  };
  bool hasNorms() { return static_cast<bool>(op.getEpsilon()); }
  int64_t tiles() const { return std::max(query.tiles(), key.tiles()); }
  void write(KernelBuilder &b, ValueRange args);
  void writeTile(KernelBuilder &b, Program program);
  void findSlots(KernelBuilder &b, Program &program);
  TilePair loadAngles(KernelBuilder &b, const Program &program, const ChannelTile &tile,
                      OpFoldResult rows);
  void rotate(KernelBuilder &b, const Program &program);
  void normalise(KernelBuilder &b, const Program &program);
  void copyRest(KernelBuilder &b, const Program &program);
  /// The rows of a token's slot in a pool, none where the slot is outside of it.
  ChannelRows inCache(KernelBuilder &b, const Pool &pool, Part part, Value slots, Value token,
                      const TensorRef &rows);
  Value slots(Value cache) { return step.poolMetadata(cache, op.getBatch(), "slot_mapping"); }

  StepLowering &step;
  mla::GroupedAppendOp op;
  TensorRef table, output, queryGamma, keyGamma;
  Heads query, key, value;
  RotatedChannels channels;
  int64_t tileColumns, blocks, valueColumns;
};
} // namespace

ChannelRows GroupedAppend::inCache(KernelBuilder &b, const Pool &pool, Part part, Value slots,
                                   Value token, const TensorRef &rows) {
  Pool::Slot slot = pool.findSlot(b, b.loadScalar(slots, token));
  Value count = b.choose(slot.isInside, b.index(rows.size(1)), b.index(0));
  return {pool.find(part).memory->buffer,
          pool.row(b, part, slot.page, slot.inPage),
          0,
          OpFoldResult(count),
          rows.size(2),
          1,
          pool.layerScales,
          pool.findLayerScale(part),
          pool.type.getElement()};
}

void GroupedAppend::findSlots(KernelBuilder &b, Program &program) {
  Pool keyPool = Pool::ofPlan(step, op.getCache());
  ValueRange own = program.args.drop_front(Argument::First);
  Pool keys = keyPool.inKernel(own), values = keys;
  own = own.drop_front(keyPool.args().size());
  Value keySlots = own.front(), valueSlots = keySlots;
  if (op.getValueCache()) {
    values = Pool::ofPlan(step, op.getValueCache()).inKernel(own.drop_front());
    valueSlots = own.back();
  }
  program.keySlot = inCache(b, keys, Part::Key, keySlots, program.token, key.rows);
  program.valueSlot = inCache(b, values, Part::Value, valueSlots, program.token, value.rows);
}

TilePair GroupedAppend::loadAngles(KernelBuilder &b, const Program &program,
                                   const ChannelTile &tile, OpFoldResult rows) {
  AngleTable angles = AngleTable::of(table, program.args[Argument::Table],
                                     program.args[Argument::Length], channels.half);
  Value position = mla::hasTokenAngles(op)
                       ? program.token
                       : b.loadScalar(program.args[Argument::Positions], program.token);
  return loadPositionAngles(b, angles, position, tile.column, rows, tile.shape(), tile.groups);
}

void GroupedAppend::rotate(KernelBuilder &b, const Program &program) {
  Value column = b.mul(program.block, tileColumns);
  auto tileOf = [&](const Heads &heads) {
    return heads.tile(b, step.shapes, program.tile, channels.half, tileColumns, column);
  };
  ChannelTile queries = tileOf(query), keys = tileOf(key);
  // All rows of a tile have the same angles.
  OpFoldResult rows = b.fixed(std::max(query.rows.size(1), key.rows.size(1)));
  std::optional<TilePair> ofQueries, ofKeys, loadedQueries, loadedKeys;
  if (program.hasQueries) {
    ofQueries = loadAngles(b, program, queries, rows);
    loadedQueries = channels.load(b, program.query, queries);
  }
  if (program.hasKeys) {
    bool isShared = ofQueries && keys.shape() == queries.shape() && keys.groups == queries.groups;
    ofKeys = isShared ? *ofQueries : loadAngles(b, program, keys, rows);
    loadedKeys = channels.load(b, program.key, keys);
  }
  if (loadedQueries)
    channels.store(b, *loadedQueries, *ofQueries, program.output, queries);
  if (loadedKeys)
    channels.store(b, *loadedKeys, *ofKeys, program.keySlot, keys);
}

void GroupedAppend::normalise(KernelBuilder &b, const Program &program) {
  auto loadOf = [&](const Heads &heads, const ChannelRows &from) {
    int64_t count = std::min(heads.perTile, heads.rows.size(1));
    NormedHeads normed(b, step.shapes, channels, count, b.mul(program.tile, heads.perTile));
    normed.load(from);
    return normed;
  };
  std::optional<NormedHeads> queries, keys;
  if (program.hasQueries)
    queries.emplace(loadOf(query, program.query));
  if (program.hasKeys)
    keys.emplace(loadOf(key, program.key));
  auto finish = [&](NormedHeads &heads, unsigned argument, const TensorRef &gamma,
                    const TilePair &angles, const ChannelRows &to) {
    heads.normalise(program.args[argument], gamma.offset, op.getEpsilon()->convertToDouble());
    heads.store(angles, to);
  };
  OpFoldResult rows = b.fixed(std::max(query.rows.size(1), key.rows.size(1)));
  auto anglesOf = [&](const NormedHeads &heads) {
    return loadAngles(b, program, heads.pairs(), rows);
  };
  if (queries)
    finish(*queries, Argument::QueryGamma, queryGamma, anglesOf(*queries), program.output);
  if (keys)
    finish(*keys, Argument::KeyGamma, keyGamma, anglesOf(*keys), program.keySlot);
}

void GroupedAppend::copyRest(KernelBuilder &b, const Program &program) {
  int64_t limit = step.shapes.columns;
  auto copy = [&](const Heads &heads, const ChannelRows &from, const ChannelRows &to) {
    auto tileOf = [&](int64_t width, int64_t count, Value column) {
      return heads.tile(b, step.shapes, program.tile, width, count, column);
    };
    channels.copyRest(b, from, to, tileOf, limit);
  };
  if (program.hasQueries)
    copy(query, program.query, program.output);
  if (program.hasKeys)
    copy(key, program.key, program.keySlot);
}

void GroupedAppend::writeTile(KernelBuilder &b, Program program) {
  program.query = query.from(b, program.args[Argument::Query], program.token);
  program.output =
      Heads{output, query.perTile}.from(b, program.args[Argument::Output], program.token);
  program.key = key.from(b, program.args[Argument::Key], program.token);
  program.value = value.from(b, program.args[Argument::Value], program.token);
  Value loaded;
  ChannelTile values;
  if (program.hasKeys) {
    findSlots(b, program);
    values = value.tile(b, step.shapes, program.tile, value.rows.size(2), valueColumns,
                        b.mul(program.block, valueColumns));
    loaded = loadChannels(b, program.value, values, value.rows.size(2));
  }
  auto rotateOwn = [&] { rotate(b, program); };
  if (hasNorms())
    normalise(b, program);
  else if (channels.hasRest())
    b.ifThenElse(b.isBelow(program.block, b.index(blocks - 1)), rotateOwn,
                 [&] { copyRest(b, program); });
  else
    rotateOwn();
  if (loaded)
    storeChannels(b, loaded, program.valueSlot, values, value.rows.size(2));
}

void GroupedAppend::write(KernelBuilder &b, ValueRange args) {
  b.markRowKernel();
  Value tile = b.divNarrow(b.programId(1), b.index(blocks));
  Value block = b.sub(b.programId(1), b.mul(tile, blocks));
  Program program{args, b.programId(0), tile, block, true, true, {}, {}, {}, {}, {}, {}};
  if (query.tiles() == key.tiles())
    return writeTile(b, program);
  Program more = program;
  bool hasMoreQueries = query.tiles() > key.tiles();
  more.hasQueries = hasMoreQueries;
  more.hasKeys = !hasMoreQueries;
  Value both = b.index(std::min(query.tiles(), key.tiles()));
  b.ifThenElse(
      b.isBelow(tile, both), [&] { writeTile(b, program); }, [&] { writeTile(b, more); });
}

void GroupedAppend::launch(const std::string &suffix) {
  Value tokens = step.value(query.rows.sizes[0]);
  SmallVector<Value> args = {query.rows.buffer,         output.buffer, key.rows.buffer,
                             value.rows.buffer,         table.buffer,  step.value(table.sizes[0]),
                             step.metadata("positions")};
  // Without norms not read.
  for (const TensorRef &gamma : {queryGamma, keyGamma})
    args.push_back(hasNorms() ? gamma.buffer : table.buffer);
  llvm::append_range(args, Pool::ofPlan(step, op.getCache()).args());
  args.push_back(slots(op.getCache()));
  if (op.getValueCache()) {
    llvm::append_range(args, Pool::ofPlan(step, op.getValueCache()).args());
    args.push_back(slots(op.getValueCache()));
  }
  std::string name =
      llvm::formatv("{0}rope_{1}_append{2}", hasNorms() ? "norm_" : "", 2 * channels.half, suffix)
          .str();
  step.launch(
      name, {tokens, step.constant(tiles() * blocks), step.constant(1)}, args,
      [&](KernelBuilder &b, ValueRange inner) { write(b, inner); }, step.chained());
}

static TensorRef allocateRotated(StepLowering &step, mla::GroupedAppendOp op,
                                 const TensorRef &query) {
  if (!haveAlignedRows(op.getRotated()))
    return step.allocate(op.getRotated());
  TensorRef rotated = step.alignedRows(query.sizes, query.element());
  step.setView(op.getRotated(), rotated);
  return rotated;
}

/// Norms need all channels of a head, one beside the other, and gammas alike.
static LogicalResult verifyWhole(StepLowering &step, mla::GroupedAppendOp op,
                                 const RotatedChannels &channels) {
  if (!step.shapes.canHoldHeads(channels.head()))
    return op.emitOpError("expected heads whose channels a program of this target holds, got ")
           << channels.columns << " channels of which " << 2 * channels.half << " are rotated";
  for (Value gamma : {op.getQueryGamma(), op.getKeyGamma()})
    if (TensorRef ref = step.lookup(gamma); ref.strides.back() != 1)
      return op.emitOpError("expected gammas that are dense, got elements ")
             << ref.strides.back() << " apart";
  return success();
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::GroupedAppendOp op) {
  TensorRef query = step.lookup(op.getQuery()), output = allocateRotated(step, op, query);
  step.forwardCache(op.getResult(), op.getCache());
  if (op.getValueCache())
    step.forwardCache(op.getValueResult(), op.getValueCache());
  RotatedChannels channels = RotatedChannels::of(op.getRope(), op.getOffset(), query.size(2));
  int64_t heads = std::max(query.size(1), step.lookup(op.getKey()).size(1));
  bool isWhole = static_cast<bool>(op.getEpsilon());
  if (isWhole && failed(verifyWhole(step, op, channels)))
    return failure();
  HeadShare little =
      isWhole ? channels.wholeLittle(step.shapes, heads) : channels.littleOf(step.shapes, heads);
  HeadShare much =
      isWhole ? channels.wholeMuch(step.shapes, heads) : channels.muchOf(step.shapes, heads);
  for (HeadShare *share : {&little, &much})
    share->heads = std::min(share->heads, heads);
  GroupedAppend ofLittle(step, op, output, channels, little);
  GroupedAppend ofMuch(step, op, output, channels, much);
  if (little == much) {
    ofLittle.launch("");
    return success();
  }
  // Where programs of little work would no longer run at once, they are as few as they can be.
  Value programs = step.multiply(step.value(query.sizes[0]), ofLittle.programs());
  step.versionByRows(
      programs, step.machine.tuning.manyLatentRows, [&] { ofLittle.launch(""); },
      [&] { ofMuch.launch("_many"); });
  return success();
}
