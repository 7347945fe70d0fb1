//===- SplitKv.cpp - mla-split-kv ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Absorbed attention has one program per 64 query rows; a decode step of a few
// requests leaves most of the machine idle. This pass splits the KV range so
// that about one program per multiprocessor runs, and merges the partials.
// Assumes absorbed attention without a split count; afterwards each has one, or
// is marked as unsplit. Attention over lists of rows is a decode of as many requests as there
// are tokens. Idea: Flash-Decoding (Dao et al., 2023); bounds as in
// mla.md section 13.
//
//===----------------------------------------------------------------------===//

#include "BatchSizes.h"

#include "mla/Dialect/Mla/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::mla {
#define GEN_PASS_DEF_MLASPLITKV
#include "mla/Dialect/Mla/Transforms/Passes.h.inc"
} // namespace mlir::mla

using namespace mlir;
using namespace mlir::mla;

/// `[S, shape...]` with the element of `type`.
static RankedTensorType addSplitDim(RankedTensorType type, Attribute encoding) {
  SmallVector<int64_t> shape{ShapedType::kDynamic};
  llvm::append_range(shape, type.getShape());
  return RankedTensorType::get(shape, type.getElementType(), encoding);
}

namespace {
/// A list of each token: its entries, and how many tokens of a sequence each of them stands for; 0
/// where they are not known to be of the batch's sequences.
struct KeyList {
  int64_t width, tokensPerEntry;
};

/// An attention whose keys can be split, whatever its heads share.
struct Splittable {
  Operation *op;
  TypedValue<BatchType> batch;
  Value output, lse;
  /// Query heads whose rows share keys, and how many such groups there are.
  int64_t group, groups;
  int64_t window; // 0: none
  /// Of attention over lists: their entries; else 0.
  int64_t listWidth = 0;
  SmallVector<KeyList, 2> lists = {};
  Value sink = {}, maxLogits = {}; // null: none
};
} // namespace

/// Entries of a token's lists, of both scopes.
static int64_t countEntries(SparseAttentionOp op) {
  Value beside = op.getBesideRows();
  return op.getWidth() + (beside ? cast<RankedTensorType>(beside.getType()).getDimSize(1) : 0);
}

/// Keys that the step itself finds or selects are of its sequences, each at most once.
static KeyList getList(Value rows, CacheType cache) {
  int64_t width = cast<RankedTensorType>(rows.getType()).getDimSize(1);
  bool isOfStep = isa_and_nonnull<ConvertIndicesOp, SeenKeysOp>(rows.getDefiningOp());
  return {width, isOfStep ? static_cast<int64_t>(cache.getTokensPerRow()) : 0};
}

static SmallVector<KeyList, 2> getLists(SparseAttentionOp op) {
  if (!op.getCache())
    return {{op.getWidth(), 0}};
  SmallVector<KeyList, 2> lists = {getList(op.getRows(), cast<CacheType>(op.getCache().getType()))};
  if (Value beside = op.getBesideRows())
    lists.push_back(getList(beside, cast<CacheType>(op.getBesideCache().getType())));
  return lists;
}

static std::optional<Splittable> getSplittable(Operation *op) {
  if (op->hasAttr(kUnsplitAttr))
    return std::nullopt;
  if (auto absorbed = dyn_cast<AbsorbedAttentionOp>(op); absorbed && !absorbed.getNumSplits()) {
    int64_t heads = cast<RankedTensorType>(absorbed.getQLat().getType()).getDimSize(1);
    return Splittable{op,          absorbed.getBatch(), absorbed.getOutput(), absorbed.getLse(),
                      heads,       /*groups=*/1,
                      /*window=*/0};
  }
  if (auto sparse = dyn_cast<SparseAttentionOp>(op);
      sparse && sparse.getBatch() && !sparse.getNumSplits())
    return Splittable{op,
                      sparse.getBatch(),
                      sparse.getOutput(),
                      sparse.getLse(),
                      sparse.getHeads(),
                      /*groups=*/1,
                      /*window=*/0,
                      countEntries(sparse),
                      getLists(sparse),
                      sparse.getSink(),
                      sparse.getMaxLogits()};
  auto grouped = dyn_cast<GroupedAttentionOp>(op);
  if (!grouped || grouped.getNumSplits())
    return std::nullopt;
  int64_t group = grouped.getGroup();
  return Splittable{op,
                    grouped.getBatch(),
                    grouped.getOutput(),
                    grouped.getLse(),
                    group,
                    grouped.getHeads() / group,
                    static_cast<int64_t>(grouped.getWindow())};
}

/// The same attention with so many splits.
static Operation *createSplit(OpBuilder &builder, Operation *op, Type output, Type lse,
                              Type maxLogits, Value numSplits) {
  Location loc = op->getLoc();
  if (auto sparse = dyn_cast<SparseAttentionOp>(op))
    return SparseAttentionOp::create(
        builder, loc, output, lse, maxLogits, sparse.getQLat(), sparse.getQPe(), sparse.getRows(),
        sparse.getLengths(), /*sink=*/Value(), sparse.getCache(), sparse.getBatch(),
        /*latent=*/Value(), /*k_pe=*/Value(), /*prefills=*/Value(), /*chunk=*/Value(),
        /*onto=*/Value(), sparse.getBesideRows(), sparse.getBesideLengths(),
        sparse.getBesideCache(), numSplits, sparse.getScaleAttr());
  if (auto absorbed = dyn_cast<AbsorbedAttentionOp>(op))
    return AbsorbedAttentionOp::create(builder, loc, output, lse, absorbed.getQLat(),
                                       absorbed.getQPe(), absorbed.getCache(), absorbed.getBatch(),
                                       numSplits, absorbed.getScaleAttr());
  auto grouped = cast<GroupedAttentionOp>(op);
  return GroupedAttentionOp::create(
      builder, loc, output, lse, grouped.getQuery(), grouped.getKeyCache(), grouped.getValueCache(),
      grouped.getBatch(), grouped.getSink(), numSplits, grouped.getWindowAttr(),
      grouped.getSoftcapAttr(), grouped.getScaleAttr());
}

/// The split attention and its merge; the results of `attention`.
static SmallVector<Value> emitSplit(OpBuilder &builder, const Splittable &attention,
                                    Value numSplits) {
  Location loc = attention.op->getLoc();
  auto outputType = cast<RankedTensorType>(attention.output.getType());
  auto encoding =
      LseAttr::get(builder.getContext(), LseBase::E, LseLayout::TokenMajor, LseEmpty::NegInf);
  // Of the output's type: half of the bytes of f32, and cosine differences of 3.5e-6 in place of
  // 2.1e-6 (docs/lab/decode.md, dense decodes).
  RankedTensorType partialType = addSplitDim(outputType, /*encoding=*/{});
  auto rowType = RankedTensorType::get(outputType.getShape().drop_back(), builder.getF32Type());
  RankedTensorType lseType = addSplitDim(rowType, encoding);
  auto typeOf = [](Value value) { return value ? value.getType() : Type(); };
  Type maxType = attention.maxLogits ? addSplitDim(rowType, /*encoding=*/{}) : Type();
  Operation *partial = createSplit(builder, attention.op, partialType, lseType, maxType, numSplits);
  auto merged = MergeSplitsOp::create(builder, loc, outputType, typeOf(attention.lse),
                                      typeOf(attention.maxLogits), partial->getResult(0),
                                      partial->getResult(1),
                                      maxType ? partial->getResult(2) : Value(), attention.sink);
  return llvm::to_vector_of<Value>(merged->getResults());
}

static SmallVector<Value> emitUnsplit(OpBuilder &builder, const Splittable &attention) {
  Operation *copy = builder.clone(*attention.op);
  copy->setAttr(kUnsplitAttr, builder.getUnitAttr());
  return llvm::to_vector_of<Value>(copy->getResults());
}

namespace {
class Sizes;

struct SplitKv : mla::impl::MlaSplitKvBase<SplitKv> {
  using MlaSplitKvBase::MlaSplitKvBase;

  void runOnOperation() override {
    if (failed(checkOptions()))
      return signalPassFailure();
    SmallVector<Splittable> attentions;
    getOperation().walk([&](Operation *op) {
      std::optional<Splittable> attention = getSplittable(op);
      if (attention && (!listsOnly || attention->listWidth != 0))
        attentions.push_back(*attention);
    });
    for (const Splittable &attention : attentions)
      split(attention);
  }

  LogicalResult checkOptions() {
    auto check = [&](StringRef name, int64_t value, int64_t least) -> LogicalResult {
      if (value >= least)
        return success();
      return emitError(getOperation().getLoc())
             << "mla-split-kv: expected " << name << " >= " << least << ", got " << value;
    };
    return success(succeeded(check("num-splits", numSplits, 0)) &&
                   succeeded(check("tile-rows", tileRows, 1)) &&
                   succeeded(check("block-tokens", blockTokens, 1)) &&
                   succeeded(check("min-split-blocks", minSplitBlocks, 1)) &&
                   succeeded(check("max-splits", maxSplits, 1)) &&
                   succeeded(check("merge-blocks", mergeBlocks, 0)) &&
                   succeeded(check("partial-rows-per-block", partialRowsPerBlock, 1)));
  }

  void split(const Splittable &attention);
  Value emitNumSplits(OpBuilder &builder, const Splittable &attention);
  Value emitPays(Sizes &sizes, Value splits, Value blocks);
};
} // namespace

void SplitKv::split(const Splittable &attention) {
  OpBuilder builder(attention.op);
  Location loc = attention.op->getLoc();
  if (numSplits == 1) {
    attention.op->setAttr(kUnsplitAttr, builder.getUnitAttr());
    return;
  }
  SmallVector<Value> results;
  if (numSplits > 1) {
    Value forced = arith::ConstantIndexOp::create(builder, loc, numSplits);
    results = emitSplit(builder, attention, forced);
  } else {
    Value splits = emitNumSplits(builder, attention);
    Value one = arith::ConstantIndexOp::create(builder, loc, 1);
    Value many = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, splits, one);
    auto branch = scf::IfOp::create(
        builder, loc, many,
        [&](OpBuilder &nested, Location) {
          scf::YieldOp::create(nested, loc, emitSplit(nested, attention, splits));
        },
        [&](OpBuilder &nested, Location) {
          scf::YieldOp::create(nested, loc, emitUnsplit(nested, attention));
        });
    results.assign(branch.getResults().begin(), branch.getResults().end());
  }
  attention.op->replaceAllUsesWith(results);
  attention.op->erase();
}

namespace {
class Sizes : public BatchSizes {
public:
  Sizes(OpBuilder &builder, const Splittable &attention)
      : BatchSizes(builder, attention.op->getLoc(), attention.batch), attention(attention) {}

  /// Programs without splits.
  Value countTiles(int64_t tileRows);
  /// Rows of the output, of a query and a head.
  Value countRows();
  /// Keys of a program without splits.
  Value countKeys();
  /// Entries of a token's lists, of which a sequence may have fewer.
  Value countListed();

private:
  const Splittable &attention;
};
} // namespace

Value Sizes::countTiles(int64_t tileRows) {
  if (attention.listWidth != 0) {
    int64_t ofToken = llvm::divideCeil(attention.group, tileRows);
    Value tokens = batchDim("num_tokens");
    return multiply(tokens, constant(ofToken));
  }
  Value heads = constant(attention.group);
  Value queryLen = batchDim("max_query_len");
  Value rows = multiply(queryLen, heads);
  Value rowTiles = ceilDiv(rows, tileRows);
  if (attention.groups != 1)
    rowTiles = multiply(rowTiles, constant(attention.groups));
  Value requests = batchDim("num_requests");
  return multiply(requests, rowTiles);
}

Value Sizes::countRows() {
  Value heads = constant(attention.group * attention.groups);
  Value tokens = batchDim("num_tokens");
  return multiply(tokens, heads);
}

Value Sizes::countListed() {
  Value total;
  for (const KeyList &list : attention.lists) {
    Value entries = constant(list.width);
    if (list.tokensPerEntry > 0)
      entries = minimum(entries, ceilDiv(batchDim("max_seq_len"), list.tokensPerEntry));
    total = total ? add(total, entries) : entries;
  }
  return total;
}

Value Sizes::countKeys() {
  if (attention.listWidth != 0)
    return countListed();
  Value keys = batchDim("max_seq_len");
  if (SharePrefixOp::ofOwn(attention.batch))
    keys = subtract(keys, batchDim("num_shared_tokens"));
  if (attention.window == 0)
    return keys;
  // The first query's first key to the last one's last.
  Value queryLen = batchDim("max_query_len");
  Value before = constant(attention.window - 1);
  Value seen = add(queryLen, before);
  return minimum(keys, seen);
}

/// Whether a program saves more blocks than the merge costs.
Value SplitKv::emitPays(Sizes &sizes, Value splits, Value blocks) {
  Value ofSplit = sizes.ceilDiv(blocks, splits);
  Value saved = sizes.subtract(blocks, ofSplit);
  Value left = sizes.subtract(saved, sizes.constant(mergeBlocks));
  Value afforded = sizes.multiply(left, sizes.constant(partialRowsPerBlock));
  Value rows = sizes.countRows();
  Value partials = sizes.multiply(rows, splits);
  return sizes.isMore(afforded, partials);
}

/// The formula of the pass's description.
Value SplitKv::emitNumSplits(OpBuilder &builder, const Splittable &attention) {
  Sizes sizes(builder, attention);
  Value tiles = sizes.countTiles(tileRows);
  // An empty batch has no tiles; its launches are skipped whatever comes out.
  Value divisor = sizes.atLeastOne(tiles);
  Value sms = sizes.batchDim("num_sms");
  Value parts = sizes.divide(sms, divisor);
  Value filling = sizes.atLeastOne(parts);
  Value keys = sizes.countKeys();
  Value blocks = sizes.ceilDiv(keys, blockTokens);
  Value useful = sizes.atLeastOne(sizes.ceilDiv(blocks, minSplitBlocks));
  Value splits = sizes.minimum(filling, useful);
  splits = sizes.minimum(splits, sizes.constant(maxSplits));
  if (mergeBlocks == 0)
    return splits;
  Value pays = emitPays(sizes, splits, blocks);
  return sizes.select(pays, splits, sizes.constant(1));
}
