//===- PlanRunner.h - runs steps of the mla dialect in a test ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Converts a module of step functions to tile for the CPU, compiles the kernels
// and interprets the plans on the test's buffers, so that single operations can
// be checked without a package and a runtime. Workspaces start as NaN bits.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_TEST_UNIT_CONVERSION_MLATOTILE_PLANRUNNER_H
#define MLAC_TEST_UNIT_CONVERSION_MLATOTILE_PLANRUNNER_H

#include "KernelRunner.h"

#include "mla/Dialect/Tile/IR/TileDialect.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlac::test {

using Dims = std::map<std::string, int64_t>;
/// Buffers of the plan by name, whatever their kind.
using Buffers = std::map<std::string, Argument>;

class Steps {
public:
  /// Null, with a test failure, when the module does not convert or compile.
  static std::unique_ptr<Steps> compile(const std::string &text);

  void run(const std::string &plan, const Dims &dims, const Buffers &buffers);

private:
  struct Frame;
  void runBlock(mlir::Block &block, Frame &frame);
  void runOp(mlir::Operation &op, Frame &frame);
  void runArithmetic(mlir::Operation &op, Frame &frame);
  void launch(mlir::tile::LaunchOp op, Frame &frame);

  Steps();
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::unique_ptr<KernelImage> image;
};

} // namespace mlac::test

#endif // MLAC_TEST_UNIT_CONVERSION_MLATOTILE_PLANRUNNER_H
