//===- ModelDescription.h - what a package says of its model ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Model, cache layout, rotary embedding and tensors are read off the IR, so
// that a configuration and a module written by hand give the same package. What no
// operation holds stands in the module's #mla.model.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_PACKAGE_MODELDESCRIPTION_H
#define MLA_PACKAGE_MODELDESCRIPTION_H

#include "package_generated.h"

#include "mla/Dialect/Mla/IR/MlaDialect.h"

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace mlac {

/// The module's own, or what one without it is.
mlir::mla::ModelAttr getModel(mlir::ModuleOp module);

/// Fills model, cache, rope and weights from a module of phase 1 of the `mla`
/// dialect: step functions with one `mla.attention` each, that agree on
/// everything described here.
mlir::LogicalResult describeModel(mlir::ModuleOp module, package::PackageT &package);

/// Adds the derived tensors of a module's plans that `package` does not list.
mlir::LogicalResult addDerivedTensors(mlir::ModuleOp tileModule, package::PackageT &package);

} // namespace mlac

#endif // MLA_PACKAGE_MODELDESCRIPTION_H
