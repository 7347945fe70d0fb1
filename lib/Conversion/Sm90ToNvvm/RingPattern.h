//===- RingPattern.h - ops on a barrier of a ring ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_SM90TONVVM_RINGPATTERN_H
#define MLAC_LIB_CONVERSION_SM90TONVVM_RINGPATTERN_H

#include "Lowering.h"

namespace mlac::sm90nvvm {

/// A pattern that replaces an op by what `emit` does with the barrier of the op's stage:
/// that of its part, or for ops without one that of the free slot.
template <typename Op> struct RingPattern : public KernelPattern<Op> {
  using KernelPattern<Op>::KernelPattern;
  using Adaptor = typename KernelPattern<Op>::OneToNOpAdaptor;

  mlir::LogicalResult matchAndRewrite(Op op, Adaptor adaptor,
                                      ConversionPatternRewriter &rewriter) const final {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    const Kernel &kernel = this->getKernel(op);
    std::optional<int64_t> part;
    if constexpr (requires { op.getPart(); })
      part = op.getPart();
    Value barrier = getRingBarrier(b, kernel, op.getRing(), adaptor.getStage(), part);
    if (!barrier)
      return mlir::failure();
    emit(b, kernel, op, adaptor, barrier);
    rewriter.eraseOp(op);
    return mlir::success();
  }

private:
  virtual void emit(ImplicitLocOpBuilder &b, const Kernel &kernel, Op op, Adaptor adaptor,
                    Value barrier) const = 0;
};

} // namespace mlac::sm90nvvm

#endif // MLAC_LIB_CONVERSION_SM90TONVVM_RINGPATTERN_H
