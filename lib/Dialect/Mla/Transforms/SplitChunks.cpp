//===- SplitChunks.cpp - mla-split-chunks ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Expanded attention has a program for each tile of queries of a head, which goes over all
// keys of a chunk. Few new tokens of few heads (a rank's of a tensor parallel layer) are
// fewer programs than there are multiprocessors. So the keys of a chunk are cut into runs, as many
// as end soonest by the model of the pass's description. Assumes that contexts are chunked; afterwards
// each attention over a chunk has a split count. Idea: Flash-Decoding (Dao et al., 2023).
//
//===----------------------------------------------------------------------===//

#include "BatchSizes.h"

#include "mla/Dialect/Mla/Transforms/Passes.h"

#include "mlir/IR/BuiltinOps.h"

#include <cmath>

namespace mlir::mla {
#define GEN_PASS_DEF_MLASPLITCHUNKS
#include "mla/Dialect/Mla/Transforms/Passes.h.inc"
} // namespace mlir::mla

using namespace mlir;
using namespace mlir::mla;

/// Waves of programs that a count of splits fills, in quarters: parts of one where partials of more
/// splits cost more than multiprocessors that idle. Behind eight the last one is an eighth of the
/// time at most.
static constexpr int64_t kQuarters[] = {1, 2, 4, 8, 12, 16, 20, 24, 28, 32}, kMostWaves = 8;

/// Rates are of so many cycles, as whole numbers.
static constexpr int64_t kManyCycles = 1024;

static int64_t getDimSize(Value tensor, unsigned dim) {
  return cast<RankedTensorType>(tensor.getType()).getDimSize(dim);
}

static bool canSplit(ExpandedAttentionOp attention) {
  auto isTokenMajor = [](Value lse) {
    auto type = cast<RankedTensorType>(lse.getType());
    return cast<LseAttr>(type.getEncoding()).getLayout() == LseLayout::TokenMajor;
  };
  return !attention.isCausal() && !attention.getNumSplits() &&
         (!attention.getLse() || isTokenMajor(attention.getLse()));
}

namespace {
struct SplitChunks : mla::impl::MlaSplitChunksBase<SplitChunks> {
  using MlaSplitChunksBase::MlaSplitChunksBase;

  void runOnOperation() override {
    if (failed(checkOptions()))
      return signalPassFailure();
    getOperation().walk([&](ExpandedAttentionOp attention) {
      if (numSplits == 1 || !canSplit(attention))
        return;
      OpBuilder builder(attention);
      attention.getNumSplitsMutable().assign(emitNumSplits(builder, attention));
    });
  }

private:
  LogicalResult checkOptions();
  Value emitNumSplits(OpBuilder &builder, ExpandedAttentionOp attention);
};

/// Arithmetic on what one attention takes, in cycles.
class Model : public BatchSizes {
public:
  /// Of one program.
  struct Costs {
    int64_t block, item, merge, turn;
    int64_t partials; // rows in kManyCycles
  };
  Model(OpBuilder &builder, ExpandedAttentionOp attention, const Costs &costs)
      : BatchSizes(builder, attention.getLoc(), attention.getBatch()), attention(attention),
        costs(costs), heads(getDimSize(attention.getQNope(), 1)) {}
  void count(int64_t programRows, int64_t blockKeys);
  Value chooseSplits();

private:
  Value limit(Value splits) { return minimum(atLeastOne(splits), most); }
  Value time(Value splits, bool merges);

  ExpandedAttentionOp attention;
  const Costs &costs;
  int64_t heads;
  Value sms, items, blocks, rows, most;
};
} // namespace

/// Programs, as if each request with context had as many keys as the longest: those of short ones
/// end early.
void Model::count(int64_t programRows, int64_t blockKeys) {
  sms = batchDim("num_sms");
  Value capacity = batchDim("chunk_capacity");
  Value longest = atLeastOne(minimum(capacity, batchDim("max_context_len")));
  Value tiles = ceilDiv(batchDim("max_query_len"), programRows);
  Value requests = ceilDiv(batchDim("chunk_tokens"), longest);
  items = atLeastOne(multiply(multiply(tiles, heads), requests));
  blocks = ceilDiv(longest, blockKeys);
  rows = multiply(batchDim("num_tokens"), heads);
  // Partials of as many programs as fill the waves.
  Value places = multiply(sms, kMostWaves * programRows);
  most = atLeastOne(minimum(divide(places, atLeastOne(rows)), blocks));
}

/// All programs take alike, and the last wave is as long as a full one.
Value Model::time(Value splits, bool merges) {
  Value waves = ceilDiv(multiply(items, splits), sms);
  Value ofBlocks = multiply(ceilDiv(blocks, splits), costs.block);
  Value program = add(ofBlocks, constant(costs.item));
  Value total = multiply(waves, program);
  if (!merges)
    return total;
  Value partials = ceilDiv(multiply(multiply(rows, splits), kManyCycles), costs.partials);
  Value waits = multiply(splits, costs.turn);
  Value merge = add(waits, constant(costs.merge));
  return add(total, add(partials, merge));
}

Value Model::chooseSplits() {
  Value best = constant(1), least = time(best, /*merges=*/false);
  Value quarters = multiply(items, 4);
  for (int64_t filled : kQuarters) {
    Value splits = limit(divide(multiply(sms, filled), quarters));
    Value taken = time(splits, /*merges=*/true);
    Value isLess = isMore(least, taken);
    best = select(isLess, splits, best);
    least = select(isLess, taken, least);
  }
  return best;
}

LogicalResult SplitChunks::checkOptions() {
  auto check = [&](StringRef name, int64_t value, int64_t least) -> LogicalResult {
    if (value >= least)
      return success();
    return emitError(getOperation().getLoc())
           << "mla-split-chunks: expected " << name << " >= " << least << ", got " << value;
  };
  auto checkPositive = [&](StringRef name, double value) -> LogicalResult {
    if (std::isfinite(value) && value > 0)
      return success();
    return emitError(getOperation().getLoc())
           << "mla-split-chunks: expected a positive " << name << ", got " << value;
  };
  return success(succeeded(check("num-splits", numSplits, 0)) &&
                 succeeded(check("program-rows", programRows, 1)) &&
                 succeeded(check("block-keys", blockKeys, 1)) &&
                 succeeded(check("item-cycles", itemCycles, 0)) &&
                 succeeded(check("merge-cycles", mergeCycles, 0)) &&
                 succeeded(check("turn-cycles", turnCycles, 0)) &&
                 succeeded(checkPositive("flops-per-cycle", flopsPerCycle)) &&
                 succeeded(checkPositive("bytes-per-cycle", bytesPerCycle)));
}

/// The formula of the pass's description.
Value SplitChunks::emitNumSplits(OpBuilder &builder, ExpandedAttentionOp attention) {
  if (numSplits > 1)
    return arith::ConstantIndexOp::create(builder, attention.getLoc(), numSplits);
  int64_t width = getDimSize(attention.getV(), 2);
  int64_t columns = getDimSize(attention.getQNope(), 2) + width;
  if (attention.getQPe())
    columns += getDimSize(attention.getQPe(), 2);
  double flops = 2.0 * static_cast<double>(programRows * blockKeys * columns);
  // Written and read, f32.
  double bytes = 2.0 * sizeof(float) * static_cast<double>(width);
  Model::Costs costs{.block = std::llround(std::max(flops / flopsPerCycle, 1.0)),
                     .item = itemCycles,
                     .merge = mergeCycles,
                     .turn = turnCycles,
                     .partials =
                         std::llround(std::max(kManyCycles * bytesPerCycle / bytes, 1.0))};
  Model model(builder, attention, costs);
  model.count(programRows, blockKeys);
  return model.chooseSplits();
}
