//===- IndexScores.cpp - what each key may matter to each new token ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keys are the rows of a tile and heads its columns, so that the sum over heads is one along
// a row, and a vector of 64 scores is what a program stores. Queries stay, keys pass by:
//
//     grid   x: runs of a request's keys   y: requests   z: a few new tokens
//
//     for each block of 64 keys of the run
//       for each of the tokens
//         scores[token, keys] = scales[keys] * sum over heads of w * relu(keys . queries)
//
// Scales are loaded a few blocks ahead: unlike keys they are needed in registers, and nobody
// else hides how long that takes.
//
// Keys in MXFP4 are numbers before they are multiplied, as the queries are. Two of their columns
// are a byte, so that they are two tiles, and so are queries: even columns, odd ones.
//
//===----------------------------------------------------------------------===//

#include "Plan/Lowerings.h"
#include "Plan/PagedPool.h"
#include "Rows/Fours.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::mla_to_tile;
using cache::Part;

/// New tokens of a program where requests have several: each block of keys is read once for
/// them. Their products must all fit into registers, those of two tokens of 64 heads.
static constexpr int64_t kFewTokens = 2, kMostTokens = 8, kProductColumns = 128;
/// Blocks that scales are loaded ahead of keys.
static constexpr int64_t kScalesAhead = 2;
/// Programs of one token that a multiprocessor is to hold side by side; of two, one less.
static constexpr int64_t kResident = 3;
/// Blocks of keys of a program, about, where there are many: enough to hide its start, few enough
/// for even shares of requests that are not alike.
static constexpr int64_t kMostBlocks = 64;

namespace {
class IndexScoresKernel {
public:
  IndexScoresKernel(StepLowering &step, mla::IndexScoresOp op);
  LogicalResult launch();

private:
  enum Argument {
    kQuery,
    kWeights,
    kScores,
    kRows,
    kColumns,
    kRunBlocks,
    kQueryStarts,
    kSeqLens,
    kTable,
    kMaxBlocks,
    kFirst,
    kSliceRows
  };
  /// What a program has of a request.
  struct Work {
    Value table;
    Value row, token, endToken; // the first token's row of the batch; of the request's, and the end
    Value firstKey, lastKey;
  };
  /// A token's part of the program.
  struct Token {
    SmallVector<Value> query; // a group of columns each, [heads, group]; or even and odd ones
    Value weights;            // [keys, heads], rows alike
    Value scores;             // view of its row, empty where there is no such token
  };
  /// Rows of the pool that so many tokens have.
  Value rowsOf(KernelBuilder &b, Value tokens) const {
    int64_t perRow = pool.type.getTokensPerRow();
    return perRow == 1 ? tokens : b.divNarrow(tokens, b.index(perRow));
  }
  int64_t countResident() const { return tokens == 1 ? kResident : kResident - 1; }
  Value chooseRun(Value requests, Value tokens);
  Work findWork(KernelBuilder &b, ValueRange own);
  void launchOf(int64_t tokensOfProgram);
  void write(KernelBuilder &b, ValueRange args);
  Token loadToken(KernelBuilder &b, ValueRange own, const Work &work, int64_t index);
  Value loadGroup(KernelBuilder &b, Value view, const Work &work, Value key, Value column,
                  int64_t width);
  Value load(KernelBuilder &b, Value view, ValueRange at, ArrayRef<int64_t> shape);
  SmallVector<Value> loadQuery(KernelBuilder &b, ValueRange own, Value row);
  SmallVector<Value> loadCodes(KernelBuilder &b, const Pool &inner, const Work &work, Value key);
  SmallVector<Value> loadNumbers(KernelBuilder &b, const Pool &inner, const Work &work, Value key);
  Value loadScale(KernelBuilder &b, const Pool &inner, const Work &work, Value key, int64_t index);
  Value isInSlice(KernelBuilder &b, ValueRange own, Value target, int64_t more);
  Value score(KernelBuilder &b, const Token &token, ArrayRef<Value> keyGroups,
              ArrayRef<Value> scales);

  StepLowering &step;
  mla::IndexScoresOp op;
  Pool pool;
  TensorRef query, weights, scores;
  int64_t heads, columns, width, group, keys, tokens;
  bool isPacked;
};
} // namespace

IndexScoresKernel::IndexScoresKernel(StepLowering &step, mla::IndexScoresOp op)
    : step(step), op(op), pool(Pool::ofPlan(step, op.getCache())),
      query(step.lookup(op.getQuery())), weights(step.lookup(op.getWeights())),
      scores(step.allocate(op.getResult())), heads(query.size(1)), columns(paddedWidth(heads)),
      width(query.size(2)), group(pool.type.getLayout().scaleGroup), keys(step.shapes.keys),
      tokens(op.getBatch().getType().getQueryLen() == 1 ? 1 : kFewTokens),
      isPacked(cache::isPacked(pool.type.getLayout())) {}

/// Blocks of keys of a program: of a longest request so many that all programs of a batch of such
/// fill turns of the machine, the last one too.
Value IndexScoresKernel::chooseRun(Value requests, Value tokenTiles) {
  OpBuilder &b = step.plan();
  Location loc = op.getLoc();
  auto multiply = [&](Value x, Value y) { return b.createOrFold<arith::MulIOp>(loc, x, y); };
  Value blocks = step.ceilDiv(step.mostRows(op.getCache(), op.getBatch()), keys);
  Value rows = multiply(requests, tokenTiles);
  Value resident = step.multiply(step.dim("num_sms"), countResident());
  Value ofTurn = step.multiply(resident, kMostBlocks);
  Value turns = arith::CeilDivSIOp::create(b, loc, multiply(blocks, rows), ofTurn);
  Value one = step.constant(1);
  Value some = arith::MaxSIOp::create(b, loc, rows, one); // a batch of nothing has none
  Value runs = arith::DivSIOp::create(b, loc, multiply(turns, resident), some);
  runs = arith::MaxSIOp::create(b, loc, runs, one);
  Value run = arith::CeilDivSIOp::create(b, loc, blocks, runs);
  return arith::MaxSIOp::create(b, loc, run, one);
}

IndexScoresKernel::Work IndexScoresKernel::findWork(KernelBuilder &b, ValueRange own) {
  Work work;
  Value request = b.programId(1);
  RowRange range = loadRange(b, own[kQueryStarts], request);
  work.token = b.mul(b.programId(2), tokens);
  work.row = b.add(range.begin, work.token);
  work.endToken = b.minimum(b.add(work.token, tokens), range.count);
  Value context = b.sub(b.loadScalar(own[kSeqLens], request), range.count);
  Value run = b.mul(own[kRunBlocks], keys), end = rowsOf(b, b.add(context, work.endToken));
  work.firstKey = b.mul(b.programId(0), run);
  work.lastKey = b.minimum(b.add(work.firstKey, run), end);
  work.table = blockTableRow(b, own[kTable], request, own[kMaxBlocks]);
  return work;
}

static Value both(KernelBuilder &b, Value left, Value right) {
  return left && right ? Value(arith::AndIOp::create(b, left, right)) : left ? left : right;
}

/// Whether one of the rows from `target` to `target + more` of the result is there; null: all are.
Value IndexScoresKernel::isInSlice(KernelBuilder &b, ValueRange own, Value target, int64_t more) {
  if (!op.getFirst())
    return {};
  return both(b, b.isBelow(b.index(-1 - more), target), b.isBelow(target, own[kSliceRows]));
}

/// Elements as they are where they are multiplied so, else f32.
Value IndexScoresKernel::load(KernelBuilder &b, Value view, ValueRange at,
                              ArrayRef<int64_t> shape) {
  Value tile = b.load(view, at, shape);
  return step.shapes.isRowCountFixed ? tile : b.widen(tile);
}

/// Of the batch's token `row`. Columns behind its heads are zeros and not the next token's heads:
/// their weights are zeros, but a NaN times zero is one.
SmallVector<Value> IndexScoresKernel::loadQuery(KernelBuilder &b, ValueRange own, Value row) {
  SmallVector<Value> tiles;
  Value first = b.mul(row, heads);
  Value rows = heads == columns ? own[kRows] : b.minimum(b.add(row, 1), own[kRows]);
  auto view = [&](int64_t column, int64_t every) {
    return b.view(own[kQuery], b.fixed(query.offset + column),
                  {OpFoldResult(b.mul(rows, heads)), b.fixed(width / every)},
                  {b.fixed(width), b.fixed(every)});
  };
  if (isPacked)
    for (int64_t column : {0, 1})
      tiles.push_back(load(b, view(column, 2), {first, b.index(0)}, {columns, width / 2}));
  else
    for (int64_t column = 0; column < width; column += group)
      tiles.push_back(load(b, view(0, 1), {first, b.index(column)}, {columns, group}));
  return tiles;
}

IndexScoresKernel::Token IndexScoresKernel::loadToken(KernelBuilder &b, ValueRange own,
                                                      const Work &work, int64_t index) {
  Token token;
  Value zero = b.index(0), row = b.add(work.row, index);
  token.query = loadQuery(b, own, row);
  // Behind the last token queries are zeros, and its weights are as good as any.
  Value known = index == 0 ? row : b.minimum(row, b.sub(own[kRows], b.index(1)));
  Value factors =
      b.view(own[kWeights], b.extent(b.mul(known, weights.strides[0]), weights.offset),
             {b.fixed(keys), b.fixed(heads)}, {b.fixed(0), b.fixed(weights.strides[1])});
  token.weights = b.load(factors, {zero, zero}, {keys, columns});
  Value target = op.getFirst() ? b.sub(row, own[kFirst]) : row;
  Value isThere =
      both(b, b.isBelow(b.add(work.token, index), work.endToken), isInSlice(b, own, target, 0));
  token.scores = b.view(own[kScores], b.extent(b.mul(target, own[kColumns]), scores.offset),
                        {OpFoldResult(b.choose(isThere, work.lastKey, zero))}, {b.fixed(1)});
  return token;
}

/// `width` columns of a field of the keys from `key` on; zeros behind the last that is seen.
Value IndexScoresKernel::loadGroup(KernelBuilder &b, Value view, const Work &work, Value key,
                                   Value column, int64_t width) {
  Type element = cast<MemRefType>(view.getType()).getElementType();
  return tile::LoadPagedOp::create(b, RankedTensorType::get({keys, width}, element), view,
                                   work.table, key, column, work.lastKey);
}

/// Of a group all columns are its scale, so that a vector of them is the largest.
Value IndexScoresKernel::loadScale(KernelBuilder &b, const Pool &inner, const Work &work, Value key,
                                   int64_t index) {
  Value view = inner.view(b, Part::Scale, b.fixed(index), kWidthMultiple, /*stride=*/0);
  return loadGroup(b, view, work, key, b.index(0), kWidthMultiple);
}

SmallVector<Value> IndexScoresKernel::loadCodes(KernelBuilder &b, const Pool &inner,
                                                const Work &work, Value key) {
  SmallVector<Value> tiles;
  Value view = inner.view(b, Part::Index, b.fixed(0), width);
  for (int64_t first = 0; first < width; first += group) {
    Value tile = loadGroup(b, view, work, key, b.index(first), group);
    tiles.push_back(step.shapes.isRowCountFixed ? tile : b.widen(tile));
  }
  return tiles;
}

/// Even columns of keys in MXFP4, and odd ones.
SmallVector<Value> IndexScoresKernel::loadNumbers(KernelBuilder &b, const Pool &inner,
                                                  const Work &work, Value key) {
  SmallVector<Value> even, odd;
  int64_t bytes = group / 2;
  Type element = step.shapes.isRowCountFixed ? pool.type.getElement() : b.getF32Type();
  Value view = inner.view(b, Part::Index, b.fixed(0), pool.storedWidth(Part::Index));
  for (int64_t index = 0; index < width / group; ++index) {
    Value scale = b.reduceMax(b.powersOf2(loadScale(b, inner, work, key, index)));
    Value tile = loadGroup(b, view, work, key, b.index(index * bytes), bytes);
    auto [low, high] = unpackFours(b, tile);
    scale = b.broadcast(scale, bytes);
    even.push_back(b.narrow(b.mulf(low, scale), element));
    odd.push_back(b.narrow(b.mulf(high, scale), element));
  }
  if (even.size() == 1)
    return {even[0], odd[0]};
  auto type = RankedTensorType::get({keys, width / 2}, element);
  return {tensor::ConcatOp::create(b, type, /*dim=*/1, even),
          tensor::ConcatOp::create(b, type, /*dim=*/1, odd)};
}

/// A vector of a token's scores. One scale for all columns comes last, none where tiles have theirs
/// in them.
Value IndexScoresKernel::score(KernelBuilder &b, const Token &token, ArrayRef<Value> keyGroups,
                               ArrayRef<Value> scales) {
  Value sum, none = b.constant({keys, columns}, 0);
  for (auto [index, tile, heads] : llvm::enumerate(keyGroups, token.query)) {
    Value before = sum && scales.empty() ? sum : none;
    Value product = b.dot(tile, heads, before, /*transposeRhs=*/true);
    if (scales.size() > 1)
      product = b.mulf(product, b.broadcast(b.reduceMax(scales[index]), columns));
    sum = sum && !scales.empty() ? b.addf(sum, product) : product;
  }
  Value total = b.reduceSum(b.mulf(b.maxf(sum, b.like(sum, 0)), token.weights));
  return scales.size() == 1 ? b.mulf(total, b.reduceMax(scales[0])) : total;
}

void IndexScoresKernel::write(KernelBuilder &b, ValueRange args) {
  b.setResidentPrograms(countResident());
  Pool inner = pool.inKernel(args);
  ValueRange own = args.drop_front(pool.args().size());
  Work work = findWork(b, own);
  Value hasTokens = b.isBelow(work.token, work.endToken);
  Value hasKeys = b.isBelow(work.firstKey, work.lastKey);
  Value target = op.getFirst() ? b.sub(work.row, own[kFirst]) : work.row;
  Value hasRows = isInSlice(b, own, target, tokens - 1);
  b.ifThen(both(b, both(b, hasTokens, hasKeys), hasRows), [&] {
    SmallVector<Token> all;
    for (int64_t index = 0; index < tokens; ++index)
      all.push_back(loadToken(b, own, work, index));
    int64_t groups = isPacked ? 0 : width / group; // whose scales are loaded ahead
    auto loadScales = [&](Value key, SmallVectorImpl<Value> &scales) {
      for (int64_t index = 0; index < groups; ++index)
        scales.push_back(loadScale(b, inner, work, key, index));
    };
    SmallVector<Value> ahead;
    for (int64_t block = 0; block < kScalesAhead; ++block)
      loadScales(b.add(work.firstKey, block * keys), ahead);
    b.loop(work.firstKey, work.lastKey, b.index(keys), ahead, [&](Value key, ValueRange scales) {
      SmallVector<Value> next = llvm::to_vector(scales.drop_front(groups));
      SmallVector<Value> tiles =
          isPacked ? loadNumbers(b, inner, work, key) : loadCodes(b, inner, work, key);
      loadScales(b.add(key, kScalesAhead * keys), next);
      for (const Token &token : all)
        b.store(score(b, token, tiles, llvm::to_vector(scales.take_front(groups))), token.scores,
                {key});
      return next;
    });
  });
}

LogicalResult IndexScoresKernel::launch() {
  if (query.strides[2] != 1 || query.strides[1] != width || query.strides[0] != heads * width)
    return op.emitOpError("expected the heads of the query one behind the other, got strides ")
           << query.strides[0] << ", " << query.strides[1] << " and " << query.strides[2];
  // More tokens than a request has would be multiplied for nothing: 64 requests of two took 1.11
  // times as long with programs of eight, 1024 tokens 0.86 times (16 heads, one H200).
  int64_t most = std::min(kProductColumns / columns, kMostTokens);
  if (tokens == 1 || most <= tokens) {
    launchOf(tokens);
    return success();
  }
  step.versionByRows(
      step.dim(op.getBatch(), "max_query_len"), most - 1, [&] { launchOf(kFewTokens); },
      [&] { launchOf(most); });
  return success();
}

void IndexScoresKernel::launchOf(int64_t tokensOfProgram) {
  tokens = tokensOfProgram;
  Value batch = op.getBatch(), requests = step.dim(batch, "num_requests");
  Value tokenTiles = step.ceilDiv(step.dim(batch, "max_query_len"), tokens);
  Value run = chooseRun(requests, tokenTiles);
  SmallVector<Value> args = pool.args();
  args.append({query.buffer, weights.buffer, scores.buffer, step.value(query.sizes[0]),
               step.value(scores.sizes[1]), run, step.metadata(batch, "query_start_loc"),
               step.metadata(batch, "seq_lens"),
               step.poolMetadata(op.getCache(), batch, "block_table"),
               step.poolDim(op.getCache(), "max_blocks_per_request")});
  if (op.getFirst())
    args.append({step.scalar(op.getFirst()), step.value(scores.sizes[0])});
  Value blocks = step.ceilDiv(step.mostRows(op.getCache(), batch), keys);
  Value runs = arith::CeilDivSIOp::create(step.plan(), op.getLoc(), blocks, run);
  std::string suffix = tokens > kFewTokens ? "_tokens_" + std::to_string(tokens) : "";
  step.launch(
      llvm::formatv("index_scores_{0}x{1}{2}", heads, width, suffix).str(),
      {runs, requests, tokenTiles}, args,
      [&](KernelBuilder &b, ValueRange inner) { write(b, inner); }, step.chained());
}

LogicalResult mlac::mla_to_tile::lower(StepLowering &step, mla::IndexScoresOp op) {
  return IndexScoresKernel(step, op).launch();
}
