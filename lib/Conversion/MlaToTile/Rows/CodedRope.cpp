//===- CodedRope.cpp - rotation of heads that become codes ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program has some heads of a token, and a group of their columns that has one scale for each
// head. What is rotated is not rounded before its codes (v4.md section 11).
//
//===----------------------------------------------------------------------===//

#include "Indexer/TokenRows.h"
#include "Plan/Lowerings.h"
#include "Products/CodedRows.h"
#include "Rows/Codes.h"
#include "Rows/RotatedRows.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;

/// Powers of two, of largest magnitudes of at least so much (v4.md section 2).
static constexpr cache::ScaleRule kOutputRule = {
    .isPowerOfTwo = true, .amaxFloor = 1e-10F, .scaleFloor = 0};

namespace {
class CodedRope {
public:
  CodedRope(StepLowering &step, mla::RopeOp op)
      : step(step), group(static_cast<int64_t>(*op.getCodesGroup())),
        input(step.lookup(op.getInput())), table(step.lookup(op.getTable())),
        codes(makeCodedRows(step, input.sizes, group)), heads(step, input),
        first(op.getOffset().value_or(0)),
        row(op.getRope(), first % group, group, static_cast<bool>(op.getInverse())) {
    step.setView(op.getResult(), codes);
  }
  void launch();

private:
  enum Argument { kInput, kCodes, kScales, kTable, kLength, kPositions, kTokens };
  int64_t countGroups() const { return input.size(2) / group; }
  void write(KernelBuilder &b, ValueRange args);
  /// Codes of `tiles`, whose rows together are the group, which lie in its columns as `runs` say.
  void store(KernelBuilder &b, ValueRange args, ArrayRef<Value> tiles, ArrayRef<Run> runs);
  Value view(KernelBuilder &b, ValueRange args, Argument buffer, const TensorRef &ref,
             const Run &run);
  Value load(KernelBuilder &b, ValueRange args, const Run &run);

  StepLowering &step;
  int64_t group;
  TensorRef input, table, codes;
  TokenRows heads;
  int64_t first; // channel that is rotated
  RotatedRows row;
};
} // namespace

/// Columns of the program's group.
Value CodedRope::view(KernelBuilder &b, ValueRange args, Argument buffer, const TensorRef &ref,
                      const Run &run) {
  Value column = b.add(b.mul(b.programId(2), group), run.first);
  return heads.view(b, args[buffer], ref, args[kTokens], column, run.width, run.stride);
}

Value CodedRope::load(KernelBuilder &b, ValueRange args, const Run &run) {
  return b.loadWide(view(b, args, kInput, input, run), {heads.first(b), b.index(0)},
                    {heads.tileRows, paddedWidth(run.width)});
}

void CodedRope::store(KernelBuilder &b, ValueRange args, ArrayRef<Value> tiles,
                      ArrayRef<Run> runs) {
  Value scale = chooseScales(b, kOutputRule, tiles), at = heads.first(b), zero = b.index(0);
  // All are made before any is stored: what is beside each other is one store then.
  auto made = llvm::map_to_vector(tiles, [&](Value tile) { return divideToCodes(b, tile, scale); });
  for (auto [tile, run] : llvm::zip_equal(made, runs))
    b.store(tile, view(b, args, kCodes, codes, run), {at, zero});
  // One element wide: of the tile's equal columns the first is stored.
  Value to = heads.viewScales(b, args[kScales], *codes.scales, args[kTokens], b.programId(2),
                              countGroups());
  b.store(b.broadcast(scale, kWidthMultiple), to, {zero, zero});
}

void CodedRope::write(KernelBuilder &b, ValueRange args) {
  b.markRowKernel();
  auto keep = [&] {
    Run whole{0, group, 1};
    store(b, args, load(b, args, whole), whole);
  };
  auto turn = [&] {
    SmallVector<Value> tiles = row.map([&](const Run &run) { return load(b, args, run); });
    Value position = b.loadScalar(args[kPositions], b.programId(0));
    AngleTable angles = AngleTable::of(table, args[kTable], args[kLength], row.half);
    row.rotatePairs(b, tiles,
                    loadPositionAngles(b, angles, position, b.index(0), b.fixed(input.size(1)),
                                       {heads.tileRows, paddedWidth(row.half)}));
    store(b, args, tiles, row.runs);
  };
  if (countGroups() == 1)
    return turn();
  Value isRotated =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, b.programId(2), b.index(first / group));
  b.ifThenElse(isRotated, turn, keep);
}

void CodedRope::launch() {
  step.launch(
      llvm::formatv("rope_{0}_codes_{1}", 2 * row.half, group).str(),
      heads.grid(step, countGroups()),
      {input.buffer, codes.buffer, codes.scales->buffer, table.buffer, step.value(table.sizes[0]),
       step.metadata("positions"), heads.count()},
      [&](KernelBuilder &b, ValueRange args) { write(b, args); }, step.chained());
}

LogicalResult mlac::mla_to_tile::lowerCodedRope(StepLowering &step, mla::RopeOp op) {
  auto group = static_cast<int64_t>(*op.getCodesGroup());
  int64_t first = op.getOffset().value_or(0), last = first + op.getRope().getDim() - 1;
  if (first / group != last / group)
    return op.emitOpError("expected the rotated columns in one group of ")
           << group << ", got columns " << first << " to " << last;
  if (static_cast<int64_t>(op.getEvery()) != 1)
    return op.emitOpError("expected codes of tokens, got rows of every ")
           << static_cast<int64_t>(op.getEvery());
  if (failed(checkReadByProducts(op, op.getResult())))
    return failure();
  CodedRope(step, op).launch();
  return success();
}
