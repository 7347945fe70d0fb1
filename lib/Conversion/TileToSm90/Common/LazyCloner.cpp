//===- LazyCloner.cpp - clones what a value needs, where it is needed ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Common/LazyCloner.h"

using namespace mlir;
using namespace mlac;

Value LazyCloner::get(Value value) {
  if (Value known = mapping.lookupOrNull(value))
    return known;
  Operation *op = value.getDefiningOp();
  assert(op && "a block argument that the schedule did not map");
  for (Value operand : op->getOperands())
    get(operand);
  [[maybe_unused]] LogicalResult cloned = cloneElementwise(builder, op, mapping, convert);
  assert(succeeded(cloned) && "the schedule has checked the ops of the kernel");
  return mapping.lookup(value);
}
