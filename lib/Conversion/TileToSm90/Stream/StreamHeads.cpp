//===- StreamHeads.cpp - heads whose keys and values are codes ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block of codes has half of the bytes of a block of operands and arrives in half of the time, in
// which one chain of scores, softmax and output does not end. So consumers take blocks in turns:
//
//   block        0   1   2   3   4 | 0   1   2 ...        of one item, and of the next
//   math         x       x       x |     x
//   math1            x       x     | x       x
//
// Each has a softmax of its own, with queries, weights and scratch. At the item's end the others
// give their states to the first, which brings them to one reference, adds and stores.
//
//   consumer, its block i
//     codes of keys and values to registers   words, of keys in runs of four columns, of values
//                                             transposed
//     Sᵀ += K · Qᵀ                            keys are A, as f16, which has every code
//     the stage is free, values to f16        under the product
//     mask, max over keys, Pᵀ, f16            as Stream.h
//     Oᵀ_p += V_pᵀ · Pᵀ                       values are A
//
// Nothing of a block goes back to shared memory. The keys' scale is a factor of the queries, which
// are put into the keys' order once for an item, the values' one of the output. Rows of the output
// are in the pairs in which a thread gets values, which the store undoes.
//
// Codes behind the request's end may be NaN: of keys the mask hides the scores, of values they are
// cleared in registers, in an item's last block alone.
//
//===----------------------------------------------------------------------===//

#include "Stream/StreamConsumer.h"
#include "Stream/StreamModel.h"

#include "mla/Dialect/Sm90/IR/Sm90CodeOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::stream;

//===----------------------------------------------------------------------===//
// What the loop carries
//===----------------------------------------------------------------------===//

/// Whether all that is done with a carried tile is to scale it as the reference moves.
static bool isRescaled(Value carried, Value reference, Value moved) {
  if (!carried.hasOneUse())
    return false;
  auto scaled = dyn_cast<arith::MulFOp>(*carried.user_begin());
  auto factor = scaled ? scaled.getRhs().getDefiningOp<tile::BroadcastOp>() : tile::BroadcastOp();
  auto power = factor ? factor.getSource().getDefiningOp<math::Exp2Op>() : math::Exp2Op();
  auto distance = power ? power.getOperand().getDefiningOp<arith::SubFOp>() : arith::SubFOp();
  return distance && distance.getLhs() == reference && distance.getRhs() == moved;
}

std::optional<LoopState> stream::findLoopState(scf::ForOp loop) {
  LoopState state;
  std::optional<unsigned> reference;
  auto getType = [](Value value) { return dyn_cast<RankedTensorType>(value.getType()); };
  for (auto [index, carried] : llvm::enumerate(loop.getRegionIterArgs())) {
    RankedTensorType type = getType(carried);
    if (!type || !type.getElementType().isF32() || (type.getRank() == 1 && reference))
      return std::nullopt;
    if (type.getRank() == 1)
      reference = index;
  }
  // What stands around the loop gets nothing but by what is stored.
  if (!reference || loop->getBlock()->getTerminator()->getNumOperands() != 0 ||
      loop.getBody()->getOps<tile::ReduceOp>().empty())
    return std::nullopt;
  state.reference = *reference;
  ValueRange yielded = loop.getYieldedValues();
  for (auto [index, carried] : llvm::enumerate(loop.getRegionIterArgs())) {
    if (index == state.reference)
      continue;
    if (!isRescaled(carried, loop.getRegionIterArg(state.reference), yielded[state.reference]))
      return std::nullopt;
    bool isOutput = yielded[index].getDefiningOp<tile::DotOp>() != nullptr;
    // An output that there is already would have to be divided by the values' scale.
    if (isOutput && !matchPattern(loop.getInitArgs()[index], m_AnyZeroFloat()))
      return std::nullopt;
    if (!isOutput && !yielded[index].getDefiningOp<arith::AddFOp>())
      return std::nullopt;
    (isOutput ? state.outputs : state.sums).push_back(index);
  }
  return state;
}

/// A stage for each tile of a state, as far as there is room, so that nobody waits.
void stream::createStates(ImplicitLocOpBuilder &b, const Program &program, Entry &entry) {
  int64_t share = sm90::kTileRows / sm90::kWarpgroupWarps * program.rows;
  auto tile = sm90::SmemType::get(b.getContext(), {sm90::kWarpgroupWarps, share}, b.getF32Type(),
                                  sm90::SmemLayout::Linear);
  int64_t tiles = 1 + findLoopState(program.getLoop())->countTiles();
  int64_t stages = countStateStages(program.rows, tiles);
  for (int64_t which = 1; which < program.consumers; ++which)
    entry.states.push_back(createRing(b, ("state " + Twine(which)).str(), stages, /*parts=*/1,
                                      {tile}, sm90::kWarpgroupWarps, sm90::kWarpgroupWarps));
}

//===----------------------------------------------------------------------===//
// Consumer
//===----------------------------------------------------------------------===//

namespace {
class HeadConsumer : public Consumer {
public:
  HeadConsumer(ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
               const LazyCloner &cloner, unsigned which)
      : Consumer(b, program, entry, cloner), which(which), loop(program.getLoop()),
        state(*findLoopState(loop)), isHeld(holdsBlock()), stateStages(entry.states.size()) {}

private:
  void begin() override;
  void emit(Operation *op) override;
  void emitFor(scf::ForOp op) override;
  SmallVector<Value *> getStages(Operation *op) override;
  Range getRange(scf::ForOp op) override;
  SmallVector<Value> getInits(scf::ForOp op) override;
  void awaitQueries() override;
  bool awaitsValues() const override { return false; }
  bool worksBeside() const override { return isHeld; }
  Value emitScores(tile::DotOp dot, Value acc) override;
  Value emitOutput(tile::DotOp dot, Value acc) override;
  void emitBeside(const Run &run) override;
  void zeroTails(ArrayRef<Operation *> loads) override;
  void releaseKeys() override;
  void emitStore(tile::StoreOp store) override;

  Value turn(Value words);
  void loadKeys();
  void loadValues();
  SmallVector<Value> loadColumns(Value limit);
  bool holdsBlock() const;
  void releaseStage();
  void passTurn(scf::ForOp op);
  void giveState();
  void takeState(unsigned other);
  void scaleOutputs();

  unsigned which; // of the consumers that take turns
  scf::ForOp loop;
  LoopState state;
  bool isHeld;     // all of a block, in registers
  Value turnsLeft; // blocks of the item at hand before the first of this consumer's
  SmallVector<Value, 2> stateStages;
  SmallVector<Value> keyWords, valueWords, values; // of the block at hand, by panels of operands
};
} // namespace

static constexpr int64_t kPanel = sm90::kPanelColumns; // columns of an operand in registers
static constexpr int64_t kWordCodes = 4;

void HeadConsumer::begin() {
  turnsLeft = arith::ConstantIndexOp::create(b, which);
  for (unsigned i = 0; i < which; ++i)
    keyStage = next(keyStage, entry.keyRing);
  for (Value &stage : stateStages)
    stage = sm90::StageStartOp::create(b);
}

void HeadConsumer::emit(Operation *op) {
  // A block's products take its codes from registers; what follows the loop is the first one's.
  bool isElsewhere =
      isa<tensor::ExtractSliceOp>(op) ||
      (which != 0 && op->getBlock() == loop->getBlock() && loop->isBeforeInBlock(op));
  if (isElsewhere)
    return;
  Consumer::emit(op);
  if (op != program.keys.front())
    return;
  loadKeys();
  if (isHeld)
    loadValues();
}

SmallVector<Value *> HeadConsumer::getStages(Operation *op) {
  SmallVector<Value *> stages = Role::getStages(op);
  if (!op->isProperAncestor(loop))
    return stages;
  if (program.consumers > 1)
    stages.push_back(&turnsLeft);
  for (auto [index, stage] : llvm::enumerate(stateStages))
    if (which == 0 || which == index + 1)
      stages.push_back(&stage);
  return stages;
}

/// Scales are of memory that kernels before may have written, and the same for all blocks; they
/// arrive while queries do.
void HeadConsumer::awaitQueries() {
  if (program.waits)
    sm90::WaitDependencyOp::create(b);
  Value keyScale = cloner.get(getOneScale(program, 0));
  (void)cloner.get(getOneScale(program, 1));
  Consumer::awaitQueries();
  Value &queries = shared[program.queries.front()->getResult(0)];
  auto type = cast<sm90::SmemType>(queries.getType());
  queries = sm90::OrderRunsOp::create(
      b, getSharedType({type.getRows(), type.getColumns()}, b.getF16Type()), queries, keyScale);
  written = true;
}

//===----------------------------------------------------------------------===//
// Turns
//===----------------------------------------------------------------------===//

Role::Range HeadConsumer::getRange(scf::ForOp op) {
  Range range = Role::getRange(op);
  if (op != loop || program.consumers == 1)
    return range;
  Value before = arith::MulIOp::create(b, turnsLeft, range.step);
  Value all = arith::ConstantIndexOp::create(b, program.consumers);
  return {arith::AddIOp::create(b, range.first, before), range.end,
          arith::MulIOp::create(b, range.step, all)};
}

/// Only the first goes on from what there is.
SmallVector<Value> HeadConsumer::getInits(scf::ForOp op) {
  SmallVector<Value> inits = Role::getInits(op);
  if (op != loop || which == 0)
    return inits;
  for (auto [index, init] : llvm::enumerate(inits))
    init =
        getConstant(index == state.reference ? tile::AttendOp::kStartReference : 0, init.getType());
  return inits;
}

/// Blocks go to consumers in turns whatever item they are of, as stages do.
void HeadConsumer::passTurn(scf::ForOp op) {
  Range range = Role::getRange(op);
  Value keys = arith::SubIOp::create(b, range.end, range.first);
  Value zero = arith::ConstantIndexOp::create(b, 0);
  keys = arith::MaxSIOp::create(b, keys, zero);
  Value blocks = getConstantIntValue(range.step) == 1
                     ? keys
                     : arith::CeilDivSIOp::create(b, keys, range.step).getResult();
  Value others = arith::ConstantIndexOp::create(b, program.consumers - 1);
  Value all = arith::ConstantIndexOp::create(b, program.consumers);
  Value ahead = arith::AddIOp::create(b, turnsLeft, arith::MulIOp::create(b, blocks, others));
  turnsLeft = arith::RemUIOp::create(b, ahead, all);
}

void HeadConsumer::emitFor(scf::ForOp op) {
  Role::emitFor(op);
  if (op != loop)
    return;
  if (program.consumers > 1)
    passTurn(op);
  if (which != 0)
    return giveState();
  for (unsigned other = 1; other < program.consumers; ++other)
    takeState(other);
  scaleOutputs();
}

void HeadConsumer::giveState() {
  Value ring = entry.states[which - 1], &stage = stateStages[which - 1];
  auto give = [&](Value tile) {
    sm90::AcquireOp::create(b, ring, stage);
    sm90::ParkOp::create(b, tile, getTile(ring, stage, 0));
    sm90::PublishOp::create(b, ring, stage, /*part=*/0);
    stage = next(stage, ring);
  };
  Type type = getFragmentType(program.rows, b.getF32Type());
  give(sm90::BroadcastOp::create(b, type, cloner.get(loop.getResult(state.reference))));
  for (ArrayRef<unsigned> indices : {ArrayRef(state.sums), ArrayRef(state.outputs)})
    for (unsigned index : indices)
      give(cloner.get(loop.getResult(index)));
}

/// Both states to the larger reference.
void HeadConsumer::takeState(unsigned other) {
  Value ring = entry.states[other - 1], &stage = stateStages[other - 1];
  Type type = getFragmentType(program.rows, b.getF32Type());
  auto take = [&]() -> Value {
    sm90::AwaitOp::create(b, ring, stage, /*part=*/0);
    Value tile = sm90::UnparkOp::create(b, type, getTile(ring, stage, 0));
    sm90::ReleaseOp::create(b, ring, stage);
    stage = next(stage, ring);
    return tile;
  };
  Value ownReference = loop.getResult(state.reference), own = cloner.get(ownReference);
  // All rows are the same: this makes a vector of them.
  tile::ReduceOp maximum = *loop.getBody()->getOps<tile::ReduceOp>().begin();
  Value given = reduce(sm90::ReduceKind::Max, own.getType(), take(), entry.scratch.lookup(maximum));
  Value common = arith::MaximumFOp::create(b, own, given);
  auto getFactor = [&](Value reference) -> Value {
    Value factor = math::Exp2Op::create(b, arith::SubFOp::create(b, reference, common));
    return sm90::BroadcastOp::create(b, type, factor);
  };
  Value ofOwn = getFactor(own), ofGiven = getFactor(given);
  for (ArrayRef<unsigned> indices : {ArrayRef(state.sums), ArrayRef(state.outputs)})
    for (unsigned index : indices) {
      Value before = loop.getResult(index);
      Value mine = arith::MulFOp::create(b, cloner.get(before), ofOwn);
      cloner.map(before, arith::AddFOp::create(b, mine, arith::MulFOp::create(b, take(), ofGiven)));
    }
  cloner.map(ownReference, common);
}

/// Codes times the values' scale.
void HeadConsumer::scaleOutputs() {
  for (unsigned index : state.outputs) {
    Value output = loop.getResult(index), codes = cloner.get(output);
    Value scale =
        sm90::SplatOp::create(b, codes.getType(), cloner.get(getOneScale(program, /*term=*/1)));
    cloner.map(output, arith::MulFOp::create(b, codes, scale));
  }
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Codes as they are: products lack the scales.
Value HeadConsumer::turn(Value words) {
  return sm90::ScaleCodesOp::create(b, getFragmentType(kPanel, b.getF16Type()), words,
                                    getConstant(1, b.getF32Type()));
}

SmallVector<Value> HeadConsumer::loadColumns(Value limit) {
  Value codes = getTile(entry.keyRing, keyStage, 1);
  SmallVector<Value> words;
  for (int64_t column = 0; column < program.getWidth(1); column += kPanel)
    words.push_back(sm90::LoadCodeColumnsOp::create(
        b, getFragmentType(kPanel / kWordCodes, b.getI32Type()), codes, column, limit));
  return words;
}

void HeadConsumer::loadKeys() {
  awaitPart(0);
  Value codes = getTile(entry.keyRing, keyStage, 0);
  keyWords.clear();
  for (int64_t column = 0; column < program.getWidth(0); column += kPanel)
    keyWords.push_back(sm90::LoadCodeWordsOp::create(
        b, getFragmentType(kPanel / kWordCodes, b.getI32Type()), codes, column, kPanel));
}

/// Copies without TMA have put zeros behind the request's end.
void HeadConsumer::loadValues() {
  awaitPart(1);
  if (!program.usesTma) {
    valueWords = loadColumns(/*limit=*/{});
    return;
  }
  auto load = cast<tile::LoadPagedOp>(program.keys[1]);
  Value rows = arith::SubIOp::create(b, cloner.get(load.getLimit()), cloner.get(load.getToken()));
  Value all = arith::ConstantIndexOp::create(b, sm90::kTileRows);
  Value isShort = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, rows, all);
  SmallVector<Type> types(program.getWidth(1) / kPanel,
                          getFragmentType(kPanel / kWordCodes, b.getI32Type()));
  auto branch = scf::IfOp::create(b, types, isShort, /*addThenBlock=*/true, /*addElseBlock=*/true);
  for (auto [block, limit] : {std::pair(branch.thenBlock(), rows), {branch.elseBlock(), Value()}}) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(block);
    scf::YieldOp::create(b, loadColumns(limit));
  }
  valueWords = SmallVector<Value>(branch.getResults());
}

/// Whether operands of a whole block fit beside tiles of rows. Then it is loaded at once, behind
/// all waits, else keys' operands are two at a time and values come behind them.
bool HeadConsumer::holdsBlock() const {
  int64_t panels = program.getWidth(1) / kPanel;
  int64_t operands = (program.getWidth(0) / kPanel + panels) * kOperandRegisters;
  return operands + countTileRegisters(program.rows, panels) <= kTurnRegisters;
}

void HeadConsumer::zeroTails(ArrayRef<Operation *> loads) {
  if (!loads.empty() && !isHeld)
    loadValues();
}

void HeadConsumer::releaseStage() {
  sm90::ReleaseOp::create(b, entry.keyRing, keyStage);
  for (int64_t i = 0; i < program.consumers; ++i)
    keyStage = next(keyStage, entry.keyRing);
}

void HeadConsumer::releaseKeys() {
  if (!isHeld)
    releaseStage();
}

Value HeadConsumer::emitScores(tile::DotOp dot, Value acc) {
  // Where tiles leave room for two operands.
  const uint32_t mostPending = program.consumers > 1 ? 2 : 1;
  Value queries = shared.lookup(dot.getRhs());
  for (auto [panel, words] : llvm::enumerate(keyWords)) {
    if (!isHeld && panel > 0)
      sm90::WgmmaCommitOp::create(b);
    if (!isHeld && panel >= mostPending)
      sm90::WgmmaWaitOp::create(b, TypeRange(), mostPending - 1, ValueRange());
    Value keys = turn(words);
    needsFence = true; // for the operand
    acc = multiply(keys, slice(queries, static_cast<int64_t>(panel) * kPanel, kPanel), acc,
                   /*transposeLhs=*/false);
  }
  return acc;
}

/// Under the scores' product; the stage is given back there, too, since the fence of its loads
/// takes time.
void HeadConsumer::emitBeside(const Run &run) {
  tile::DotOp first = run.dots.front();
  if (!first.getTransposeRhs() || !isHeld)
    return;
  releaseStage();
  values.clear();
  for (Value words : valueWords)
    values.push_back(turn(words));
}

Value HeadConsumer::emitOutput(tile::DotOp dot, Value acc) {
  auto slice = dot.getLhs().getDefiningOp<tensor::ExtractSliceOp>();
  int64_t panel = (slice ? slice.getStaticOffset(1) : 0) / kPanel;
  Value operand = values.empty() ? turn(valueWords[panel]) : values[panel];
  operandsRead = true;
  needsFence = true; // for the operand
  return multiply(operand, shared.lookup(dot.getRhs()), acc, /*transposeLhs=*/false);
}

void HeadConsumer::emitStore(tile::StoreOp store) {
  if (!store.getTransposed())
    return Consumer::emitStore(store);
  sm90::StoreRunsOp::create(b, cloner.get(store.getValue()), cloner.get(store.getView()),
                            cloner.get(store.getOffsets()), /*paired=*/false, /*transposed=*/true,
                            /*pairs=*/true);
}

void stream::emitHeadConsumer(ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
                              const LazyCloner &cloner, unsigned which) {
  HeadConsumer(b, program, entry, cloner, which).run(which);
}
