//===- ExpandAttend.cpp - attention as a loop over blocks of keys ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Scores arrive unscaled, and the block's maximum is taken of them as they are:
// softmax scale and log2(e) are one positive factor, folded into the exponent.
// Source: FlashAttention-2 (Dao, 2023), section 3.1.
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Tile/Transforms/ExpandAttend.h"

#include "mla/Dialect/Tile/Transforms/Passes.h"
#include "mla/Dialect/Tile/Utils/KernelBuilder.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

namespace mlir::tile {
#define GEN_PASS_DEF_TILEEXPANDATTEND
#include "mla/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace mlir::tile

using namespace mlir;
using namespace mlir::tile;
using mlac::KernelBuilder;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Columns of the tile that the scale of a group is loaded by: the narrowest that all targets take.
static constexpr int64_t kScaleColumns = 16;

/// What the loop carries, in this order.
enum State : unsigned { kReference, kSum, kOutput };

namespace {
class Expander {
public:
  explicit Expander(ArrayRef<AttendOp> sources)
      : sources(sources), op(sources.back()), b(op), rows(op.getRows()), block(op.getBlock()),
        columns(op.getOutputWidth()) {}
  SoftmaxLoop run();

private:
  /// Where the keys of a block lie.
  struct Place {
    SmallVector<Value, 2> views;
    Value list, limit;
    Value key; // the block's first
  };

  SmallVector<Value> makeStart();
  Value countPositions();
  Place place(AttendOp source, Value key) {
    return {source.getKeys(), source.getList(), source.getLimit(), key};
  }
  void findPlace(Value position);
  Value chooseView(Value condition, Value view, Value other);
  SmallVector<Value> emitBlock(Value key, ValueRange carried);
  void emitTerm(unsigned term, Value key, Value &scores);
  Value emitKeys(unsigned term, Value key);
  Value emitValues(Value stored);
  Value joinParts(Value key);
  void emitPart(unsigned part, Value key, SmallVectorImpl<Value> &pieces);
  Value emitScale(unsigned term, Value key);
  Value emitGroupScales(Value key, int64_t groups);
  Value emitGroupScale(Value key, int64_t group, int64_t width);
  Value emitRowScale(Value key, int64_t group);
  Value gather(Value view, int64_t width, Value key, int64_t column = 0) {
    return gather(view, op.getTable(), width, key, column);
  }
  Value gather(Value view, Value table, int64_t width, Value key, int64_t column = 0);
  Value viewList(ArrayRef<OpFoldResult> sizes, ArrayRef<OpFoldResult> strides);
  Value isListed(Value key);
  Value isSeen(Value key);
  Value loadMarks(Value key);
  Value isMarked(Value key);
  Value cap(Value scores);
  SmallVector<Value> advance(ValueRange state, Value scores, Value isSeen, Value values);
  Value moveReference(Value carried, Value candidate);

  SmallVector<AttendOp, 2> sources;
  SmallVector<Value, 1> begins; // positions of the first blocks of all sources but the first
  Place now;                    // of the present block
  AttendOp op;                  // of which all sources have what is not where keys lie
  KernelBuilder b;
  int64_t rows, block, columns;
  SoftmaxLoop loop;
};
} // namespace

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

/// The block's rows of a view of the key source from `column` on, or of values in pages of
/// `table`.
Value Expander::gather(Value view, Value table, int64_t width, Value key, int64_t column) {
  if (!op.isPaged() && !op.isListed())
    return b.load(view, {key, b.index(column)}, {block, width});
  Type element = cast<MemRefType>(view.getType()).getElementType();
  auto type = RankedTensorType::get({block, width}, element);
  if (op.isPaged())
    return LoadPagedOp::create(b, type, view, table, key, b.index(column), now.limit);
  Value list = viewList({OpFoldResult(now.limit)}, {b.fixed(1)});
  return LoadRowsOp::create(b, type, view, list, key, b.index(column));
}

/// What a view is made by, behind casts of sizes that canonicalisation found to be constant.
static memref::ReinterpretCastOp findView(Value view) {
  while (auto cast = view.getDefiningOp<memref::CastOp>())
    view = cast.getSource();
  return view.getDefiningOp<memref::ReinterpretCastOp>();
}

/// The list as another view, of nothing behind `limit`.
Value Expander::viewList(ArrayRef<OpFoldResult> sizes, ArrayRef<OpFoldResult> strides) {
  memref::ReinterpretCastOp view = findView(now.list);
  OpFoldResult offset = view ? view.getMixedOffsets().front() : b.fixed(0);
  return b.view(view ? view.getSource() : now.list, offset, sizes, strides);
}

/// Whether the list's entries name rows, as a tile: unsigned, so that negative ones do not.
Value Expander::isListed(Value key) {
  Value repeated = viewList({b.fixed(rows), now.limit}, {b.fixed(0), b.fixed(1)});
  Value entries = b.load(repeated, {b.index(0), key}, {rows, block});
  loop.entries = entries.getDefiningOp<LoadOp>();
  SmallVector<OpFoldResult> sizes = findView(now.views[0]).getMixedSizes();
  Value rowCount = b.value(sizes.front());
  if (op.areKeysInPages())
    rowCount = b.mul(rowCount, b.value(sizes[1]));
  Value count = b.minimum(rowCount, b.index(std::numeric_limits<int32_t>::max()));
  loop.listedRows = b.toI32(count);
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, entries,
                               b.splat(loop.listedRows, {rows, block}));
}

/// The scale of a group of columns in `width` equal columns.
Value Expander::emitGroupScale(Value key, int64_t group, int64_t width) {
  auto view = op.getScales().getDefiningOp<memref::ReinterpretCastOp>();
  SmallVector<OpFoldResult> sizes = view.getMixedSizes(), strides = view.getMixedStrides();
  OpFoldResult first = view.getMixedOffsets().front();
  sizes.back() = b.fixed(width);
  strides.back() = b.fixed(0);
  Value repeated = b.view(view.getSource(), b.extent(b.value(first), group), sizes, strides);
  Value scale = gather(repeated, width, key);
  return isa<IntegerType>(getElementTypeOrSelf(scale)) ? b.powersOf2(scale) : scale;
}

/// The same, loaded once for each row: [block].
Value Expander::emitRowScale(Value key, int64_t group) {
  loop.groupScales.push_back(b.reduceMax(emitGroupScale(key, group, kScaleColumns)));
  return loop.groupScales.back();
}

/// The scale of each element of rows that are several groups each. A scale is loaded once
/// for a row; which one an element takes is decided bit by bit of its column: most bits
/// are the same in all of a thread's rows, so back ends decide them when they compile.
Value Expander::emitGroupScales(Value key, int64_t groups) {
  int64_t width = op.getWidth(0), group = width / groups;
  SmallVector<Value> scales;
  for (int64_t index = 0; index < groups; ++index) {
    scales.push_back(b.broadcast(emitRowScale(key, index), width));
  }
  Value column = b.iota(1, {block, width}), zero = b.constantI32({block, width}, 0);
  for (int64_t bit = group; scales.size() > 1; bit *= 2) {
    Value masked = arith::AndIOp::create(b, column, b.constantI32({block, width}, bit));
    Value isEven = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, masked, zero);
    for (size_t i = 0; i < scales.size() / 2; ++i)
      scales[i] = b.select(isEven, scales[2 * i], scales[2 * i + 1]);
    scales.resize(scales.size() / 2);
  }
  return scales.front();
}

/// The scale of each element of a term's keys; null where they have none.
Value Expander::emitScale(unsigned term, Value key) {
  if (!isa<Float8E4M3FNType>(op.getStorageType(term)))
    return {};
  auto type = cast<MemRefType>(op.getScales().getType());
  if (type.getRank() == 1) {
    if (!loop.scale)
      loop.scale = memref::LoadOp::create(b, op.getScales(), b.index(0));
    return b.splat(loop.scale, {block, op.getWidth(term)});
  }
  int64_t groups = type.getShape().back();
  return groups == 1 ? emitGroupScale(key, 0, op.getWidth(term)) : emitGroupScales(key, groups);
}

/// The columns of a part as operands of products, in pieces that have one scale each.
void Expander::emitPart(unsigned part, Value key, SmallVectorImpl<Value> &pieces) {
  Value view = now.views[part];
  int64_t width = op.getStoredWidth(part);
  bool isCode = isa<Float8E4M3FNType>(op.getStorageType(part));
  auto scales = isCode ? cast<MemRefType>(op.getScales().getType()) : MemRefType();
  int64_t groups = isCode && scales.getRank() > 1 ? scales.getShape().back() : 1;
  for (int64_t group = 0; group < groups; ++group) {
    int64_t columns = width / groups;
    Value factor;
    if (isCode && scales.getRank() > 1)
      factor = b.broadcast(emitRowScale(key, group), columns);
    else if (isCode)
      factor = b.splat(memref::LoadOp::create(b, op.getScales(), b.index(0)), {block, columns});
    Value wide = gather(view, columns, key, group * columns);
    if (!op.isPlain(part)) {
      wide = b.widen(wide);
      wide = b.narrow(factor ? b.mulf(wide, factor) : wide, op.getElementType());
    }
    pieces.push_back(wide);
  }
}

/// Parts of rows side by side.
Value Expander::joinParts(Value key) {
  SmallVector<Value> pieces;
  for (unsigned part = 0; part < op.getKeys().size(); ++part)
    emitPart(part, key, pieces);
  auto type = RankedTensorType::get({block, op.getWidth(0)}, op.getElementType());
  return tensor::ConcatOp::create(b, type, /*dim=*/1, pieces);
}

Value Expander::emitKeys(unsigned term, Value key) {
  if (op.hasParts())
    return joinParts(key);
  // Ahead of the codes, which take registers.
  Value scale = op.isPlain(term) ? Value() : emitScale(term, key);
  Value stored = gather(now.views[term], op.getWidth(term), key);
  loop.summands[term].load = stored.getDefiningOp();
  if (op.isPlain(term))
    return stored;
  Value wide = b.widen(stored);
  return b.narrow(scale ? b.mulf(wide, scale) : wide, op.getElementType());
}

/// Values of their own, as the product takes them. Of codes the scale is the second.
Value Expander::emitValues(Value stored) {
  if (!isa<Float8E4M3FNType>(cast<RankedTensorType>(stored.getType()).getElementType()))
    return stored;
  Value scale = memref::LoadOp::create(b, op.getScales(), b.index(1));
  return b.narrow(b.mulf(b.widen(stored), b.splat(scale, {block, columns})), op.getElementType());
}

void Expander::emitTerm(unsigned term, Value key, Value &scores) {
  SoftmaxLoop::Summand &made = loop.summands[term];
  made.query = op.getQueries()[term];
  made.keys = emitKeys(term, key);
  scores = b.dot(made.query, made.keys, scores, /*transposeRhs=*/true);
  made.dot = scores.getDefiningOp<DotOp>();
}

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

Value Expander::isSeen(Value key) {
  SmallVector<int64_t, 2> shape = {rows, block};
  if (op.getSeen()) {
    Value position = arith::AddIOp::create(b, b.iota(1, shape), b.splat(b.toI32(key), shape));
    Value isBefore = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, position,
                                           b.broadcast(op.getSeen(), block));
    if (!op.getBehind())
      return isBefore;
    Value isBehind = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, position,
                                           b.broadcast(op.getBehind(), block));
    return arith::AndIOp::create(b, isBefore, isBehind);
  }
  Value column = b.iota(1, shape);
  Value limit = b.splat(b.toI32(b.sub(now.limit, key)), shape);
  Value isThere = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, column, limit);
  if (op.isListed())
    return arith::AndIOp::create(b, isThere, isListed(key));
  if (!op.getDiagonal())
    return isThere;
  Value own = b.iota(0, rows);
  if (auto group = static_cast<int64_t>(op.getGroup()); group != 1)
    own = arith::DivUIOp::create(b, own, b.constantI32(rows, static_cast<int32_t>(group)));
  Value diagonal =
      arith::AddIOp::create(b, own, b.splat(b.toI32(b.sub(op.getDiagonal(), key)), rows));
  auto isColumn = [&](arith::CmpIPredicate predicate, Value bounds) {
    return arith::CmpIOp::create(b, predicate, column, b.broadcast(bounds, block));
  };
  isThere = arith::AndIOp::create(b, isThere, isColumn(arith::CmpIPredicate::sle, diagonal));
  if (!op.getBehind())
    return isThere;
  Value start = arith::SubIOp::create(b, op.getBehind(), b.splat(b.toI32(key), rows));
  return arith::AndIOp::create(b, isThere, isColumn(arith::CmpIPredicate::sge, start));
}

/// The word of each row that has `key`. One behind a row's last is of keys that are not there:
/// which it reads does not matter.
Value Expander::loadMarks(Value key) {
  memref::ReinterpretCastOp view = findView(op.getMarks());
  SmallVector<OpFoldResult> sizes = view.getMixedSizes(), strides = view.getMixedStrides();
  Value last = b.sub(b.value(sizes.back()), b.index(1));
  Value word = b.minimum(b.createOrFold<arith::DivUIOp>(key, b.index(AttendOp::kWordKeys)), last);
  Value offset = b.add(b.value(view.getMixedOffsets().front()), word);
  Value words = b.view(view.getSource(), b.extent(offset), {sizes.front()}, {strides.front()});
  return b.load(words, b.index(0), rows);
}

Value Expander::isMarked(Value key) {
  SmallVector<Value> words;
  for (int64_t first = 0; first < block; first += AttendOp::kWordKeys)
    words.push_back(loadMarks(b.add(key, first)));
  auto type = RankedTensorType::get({rows, block}, b.getI1Type());
  loop.marks = TestBitsOp::create(b, type, words);
  return loop.marks;
}

SmallVector<Value> Expander::makeStart() {
  if (OperandRange start = sources.front().getStart(); !start.empty())
    return start;
  return {b.constant({rows}, AttendOp::kStartReference), b.constant({rows}, 0),
          b.constant({rows, columns}, 0)};
}

/// With a lag, unordered: a candidate of NaN is taken, as max would.
Value Expander::moveReference(Value carried, Value candidate) {
  double lag = op.getLag().convertToDouble();
  if (lag == 0)
    return b.maxf(carried, candidate);
  Value limit = b.addf(carried, b.like(candidate, lag));
  Value exceeds = arith::CmpFOp::create(b, arith::CmpFPredicate::UGT, candidate, limit);
  return b.select(exceeds, candidate, carried);
}

/// Of scores that arrive unscaled, unscaled ones whose products with the scale are
/// t · tanh(score · scale / t): tanh x = 1 − 2 / (1 + e^2x), which no x takes out of its range.
Value Expander::cap(Value scores) {
  double limit = op.getSoftcap().convertToDouble(), scale = op.getScale().convertToDouble();
  if (limit == 0)
    return scores;
  Value one = b.like(scores, 1);
  Value power = b.exp2(b.mulf(scores, b.like(scores, 2 * llvm::numbers::log2e * scale / limit)));
  Value tanh = b.subf(one, b.divf(b.like(scores, 2), b.addf(one, power)));
  return b.mulf(tanh, b.like(scores, limit / scale));
}

SmallVector<Value> Expander::advance(ValueRange state, Value scores, Value isSeen, Value values) {
  double factor = op.getScale().convertToDouble() * llvm::numbers::log2e;
  loop.scores = scores;
  scores = b.select(isSeen, cap(scores), b.like(scores, -kInfinity));
  loop.mask = scores.getDefiningOp<arith::SelectOp>();
  if (op.getMarks())
    scores = b.select(isMarked(now.key), scores, b.like(scores, -kInfinity));
  Value blockMax = loop.blockMax = b.reduceMax(scores);
  loop.lag = op.getLag().convertToDouble();
  Value reference = moveReference(state[kReference], b.mulf(blockMax, b.like(blockMax, factor)));
  loop.correction = b.exp2(b.subf(state[kReference], reference));
  // One fused multiply-add for each score.
  Value scoresLog2 = loop.scoresLog2 = b.mulf(scores, b.like(scores, factor));
  loop.numerators = b.exp2(b.subf(scoresLog2, b.broadcast(reference, block)));
  Value scaledSum = b.mulf(state[kSum], loop.correction), share = b.reduceSum(loop.numerators);
  Value sum = b.addf(scaledSum, share);
  loop.sum = {kSum, sum.getDefiningOp<arith::AddFOp>(), loop.correction,
              share.getDefiningOp<ReduceOp>()};
  Value scaled = b.mulf(state[kOutput], b.broadcast(loop.correction, columns));
  loop.rescale = scaled.getDefiningOp<arith::MulFOp>();
  loop.weights = b.narrow(loop.numerators, op.getElementType());
  Value output = b.dot(loop.weights, values, scaled, /*transposeRhs=*/false);
  loop.product = output.getDefiningOp<DotOp>();
  return {reference, sum, output};
}

//===----------------------------------------------------------------------===//
// Loop
//===----------------------------------------------------------------------===//

/// Of the sources' blocks one behind the other; sets where each begins.
Value Expander::countPositions() {
  Value count;
  for (AttendOp source : sources) {
    Value keys = b.maximum(b.sub(source.getLast(), source.getFirst()), b.index(0));
    if (source != op) {
      Value blocks = b.mul(b.ceilDiv(keys, b.index(block)), block);
      begins.push_back(count ? b.add(count, blocks) : blocks);
    }
    count = source != op ? begins.back() : b.add(count, keys);
  }
  return count;
}

Value Expander::chooseView(Value condition, Value view, Value other) {
  memref::ReinterpretCastOp ofView = findView(view), ofOther = findView(other);
  auto choose = [&](ArrayRef<OpFoldResult> extents, ArrayRef<OpFoldResult> others) {
    SmallVector<OpFoldResult> chosen;
    for (auto [extent, other] : llvm::zip_equal(extents, others))
      chosen.push_back(extent == other
                           ? extent
                           : OpFoldResult(b.choose(condition, b.value(extent), b.value(other))));
    return chosen;
  };
  return b.view(b.choose(condition, ofView.getSource(), ofOther.getSource()),
                choose(ofView.getMixedOffsets(), ofOther.getMixedOffsets()).front(),
                choose(ofView.getMixedSizes(), ofOther.getMixedSizes()),
                choose(ofView.getMixedStrides(), ofOther.getMixedStrides()));
}

void Expander::findPlace(Value position) {
  AttendOp first = sources.front();
  if (sources.size() == 1) {
    now = place(first, op.getUnit() == 1 ? position : b.mul(position, op.getUnit()));
    return;
  }
  now = place(first, b.add(first.getFirst(), position));
  for (auto [begin, source] : llvm::zip_equal(begins, ArrayRef(sources).drop_front())) {
    Value isBehind = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, position, begin);
    Place other = place(source, b.add(AttendOp(source).getFirst(), b.sub(position, begin)));
    for (auto [view, otherView] : llvm::zip_equal(now.views, other.views))
      view = chooseView(isBehind, otherView, view);
    now.list = chooseView(isBehind, other.list, now.list);
    now.limit = b.choose(isBehind, other.limit, now.limit);
    now.key = b.choose(isBehind, other.key, now.key);
  }
}

SmallVector<Value> Expander::emitBlock(Value position, ValueRange carried) {
  findPlace(position);
  Value key = now.key;
  loop.summands.resize(op.getQueries().size());
  Value scores = b.constant({rows, block}, 0);
  for (unsigned term = 0; term < loop.summands.size(); ++term)
    emitTerm(term, key, scores);
  Value seen = isSeen(key), values = loop.summands[0].keys;
  if (op.getValues()) {
    values = gather(op.getValues(), op.getValueTable(), columns, key);
    loop.valuesLoad = values.getDefiningOp();
    values = emitValues(values);
  }
  return advance(carried, scores, seen, values);
}

SoftmaxLoop Expander::run() {
  loop.kernel = op->getParentOfType<KernelOp>();
  loop.outputIndex = kOutput;
  Value step = b.index(op.getUnit() == 1 ? block : 1);
  SmallVector<Value> start = makeStart();
  bool isOne = sources.size() == 1;
  Value first = isOne ? Value(op.getFirst()) : b.index(0);
  Value last = isOne ? Value(op.getLast()) : countPositions();
  SmallVector<Value> results =
      b.loop(first, last, step, start,
             [&](Value position, ValueRange carried) { return emitBlock(position, carried); });
  loop.keys = results.front().getDefiningOp<scf::ForOp>();
  op.replaceAllUsesWith(results);
  for (AttendOp source : llvm::reverse(sources))
    source.erase();
  return std::move(loop);
}

static SoftmaxLoop expand(ArrayRef<AttendOp> sources) {
  SoftmaxLoop loop = Expander(sources).run();
  // What the loop has in common with what stands around it.
  IRRewriter rewriter(loop.kernel->getContext());
  DominanceInfo dominance(loop.kernel);
  eliminateCommonSubExpressions(rewriter, dominance, loop.kernel);
  return loop;
}

SoftmaxLoop tile::expandAttend(AttendOp op) { return expand(findSources(op)); }

/// Whether keys are rows of views that lists name, multiplied as they are.
static bool areRowsByList(AttendOp op) {
  bool arePlain = op.isListed() && !op.hasParts() && findView(op.getList());
  for (unsigned term = 0; arePlain && term < op.getKeys().size(); ++term)
    arePlain = op.isPlain(term) && !op.areKeysInPages() && findView(op.getKeys()[term]);
  return arePlain && op.getUnit() == 1;
}

/// Whether `op` is to `other` what a list is to another.
static bool differInLists(AttendOp op, AttendOp other) {
  auto areAlike = [](Value view, Value otherView) {
    return cast<MemRefType>(view.getType()).getShape().back() ==
               cast<MemRefType>(otherView.getType()).getShape().back() &&
           findView(view).getSource().getType() == findView(otherView).getSource().getType();
  };
  return areRowsByList(op) && areRowsByList(other) &&
         llvm::equal(op.getQueries(), other.getQueries()) &&
         llvm::equal(op.getKeys(), other.getKeys(), areAlike) &&
         op.getOutputType() == other.getOutputType() && op.getBlock() == other.getBlock() &&
         op.getScaleAttr() == other.getScaleAttr() && op.getLagAttr() == other.getLagAttr() &&
         op.getExact() == other.getExact() && op.getSoftcapAttr() == other.getSoftcapAttr();
}

SmallVector<AttendOp, 2> tile::findSources(AttendOp last) {
  SmallVector<AttendOp, 2> sources{last};
  while (!sources.back().getStart().empty()) {
    AttendOp op = sources.back();
    auto before = op.getStart().front().getDefiningOp<AttendOp>();
    bool goesOn = before && llvm::equal(op.getStart(), before->getResults()) &&
                  llvm::all_of(before->getResults(), [](Value v) { return v.hasOneUse(); });
    if (!goesOn || before->getBlock() != op->getBlock() || !differInLists(op, before))
      break;
    sources.push_back(before);
  }
  return llvm::to_vector<2>(llvm::reverse(sources));
}

AttendOp tile::findAttend(KernelOp kernel) {
  SmallVector<AttendOp, 2> all;
  kernel.walk([&](AttendOp op) { all.push_back(op); });
  return !all.empty() && findSources(all.back()).size() == all.size() ? all.back() : AttendOp();
}

/// The first, or null.
static AttendOp findFirstAttend(KernelOp kernel) {
  AttendOp found;
  kernel.walk([&](AttendOp op) {
    found = op;
    return WalkResult::interrupt();
  });
  return found;
}

void tile::expandAttends(KernelOp kernel) {
  // Each is looked up anew: one whose results nobody reads may have gone with another's
  // common subexpressions.
  while (AttendOp op = findFirstAttend(kernel))
    expand(op);
}

namespace {
struct ExpandAttend : tile::impl::TileExpandAttendBase<ExpandAttend> {
  using Base::Base;
  void runOnOperation() override { expandAttends(getOperation()); }
};
} // namespace
