//===- KernelOp.h - what the kernel ops of two levels share ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// tile.kernel and sm90.kernel have one syntax and one signature, the kernel ABI:
// flat buffers, 64-bit integers and f32 scalars in, nothing out. Neither level
// knows the other, so what they share stands here, in headers only.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DIALECT_KERNELOP_H
#define MLA_DIALECT_KERNELOP_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/FunctionImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mlac {

template <typename KernelOp>
mlir::ParseResult parseKernel(mlir::OpAsmParser &parser, mlir::OperationState &result) {
  auto buildFuncType = [](mlir::Builder &builder, llvm::ArrayRef<mlir::Type> args,
                          llvm::ArrayRef<mlir::Type> results,
                          mlir::function_interface_impl::VariadicFlag,
                          std::string &) { return builder.getFunctionType(args, results); };
  return mlir::function_interface_impl::parseFunctionOp(
      parser, result, /*allowVariadic=*/false, KernelOp::getFunctionTypeAttrName(result.name),
      buildFuncType, KernelOp::getArgAttrsAttrName(result.name),
      KernelOp::getResAttrsAttrName(result.name));
}

template <typename KernelOp> void printKernel(KernelOp kernel, mlir::OpAsmPrinter &printer) {
  mlir::function_interface_impl::printFunctionOp(
      printer, kernel, /*isVariadic=*/false, kernel.getFunctionTypeAttrName(),
      kernel.getArgAttrsAttrName(), kernel.getResAttrsAttrName());
}

/// Whether the body is a block that ends in the op. A body that was parsed may be missing,
/// or a block without any op.
template <typename ReturnOp> bool endsIn(mlir::Region &body) {
  return !body.empty() && !body.front().empty() && llvm::isa<ReturnOp>(body.front().back());
}

/// Checks the types that the kernel ABI can pass.
inline mlir::LogicalResult verifyKernelSignature(mlir::FunctionOpInterface kernel) {
  if (!kernel.getResultTypes().empty())
    return kernel.emitOpError("expected no results, got ") << kernel.getResultTypes().size();
  for (auto [index, type] : llvm::enumerate(kernel.getArgumentTypes())) {
    auto buffer = llvm::dyn_cast<mlir::MemRefType>(type);
    bool isBuffer = buffer && buffer.getRank() == 1 && buffer.isDynamicDim(0) &&
                    buffer.getLayout().isIdentity();
    if (!isBuffer && !type.isIndex() && !type.isF32())
      return kernel.emitOpError("expected argument ")
             << index << " to be memref<?xT>, index or f32, got " << type;
  }
  return mlir::success();
}

} // namespace mlac

#endif // MLA_DIALECT_KERNELOP_H
