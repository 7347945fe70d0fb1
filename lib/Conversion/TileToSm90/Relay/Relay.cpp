//===- Relay.cpp - scores, left and right products on three warpgroups ---*- C++ -*-===//
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

#include "Relay/Relay.h"

#include "Common/ScheduleBuilder.h"
#include "Common/SoftmaxRole.h"
#include "Relay/RelayKernel.h"
#include "Relay/RelayModel.h"

#include "mla/Dialect/KernelAttrs.h"
#include "mla/Dialect/Sm90/Utils/Layout.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::relay;

/// Warpgroups: scores, left and right output.
static constexpr int32_t kScores = 0, kLeft = 1, kRight = 2;

//===----------------------------------------------------------------------===//
// What the schedule takes
//===----------------------------------------------------------------------===//

/// What the widths must be for two output roles and panels of 64 columns.
static bool haveSuitableWidths(tile::AttendOp attend, std::string &why) {
  if (attend.getOutputWidth() % sm90::kPanelColumns != 0) {
    why =
        "an output of " + std::to_string(attend.getOutputWidth()) + " columns, not of whole panels";
    return false;
  }
  if (why = findHalvesFault(attend.getOutputWidth()); !why.empty())
    return false;
  if (attend.getQueries().size() > 2) {
    why = "the scores have more than one part besides the values";
    return false;
  }
  if (attend.getRows() == sm90::kTileRows && attend.getBlock() == sm90::kTileRows)
    return true;
  why = "tiles are not of 64 rows and 64 keys";
  return false;
}

/// Codes of the latent, or of the latent and RoPE, come in panels whose columns have one scale.
static bool canTransform(tile::AttendOp attend, std::string &why) {
  bool ofLatent = hasCodes(attend, 0), ofRope = attend.getKeys().size() > 1 && hasCodes(attend, 1);
  if (!ofLatent && !ofRope)
    return true;
  if (!ofLatent || attend.getOutputWidth() % (2 * sm90::kCodePanelColumns) != 0) {
    why = "codes of " + std::to_string(attend.getOutputWidth()) +
          " columns do not split into two halves of whole panels of " +
          std::to_string(sm90::kCodePanelColumns);
    return false;
  }
  auto scales = cast<MemRefType>(attend.getScales().getType());
  if (!scales.getElementType().isF32()) {
    why = "scales are not of f32";
    return false;
  }
  int64_t group = scales.getRank() == 1 ? 0 : attend.getWidth(0) / scales.getShape().back();
  if (group != 0 && group != sm90::kCodePanelColumns) {
    why = "a scale is of " + std::to_string(group) + " columns, a panel of codes has " +
          std::to_string(sm90::kCodePanelColumns);
    return false;
  }
  return true;
}

/// Its output roles read the slots that the scores read, and only the last two blocks have masks.
static bool hasSharedSlots(tile::AttendOp attend, std::string &why) {
  if (attend.getValues())
    why = "its values have rows of their own, not the keys' slots";
  else if (attend.getBehind())
    why = "its first keys have masks";
  else if (!tile::findStart(attend).empty())
    why = "its rows start from sinks";
  else if (!attend.getSoftcap().isZero())
    why = "its scores are capped";
  return why.empty();
}

bool mlac::canRelay(tile::AttendOp attend, std::string &why) {
  if (!isInItems(attend, why) || !hasSharedSlots(attend, why) || !haveSuitableWidths(attend, why) ||
      !canCloneInRoles(attend->getParentOfType<tile::KernelOp>(), why))
    return false;
  if (!canTransform(attend, why))
    return false;
  bool areMapped = llvm::all_of(attend.getQueries(), [](Value query) {
    return QueryRows::canFill(query.getDefiningOp<tile::LoadOp>());
  });
  if (!areMapped)
    why = "TMA cannot copy its queries";
  return areMapped;
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

static bool isCode(AttentionLoop::Term &term) {
  return isa<Float8E4M3FNType>(term.getKeyType().getElementType());
}

Shape::Shape(AttentionLoop &loop)
    : leftPanels(loop.getOutputWidth() / sm90::kPanelColumns / 2), rightPanels(leftPanels),
      ropePanels(loop.terms.size() > 1 ? llvm::divideCeil(loop.terms[1].getKeyType().getDimSize(1),
                                                          sm90::kPanelColumns)
                                       : 0),
      usesTma(llvm::all_of(
          loop.terms,
          [](AttentionLoop::Term &term) { return PagedTiles::getBoxRows(term.keys) != 0; })),
      isListed(static_cast<bool>(loop.entries)), hasCodes(isCode(loop.terms[0])),
      hasRopeCodes(hasRope() && isCode(loop.terms[1])), element(loop.getElementType()),
      operand(hasCodes ? Float16Type::get(element.getContext()) : element) {}

/// As many slots of the left ring, which live longer, as fit beside the other rings.
static int64_t chooseLeftStages(const Shape &shape, int64_t rightStages, int64_t ropeStages) {
  RelayShape panels(shape.leftPanels, shape.rightPanels, shape.ropePanels, shape.hasCodes,
                    shape.hasRopeCodes);
  RelayOrder order;
  order.leftStages = shape.hasCodes ? 2 : 3; // beside a block of codes as it came
  order.rightStages = rightStages;
  order.ropeStages = ropeStages;
  while (order.leftStages > 1 && countRelayBytes(panels, order) > sm90::kMaxSharedBytes)
    --order.leftStages;
  return order.leftStages;
}

RelayOptions relay::chooseOptions(AttentionLoop &loop, const Shape &shape) {
  auto given = getSchedule<tile::RelayScheduleAttr>(loop.kernel);
  RelayOptions options;
  RelayOrder least = RelayOrder::getLeast(shape.hasRope(), shape.hasCodes, shape.hasRopeCodes);
  options.rightStages = given.getRightStages().value_or(least.rightStages);
  options.ropeStages = given.getRopeStages().value_or(least.ropeStages);
  options.leftStages = given.getLeftStages().value_or(
      chooseLeftStages(shape, options.rightStages, options.ropeStages));
  // Measured (docs/lab/decode.md): opening the gate two panels early is best. With codes it opens
  // behind the last: the tensor cores have the left product under the softmax then.
  options.gateEarlyPanels = given.getEarly().value_or(shape.hasCodes ? 0 : shape.rightPanels / 2);
  // The rows that all threads copy arrive together: each arrival is a thread's. So do operands that
  // were codes: who multiplies them waits for the weights behind them.
  options.rightPanelsPerPart = !shape.usesTma || shape.hasCodes ? shape.rightPanels
                               : shape.rightPanels % 2 == 0     ? 2
                                                                : 1;
  RelayRegisters registers = getRelayRegisters(shape.hasCodes);
  options.scoreRegisters = given.getScoreRegisters().value_or(registers.scores);
  options.outputRegisters = given.getOutputRegisters().value_or(registers.values);
  // Two were 1 % faster before the output went through shared memory; one is now
  // (docs/lab/decode.md), in half of the code and without spills.
  options.stepsPerTurn = given.getStepsPerTurn().value_or(1);
  // Masks need the block's number, which only turns of one step count.
  if (shape.isListed)
    options.stepsPerTurn = 1;
  return options;
}

//===----------------------------------------------------------------------===//
// Small things
//===----------------------------------------------------------------------===//

relay::Kernel::Kernel(AttentionLoop &loop)
    : RoleKernel(loop.kernel, [](Operation *, Type type) { return convertRoleType(type); }),
      loop(loop), shape(loop), options(chooseOptions(loop, shape)) {}

sm90::SmemType relay::Kernel::sharedType(int64_t rows, int64_t columns) {
  return getSharedType({rows, columns}, shape.operand);
}
sm90::SmemType relay::Kernel::rowsType() {
  return sm90::SmemType::get(b.getContext(), {1, sm90::kTileRows}, b.getF32Type(),
                             sm90::SmemLayout::Linear);
}

/// Panels [first, first + count) of a shared tile.
Value relay::Kernel::panels(Value tile, int64_t first, int64_t count) {
  auto type = cast<sm90::SmemType>(tile.getType());
  int64_t columns = count * sm90::kPanelColumns;
  if (first == 0 && columns >= type.getColumns())
    return tile;
  return sm90::SliceOp::create(b, getSharedType({type.getRows(), columns}, type.getElementType()),
                               tile, first * sm90::kPanelColumns);
}

Type relay::Kernel::convertOutputType(Type type) {
  auto tile = dyn_cast<RankedTensorType>(type);
  if (!tile || tile.getRank() == 1 || tile.getDimSize(1) != loop.getOutputWidth())
    return convertRoleType(type);
  return getFragmentType(tile.getDimSize(1) / 2, tile.getElementType());
}

Value relay::Kernel::countBlocks(LazyCloner &cloner) {
  Value from = cloner.get(loop.keys.getLowerBound()), to = cloner.get(loop.keys.getUpperBound());
  Value count = to32(arith::SubIOp::create(b, to, from));
  if (int64_t step = loop.getStep(); step != 1)
    count = arith::DivSIOp::create(b, arith::AddIOp::create(b, count, constant32(step - 1)),
                                   constant32(step));
  return arith::MaxSIOp::create(b, count, constant32(1));
}

Value relay::Kernel::positionOf(LazyCloner &cloner, Value block) {
  if (int64_t step = loop.getStep(); step != 1)
    block = arith::MulIOp::create(b, block, constant32(step));
  return arith::AddIOp::create(b, cloner.get(loop.keys.getLowerBound()), toIndex(block));
}

Value relay::Kernel::viewList(LazyCloner &cloner) {
  auto repeated = loop.entries.getView().getDefiningOp<memref::ReinterpretCastOp>();
  auto convert = [&](OpFoldResult extent) {
    auto value = dyn_cast<Value>(extent);
    return value ? OpFoldResult(cloner.get(value)) : extent;
  };
  return memref::ReinterpretCastOp::create(
      b, cloner.get(repeated.getSource()), convert(repeated.getMixedOffsets()[0]),
      ArrayRef<OpFoldResult>(convert(repeated.getMixedSizes()[1])),
      ArrayRef<OpFoldResult>(b.getIndexAttr(1)));
}

Value relay::Kernel::findGap(LazyCloner &cloner, Value position) {
  if (!shape.isListed)
    return {};
  LazyCloner::Scope scope(cloner);
  cloner.map(loop.keys.getInductionVar(), position);
  return sm90::HasGapOp::create(b, viewList(cloner), cloner.get(loop.entries.getOffsets()[1]),
                                b.getI64IntegerAttr(loop.getBlockKeys()),
                                cloner.get(loop.listedRows));
}

void relay::Kernel::maskWhere(LazyCloner &cloner, Value gap) {
  Value masked = loop.mask.getResult(), plain = cloner.get(loop.mask.getTrueValue());
  auto branch = scf::IfOp::create(b, plain.getType(), gap, /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    LazyCloner::Scope scope(cloner);
    b.setInsertionPointToStart(branch.thenBlock());
    if (shape.hasCodes)
      mapEntries(cloner);
    scf::YieldOp::create(b, cloner.get(masked));
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, plain);
  }
  cloner.map(masked, branch.getResult(0));
}

scf::ForOp
relay::Kernel::createLoop(Value from, Value to, ValueRange carried, bool atLeastOnce,
                          llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  bool isIndex = from.getType().isIndex();
  Value one = isIndex ? constantIndex(1) : constant32(1);
  auto result = scf::ForOp::create(b, from, to, one, carried);
  if (atLeastOnce)
    result->setAttr(sm90::kAtLeastOnceAttr, b.getUnitAttr());
  OpBuilder::InsertionGuard guard(b);
  if (carried.empty())
    b.setInsertionPoint(result.getBody()->getTerminator());
  else
    b.setInsertionPointToStart(result.getBody());
  SmallVector<Value> yielded = body(result.getInductionVar(), result.getRegionIterArgs());
  if (!carried.empty())
    scf::YieldOp::create(b, yielded);
  return result;
}

//===----------------------------------------------------------------------===//
// Entry
//===----------------------------------------------------------------------===//

/// Columns of a box that is to have `wanted`. Of several panels it sees whole ones only, while of a
/// part of one, behind which `query`'s rows go on with the next head's, its columns are zeros.
static int64_t countBoxColumns(tile::LoadOp query, int64_t wanted) {
  int64_t columns = query.getView().getType().getShape().back();
  return columns % sm90::kPanelColumns == 0 ? wanted : sm90::kPanelColumns;
}

void relay::Kernel::createMaps() {
  int64_t left = countBoxColumns(loop.terms[0].query, shape.getLeftColumns());
  if (shape.usesTma) {
    auto keys = cast<tile::LoadPagedOp>(loop.terms[0].keys);
    leftKeys = PagedTiles(b, entry, keys, shape.hasCodes ? sm90::kCodePanelColumns : left);
    if (!shape.hasCodes)
      rightKeys = PagedTiles(
          b, entry, keys,
          countBoxColumns(loop.terms[0].query, options.rightPanelsPerPart * sm90::kPanelColumns));
  }
  queryMaps.emplace_back(b, entry, loop.terms[0].query, sm90::kTileRows, left);
  if (!shape.hasRope())
    return;
  int64_t columns = countBoxColumns(loop.terms[1].query, shape.getRopeColumns());
  if (shape.usesTma)
    rope = PagedTiles(b, entry, cast<tile::LoadPagedOp>(loop.terms[1].keys),
                      shape.hasRopeCodes ? 0 : columns);
  queryMaps.emplace_back(b, entry, loop.terms[1].query, sm90::kTileRows, columns);
}

Value relay::Kernel::createRing(StringRef label, int64_t stages, int64_t parts,
                                ArrayRef<sm90::SmemType> tiles, int32_t fullCount,
                                int32_t emptyCount) {
  auto type = sm90::RingType::get(b.getContext(), stages, parts, tiles);
  return sm90::RingOp::create(b, type, fullCount, emptyCount, IntegerAttr(), IntegerAttr(),
                              b.getStringAttr(label));
}

/// Arrivals: a filling thread one (by TMA it is one thread), a role one per warp.
void relay::Kernel::createRings() {
  constexpr int32_t thread = 1, role = sm90::kWarpgroupWarps;
  int32_t copy = shape.usesTma ? thread : sm90::kWarpgroupThreads;
  int32_t fill = shape.hasCodes ? role : copy;
  int64_t rows = sm90::kTileRows;
  sm90::SmemType leftTile = sharedType(rows, shape.getLeftColumns());
  sm90::SmemType rightTile = sharedType(rows, shape.getRightColumns());
  sm90::SmemType panel = sharedType(rows, sm90::kPanelColumns);
  SmallVector<sm90::SmemType, 2> weightTiles{panel};
  if (!shape.hasCodes)
    weightTiles.push_back(rowsType());
  weights = createRing("weights", 1, 1, weightTiles, role, 2 * role);
  int64_t queryColumns = keepsQueries() ? shape.getRightColumns() : loop.getOutputWidth();
  sm90::SmemType ropeTile = getSharedType({rows, shape.getRopeColumns()}, shape.element);
  SmallVector<sm90::SmemType> queryTiles = {getSharedType({rows, queryColumns}, shape.element)};
  if (shape.hasRope())
    queryTiles.push_back(ropeTile);
  queries = createRing("queries", 1, 1, queryTiles, thread, role);
  left = createRing("left", options.leftStages, 1, {leftTile}, fill, role);
  right = createRing("right", options.rightStages, shape.rightPanels / options.rightPanelsPerPart,
                     {rightTile}, fill, role);
  if (shape.hasRope() && !shape.hasRopeCodes)
    ropes = createRing("rope", options.ropeStages, 1, {ropeTile}, copy, role);
  if (shape.hasCodes) {
    createCodeRings(copy, role);
    auto type = sm90::SmemType::get(b.getContext(), {sm90::kWarpgroupWarps, rows}, b.getF32Type(),
                                    sm90::SmemLayout::Linear);
    scratch = sm90::AllocOp::create(b, type, /*offset=*/IntegerAttr());
    factors = sm90::AllocOp::create(b, rowsType(), /*offset=*/IntegerAttr());
  }
  if (!crossingRows.empty())
    scale = createRing("scale", 1, 1, SmallVector<sm90::SmemType>(crossingRows.size(), rowsType()),
                       role, 2 * role);
  if (options.gateEarlyPanels >= 0)
    gate = createRing("gate", 1, 1, {}, role, 0);
}

/// Row vectors that stores of whole tiles behind the key loop depend on: the
/// scores role has the state, the output roles get what they broadcast.
void relay::Kernel::findCrossingRows() {
  llvm::SetVector<Value> rows;
  SmallVector<Value> pending;
  loop.items.walk([&](tile::StoreOp store) {
    if (store.getValue().getType().getRank() == 2)
      pending.push_back(store.getValue());
  });
  while (!pending.empty()) {
    Operation *op = pending.pop_back_val().getDefiningOp();
    if (!op || op == loop.keys)
      continue;
    if (auto broadcast = dyn_cast<tile::BroadcastOp>(op))
      rows.insert(broadcast.getSource());
    else
      llvm::append_range(pending, op->getOperands());
  }
  crossingRows.assign(rows.begin(), rows.end());
}

/// Work lists and block tables come from the host: only what roles read of other
/// kernels' results, and all they write, stands behind this.
void relay::Kernel::waitForDependency() {
  if (loop.kernel->hasAttr(tile::kWaitsForDependencyAttr))
    sm90::WaitDependencyOp::create(b);
}

void relay::Kernel::emitRole(StringRef name, int32_t warpgroup, int64_t registers,
                             llvm::function_ref<void()> body) {
  auto budget = b.getI32IntegerAttr(static_cast<int32_t>(registers));
  mlac::emitRole(b, name, warpgroup, budget, [&] {
    Value hasItems = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, begin, end);
    auto branch = scf::IfOp::create(b, hasItems, /*withElseRegion=*/true);
    // Without items too: what follows this kernel may depend on what it waits for.
    b.setInsertionPointToStart(branch.elseBlock());
    waitForDependency();
    b.setInsertionPointToStart(branch.thenBlock());
    body();
  });
}

sm90::KernelOp relay::Kernel::build() {
  tile::KernelOp source = loop.kernel;
  kernel = createRoleKernel(b, source, kRelayRoles);
  // Nothing is spilled where TMA brings the rows of whole blocks (pages of 64). Rows that threads
  // copy, and boxes of small pages, have addresses beside the output's 128 registers (ptxas 13.0):
  // 104 to 120 bytes of codes by a list, 28 with lists of bf16 and 48 heads, 40 with 448 columns of
  // f16 in pages of 100; in pages of 16 RoPE keys of two panels 32 bytes, latents of 320 and 384
  // columns 36 and 32, of 8 up to 56. Codes with one scale of heads that divide no tile (36 to 100)
  // spill 260 bytes in pages of 16 and 320 in pages of 8. The rest is room for shapes that were not
  // compiled.
  const bool areBlocksWhole = llvm::all_of(loop.terms, [](AttentionLoop::Term &term) {
    return PagedTiles::getBoxRows(term.keys) == sm90::kTileRows;
  });
  const int64_t spillBytes = shape.hasRopeCodes && shape.usesTma && !areBlocksWhole ? 384 : 256;
  if (shape.hasCodes || !areBlocksWhole || shape.ropePanels > 1)
    kernel->setAttr(sm90::kSpillBytesAttr, b.getI64IntegerAttr(spillBytes));
  entry.map(source.getBody().getArguments(), kernel.getBody().getArguments());
  emitLaunchDependents(b, source);
  findCrossingRows();
  createMaps();
  createRings();
  loop.kernel.walk([&](tile::ProgramIdOp id) { entry.get(id.getResult()); });
  begin = entry.get(loop.items.getLowerBound());
  end = entry.get(loop.items.getUpperBound());
  emitRole("scores", kScores, options.scoreRegisters,
           [&] { shape.hasCodes ? emitKeyScores() : emitScores(); });
  emitRole("left", kLeft, options.outputRegisters, [&] { emitOutput(/*isLeft=*/true); });
  emitRole("right", kRight, options.outputRegisters, [&] { emitOutput(/*isLeft=*/false); });
  sm90::ReturnOp::create(b);
  return kernel;
}

sm90::KernelOp mlac::buildRelaySchedule(tile::AttendOp attend) {
  AttentionLoop loop = expandPaged(attend);
  return relay::Kernel(loop).build();
}

//===----------------------------------------------------------------------===//
// Epilogue
//===----------------------------------------------------------------------===//

/// The key loop may stand under conditions (a tile of rows that a request does
/// not have): they hold for the stores behind it.
void relay::Kernel::emitEpilogue(LazyCloner &cloner, unsigned rank, int64_t firstColumn,
                                 Value scratch) {
  mlac::emitEpilogue(b, cloner, loop, loop.items, rank, [&](tile::StoreOp store) {
    emitStore(b, cloner, store, firstColumn, scratch, /*inRuns=*/shape.hasCodes);
  });
}
