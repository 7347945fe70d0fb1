//===- Barrier.cpp - waiting, meeting and ordering ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlac::sm90nvvm;

namespace {
struct Barrier : public KernelPattern<sm90::BarrierOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(sm90::BarrierOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    emitBarrier(b, getKernel(op));
    rewriter.eraseOp(op);
    return success();
  }
};

struct NamedBarrier : public OpConversionPattern<sm90::NamedBarrierOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::NamedBarrierOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Value id = constant32(b, op.getId()), threads = constant32(b, op.getWarps() * kWarpThreads);
    // nvvm.barrier.arrive would hand the number over in a register, for which the
    // assembler reserves all 16 barriers.
    if (op.getArrive())
      LLVM::CallIntrinsicOp::create(b,
                                    b.getStringAttr("llvm.nvvm.barrier.cta.arrive.aligned.count"),
                                    ValueRange{id, threads});
    else
      NVVM::BarrierOp::create(b, TypeRange(), id, threads, NVVM::BarrierReductionAttr(), Value());
    rewriter.eraseOp(op);
    return success();
  }
};

struct ClusterBarrier : public OpConversionPattern<sm90::ClusterBarrierOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::ClusterBarrierOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    emitClusterBarrier(b);
    rewriter.eraseOp(op);
    return success();
  }
};

struct WarpAny : public OpConversionPattern<sm90::WarpAnyOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::WarpAnyOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Value mine = arith::OrIOp::create(b, adaptor.getCondition()[0], adaptor.getCondition()[1]);
    rewriter.replaceOpWithNewOp<NVVM::VoteSyncOp>(op, b.getI1Type(), constant32(b, -1), mine,
                                                  NVVM::VoteSyncKind::any);
    return success();
  }
};

struct RoleAny : public KernelPattern<sm90::RoleAnyOp> {
  using KernelPattern::KernelPattern;
  LogicalResult matchAndRewrite(sm90::RoleAnyOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Value mine = adaptor.getCondition().front();
    for (Value other : adaptor.getCondition().drop_front())
      mine = arith::OrIOp::create(b, mine, other);
    rewriter.replaceOp(op, emitBarrierAny(b, getKernel(op), mine));
    return success();
  }
};

struct WaitDependency : public OpConversionPattern<sm90::WaitDependencyOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::WaitDependencyOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    emitDependencyWait(b);
    rewriter.eraseOp(op);
    return success();
  }
};

struct LaunchDependents : public OpConversionPattern<sm90::LaunchDependentsOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::LaunchDependentsOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<NVVM::GriddepcontrolOp>(op,
                                                        NVVM::GridDepActionKind::launch_dependents);
    return success();
  }
};

struct ProxyFence : public OpConversionPattern<sm90::ProxyFenceOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::ProxyFenceOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    MLIRContext *context = rewriter.getContext();
    rewriter.replaceOpWithNewOp<NVVM::FenceProxyOp>(
        op, NVVM::ProxyKindAttr::get(context, NVVM::ProxyKind::async_shared),
        NVVM::SharedSpaceAttr::get(context, NVVM::SharedSpace::shared_cta));
    return success();
  }
};

struct CopyCommit : public OpConversionPattern<sm90::CopyCommitOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::CopyCommitOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<NVVM::CpAsyncCommitGroupOp>(op);
    return success();
  }
};

struct CopyWait : public OpConversionPattern<sm90::CopyWaitOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::CopyWaitOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<NVVM::CpAsyncWaitGroupOp>(op, op.getPending());
    return success();
  }
};

struct Return : public OpConversionPattern<sm90::ReturnOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::ReturnOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<LLVM::ReturnOp>(op, ValueRange());
    return success();
  }
};

struct ProgramId : public OpConversionPattern<sm90::ProgramIdOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::ProgramIdOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Type i32 = b.getI32Type();
    Value id;
    if (op.getDim() == 0)
      id = NVVM::BlockIdXOp::create(b, i32);
    else if (op.getDim() == 1)
      id = NVVM::BlockIdYOp::create(b, i32);
    else
      id = NVVM::BlockIdZOp::create(b, i32);
    rewriter.replaceOpWithNewOp<arith::IndexCastUIOp>(op, b.getIndexType(), id);
    return success();
  }
};

struct ClusterRank : public OpConversionPattern<sm90::ClusterRankOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::ClusterRankOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Value rank = NVVM::ClusterId::create(b, b.getI32Type());
    rewriter.replaceOpWithNewOp<arith::IndexCastUIOp>(op, b.getIndexType(), rank);
    return success();
  }
};
} // namespace

void mlac::sm90nvvm::populateBarrierPatterns(const TypeConverter &converter,
                                             RewritePatternSet &patterns, const Kernel &kernel) {
  patterns.add<Barrier, RoleAny>(converter, patterns.getContext(), kernel);
  patterns.add<NamedBarrier, ClusterBarrier, ClusterRank, WarpAny, ProxyFence, CopyCommit, CopyWait,
               Return, ProgramId, WaitDependency, LaunchDependents>(converter,
                                                                    patterns.getContext());
}
