//===- RegisterAll.cpp - what every mlac tool registers ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/RegisterAll.h"

#include "mla/Conversion/Passes.h"
#include "mla/Dialect/Graph/IR/GraphDialect.h"
#include "mla/Dialect/Mla/IR/MlaDialect.h"
#include "mla/Dialect/Mla/Transforms/Passes.h"
#include "mla/Dialect/Sm90/IR/Sm90Dialect.h"
#include "mla/Dialect/Sm90/Transforms/Passes.h"
#include "mla/Dialect/Tile/IR/TileDialect.h"
#include "mla/Dialect/Tile/Transforms/Passes.h"
#include "mla/Import/Passes.h"
#include "mla/Pipelines/Pipelines.h"
#include "mla/Simulator/Passes.h"
#include "mla/Target/Cpu/CompileKernels.h"
#include "mla/Target/Nvptx/CompileKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Transforms/Passes.h"

void mlac::registerAllDialects(mlir::DialectRegistry &registry) {
  registry.insert<mlir::graph::GraphDialect, mlir::mla::MlaDialect, mlir::sm90::Sm90Dialect,
                  mlir::tile::TileDialect>();
  registry.insert<mlir::arith::ArithDialect, mlir::cf::ControlFlowDialect, mlir::func::FuncDialect,
                  mlir::LLVM::LLVMDialect, mlir::math::MathDialect, mlir::memref::MemRefDialect,
                  mlir::NVVM::NVVMDialect, mlir::scf::SCFDialect, mlir::tensor::TensorDialect,
                  mlir::vector::VectorDialect>();
  registerCpuTranslations(registry);
  registerNvptxTranslations(registry);
}

void mlac::registerAllPasses() {
  mlir::registerTransformsPasses();
  mlac::registerConvertSm90ToNvvm();
  mlac::registerConvertNvvmKernelToLlvm();
  mlir::sm90::registerMlacSm90Passes();
  mlir::tile::registerMlacTilePasses();
  mlac::registerTilePlanSchedules();
  mlac::registerConvertTileToSm90();
  mlac::registerMlacImportPasses();
  mlir::mla::registerMlaTransformsPasses();
  mlac::registerConvertTileToCpu();
  mlac::registerCpuPipeline();
  mlac::registerConvertMlaToTile();
  mlac::registerPipelines();
  mlac::simulator::registerMlacSimulatorPasses();
}
