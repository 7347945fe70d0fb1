//===- MachineAttr.cpp - the machine that a module is scheduled for ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Dialect/Tile/IR/MachineAttr.h"

#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace mlir::tile;
using mlac::Real;

MachineAttr tile::makeMachineAttr(MLIRContext *context, const mlac::TargetDescription &machine) {
  std::optional<mlac::TargetDescription> known = mlac::findTargetDescription(machine.name);
  assert(known && "a machine by a name that nobody knows");
  std::optional<int64_t> numSms;
  if (machine.numSms != known->numSms)
    numSms = machine.numSms;
  auto differing = [&](double mlac::TargetDescription::*rate) -> std::optional<Real> {
    return machine.*rate == (*known).*rate ? std::nullopt : std::optional<Real>(machine.*rate);
  };
  return MachineAttr::get(context, machine.name, numSms,
                          differing(&mlac::TargetDescription::matmulTflops),
                          differing(&mlac::TargetDescription::readGbps),
                          differing(&mlac::TargetDescription::launchMicroseconds));
}

mlac::TargetDescription tile::getMachine(Operation *op) {
  auto module = isa<ModuleOp>(op) ? cast<ModuleOp>(op) : op->getParentOfType<ModuleOp>();
  auto given = module ? module->getAttrOfType<MachineAttr>(kMachineAttr) : MachineAttr();
  if (!given)
    return mlac::getScheduledMachine();
  mlac::TargetDescription machine = *mlac::findTargetDescription(given.getName());
  machine.numSms = given.getNumSms().value_or(machine.numSms);
  machine.matmulTflops = given.getMatmulTflops().value_or(machine.matmulTflops);
  machine.readGbps = given.getReadGbps().value_or(machine.readGbps);
  machine.launchMicroseconds = given.getLaunchUs().value_or(machine.launchMicroseconds);
  return machine;
}

LogicalResult MachineAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringRef name,
                                  std::optional<int64_t> numSms, std::optional<Real> matmulTflops,
                                  std::optional<Real> readGbps, std::optional<Real> launchUs) {
  if (numSms && *numSms < 1)
    return emitError() << "num_sms: expected at least 1, got " << *numSms;
  for (auto [rate, rateName] :
       {std::pair(matmulTflops, "matmul_tflops"), std::pair(readGbps, "read_gbps")})
    if (rate && !(*rate > 0))
      return emitError() << rateName << ": expected a rate above 0, got " << rate->value;
  if (launchUs && !(*launchUs >= 0))
    return emitError() << "launch_us: expected at least 0, got " << launchUs->value;
  if (mlac::findTargetDescription(name))
    return success();
  InFlightDiagnostic error = emitError()
                             << "expected the name of a machine, got \"" << name << "\"; known:";
  for (const mlac::TargetDescription &machine : mlac::getKnownTargets())
    error << " " << machine.name;
  return error;
}
