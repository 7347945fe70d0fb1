//===- KernelWork.h - what a launch computes and moves ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every program of a launch is followed, with the step's real sizes and metadata, but no
// tensor is computed: a tile is only how much of it is real (tiles reach beyond what they
// are loaded from, and are zero there). So what is counted is what the program says:
//
//   FLOPs     2 per multiply-add of products and attention, of real rows and columns
//   bytes     of device memory, each 32 bytes read or written counted once in the launch:
//             programs that read the same rows find them in a cache
//
// Rows that are chosen by data which exists only on the device (a selection) are counted as
// often as they are read.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_COMPILE_EXPLAIN_KERNELWORK_H
#define MLA_COMPILE_EXPLAIN_KERNELWORK_H

#include "Explain/PlannedStep.h"

#include "mla/Dialect/Tile/IR/TileDialect.h"

namespace mlac {

struct KernelWork {
  double flops = 0, readBytes = 0, writtenBytes = 0;
  /// Why it was not counted; else empty.
  std::string whyNot;

  double bytes() const { return readBytes + writtenBytes; }
};

KernelWork countWork(mlir::tile::KernelOp kernel, const StepLaunch &launch,
                     llvm::ArrayRef<StepBufferInfo> buffers);

} // namespace mlac

#endif // MLA_COMPILE_EXPLAIN_KERNELWORK_H
