//===- MachineAttr.cpp - the machine that a module is scheduled for ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Tile/IR/MachineAttr.h"

#include "mla/Dialect/Tile/IR/TileDialect.h"

#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace mlir::tile;

static const mlac::TargetDescription *find(StringRef name) {
  for (const mlac::TargetDescription &machine : mlac::getKnownTargets())
    if (machine.name == name)
      return &machine;
  return nullptr;
}

const mlac::TargetDescription &tile::getMachine(Operation *op) {
  auto module = isa<ModuleOp>(op) ? cast<ModuleOp>(op) : op->getParentOfType<ModuleOp>();
  auto name = module ? module->getAttrOfType<StringAttr>(kMachineAttr) : StringAttr();
  const mlac::TargetDescription *machine = name ? find(name.getValue()) : nullptr;
  return machine ? *machine : mlac::getScheduledMachine();
}

static LogicalResult verifyMachine(Operation *op, Attribute value) {
  if (!isa<ModuleOp>(op))
    return op->emitOpError() << kMachineAttr << " is for modules";
  auto name = dyn_cast<StringAttr>(value);
  if (name && find(name.getValue()))
    return success();
  InFlightDiagnostic error = op->emitOpError()
                             << kMachineAttr << ": expected the name of a machine, got " << value
                             << "; known:";
  for (const mlac::TargetDescription &machine : mlac::getKnownTargets())
    error << " " << machine.name;
  return error;
}

LogicalResult TileDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() == kMachineAttr)
    return verifyMachine(op, attribute.getValue());
  return success();
}
