//===- ProductRole.h - a role that walks a product's program ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every role keeps the program's loops and its index arithmetic; what it does at the ops between is
// its own (ProductRoles.cpp: producers, ProductConsumer.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_PRODUCT_PRODUCTROLE_H
#define MLAC_LIB_CONVERSION_TILETOSM90_PRODUCT_PRODUCTROLE_H

#include "Product/ProductKernel.h"

namespace mlac::product {

using namespace mlir;

class Role {
public:
  Role(ImplicitLocOpBuilder &b, const Program &program, const Entry &entry,
       const LazyCloner &cloner)
      : b(b), program(program), entry(entry), cloner(cloner, [&program](Operation *op, Type type) {
          return program.convertType(op, type);
        }) {}
  virtual ~Role() = default;

  void run() {
    Value start = sm90::StageStartOp::create(b);
    stages.assign(entry.rings.size() + (entry.sumsRings.empty() ? 0 : 1) +
                      (entry.parkingRing ? 1 : 0),
                  start);
    tile::KernelOp kernel = program.kernel;
    emitBlock(kernel.getBody().front());
  }

  void emitElected(llvm::function_ref<void()> body) {
    auto elected = sm90::ElectOp::create(b);
    OpBuilder::InsertionGuard guard(b);
    b.createBlock(&elected.getBody());
    sm90::EndOp::create(b);
    b.setInsertionPointToStart(&elected.getBody().front());
    body();
  }

protected:
  virtual bool keeps(Value carried) const = 0;
  virtual void emit(Operation *op) = 0;
  virtual void emitFor(scf::ForOp loop);

  void emitBlock(Block &block);
  void emitRegion(scf::ForOp from, scf::ForOp to);
  Value getTile(unsigned ring, unsigned index) {
    auto type = cast<sm90::RingType>(entry.rings[ring].getType()).getTiles()[index];
    return sm90::StageTileOp::create(b, type, entry.rings[ring], stages[ring], index);
  }
  void advance(unsigned ring) {
    stages[ring] = sm90::StageNextOp::create(b, stages[ring], entry.rings[ring]);
  }
  /// Of the ring through which a cluster's sums go.
  Value &getSumsStage() { return stages[entry.rings.size()]; }
  /// The end of the steps that this CTA has of `loop`, a loop over the depth counted from 0, and
  /// the place of its step at `value`.
  Value getEnd(scf::ForOp loop);
  Value getPlace(scf::ForOp loop, Value value);
  Value getParked() {
    Type type = cast<sm90::RingType>(entry.parkingRing.getType()).getTiles().front();
    return sm90::StageTileOp::create(b, type, entry.parkingRing, stages.back(), /*index=*/0);
  }

  ImplicitLocOpBuilder &b;
  const Program &program;
  const Entry &entry;
  LazyCloner cloner;
  SmallVector<Value> stages; // by ring, a cluster's sums' ring, the parking ring's last
};

} // namespace mlac::product

#endif // MLAC_LIB_CONVERSION_TILETOSM90_PRODUCT_PRODUCTROLE_H
