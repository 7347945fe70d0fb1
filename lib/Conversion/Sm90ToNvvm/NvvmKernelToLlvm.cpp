//===- NvvmKernelToLlvm.cpp - scf, arith and index leave the kernels ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rest of the way to what LLVM's translation takes, for one function at a
// time so that kernels run in parallel: scf to branches, then arith, math, cf
// and the nvvm ops that are PTX text to the llvm dialect.
//
//===----------------------------------------------------------------------===//

#include "mla/Conversion/Passes.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Transforms/DialectConversion.h"

namespace mlac {
#define GEN_PASS_DEF_CONVERTNVVMKERNELTOLLVM
#include "mla/Conversion/Passes.h.inc"
} // namespace mlac

using namespace mlir;

/// What scf.for and the branches made of it call a loop's annotation.
static constexpr StringLiteral kLoopAnnotationAttr = "llvm.loop_annotation";

static LogicalResult branchInsteadOfScf(LLVM::LLVMFuncOp function) {
  RewritePatternSet patterns(function.getContext());
  populateSCFToControlFlowConversionPatterns(patterns);
  ConversionTarget target(*function.getContext());
  target.addIllegalDialect<scf::SCFDialect>();
  target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
  return applyPartialConversion(function, target, std::move(patterns));
}

static LogicalResult convertToLlvm(LLVM::LLVMFuncOp function) {
  MLIRContext *context = function.getContext();
  LLVMTypeConverter converter(context);
  RewritePatternSet patterns(context);
  arith::populateCeilFloorDivExpandOpsPatterns(patterns);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  populateMathToLLVMConversionPatterns(converter, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  populateNVVMToLLVMConversionPatterns(patterns);
  LLVMConversionTarget target(*context);
  target.addLegalOp<LLVM::LLVMFuncOp>();
  target.addIllegalDialect<arith::ArithDialect, cf::ControlFlowDialect, math::MathDialect>();

  // Ops that are PTX text have no translation to LLVM IR of their own, unless
  // LLVM also has an intrinsic for them.
  target.addDynamicallyLegalDialect<NVVM::NVVMDialect>([](Operation *op) {
    auto text = dyn_cast<NVVM::BasicPtxBuilderInterface>(op);
    return !text || text.hasIntrinsic();
  });
  return applyPartialConversion(function, target, std::move(patterns));
}

/// Loops hand their annotation to the branch back as a discardable attribute; the
/// translation to LLVM IR reads the op's own.
static void keepLoopAnnotations(LLVM::LLVMFuncOp function) {
  function.walk([](LLVM::BrOp branch) {
    if (auto annotation =
            branch->getAttrOfType<LLVM::LoopAnnotationAttr>(kLoopAnnotationAttr)) {
      branch->removeAttr(kLoopAnnotationAttr);
      branch.setLoopAnnotationAttr(annotation);
    }
  });
}

namespace {
class ConvertNvvmKernelToLlvm
    : public mlac::impl::ConvertNvvmKernelToLlvmBase<ConvertNvvmKernelToLlvm> {
public:
  void runOnOperation() override {
    LLVM::LLVMFuncOp function = getOperation();
    if (!function->hasAttr(NVVM::NVVMDialect::getKernelFuncAttrName()))
      return;
    if (failed(branchInsteadOfScf(function)) || failed(convertToLlvm(function)))
      return signalPassFailure();
    keepLoopAnnotations(function);
    SmallVector<UnrealizedConversionCastOp> casts;
    function.walk([&](UnrealizedConversionCastOp cast) { casts.push_back(cast); });
    reconcileUnrealizedCasts(casts);
  }
};
} // namespace
