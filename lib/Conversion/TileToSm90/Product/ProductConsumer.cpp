//===- ProductConsumer.cpp - who multiplies ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A consumer has its products between waiting for and freeing a stage of each ring, and what
// follows from them.
//
//===----------------------------------------------------------------------===//

#include "Product/ProductRole.h"

#include "mla/Dialect/Sm90/IR/Sm90CodeOps.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::product;

/// Steps whose products are promoted one behind the other before none is in flight. Four take 2 to
/// 5 % less with 128 steps and 3 to 4 % more with 12; with eight ptxas serialises (one H100,
/// docs/lab/products.md).
static constexpr int64_t kPromotedSteps = 2;

/// Named barriers: a consumer's turn.
static constexpr int32_t kFirstTurn = 8;

namespace {
class Consumer : public Role {
public:
  Consumer(ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
           const LazyCloner &cloner, unsigned index)
      : Role(b, program, entry, cloner), index(index), dots(program.getDots(index)) {}

  void run() {
    if (program.takesTurns() && index != 0) // the first turn is the first consumer's
      turn(/*of=*/0, /*arrives=*/true);
    Role::run();
    if (program.takesTurns() && index == 0) // takes the one that is left over
      turn(/*of=*/0, /*arrives=*/false);
    if (hasClusterSum()) // no other CTA reaches this one's shared memory from then on
      sm90::AcquireOp::create(b, entry.sumsRings[index], getSumsStage(), /*keeps=*/true);
    if (!entry.staging.empty()) // shared memory is read until then
      emitElected([&] { sm90::StoreWaitOp::create(b, /*pending=*/0); });
  }

private:
  /// Accumulators of other consumers are not kept.
  bool keeps(Value carried) const override;
  void emit(Operation *op) override;
  void emitFor(scf::ForOp loop) override;
  void emitSteps(scf::ForOp loop);
  SmallVector<Value> emitStep(ValueRange values);
  /// A sum, the product in flight that is to be added, its scales, and the stages that it reads.
  struct Promoted {
    Value sum, product, factor;
    SmallVector<Value> used;
  };
  void emitPromotedLoop(scf::ForOp loop);
  Value emitPromotedSteps(scf::ForOp loop, Value place, int64_t count, Value sum);
  Promoted startPromoted(scf::ForOp loop, Value place, Value sum);
  Value endPromoted(const Promoted &last, int32_t pending);
  Value loadFactorAt(scf::ForOp loop, Value place);
  void awaitStage();
  /// The only one of a consumer that has one.
  tile::DotOp getDot() const { return dots.front(); }
  Value startProduct(tile::DotOp dot, Value acc);
  Value finishProduct(Value acc, int32_t pending = 0);
  Value turnCodes(Value codes, Value scale, Type element);
  void turnAndMultiply(tile::DotOp dot);
  Value loadFactor(tile::DotOp dot);
  void addProduct(tile::DotOp dot, Value product, Value factor);
  void join();
  /// Whether this consumer has sums that CTAs of a cluster add up.
  bool hasClusterSum() const { return index < entry.sumsRings.size(); }
  /// Instead of `sum`, what this CTA has of the cluster's.
  void addClusterSum(Value sum) {
    cloner.map(sum, emitClusterSum(b, program, entry, entry.sumsRings[index], getSumsStage(),
                                   cloner.get(sum)));
  }
  /// The place in the view of what this CTA has of the tile at `offsets`.
  SmallVector<Value> getShareOffsets(ValueRange offsets, bool isTransposed, Type tile);
  void release(ValueRange used, unsigned firstRing = 0);
  void advanceAll();
  Value findOperand(Value tile);
  void store(tile::StoreOp op);
  void storeStaged(tile::StoreOp op, const Entry::Staging &staging);
  bool isMember(tile::DotOp dot, Operation *op) const {
    return program.members[llvm::find(program.dots, dot) - program.dots.begin()].contains(op);
  }
  Value readFactor(tile::DotOp dot);
  void multiply(tile::DotOp dot);
  void turn(unsigned of, bool arrives);

  unsigned index;
  ArrayRef<tile::DotOp> dots;
};
} // namespace

//===----------------------------------------------------------------------===//
// Consumers
//===----------------------------------------------------------------------===//

/// A dot of whose chain `carried` is a value.
bool Consumer::keeps(Value carried) const {
  return llvm::any_of(dots, [&](tile::DotOp dot) { return program.getCarried(dot) == carried; });
}

Value Consumer::findOperand(Value tile) {
  tile::LoadOp first = getChoice(tile).loads.front();
  for (auto [ring, loads] : llvm::enumerate(program.loads))
    for (auto [number, load] : llvm::enumerate(loads))
      if (load == first)
        return getTile(ring, number);
  llvm_unreachable("the program has checked the operands");
}

void Consumer::awaitStage() {
  for (auto [ring, stage] : llvm::zip_first(entry.rings, stages))
    sm90::AwaitOp::create(b, ring, stage, /*part=*/0);
}

/// The step at `stages`, which is there, in flight.
Value Consumer::startProduct(tile::DotOp dot, Value acc) {
  Value lhs = findOperand(dot.getLhs()), rhs = findOperand(dot.getRhs());
  // Waiting is a loop: ptxas must see the registers as ordered behind it.
  sm90::WgmmaFenceOp::create(b);
  Value next = sm90::WgmmaOp::create(b, acc.getType(), lhs, rhs, acc, dot.getTransposeLhs(),
                                     dot.getTransposeRhs());
  sm90::WgmmaCommitOp::create(b);
  return next;
}

/// `pending`: products that may stay in flight.
Value Consumer::finishProduct(Value acc, int32_t pending) {
  return sm90::WgmmaWaitOp::create(b, acc.getType(), pending, acc).getResult(0);
}

void Consumer::release(ValueRange used, unsigned firstRing) {
  for (auto [number, ring] : llvm::enumerate(entry.rings))
    if (number >= firstRing)
      sm90::ReleaseOp::create(b, ring, used[number]);
}

/// 64 of the depth, as the left operand in registers.
Value Consumer::turnCodes(Value codes, Value scale, Type element) {
  auto values = getFragmentType(sm90::kPanelColumns, b.getF32Type());
  Value wide = arith::ExtFOp::create(b, values, codes);
  if (scale)
    wide = arith::MulFOp::create(b, wide, sm90::SplatOp::create(b, values, scale));
  return arith::TruncFOp::create(b, getFragmentType(sm90::kPanelColumns, element), wide);
}

/// Codes become the left operand in registers, 64 of the depth at a time: the product of some is in
/// flight while the next are turned. Scales are loaded ahead of the wait, and a ring of codes is
/// free as soon as they are in registers.
void Consumer::turnAndMultiply(tile::DotOp dot) {
  Value factor = loadFactor(dot), scale = getTurned(dot.getLhs()).scale;
  if (scale)
    scale = cloner.get(scale);
  awaitStage();
  Value codes = findOperand(dot.getLhs()), other = findOperand(dot.getRhs());
  auto shared = cast<sm90::SmemType>(other.getType());
  Type code = cast<sm90::SmemType>(codes.getType()).getElementType(),
       element = shared.getElementType();
  auto slice = getSharedType({shared.getRows(), sm90::kPanelColumns}, element);
  SmallVector<Value> pieces;
  for (int64_t column = 0; column < sm90::kCodePanelColumns; column += sm90::kPanelColumns)
    pieces.push_back(sm90::LoadSharedOp::create(b, getFragmentType(sm90::kPanelColumns, code),
                                                codes, b.getI64IntegerAttr(column)));
  bool isCodesRing = entry.rings.size() > 1;
  if (isCodesRing)
    sm90::ReleaseOp::create(b, entry.rings.front(), stages.front());
  Value product = cloner.get(dot.getAcc());
  for (auto [number, piece] : llvm::enumerate(pieces)) {
    Value operand = turnCodes(piece, scale, element);
    Value rhs =
        sm90::SliceOp::create(b, slice, other, static_cast<int64_t>(number) * sm90::kPanelColumns);
    product = sm90::WgmmaOp::create(b, product.getType(), operand, rhs, product,
                                    /*transpose_lhs=*/false, /*transpose_rhs=*/true);
    sm90::WgmmaCommitOp::create(b);
  }
  product = finishProduct(product);
  release(stages, /*firstRing=*/isCodesRing ? 1 : 0);
  advanceAll();
  addProduct(dot, product, factor);
}

/// The scales of a step's product, ahead of it; null where it has none.
Value Consumer::loadFactor(tile::DotOp dot) {
  auto promotion = program.promotions.find(dot);
  return promotion == program.promotions.end() ? Value() : cloner.get(promotion->second.factor);
}

/// To the sum over the depth, times its scales.
void Consumer::addProduct(tile::DotOp dot, Value product, Value factor) {
  if (!factor)
    return cloner.map(dot.getResult(), product);
  const Promotion &promotion = program.promotions.find(dot)->second;
  Value sum = math::FmaOp::create(b, product, factor, cloner.get(promotion.carried));
  cloner.map(math::FmaOp(promotion.add).getResult(), sum);
}

/// The first consumer gets the second one's sum.
void Consumer::join() {
  Value ring = entry.parkingRing, stage = stages.back();
  Value own = cloner.get(program.getSum(getDot()));
  if (index == 0) {
    sm90::AwaitOp::create(b, ring, stage, /*part=*/0);
    Value other = sm90::UnparkOp::create(b, own.getType(), getParked());
    sm90::ReleaseOp::create(b, ring, stage);
    cloner.map(program.joint->getResult(0), arith::AddFOp::create(b, own, other));
    if (hasClusterSum())
      addClusterSum(program.joint->getResult(0));
  } else {
    sm90::AcquireOp::create(b, ring, stage);
    sm90::ParkOp::create(b, own, getParked(), /*rank=*/IntegerAttr());
    sm90::PublishOp::create(b, ring, stage, /*part=*/0);
  }
  stages.back() = sm90::StageNextOp::create(b, stage, ring);
}

void Consumer::advanceAll() {
  for (unsigned ring = 0; ring < entry.rings.size(); ++ring)
    advance(ring);
}

void Consumer::emitFor(scf::ForOp loop) {
  bool carries = loop == program.getDepthLoop();
  if (carries && program.overlapsProducts())
    emitSteps(loop);
  else if (carries && program.overlapsPromotions())
    emitPromotedLoop(loop);
  else
    Role::emitFor(loop);
  if (carries && hasClusterSum() && !program.joint)
    addClusterSum(program.getSum(getDot()));
}

/// A step of the loop over the depth: the next product starts, the one before ends.
/// `values`: the accumulator in flight, the stages that it reads, the next ones.
SmallVector<Value> Consumer::emitStep(ValueRange values) {
  SmallVector<Value> used(values.drop_front().drop_back(stages.size()));
  stages = llvm::to_vector(values.take_back(stages.size()));
  awaitStage();
  SmallVector<Value> next{startProduct(getDot(), values.front())};
  sm90::WgmmaWaitOp::create(b, TypeRange(), /*pending=*/1, ValueRange());
  release(used);
  next.append(stages);
  advanceAll();
  next.append(stages);
  return next;
}

/// The loop over the depth. Ahead of it the first product, which has no stage to free:
///
///     start 0 | start 1, end 0, free | start 2, end 1, free | ... | end, free
void Consumer::emitSteps(scf::ForOp loop) {
  tile::DotOp dot = getDot();
  unsigned number = cast<BlockArgument>(dot.getAcc()).getArgNumber() - 1;
  int64_t step = *getConstantIntValue(loop.getStep());
  int64_t second = *getConstantIntValue(loop.getLowerBound()) + step;
  awaitStage();
  SmallVector<Value> values{startProduct(dot, cloner.get(loop.getInitArgs()[number]))};
  values.append(stages);
  advanceAll();
  values.append(stages);
  if (second < *getConstantIntValue(loop.getLowerBound()) + program.getDepthSpan()) {
    auto result = scf::ForOp::create(b, arith::ConstantIndexOp::create(b, second), getEnd(loop),
                                     arith::ConstantIndexOp::create(b, step), values);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(result.getBody());
    scf::YieldOp::create(b, emitStep(result.getRegionIterArgs()));
    values = llvm::to_vector(ValueRange(result.getResults()));
  }
  ValueRange all = values;
  stages = llvm::to_vector(all.take_back(stages.size()));
  cloner.map(loop.getResult(number), finishProduct(all.front()));
  release(all.drop_front().drop_back(stages.size()));
}

Value Consumer::loadFactorAt(scf::ForOp loop, Value place) {
  LazyCloner::Scope scope(cloner);
  cloner.map(loop.getInductionVar(), getPlace(loop, place));
  return loadFactor(getDot());
}

/// Up to so many columns the scales of a step are loaded ahead of the wait for it, a trip to L2
/// each, else under its product: 16 rows of 7168 x 16384 take 33.7 us and not 34.1, tiles of 128
/// columns would take 1 to 3 % more (one H200, docs/lab/products.md).
static constexpr int64_t kMostAheadColumns = 32;

/// Into a product of its own, beside the sum.
Consumer::Promoted Consumer::startPromoted(scf::ForOp loop, Value place, Value sum) {
  bool isAhead = getDot().getType().getDimSize(1) <= kMostAheadColumns;
  SmallVector<Value> used = stages;
  Value factor = isAhead ? loadFactorAt(loop, place) : Value();
  awaitStage();
  Value product = startProduct(getDot(), cloner.get(getDot().getAcc()));
  if (!isAhead)
    factor = loadFactorAt(loop, place);
  advanceAll();
  return {sum, product, factor, used};
}

/// The product ends, frees its stage and is added.
Value Consumer::endPromoted(const Promoted &last, int32_t pending) {
  Value product = finishProduct(last.product, pending);
  release(last.used);
  return math::FmaOp::create(b, product, last.factor, last.sum);
}

/// `count` steps from the one at `place` on; none is in flight at their end.
Value Consumer::emitPromotedSteps(scf::ForOp loop, Value place, int64_t count, Value sum) {
  int64_t step = *getConstantIntValue(loop.getStep());
  auto placeOf = [&](int64_t number) -> Value {
    return arith::AddIOp::create(b, place, arith::ConstantIndexOp::create(b, number * step));
  };
  Promoted last = startPromoted(loop, place, sum);
  for (int64_t number = 1; number < count; ++number) {
    Promoted next = startPromoted(loop, placeOf(number), last.sum);
    next.sum = endPromoted(last, /*pending=*/1);
    last = next;
  }
  return endPromoted(last, /*pending=*/0);
}

/// As above, of products that are scaled before they are added, several steps at a time: ptxas
/// serialises the products of a loop that reads one which is in flight across its end.
///
///     start 0 | start 1, end 0, add 0 | start 2, end 1, add 1 | start 3, ... | end 3, add 3
void Consumer::emitPromotedLoop(scf::ForOp loop) {
  unsigned number = cast<BlockArgument>(program.getCarried(getDot())).getArgNumber() - 1;
  int64_t first = *getConstantIntValue(loop.getLowerBound()),
          step = *getConstantIntValue(loop.getStep()),
          steps = llvm::divideCeil(program.getDepthSpan(), step), rest = steps % kPromotedSteps;
  auto constant = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(b, value); };
  Value sum = cloner.get(loop.getInitArgs()[number]), end = constant(first + (steps - rest) * step);
  if (steps != rest) {
    SmallVector<Value> values{sum};
    values.append(stages);
    auto result =
        scf::ForOp::create(b, constant(first), end, constant(kPromotedSteps * step), values);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToEnd(result.getBody());
      stages = llvm::to_vector(ValueRange(result.getRegionIterArgs()).drop_front());
      values = {emitPromotedSteps(loop, result.getInductionVar(), kPromotedSteps,
                                  result.getRegionIterArgs().front())};
      values.append(stages);
      scf::YieldOp::create(b, values);
    }
    sum = result.getResult(0);
    stages = llvm::to_vector(ValueRange(result.getResults()).drop_front());
  }
  if (rest != 0)
    sum = emitPromotedSteps(loop, end, rest, sum);
  cloner.map(loop.getResult(number), sum);
}

void Consumer::turn(unsigned of, bool arrives) {
  auto warps = static_cast<int32_t>(program.countConsumers() * sm90::kWarpgroupWarps);
  sm90::NamedBarrierOp::create(b, kFirstTurn + static_cast<int32_t>(of), warps, arrives);
}

/// What the product is scaled by, out of the stage.
Value Consumer::readFactor(tile::DotOp dot) {
  SmallVector<Value> needed = {program.promotions.find(dot)->second.factor};
  while (!needed.empty()) {
    Operation *op = needed.pop_back_val().getDefiningOp();
    if (!op)
      continue;
    if (auto load = dyn_cast<tile::LoadOp>(op); llvm::is_contained(program.scales, load))
      cloner.map(load.getResult(),
                 sm90::LoadSharedOp::create(b, convertProductType(load, load.getType()),
                                            findOperand(load), /*column=*/IntegerAttr()));
    else
      llvm::copy_if(op->getOperands(), std::back_inserter(needed), isTile);
  }
  return loadFactor(dot);
}

/// One behind the other: the stage is free behind the last. By turns: the product of the other
/// consumer is under way while this one's is added.
///
///     consumer 0   start | wait, add | start     | wait, add | ...
///     consumer 1         | start     | wait, add | start     | ...
void Consumer::multiply(tile::DotOp dot) {
  bool takesTurns = program.takesTurns(), areInStage = !program.scales.empty();
  Value factor = areInStage ? Value() : loadFactor(dot);
  if (dot == dots.front())
    awaitStage();
  if (takesTurns)
    turn(/*of=*/index, /*arrives=*/false);
  Value product = startProduct(dot, cloner.get(dot.getAcc()));
  if (takesTurns)
    turn(/*of=*/1 - index, /*arrives=*/true);
  if (areInStage)
    factor = readFactor(dot);
  product = finishProduct(product);
  if (dot == dots.back()) {
    release(stages);
    advanceAll();
  }
  addProduct(dot, product, factor);
}

void Consumer::store(tile::StoreOp op) {
  auto staging = entry.staging.find(op);
  if (staging != entry.staging.end())
    return storeStaged(op, staging->second);
  bool paired = !op.getTransposed() && arePaired(op.getView(), op.getOffsets().back());
  sm90::StoreOp::create(
      b, cloner.get(op.getValue()), cloner.get(op.getView()),
      getShareOffsets(op.getOffsets(), op.getTransposed(), op.getValue().getType()), paired,
      op.getTransposed());
}

SmallVector<Value> Consumer::getShareOffsets(ValueRange offsets, bool isTransposed, Type type) {
  SmallVector<Value> at = cloner.get(offsets);
  auto tile = dyn_cast<RankedTensorType>(type);
  if (program.cluster == 1 || !tile || tile.getRank() != 2)
    return at;
  int64_t columns = program.getShare(tile).getDimSize(1);
  Value first = arith::MulIOp::create(b, entry.rank, arith::ConstantIndexOp::create(b, columns));
  Value &along = isTransposed ? at.front() : at.back();
  along = arith::AddIOp::create(b, along, first);
  return at;
}

/// The copy out of shared memory goes on under the next tile's products.
void Consumer::storeStaged(tile::StoreOp op, const Entry::Staging &staging) {
  emitElected([&] { sm90::StoreWaitOp::create(b, /*pending=*/0); });
  sm90::BarrierOp::create(b);
  sm90::StoreSharedOp::create(b, cloner.get(op.getValue()), staging.tile, op.getTransposed(),
                              /*column=*/IntegerAttr());
  sm90::BarrierOp::create(b);
  SmallVector<Value> offsets =
      getShareOffsets(op.getOffsets(), op.getTransposed(), op.getValue().getType());
  emitElected([&] {
    sm90::TmaStoreOp::create(b, staging.tile, staging.map, offsets);
    sm90::StoreCommitOp::create(b);
  });
}

void Consumer::emit(Operation *op) {
  if (program.joint && op == program.joint)
    return join();
  if (auto dot = dyn_cast<tile::DotOp>(op)) {
    if (!llvm::is_contained(dots, dot))
      return;
    return program.turnsCodes() ? turnAndMultiply(dot) : multiply(dot);
  }
  if (llvm::none_of(dots, [&](tile::DotOp dot) { return isMember(dot, op); }))
    return;
  if (auto load = dyn_cast<tile::LoadOp>(op)) {
    if (llvm::is_contained(program.scales, load)) // its product reads it
      return;
    SmallVector<Value> offsets =
        program.isBehindDepth(load)
            ? getShareOffsets(load.getOffsets(), /*isTransposed=*/false, load.getType())
            : cloner.get(load.getOffsets());
    Value loaded = sm90::LoadOp::create(b, program.convertType(load, load.getType()),
                                        cloner.get(load.getView()), offsets,
                                        arePaired(load.getView(), load.getOffsets().back()));
    return cloner.map(load.getResult(), loaded);
  }
  if (auto store = dyn_cast<tile::StoreOp>(op))
    return this->store(store);
  for (Value result : op->getResults())
    cloner.get(result);
}

void product::emitConsumer(ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
                           unsigned consumer, const LazyCloner &cloner) {
  // Results may go where the kernels before still read.
  if (program.waits)
    sm90::WaitDependencyOp::create(b);
  Consumer(b, program, entry, cloner, consumer).run();
}
