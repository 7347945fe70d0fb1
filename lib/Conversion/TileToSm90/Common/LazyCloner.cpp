//===- LazyCloner.cpp - clones what a value needs, where it is needed ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Common/LazyCloner.h"

#include "Common/ScheduleBuilder.h"

using namespace mlir;
using namespace mlac;

/// A load to registers.
static Value cloneLoad(OpBuilder &builder, tile::LoadOp load, const IRMapping &mapping, Type type) {
  SmallVector<Value> offsets;
  for (Value offset : load.getOffsets())
    offsets.push_back(mapping.lookup(offset));
  bool paired = offsets.size() == 2 && arePaired(load.getView(), load.getOffsets().back());
  return sm90::LoadOp::create(builder, load.getLoc(), type, mapping.lookup(load.getView()), offsets,
                              paired);
}

Value LazyCloner::get(Value value) {
  if (Value known = mapping.lookupOrNull(value))
    return known;
  Operation *op = value.getDefiningOp();
  assert(op && "a block argument that the schedule did not map");
  for (Value operand : op->getOperands())
    get(operand);
  if (auto load = dyn_cast<tile::LoadOp>(op)) {
    mapping.map(value, cloneLoad(builder, load, mapping, *convert(op, value.getType())));
    return mapping.lookup(value);
  }
  auto iota = dyn_cast<tile::IotaOp>(op);
  if (iota && isTransposed && iota.getType().getRank() == 2) {
    mapping.map(value, sm90::IotaOp::create(builder, iota.getLoc(), *convert(op, value.getType()),
                                            1 - iota.getDim()));
    return mapping.lookup(value);
  }
  [[maybe_unused]] LogicalResult cloned = cloneElementwise(builder, op, mapping, convert);
  assert(succeeded(cloned) && "the schedule has checked the ops of the kernel");
  return mapping.lookup(value);
}
