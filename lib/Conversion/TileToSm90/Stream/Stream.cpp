//===- Stream.cpp - keys on M, streamed through one consumer ---*- C++ -*-===//
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

#include "Stream/Stream.h"

#include "Common/Divisibility.h"
#include "Stream/StreamKernel.h"
#include "Stream/StreamModel.h"

#include "mla/Dialect/Tile/IR/MachineAttr.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::stream;

/// Warpgroups: the producer's, of which one thread works, and the first consumer.
static constexpr int32_t kProducer = 0, kConsumer = 1;

namespace {
/// Registers of a thread: consumers get what the producer leaves of the register file. It spills
/// nothing (ptxas 13.0) but with 24 and small pages (kTightSpillBytes).
struct CodeRegisters {
  CodeRegisters(bool usesTma, bool isTight, int64_t consumers)
      : producer(!usesTma  ? 56
                 : isTight ? 24
                           : 40),
        consumer(std::min<int64_t>(
            (sm90::kRegisterFile / sm90::kWarpgroupThreads - producer) / consumers / 8 * 8, 240)) {}
  int64_t producer, consumer;
};
} // namespace

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

Type stream::convertType(Type type) {
  auto tile = dyn_cast<RankedTensorType>(type);
  if (!tile)
    return type;
  Attribute encoding = tile.getRank() == 1
                           ? Attribute(sm90::ColumnsAttr::get(type.getContext()))
                           : sm90::FragmentAttr::get(type.getContext(), /*column_split=*/1);
  return RankedTensorType::get(tile.getShape(), tile.getElementType(), encoding);
}

/// Scratch of a reduction over keys, and a computed operand [N, 64], K-major.
sm90::SmemType stream::getScratchType(const Program &program) {
  MLIRContext *context = program.queries.front()->getContext();
  return sm90::SmemType::get(context, {sm90::kWarpgroupWarps, program.rows},
                             Float32Type::get(context), sm90::SmemLayout::Linear);
}
sm90::SmemType stream::getOperandType(const Program &program) {
  tile::LoadOp query = program.queries.front();
  Type element = query.getType().getElementType();
  return getSharedType({program.rows, sm90::kTileRows}, program.hasCodes() || program.areHeadsCodes
                                                            ? Float16Type::get(element.getContext())
                                                            : element);
}

static RankedTensorType getTileType(Value value) {
  return dyn_cast<RankedTensorType>(value.getType());
}

bool Program::isKeys(Value tile) const {
  if (auto slice = tile.getDefiningOp<tensor::ExtractSliceOp>())
    tile = slice.getSource();
  return llvm::is_contained(operands, tile);
}

int64_t Program::countWeights() const {
  return hasCodes() && !getOneScale(*this, 0) ? getWidth(0) / sm90::kCodePanelColumns : 1;
}

/// A sides loop goes from 0 to a constant.
int64_t Program::countSides() const {
  return sides ? *getConstantIntValue(scf::ForOp(sides).getUpperBound()) : 1;
}

int64_t Program::getLoadWidth(unsigned load) const {
  return getTileType(keys[load]->getResult(0)).getDimSize(1);
}

unsigned Program::findPart(Value operand, int64_t column) const {
  auto isThere = [&](const Part &part) {
    return operands[part.tile] == operand && part.column <= column &&
           column < part.column + part.columns;
  };
  return llvm::find_if(parts, isThere) - parts.begin();
}

bool Program::hasLoads(Operation *op) const {
  return op->isAncestor(keys.front()) || op->isAncestor(queries.front());
}

//===----------------------------------------------------------------------===//
// Recognition
//===----------------------------------------------------------------------===//

namespace {
class Matcher {
public:
  explicit Matcher(tile::KernelOp kernel) : program(kernel) {}
  std::string findLoads();
  std::string checkOps();
  std::string checkLoads();
  std::string chooseParts();
  std::string chooseStages();
  Program program;

private:
  std::string checkOp(Operation *op);
  std::string checkDot(tile::DotOp dot);
};
} // namespace

/// Scores: keys · queriesᵀ, whole tiles. Output: 64 columns of values, transposed,
/// times something computed.
std::string Matcher::checkDot(tile::DotOp dot) {
  if (!program.isKeys(dot.getLhs()))
    return "a product whose left operand is not a tile of keys";
  bool ofQuery = isa_and_present<tile::LoadOp>(dot.getRhs().getDefiningOp());
  if (dot.getTransposeRhs()) {
    bool isWhole = llvm::is_contained(program.operands, dot.getLhs());
    return isWhole && ofQuery && !dot.getTransposeLhs() ? "" : "scores in a form not known";
  }
  RankedTensorType values = getTileType(dot.getLhs());
  auto slice = dot.getLhs().getDefiningOp<tensor::ExtractSliceOp>();
  bool isPanel = values.getDimSize(1) == sm90::kPanelColumns &&
                 (!slice || slice.getStaticOffset(1) % sm90::kPanelColumns == 0);
  return dot.getTransposeLhs() && !ofQuery && isPanel ? "" : "an output in a form not known";
}

/// All tiles in registers are [64, N] or [N].
std::string Matcher::checkOp(Operation *op) {
  if (program.transforms.contains(op))
    return "";
  bool isLoad = isa<tile::LoadOp, tile::LoadPagedOp, tile::LoadRowsOp, tensor::ExtractSliceOp>(op);
  for (Value result : op->getResults()) {
    RankedTensorType tile = getTileType(result);
    if (!tile || isLoad)
      continue;
    bool isColumns = tile.getRank() == 1;
    if (!isColumns && tile.getDimSize(0) != sm90::kTileRows)
      return "a tile that has not 64 rows";
    if (int64_t rows = tile.getDimSize(isColumns ? 0 : 1);
        rows != std::exchange(program.rows, rows) && rows != program.rows)
      return "tiles of different numbers of columns";
  }
  bool known =
      llvm::TypeSwitch<Operation *, bool>(op)
          .Case([](tile::ReduceOp reduce) { return reduce.getDim() == 0; })
          .Case([](tile::BroadcastOp cast) { return cast.getDim() == 0; })
          .Case([](tile::StoreOp store) {
            return store.getTransposed() || getTileType(store.getValue()).getRank() == 1;
          })
          .Case<tile::LoadOp, tile::LoadPagedOp, tile::LoadRowsOp, tile::DotOp, tile::IotaOp,
                tile::SplatOp, tile::ProgramIdOp, tile::ReturnOp, tensor::ExtractSliceOp,
                scf::ForOp, scf::IfOp, scf::YieldOp>([](Operation *) { return true; })
          .Default([](Operation *op) {
            return op->getNumRegions() == 0 && op->getNumResults() != 0 &&
                   isa<arith::ArithDialect, math::MathDialect, memref::MemRefDialect>(
                       op->getDialect());
          });
  if (!known)
    return "'" + op->getName().getStringRef().str() + "' in a form not known";
  auto dot = dyn_cast<tile::DotOp>(op);
  return dot ? checkDot(dot) : "";
}

std::string Matcher::checkOps() {
  std::string why;
  program.kernel.getBody().walk([&](Operation *op) {
    why = checkOp(op);
    return why.empty() ? WalkResult::advance() : WalkResult::interrupt();
  });
  return why;
}

/// The last op of `block` that holds a use of `tile` or of a slice of it.
static Operation *findLastUse(Value tile, Block *block) {
  Operation *last = nullptr;
  for (Operation *user : tile.getUsers()) {
    Operation *use = block->findAncestorOpInBlock(*user);
    if (auto slice = dyn_cast<tensor::ExtractSliceOp>(user))
      use = findLastUse(slice.getResult(), block);
    if (use && (!last || last->isBeforeInBlock(use)))
      last = use;
  }
  return last;
}

static Operation *findLastUse(ArrayRef<Value> tiles) {
  Operation *last = nullptr;
  for (Value tile : tiles)
    if (Operation *use = findLastUse(tile, tile.getParentBlock());
        use && (!last || last->isBeforeInBlock(use)))
      last = use;
  return last;
}

/// Not a list's entries, or a row vector.
static bool isQuery(tile::LoadOp load) {
  return load.getType().getRank() == 2 && isa<FloatType>(load.getType().getElementType());
}

/// Not the scales of codes.
static bool isKeyLoad(Operation *op) {
  return isa<tile::LoadPagedOp, tile::LoadRowsOp>(op) &&
         !getTileType(op->getResult(0)).getElementType().isF32();
}

std::string Matcher::findLoads() {
  program.kernel.walk([&](tile::LoadOp load) {
    if (isQuery(load))
      program.queries.push_back(load);
  });
  program.kernel.walk([&](Operation *op) {
    if (isKeyLoad(op))
      program.keys.push_back(op);
  });
  auto areTogether = [](auto &loads) {
    return llvm::all_of(loads,
                        [&](auto load) { return load->getBlock() == loads.front()->getBlock(); });
  };
  if (program.keys.empty() || program.queries.empty() || !areTogether(program.keys) ||
      !areTogether(program.queries))
    return "its loads of queries, or of keys, are not in one place";
  auto loop = dyn_cast<scf::ForOp>(program.keys.front()->getParentOp());
  if (!loop || program.queries.front()->getBlock() != loop->getBlock())
    return "its keys are not loaded in a loop behind the queries";
  if (auto around = loop->getParentOfType<scf::ForOp>();
      around && around->hasAttr(tile::kSideBySideAttr)) {
    if (!matchPattern(around.getLowerBound(), m_Zero()) || around.getNumResults() != 0 ||
        !getConstantIntValue(around.getUpperBound()) || !matchPattern(around.getStep(), m_One()))
      return "tiles side by side whose number is not known";
    program.sides = around;
  }
  if (std::string why = findOperands(program); !why.empty())
    return why;
  if ((program.areHeadsCodes || program.hasCodes()) && !findLoopState(loop))
    return "codes in a loop that carries something else than a softmax";
  program.keysEnd = findLastUse(program.operands);
  program.queriesEnd = findLastUse(
      llvm::map_to_vector(program.queries, [](tile::LoadOp load) { return Value(load); }));
  if (!isa_and_present<tile::DotOp>(program.keysEnd) || program.queriesEnd != loop)
    return "its products are not in the loop over keys";
  return "";
}

std::string Matcher::checkLoads() {
  for (tile::LoadOp query : program.queries) {
    RankedTensorType type = query.getType();
    if (type.getRank() != 2 || type.getDimSize(0) != program.rows || !QueryRows::canCopy(query))
      return "TMA cannot copy its queries";
  }
  for (Operation *keys : program.keys) {
    if (getTileType(keys->getResult(0)).getDimSize(0) != sm90::kTileRows)
      return "its blocks of keys are not of 64";
    // A box must not cross pages.
    auto paged = dyn_cast<tile::LoadPagedOp>(keys);
    bool isAligned =
        paged && getKnownDivisor(OpFoldResult(paged.getToken())) % sm90::kTileRows == 0;
    program.usesTma &= isAligned && PagedTiles::getBoxRows(keys) != 0;
  }
  return "";
}

std::string Matcher::chooseParts() {
  int64_t width = getSchedule<tile::StreamScheduleAttr>(program.kernel)
                      .getPartColumns()
                      .value_or(tile::getMachine(program.kernel).tuning.streamPartColumns);
  for (auto [index, load] : llvm::enumerate(program.keys)) {
    int64_t columns = getTileType(load->getResult(0)).getDimSize(1);
    if (program.areHeadsCodes) // a panel of codes is several of operands
      width = columns;
    if (program.hasCodes())
      width = sm90::kCodePanelColumns;
    if (program.slots)
      width = sm90::kPanelColumns;
    for (int64_t column = 0; column < columns; column += width)
      program.parts.push_back(
          {static_cast<unsigned>(index), column, std::min(width, columns - column)});
  }
  return "";
}

/// Panels of codes, or of RoPE keys that are none, are 128 bytes of each row.
static int64_t countCodePanels(Operation *load) {
  RankedTensorType type = getTileType(load->getResult(0));
  return llvm::divideCeil(type.getDimSize(1), sm90::getPanelColumns(type.getElementType()));
}

/// Whether consumers may have a state each: of heads with values of their own.
static bool canTakeTurns(const Program &program) {
  return !program.hasCodes() && !program.sides && program.keys.size() == 2 &&
         areOwnValues(program.operands[1]) && findLoopState(program.getLoop());
}

/// What copies bring of a block's keys and values.
static int64_t countBlockBytes(const Program &program) {
  int64_t bytes = 0;
  for (Operation *load : program.keys) {
    RankedTensorType type = getTileType(load->getResult(0));
    bytes += type.getNumElements() * type.getElementTypeBitWidth() / 8;
  }
  return bytes;
}

std::string Matcher::chooseStages() {
  auto countPanels = [](Operation *load) {
    return llvm::divideCeil(getTileType(load->getResult(0)).getDimSize(1), sm90::kPanelColumns);
  };
  Tiles tiles{program.rows, 0, 0, 0, program.hasCodes(), program.countSides()};
  for (tile::LoadOp query : program.queries)
    tiles.queryPanels += countPanels(query);
  for (Operation *keys : program.keys) {
    bool areCodes = program.hasCodes() || program.areHeadsCodes;
    tiles.stagePanels += areCodes ? countCodePanels(keys) : countPanels(keys);
  }
  program.kernel.walk([&](tile::DotOp dot) { tiles.outputPanels += dot.getTransposeLhs(); });
  const mlac::TargetDescription machine = tile::getMachine(program.kernel);
  if (program.hasCodes())
    tiles.consumers = kCodeConsumers;
  else if (canTakeTurns(program))
    tiles.consumers = countConsumers(tiles, machine, program.areHeadsCodes);
  tiles.weightTiles = program.countWeights();
  tiles.canHaveSlots = !program.areHeadsCodes;
  program.consumers = tiles.consumers;
  program.stateStages = tiles.stateStages();
  program.isTight =
      program.hasCodes() && tiles.tileRegisters() > machine.tuning.streamTurnRegisters;
  tiles.blockBytes = countBlockBytes(program);
  program.takesAllRegisters = program.hasCodes() || tiles.needsAllRegisters(program.areHeadsCodes);
  if (tiles.heldRegisters() > machine.tuning.streamOutputRegisters)
    return "its output takes " + std::to_string(tiles.heldRegisters()) +
           " registers of a thread, more than " +
           std::to_string(machine.tuning.streamOutputRegisters);
  const int64_t held = tiles.tileRegisters();
  const int64_t room = program.hasCodes() ? countCodeRegisters(machine, program.usesTma)
                                          : machine.tuning.streamTileRegisters;
  if ((program.areHeadsCodes || program.hasCodes()) && held > room)
    return "its tiles beside codes take " + std::to_string(held) +
           " registers of a thread, more than " + std::to_string(room);
  int64_t most = tiles.mostStages(machine.sharedBytes);
  program.slots = tiles.countSlots(machine.sharedBytes);
  program.queryStages = tiles.queryStages(machine.sharedBytes);
  std::optional<int64_t> given = getSchedule<tile::StreamScheduleAttr>(program.kernel).getStages();
  if (program.slots && given.value_or(1) == 1) {
    program.stages = program.slots;
    return "";
  }
  std::string why = program.chooseStages(given, std::min(most, tiles.usualStages(machine)), most,
                                         tiles.stageBytes());
  if (why.empty() && program.stages % program.consumers != 0)
    return std::to_string(program.stages) + " stages, no multiple of the " +
           std::to_string(program.consumers) + " consumers that take turns";
  return why;
}

std::optional<Program> stream::matchProgram(tile::KernelOp kernel, std::string &why) {
  return runMatcher(Matcher(kernel),
                    {&Matcher::findLoads, &Matcher::checkOps, &Matcher::checkLoads,
                     &Matcher::chooseStages, &Matcher::chooseParts},
                    why);
}

//===----------------------------------------------------------------------===//
// Entry
//===----------------------------------------------------------------------===//

Value stream::createRing(ImplicitLocOpBuilder &b, StringRef label, int64_t stages, int64_t parts,
                         ArrayRef<sm90::SmemType> tiles, int32_t fullCount, int32_t emptyCount) {
  auto type = sm90::RingType::get(b.getContext(), stages, parts, tiles);
  return sm90::RingOp::create(b, type, fullCount, emptyCount, IntegerAttr(), IntegerAttr(),
                              b.getStringAttr(label));
}

Value stream::alloc(ImplicitLocOpBuilder &b, sm90::SmemType type) {
  return sm90::AllocOp::create(b, type, /*offset=*/IntegerAttr());
}

static Entry createEntry(ImplicitLocOpBuilder &b, LazyCloner &cloner, const Program &program) {
  Entry entry;
  SmallVector<sm90::SmemType> keyTiles, queryTiles;
  for (Operation *load : program.keys) {
    keyTiles.push_back(getSharedType(load->getResult(0)));
    if (program.usesTma)
      entry.keyMaps.emplace_back(b, cloner, cast<tile::LoadPagedOp>(load));
  }
  int64_t parts = program.parts.size();
  if (program.slots) {
    Type element = keyTiles.front().getElementType();
    keyTiles = {getSharedType({sm90::kTileRows, sm90::kPanelColumns}, element)};
    parts = 1;
  }
  for (tile::LoadOp load : program.queries)
    entry.queryMaps.emplace_back(b, cloner, load, program.rows);
  for (int64_t owner = 0; owner < program.countOwners(); ++owner)
    for (tile::LoadOp load : program.queries)
      queryTiles.push_back(getSharedType(load.getResult()));
  // One thread fills, or each of the producer's; consumers' warps free.
  const auto consumer = static_cast<int32_t>(sm90::kWarpgroupWarps * program.countSides());
  auto createQueries = [&](int32_t readers) {
    return createRing(b, "queries", program.queryStages, /*parts=*/1, queryTiles, /*fullCount=*/1,
                      readers);
  };
  entry.keyRing =
      createRing(b, "keys", program.stages, parts, keyTiles, program.countFillers(), consumer);
  entry.queryRing = createQueries(static_cast<int32_t>(program.consumers) * consumer);
  if (program.consumers > 1)
    createStates(b, program, entry);
  return entry;
}

/// What each consumer has for itself.
static void createOwnTiles(ImplicitLocOpBuilder &b, const Program &program, Entry &entry) {
  tile::KernelOp kernel = program.kernel;
  kernel.walk([&](Operation *op) {
    if (isa<tile::ReduceOp>(op))
      entry.scratch[op] = alloc(b, getScratchType(program));
    auto dot = dyn_cast<tile::DotOp>(op);
    if (dot && dot.getTransposeLhs() && !entry.operands.contains(dot.getRhs()))
      entry.operands[dot.getRhs()] = alloc(b, getOperandType(program));
  });
  for (int64_t group = 0; group < program.countWeights(); ++group)
    entry.weights.push_back(group == 0 ? entry.operands.begin()->second
                                       : alloc(b, getOperandType(program)));
}

bool mlac::canStream(tile::AttendOp attend, std::string &why) {
  for (Value query : attend.getQueries())
    if (auto load = query.getDefiningOp<tile::LoadOp>(); !load || !QueryRows::canCopy(load))
      why = "TMA cannot copy its queries";
  return why.empty();
}

/// Index arithmetic and loads of scalars.
static bool isScalar(Operation *op) {
  auto isTile = [](Value value) { return isa<RankedTensorType>(value.getType()); };
  return op->getNumRegions() == 0 && llvm::none_of(op->getOperands(), isTile) &&
         llvm::none_of(op->getResults(), isTile);
}

/// Of heads' codes ptxas 13.0 spills 4 to 20 bytes where one consumer's request has any number of
/// queries (1, 2, 4, 16 and 64 heads a group, columns of 128), and 4 to 12 of 32 rows of 256
/// columns with a window; where two consumers have the most rows that fit, of any number of
/// queries, up to 52, and 84 of 256 columns in pages of 8: 48 rows with 40 bytes take 0.63 of one
/// consumer's time all the same (GroupedAttention.cpp); of a latent's 8 of 24 rows with scales of
/// rows; none elsewhere.
static constexpr int64_t kCodeSpillBytes = 96;
/// Tiles of 32 rows leave the producer 24 registers, which spills up to 104 bytes where four or
/// eight boxes bring a panel (pages of 16 and 8); not timed.
static constexpr int64_t kTightSpillBytes = 128;

sm90::KernelOp mlac::buildStreamSchedule(tile::KernelOp kernel, std::string &why) {
  std::optional<Program> program = matchProgram(kernel, why);
  if (!program)
    return {};
  ImplicitLocOpBuilder b(kernel.getLoc(), kernel.getOperation());
  int64_t consumers = program->countSides() * program->consumers;
  auto result = createRoleKernel(b, kernel, 1 + consumers);
  if (program->areHeadsCodes || program->hasCodes())
    result->setAttr(sm90::kSpillBytesAttr,
                    b.getI64IntegerAttr(program->isTight ? kTightSpillBytes : kCodeSpillBytes));
  // A second program on a multiprocessor would have begun early, and be missing elsewhere: a decode
  // layer of 128 requests of 32/8 heads of 64 took 483 us where this and consumers in turns take
  // 281 (attention alone gains 18 of 145 us at 64 requests; one H200).
  result->setAttr(tile::kResidentProgramsAttr, b.getI64IntegerAttr(1));
  LazyCloner cloner(b, [](Operation *, Type type) { return convertType(type); });
  cloner.map(kernel.getBody().getArguments(), result.getBody().getArguments());
  emitLaunchDependents(b, kernel);
  cloneScalars(cloner, kernel.getBody().front(), isScalar);
  Entry entry = createEntry(b, cloner, *program);
  SmallVector<Entry, 2> own(consumers, entry);
  for (Entry &tiles : own)
    createOwnTiles(b, *program, tiles);
  // As the launch gives: a program that takes less than all registers leaves room for one of the
  // next kernel, which begins early.
  IntegerAttr producer, consumer;
  if (program->takesAllRegisters) {
    CodeRegisters registers(program->usesTma, program->isTight, consumers);
    producer = b.getI32IntegerAttr(registers.producer);
    consumer = b.getI32IntegerAttr(registers.consumer);
  }
  emitRole(b, "load", kProducer, producer, [&] { emitProducer(b, *program, entry, cloner); });
  auto emit = program->hasCodes()      ? emitCodeConsumer
              : program->areHeadsCodes ? emitHeadConsumer
              : program->consumers > 1 ? emitTurnConsumer
                                       : emitConsumer;
  for (unsigned which = 0; which < consumers; ++which)
    emitRole(b, which == 0 ? "math" : "math" + std::to_string(which), kConsumer + which, consumer,
             [&] { emit(b, *program, own[which], cloner, which); });
  sm90::ReturnOp::create(b);
  return result;
}
