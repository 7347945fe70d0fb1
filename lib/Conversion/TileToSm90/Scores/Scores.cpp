//===- Scores.cpp - an indexer's keys on M, out of a ring ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which kernels the schedule takes, its parameters, and the kernel's entry. The producer is
// that of stream.
//
//===----------------------------------------------------------------------===//

#include "Scores/Scores.h"

#include "Common/Divisibility.h"
#include "Scores/ScoresConsumer.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::scores;
using stream::Entry;
using stream::Program;

/// Warpgroups: the producer's, of which one thread works, and the consumer.
static constexpr int32_t kProducer = 0, kConsumer = 1, kWarpgroups = 2;

//===----------------------------------------------------------------------===//
// Recognition
//===----------------------------------------------------------------------===//

namespace {
class Matcher {
public:
  Matcher(tile::KernelOp kernel, std::optional<int64_t> stages)
      : program(kernel), givenStages(stages) {}
  std::string findLoads();
  std::string checkProducts();
  std::string checkOps();
  std::string checkCopies();
  std::string joinQueries();
  std::string chooseStages();
  Program program;

private:
  std::optional<int64_t> givenStages;
};
} // namespace

std::string Matcher::findLoads() {
  program.kernel.walk([&](tile::LoadOp load) {
    if (isOfCodes(load.getResult()))
      program.queries.push_back(load);
  });
  program.kernel.walk([&](tile::LoadPagedOp load) {
    if (isOfCodes(load.getResult()))
      program.keys.push_back(load);
  });
  if (program.keys.size() != 1 || program.queries.empty())
    return "it has not one tile of keys and some of queries, of codes";
  auto loop = dyn_cast<scf::ForOp>(program.keys.front()->getParentOp());
  auto isBeforeLoop = [&](tile::LoadOp query) { return query->getBlock() == loop->getBlock(); };
  if (!loop || !llvm::all_of(program.queries, isBeforeLoop))
    return "its keys are not loaded in a loop behind the queries";
  program.queriesEnd = loop;
  program.rows = program.queries.front().getType().getDimSize(0);
  program.parts.push_back(
      {0, 0, cast<RankedTensorType>(program.getKeys(0).getType()).getDimSize(1)});
  return "";
}

/// A product of the keys for each tile of queries.
std::string Matcher::checkProducts() {
  SmallVector<tile::DotOp> products = findProducts(program);
  auto isOfBoth = [&](tile::DotOp dot) {
    auto query = dot.getRhs().getDefiningOp<tile::LoadOp>();
    return dot.getLhs() == program.getKeys(0) && llvm::is_contained(program.queries, query) &&
           matchPattern(dot.getAcc(), m_AnyZeroFloat());
  };
  int64_t uses = 0;
  for (tile::LoadOp query : program.queries)
    uses += llvm::range_size(query->getUsers());
  if (products.empty() || !llvm::all_of(products, isOfBoth) ||
      static_cast<int64_t>(products.size()) != llvm::range_size(program.getKeys(0).getUsers()) ||
      static_cast<int64_t>(products.size()) != uses)
    return "a product that is not of keys and queries";
  program.keysEnd = products.back();
  return "";
}

/// All tiles in registers are [64, N] or [64].
std::string Matcher::checkOps() {
  std::string why;
  program.kernel.getBody().walk([&](Operation *op) {
    bool known = llvm::TypeSwitch<Operation *, bool>(op)
                     .Case([](tile::ReduceOp reduce) { return reduce.getDim() == 1; })
                     .Case([](tile::BroadcastOp cast) { return cast.getDim() == 1; })
                     .Case([](tile::StoreOp store) { return !store.getTransposed(); })
                     .Case<tile::LoadOp, tile::LoadPagedOp, tile::DotOp, tile::SplatOp,
                           tile::ProgramIdOp, tile::ReturnOp, scf::ForOp, scf::IfOp, scf::YieldOp>(
                         [](Operation *) { return true; })
                     .Default([](Operation *op) {
                       return op->getNumRegions() == 0 && op->getNumResults() != 0 &&
                              isa<arith::ArithDialect, memref::MemRefDialect>(op->getDialect());
                     });
    auto hasOtherRows = [&](Value value) {
      auto tile = dyn_cast<RankedTensorType>(value.getType());
      return tile && !isOfCodes(value) && tile.getDimSize(0) != sm90::kTileRows;
    };
    if (!known)
      why = "'" + op->getName().getStringRef().str() + "' in a form not known";
    else if (llvm::any_of(op->getResults(), hasOtherRows))
      why = "a tile that has not 64 rows";
    return why.empty() ? WalkResult::advance() : WalkResult::interrupt();
  });
  return why;
}

std::string Matcher::checkCopies() {
  auto keys = cast<tile::LoadPagedOp>(program.keys.front());
  int64_t columns = keys.getType().getDimSize(1);
  if (keys.getType().getDimSize(0) != sm90::kTileRows || columns % sm90::kCodePanelColumns != 0)
    return "its blocks are not 64 keys of whole panels";
  if (getKnownDivisor(OpFoldResult(keys.getToken())) % sm90::kTileRows != 0 ||
      PagedTiles::getBoxRows(keys) == 0)
    return "TMA cannot copy its keys";
  for (tile::LoadOp query : program.queries) {
    RankedTensorType type = query.getType();
    if (type.getRank() != 2 || type.getDimSize(0) != program.rows ||
        type.getDimSize(1) != columns || program.rows > sm90::kMaxWgmmaColumns ||
        !canMapView(query.getView()))
      return "TMA cannot copy its queries";
  }
  return "";
}

/// Queries of two tokens as one operand, where their products take them in order: of operands of up
/// to 64 rows wgmma reads as many bytes of keys as of queries, and shared memory is what it waits
/// for.
std::string Matcher::joinQueries() {
  SmallVector<tile::DotOp> products = findProducts(program);
  bool areInOrder = products.size() == program.queries.size() &&
                    llvm::all_of(llvm::zip(products, program.queries), [](auto pair) {
                      auto [dot, query] = pair;
                      return dot.getRhs() == query.getResult();
                    });
  bool isOnePanel = program.queries.front().getType().getDimSize(1) == sm90::kCodePanelColumns;
  constexpr int64_t kJoined = 2;
  // A box begins at a whole row of the swizzle's pattern.
  if (areInOrder && isOnePanel && products.size() % kJoined == 0 &&
      program.rows % sm90::kColumnGroup == 0 && kJoined * program.rows <= sm90::kMaxWgmmaColumns)
    program.queriesPerTile = kJoined;
  return "";
}

/// As many as let the kernel's programs lie side by side, and at least two.
std::string Matcher::chooseStages() {
  constexpr int64_t kOfSm = 2 * (sm90::kHalfSharedBytes + 1024), kBarriers = 1024;
  auto resident = program.kernel->getAttrOfType<IntegerAttr>(tile::kResidentProgramsAttr);
  int64_t programs = resident ? resident.getInt() : 1;
  // Codes are bytes, and whole panels have no padding.
  auto getBytes = [](Value tile) {
    return cast<RankedTensorType>(tile.getType()).getNumElements();
  };
  int64_t stage = getBytes(program.getKeys(0)), fixed = kBarriers;
  for (tile::LoadOp query : program.queries)
    fixed += getBytes(query.getResult());
  int64_t shared = std::min(kOfSm / programs - 1024, sm90::kMaxSharedBytes);
  return program.chooseStages(givenStages, std::max<int64_t>((shared - fixed) / stage, 2),
                              (sm90::kMaxSharedBytes - fixed) / stage, stage);
}

static std::optional<Program> match(tile::KernelOp kernel, std::optional<int64_t> stages,
                                    std::string &why) {
  return runMatcher(Matcher(kernel, stages),
                    {&Matcher::findLoads, &Matcher::checkProducts, &Matcher::checkOps,
                     &Matcher::checkCopies, &Matcher::joinQueries, &Matcher::chooseStages},
                    why);
}

int64_t mlac::chooseScoresStages(tile::KernelOp kernel, std::optional<int64_t> given,
                                 std::string &why) {
  auto isProduct = [](tile::DotOp dot) {
    return isOfCodes(dot.getLhs()) && isOfCodes(dot.getRhs()) ? WalkResult::interrupt()
                                                              : WalkResult::advance();
  };
  auto isOfPages = [](tile::LoadPagedOp) { return WalkResult::interrupt(); };
  bool mayHaveScores =
      kernel.walk(isProduct).wasInterrupted() && kernel.walk(isOfPages).wasInterrupted();
  std::optional<Program> program = mayHaveScores ? match(kernel, given, why) : std::nullopt;
  return program ? program->stages : 0;
}

//===----------------------------------------------------------------------===//
// Entry
//===----------------------------------------------------------------------===//

static Value createRing(ImplicitLocOpBuilder &b, StringRef label, int64_t stages,
                        ArrayRef<sm90::SmemType> tiles) {
  auto type = sm90::RingType::get(b.getContext(), stages, /*parts=*/1, tiles);
  return sm90::RingOp::create(b, type, /*full_count=*/1, /*empty_count=*/sm90::kWarpgroupWarps,
                              IntegerAttr(), IntegerAttr(), b.getStringAttr(label));
}

static Entry createEntry(ImplicitLocOpBuilder &b, LazyCloner &cloner, const Program &program) {
  Entry entry;
  auto keys = cast<tile::LoadPagedOp>(program.keys.front());
  entry.keyMaps.emplace_back(b, cloner, keys);
  entry.keyRing = createRing(b, "keys", program.stages, {getSharedType(keys.getResult())});
  tile::LoadOp first = program.queries.front();
  RankedTensorType query = first.getType();
  SmallVector<sm90::SmemType> queryTiles(
      program.queries.size() / program.queriesPerTile,
      getSharedType({program.queriesPerTile * program.rows, query.getDimSize(1)},
                    query.getElementType()));
  for (tile::LoadOp load : program.queries)
    entry.queryMaps.emplace_back(b, cloner, load, program.rows, sm90::kCodePanelColumns);
  entry.queryRing = createRing(b, "queries", /*stages=*/1, queryTiles);
  return entry;
}

/// Index arithmetic and loads of scalars.
static bool isScalar(Operation *op) {
  auto isTile = [](Value value) { return isa<RankedTensorType>(value.getType()); };
  return op->getNumRegions() == 0 && llvm::none_of(op->getOperands(), isTile) &&
         llvm::none_of(op->getResults(), isTile);
}

sm90::KernelOp mlac::buildScoresSchedule(tile::KernelOp kernel, std::string &why) {
  std::optional<Program> program =
      match(kernel, getSchedule<tile::ScoresScheduleAttr>(kernel).getStages(), why);
  if (!program)
    return {};
  ImplicitLocOpBuilder b(kernel.getLoc(), kernel.getOperation());
  auto result = createRoleKernel(b, kernel, kWarpgroups);
  LazyCloner cloner(b, [](Operation *, Type type) { return convertRoleType(type); });
  cloner.map(kernel.getBody().getArguments(), result.getBody().getArguments());
  emitLaunchDependents(b, kernel);
  cloneScalars(cloner, kernel.getBody().front(), isScalar);
  Entry entry = createEntry(b, cloner, *program);
  emitRole(b, "load", kProducer, IntegerAttr(),
           [&] { stream::emitProducer(b, *program, entry, cloner); });
  emitRole(b, "math", kConsumer, IntegerAttr(),
           [&] { scores::emitConsumer(b, *program, entry, cloner); });
  sm90::ReturnOp::create(b);
  return result;
}
