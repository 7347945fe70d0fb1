//===- TileToLlvmPasses.cpp - tile kernels to the llvm dialect ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Conversion/Passes.h"
#include "mla/Target/Cpu/CompileKernels.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void mlac::addTileToLlvmPasses(OpPassManager &passes, int64_t lanes) {
  ConvertTileToCpuOptions options;
  options.lanes = lanes;
  passes.addPass(createConvertTileToCpu(options));
  // Nested, so that kernels are lowered in parallel.
  OpPassManager &kernels = passes.nest<LLVM::LLVMFuncOp>();
  kernels.addPass(createCSEPass());
  kernels.addPass(createSCFToControlFlowPass());
  kernels.addPass(createConvertVectorToLLVMPass());
  kernels.addPass(createConvertMathToLLVMPass());
  kernels.addPass(createArithToLLVMConversionPass());
  passes.addPass(createConvertControlFlowToLLVMPass()); // takes modules only
  passes.nest<LLVM::LLVMFuncOp>().addPass(createReconcileUnrealizedCastsPass());
}

namespace {
struct CpuPipelineOptions : PassPipelineOptions<CpuPipelineOptions> {
  Option<int64_t> lanes{*this, "lanes",
                        llvm::cl::desc("f32 elements of one vector register: 8 or 16"),
                        llvm::cl::init(8)};
};
} // namespace

void mlac::registerCpuPipeline() {
  PassPipelineRegistration<CpuPipelineOptions>(
      "tile-to-cpu-llvm", "Lowers tile kernels to the llvm dialect for x86-64.",
      [](OpPassManager &passes, const CpuPipelineOptions &options) {
        addTileToLlvmPasses(passes, options.lanes);
      });
}
