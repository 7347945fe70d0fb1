//===- SwapOperands.cpp - keys where rows were ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every tile of an attention's kernel is one of three things:
//
//     kept      queries [64, W] (their rows become N) and keys [64, W]: operands of
//               dots, as they lie in memory, and what makes keys of codes
//     swapped   [64, C], rows first: becomes C / 64 tiles [64, N], one for each 64
//               columns
//     vector    [64], one element per row: becomes [N]
//
// A first walk finds what cannot be swapped around the tile.attend. Of what that expands to
// ExpandAttend.h says which is which; a second walk builds the transpose beside the kernel.
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Tile/Transforms/ExpandAttend.h"
#include "mla/Dialect/Tile/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::tile {
#define GEN_PASS_DEF_TILESWAPOPERANDS
#include "mla/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace mlir::tile

using namespace mlir;
using namespace mlir::tile;

/// Rows of the M side of a wgmma, and thus of every tile of these kernels.
static constexpr int64_t kTileRows = 64;

/// The N side of a wgmma comes in groups of 8.
static constexpr int64_t kColumnGroup = 8;

static RankedTensorType getTile(Value value) { return dyn_cast<RankedTensorType>(value.getType()); }

//===----------------------------------------------------------------------===//
// What the pass takes
//===----------------------------------------------------------------------===//

static std::string checkAttend(AttendOp attend) {
  if (!attend.isPaged() && !attend.isListed())
    return "its keys do not come in pages or by a list";
  OperandRange start = findStart(attend);
  if (!start.empty() && !matchPattern(start.back(), m_AnyZeroFloat()))
    return "its attention goes on from a partial";
  if (attend.hasParts())
    return "its keys are parts of rows";
  if (attend.getBlock() != kTileRows)
    return "its blocks of keys are not of 64";
  for (unsigned term = 0; term < attend.getKeys().size(); ++term)
    if (!attend.isPlain(term) && !isa<Float8E4M3FNType>(attend.getStorageType(term)))
      return "its keys are neither stored as they are multiplied nor codes";
  for (Value query : attend.getQueries())
    if (!query.getDefiningOp<LoadOp>() ||
        !query.hasNUses(static_cast<unsigned>(findSources(attend).size())))
      return "a query is more than a loaded tile";
  // It is dead as soon as it is a loop.
  return attend->use_empty() ? "nothing uses its attention" : "";
}

/// Shapes of tiles that are swapped.
static std::string checkTiles(Operation *op) {
  for (Value value : op->getResults()) {
    RankedTensorType tile = getTile(value);
    if (tile && (tile.getDimSize(0) != kTileRows ||
                 (tile.getRank() == 2 && tile.getDimSize(1) % kTileRows != 0)))
      return "a tile whose rows or columns do not come in 64";
  }
  return "";
}

/// What stands around the attention of `kernel`.
static std::string checkOp(Operation *op) {
  // Its tiles stay as they are but for the number of rows.
  auto isAttend = llvm::IsaPred<AttendOp>;
  if (auto load = dyn_cast<LoadOp>(op); load && load.getType().getRank() == 2 &&
                                        !load->use_empty() &&
                                        llvm::all_of(load->getUsers(), isAttend))
    return "";
  if (auto load = dyn_cast<LoadOp>(op); load && load.getType().getRank() == 1)
    return checkTiles(op);
  bool fits =
      llvm::TypeSwitch<Operation *, bool>(op)
          .Case([&](ReduceOp reduce) {
            return reduce.getDim() == 1 && getTile(reduce.getSource()).getDimSize(1) == kTileRows;
          })
          .Case([&](BroadcastOp cast) { return cast.getDim() == 1; })
          .Case([&](IotaOp iota) {
            return iota.getDim() == 0 || iota.getType().getDimSize(1) == kTileRows;
          })
          .Case([&](StoreOp store) { return !store.getTransposed(); })
          .Case([&](arith::ConstantOp constant) {
            return !getTile(constant.getResult()) || isa<SplatElementsAttr>(constant.getValue());
          })
          .Case<AttendOp, SplatOp, ProgramIdOp, ReturnOp, scf::ForOp, scf::IfOp, scf::YieldOp>(
              [](Operation *) { return true; })
          .Default([](Operation *op) {
            return op->getNumRegions() == 0 &&
                   isa<arith::ArithDialect, math::MathDialect, memref::MemRefDialect>(
                       op->getDialect());
          });
  return fits ? checkTiles(op) : "'" + op->getName().getStringRef().str() + "' in a form not known";
}

/// Nothing, or what of `kernel` cannot be swapped.
static std::string check(KernelOp kernel) {
  std::string why;
  kernel.getBody().walk([&](Operation *op) {
    why = checkOp(op);
    return why.empty() ? WalkResult::advance() : WalkResult::interrupt();
  });
  if (!why.empty())
    return why;
  AttendOp attend = findAttend(kernel);
  return attend ? checkAttend(attend) : "it has not one attention";
}

//===----------------------------------------------------------------------===//
// Rewriting
//===----------------------------------------------------------------------===//

/// The ops inside of the key loop that `keys` is computed by.
static SetVector<Operation *> findMakers(SoftmaxLoop &attention, Value keys) {
  SetVector<Operation *> makers;
  SmallVector<Value> pending{keys};
  while (!pending.empty()) {
    Operation *op = pending.pop_back_val().getDefiningOp();
    bool isInside = op && attention.keys->isProperAncestor(op);
    if (isInside && getTile(op->getResult(0)) && makers.insert(op))
      llvm::append_range(pending, op->getOperands());
  }
  return makers;
}

/// Gives others their own: what common subexpressions made one here would have two meanings.
static void separate(const SetVector<Operation *> &makers, Value keys) {
  for (Operation *op : makers) {
    auto isOther = [&](OpOperand &use) {
      return use.get() != keys && !makers.contains(use.getOwner());
    };
    if (llvm::none_of(op->getUses(), isOther))
      continue;
    Operation *twin = OpBuilder(op).clone(*op);
    op->getResult(0).replaceUsesWithIf(twin->getResult(0), isOther);
  }
}

namespace {
class Swapper {
public:
  /// Of the kernel around `attention`, which starts from nothing.
  Swapper(SoftmaxLoop attention, int64_t rows);
  /// A kernel that stands nowhere yet.
  KernelOp run();

private:
  using Values = SmallVector<Value>;

  void emitBlock(Block &block);
  void emit(Operation *op);
  void emitFor(scf::ForOp loop);
  void emitIf(scf::IfOp branch);
  void emitRegion(Region &from, Block &to);
  void emitDot(DotOp dot);
  void emitStore(StoreOp store);
  void emitEntries();
  void emitElementwise(Operation *op);
  bool isOfSum(Operation *op);
  void emitRunningSum();

  RankedTensorType convert(RankedTensorType tile);
  /// How many new values stand for an old one.
  int64_t countParts(Value value);
  Value get(Value value) { return values.lookup(value).front(); }
  Value get(Value value, int64_t part) {
    const Values &parts = values.find(value)->second;
    return parts[parts.size() == 1 ? 0 : part];
  }
  Values flatten(ValueRange range);
  SmallVector<Type> flattenTypes(ValueRange range);
  void map(ValueRange olds, ValueRange news);
  void map(Value old, Value value) { values[old] = {value}; }
  DenseElementsAttr resize(DenseElementsAttr constant) {
    return constant.resizeSplat(convert(cast<RankedTensorType>(constant.getType())));
  }
  Value addColumns(Location loc, Value column, int64_t more);

  SoftmaxLoop attention;
  KernelOp kernel;
  int64_t rows;
  OpBuilder builder;
  DenseMap<Value, Values> values;
  DenseSet<Value> kept;
};
} // namespace

Swapper::Swapper(SoftmaxLoop attention, int64_t rows)
    : attention(attention), kernel(attention.kernel), rows(rows), builder(kernel.getContext()) {
  auto keep = [&](Value operand) {
    kept.insert(operand);
    SetVector<Operation *> makers = findMakers(this->attention, operand);
    separate(makers, operand);
    for (Operation *maker : makers)
      kept.insert(maker->getResult(0));
  };
  for (SoftmaxLoop::Summand &summand : this->attention.summands) {
    kept.insert(summand.query);
    keep(summand.keys);
  }
  if (attention.valuesLoad)
    keep(this->attention.product.getRhs());
}

RankedTensorType Swapper::convert(RankedTensorType tile) {
  if (tile.getRank() == 1)
    return RankedTensorType::get({rows}, tile.getElementType());
  return RankedTensorType::get({kTileRows, rows}, tile.getElementType());
}

int64_t Swapper::countParts(Value value) {
  RankedTensorType tile = getTile(value);
  return tile && tile.getRank() == 2 && !kept.contains(value) ? tile.getDimSize(1) / kTileRows : 1;
}

SmallVector<Value> Swapper::flatten(ValueRange range) {
  Values flat;
  for (Value value : range)
    for (int64_t part = 0; part < countParts(value); ++part)
      flat.push_back(get(value, part));
  return flat;
}

SmallVector<Type> Swapper::flattenTypes(ValueRange range) {
  SmallVector<Type> flat;
  for (Value value : range) {
    RankedTensorType tile = getTile(value);
    flat.append(countParts(value), tile ? convert(tile) : value.getType());
  }
  return flat;
}

void Swapper::map(ValueRange olds, ValueRange news) {
  for (Value old : olds) {
    int64_t parts = countParts(old);
    values[old] = llvm::to_vector(news.take_front(parts));
    news = news.drop_front(parts);
  }
}

Value Swapper::addColumns(Location loc, Value column, int64_t more) {
  if (more == 0)
    return column;
  Value constant = arith::ConstantIndexOp::create(builder, loc, more);
  return arith::AddIOp::create(builder, loc, column, constant);
}

KernelOp Swapper::run() {
  auto result =
      KernelOp::create(builder, kernel.getLoc(), kernel.getSymName(), kernel.getArgumentTypes());
  result->setAttrs(kernel->getAttrDictionary());
  Block &body = result.getBody().front();
  map(kernel.getBody().getArguments(), body.getArguments());
  builder.setInsertionPointToStart(&body);
  emitBlock(kernel.getBody().front());
  ReturnOp::create(builder, kernel.getLoc());
  return result;
}

void Swapper::emitBlock(Block &block) {
  for (Operation &op : block.without_terminator())
    emit(&op);
}

void Swapper::emit(Operation *op) {
  if (isOfSum(op)) {
    if (op == attention.sum.add)
      emitRunningSum();
    return;
  }
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](scf::ForOp loop) { emitFor(loop); })
      .Case([&](scf::IfOp branch) { emitIf(branch); })
      .Case([&](DotOp dot) { emitDot(dot); })
      .Case([&](StoreOp store) { emitStore(store); })
      .Default(
          [&](Operation *op) { op == attention.entries ? emitEntries() : emitElementwise(op); });
}

void Swapper::emitRegion(Region &from, Block &to) {
  OpBuilder::InsertionGuard guard(builder);
  if (to.mightHaveTerminator())
    to.getTerminator()->erase();
  builder.setInsertionPointToEnd(&to);
  emitBlock(from.front());
  Operation *yield = from.front().getTerminator();
  scf::YieldOp::create(builder, yield->getLoc(), flatten(yield->getOperands()));
}

/// The three ops of the running sum, which is carried as a tile.
bool Swapper::isOfSum(Operation *op) {
  return op == attention.sum.add || op == attention.sum.reduce ||
         op == attention.sum.add.getLhs().getDefiningOp();
}

void Swapper::emitFor(scf::ForOp loop) {
  Location loc = loop.getLoc();
  bool isKeys = loop == attention.keys;
  // A running sum starts as a tile of zeros: one value, as the vector it was; one that there is
  // already is its keys' in equal parts, which a power of two divides exactly.
  Values inits;
  for (auto [index, init] : llvm::enumerate(loop.getInitArgs())) {
    if (!isKeys || index != attention.sum.index) {
      inits.append(flatten(init));
      continue;
    }
    RankedTensorType tile =
        convert(cast<RankedTensorType>(attention.sum.reduce.getSource().getType()));
    if (matchPattern(init, m_AnyZeroFloat())) {
      inits.push_back(arith::ConstantOp::create(builder, loc, builder.getZeroAttr(tile)));
      continue;
    }
    Value repeated = BroadcastOp::create(builder, loc, tile, get(init), /*dim=*/0);
    Attribute share = builder.getFloatAttr(tile.getElementType(), 1.0 / kTileRows);
    Value shares = arith::ConstantOp::create(builder, loc, DenseElementsAttr::get(tile, share));
    inits.push_back(arith::MulFOp::create(builder, loc, repeated, shares));
  }
  auto result = scf::ForOp::create(builder, loc, get(loop.getLowerBound()),
                                   get(loop.getUpperBound()), get(loop.getStep()), inits);
  result->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  map(loop.getInductionVar(), result.getInductionVar());
  map(loop.getRegionIterArgs(), result.getRegionIterArgs());
  emitRegion(loop.getRegion(), *result.getBody());
  map(loop.getResults(), result.getResults());
  if (!isKeys)
    return;
  Value old = loop.getResult(attention.sum.index);
  map(old, ReduceOp::create(builder, loc, convert(getTile(old)), ReduceKind::Sum, get(old),
                            /*dim=*/0));
}

void Swapper::emitRunningSum() {
  SoftmaxLoop::RunningSum &sum = attention.sum;
  Location loc = sum.add.getLoc();
  Value tile = get(sum.reduce.getSource());
  Value carried = get(attention.keys.getRegionIterArg(sum.index));
  Value factor = BroadcastOp::create(builder, loc, carried.getType(), get(sum.factor), /*dim=*/0);
  Value scaled = arith::MulFOp::create(builder, loc, carried, factor);
  map(sum.add.getResult(), arith::AddFOp::create(builder, loc, scaled, tile));
}

void Swapper::emitIf(scf::IfOp branch) {
  bool hasElse = !branch.getElseRegion().empty();
  auto result = scf::IfOp::create(builder, branch.getLoc(), flattenTypes(branch.getResults()),
                                  get(branch.getCondition()), /*addThenBlock=*/true,
                                  /*addElseBlock=*/hasElse);
  emitRegion(branch.getThenRegion(), result.getThenRegion().front());
  if (hasElse)
    emitRegion(branch.getElseRegion(), result.getElseRegion().front());
  map(branch.getResults(), result.getResults());
}

/// Sᵀ += K · Qᵀ, or for each 64 columns of the values Oᵀ_p += V_pᵀ · Pᵀ.
void Swapper::emitDot(DotOp dot) {
  Location loc = dot.getLoc();
  Value lhs = get(dot.getLhs()), keys = get(dot.getRhs());
  Values results;
  if (dot.getTransposeRhs()) {
    Value acc = get(dot.getAcc());
    results = {DotOp::create(builder, loc, acc.getType(), keys, lhs, acc, /*transpose_rhs=*/true,
                             /*transpose_lhs=*/false)};
  } else {
    auto panel = RankedTensorType::get({kTileRows, kTileRows}, getTile(keys).getElementType());
    for (int64_t part = 0; part < countParts(dot.getResult()); ++part) {
      Value values = tensor::ExtractSliceOp::create(
          builder, loc, panel, keys, /*offsets=*/ValueRange(), /*sizes=*/ValueRange(),
          /*strides=*/ValueRange(), ArrayRef<int64_t>{0, part * kTileRows}, panel.getShape(),
          ArrayRef<int64_t>{1, 1});
      Value acc = get(dot.getAcc(), part);
      results.push_back(DotOp::create(builder, loc, acc.getType(), values, lhs, acc,
                                      /*transpose_rhs=*/false, /*transpose_lhs=*/true));
    }
  }
  values[dot.getResult()] = results;
}

void Swapper::emitStore(StoreOp store) {
  Location loc = store.getLoc();
  Values offsets = flatten(store.getOffsets());
  bool isTile = getTile(store.getValue()).getRank() == 2;
  Value column = offsets.back();
  for (int64_t part = 0; part < countParts(store.getValue()); ++part) {
    offsets.back() = addColumns(loc, column, part * kTileRows);
    StoreOp::create(builder, loc, get(store.getValue(), part), get(store.getView()), offsets,
                    /*transposed=*/isTile);
  }
}

/// The list's entries as a column that is repeated for each query.
void Swapper::emitEntries() {
  LoadOp load = attention.entries;
  Location loc = load.getLoc();
  auto view = load.getView().getDefiningOp<memref::ReinterpretCastOp>();
  auto convertExtent = [&](OpFoldResult extent) -> OpFoldResult {
    auto value = dyn_cast<Value>(extent);
    return value ? OpFoldResult(get(value)) : extent;
  };
  OpFoldResult count = convertExtent(view.getMixedSizes()[1]);
  SmallVector<OpFoldResult> sizes = {count, builder.getIndexAttr(rows)},
                            strides = {builder.getIndexAttr(1), builder.getIndexAttr(0)};
  Value column =
      memref::ReinterpretCastOp::create(builder, loc, get(view.getSource()),
                                        convertExtent(view.getMixedOffsets()[0]), sizes, strides);
  Values offsets = {get(load.getOffsets()[1]), get(load.getOffsets()[0])};
  map(load.getResult(),
      LoadOp::create(builder, loc, convert(load.getType()), column, offsets).getResult());
}

/// Everything else is one op per part, with the dimensions exchanged where it
/// names one. Loads stay, those of queries with fewer rows.
void Swapper::emitElementwise(Operation *op) {
  bool isKept = llvm::any_of(op->getResults(), [&](Value v) { return kept.contains(v); });
  int64_t parts = 1;
  for (Value value : op->getResults())
    parts = std::max(parts, countParts(value));
  // One op serves all parts of a tile that repeats a vector or a scalar.
  if (isa<BroadcastOp, SplatOp, IotaOp, arith::ConstantOp>(op))
    parts = 1;
  SmallVector<Values> results(op->getNumResults());
  for (int64_t part = 0; part < parts; ++part) {
    IRMapping mapping;
    for (Value operand : op->getOperands())
      mapping.map(operand, get(operand, part));
    Operation *clone = builder.clone(*op, mapping);
    for (auto [old, result] : llvm::zip_equal(op->getResults(), clone->getResults())) {
      RankedTensorType tile = getTile(old);
      if (tile && isa<LoadOp>(op) && tile.getRank() == 2)
        result.setType(RankedTensorType::get({rows, tile.getDimSize(1)}, tile.getElementType()));
      else if (tile && !kept.contains(old))
        result.setType(convert(tile));
    }
    if (isKept) {
      for (auto [list, result] : llvm::zip_equal(results, clone->getResults()))
        list.push_back(result);
      continue;
    }
    llvm::TypeSwitch<Operation *>(clone)
        .Case([](ReduceOp reduce) { reduce.setDim(0); })
        .Case([](BroadcastOp cast) { cast.setDim(0); })
        .Case([](IotaOp iota) {
          if (iota.getType().getRank() == 2)
            iota.setDim(1 - iota.getDim());
        })
        .Case([&](arith::ConstantOp constant) {
          if (auto dense = dyn_cast<DenseElementsAttr>(constant.getValue()))
            constant.setValueAttr(resize(dense));
        });
    for (auto [list, result] : llvm::zip_equal(results, clone->getResults()))
      list.push_back(result);
  }
  for (auto [old, list] : llvm::zip_equal(op->getResults(), results))
    values[old] = list;
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

/// Whether `kernel` is for another schedule; without the attribute it may be ours.
static bool isForOthers(KernelOp kernel) {
  auto schedule = kernel->getAttrOfType<ScheduleInterface>(kScheduleAttr);
  return schedule && !schedule.swapsOperands();
}

/// Tiles side by side that share the rows of a request.
static int64_t countSides(AttendOp attend) {
  auto loop = attend ? attend->getParentOfType<scf::ForOp>() : scf::ForOp();
  if (!loop || !loop->hasAttr(kSideBySideAttr))
    return 1;
  return getConstantIntValue(loop.getUpperBound()).value_or(1);
}

namespace {
struct SwapOperands : tile::impl::TileSwapOperandsBase<SwapOperands> {
  using TileSwapOperandsBase::TileSwapOperandsBase;

  void runOnOperation() override {
    KernelOp kernel = getOperation();
    auto bound = kernel->getAttrOfType<IntegerAttr>(kMaxRowsAttr);
    if (!bound || isForOthers(kernel))
      return;
    AttendOp attend = findAttend(kernel);
    int64_t sides = countSides(attend);
    int64_t rows = llvm::alignTo(llvm::divideCeil(bound.getInt(), sides), kColumnGroup);
    auto refuse = [&] { return kernel.emitRemark("operands not swapped: "); };
    // Values of their own are narrow: as many rows as a tile has.
    int64_t most = attend && attend.getValues() ? kTileRows : maxRows.getValue();
    if (rows > most) {
      refuse() << bound.getInt() << " query rows, padded to " << rows << ", are more than " << most;
      return;
    }
    if (std::string why = check(kernel); !why.empty()) {
      refuse() << why;
      return;
    }
    KernelOp swapped = Swapper(expandAttend(findAttend(kernel)), rows).run();
    kernel.getBody().takeBody(swapped.getBody());
    swapped.erase();
    if (!kernel->hasAttr(kScheduleAttr))
      kernel->setAttr(kScheduleAttr, StreamScheduleAttr::get(&getContext()));
  }
};
} // namespace
