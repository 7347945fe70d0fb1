//===- ScoresConsumer.cpp - products and sums of the scores schedule ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Scores/ScoresConsumer.h"

#include "Common/ScheduleBuilder.h"
#include "Stream/StreamRole.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlac;
using namespace mlac::scores;

bool scores::isOfCodes(Value tile) {
  auto type = dyn_cast<RankedTensorType>(tile.getType());
  return type && isa<Float8E4M3FNType>(type.getElementType());
}

SmallVector<tile::DotOp> scores::findProducts(const stream::Program &program) {
  SmallVector<tile::DotOp> products;
  for (Operation &op : *program.getKeys(0).getDefiningOp()->getBlock())
    if (auto dot = dyn_cast<tile::DotOp>(op))
      products.push_back(dot);
  return products;
}

namespace {
class Consumer : public stream::Role {
public:
  Consumer(ImplicitLocOpBuilder &b, const stream::Program &program, const stream::Entry &entry,
           const LazyCloner &cloner)
      : Role(b, program, entry, cloner, convertRoleType), products(findProducts(program)) {}

private:
  bool keeps(Value) const override { return true; }
  void emit(Operation *op) override;
  void load(tile::LoadOp load);
  void load(tile::LoadPagedOp load);
  void issue();
  void await(tile::DotOp dot);

  SmallVector<tile::DotOp> products;
  DenseMap<Value, Value> shared; // tiles that lie in shared memory
  SmallVector<Value> inFlight;   // what a block's products become, the first to be there first
};
} // namespace

void Consumer::emit(Operation *op) {
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](scf::ForOp loop) { emitFor(loop); })
      .Case([&](scf::IfOp branch) { emitIf(branch); })
      .Case<tile::LoadOp, tile::LoadPagedOp>([&](auto op) { load(op); })
      .Case([&](tile::DotOp dot) { await(dot); })
      .Case([&](tile::StoreOp store) {
        sm90::StoreOp::create(b, cloner.get(store.getValue()), cloner.get(store.getView()),
                              cloner.get(store.getOffsets()), /*paired=*/false,
                              /*transposed=*/false);
      })
      .Default([&](Operation *op) { clone(op); });
  if (op != program.queriesEnd)
    return;
  sm90::ReleaseOp::create(b, entry.queryRing, queryStage);
  queryStage = next(queryStage, entry.queryRing);
}

void Consumer::load(tile::LoadOp load) {
  auto query = llvm::find(program.queries, load);
  if (query == program.queries.end()) {
    Type type = convertRoleType(load.getType());
    cloner.map(load.getResult(),
               sm90::LoadOp::create(b, type, cloner.get(load.getView()),
                                    cloner.get(load.getOffsets()),
                                    arePaired(load.getView(), load.getOffsets().back())));
    return;
  }
  if (query == program.queries.begin())
    sm90::AwaitOp::create(b, entry.queryRing, queryStage, /*part=*/0);
  shared[load.getResult()] = getTile(entry.queryRing, queryStage,
                                     (query - program.queries.begin()) / program.queriesPerTile);
}

void Consumer::load(tile::LoadPagedOp load) {
  if (load.getResult() == program.getKeys(0)) {
    shared[load.getResult()] = getTile(entry.keyRing, keyStage, 0);
    return issue();
  }
  Type type = convertRoleType(load.getType());
  cloner.map(load.getResult(),
             sm90::LoadPagedOp::create(b, type, cloner.get(load.getPool()),
                                       cloner.get(load.getTable()), cloner.get(load.getToken()),
                                       cloner.get(load.getColumn()), cloner.get(load.getLimit()),
                                       arePaired(load.getPool(), load.getColumn())));
}

/// All products of the block, a group for those that share a tile of queries: the first is waited
/// for while the others run.
void Consumer::issue() {
  sm90::AwaitOp::create(b, entry.keyRing, keyStage, /*part=*/0);
  Value keys = shared.lookup(program.getKeys(0));
  RankedTensorType type = getFragmentType(program.queriesPerTile * program.rows, b.getF32Type());
  Value zero = arith::ConstantOp::create(b, DenseElementsAttr::get(type, b.getF32FloatAttr(0)));
  for (size_t first = 0; first < products.size(); first += program.queriesPerTile) {
    sm90::WgmmaFenceOp::create(b);
    inFlight.push_back(sm90::WgmmaOp::create(b, type, keys, shared.lookup(products[first].getRhs()),
                                             zero,
                                             /*transpose_lhs=*/false, /*transpose_rhs=*/true));
    sm90::WgmmaCommitOp::create(b);
  }
}

/// With the first of a group all of it.
void Consumer::await(tile::DotOp dot) {
  int64_t place = llvm::find(products, dot) - products.begin();
  if (place % program.queriesPerTile != 0)
    return;
  Value product = inFlight.front();
  inFlight.erase(inFlight.begin());
  auto wait = sm90::WgmmaWaitOp::create(b, product.getType(), static_cast<int32_t>(inFlight.size()),
                                        product);
  for (int64_t index = 0; index < program.queriesPerTile; ++index) {
    tile::DotOp each = products[place + index];
    Value part = wait.getResult(0);
    if (program.queriesPerTile > 1)
      part = sm90::TakeColumnsOp::create(b, convertRoleType(each.getType()), part,
                                         index * program.rows);
    cloner.map(each.getResult(), part);
  }
  if (!inFlight.empty())
    return;
  sm90::ReleaseOp::create(b, entry.keyRing, keyStage);
  keyStage = next(keyStage, entry.keyRing);
}

void scores::emitConsumer(ImplicitLocOpBuilder &b, const stream::Program &program,
                          const stream::Entry &entry, const LazyCloner &cloner) {
  // Weights and scales are read by itself, whatever the producer has waited for.
  if (program.waits)
    sm90::WaitDependencyOp::create(b);
  Consumer(b, program, entry, cloner).run();
}
