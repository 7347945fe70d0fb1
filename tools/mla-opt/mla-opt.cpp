//===- mla-opt.cpp - runs passes over mlac's IR ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/RegisterAll.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlac::registerAllDialects(registry);
  mlac::registerAllPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "mlac optimiser driver\n", registry));
}
