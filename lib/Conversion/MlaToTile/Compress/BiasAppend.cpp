//===- BiasAppend.cpp - values and biased gates to a pool ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program has a field of a token's row, a block of its columns at a time: its row of the bias is
// a scalar's. A slot outside of the pool drops the row (paged-cache.md section 5).
//
//===----------------------------------------------------------------------===//

#include "Plan/Limits.h"
#include "Plan/PagedPool.h"
#include "Rows/RowKernel.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;
using cache::Part;

namespace {
class BiasAppend {
public:
  BiasAppend(StepLowering &step, mla::BiasAppendOp op)
      : step(step), op(op), pool(Pool::ofPlan(step, op.getCache())),
        values(step.lookup(op.getValues())), gates(step.lookup(op.getGates())),
        bias(step.lookup(op.getBias())), block(findRowBlock(step, bias.size(1))) {}
  void launch();

private:
  enum Argument { kValues, kGates, kBias, kPositions, kSlots, kPool };
  void write(KernelBuilder &b, ValueRange args);

  StepLowering &step;
  mla::BiasAppendOp op;
  Pool pool;
  TensorRef values, gates, bias;
  int64_t block;
};
} // namespace

void BiasAppend::write(KernelBuilder &b, ValueRange args) {
  Pool inner = pool.inKernel(args.drop_front(kPool));
  Value token = b.programId(0), column = b.mul(b.programId(1), block);
  Pool::Slot place = inner.findSlot(b, b.loadScalar(args[kSlots], token));
  RowKernel row(step, b, block);
  auto load = [&](Argument buffer, const TensorRef &ref, Value of) {
    return row.load(args[buffer], b.add(b.mul(of, ref.strides[0]), column), ref.offset);
  };
  auto store = [&](Value tile, Part part) {
    Value base = b.add(inner.row(b, part, place.page, place.inPage), column);
    row.storeIf(place.isInside, tile, inner.find(part).memory->buffer, base, 0);
  };
  auto writeGates = [&] {
    Value position = b.loadScalar(args[kPositions], token);
    int64_t places = bias.size(0);
    Value runs = b.divNarrow(position, b.index(places));
    Value own = b.sub(position, b.mul(runs, places));
    store(b.addf(load(kGates, gates, token), load(kBias, bias, own)), Part::Value);
  };
  b.ifThenElse(
      b.isBelow(b.programId(2), b.index(1)),
      [&] { store(load(kValues, values, token), Part::Key); }, writeGates);
}

void BiasAppend::launch() {
  step.forwardCache(op.getResult(), op.getCache());
  SmallVector<Value> args = {values.buffer, gates.buffer, bias.buffer, step.metadata("positions"),
                             step.poolMetadata(op.getCache(), op.getBatch(), "slot_mapping")};
  llvm::append_range(args, pool.args());
  step.launch(
      llvm::formatv("bias_append_{0}x{1}", bias.size(0), bias.size(1)).str(),
      {step.value(values.sizes[0]), step.constant(bias.size(1) / block), step.constant(2)}, args,
      [&](KernelBuilder &b, ValueRange inner) { write(b, inner); }, step.chained());
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::BiasAppendOp op) {
  if (failed(checkRowBlock(step, op, step.lookup(op.getBias()).size(1))))
    return failure();
  BiasAppend(step, op).launch();
  return success();
}
