//===- SelectPattern.h - lowering of one step of a selection ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_SM90TONVVM_SELECTPATTERN_H
#define MLAC_LIB_CONVERSION_SM90TONVVM_SELECTPATTERN_H

#include "Search.h"

namespace mlac::sm90nvvm {

/// sm90.select_*: `emit` writes what all threads do, over the op's work where it has some, and
/// returns the op's results.
template <typename Op> struct SelectPattern : public KernelPattern<Op> {
  using KernelPattern<Op>::KernelPattern;
  using Adaptor = typename KernelPattern<Op>::OneToNOpAdaptor;
  using Results = llvm::SmallVector<Value, 2>;
  static constexpr bool kHasWork = requires(Op op) { op.getWork(); };
  using Code = std::conditional_t<kHasWork, Search, ThreadCode>;

  mlir::LogicalResult matchAndRewrite(Op op, Adaptor adaptor,
                                      ConversionPatternRewriter &rewriter) const final {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    const Kernel &kernel = this->getKernel(op);
    if constexpr (kHasWork) {
      Search code(b, kernel, adaptor.getWork()[0]);
      rewriter.replaceOp(op, emit(code, op, adaptor));
    } else {
      ThreadCode code(b, kernel);
      rewriter.replaceOp(op, emit(code, op, adaptor));
    }
    return mlir::success();
  }

private:
  virtual Results emit(Code &code, Op op, Adaptor adaptor) const = 0;
};

} // namespace mlac::sm90nvvm

#endif // MLAC_LIB_CONVERSION_SM90TONVVM_SELECTPATTERN_H
