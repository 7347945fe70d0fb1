//===- ProductCluster.cpp - CTAs that divide a product's depth ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Few tiles leave multiprocessors idle. A cluster runs what a program of the tile kernel does: each
// of its CTAs has a part of the steps, and of the results' columns. It sends what it has of other
// columns to the shared memory of their CTAs, and adds what these have sent to its own, always in
// the same order:
//
//   rank 0   | steps 0 .. n/2 - 1 | send columns c/2 .. c - 1 | await, add | store 0 .. c/2 - 1
//   rank 1   | steps n/2 .. n - 1 | send columns 0 .. c/2 - 1 | await, add | store c/2 .. c - 1
//
//===----------------------------------------------------------------------===//

#include "Product/ProductKernel.h"

#include "mla/Dialect/Sm90/IR/Sm90CodeOps.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::product;

//===----------------------------------------------------------------------===//
// Recognition
//===----------------------------------------------------------------------===//

scf::ForOp product::Program::getDepthLoop() const {
  tile::DotOp dot = dots.front();
  auto loop = dyn_cast<scf::ForOp>(dot->getParentOp());
  return loop && loop.getNumResults() != 0 ? loop : scf::ForOp();
}

static int64_t getDepth(scf::ForOp loop) {
  return *getConstantIntValue(loop.getUpperBound()) - *getConstantIntValue(loop.getLowerBound());
}

int64_t product::Program::getDepthSpan() const { return getDepth(getDepthLoop()) / cluster; }

bool product::Program::isBehindDepth(Operation *op) const {
  scf::ForOp loop = getDepthLoop();
  return loop && !loop->isAncestor(op) && llvm::any_of(members, [&](const auto &ops) {
           return ops.contains(op);
         });
}

Type product::Program::convertType(Operation *op, Type type) const {
  auto tile = dyn_cast<RankedTensorType>(type);
  if (cluster == 1 || !tile || tile.getRank() != 2 || !isBehindDepth(op))
    return convertProductType(op, type);
  return convertProductType(op, getShare(tile));
}

/// Whether what comes behind the loop can be done for some of the columns: element by element, with
/// what is loaded for them or belongs to rows.
static bool canShareColumns(const Program &program) {
  for (const DenseSet<Operation *> &members : program.members)
    for (Operation *op : members) {
      if (!program.isBehindDepth(op))
        continue;
      bool isKnown = isa<tile::LoadOp, tile::StoreOp, tile::SplatOp, tile::BroadcastOp>(op) ||
                     isa<arith::ArithDialect, math::MathDialect>(op->getDialect());
      bool hasColumns = llvm::any_of(op->getResults(), [](Value v) { return isOfColumns(v); });
      bool isUsedBefore = llvm::any_of(op->getUsers(), [&](Operation *user) {
        return program.getDepthLoop()->isAncestor(user);
      });
      if (!isKnown || hasColumns || isUsedBefore)
        return false;
    }
  return true;
}

int64_t product::chooseCluster(const Program &program) {
  tile::KernelOp kernel = program.kernel;
  auto allowed = kernel->getAttrOfType<IntegerAttr>(tile::kDepthClusterAttr);
  int64_t count = allowed ? allowed.getInt() : 1;
  scf::ForOp loop = program.getDepthLoop();
  if (count < 2 || count > kMostClusterCtas || !llvm::isPowerOf2_64(count) || !loop ||
      program.dots.size() > program.countConsumers())
    return 1;
  int64_t step = *getConstantIntValue(loop.getStep());
  tile::DotOp dot = program.dots.front();
  bool divides = *getConstantIntValue(loop.getLowerBound()) == 0 &&
                 getDepth(loop) % (count * step) == 0 &&
                 dot.getType().getDimSize(1) % (count * sm90::kColumnGroup) == 0;
  return divides && canShareColumns(program) ? count : 1;
}

int64_t product::Program::getSumsBytes() const {
  if (cluster == 1)
    return 0;
  tile::DotOp dot = dots.front();
  int64_t tiles = joint ? 1 : static_cast<int64_t>(dots.size());
  int64_t elements = dot.getType().getNumElements();
  return tiles * elements / cluster * (cluster - 1) * static_cast<int64_t>(sizeof(float));
}

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

void product::addCluster(ImplicitLocOpBuilder &b, const Program &program, Entry &entry) {
  entry.rank = sm90::ClusterRankOp::create(b);
  entry.depthBegin = arith::MulIOp::create(
      b, entry.rank, arith::ConstantIndexOp::create(b, program.getDepthSpan()));
  constexpr int64_t warps = sm90::kWarpgroupWarps;
  tile::DotOp dot = program.dots.front();
  int64_t elements = program.getShare(dot.getType()).getNumElements();
  auto tile = sm90::SmemType::get(b.getContext(), {warps, elements / warps}, b.getF32Type(),
                                  sm90::SmemLayout::Linear);
  SmallVector<sm90::SmemType> tiles(program.cluster - 1, tile); // of each other CTA
  auto type = sm90::RingType::get(b.getContext(), /*stages=*/1, /*parts=*/1, tiles);
  auto arrivals = static_cast<int32_t>(program.cluster * warps);
  for (unsigned consumer = 0; consumer < (program.joint ? 1 : program.countConsumers()); ++consumer)
    entry.sumsRings.push_back(sm90::RingOp::create(
        b, type, /*full_count=*/arrivals, /*empty_count=*/arrivals, IntegerAttr(), IntegerAttr(),
        b.getStringAttr("cluster_sums" + std::to_string(consumer))));
}

void product::mapPrograms(ImplicitLocOpBuilder &b, const Program &program, LazyCloner &cloner,
                          sm90::KernelOp kernel) {
  kernel.setCluster(static_cast<int32_t>(program.cluster));
  tile::KernelOp source = program.kernel;
  source.walk([&](tile::ProgramIdOp id) {
    if (id.getDim() != 0)
      return;
    Value cta = sm90::ProgramIdOp::create(b, id.getDim());
    Value count = arith::ConstantIndexOp::create(b, program.cluster);
    cloner.map(id.getResult(), arith::DivUIOp::create(b, cta, count));
  });
}

namespace {
/// One exchange of a consumer's sum.
class ClusterSum {
public:
  ClusterSum(ImplicitLocOpBuilder &b, const Program &program, const Entry &entry, Value ring,
             Value stage, Value sum)
      : b(b), cluster(program.cluster), rank(entry.rank), ring(ring), stage(stage), sum(sum),
        share(program.getShare(cast<RankedTensorType>(sum.getType()))) {}

  /// Sends what belongs to the others, if this CTA has at least rank `from`; what belongs to it.
  Value send(int64_t from);
  Value add(Value own);

private:
  Value take(int64_t of) {
    return sm90::TakeColumnsOp::create(b, share, sum, of * share.getDimSize(1));
  }
  Value getTile(int64_t number) {
    Type type = cast<sm90::RingType>(ring.getType()).getTiles()[number];
    return sm90::StageTileOp::create(b, type, ring, stage, static_cast<int32_t>(number));
  }
  Value sendFrom(int64_t from);

  ImplicitLocOpBuilder &b;
  int64_t cluster;
  Value rank, ring, stage, sum;
  RankedTensorType share;
};
} // namespace

/// A CTA has a tile for each of the others, by rank.
Value ClusterSum::sendFrom(int64_t from) {
  for (int64_t to = 0; to < cluster; ++to)
    if (to != from)
      sm90::ParkOp::create(b, take(to), getTile(from < to ? from : from - 1),
                           b.getI64IntegerAttr(to));
  return take(from);
}

/// Registers have no numbers that are known at run time only: a branch for each rank.
Value ClusterSum::send(int64_t from) {
  if (from + 1 == cluster)
    return sendFrom(from);
  Value isOwn = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, rank,
                                      arith::ConstantIndexOp::create(b, from));
  auto branch = scf::IfOp::create(b, TypeRange{share}, isOwn, /*addThenBlock=*/true,
                                  /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, sendFrom(from));
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, send(from + 1));
  return branch.getResult(0);
}

Value ClusterSum::add(Value total) {
  for (int64_t other = 0; other + 1 < cluster; ++other)
    total = arith::AddFOp::create(b, total, sm90::UnparkOp::create(b, share, getTile(other)));
  return total;
}

Value product::emitClusterSum(ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
                              Value ring, Value &stage, Value sum) {
  ClusterSum exchange(b, program, entry, ring, stage, sum);
  // What the others have sent may be here already.
  sm90::AcquireOp::create(b, ring, stage, /*keeps=*/true);
  Value own = exchange.send(/*from=*/0);
  sm90::PublishOp::create(b, ring, stage, /*part=*/0, /*remote=*/true);
  sm90::AwaitOp::create(b, ring, stage, /*part=*/0, /*remote=*/true);
  Value total = exchange.add(own);
  sm90::ReleaseOp::create(b, ring, stage, /*remote=*/true);
  stage = sm90::StageNextOp::create(b, stage, ring);
  return total;
}
