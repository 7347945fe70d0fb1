//===- ModuleTarget.h - the machine that a module names ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_MLA_IR_MODULETARGET_H
#define MLA_DIALECT_MLA_IR_MODULETARGET_H

#include "mla/Dialect/Mla/IR/MlaDialect.h"
#include "mla/Machine/TargetDescription.h"
#include "mla/Machine/Targets.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::mla {

/// On a module (#mla.target): the rates that decisions by cost are made with.
inline constexpr llvm::StringLiteral kTargetAttr = "mla.target";

/// What `attribute` says of a machine; the rates that it does not carry, and the name where
/// nobody knows its own, are those of the known machine of its name, or else of `base`.
inline mlac::TargetDescription readTarget(TargetAttr attribute,
                                          const mlac::TargetDescription &base) {
  mlac::TargetDescription target = mlac::findTargetDescription(attribute.getName()).value_or(base);
  target.numSms = attribute.getNumSms();
  target.matmulTflops = attribute.getMatmulTflops();
  target.readGbps = attribute.getReadGbps();
  target.launchMicroseconds = attribute.getLaunchUs();
  return target;
}

/// The machine that code for `target` is made for: the one that the module names, with the rates
/// that it gives, unless that is known to be of another chip than the target's.
inline mlac::TargetDescription findMachine(ModuleOp module, mlac::TileTarget target) {
  const mlac::TargetDescription &usual = mlac::getMachineOf(mlac::getInfo(target).chip);
  auto named = module->getAttrOfType<TargetAttr>(kTargetAttr);
  if (!named)
    return usual;
  // Who is not known is another machine of the chip that kernels are scheduled for.
  mlac::TargetDescription machine = readTarget(named, mlac::getScheduledMachine());
  return machine.chip == usual.chip ? machine : usual;
}

} // namespace mlir::mla

#endif // MLA_DIALECT_MLA_IR_MODULETARGET_H
