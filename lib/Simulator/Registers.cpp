//===- Registers.cpp - budgets against what fragments need ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Machine.h"

#include "mla/Dialect/Sm90/Transforms/RegisterEstimate.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlac::simulator;
using namespace mlir;
using namespace mlir::sm90;

std::optional<Finding> mlac::simulator::checkRegisters(KernelOp kernel) {
  for (RoleOp role : kernel.getBody().getOps<RoleOp>()) {
    if (!role.getRegisters())
      continue;
    RegisterEstimate estimate = estimateRegisters(role.getBody().front());
    if (!estimate.peak || estimate.getTotal() <= *role.getRegisters())
      continue;
    return Finding{
        Defect::RegisterOvercommit,
        estimate.peak,
        llvm::formatv("needs about {0} registers, {1} of them for the fragments that live here, "
                      "but a thread of role '{2}' has {3}",
                      estimate.getTotal(), estimate.fragments, role.getName(),
                      *role.getRegisters()),
        {{role, "the role"}}};
  }
  return std::nullopt;
}
