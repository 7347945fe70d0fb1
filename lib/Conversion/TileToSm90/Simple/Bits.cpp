//===- Bits.cpp - tile.set_bits and test_bits by the threads of a CTA ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Simple/Bits.h"

#include "mla/Dialect/Sm90/Utils/Layout.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace mlac;

/// Of 32768 keys at a time: 16 programs of a multiprocessor have room for them.
static constexpr int64_t kBitWords = 1024;

void mlac::emitSetBits(OpBuilder &builder, tile::SetBitsOp setBits, const IRMapping &values) {
  ImplicitLocOpBuilder b(setBits.getLoc(), builder);
  auto type =
      sm90::SmemType::get(b.getContext(), {1, kBitWords}, b.getI32Type(), sm90::SmemLayout::Linear);
  Value work = sm90::AllocOp::create(b, type, /*offset=*/IntegerAttr());
  sm90::SetBitsOp::create(b, values.lookup(setBits.getList()), values.lookup(setBits.getRow()),
                          values.lookup(setBits.getFirst()), values.lookup(setBits.getOut()), work);
}

LogicalResult mlac::emitTestBits(OpBuilder &builder, tile::TestBitsOp test, Type type,
                                 IRMapping &values) {
  if (int64_t split = sm90::getColumnSplit(type); split > 1)
    return test.emitOpError("expected one warpgroup to have all columns on sm_90a, got ") << split;
  auto words =
      llvm::map_to_vector(test.getWords(), [&](Value word) { return values.lookup(word); });
  values.map(test.getResult(),
             sm90::TestBitsOp::create(builder, test.getLoc(), type, words).getResult());
  return success();
}
