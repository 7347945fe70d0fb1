//===- OverlapLaunches.cpp - tile-overlap-launches ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Launches that do not wait for each other run side by side. Assumes that a plan's launches are in
// an order that is right; afterwards a plan may have one tile.fork, whose verifier knows what that
// is.
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Tile/IR/LaunchEffects.h"
#include "mla/Dialect/Tile/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/EquivalenceClasses.h"

namespace mlir::tile {
#define GEN_PASS_DEF_TILEOVERLAPLAUNCHES
#include "mla/Dialect/Tile/Transforms/Passes.h.inc"
} // namespace mlir::tile

using namespace mlir;
using namespace mlir::tile;

namespace {
/// A plan's own launches, branches and loops, in order.
struct Node {
  Operation *op;
  int64_t launches;
  llvm::BitVector conflicts; // with nodes before it
};

/// Neighbours that may be two sides: of each whether it is the other one's.
struct Run {
  size_t first = 0, end = 0;
  SmallVector<bool> isSide;
  int64_t smaller = 0; // launches

  bool isBetterThan(const Run &other) const {
    if (smaller != other.smaller)
      return smaller > other.smaller;
    return smaller != 0 && end - first > other.end - other.first;
  }
};

struct OverlapLaunches : tile::impl::TileOverlapLaunchesBase<OverlapLaunches> {
  using TileOverlapLaunchesBase::TileOverlapLaunchesBase;

  void runOnOperation() override;

private:
  void overlap(PlanOp plan, SymbolTableCollection &symbols);
  void makeFork(ArrayRef<Node> nodes, const Run &run) const;
};
} // namespace

/// The launches of an operation where it runs for few tokens: one of a launch, of a branch those
/// of its side with the fewest that has any. Kernels of many tokens, which do not run beside each
/// other, may be several.
static int64_t countLaunches(Operation *op) {
  if (isa<LaunchOp>(op))
    return 1;
  int64_t fewest = 0;
  for (Region &region : op->getRegions()) {
    int64_t count = 0;
    for (Operation &inner : region.getOps())
      count += countLaunches(&inner);
    if (count != 0)
      fewest = fewest == 0 ? count : std::min(fewest, count);
  }
  return fewest;
}

static SmallVector<Node, 0> collect(PlanOp plan, SymbolTableCollection &symbols) {
  EffectsOfPlan effects(plan, symbols);
  SmallVector<Node, 0> nodes;
  SmallVector<LaunchEffects, 0> known;
  for (Operation &op : plan.getBody().front())
    if (int64_t launches = countLaunches(&op)) {
      LaunchEffects own = effects.get(&op);
      llvm::BitVector conflicts(known.size());
      for (auto [index, before] : llvm::enumerate(known))
        if (own.findConflict(before))
          conflicts.set(index);
      nodes.push_back({&op, launches, std::move(conflicts)});
      known.push_back(std::move(own));
    }
  return nodes;
}

/// Of the nodes from `first` to `end` the groups that do not wait for each other, as two sides.
static Run divide(ArrayRef<Node> nodes, size_t first, size_t end) {
  llvm::EquivalenceClasses<size_t> groups;
  for (size_t i = first; i < end; ++i) {
    groups.insert(i);
    for (size_t j = first; j < i; ++j)
      if (nodes[i].conflicts.test(j))
        groups.unionSets(i, j);
  }
  llvm::DenseMap<size_t, int64_t> sizes;
  int64_t total = 0;
  for (size_t i = first; i < end; ++i) {
    sizes[groups.getLeaderValue(i)] += nodes[i].launches;
    total += nodes[i].launches;
  }
  size_t main = groups.getLeaderValue(first); // of equal ones that which comes first
  for (size_t i = first; i < end; ++i)
    if (sizes[groups.getLeaderValue(i)] > sizes[main])
      main = groups.getLeaderValue(i);
  Run run{first, end, {}, std::min(sizes[main], total - sizes[main])};
  for (size_t i = first; i < end; ++i)
    run.isSide.push_back(groups.getLeaderValue(i) != main);
  return run;
}

/// Where a stream begins anew nothing before it may still run.
static void makeIndependent(Block::iterator op, Block &block) {
  for (; op != block.end(); ++op) {
    if (auto launch = dyn_cast<LaunchOp>(*op))
      return launch.setDependent(false);
    for (Region &region : op->getRegions())
      if (!region.empty())
        makeIndependent(region.front().begin(), region.front());
  }
}

void OverlapLaunches::makeFork(ArrayRef<Node> nodes, const Run &run) const {
  // Sizes, workspaces and arithmetic between the launches come ahead of all.
  Operation *begin = nodes[run.first].op;
  for (Operation *op = begin; op != nodes[run.end - 1].op;) {
    Operation *next = op->getNextNode();
    if (countLaunches(op) == 0)
      op->moveBefore(begin);
    op = next;
  }
  OpBuilder builder(begin);
  Location loc = begin->getLoc();
  Value count = DimOp::create(builder, loc, builder.getIndexType(), "num_tokens");
  Value limit = arith::ConstantIndexOp::create(builder, loc, tokens);
  Value areFew = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, count, limit);
  auto fork = ForkOp::create(builder, loc, areFew);
  Block &main = fork.getMain().emplaceBlock(), &side = fork.getSide().emplaceBlock();
  for (auto [node, isSide] :
       llvm::zip_equal(nodes.slice(run.first, run.end - run.first), run.isSide))
    node.op->moveBefore(isSide ? &side : &main, (isSide ? side : main).end());
  makeIndependent(main.begin(), main);
  makeIndependent(side.begin(), side);
  makeIndependent(std::next(fork->getIterator()), *fork->getBlock());
}

void OverlapLaunches::overlap(PlanOp plan, SymbolTableCollection &symbols) {
  if (!plan.getBody().getOps<ForkOp>().empty())
    return;
  SmallVector<Node, 0> nodes = collect(plan, symbols);
  Run best;
  for (size_t first = 0; first < nodes.size(); ++first)
    for (size_t end = first + 2; end <= nodes.size(); ++end)
      if (Run run = divide(nodes, first, end); run.isBetterThan(best))
        best = run;
  if (best.smaller >= least)
    makeFork(nodes, best);
}

void OverlapLaunches::runOnOperation() {
  SymbolTableCollection symbols;
  for (auto plan : getOperation().getOps<PlanOp>())
    overlap(plan, symbols);
}
