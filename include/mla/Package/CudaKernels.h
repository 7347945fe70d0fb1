//===- CudaKernels.h - kernels of a GPU in a package ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How a kernel is launched stands on its function: threads, shared memory and the tensor
// maps that each launch encodes, as the conversion to nvvm leaves them.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_PACKAGE_CUDAKERNELS_H
#define MLA_PACKAGE_CUDAKERNELS_H

#include "package_generated.h"

#include "mlir/Support/LLVM.h"

#include <string>
#include <vector>

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace mlac {

struct CudaKernelCode {
  std::string name;
  std::vector<char> bytes;
  int64_t registers;
};

/// Adds a compiled kernel of `nvvm` and its code to the target.
mlir::LogicalResult addCudaKernel(mlir::ModuleOp nvvm, const CudaKernelCode &code,
                                  package::TargetT &target);

} // namespace mlac

#endif // MLA_PACKAGE_CUDAKERNELS_H
