//===- TokenRows.h - rows of tokens, or of their heads ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Operations on the rows of a tensor take [T, D] and [T, N, D] alike. Rows of a tile are
//
//     [T, D]      tokens
//     [T, N, D]   heads of one token
//
// A program has a tile of rows and one block of columns, its z.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_MLATOTILE_INDEXER_TOKENROWS_H
#define MLAC_LIB_CONVERSION_MLATOTILE_INDEXER_TOKENROWS_H

#include "Plan/StepLowering.h"

namespace mlac::mla_to_tile {

class TokenRows {
public:
  TokenRows(StepLowering &step, const TensorRef &ref)
      : tileRows(ref.rank() == 3 ? step.shapes.rowsFor(ref.size(1)) : step.shapes.rows),
        heads(ref.rank() == 3 ? ref.size(1) : 0), tokens(step.value(ref.sizes[0])) {}

  std::array<mlir::Value, 3> grid(StepLowering &step, int64_t blocks) const {
    if (heads)
      return {tokens, step.constant(llvm::divideCeil(heads, tileRows)), step.constant(blocks)};
    return {step.ceilDiv(tokens, tileRows), step.constant(1), step.constant(blocks)};
  }
  /// The number of tokens, to be passed to the kernel.
  mlir::Value count() const { return tokens; }

  /// `width` columns `first`, `first + every`, ... of a tensor with these rows, in a kernel that
  /// got `count` as `tokens`. Outside of it loads give 0 and stores drop.
  mlir::Value view(KernelBuilder &b, mlir::Value buffer, const TensorRef &ref, mlir::Value tokens,
                   mlir::Value first, int64_t width, int64_t every = 1) const {
    int64_t stride = ref.strides.back();
    mlir::Value base = b.mul(first, stride);
    if (heads)
      base = b.add(b.mul(b.programId(0), ref.strides[0]), base);
    mlir::OpFoldResult rows = heads ? b.fixed(heads) : mlir::OpFoldResult(tokens);
    return b.view(buffer, b.extent(base, ref.offset), {rows, b.fixed(width)},
                  {b.fixed(ref.strides[ref.rank() - 2]), b.fixed(every * stride)});
  }
  /// The scales of group `first` of the tile's rows, which are tokens or `groups` each of a token's
  /// heads, from the tile's first row on.
  mlir::Value viewScales(KernelBuilder &b, mlir::Value buffer, const CodeScales &scales,
                         mlir::Value tokens, mlir::Value first, int64_t groups) const {
    mlir::Value row = this->first(b), base = b.mul(first, scales.groupStride());
    base = b.add(scales.place(b, heads ? b.programId(0) : row), base);
    int64_t ofHead = groups * scales.groupStride();
    mlir::Value left = b.sub(heads ? b.index(heads) : tokens, row);
    if (heads)
      base = b.add(base, b.mul(row, ofHead));
    return b.view(buffer, b.extent(base), {mlir::OpFoldResult(left), b.fixed(1)},
                  {b.fixed(heads ? ofHead : scales.rowStride()), b.fixed(1)});
  }
  /// The tile's first row.
  mlir::Value first(KernelBuilder &b) const { return b.mul(b.programId(heads ? 1 : 0), tileRows); }

  const int64_t tileRows;

private:
  int64_t heads; // 0: rows are tokens
  mlir::Value tokens;
};

} // namespace mlac::mla_to_tile

#endif // MLAC_LIB_CONVERSION_MLATOTILE_INDEXER_TOKENROWS_H
