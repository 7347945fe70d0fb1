//===- Rope.cpp - rotary embedding ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows of a tile are
//
//     x [T, R]     tokens; the table's rows are gathered by positions, or are the tokens'
//     x [T, N, R]  heads of one token; all use one row of the table
//
// Rows of several tokens are heads of one, whose position can be computed with. How channels of a
// row are rotated, RotatedChannels says. Rows with channels that pass through are one program each
// where it can hold them (RotatedRow.cpp).
//
//===----------------------------------------------------------------------===//

#include "Plan/Lowerings.h"
#include "Rows/Channels.h"

#include "mla/Dialect/Mla/IR/TokenAngles.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac::mla_to_tile;

/// Rows [T, D] as the only heads of their tokens, [T, 1, D].
static TensorRef withHeads(TensorRef ref) {
  if (ref.rank() == 3)
    return ref;
  ref.sizes.insert(ref.sizes.begin() + 1, Builder(ref.buffer.getContext()).getIndexAttr(1));
  ref.strides.insert(ref.strides.begin() + 1, ref.strides.front());
  return ref;
}

namespace {

class RopeKernel {
public:
  RopeKernel(StepLowering &step, mla::RopeOp op)
      : step(step), input(rowsOf(op, step.lookup(op.getInput()))),
        output(rowsOf(op, step.allocate(op.getResult()))), table(step.lookup(op.getTable())),
        channels(RotatedChannels::of(op.getRope(), op.getOffset().value_or(0),
                                     input.size(input.rank() - 1), op.getInverse())),
        every(static_cast<int64_t>(op.getEvery())), isByToken(mla::hasTokenAngles(op)) {}

  void launch();

private:
  static TensorRef rowsOf(mla::RopeOp op, const TensorRef &ref) {
    return static_cast<int64_t>(op.getEvery()) > 1 ? withHeads(ref) : ref;
  }
  bool hasHeads() const { return input.rank() == 3; }
  static ChannelRows rows(KernelBuilder &b, Value buffer, const TensorRef &ref, Value token,
                          OpFoldResult count);
  TilePair angles(KernelBuilder &b, ValueRange args, Value token, const ChannelTile &tile,
                  OpFoldResult rows);
  void write(KernelBuilder &b, ValueRange args, const HeadShare &share);
  void launch(const HeadShare &share, const char *suffix = "");

  StepLowering &step;
  TensorRef input, output, table;
  RotatedChannels channels;
  int64_t every;  // tokens that have one position
  bool isByToken; // whether the table's rows are the tokens'
};

} // namespace

ChannelRows RopeKernel::rows(KernelBuilder &b, Value buffer, const TensorRef &ref, Value token,
                             OpFoldResult count) {
  return {buffer, b.mul(token, ref.strides[0]), ref.offset,
          count,  ref.strides[ref.rank() - 2],  ref.strides.back()};
}

TilePair RopeKernel::angles(KernelBuilder &b, ValueRange args, Value token, const ChannelTile &tile,
                            OpFoldResult rows) {
  AngleTable from = AngleTable::of(table, args[2], args[5], channels.half);
  if (!hasHeads())
    return loadTokenAngles(b, from, isByToken ? Value() : args[3], args[4], tile.row, tile.rows);
  Value position = isByToken ? token : b.loadScalar(args[3], token);
  if (every > 1)
    position = b.mul(b.divNarrow(position, b.index(every)), every);
  return loadPositionAngles(b, from, position, tile.column, rows, tile.shape(), tile.groups);
}

void RopeKernel::write(KernelBuilder &b, ValueRange args, const HeadShare &share) {
  b.markRowKernel();
  int64_t columns = share.columns;
  OpFoldResult count = hasHeads() ? b.fixed(input.size(1)) : OpFoldResult(args[4]);
  Value first = b.mul(b.programId(hasHeads() ? 1 : 0), share.heads);
  Value token = hasHeads() ? b.programId(0) : b.index(0);
  ChannelRows from = rows(b, args[0], input, token, count);
  ChannelRows to = rows(b, args[1], output, token, count);
  auto tileOf = [&](int64_t width, int64_t most, Value column) {
    if (!hasHeads())
      return ChannelTile{share.heads, most, first, column};
    return ChannelTile::ofHeads(step.shapes, std::min(share.heads, input.size(1)), width, most,
                                first, column);
  };
  auto rotateOwn = [&] {
    Value column = columns < channels.half ? b.mul(b.programId(2), columns) : b.index(0);
    ChannelTile tile = tileOf(channels.half, columns, column);
    channels.rotate(
        b, from, to, [&] { return angles(b, args, token, tile, count); }, tile);
  };
  if (!channels.hasRest())
    return rotateOwn();
  Value turns = b.index(channels.programs(columns) - 1);
  b.ifThenElse(b.isBelow(b.programId(2), turns), rotateOwn,
               [&] { channels.copyRest(b, from, to, tileOf, step.shapes.columns); });
}

/// Where programs of little work would no longer run at once, they are as few as they can be.
void RopeKernel::launch() {
  if (!hasHeads())
    return launch({step.shapes.rows, paddedWidth(channels.half)});
  int64_t heads = input.size(1);
  HeadShare little = channels.littleOf(step.shapes, heads);
  HeadShare much = channels.muchOf(step.shapes, heads);
  if (little == much)
    return launch(little);
  int64_t programs = llvm::divideCeil(heads, little.heads) * channels.programs(little.columns);
  step.versionByRows(
      step.multiply(step.value(input.sizes[0]), programs), step.machine.tuning.manyLatentRows,
      [&] { launch(little); }, [&] { launch(much, "_many"); });
}

void RopeKernel::launch(const HeadShare &share, const char *suffix) {
  Value tokens = step.value(input.sizes[0]);
  std::array<Value, 3> grid = {step.ceilDiv(tokens, share.heads), step.constant(1),
                               step.constant(1)};
  if (hasHeads())
    grid = {tokens, step.constant(llvm::divideCeil(input.size(1), share.heads)), step.constant(1)};
  grid[2] = step.constant(channels.programs(share.columns));
  SmallVector<Value> args = {input.buffer, output.buffer,
                             table.buffer, step.metadata("positions"),
                             tokens,       step.value(table.sizes[0])};
  std::string name =
      llvm::formatv("rope_{0}{1}{2}", 2 * channels.half, hasHeads() ? "_heads" : "", suffix).str();
  step.launch(
      name, grid, args, [&](KernelBuilder &b, ValueRange inner) { write(b, inner, share); },
      step.chained());
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::RopeOp op) {
  if (op.getCodesGroup())
    return lowerCodedRope(step, op);
  if (lowerRopeByRow(step, op))
    return success();
  RopeKernel(step, op).launch();
  return success();
}
