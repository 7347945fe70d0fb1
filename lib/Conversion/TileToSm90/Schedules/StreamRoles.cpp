//===- StreamRoles.cpp - what producer and consumer do ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The consumer's order of accesses to shared memory (barrier = its four warps):
//
//   P, scratch     written after a barrier that follows the last read: for P the one
//                  inside the reduction, for the scratch the one that publishes P
//   zeroed rows    after a barrier that follows the scores' read of the keys, before
//                  the one that publishes P
//   stages         released by each warp after its own products have been waited for
//
// At the borders of loops and branches no write is unpublished and no scratch is
// in use; other tiles count as read there.
//
//===----------------------------------------------------------------------===//

#include "StreamKernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::stream;

static bool isTile(Value value) { return isa<RankedTensorType>(value.getType()); }

static bool touchesTiles(Operation *op) {
  return llvm::any_of(op->getOperands(), isTile) || llvm::any_of(op->getResults(), isTile);
}

//===----------------------------------------------------------------------===//
// Walking the program
//===----------------------------------------------------------------------===//

namespace {
/// A walk over the program that keeps its control flow. Stages are values, so loops
/// and branches carry those of the rings that are used inside.
class Role {
public:
  Role(ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
       const LazyCloner &cloner)
      : b(b), program(program), entry(entry),
        cloner(cloner, [](Operation *, Type type) { return convertType(type); }) {}
  virtual ~Role() = default;

  void run();

protected:
  /// Whether the role has its own copy of a value that control flow carries.
  virtual bool keeps(Value value) const = 0;
  virtual void emit(Operation *op) = 0;
  /// Before a loop or a branch, before and after the body of a region.
  virtual void settle() {}
  virtual void beginRegion() {}

  void emitBlock(Block &block);
  void emitFor(scf::ForOp loop);
  void emitIf(scf::IfOp branch);
  void emitRegion(Region &from, Block &to, Operation *parent);
  /// Scalars, and for roles that have them tiles, op by op.
  void clone(Operation *op) {
    for (Value result : op->getResults())
      cloner.get(result);
  }

  SmallVector<Value> getKept(ValueRange values);
  void mapKept(ValueRange olds, ValueRange news);
  /// The stages that `op`'s regions change.
  SmallVector<Value *> getStages(Operation *op);
  Value next(Value stage, Value ring) { return sm90::StageNextOp::create(b, stage, ring); }
  Value getTile(Value ring, Value stage, unsigned index) {
    Type type = cast<sm90::RingType>(ring.getType()).getTiles()[index];
    return sm90::StageTileOp::create(b, type, ring, stage, index);
  }
  /// Columns [column, column + columns) of a shared tile.
  Value slice(Value tile, int64_t column, int64_t columns) {
    auto type = cast<sm90::SmemType>(tile.getType());
    if (columns == type.getColumns())
      return tile;
    auto part = sm90::SmemType::get(b.getContext(), {type.getRows(), columns},
                                    type.getElementType(), type.getLayout());
    return sm90::SliceOp::create(b, part, tile, column);
  }

  ImplicitLocOpBuilder &b;
  const Program &program;
  const Entry &entry;
  LazyCloner cloner;
  Value keyStage, queryStage;
  /// Ops that were emitted ahead of their turn.
  DenseSet<Operation *> done;
};
} // namespace

void Role::run() {
  Value start = sm90::StageStartOp::create(b);
  keyStage = queryStage = start;
  tile::KernelOp kernel = program.kernel;
  emitBlock(kernel.getBody().front());
}

/// The entry has the scalars of the kernel's own block already.
void Role::emitBlock(Block &block) {
  for (Operation &op : block.without_terminator()) {
    bool isMapped = op.getNumResults() != 0 && op.getNumRegions() == 0 &&
                    llvm::all_of(op.getResults(), [&](Value v) { return cloner.isMapped(v); });
    if (!isMapped && !done.contains(&op))
      emit(&op);
  }
}

SmallVector<Value> Role::getKept(ValueRange values) {
  SmallVector<Value> kept;
  for (Value value : values)
    if (keeps(value))
      kept.push_back(cloner.get(value));
  return kept;
}

void Role::mapKept(ValueRange olds, ValueRange news) {
  for (Value old : olds) {
    if (!keeps(old))
      continue;
    cloner.map(old, news.front());
    news = news.drop_front();
  }
}

SmallVector<Value *> Role::getStages(Operation *op) {
  SmallVector<Value *> stages;
  if (op->isProperAncestor(program.keys.front()))
    stages.push_back(&keyStage);
  if (op->isProperAncestor(program.queries.front()))
    stages.push_back(&queryStage);
  return stages;
}

void Role::emitRegion(Region &from, Block &to, Operation *parent) {
  OpBuilder::InsertionGuard guard(b);
  if (to.mightHaveTerminator())
    to.getTerminator()->erase();
  b.setInsertionPointToEnd(&to);
  beginRegion();
  emitBlock(from.front());
  settle();
  SmallVector<Value> yielded = getKept(from.front().getTerminator()->getOperands());
  for (Value *stage : getStages(parent))
    yielded.push_back(*stage);
  scf::YieldOp::create(b, yielded);
}

void Role::emitFor(scf::ForOp loop) {
  settle();
  SmallVector<Value> inits = getKept(loop.getInitArgs());
  SmallVector<Value *> stages = getStages(loop);
  for (Value *stage : stages)
    inits.push_back(*stage);
  auto result =
      scf::ForOp::create(b, cloner.get(loop.getLowerBound()), cloner.get(loop.getUpperBound()),
                         cloner.get(loop.getStep()), inits);
  result->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  auto setStages = [&](ValueRange values) {
    for (auto [stage, value] : llvm::zip_equal(stages, values.take_back(stages.size())))
      *stage = value;
  };
  {
    LazyCloner::Scope scope(cloner);
    cloner.map(loop.getInductionVar(), result.getInductionVar());
    mapKept(loop.getRegionIterArgs(), result.getRegionIterArgs());
    setStages(result.getRegionIterArgs());
    emitRegion(loop.getRegion(), *result.getBody(), loop);
  }
  mapKept(loop.getResults(), result.getResults());
  setStages(result.getResults());
  beginRegion();
}

void Role::emitIf(scf::IfOp branch) {
  settle();
  SmallVector<Type> types;
  for (Value value : branch.getResults())
    if (keeps(value))
      types.push_back(convertType(value.getType()));
  SmallVector<Value *> stages = getStages(branch);
  SmallVector<Value> before;
  for (Value *stage : stages) {
    types.push_back((*stage).getType());
    before.push_back(*stage);
  }
  bool hasElse = !branch.getElseRegion().empty() || !types.empty();
  auto result = scf::IfOp::create(b, types, cloner.get(branch.getCondition()),
                                  /*addThenBlock=*/true, /*addElseBlock=*/hasElse);
  auto emitBranch = [&](Region &from, Region &to) {
    LazyCloner::Scope scope(cloner);
    for (auto [stage, value] : llvm::zip_equal(stages, before))
      *stage = value;
    if (!from.empty())
      return emitRegion(from, to.front(), branch);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(&to.front());
    scf::YieldOp::create(b, before);
  };
  emitBranch(branch.getThenRegion(), result.getThenRegion());
  if (hasElse)
    emitBranch(branch.getElseRegion(), result.getElseRegion());
  mapKept(branch.getResults(), result.getResults());
  for (auto [stage, value] : llvm::zip_equal(stages, result.getResults().take_back(stages.size())))
    *stage = value;
  beginRegion();
}

//===----------------------------------------------------------------------===//
// Producer
//===----------------------------------------------------------------------===//

namespace {
class Producer : public Role {
public:
  using Role::Role;

private:
  bool keeps(Value value) const override { return !isTile(value); }
  void emit(Operation *op) override;
  void loadQueries();
  void loadKeys();
  Value constant(int64_t value) { return arith::ConstantIndexOp::create(b, value); }
};
} // namespace

void Producer::emit(Operation *op) {
  if (op == program.queries.back())
    return loadQueries();
  if (op == program.keys.back())
    return loadKeys();
  if (auto loop = dyn_cast<scf::ForOp>(op); loop && program.hasLoads(op))
    return emitFor(loop);
  if (auto branch = dyn_cast<scf::IfOp>(op); branch && program.hasLoads(op))
    return emitIf(branch);
  if (op->getNumRegions() == 0 && !touchesTiles(op))
    clone(op);
}

/// Bytes of all panels of a tile, padding included: what TMA moves.
static int32_t getBytes(Value tile) {
  return static_cast<int32_t>(cast<sm90::SmemType>(tile.getType()).getByteSize());
}

void Producer::loadQueries() {
  sm90::AcquireOp::create(b, entry.queryRing, queryStage);
  SmallVector<Value> tiles;
  int32_t bytes = 0;
  for (unsigned index = 0; index < program.queries.size(); ++index) {
    tiles.push_back(getTile(entry.queryRing, queryStage, index));
    bytes += getBytes(tiles.back());
  }
  sm90::ExpectOp::create(b, entry.queryRing, queryStage, /*part=*/0, bytes);
  for (auto [load, map, tile] : llvm::zip_equal(program.queries, entry.queryMaps, tiles))
    sm90::TmaLoadOp::create(b, load->getLoc(), map,
                            cloner.get(ValueRange(load->getOperands().drop_front())), tile,
                            entry.queryRing, queryStage, /*part=*/0, /*row=*/0, IntegerAttr());
  queryStage = next(queryStage, entry.queryRing);
}

/// The block table is read before the wait for a free stage, which hides its
/// latency.
void Producer::loadKeys() {
  SmallVector<PagedTiles::Block> blocks;
  for (const PagedTiles &map : entry.keyMaps)
    blocks.push_back(map.find(b, cloner));
  sm90::AcquireOp::create(b, entry.keyRing, keyStage);
  for (auto [index, part] : llvm::enumerate(program.parts)) {
    auto number = static_cast<int32_t>(index);
    Value target = slice(getTile(entry.keyRing, keyStage, part.tile), part.column, part.columns);
    sm90::ExpectOp::create(b, entry.keyRing, keyStage, number, getBytes(target));
    entry.keyMaps[part.tile].copy(b, b.getLoc(), blocks[part.tile], part.column, target,
                                  entry.keyRing, keyStage, number);
  }
  keyStage = next(keyStage, entry.keyRing);
}

void stream::emitProducer(ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
                          const LazyCloner &cloner) {
  auto elect = sm90::ElectOp::create(b);
  OpBuilder::InsertionGuard guard(b);
  b.createBlock(&elect.getBody());
  sm90::EndOp::create(b);
  b.setInsertionPointToStart(&elect.getBody().front());
  Producer(b, program, entry, cloner).run();
}

//===----------------------------------------------------------------------===//
// Consumer
//===----------------------------------------------------------------------===//

namespace {
/// Products that one commit covers, and ops behind the first of them that do not
/// depend on any: `early` ones make operands, `late` ones run beside the products.
struct Run {
  SmallVector<tile::DotOp> dots;
  SmallVector<Operation *> early, late;
};

class Consumer : public Role {
public:
  using Role::Role;

private:
  bool keeps(Value) const override { return true; }
  void emit(Operation *op) override;
  void settle() override;
  void beginRegion() override;

  void awaitQueries();
  void emitReduce(tile::ReduceOp reduce);
  void emitStore(tile::StoreOp store);
  void share(Operation *op);
  Run collectRun(tile::DotOp first);
  bool canMove(Operation *op);
  void emitRun(tile::DotOp first);
  Value emitScores(tile::DotOp dot, Value acc);
  Value emitOutput(tile::DotOp dot, Value acc);
  Value multiply(Value lhs, Value rhs, Value acc, bool transposeLhs);
  void awaitPart(unsigned part);
  void zeroTail(tile::LoadPagedOp keys);

  void barrier();
  void publish() {
    if (written)
      barrier();
  }

  DenseMap<Value, Value> shared; // tiles that lie in shared memory
  DenseSet<unsigned> awaited;    // parts of the block at hand
  bool needsFence = false;       // before the next wgmma

  // Since the last barrier:
  bool written = false;      // shared memory
  bool operandsRead = false; // tiles of computed operands
  bool keysRead = false;     // the block at hand
  DenseSet<Value> scratchUsed;
};
} // namespace

void Consumer::barrier() {
  sm90::BarrierOp::create(b);
  written = operandsRead = keysRead = false;
  scratchUsed.clear();
}

void Consumer::settle() {
  if (written || !scratchUsed.empty())
    barrier();
}

void Consumer::beginRegion() { operandsRead = true; }

void Consumer::emit(Operation *op) {
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](scf::ForOp loop) { emitFor(loop); })
      .Case([&](scf::IfOp branch) { emitIf(branch); })
      .Case([&](tile::LoadOp load) {
        if (load == program.queries.front())
          awaitQueries();
      })
      .Case([&](tile::LoadPagedOp load) {
        auto index = llvm::find(program.keys, load) - program.keys.begin();
        shared[load.getResult()] = getTile(entry.keyRing, keyStage, index);
        if (index == 0)
          awaited.clear();
      })
      .Case([&](tensor::ExtractSliceOp slice) {
        int64_t column = slice.getStaticOffset(1), columns = slice.getType().getDimSize(1);
        shared[slice.getResult()] = this->slice(shared.lookup(slice.getSource()), column, columns);
      })
      .Case([&](tile::DotOp dot) { emitRun(dot); })
      .Case([&](tile::ReduceOp reduce) { emitReduce(reduce); })
      .Case([&](tile::StoreOp store) { emitStore(store); })
      .Default([&](Operation *op) {
        clone(op);
        share(op);
      });
  if (op == program.queriesEnd) {
    sm90::ReleaseOp::create(b, entry.queryRing, queryStage);
    queryStage = next(queryStage, entry.queryRing);
  }
}

void Consumer::awaitQueries() {
  sm90::AwaitOp::create(b, entry.queryRing, queryStage, /*part=*/0);
  for (auto [index, load] : llvm::enumerate(program.queries))
    shared[load->getResult(0)] = getTile(entry.queryRing, queryStage, index);
}

/// The barrier inside the op says that all warps have come this far.
void Consumer::emitReduce(tile::ReduceOp reduce) {
  Value scratch = entry.scratch.lookup(reduce);
  if (scratchUsed.contains(scratch))
    barrier();
  sm90::ReduceKind kind = convertReduceKind(reduce.getKind());
  Value result = sm90::ReduceOp::create(b, convertType(reduce.getType()), kind,
                                        cloner.get(reduce.getSource()), scratch, /*dim=*/0);
  cloner.map(reduce.getResult(), result);
  operandsRead = keysRead = false;
  scratchUsed.clear();
  scratchUsed.insert(scratch);
}

void Consumer::emitStore(tile::StoreOp store) {
  sm90::StoreOp::create(b, cloner.get(store.getValue()), cloner.get(store.getView()),
                        cloner.get(store.getOffsets()), /*paired=*/false, store.getTransposed());
}

/// Stores what a product reads, transposed: [64 keys, N] to [N, 64], K-major.
void Consumer::share(Operation *op) {
  for (Value result : op->getResults()) {
    Value target = entry.operands.lookup(result);
    if (!target)
      continue;
    if (operandsRead)
      barrier();
    sm90::StoreSharedOp::create(b, cloner.get(result), target, /*transposed=*/true);
    shared[result] = target;
    written = true;
  }
}

/// Ops that neither wait nor write may run earlier than they stand.
bool Consumer::canMove(Operation *op) {
  bool makesOperand =
      llvm::any_of(op->getResults(), [&](Value result) { return entry.operands.contains(result); });
  return op->getNumRegions() == 0 && !makesOperand && !isa<tile::ReduceOp, tile::StoreOp>(op);
}

/// The dots that follow `first` and read nothing that an earlier one makes but its
/// accumulator.
Run Consumer::collectRun(tile::DotOp first) {
  Run run;
  DenseSet<Operation *> needed;
  SmallVector<Operation *> moved;
  auto isOfRun = [&](Value value) { return llvm::is_contained(run.dots, value.getDefiningOp()); };
  for (Operation *op = first; op && !op->hasTrait<OpTrait::IsTerminator>();
       op = op->getNextNode()) {
    auto dot = dyn_cast<tile::DotOp>(op);
    bool depends = llvm::any_of(op->getOperands(), isOfRun);
    if (dot && !isOfRun(dot.getLhs()) && !isOfRun(dot.getRhs()))
      run.dots.push_back(dot);
    else if (!dot && !depends && canMove(op))
      moved.push_back(op);
    else
      break;
  }
  auto need = [&](Operation *op) {
    for (Value operand : op->getOperands())
      if (Operation *source = operand.getDefiningOp())
        needed.insert(source);
  };
  for (tile::DotOp dot : run.dots)
    need(dot);
  for (Operation *op : llvm::reverse(moved))
    if (needed.contains(op))
      need(op);
  for (Operation *op : moved)
    (needed.contains(op) ? run.early : run.late).push_back(op);
  return run;
}

void Consumer::awaitPart(unsigned part) {
  if (!awaited.insert(part).second)
    return;
  sm90::AwaitOp::create(b, entry.keyRing, keyStage, static_cast<int32_t>(part));
  // Waiting is a loop: ptxas must see the registers as ordered behind it.
  needsFence = true;
}

Value Consumer::multiply(Value lhs, Value rhs, Value acc, bool transposeLhs) {
  if (needsFence)
    sm90::WgmmaFenceOp::create(b);
  needsFence = false;
  return sm90::WgmmaOp::create(b, acc.getType(), lhs, rhs, acc, transposeLhs,
                               /*transpose_rhs=*/true);
}

/// The parts of the keys in the order in which they arrive.
Value Consumer::emitScores(tile::DotOp dot, Value acc) {
  Value keys = shared.lookup(dot.getLhs()), queries = shared.lookup(dot.getRhs());
  for (auto [index, part] : llvm::enumerate(program.parts)) {
    if (program.keys[part.tile]->getResult(0) != dot.getLhs())
      continue;
    awaitPart(index);
    acc = multiply(slice(keys, part.column, part.columns),
                   slice(queries, part.column, part.columns), acc, /*transposeLhs=*/false);
  }
  keysRead = true;
  return acc;
}

Value Consumer::emitOutput(tile::DotOp dot, Value acc) {
  Value values = shared.lookup(dot.getLhs()), weights = shared.lookup(dot.getRhs());
  operandsRead = true;
  return multiply(values, weights, acc, /*transposeLhs=*/true);
}

/// Weights behind the request's end are 0, but values there may be NaN.
void Consumer::zeroTail(tile::LoadPagedOp keys) {
  Value rows = arith::SubIOp::create(b, cloner.get(keys.getLimit()), cloner.get(keys.getToken()));
  Value all = arith::ConstantIndexOp::create(b, keys.getType().getDimSize(0));
  Value isShort = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, rows, all);
  if (keysRead)
    barrier();
  auto branch = scf::IfOp::create(b, isShort, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  sm90::ZeroRowsOp::create(b, shared.lookup(keys.getResult()), rows);
  written = true;
}

/// The load whose columns `tile` is.
static tile::LoadPagedOp getLoad(Value tile) {
  if (auto slice = tile.getDefiningOp<tensor::ExtractSliceOp>())
    tile = slice.getSource();
  return tile.getDefiningOp<tile::LoadPagedOp>();
}

void Consumer::emitRun(tile::DotOp first) {
  Run run = collectRun(first);
  for (Operation *op : run.early)
    emit(op);
  llvm::SetVector<Operation *> values;
  for (tile::DotOp dot : run.dots)
    if (dot.getTransposeLhs())
      values.insert(getLoad(dot.getLhs()));
  for (auto [index, part] : llvm::enumerate(program.parts))
    if (values.contains(program.keys[part.tile]))
      awaitPart(index);
  for (Operation *load : values)
    zeroTail(cast<tile::LoadPagedOp>(load));
  publish();
  needsFence = true;
  SmallVector<Value> ends, inFlight;
  for (tile::DotOp dot : run.dots) {
    Value acc = cloner.get(dot.getAcc());
    Value result = dot.getTransposeLhs() ? emitOutput(dot, acc) : emitScores(dot, acc);
    cloner.map(dot.getResult(), result);
    // A chain of products is waited for at its end.
    auto previous = llvm::find(inFlight, acc);
    if (previous != inFlight.end()) {
      *previous = result;
      ends[previous - inFlight.begin()] = dot.getResult();
    } else {
      inFlight.push_back(result);
      ends.push_back(dot.getResult());
    }
  }
  sm90::WgmmaCommitOp::create(b);
  for (Operation *op : run.late)
    emit(op);
  auto wait =
      sm90::WgmmaWaitOp::create(b, TypeRange(ValueRange(inFlight)), /*pending=*/0, inFlight);
  for (auto [end, result] : llvm::zip_equal(ends, wait.getResults()))
    cloner.map(end, result);
  done.insert(run.dots.begin(), run.dots.end());
  done.insert(run.early.begin(), run.early.end());
  done.insert(run.late.begin(), run.late.end());
  if (llvm::is_contained(run.dots, program.keysEnd)) {
    sm90::ReleaseOp::create(b, entry.keyRing, keyStage);
    keyStage = next(keyStage, entry.keyRing);
  }
}

void stream::emitConsumer(ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
                          const LazyCloner &cloner) {
  Consumer(b, program, entry, cloner).run();
}
