//===- BatchSizes.h - arithmetic on sizes of a batch ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_DIALECT_MLA_TRANSFORMS_BATCHSIZES_H
#define MLAC_LIB_DIALECT_MLA_TRANSFORMS_BATCHSIZES_H

#include "mla/Dialect/Mla/IR/MlaDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mlir::mla {

/// Emits arithmetic on sizes of a batch. Every operation has its own statement where it is
/// used: the order of C++ arguments would decide the order of the IR.
class BatchSizes {
public:
  BatchSizes(OpBuilder &builder, Location loc, Value batch)
      : builder(builder), loc(loc), batch(batch) {}
  Value constant(int64_t value) { return arith::ConstantIndexOp::create(builder, loc, value); }
  Value batchDim(StringRef name) {
    return BatchDimOp::create(builder, loc, builder.getIndexType(), batch, name);
  }
  Value ceilDiv(Value value, Value divisor) {
    return arith::CeilDivSIOp::create(builder, loc, value, divisor);
  }
  Value ceilDiv(Value value, int64_t divisor) { return ceilDiv(value, constant(divisor)); }
  Value atLeastOne(Value value) { return arith::MaxSIOp::create(builder, loc, value, constant(1)); }
  Value minimum(Value a, Value b) { return arith::MinSIOp::create(builder, loc, a, b); }
  Value maximum(Value a, Value b) { return arith::MaxSIOp::create(builder, loc, a, b); }
  Value add(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b); }
  Value multiply(Value a, Value b) { return arith::MulIOp::create(builder, loc, a, b); }
  Value multiply(Value a, int64_t b) { return multiply(a, constant(b)); }
  Value subtract(Value a, Value b) { return arith::SubIOp::create(builder, loc, a, b); }
  Value divide(Value a, Value b) { return arith::DivSIOp::create(builder, loc, a, b); }
  Value isMore(Value a, Value b) {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, a, b);
  }
  Value isAtMost(Value a, Value b) {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, a, b);
  }
  Value isAtMost(Value a, int64_t b) { return isAtMost(a, constant(b)); }
  Value select(Value condition, Value a, Value b) {
    return arith::SelectOp::create(builder, loc, condition, a, b);
  }

protected:
  OpBuilder &builder;
  Location loc;
  Value batch;
};

} // namespace mlir::mla

#endif // MLAC_LIB_DIALECT_MLA_TRANSFORMS_BATCHSIZES_H
