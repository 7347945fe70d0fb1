//===- DenseAttentionLoop.h - the parts of an expanded-attention kernel ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Like AttentionLoop.h, for keys and values that lie densely in memory, per head:
//
//     for request                                        requests  } by
//       for item of the request                          items     } tile-loop-
//         for program in 0 .. 2, side by side            programs  } over-programs
//           q_t = load                                   terms[t].query
//           state = f(load), or nothing yet              starts
//           for block in first .. last                   keys
//             k_t = load                                 terms[t].keys
//             scores = sum over t of q_t · k_tᵀ          terms[t].dot
//             scores = select(seen, scores, -inf)        mask
//             ...                                        as in AttentionLoop.h
//             output = output + weights · v              product, values
//           store f(output, state)
//
// The blocks of such a loop may be taken in any order and be of any width: what it
// carries are a maximum, a sum and products relative to it, and the position is
// used for loads and for the mask only. Both are checked.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_COMMON_DENSEATTENTIONLOOP_H
#define MLAC_LIB_CONVERSION_TILETOSM90_COMMON_DENSEATTENTIONLOOP_H

#include "Common/AttentionLoop.h"

namespace mlac {

struct DenseAttentionLoop : SoftmaxLoop {
  struct Term {
    mlir::tile::LoadOp query; // [rows, width], outside of the key loop
    mlir::tile::LoadOp keys;  // [block, width], inside
    mlir::tile::DotOp dot;
    int64_t getWidth() { return keys.getType().getDimSize(1); }
  };

  llvm::SmallVector<Term, 2> terms;
  mlir::tile::LoadOp values;
  /// What the loop's carried values are computed from: a partial's output and LSE.
  llvm::SmallVector<mlir::tile::LoadOp, 2> starts;
  /// Null before tile-loop-over-programs.
  mlir::scf::ForOp requests, items, programs;
  /// The argument with tile.item_counters; null before, too.
  mlir::Value counters;

  int64_t getBlockKeys() { return values.getType().getDimSize(0); }
  mlir::Type getElementType() { return values.getType().getElementType(); }
};

/// The loop of `kernel`, or nothing and in `why` what does not fit.
std::optional<DenseAttentionLoop> matchDenseAttentionLoop(mlir::tile::KernelOp kernel,
                                                          std::string &why);

} // namespace mlac

#endif // MLAC_LIB_CONVERSION_TILETOSM90_COMMON_DENSEATTENTIONLOOP_H
