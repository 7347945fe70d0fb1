//===- StreamCodes.cpp - keys that go from codes to registers ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where keys are codes there are two consumers, each with half of the latent's columns:
//
//   codes [64, 128]  -> registers, as f16 (*)           -> A of  Sᵀ += K · Qᵀ
//                                                       -> V, half of the columns
//   Sᵀ of one half   -> parked -> the other consumer, which adds its own: both have Sᵀ
//   softmax          both the same; each has its own Pᵀ
//   Oᵀ of one half  += Vᵀ · Pᵀ
//
// Columns of keys are in the runs of four in which a thread gets codes, so queries are put into the
// same order, once, and what is stored in the end is in it.
//
// (*) f16 has every code. One scale of all of them is a factor of the queries and, in the end, of
// the output: operands are the codes themselves. Scales of rows are multiplied into the operands,
// two instructions for two codes (kCodeFactor says what that costs).
//
// So a key's operand is stored once, for the values, and never read back for the scores, and what
// turns codes is two warpgroups. A panel of codes is free as soon as it is in registers.
//
//   ring       stages     tile                 filled by   freed by
//   codes x 2  blocks x   64 x 128 codes       producer    left, right
//              panels
//   rope       blocks     64 x 64, or codes    producer    right
//   queries    1 or 2     N x 64 a panel       producer    both
//   parked x2  1          what threads hold    left, right the other
//
//   consumer, block i
//     scales of block i + 1                    loaded a block ahead
//     for each 64 columns of its half          one product in flight while the next are turned
//     right: RoPE
//     park, fetch the other's, add
//     mask, max over keys, Pᵀ                  as Stream.h
//     last block: V rows behind the request's end are zeroed
//     Oᵀ += Vᵀ · Pᵀ
//
//===----------------------------------------------------------------------===//

#include "Stream/StreamConsumer.h"

#include "mla/Dialect/Sm90/IR/Sm90CodeOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::stream;

//===----------------------------------------------------------------------===//
// Entry
//===----------------------------------------------------------------------===//

void stream::createHalves(ImplicitLocOpBuilder &b, const Program &program, Entry &entry) {
  constexpr int32_t role = sm90::kWarpgroupWarps;
  auto getElement = [](Operation *load) {
    return cast<RankedTensorType>(load->getResult(0).getType()).getElementType();
  };
  Type element = getOperandType(program).getElementType();
  int64_t half = program.getWidth(0) / 2;
  sm90::SmemType panel =
      getSharedType({sm90::kTileRows, sm90::kCodePanelColumns}, getElement(program.keys[0]));
  auto shares = sm90::SmemType::get(b.getContext(), {role, sm90::kTileRows / role * program.rows},
                                    b.getF32Type(), sm90::SmemLayout::Linear);
  for (StringRef side : {"left", "right"}) {
    Half made;
    made.codes =
        createRing(b, (side + " codes").str(), program.stages * (half / sm90::kCodePanelColumns), 1,
                   {panel}, program.countFillers(), role);
    made.parked = createRing(b, (side + " scores").str(), 1, 1, {shares}, role, role);
    made.values = alloc(b, getSharedType({sm90::kTileRows, half}, element));
    made.weights = alloc(b, getOperandType(program));
    made.scratch = alloc(b, getScratchType(program));
    entry.halves.push_back(made);
  }
  if (!program.hasRope())
    return;
  Type ropeElement = getElement(program.keys[1]);
  sm90::SmemType rope =
      getSharedType({sm90::kTileRows, sm90::getPanelColumns(ropeElement)}, ropeElement);
  entry.ropeRing = createRing(b, "rope", program.stages, 1, {rope}, program.countFillers(), role);
}

//===----------------------------------------------------------------------===//
// Consumer
//===----------------------------------------------------------------------===//

namespace {
class CodeConsumer : public Consumer {
public:
  CodeConsumer(ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
               const LazyCloner &cloner, unsigned side)
      : Consumer(b, program, entry, cloner), side(side), half(entry.halves[side]),
        loop(cast<scf::ForOp>(program.keys.front()->getParentOp())),
        oneScale(getOneScale(program, 0)) {
    parkedStage = sm90::StageStartOp::create(b);
    findOthers();
  }

private:
  bool keeps(Value value) const override { return !others.contains(value); }
  void emit(Operation *op) override;
  void emitFor(scf::ForOp loop) override;
  SmallVector<Value *> getStages(Operation *op) override;
  void beginRegion() override;
  void barrier() override;
  Value emitScores(tile::DotOp dot, Value acc) override;
  Value emitOutput(tile::DotOp dot, Value acc) override;
  Value finish(tile::DotOp end, Value result) override;
  bool takes(tile::DotOp dot) const override { return !others.contains(dot.getResult()); }
  void zeroTails(ArrayRef<Operation *> loads) override;
  void releaseKeys() override {}

  void findOthers();
  bool isOthers(tensor::ExtractSliceOp slice) const;
  bool isOthers(Operation *op) const;
  int64_t getHalfColumns() const { return program.getWidth(0) / 2; }
  SmallVector<Value> loadScales(Value position);
  void awaitQueries() override;
  void emitStore(tile::StoreOp store) override;
  Value loadCodes(Value panel, int64_t column, int64_t columns = sm90::kPanelColumns);
  Value takeCodes(int64_t column);
  Value turn(Value words, Value scale, int64_t columns = sm90::kPanelColumns);
  Value getOutputFactor(Type type);
  void closeGroup();
  Value multiplyKeys(Value keys, Value queries, Value acc);
  Value emitLatent(Value queries, Value acc);
  Value emitRope(Value queries, Value acc);

  unsigned side;
  const Half &half;
  scf::ForOp loop;
  Value oneScale;         // of the latent's codes, in the program; null: rows have scales
  DenseSet<Value> others; // of the other half's columns
  Value parkedStage;
  /// Of this block's panels, carried from the block before; and of RoPE's.
  SmallVector<Value> panelScales;
  /// What is known in front of the key loop.
  std::optional<LazyCloner> outside;
  int64_t inFlight = 0;   // products of this block's scores
  bool isOpen = false;    // the last of them is in no group yet
  bool valuesRead = true; // since the last barrier
};
} // namespace

bool CodeConsumer::isOthers(tensor::ExtractSliceOp slice) const {
  return (slice.getStaticOffset(1) >= getHalfColumns()) != (side == 1);
}

/// Accumulators of the other half, wherever loops and branches carry them.
void CodeConsumer::findOthers() {
  tile::KernelOp kernel = program.kernel;
  size_t before;
  auto add = [&](Value value) { others.insert(value); };
  do {
    before = others.size();
    kernel.walk([&](Operation *op) {
      if (auto dot = dyn_cast<tile::DotOp>(op); dot && dot.getTransposeLhs())
        if (auto slice = dot.getLhs().getDefiningOp<tensor::ExtractSliceOp>())
          if (isOthers(slice))
            add(dot.getResult());
      if (isa<scf::YieldOp>(op)) {
        Operation *parent = op->getParentOp();
        for (auto [index, value] : llvm::enumerate(op->getOperands())) {
          if (!others.contains(value))
            continue;
          add(parent->getResult(index));
          if (auto carried = dyn_cast<scf::ForOp>(parent))
            add(carried.getRegionIterArg(index));
        }
      } else if (op->getNumRegions() == 0 &&
                 llvm::any_of(op->getOperands(), [&](Value v) { return others.contains(v); })) {
        for (Value result : op->getResults())
          add(result);
      }
    });
  } while (others.size() != before);
}

/// Whether it is not this consumer's to do: row vectors are the left one's to store.
bool CodeConsumer::isOthers(Operation *op) const {
  auto isOther = [&](Value value) { return others.contains(value); };
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op))
    return isOthers(slice);
  if (auto store = dyn_cast<tile::StoreOp>(op); store && store.getValue().getType().getRank() == 1)
    return side == 1;
  return op->getNumRegions() == 0 &&
         (llvm::any_of(op->getOperands(), isOther) || llvm::any_of(op->getResults(), isOther));
}

void CodeConsumer::emit(Operation *op) {
  bool isElsewhere = program.transforms.contains(op) || llvm::is_contained(program.keys, op);
  if (isElsewhere || (isOthers(op) && !isa<tile::DotOp>(op)))
    return;
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    shared[slice.getResult()] =
        this->slice(half.values, slice.getStaticOffset(1) - side * getHalfColumns(),
                    slice.getType().getDimSize(1));
    return;
  }
  Consumer::emit(op);
}

SmallVector<Value *> CodeConsumer::getStages(Operation *op) {
  SmallVector<Value *> stages = Role::getStages(op);
  if (op->isProperAncestor(program.keys.front()))
    stages.push_back(&parkedStage);
  if (op == loop)
    for (Value &scale : panelScales)
      stages.push_back(&scale);
  return stages;
}

void CodeConsumer::beginRegion() {
  Consumer::beginRegion();
  valuesRead = true;
}

void CodeConsumer::barrier() {
  Consumer::barrier();
  valuesRead = false;
}

/// Of the latent's queries those that meet this half of the keys' columns, in the codes' order and
/// with what operands lack of what codes stand for, and RoPE's where its keys are codes.
void CodeConsumer::awaitQueries() {
  Consumer::awaitQueries();
  // The scale is of memory that kernels before may have written.
  if (program.waits && (oneScale || (program.hasRope() && program.scales[1])))
    sm90::WaitDependencyOp::create(b);
  auto order = [&](tile::LoadOp load, Value tile, unsigned term) {
    auto type = cast<sm90::SmemType>(tile.getType());
    Value one = getOneScale(program, term);
    shared[load.getResult()] = sm90::OrderRunsOp::create(
        b, getSharedType({type.getRows(), type.getColumns()}, b.getF16Type()), tile,
        one ? cloner.get(one) : getConstant(1 / kCodeFactor, b.getF32Type()));
    written = true;
  };
  tile::LoadOp latent = program.queries.front(), last = program.queries.back();
  order(latent, slice(shared.lookup(latent.getResult()), side * getHalfColumns(), getHalfColumns()),
        /*term=*/0);
  if (side == 1 && program.hasRope() && program.scales[1])
    order(last, shared.lookup(last.getResult()), /*term=*/1);
}

/// The scales of the first block are loaded in front of the loop: keys come from kernels before.
void CodeConsumer::emitFor(scf::ForOp op) {
  if (op != loop)
    return Role::emitFor(op);
  if (program.waits)
    sm90::WaitDependencyOp::create(b);
  outside.emplace(cloner, [](Operation *, Type type) { return convertRoleType(type); });
  panelScales = loadScales(cloner.get(loop.getLowerBound()));
  Role::emitFor(op);
  for (auto [result, yielded] : llvm::zip_equal(op.getResults(), op.getYieldedValues())) {
    if (!yielded.getDefiningOp<tile::DotOp>() || !keeps(result))
      continue;
    Value output = cloner.get(result);
    cloner.map(result, arith::MulFOp::create(b, output, getOutputFactor(output.getType())));
  }
}

/// What products of weights and operands lack of what codes stand for.
Value CodeConsumer::getOutputFactor(Type type) {
  if (oneScale)
    return sm90::SplatOp::create(b, type, cloner.get(oneScale));
  return getConstant(1 / kCodeFactor, type);
}

/// The output's rows are columns of keys.
void CodeConsumer::emitStore(tile::StoreOp store) {
  if (!store.getTransposed())
    return Consumer::emitStore(store);
  sm90::StoreRunsOp::create(b, cloner.get(store.getValue()), cloner.get(store.getView()),
                            cloner.get(store.getOffsets()), /*paired=*/false, /*transposed=*/true,
                            /*pairs=*/false);
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

/// Of the block at a value of the loop's induction variable: those of rows, of each of this half's
/// panels. At and behind the request's end they are 0.
SmallVector<Value> CodeConsumer::loadScales(Value position) {
  if (oneScale)
    return {};
  LazyCloner at(*outside, [](Operation *, Type type) { return convertRoleType(type); });
  at.map(loop.getInductionVar(), position);
  SmallVector<Value> loaded;
  for (int64_t column = 0; column < getHalfColumns(); column += sm90::kCodePanelColumns) {
    Value rows = findScale(program.scales[0], side * getHalfColumns() + column);
    Value scales = loadRowScales(b, at, getScaleLoad(rows));
    loaded.push_back(arith::MulFOp::create(b, scales, getConstant(kCodeFactor, scales.getType())));
  }
  return loaded;
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

/// Columns of a panel from one on: 64, but for a narrower RoPE part.
Value CodeConsumer::loadCodes(Value panel, int64_t column, int64_t columns) {
  constexpr int64_t wordColumns = 4;
  int64_t words = llvm::alignTo(columns, sm90::kColumnGroup * wordColumns) / wordColumns;
  return sm90::LoadCodeWordsOp::create(b, getFragmentType(words, b.getI32Type()), panel, column,
                                       columns);
}

/// Codes as an operand in registers, times scales of rows; null: as they are.
Value CodeConsumer::turn(Value words, Value scale, int64_t columns) {
  if (!scale)
    scale = getConstant(1, b.getF32Type());
  return sm90::ScaleCodesOp::create(b, getFragmentType(columns, b.getF16Type()), words, scale);
}

/// Of this half's columns, awaited and, behind a panel's last, released.
Value CodeConsumer::takeCodes(int64_t column) {
  Value ring = half.codes;
  int64_t inPanel = column % sm90::kCodePanelColumns;
  if (inPanel == 0)
    sm90::AwaitOp::create(b, ring, keyStage, /*part=*/0);
  Value codes = loadCodes(getTile(ring, keyStage, 0), inPanel);
  if (inPanel + sm90::kPanelColumns == sm90::kCodePanelColumns) {
    sm90::ReleaseOp::create(b, ring, keyStage);
    keyStage = next(keyStage, ring);
  }
  return codes;
}

/// Ahead of a wait, which is a loop: ptxas puts a fence of its own into a group that goes on behind
/// one (C7519).
void CodeConsumer::closeGroup() {
  if (isOpen)
    sm90::WgmmaCommitOp::create(b);
  isOpen = false;
}

/// One product is in flight while the next keys are turned: it has the registers of two.
Value CodeConsumer::multiplyKeys(Value keys, Value queries, Value acc) {
  ++inFlight;
  isOpen = true;
  needsFence = true;
  return multiply(keys, queries, acc, /*transposeLhs=*/false);
}

/// Codes are loaded one step ahead: nothing is loaded in front of a store that may, for all that
/// LLVM knows, be to the same place.
Value CodeConsumer::emitLatent(Value queries, Value acc) {
  SmallVector<Value> scales = panelScales;
  // Of the next block: nobody waits for them here.
  Value following =
      arith::AddIOp::create(b, cloner.get(loop.getInductionVar()), cloner.get(loop.getStep()));
  panelScales = loadScales(following);
  Value codes = takeCodes(0);
  for (int64_t column = 0; column < getHalfColumns(); column += sm90::kPanelColumns) {
    closeGroup();
    if (inFlight > 1)
      sm90::WgmmaWaitOp::create(b, TypeRange(), /*pending=*/1, ValueRange());
    Value keys = turn(codes, scales.empty() ? Value() : scales[column / sm90::kCodePanelColumns]);
    if (int64_t ahead = column + sm90::kPanelColumns; ahead < getHalfColumns())
      codes = takeCodes(ahead);
    // Its other threads multiply values out of all rows.
    if (valuesRead)
      barrier();
    sm90::StoreSharedOp::create(b, keys, half.values, /*transposed=*/false,
                                b.getI64IntegerAttr(column));
    written = true;
    acc = multiplyKeys(keys, slice(queries, column, sm90::kPanelColumns), acc);
  }
  return acc;
}

/// As they are, from shared memory, or as codes.
Value CodeConsumer::emitRope(Value queries, Value acc) {
  closeGroup();
  sm90::AwaitOp::create(b, entry.ropeRing, ropeStage, /*part=*/0);
  Value keys = getTile(entry.ropeRing, ropeStage, 0);
  if (program.scales[1]) {
    if (inFlight > 1)
      sm90::WgmmaWaitOp::create(b, TypeRange(), /*pending=*/1, ValueRange());
    int64_t columns = program.getWidth(1);
    keys = turn(loadCodes(keys, 0, columns), /*scale=*/{}, columns);
  }
  return multiplyKeys(keys, queries, acc);
}

Value CodeConsumer::emitScores(tile::DotOp dot, Value acc) {
  Value queries = shared.lookup(dot.getRhs());
  if (dot.getLhs() == program.operands[0]) {
    inFlight = 0;
    return emitLatent(queries, acc);
  }
  return side == 1 ? emitRope(queries, acc) : acc;
}

/// Scores of the two halves add up, in an order that both have.
Value CodeConsumer::finish(tile::DotOp end, Value result) {
  isOpen = false;
  if (end.getTransposeLhs())
    return result;
  if (side == 1 && program.hasRope()) {
    sm90::ReleaseOp::create(b, entry.ropeRing, ropeStage);
    ropeStage = next(ropeStage, entry.ropeRing);
  }
  Value own = half.parked, other = entry.halves[1 - side].parked;
  sm90::AcquireOp::create(b, own, parkedStage);
  sm90::ParkOp::create(b, result, getTile(own, parkedStage, 0));
  sm90::PublishOp::create(b, own, parkedStage, /*part=*/0);
  sm90::AwaitOp::create(b, other, parkedStage, /*part=*/0);
  Value fetched = sm90::UnparkOp::create(b, result.getType(), getTile(other, parkedStage, 0));
  sm90::ReleaseOp::create(b, other, parkedStage);
  parkedStage = next(parkedStage, own);
  return arith::AddFOp::create(b, result, fetched);
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Value CodeConsumer::emitOutput(tile::DotOp dot, Value acc) {
  valuesRead = true;
  return Consumer::emitOutput(dot, acc);
}

/// What codes behind the request's end became may be NaN. Copies without TMA have put zeros there.
void CodeConsumer::zeroTails(ArrayRef<Operation *> loads) {
  if (loads.empty() || !program.usesTma)
    return;
  auto keys = cast<tile::LoadPagedOp>(program.keys.front());
  Value rows = arith::SubIOp::create(b, cloner.get(keys.getLimit()), cloner.get(keys.getToken()));
  Value all = arith::ConstantIndexOp::create(b, sm90::kTileRows);
  Value isShort = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, rows, all);
  auto branch = scf::IfOp::create(b, isShort, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  sm90::BarrierOp::create(b); // others have stored these rows
  sm90::ZeroRowsOp::create(b, half.values, rows);
}

void stream::emitCodeConsumer(ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
                              const LazyCloner &cloner, unsigned side) {
  Entry own = entry;
  tile::KernelOp kernel = program.kernel;
  kernel.walk([&](Operation *op) {
    if (isa<tile::ReduceOp>(op))
      own.scratch[op] = entry.halves[side].scratch;
    if (auto dot = dyn_cast<tile::DotOp>(op); dot && dot.getTransposeLhs())
      own.operands[dot.getRhs()] = entry.halves[side].weights;
  });
  CodeConsumer(b, program, own, cloner, side).run();
}
