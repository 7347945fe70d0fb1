//===- PlanSerializer.h - tile.plan to package function ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns the host side of a package function into data.
//
//   tile.plan                               package function
//   tile.dim, arith on index                nodes of `exprs`
//   tile.buffer, tile.workspace             `buffers`; workspaces get offsets
//   scf.for 0 to %n step 1                  Loop, induction variable LoopVar
//   scf.if                                  Branch
//   tile.launch                             Launch
//
// Dead values are left out. An optional string attribute `label` on tile.launch
// and scf.if becomes the step's label. What cannot be expressed is an error at
// the op.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_PACKAGE_PLANSERIALIZER_H
#define MLA_PACKAGE_PLANSERIALIZER_H

#include "package_generated.h"

#include "mlir/IR/Types.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringMap.h"
#include <memory>
#include <optional>

namespace mlir::tile {
class PlanOp;
} // namespace mlir::tile

namespace mlac {

/// Kernel symbol to index into the target's `kernels`. Several symbols may
/// name one kernel: equal kernels are compiled once.
using KernelIndex = llvm::StringMap<uint32_t>;

mlir::FailureOr<std::unique_ptr<package::FunctionT>> serializePlan(mlir::tile::PlanOp plan,
                                                                   const KernelIndex &kernels);

/// The package's name of an element type; nothing when it has none.
std::optional<package::DataType> getPackageDataType(mlir::Type type);

/// Bytes of one element.
int64_t getDataTypeBytes(package::DataType type);

} // namespace mlac

#endif // MLA_PACKAGE_PLANSERIALIZER_H
