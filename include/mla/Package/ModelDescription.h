//===- ModelDescription.h - what a package says of its model ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Model, cache layout, rotary embedding and tensors are read off the IR, so
// that a configuration and a module written by hand give the same package. Only
// what IR does not hold comes from outside: the model's type, the number of
// ranks and the configuration's text.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_PACKAGE_MODELDESCRIPTION_H
#define MLA_PACKAGE_MODELDESCRIPTION_H

#include "package_generated.h"

#include "mlir/Support/LLVM.h"
#include <string>

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace mlac {

struct ModelOrigin {
  std::string modelType = "custom";
  std::string configText; // "" where there is none
  int64_t tensorParallel = 1;
  /// Longest position + 1 of a model without rotary embedding.
  int64_t positions = 131072;
};

/// Fills model, cache, rope and weights from a module of phase 1 of the `mla`
/// dialect: step functions with one `mla.attention` each, that agree on
/// everything described here.
mlir::LogicalResult describeModelFromIr(mlir::ModuleOp module, const ModelOrigin &origin,
                                        package::PackageT &package);

/// Adds the derived tensors of a module's plans that `package` does not list.
mlir::LogicalResult addDerivedTensors(mlir::ModuleOp tileModule, package::PackageT &package);

} // namespace mlac

#endif // MLA_PACKAGE_MODELDESCRIPTION_H
