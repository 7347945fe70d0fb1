//===- Ring.cpp - stages, their barriers and who waits for whom ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A stage is a slot and a phase, both i32; a ring is only its offsets. In a ring
// of one stage the slot is the constant 0 wherever it is used.
//
//===----------------------------------------------------------------------===//

#include "RingPattern.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlac::sm90nvvm;
using arith::CmpIPredicate;

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

namespace {
struct StageStart : public OpConversionPattern<sm90::StageStartOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::StageStartOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Value zero = constant32(b, 0);
    rewriter.replaceOpWithMultiple(op, {SmallVector<Value>{zero, zero}});
    return success();
  }
};

/// slot + 1, or 0 of the other phase behind the last slot.
struct StageNext : public OpConversionPattern<sm90::StageNextOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::StageNextOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    int64_t stages = op.getRing().getType().getStages();
    Int phase(b, adaptor.getStage()[1]);
    SmallVector<Value> next;
    if (stages == 1) {
      next = {constant32(b, 0), phase ^ 1};
    } else {
      Int slot = Int(b, adaptor.getStage()[0]) + 1;
      Value wraps = compare(b, CmpIPredicate::eq, slot, constant32(b, stages));
      Value flip = arith::ExtUIOp::create(b, b.getI32Type(), wraps);
      next = {selectOf(b, wraps, constant32(b, 0), slot), phase ^ Int(b, flip)};
    }
    rewriter.replaceOpWithMultiple(op, {next});
    return success();
  }
};

struct StageTile : public OpConversionPattern<sm90::StageTileOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(sm90::StageTileOp op, OneToNOpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    auto ring = op.getRing().getDefiningOp<sm90::RingOp>();
    if (!ring)
      return op.emitOpError("expected the result of a sm90.ring");
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    sm90::RingType type = op.getRing().getType();
    Int tile = constant32(
        b, (static_cast<int64_t>(*ring.getOffset()) + type.getTileOffset(op.getIndex())) /
               sm90::kDescriptorUnit);
    if (type.getStages() > 1)
      tile = Int(b, adaptor.getStage()[0]) * (type.getStageBytes() / sm90::kDescriptorUnit) + tile;
    rewriter.replaceOp(op, Value(tile));
    return success();
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Barriers
//===----------------------------------------------------------------------===//

Value mlac::sm90nvvm::getRingBarrier(ImplicitLocOpBuilder &b, const Kernel &kernel, Value ring,
                                     ValueRange stage, std::optional<int64_t> part) {
  auto definition = ring.getDefiningOp<sm90::RingOp>();
  if (!definition) {
    emitError(b.getLoc(), "expected the result of a sm90.ring");
    return Value();
  }
  sm90::RingType type = definition.getResult().getType();
  int64_t bytes = sm90::kBarrierBytes, perSlot = part ? type.getParts() : 1;
  int64_t first =
      *definition.getBarrierOffset() + bytes * (part ? *part : type.getStages() * type.getParts());
  Value address = moveAddress(b, kernel.shared, constant32(b, first));
  if (type.getStages() == 1)
    return address;
  return moveAddress(b, address, Int(b, stage[0]) * (perSlot * bytes));
}

static NVVM::MemScopeKindAttr getCtaScope(ImplicitLocOpBuilder &b) {
  return NVVM::MemScopeKindAttr::get(b.getContext(), NVVM::MemScopeKind::CTA);
}

/// Repeats `mbarrier.try_wait` until the phase of parity `parity` is complete.
static void emitWait(ImplicitLocOpBuilder &b, Value barrier, Value parity,
                     NVVM::MemScopeKind scope = NVVM::MemScopeKind::CTA) {
  auto loop = scf::WhileOp::create(b, TypeRange(), ValueRange());
  OpBuilder::InsertionGuard guard(b);
  b.createBlock(&loop.getBefore());
  Value isDone =
      NVVM::MBarrierTryWaitOp::create(b, b.getI1Type(), barrier, parity, Value(),
                                      NVVM::MemScopeKindAttr::get(b.getContext(), scope));
  Value isTrue = constant(b, b.getI1Type(), 1);
  scf::ConditionOp::create(b, arith::XOrIOp::create(b, isDone, isTrue), ValueRange());
  b.createBlock(&loop.getAfter());
  scf::YieldOp::create(b);
}

static void emitArrive(ImplicitLocOpBuilder &b, Value barrier) {
  NVVM::MBarrierArriveOp::create(b, TypeRange(), barrier, Value(), getCtaScope(b));
}

/// One arrival for the elected thread, or for each warp when all its lanes are
/// there.
static void emitArrivals(ImplicitLocOpBuilder &b, const Kernel &kernel, Operation *op,
                         Value barrier) {
  if (isElected(op))
    return emitArrive(b, barrier);
  emitWarpBarrier(b);
  emitIf(b, compare(b, CmpIPredicate::eq, kernel.lane, constant32(b, 0)),
         [&] { emitArrive(b, barrier); });
}

/// The same in every CTA of the cluster: lane r arrives in the CTA of rank r.
static void emitRemoteArrivals(ImplicitLocOpBuilder &b, const Kernel &kernel, Operation *op,
                               Value barrier,
                               void (*arrive)(ImplicitLocOpBuilder &, Value, Value)) {
  if (isElected(op)) {
    for (int64_t rank = 0; rank < kernel.cluster; ++rank)
      arrive(b, barrier, constant32(b, rank));
    return;
  }
  emitWarpBarrier(b);
  emitIf(b, compare(b, CmpIPredicate::ult, kernel.lane, constant32(b, kernel.cluster)),
         [&] { arrive(b, barrier, kernel.lane); });
}

namespace {
struct Acquire : public RingPattern<sm90::AcquireOp> {
  using RingPattern::RingPattern;
  void emit(ImplicitLocOpBuilder &b, const Kernel &kernel, sm90::AcquireOp op, Adaptor adaptor,
            Value barrier) const override {
    // A fresh barrier counts as being in phase 0 after a phase of parity 1.
    emitWait(b, barrier, Int(b, adaptor.getStage()[1]) ^ 1);
  }
};

struct Await : public RingPattern<sm90::AwaitOp> {
  using RingPattern::RingPattern;
  void emit(ImplicitLocOpBuilder &b, const Kernel &kernel, sm90::AwaitOp op, Adaptor adaptor,
            Value barrier) const override {
    emitWait(b, barrier, adaptor.getStage()[1],
             op.getRemote() ? NVVM::MemScopeKind::CLUSTER : NVVM::MemScopeKind::CTA);
  }
};

struct Expect : public RingPattern<sm90::ExpectOp> {
  using RingPattern::RingPattern;
  void emit(ImplicitLocOpBuilder &b, const Kernel &kernel, sm90::ExpectOp op, Adaptor adaptor,
            Value barrier) const override {
    NVVM::MBarrierArriveExpectTxOp::create(b, TypeRange(), barrier, constant32(b, op.getBytes()),
                                           getCtaScope(b), b.getBoolAttr(false), Value());
  }
};

struct Publish : public RingPattern<sm90::PublishOp> {
  using RingPattern::RingPattern;
  void emit(ImplicitLocOpBuilder &b, const Kernel &kernel, sm90::PublishOp op, Adaptor adaptor,
            Value barrier) const override {
    if (op.getRemote())
      return emitRemoteArrivals(b, kernel, op, barrier, emitRemotePublish);
    emitArrivals(b, kernel, op, barrier);
  }
};

struct CopyPublish : public RingPattern<sm90::CopyPublishOp> {
  using RingPattern::RingPattern;
  void emit(ImplicitLocOpBuilder &b, const Kernel &kernel, sm90::CopyPublishOp op, Adaptor adaptor,
            Value barrier) const override {
    NVVM::CpAsyncMBarrierArriveOp::create(b, barrier, b.getBoolAttr(true));
  }
};

struct Release : public RingPattern<sm90::ReleaseOp> {
  using RingPattern::RingPattern;
  void emit(ImplicitLocOpBuilder &b, const Kernel &kernel, sm90::ReleaseOp op, Adaptor adaptor,
            Value barrier) const override {
    if (op.getRemote())
      emitRemoteArrivals(b, kernel, op, barrier, emitRemoteArrive);
    else
      emitArrivals(b, kernel, op, barrier);
  }
};
} // namespace

void mlac::sm90nvvm::populateRingPatterns(const TypeConverter &converter,
                                          RewritePatternSet &patterns, const Kernel &kernel) {
  patterns.add<StageStart, StageNext, StageTile>(converter, patterns.getContext());
  patterns.add<Acquire, Await, Expect, Publish, CopyPublish, Release>(
      converter, patterns.getContext(), kernel);
}
