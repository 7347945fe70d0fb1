//===- StreamHeads.cpp - heads whose keys and values are codes ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block of codes has half of the bytes of a block of operands, and arrives in half of the time:
// consumers take blocks in turns (StreamTurns.h).
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

#include "Stream/StreamModel.h"
#include "Stream/StreamTurns.h"

#include "mla/Dialect/Sm90/IR/Sm90CodeOps.h"
#include "mla/Dialect/Tile/IR/MachineAttr.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::stream;

//===----------------------------------------------------------------------===//
// Consumer
//===----------------------------------------------------------------------===//

namespace {
class HeadConsumer : public TurnConsumer {
public:
  HeadConsumer(ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
               const LazyCloner &cloner, unsigned which)
      : TurnConsumer(b, program, entry, cloner, which), isHeld(holdsBlock()) {}

private:
  void emit(Operation *op) override;
  void awaitQueries() override;
  bool awaitsValues() const override { return false; }
  bool worksBeside() const override { return isHeld; }
  Value emitScores(tile::DotOp dot, Value acc) override;
  Value emitOutput(tile::DotOp dot, Value acc) override;
  void emitBeside(const Run &run) override;
  void zeroTails(ArrayRef<Operation *> loads) override;
  void releaseKeys() override;
  void finishOutputs() override;
  void emitStore(tile::StoreOp store) override;

  Value turn(Value words);
  void loadKeys();
  void loadValues();
  SmallVector<Value> loadColumns(Value limit);
  bool holdsBlock() const;

  bool isHeld;                                     // all of a block, in registers
  SmallVector<Value> keyWords, valueWords, values; // of the block at hand, by panels of operands
};
} // namespace

static constexpr int64_t kPanel = sm90::kPanelColumns; // columns of an operand in registers
static constexpr int64_t kWordCodes = 4;

/// A block's products take its codes from registers.
void HeadConsumer::emit(Operation *op) {
  if (isa<tensor::ExtractSliceOp>(op))
    return;
  TurnConsumer::emit(op);
  if (op != program.keys.front())
    return;
  loadKeys();
  if (isHeld)
    loadValues();
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

/// Codes times the values' scale.
void HeadConsumer::finishOutputs() {
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
  int64_t room = tile::getMachine(program.kernel).tuning.streamTurnRegisters;
  return operands + countTileRegisters(program.rows, panels) <= room;
}

void HeadConsumer::zeroTails(ArrayRef<Operation *> loads) {
  if (!loads.empty() && !isHeld)
    loadValues();
}

void HeadConsumer::releaseKeys() {
  if (!isHeld)
    TurnConsumer::releaseKeys();
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
  TurnConsumer::releaseKeys();
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
