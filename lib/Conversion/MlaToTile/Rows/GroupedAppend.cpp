//===- GroupedAppend.cpp - queries and keys rotated, keys and values appended ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program takes one token and one of its units, which are, in this order:
//
//     queries   a tile of heads and some of their pairs, rotated to a tensor
//     keys      the same, rotated to the token's slot in the cache
//     values    a tile of heads and a block of their columns, as they are, to its slot
//
// A slot outside of the pool drops the row (paged-cache.md section 5).
//
//===----------------------------------------------------------------------===//

#include "Plan/Lowerings.h"
#include "Plan/PagedPool.h"
#include "Rows/Channels.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac::mla_to_tile;
using mlac::cache::Part;

namespace {
/// The heads of a token's query, key or value, and how programs share them.
struct Heads {
  TensorRef rows;
  int64_t tileRows, blocks; // blocks: programs of a tile of heads

  Heads(StepLowering &step, TensorRef rows, int64_t blocks)
      : rows(std::move(rows)), tileRows(step.shapes.rowsFor(this->rows.size(1))), blocks(blocks) {}
  int64_t units() const { return llvm::divideCeil(rows.size(1), tileRows) * blocks; }
  /// Of unit `unit` of these: its first head, and which block it is.
  std::pair<Value, Value> place(KernelBuilder &b, Value unit) const {
    Value tile = b.divNarrow(unit, b.index(blocks));
    return {b.mul(tile, tileRows), b.sub(unit, b.mul(tile, blocks))};
  }
  ChannelRows from(KernelBuilder &b, Value buffer, Value token) const {
    return {buffer,          b.mul(token, rows.strides[0]),
            rows.offset,     b.fixed(rows.size(1)),
            rows.strides[1], rows.strides[2]};
  }
};

class GroupedAppend {
public:
  GroupedAppend(StepLowering &step, mla::GroupedAppendOp op)
      : step(step), op(op), table(step.lookup(op.getTable())),
        output(step.allocate(op.getRotated())), query(step.lookup(op.getQuery())),
        key(step.lookup(op.getKey())), value(step.lookup(op.getValue())),
        channels(RotatedChannels::of(op.getRope(), op.getOffset(), query.size(2))),
        tileColumns(channels.tileColumns(step.shapes, /*hasHeads=*/true)),
        valueBlock(blockWidth(value.size(2), step.shapes.columns)) {}

  void launch();

private:
  struct Argument {
    enum { Query, Output, Key, Value, Table, Length, Positions, First };
  };
  void write(KernelBuilder &b, ValueRange args);
  void rotate(KernelBuilder &b, ValueRange args, const Heads &heads, Value unit, Value token,
              const ChannelRows &from, const ChannelRows &to);
  /// The rows of a token's slot in a pool, none where the slot is outside of it.
  ChannelRows inCache(KernelBuilder &b, const Pool &pool, Part part, Value slots, Value token,
                      const TensorRef &rows);
  Value slots(Value cache) { return step.poolMetadata(cache, op.getBatch(), "slot_mapping"); }

  StepLowering &step;
  mla::GroupedAppendOp op;
  TensorRef table, output, query, key, value;
  RotatedChannels channels;
  int64_t tileColumns, valueBlock;
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
          1};
}

void GroupedAppend::rotate(KernelBuilder &b, ValueRange args, const Heads &heads, Value unit,
                           Value token, const ChannelRows &from, const ChannelRows &to) {
  auto [row, block] = heads.place(b, unit);
  ChannelTile tile{heads.tileRows, tileColumns, row, {}};
  auto rotateOwn = [&, block = block] {
    tile.column = b.mul(block, tileColumns);
    AngleTable angles =
        AngleTable::of(table, args[Argument::Table], args[Argument::Length], channels.half);
    channels.rotate(
        b, from, to,
        [&] {
          Value position = b.loadScalar(args[Argument::Positions], token);
          return loadPositionAngles(b, angles, position, tile.column, from.count,
                                    {heads.tileRows, tileColumns});
        },
        tile);
  };
  if (!channels.hasRest())
    return rotateOwn();
  b.ifThenElse(b.isBelow(block, b.index(heads.blocks - 1)), rotateOwn,
               [&] { channels.copyRest(b, from, to, tile, step.shapes.columns); });
}

void GroupedAppend::write(KernelBuilder &b, ValueRange args) {
  int64_t blocks = channels.programs(tileColumns);
  Heads queries(step, query, blocks), keys(step, key, blocks);
  Heads values(step, value, llvm::divideCeil(value.size(2), valueBlock));
  Pool keyPool = Pool::ofPlan(step, op.getCache());
  ValueRange own = args.drop_front(Argument::First);
  Pool inner = keyPool.inKernel(own);
  own = own.drop_front(keyPool.args().size());
  Value keySlots = own.front(), valueSlots = keySlots;
  Pool valueInner = inner;
  if (op.getValueCache()) {
    valueInner = Pool::ofPlan(step, op.getValueCache()).inKernel(own.drop_front());
    valueSlots = own.back();
  }
  Value token = b.programId(0), unit = b.programId(1);
  Value keyUnit = b.sub(unit, b.index(queries.units()));
  Value valueUnit = b.sub(keyUnit, b.index(keys.units()));
  auto writeQuery = [&] {
    Heads rotated(step, output, blocks);
    rotate(b, args, queries, unit, token, queries.from(b, args[Argument::Query], token),
           rotated.from(b, args[Argument::Output], token));
  };
  auto writeKey = [&] {
    rotate(b, args, keys, keyUnit, token, keys.from(b, args[Argument::Key], token),
           inCache(b, inner, Part::Key, keySlots, token, key));
  };
  auto writeValue = [&] {
    auto [row, block] = values.place(b, valueUnit);
    ChannelRows from = values.from(b, args[Argument::Value], token);
    ChannelRows to = inCache(b, valueInner, Part::Value, valueSlots, token, value);
    copyTile(b, from, to, {values.tileRows, valueBlock, row, b.mul(block, valueBlock)},
             value.size(2));
  };
  b.ifThenElse(b.isBelow(unit, b.index(queries.units())), writeQuery, [&] {
    b.ifThenElse(b.isBelow(keyUnit, b.index(keys.units())), writeKey, writeValue);
  });
}

void GroupedAppend::launch() {
  step.forwardCache(op.getResult(), op.getCache());
  if (op.getValueCache())
    step.forwardCache(op.getValueResult(), op.getValueCache());
  int64_t blocks = channels.programs(tileColumns);
  int64_t units = Heads(step, query, blocks).units() + Heads(step, key, blocks).units() +
                  Heads(step, value, llvm::divideCeil(value.size(2), valueBlock)).units();
  Value tokens = step.value(query.sizes[0]);
  SmallVector<Value> args = {query.buffer,
                             output.buffer,
                             key.buffer,
                             value.buffer,
                             table.buffer,
                             step.value(table.sizes[0]),
                             step.metadata("positions")};
  llvm::append_range(args, Pool::ofPlan(step, op.getCache()).args());
  args.push_back(slots(op.getCache()));
  if (op.getValueCache()) {
    llvm::append_range(args, Pool::ofPlan(step, op.getValueCache()).args());
    args.push_back(slots(op.getValueCache()));
  }
  std::string name = llvm::formatv("rope_{0}_append", 2 * channels.half).str();
  step.launch(
      name, {tokens, step.constant(units), step.constant(1)}, args,
      [&](KernelBuilder &b, ValueRange inner) { write(b, inner); }, step.chained());
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::GroupedAppendOp op) {
  GroupedAppend(step, op).launch();
  return success();
}
