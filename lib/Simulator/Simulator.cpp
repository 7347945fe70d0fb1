//===- Simulator.cpp - runs sm90 kernels and looks for defects ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Simulator/Simulator.h"

#include "Machine.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlac::simulator;
using namespace mlir;

StringRef mlac::simulator::stringify(Defect defect) {
  switch (defect) {
  case Defect::Race:
    return "race";
  case Defect::MissingProxyFence:
    return "missing proxy fence";
  case Defect::MissingWgmmaFence:
    return "missing wgmma fence";
  case Defect::MissingWait:
    return "missing wait";
  case Defect::WrongPhase:
    return "wrong phase";
  case Defect::BytesMismatch:
    return "bytes mismatch";
  case Defect::BarrierMismatch:
    return "barrier mismatch";
  case Defect::Deadlock:
    return "deadlock";
  case Defect::OutOfBounds:
    return "out of bounds";
  case Defect::Uninitialized:
    return "uninitialized";
  case Defect::Aliasing:
    return "aliasing";
  case Defect::RegisterOvercommit:
    return "register overcommit";
  case Defect::SharedOvercommit:
    return "shared-memory overcommit";
  case Defect::Unsupported:
    return "unsupported";
  }
  llvm_unreachable("all defects are listed");
}

void Finding::emit() const {
  // At the location, not at the op: nobody wants to see a whole kernel printed.
  InFlightDiagnostic diagnostic = emitError(op->getLoc()) << "'" << op->getName() << "' op ["
                                                          << stringify(defect) << "] " << text;
  for (const Note &note : notes)
    diagnostic.attachNote(note.op->getLoc()) << "'" << note.op->getName() << "': " << note.text;
}

std::optional<Finding> mlac::simulator::simulate(sm90::KernelOp kernel,
                                                 ArrayRef<Argument> arguments,
                                                 const Options &options) {
  if (options.checkRegisters)
    if (std::optional<Finding> finding = checkRegisters(kernel))
      return finding;
  int64_t cluster = kernel.getClusterSize();
  if (options.grid[0] % cluster != 0)
    return Finding{Defect::Unsupported,
                   kernel,
                   "has clusters of " + std::to_string(cluster) + " CTAs, a grid of " +
                       std::to_string(options.grid[0]) + " along x is no whole number of them",
                   {}};
  Machine machine(kernel, arguments, options);
  for (int64_t z = 0; z < options.grid[2]; ++z)
    for (int64_t y = 0; y < options.grid[1]; ++y)
      for (int64_t x = 0; x < options.grid[0]; x += cluster)
        if (auto finding = machine.run({x, y, z}, options.seed))
          return finding;
  return std::nullopt;
}
