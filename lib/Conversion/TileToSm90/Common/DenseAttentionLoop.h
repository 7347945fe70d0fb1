//===- DenseAttentionLoop.h - attention over dense rows, divided among roles ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Like AttentionLoop.h, for programs that compute a tile of one head's queries each, over keys
// and values that lie densely in memory or in pages:
//
//     for request                                        requests  } by
//       for item of the request                          items     } tile-loop-
//         for program in 0 .. 2, side by side            programs  } over-programs
//           q_t = load                                   terms[t].query
//           state = f(load), or nothing yet              starts
//           for block in first .. last                   ExpandAttend.h
//             k_t = load, or load_paged                  terms[t].keys
//             v = load, or load_paged                    values
//             ...
//           store f(output, state)
//
// The blocks of such a loop may be taken in any order and be of any width: what it
// carries are a reference, a sum and products relative to it, and the position is
// used for loads and for the mask only.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_COMMON_DENSEATTENTIONLOOP_H
#define MLAC_LIB_CONVERSION_TILETOSM90_COMMON_DENSEATTENTIONLOOP_H

#include "Common/AttentionLoop.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace mlac {

struct DenseAttentionLoop : SoftmaxLoop {
  struct Term {
    mlir::tile::LoadOp query; // [rows, width], outside of the key loop
    mlir::Operation *keys;    // tile.load or load_paged of [block, width], inside
  };

  llvm::SmallVector<Term, 2> terms;
  mlir::Operation *values;
  /// Whether keys lie in pages, and whether rows see none before a window.
  bool isPaged, hasWindow;
  /// The last key that a program's first row sees, where that need not be a block's first since
  /// cached keys come before it; else null.
  mlir::Value diagonal;
  /// What the loop's carried values are computed from: a partial's output and LSE.
  llvm::SmallVector<mlir::tile::LoadOp, 2> starts;
  mlir::scf::ForOp requests, items, programs;
  /// Whether all requests have as many items.
  bool isUniform;
  /// What the loop over keys reads of a request from memory.
  llvm::SmallVector<mlir::memref::LoadOp, 8> requestLoads;
  /// The argument with tile.item_counters.
  mlir::Value counters;
};

/// Whether programs go over what `attend` stands in as tile-loop-over-programs leaves it.
bool isLoopedOver(mlir::tile::AttendOp attend);

/// Expands it. Precondition: isLoopedOver, and its start comes from loads.
DenseAttentionLoop expandDense(mlir::tile::AttendOp attend);

/// The loads that the start of `attend` is computed from, or nothing and in `why` what else
/// it comes from.
std::optional<llvm::SmallVector<mlir::tile::LoadOp, 2>> findStarts(mlir::tile::AttendOp attend,
                                                                   std::string &why);

} // namespace mlac

#endif // MLAC_LIB_CONVERSION_TILETOSM90_COMMON_DENSEATTENTIONLOOP_H
