//===- Product.cpp - matrix products out of rings ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which kernels the schedule takes, its parameters, and the kernel's entry.
//
//===----------------------------------------------------------------------===//

#include "Product/Product.h"

#include "Common/Divisibility.h"
#include "Common/PagedTiles.h"
#include "Product/ProductKernel.h"

#include "mla/Dialect/KernelAttrs.h"
#include "mla/Dialect/Tile/IR/MachineAttr.h"
#include "mla/Dialect/Tile/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::product;

/// Products: two consumers with 64x256 accumulators leave a producer registers, as do two with two
/// sums of 64x128 each and a step's product.
static constexpr unsigned kMaxPlain = 2, kMaxPromoted = 4;

/// Shared memory kept for barriers and alignment.
static constexpr int64_t kReservedBytes = 512;

/// The same where there are two producers and two consumers, who turn codes into operands.
static constexpr int32_t kCodesConsumerRegisters = 216;
static constexpr int64_t kCodesRoles = 4;

//===----------------------------------------------------------------------===//
// Recognition
//===----------------------------------------------------------------------===//

namespace {
class Matcher {
public:
  Matcher(tile::KernelOp kernel, std::optional<int64_t> stages)
      : program(kernel), givenStages(stages) {}
  std::string findDots();
  std::string findPromotions();
  std::string checkLoops();
  std::string findJoint();
  std::string checkOperands();
  std::string checkChoice(Value operand, Block *step);
  std::string findScales();
  bool isOperand(Operation *op) const;
  std::string checkOps();
  std::string findMembers();
  std::string findCluster();
  std::string groupLoads();
  std::string findStaged();
  std::string chooseStages();
  Program program;

private:
  SmallVector<tile::LoadOp> operands; ///< in the order of the program
  std::optional<int64_t> givenStages;
};
} // namespace

std::string Matcher::findDots() {
  program.kernel.walk([&](tile::DotOp dot) { program.dots.push_back(dot); });
  size_t count = program.dots.size();
  if (count != 1 && count != kMaxPlain && count != kMaxPromoted)
    return "it has " + std::to_string(count) + " products, not 1, " + std::to_string(kMaxPlain) +
           " or " + std::to_string(kMaxPromoted);
  for (tile::DotOp dot : program.dots) {
    auto acc = cast<RankedTensorType>(dot.getAcc().getType());
    if (dot->getBlock() != program.dots.front()->getBlock())
      return "its products are not in one place";
    if (acc.getDimSize(0) != sm90::kTileRows || acc.getDimSize(1) > sm90::kMaxWgmmaColumns ||
        acc.getDimSize(1) % sm90::kColumnGroup != 0)
      return "a product's result does not fit one warpgroup";
  }
  return "";
}

/// The only user of a type, or null.
template <typename Op> static Op getUser(Value value) {
  return value.hasOneUse() ? dyn_cast<Op>(*value.user_begin()) : Op();
}

/// Products of codes that a loop adds up after a multiplication.
std::string Matcher::findPromotions() {
  for (tile::DotOp dot : program.dots) {
    auto add = getUser<math::FmaOp>(dot.getResult());
    if (!isOfCodes(dot.getLhs()) || !add || add.getC() == dot.getResult() ||
        !matchPattern(dot.getAcc(), m_AnyZeroFloat()))
      continue;
    auto carried = dyn_cast<BlockArgument>(add.getC());
    if (carried && carried.getOwner() == dot->getBlock())
      program.promotions[dot] = {add, carried,
                                 add.getA() == dot.getResult() ? add.getB() : add.getA()};
  }
  return "";
}

/// Two sums that are added to each other first of all.
std::string Matcher::findJoint() {
  if (!program.hasCodes() || program.dots.size() != 2)
    return "";
  Value first = program.getSum(program.dots[0]), second = program.getSum(program.dots[1]);
  auto add = getUser<arith::AddFOp>(first);
  if (add && add == getUser<arith::AddFOp>(second))
    program.joint = add;
  return "";
}

/// Only loops around the dots; the innermost may carry their accumulators, and runs.
std::string Matcher::checkLoops() {
  std::string why;
  program.kernel.walk([&](Operation *op) {
    if (op->getNumRegions() != 0 && op != program.kernel && !isa<scf::ForOp>(op))
      why = "it branches";
  });
  Operation *parent = program.dots.front()->getParentOp();
  if (auto loop = dyn_cast<scf::ForOp>(parent); loop && loop.getNumResults() != 0) {
    auto first = getConstantIntValue(loop.getLowerBound()),
         end = getConstantIntValue(loop.getUpperBound());
    if (!first || !end || *first >= *end || !getConstantIntValue(loop.getStep()) ||
        loop.getNumResults() != program.dots.size())
      why = "its loop over the depth is in a form not known";
    for (tile::DotOp dot : program.dots) {
      auto carried = dyn_cast<BlockArgument>(program.getCarried(dot));
      Value yielded = program.getYielded(dot);
      bool isCarried = carried && carried.getOwner() == loop.getBody() &&
                       loop.getYieldedValues()[carried.getArgNumber() - 1] == yielded &&
                       yielded.hasOneUse();
      if (!isCarried)
        why = "its loop does not carry the products";
    }
    parent = loop->getParentOp();
  } else {
    for (tile::DotOp dot : program.dots)
      if (!matchPattern(dot.getAcc(), m_AnyZeroFloat()))
        why = "a product does not start from zeros";
  }
  for (; parent != program.kernel; parent = parent->getParentOp())
    if (parent->getNumResults() != 0)
      why = "a loop over tiles carries values";
  program.kernel.walk([&](scf::ForOp loop) {
    if (!program.hasSteps(loop))
      why = "it has a loop without products";
  });
  return why;
}

/// Whether addresses are what a tensor map can describe (canMapView: who computes them).
static bool isAligned(Value view) {
  auto cast = view.getDefiningOp<memref::ReinterpretCastOp>();
  int64_t elements = sm90::kTmaAlignment * 8 / cast.getType().getElementTypeBitWidth();
  if (getKnownDivisor(cast.getMixedOffsets().front()) < elements)
    return false;
  return llvm::all_of(ArrayRef(cast.getMixedStrides()).drop_back(),
                      [&](OpFoldResult stride) { return getKnownDivisor(stride) >= elements; });
}

static bool isInvariant(tile::KernelOp kernel, tile::LoadOp load) {
  auto argument = cast<BlockArgument>(findBuffer(load.getView()));
  return !!kernel.getArgAttr(argument.getArgNumber(), tile::kInvariantAttr);
}

/// Products, or what turns codes into one's operand.
static bool hasOnlyProducts(Operation::user_range users) {
  return llvm::all_of(users, [](Operation *user) {
    return isa<tile::DotOp>(user) || (isa<arith::ExtFOp>(user) && isOfCodes(user->getOperand(0)));
  });
}

/// A load of a step, used by products only (of a choice: by that).
static std::string checkLoad(tile::LoadOp load, Block *step, bool isOfChoice) {
  if (!load || load->getBlock() != step || load.getType().getRank() != 2)
    return "an operand is not a load of the same step";
  Type element = load.getType().getElementType();
  bool isCodes = isOfCodes(load.getResult());
  if (!element.isBF16() && !element.isF16() && !isCodes)
    return "an operand is not of bf16 or f16";
  if (isCodes && load.getType().getDimSize(1) != sm90::kCodePanelColumns)
    return "codes are not " + std::to_string(sm90::kCodePanelColumns) + " of the depth";
  int64_t rows = load.getType().getDimSize(0);
  if (!canMapView(load.getView()) || !isAligned(load.getView()) || rows > sm90::kMaxBoxRows ||
      rows % sm90::kSwizzleRows != 0)
    return "TMA cannot copy an operand";
  bool isOperand = isOfChoice ? load->hasOneUse() : hasOnlyProducts(load->getUsers());
  return isOperand ? "" : "an operand has other uses";
}

/// One of several loads, by conditions that all threads share.
std::string Matcher::checkChoice(Value operand, Block *step) {
  Choice choice = getChoice(operand);
  for (Value inner = operand; auto select = inner.getDefiningOp<arith::SelectOp>();
       inner = select.getFalseValue()) {
    bool isUsedAsOne = inner == operand ? hasOnlyProducts(select->getUsers()) : select->hasOneUse();
    if (isTile(select.getCondition()) || !isUsedAsOne)
      return "a choice of operands in a form not known";
  }
  for (tile::LoadOp of : choice.loads)
    if (std::string why = checkLoad(of, step, /*isOfChoice=*/true); !why.empty())
      return why;
  program.choices[choice.loads.front()] = choice;
  return "";
}

std::string Matcher::checkOperands() {
  for (tile::DotOp dot : program.dots)
    for (Value operand :
         std::initializer_list<Value>{getTurned(dot.getLhs()).codes, dot.getRhs()}) {
      tile::LoadOp load = getChoice(operand).loads.front();
      std::string why = operand.getDefiningOp<arith::SelectOp>()
                            ? checkChoice(operand, dot->getBlock())
                            : checkLoad(load, dot->getBlock(), /*isOfChoice=*/false);
      if (!why.empty())
        return why;
      if (!llvm::is_contained(operands, load))
        operands.push_back(load);
    }
  llvm::sort(operands, [](tile::LoadOp a, tile::LoadOp b) { return a->isBeforeInBlock(b); });
  for (tile::DotOp dot : program.dots) {
    if (isOfCodes(dot.getRhs()) && !isOfCodes(getTurned(dot.getLhs()).codes))
      return "codes are not the side with 64 rows";
    int64_t depth =
        cast<RankedTensorType>(dot.getLhs().getType()).getDimSize(dot.getTransposeLhs() ? 0 : 1);
    if (depth % sm90::kWgmmaDepth != 0)
      return "a step is not a multiple of 16 deep";
  }
  return "";
}

/// Scales of a product's rows or columns that lie together: what one bulk copy brings.
static bool isScaleVector(tile::LoadOp load, Block *step) {
  RankedTensorType type = load.getType();
  if (type.getRank() != 1)
    return false;
  auto view = cast<MemRefType>(load.getView().getType());
  int64_t elements = sm90::kTmaAlignment * 8 / type.getElementTypeBitWidth();
  auto cast = load.getView().getDefiningOp<memref::ReinterpretCastOp>();
  bool areAll = isOfColumns(load) ? type.getDimSize(0) % elements == 0
                                  : type.getDimSize(0) == sm90::kTileRows;
  return load->getBlock() == step && type.getElementType().isF32() && areAll && cast &&
         view.hasStaticShape() && view.getShape() == type.getShape() &&
         getConstantIntValue(cast.getMixedStrides().front()) == 1 &&
         matchPattern(load.getOffsets().front(), m_Zero()) &&
         getKnownDivisor(cast.getMixedOffsets().front()) >= elements;
}

/// Scales come with the operands of two products a consumer, which leave no registers for loads,
/// and of products of so many columns, which take 0.9 of their time with it; so do those of more
/// columns whose sums are joined, of which a thread would load a quarter. Fewer columns, or more
/// of other sums, take 1.01 to 1.12 of theirs: the consumer has the next product in flight while
/// it loads (one H200, docs/lab/products.md).
static constexpr int64_t kCopiedScaleColumns = 64;

/// Of products that are all scaled and added; else each consumer loads its own.
std::string Matcher::findScales() {
  int64_t columns = program.dots.front().getType().getDimSize(1);
  bool isWide = columns == kCopiedScaleColumns || (program.joint && columns > kCopiedScaleColumns);
  bool areAll = !program.turnsCodes() && program.promotions.size() == program.dots.size() &&
                (isWide || program.dots.size() > program.countConsumers());
  Block *step = program.dots.front()->getBlock();
  for (tile::LoadOp load : step->getOps<tile::LoadOp>())
    if (areAll && isScaleVector(load, step))
      program.scales.push_back(load);
  if (program.dots.size() > kMaxPlain && !program.takesTurns())
    return "its products are not of codes whose scales lie together";
  llvm::append_range(operands, program.scales);
  return "";
}

/// Whether `op` makes what a product reads.
bool Matcher::isOperand(Operation *op) const {
  return llvm::any_of(program.dots, [&](tile::DotOp dot) {
    return llvm::any_of(ArrayRef<Value>{getTurned(dot.getLhs()).codes, dot.getRhs()},
                        [&](Value operand) {
                          while (auto select = operand.getDefiningOp<arith::SelectOp>()) {
                            if (op == select || op == select.getTrueValue().getDefiningOp())
                              return true;
                            operand = select.getFalseValue();
                          }
                          return op == operand.getDefiningOp();
                        });
  });
}

std::string Matcher::checkOps() {
  std::string why;
  program.kernel.getBody().walk([&](Operation *op) {
    bool known = isScalar(op) || isa<scf::ForOp, scf::YieldOp, tile::ReturnOp, tile::DotOp,
                                     tile::LoadOp, tile::StoreOp, arith::ConstantOp>(op);
    bool isOfScales = program.hasCodes() &&
                      isa<memref::LoadOp, tile::SplatOp, tile::BroadcastOp, tile::LoadOp>(op);
    known |= isOfScales;
    known |= op->getNumRegions() == 0 && op->getNumResults() != 0 && !isa<memref::LoadOp>(op) &&
             isa<arith::ArithDialect, math::MathDialect>(op->getDialect());
    for (Value value : op->getResults()) {
      auto tile = dyn_cast<RankedTensorType>(value.getType());
      if (tile && !isOperand(op) && !isOfColumns(value)) // scales are vectors, too
        known &=
            (tile.getRank() == 2 || program.hasCodes()) && tile.getDimSize(0) == sm90::kTileRows;
    }
    if (!known)
      why = "'" + op->getName().getStringRef().str() + "' in a form not known";
  });
  return why;
}

/// From each dot forward to the stores, and from those back to what they need. What comes of no
/// product, as scales do, may be several consumers': each has its own.
std::string Matcher::findMembers() {
  program.members.resize(program.dots.size());
  SmallVector<DenseSet<Operation *>> made(program.dots.size());
  for (auto [index, dot] : llvm::enumerate(program.dots)) {
    DenseSet<Operation *> &members = program.members[index];
    if (program.joint && index != 0)
      continue; // leaves its sum to the first
    SmallVector<Value> from = {program.getSum(dot)};
    if (program.joint)
      from = {program.joint.getResult()};
    for (SmallVector<Value> forward = from; !forward.empty();)
      for (Operation *user : forward.pop_back_val().getUsers())
        if (!isa<scf::YieldOp>(user) && members.insert(user).second)
          llvm::append_range(forward, user->getResults());
    made[index] = members;
    SmallVector<Operation *> back(members.begin(), members.end());
    while (!back.empty())
      for (Value operand : back.pop_back_val()->getOperands()) {
        Operation *source = operand.getDefiningOp();
        if (source && isTile(operand) && source != dot && !llvm::is_contained(from, operand) &&
            members.insert(source).second)
          back.push_back(source);
      }
  }
  for (auto [index, ops] : llvm::enumerate(made))
    for (Operation *op : ops)
      for (auto [other, members] : llvm::enumerate(program.members))
        if (other != index && members.contains(op))
          return "two products meet behind the loop";
  return "";
}

std::string Matcher::findCluster() {
  program.cluster = chooseCluster(program);
  return "";
}

/// Weights that are there before the kernel starts get a producer of their own, if its registers
/// can be spared.
std::string Matcher::groupLoads() {
  SmallVector<tile::LoadOp> invariant, made;
  for (tile::LoadOp load : operands) {
    auto choice = program.choices.find(load);
    bool isAhead = choice == program.choices.end()
                       ? isInvariant(program.kernel, load)
                       : llvm::all_of(choice->second.loads, [&](tile::LoadOp of) {
                           return isInvariant(program.kernel, of);
                         });
    (isAhead ? invariant : made).push_back(load);
  }
  if (invariant.empty() || made.empty() || program.isTight()) {
    program.loads.push_back(operands);
    program.areInvariant.push_back(made.empty());
    return "";
  }
  program.loads = {invariant, made};
  program.areInvariant = {true, false};
  return "";
}

/// What the tile takes in shared memory. (SmemType says the same, but the planner has
/// no sm90 dialect.)
static int64_t getSharedBytes(tile::LoadOp load) {
  RankedTensorType tile = load.getType();
  if (tile.getRank() == 1)
    return tile.getNumElements() * tile.getElementTypeBitWidth() / 8;
  return tile.getDimSize(0) * llvm::divideCeil(tile.getDimSize(1), sm90::kPanelColumns) *
         sm90::kPanelColumns * tile.getElementTypeBitWidth() / 8;
}

static int64_t getSharedBytes(const Program &program, tile::StoreOp store) {
  auto tile = program.getShare(cast<RankedTensorType>(store.getValue().getType()));
  return tile.getNumElements() * tile.getElementTypeBitWidth() / 8;
}

/// Whole panels of rows to where a tensor map can describe.
std::string Matcher::findStaged() {
  int64_t stagedRows = tile::getMachine(program.kernel).tuning.stagedRows;
  program.kernel.walk([&](tile::StoreOp store) {
    Type element = cast<RankedTensorType>(store.getValue().getType()).getElementType();
    SmallVector<int64_t, 2> shape = program.getStoredShape(store);
    int64_t rows = shape[0], columns = shape[1];
    if ((element.isBF16() || element.isF16()) && rows >= stagedRows && rows <= sm90::kMaxBoxRows &&
        columns % sm90::kPanelColumns == 0 && canMapView(store.getView()) &&
        isAligned(store.getView()))
      program.staged.insert(store);
  });
  return "";
}

/// Whether its threads have the registers of a multiprocessor, so that no other program fits.
static bool hasAllRegisters(const Program &program) {
  return program.turnsCodes() && program.countRoles() == kCodesRoles;
}

std::string Matcher::chooseStages() {
  int64_t stage = 0, ahead = 0;
  for (auto [loads, isInvariant] : llvm::zip_equal(program.loads, program.areInvariant))
    for (tile::LoadOp load : loads) {
      stage += getSharedBytes(load);
      ahead += isInvariant ? getSharedBytes(load) : 0;
    }
  stage = llvm::alignTo(stage, sm90::kSwizzleAtomBytes);
  int64_t fixed = kReservedBytes;
  if (program.joint)
    fixed += cast<RankedTensorType>(program.joint.getType()).getNumElements() * 4; // f32
  for (Operation *store : program.staged)
    fixed += getSharedBytes(program, cast<tile::StoreOp>(store));
  fixed += program.getSumsBytes();
  int64_t most = (sm90::kMaxSharedBytes - fixed) / stage;
  int64_t ofHalf = std::max<int64_t>(sm90::kHalfSharedBytes - fixed, 0) / stage;
  // The other half is for the next kernel, where that begins early.
  bool shares = program.kernel->hasAttr(tile::kTriggersDependentsAttr) && !hasAllRegisters(program);
  const Tuning &tuning = tile::getMachine(program.kernel).tuning;
  bool isHalfEnough = shares && ofHalf * ahead >= tuning.productBytesInFlight;
  int64_t standard = std::min(isHalfEnough ? ofHalf : most, tuning.productStages);
  return program.chooseStages(givenStages, standard, most, stage);
}

static std::optional<Program> match(tile::KernelOp kernel, std::optional<int64_t> stages,
                                    std::string &why) {
  return runMatcher(Matcher(kernel, stages),
                    {&Matcher::findDots, &Matcher::findPromotions, &Matcher::checkLoops,
                     &Matcher::findJoint, &Matcher::checkOperands, &Matcher::findScales,
                     &Matcher::checkOps, &Matcher::findMembers, &Matcher::findCluster,
                     &Matcher::groupLoads, &Matcher::findStaged, &Matcher::chooseStages},
                    why);
}

std::optional<Program> product::matchProgram(tile::KernelOp kernel, std::string &why) {
  return match(kernel, getSchedule<tile::ProductScheduleAttr>(kernel).getStages(), why);
}

ProductPlan mlac::planProduct(tile::KernelOp kernel, std::optional<int64_t> given,
                              std::string &why) {
  bool hasProduct =
      kernel.walk([](tile::DotOp) { return WalkResult::interrupt(); }).wasInterrupted();
  std::optional<Program> program = hasProduct ? match(kernel, given, why) : std::nullopt;
  return program ? ProductPlan{program->stages, program->cluster} : ProductPlan();
}

//===----------------------------------------------------------------------===//
// Entry
//===----------------------------------------------------------------------===//

/// What a warpgroup's threads hold of a sum.
static Value createParkingRing(ImplicitLocOpBuilder &b, const Program &program) {
  constexpr int32_t warps = sm90::kWarpgroupWarps;
  int64_t elements = cast<RankedTensorType>(program.joint->getResult(0).getType()).getNumElements();
  auto tile = sm90::SmemType::get(b.getContext(), {warps, elements / warps}, b.getF32Type(),
                                  sm90::SmemLayout::Linear);
  auto type = sm90::RingType::get(b.getContext(), /*stages=*/1, /*parts=*/1, {tile});
  return sm90::RingOp::create(b, type, /*full_count=*/warps, /*empty_count=*/warps, IntegerAttr(),
                              IntegerAttr(), b.getStringAttr("sums"));
}

static Entry createEntry(ImplicitLocOpBuilder &b, LazyCloner &cloner, const Program &program) {
  Entry entry;
  auto emptyCount = static_cast<int32_t>(program.countConsumers() * sm90::kWarpgroupWarps);
  for (auto [loads, isInvariant] : llvm::zip_equal(program.loads, program.areInvariant)) {
    SmallVector<sm90::SmemType> tiles;
    SmallVector<Value> maps;
    for (tile::LoadOp load : loads) {
      if (load.getType().getRank() == 1) { // scales: no box
        tiles.push_back(sm90::SmemType::get(b.getContext(), {1, load.getType().getDimSize(0)},
                                            load.getType().getElementType(),
                                            sm90::SmemLayout::Linear));
        maps.push_back(Value());
        continue;
      }
      tiles.push_back(getSharedType(load.getResult()));
      int64_t rows = tiles.back().getRows(),
              columns = sm90::getPanelColumns(tiles.back().getElementType());
      maps.push_back(createTensorMap(b, cloner, load.getView(), rows, columns));
      if (auto choice = program.choices.find(load); choice != program.choices.end())
        for (tile::LoadOp other : ArrayRef(choice->second.loads).drop_front())
          entry.otherMaps[load].push_back(
              createTensorMap(b, cloner, other.getView(), rows, columns));
    }
    auto type = sm90::RingType::get(b.getContext(), program.stages, /*parts=*/1, tiles);
    StringRef label = isInvariant ? "invariant" : "operands";
    entry.rings.push_back(sm90::RingOp::create(b, type, /*full_count=*/1, emptyCount, IntegerAttr(),
                                               IntegerAttr(), b.getStringAttr(label)));
    entry.maps.push_back(maps);
  }
  if (program.joint)
    entry.parkingRing = createParkingRing(b, program);
  if (program.cluster > 1)
    addCluster(b, program, entry);
  tile::KernelOp kernel = program.kernel;
  kernel.walk([&](tile::StoreOp store) {
    if (!program.staged.contains(store))
      return;
    sm90::SmemType type = getStagingType(program, store);
    entry.staging[store] = {sm90::AllocOp::create(b, type, /*offset=*/IntegerAttr()),
                            createTensorMap(b, cloner, store.getView(), type.getRows())};
  });
  return entry;
}

/// Producers first, then consumers.
static void emitRoles(ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
                      const LazyCloner &cloner) {
  // Without budgets every role has what the launch gives.
  bool isTight = program.isTight();
  bool hasAll = hasAllRegisters(program);
  auto budget = [&](int32_t registers) {
    return isTight || hasAll ? b.getI32IntegerAttr(registers) : IntegerAttr();
  };
  int32_t consumers = hasAll ? kCodesConsumerRegisters : kConsumerRegisters;
  int32_t warpgroup = 0;
  for (auto [index, isInvariant] : llvm::enumerate(program.areInvariant))
    emitRole(b, isInvariant ? "load_invariant" : "load", warpgroup++, budget(kProducerRegisters),
             [&, index = index] { emitProducer(b, program, entry, index, cloner); });
  for (unsigned index = 0; index < program.countConsumers(); ++index)
    emitRole(b, "math" + std::to_string(index), warpgroup++, budget(consumers),
             [&] { emitConsumer(b, program, entry, index, cloner); });
}

sm90::KernelOp mlac::buildProductSchedule(tile::KernelOp kernel, std::string &why) {
  std::optional<Program> program = matchProgram(kernel, why);
  if (!program)
    return {};
  ImplicitLocOpBuilder b(kernel.getLoc(), kernel.getOperation());
  auto result = createRoleKernel(b, kernel, program->countRoles());
  // Two sums of a consumer and a step's product leave it less than the tile's index arithmetic
  // takes ahead of the loop over the depth and behind it. What a cluster's CTAs send each other,
  // beside a bias or scales of channels, spills up to 224 bytes behind it (ptxas 13.0).
  constexpr int64_t kSpillBytes = 128, kClusterSpillBytes = 256;
  if (program->cluster > 1)
    result->setAttr(sm90::kSpillBytesAttr, b.getI64IntegerAttr(kClusterSpillBytes));
  else if (program->dots.size() > program->countConsumers())
    result->setAttr(sm90::kSpillBytesAttr, b.getI64IntegerAttr(kSpillBytes));
  LazyCloner cloner(b, convertProductType);
  cloner.map(kernel.getBody().getArguments(), result.getBody().getArguments());
  emitLaunchDependents(b, kernel);
  if (program->cluster > 1)
    mapPrograms(b, *program, cloner, result);
  cloneScalars(cloner, kernel.getBody().front(), isScalar);
  Entry entry = createEntry(b, cloner, *program);
  emitRoles(b, *program, entry, cloner);
  sm90::ReturnOp::create(b);
  return result;
}
