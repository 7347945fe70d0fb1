//===- MarkSelected.cpp - selected positions as bits ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program for each token.
//
//===----------------------------------------------------------------------===//

#include "Plan/Lowerings.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::MarkSelectedOp op) {
  // Then of a chunk the first position, else what says where new tokens begin.
  enum Argument { kSelected, kMarks, kTokens, kWords, kFirst, kRequests = kFirst, kContextLens };
  TensorRef selected = step.lookup(op.getSelected()), marks = step.allocate(op.getResult());
  if (selected.strides.back() != 1)
    return op.emitOpError("expected positions that are neighbours in memory, got a stride of ")
           << selected.strides.back();
  Value tokens = step.value(marks.sizes[0]), one = step.constant(1);
  SmallVector<Value> args = {selected.buffer, marks.buffer, tokens, step.value(marks.sizes[1])};
  if (Value chunk = op.getChunk()) {
    Value capacity = step.dim(op.getBatch(), "chunk_capacity");
    args.push_back(arith::MulIOp::create(step.plan(), op.getLoc(), step.scalar(chunk), capacity));
  } else {
    args.append({step.metadata("req_id_per_token"), step.metadata("context_lens")});
  }
  step.launch("mark_selected", {tokens, one, one}, args, [&](KernelBuilder &b, ValueRange inner) {
    OpFoldResult rows = inner[kTokens], words = inner[kWords];
    OpFoldResult count = b.fixed(selected.size(1)), pitch = b.fixed(selected.strides[0]);
    Value list =
        b.view(inner[kSelected], b.fixed(selected.offset), {rows, count}, {pitch, b.fixed(1)});
    Value out = b.view(inner[kMarks], b.fixed(0), {rows, words}, {words, b.fixed(1)});
    Value token = b.programId(0);
    Value first = op.getChunk()
                      ? inner[kFirst]
                      : b.loadScalar(inner[kContextLens], b.loadScalar(inner[kRequests], token));
    tile::SetBitsOp::create(b, list, token, first, out);
  });
  return success();
}
