//===- HostValue.h - what the host knows of a kernel's values ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_SM90_IR_HOSTVALUE_H
#define MLA_DIALECT_SM90_IR_HOSTVALUE_H

#include "mlir/IR/OpDefinition.h"

namespace mlir::sm90 {

/// Whether `value` is an argument of a kernel, here or at a level above.
bool isKernelArgument(Value value);

/// Whether the host can compute `value` from the kernel's arguments: a constant, an
/// argument, or an argument times a constant.
bool isHostValue(OpFoldResult value);

} // namespace mlir::sm90

#endif // MLA_DIALECT_SM90_IR_HOSTVALUE_H
