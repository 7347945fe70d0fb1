//===- ExpandAttend.h - attention as a loop over blocks of keys ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one place that knows what loop a tile.attend stands for. Whoever expands it is told
// which op does what, so that schedules that divide the loop among roles never look for
// its parts:
//
//     for block in first .. last                       keys
//       k_t = transform(load(source, 64 · block))      summands[t].load, keys
//       scores = sum over t of q_t · k_tᵀ              summands[t].query, dot
//       scores = select(seen, scores, -inf)            mask, entries
//       scores = select(marked, scores, -inf)          marks
//       reference moves if max(scores) · factor        blockMax, scoresLog2
//         exceeds it by more than lag                  lag
//       weights = narrow(2^(scores - reference))       weights, numerators
//       output = output · broadcast(correction)        rescale, correction
//       output = output + weights · v                  product, valuesLoad
//
// Attention over lists that goes on from attention over other lists is one loop, over the blocks of
// the first list, then those of the next: of several sources a block's is chosen where it begins.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_TILE_TRANSFORMS_EXPANDATTEND_H
#define MLA_DIALECT_TILE_TRANSFORMS_EXPANDATTEND_H

#include "mla/Dialect/Tile/IR/TileDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

namespace mlir::tile {

/// The loop of an attention, and the parts of it.
struct SoftmaxLoop {
  /// One summand of the scores.
  struct Summand {
    Value query;     // [rows, width], outside of the loop
    Operation *load; // of keys as they are stored: tile.load, load_paged or load_rows
    Value keys;      // as they are multiplied
    DotOp dot;
    int64_t getWidth() const { return cast<RankedTensorType>(query.getType()).getDimSize(1); }
  };
  /// A carried row vector whose next value is `carried · factor + sum(tile)`: its
  /// sum over columns can be finished once, after the loop.
  struct RunningSum {
    unsigned index;
    arith::AddFOp add;
    Value factor;
    ReduceOp reduce;
  };

  KernelOp kernel;
  scf::ForOp keys;
  SmallVector<Summand, 2> summands;
  Value scores;
  arith::SelectOp mask;
  Value blockMax;   // of the masked scores, rows
  Value scoresLog2; // what exponents are relative to the reference, f32
  double lag = 0;   // none of them beyond the carried reference by more: it stays as it is
  Value weights;    // the product's left operand
  Value numerators; // what `weights` narrows, f32
  Value correction; // rows
  arith::MulFOp rescale;
  DotOp product;
  /// Of codes: the one scale, or of the first summand those of its groups of columns, rows.
  Value scale;
  SmallVector<Value, 4> groupScales;
  /// Null where values are columns of the first summand's keys.
  Operation *valuesLoad = nullptr;
  /// The list's entries of the block, repeated for each row, which the mask asks; null where there
  /// is no list.
  LoadOp entries;
  /// Which keys of the block each row's marks name, which the masked scores ask; null without
  /// marks.
  TestBitsOp marks;
  Value listedRows;         // what entries that name rows are below, i32
  unsigned outputIndex = 0; // of the key loop's carried values
  RunningSum sum;

  Value getScores() { return scores; }
  int64_t getRows() { return product.getType().getDimSize(0); }
  int64_t getStep() { return *getConstantIntValue(keys.getStep()); }
  int64_t getOutputWidth() { return product.getType().getDimSize(1); }
  int64_t getBlockKeys() {
    return cast<RankedTensorType>(summands.front().keys.getType()).getDimSize(0);
  }
  /// What products are made of.
  Type getElementType() {
    return cast<RankedTensorType>(summands.front().query.getType()).getElementType();
  }
};

/// The attentions whose keys one loop goes over: `last` behind those that it goes on from, where
/// they differ in nothing but their lists and where these' rows lie.
SmallVector<AttendOp, 2> findSources(AttendOp last);

/// What the first source of `last` starts from.
inline OperandRange findStart(AttendOp last) { return findSources(last).front().getStart(); }

/// The attention of `kernel`, or null if it has none or several. Of sources of one loop the last.
AttendOp findAttend(KernelOp kernel);

/// Puts one loop in the place of `op` and its other sources, which are erased.
SoftmaxLoop expandAttend(AttendOp op);

/// A loop for each attention of `kernel`, of whatever source.
void expandAttends(KernelOp kernel);

} // namespace mlir::tile

#endif // MLA_DIALECT_TILE_TRANSFORMS_EXPANDATTEND_H
