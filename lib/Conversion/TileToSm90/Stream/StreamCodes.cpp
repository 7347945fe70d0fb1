//===- StreamCodes.cpp - a latent's keys that are codes ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows of codes have half of the bytes of rows of operands, and arrive in half of the time:
// consumers take blocks in turns (StreamTurns.h), each with all columns of its own.
//
//   consumer, its block i
//     scales of its next block                 loaded a block ahead
//     for each 64 columns                      one product in flight while the next are turned
//       codes -> registers, as f16 (*)         A of  Sᵀ += K · Qᵀ
//     RoPE                                     as they are, from shared memory, or as codes
//     mask, max over keys, Pᵀ, f16             as Stream.h
//     last block: rows behind the request's end are zeroed
//     for each 64 columns
//       codes -> registers, transposed         A of  Oᵀ += Vᵀ · Pᵀ
//     release the stage                        beside the last product
//
// So nothing of a block goes back to shared memory, whose room is the ring's: a block's columns are
// turned twice, which costs less than a tile of operands would that is written, read and in the way
// of codes that arrive (docs/lab/codes.md).
//
// Columns of keys are in the runs of four in which a thread gets codes, so queries are put into the
// same order, a half by each consumer, once for an item. Rows of the output are in the pairs in
// which a thread gets values, which the store undoes.
//
// (*) f16 has every code. One scale of all of them is a factor of the queries and, in the end, of
// the output: operands are the codes themselves. Scales of rows are multiplied into the keys'
// operands, two instructions for two codes, and into the weights, of which there is a tile for each
// group of columns (kCodeFactor says what that costs).
//
//===----------------------------------------------------------------------===//

#include "Stream/StreamTurns.h"

#include "mla/Dialect/Sm90/IR/Sm90CodeOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::stream;

namespace {
class CodeConsumer : public TurnConsumer {
public:
  CodeConsumer(ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
               const LazyCloner &cloner, unsigned which)
      : TurnConsumer(b, program, entry, cloner, which), oneScale(getOneScale(program, 0)) {}

private:
  void emit(Operation *op) override;
  void emitFor(scf::ForOp op) override;
  SmallVector<Value *> getStages(Operation *op) override;
  void awaitQueries() override;
  void share(Operation *op) override;
  Value emitScores(tile::DotOp dot, Value acc) override;
  Value emitOutput(tile::DotOp dot, Value acc) override;
  void emitBeside(const Run &run) override;
  Value finish(tile::DotOp end, Value result) override;
  void releaseKeys() override {}
  void finishOutputs() override;
  void emitStore(tile::StoreOp store) override;

  SmallVector<Value> loadScales(Value position);
  Value loadKeys(int64_t column);
  Value loadValues(int64_t column);
  Value turn(Value words, Value scale, int64_t columns = sm90::kPanelColumns);
  Value multiplyTurned(Value operand, Value rhs, Value acc);
  Value emitLatent(Value queries, Value acc);
  Value emitRope(Value queries, Value acc);
  void closeGroup();
  void awaitRegisters();

  Value oneScale; // of the latent's codes, in the program; null: rows have scales
  /// Of the groups of the block at hand, and of the next, carried from block to block.
  SmallVector<Value> scales, nextScales;
  /// What is known in front of the key loop.
  std::optional<LazyCloner> outside;
  Value valueWords;     // of the columns to be multiplied next
  int64_t inFlight = 0; // products of this run
  bool isOpen = false;  // the last of them is in no group yet
};
} // namespace

/// Products take a block's codes from registers.
void CodeConsumer::emit(Operation *op) {
  if (isa<tensor::ExtractSliceOp>(op))
    return;
  TurnConsumer::emit(op);
  auto key = llvm::find(program.keys, op);
  if (key != program.keys.end())
    shared[program.operands[key - program.keys.begin()]] = shared.lookup(op->getResult(0));
}

SmallVector<Value *> CodeConsumer::getStages(Operation *op) {
  SmallVector<Value *> stages = TurnConsumer::getStages(op);
  if (op == loop)
    for (Value &scale : nextScales)
      stages.push_back(&scale);
  return stages;
}

/// Where the consumers meet when each has made a half of the queries: a named barrier.
static constexpr int32_t kQueriesMeeting = 8;

/// The latent's queries in the codes' order and with what operands lack of what codes stand for,
/// and RoPE's where its keys are codes. Each consumer makes a half for both.
void CodeConsumer::awaitQueries() {
  Consumer::awaitQueries();
  const bool areRopeCodes = program.hasRope() && program.scales[1];
  // The scale is of memory that kernels before may have written.
  if (program.waits && (oneScale || areRopeCodes))
    sm90::WaitDependencyOp::create(b);
  auto getType = [&](Value tile) {
    auto type = cast<sm90::SmemType>(tile.getType());
    return getSharedType({type.getRows(), type.getColumns()}, b.getF16Type());
  };
  auto order = [&](Value tile, unsigned term) {
    Value one = getOneScale(program, term);
    Value factor = one ? cloner.get(one) : getConstant(1 / kCodeFactor, b.getF32Type());
    sm90::OrderRunsOp::create(b, getType(tile), tile, factor);
    written = true;
  };
  Value &latent = shared[program.queries.front()->getResult(0)];
  Value &rope = shared[program.queries.back()->getResult(0)];
  int64_t half = llvm::alignTo(program.getWidth(0) / program.consumers, sm90::kPanelColumns);
  order(slice(latent, which * half, which == 0 ? half : program.getWidth(0) - half), /*term=*/0);
  if (which == 1 && areRopeCodes)
    order(rope, /*term=*/1);
  sm90::NamedBarrierOp::create(b, kQueriesMeeting,
                               static_cast<int32_t>(program.consumers * sm90::kWarpgroupWarps),
                               /*arrive=*/false);
  // What is there is f16 now.
  latent = sm90::SliceOp::create(b, getType(latent), latent, 0);
  if (areRopeCodes)
    rope = sm90::SliceOp::create(b, getType(rope), rope, 0);
}

/// The scales of the first block are loaded in front of the loop: keys come from kernels before.
void CodeConsumer::emitFor(scf::ForOp op) {
  if (op == loop) {
    if (program.waits)
      sm90::WaitDependencyOp::create(b);
    outside.emplace(cloner, [](Operation *, Type type) { return convertRoleType(type); });
    if (!oneScale)
      nextScales = loadScales(getRange(loop).first);
  }
  TurnConsumer::emitFor(op);
}

/// What products of weights and codes lack of what codes stand for.
void CodeConsumer::finishOutputs() {
  for (unsigned index : state.outputs) {
    Value output = loop.getResult(index), codes = cloner.get(output);
    Value factor = oneScale
                       ? sm90::SplatOp::create(b, codes.getType(), cloner.get(oneScale)).getResult()
                       : getConstant(1 / kCodeFactor, codes.getType());
    cloner.map(output, arith::MulFOp::create(b, codes, factor));
  }
}

/// The output's rows are columns of keys.
void CodeConsumer::emitStore(tile::StoreOp store) {
  if (!store.getTransposed())
    return Consumer::emitStore(store);
  sm90::StoreRunsOp::create(b, cloner.get(store.getValue()), cloner.get(store.getView()),
                            cloner.get(store.getOffsets()), /*paired=*/false, /*transposed=*/true,
                            /*pairs=*/true);
}

//===----------------------------------------------------------------------===//
// Codes and scales
//===----------------------------------------------------------------------===//

/// Of the block at a value of the loop's induction variable: those of rows, of each group of
/// columns. At and behind the request's end they are 0.
SmallVector<Value> CodeConsumer::loadScales(Value position) {
  LazyCloner at(*outside, [](Operation *, Type type) { return convertRoleType(type); });
  at.map(loop.getInductionVar(), position);
  SmallVector<Value> loaded;
  for (int64_t column = 0; column < program.getWidth(0); column += sm90::kCodePanelColumns) {
    Value rows = loadRowScales(b, at, getScaleLoad(findScale(program.scales[0], column)));
    loaded.push_back(arith::MulFOp::create(b, rows, getConstant(kCodeFactor, rows.getType())));
  }
  return loaded;
}

/// Of an element in registers.
static constexpr int64_t kWordCodes = 4;

/// 64 columns of the latent.
Value CodeConsumer::loadKeys(int64_t column) {
  if (column % sm90::kCodePanelColumns == 0) // a part is a panel
    awaitPart(column / sm90::kCodePanelColumns);
  return sm90::LoadCodeWordsOp::create(
      b, getFragmentType(sm90::kPanelColumns / kWordCodes, b.getI32Type()),
      shared.lookup(program.operands[0]), column, sm90::kPanelColumns);
}

Value CodeConsumer::loadValues(int64_t column) {
  return sm90::LoadCodeColumnsOp::create(
      b, getFragmentType(sm90::kPanelColumns / kWordCodes, b.getI32Type()),
      shared.lookup(program.operands[0]), column, /*limit=*/Value());
}

/// Codes as an operand in registers, times scales of rows; null: as they are.
Value CodeConsumer::turn(Value words, Value scale, int64_t columns) {
  if (!scale)
    scale = getConstant(1, b.getF32Type());
  return sm90::ScaleCodesOp::create(b, getFragmentType(columns, b.getF16Type()), words, scale);
}

/// Ahead of a wait, which is a loop: ptxas puts a fence of its own into a group that goes on behind
/// one (C7519).
void CodeConsumer::closeGroup() {
  if (isOpen)
    sm90::WgmmaCommitOp::create(b);
  isOpen = false;
}

/// One product is in flight while the next operand is turned, if there are the registers of two.
void CodeConsumer::awaitRegisters() {
  closeGroup();
  const uint32_t pending = program.isTight ? 0 : 1;
  if (inFlight > pending)
    sm90::WgmmaWaitOp::create(b, TypeRange(), pending, ValueRange());
}

Value CodeConsumer::multiplyTurned(Value operand, Value rhs, Value acc) {
  ++inFlight;
  isOpen = true;
  needsFence = true; // for the operand
  return multiply(operand, rhs, acc, /*transposeLhs=*/false);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Codes are loaded one step ahead: nothing is loaded in front of a store that may, for all that
/// LLVM knows, be to the same place.
Value CodeConsumer::emitLatent(Value queries, Value acc) {
  scales = nextScales;
  // Of the next block: nobody waits for them here.
  if (!oneScale)
    nextScales =
        loadScales(arith::AddIOp::create(b, cloner.get(loop.getInductionVar()), getTurnStep()));
  Value words = loadKeys(0);
  for (int64_t column = 0; column < program.getWidth(0); column += sm90::kPanelColumns) {
    awaitRegisters();
    Value keys = turn(words, oneScale ? Value() : scales[column / sm90::kCodePanelColumns]);
    if (int64_t ahead = column + sm90::kPanelColumns; ahead < program.getWidth(0))
      words = loadKeys(ahead);
    acc = multiplyTurned(keys, slice(queries, column, sm90::kPanelColumns), acc);
  }
  return acc;
}

/// As they are, from shared memory, or as codes.
Value CodeConsumer::emitRope(Value queries, Value acc) {
  closeGroup();
  awaitPart(program.parts.size() - 1);
  Value keys = shared.lookup(program.operands[1]);
  if (program.scales[1]) {
    awaitRegisters();
    int64_t columns = program.getWidth(1);
    int64_t words = llvm::alignTo(columns, sm90::kColumnGroup * kWordCodes) / kWordCodes;
    keys = turn(sm90::LoadCodeWordsOp::create(b, getFragmentType(words, b.getI32Type()), keys,
                                              /*column=*/0, columns),
                /*scale=*/{}, columns);
  }
  keysRead = true;
  return multiplyTurned(keys, queries, acc);
}

Value CodeConsumer::emitScores(tile::DotOp dot, Value acc) {
  Value queries = shared.lookup(dot.getRhs());
  if (dot.getLhs() != program.operands[0])
    return emitRope(queries, acc);
  inFlight = 0;
  keysRead = true;
  return emitLatent(queries, acc);
}

Value CodeConsumer::finish(tile::DotOp, Value result) {
  isOpen = false;
  inFlight = 0;
  return result;
}

/// Weights, where rows have scales times those of each group.
void CodeConsumer::share(Operation *op) {
  if (oneScale)
    return Consumer::share(op);
  if (operandsRead)
    barrier();
  Value result = op->getResult(0);
  ArrayRef<Value> targets = entry.weights;
  Value weights = cloner.get(cast<arith::TruncFOp>(op).getIn());
  auto type = cast<RankedTensorType>(weights.getType());
  for (auto [target, scale] : llvm::zip_equal(targets, scales)) {
    Value factor = sm90::BroadcastOp::create(b, type, scale);
    Value scaled = arith::MulFOp::create(b, weights, factor);
    sm90::StoreSharedOp::create(b, arith::TruncFOp::create(b, type.clone(b.getF16Type()), scaled),
                                target, /*transposed=*/true, /*column=*/IntegerAttr());
  }
  shared[result] = targets.front();
  written = true;
}

Value CodeConsumer::emitOutput(tile::DotOp dot, Value acc) {
  auto part = dot.getLhs().getDefiningOp<tensor::ExtractSliceOp>();
  int64_t column = part ? part.getStaticOffset(1) : 0;
  if (column == 0)
    valueWords = loadValues(0);
  awaitRegisters();
  Value values = turn(valueWords, /*scale=*/{});
  if (int64_t ahead = column + sm90::kPanelColumns; ahead < program.getWidth(0))
    valueWords = loadValues(ahead);
  operandsRead = true;
  Value weights = entry.weights[oneScale ? 0 : column / sm90::kCodePanelColumns];
  return multiplyTurned(values, weights, acc);
}

/// Behind the last values' load.
void CodeConsumer::emitBeside(const Run &run) {
  tile::DotOp first = run.dots.front();
  if (first.getTransposeLhs())
    TurnConsumer::releaseKeys();
}

void stream::emitCodeConsumer(ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
                              const LazyCloner &cloner, unsigned which) {
  CodeConsumer(b, program, entry, cloner, which).run();
}
