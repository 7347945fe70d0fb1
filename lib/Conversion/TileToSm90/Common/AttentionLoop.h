//===- AttentionLoop.h - the parts of an absorbed-attention kernel ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds, by structure, what warp-specialised schedules divide among roles:
//
//     for item in work                                   items
//       q_t = load                                       terms[t].query
//       for block in first .. last                       keys
//         k_t = load_paged(pool, table, 64 · block)      terms[t].keys
//         scores = sum over t of q_t · k_tᵀ              terms[t].dot
//         scores = select(seen, scores, -inf)            mask (may be absent)
//         weights = narrow(f(scores, state))             weights
//         output = output · broadcast(correction)        rescale, correction
//         output = output + weights · k_0                product
//       store f(output, state)
//
// What f is does not matter: schedules clone its ops.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_COMMON_ATTENTIONLOOP_H
#define MLAC_LIB_CONVERSION_TILETOSM90_COMMON_ATTENTIONLOOP_H

#include "mla/Dialect/Tile/IR/TileDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

#include <optional>
#include <string>

namespace mlac {

/// What becomes of scores, however they came about.
struct SoftmaxLoop {
  mlir::tile::KernelOp kernel;
  mlir::scf::ForOp keys;
  mlir::Value scores;
  mlir::arith::SelectOp mask;
  mlir::Value weights;    // the product's left operand
  mlir::Value numerators; // what `weights` narrows, f32
  mlir::Value correction; // rows
  mlir::arith::MulFOp rescale;
  mlir::tile::DotOp product;
  unsigned outputIndex = 0; // of the key loop's carried values

  /// A carried row vector whose next value is `carried · factor + sum(tile)`: its
  /// sum over columns can be finished once, after the loop.
  struct RunningSum {
    unsigned index;
    mlir::arith::AddFOp add;
    mlir::Value factor;
    mlir::tile::ReduceOp reduce;
  };
  std::optional<RunningSum> sum;

  mlir::Value getScores() { return scores; }
  int64_t getRows() { return product.getType().getDimSize(0); }
  int64_t getStep() { return *mlir::getConstantIntValue(keys.getStep()); }
  int64_t getOutputWidth() { return product.getType().getDimSize(1); }

  /// Fills in what hangs on the product of weights and values, from `keys` on, or
  /// returns what is missing.
  llvm::StringRef matchProduct();
  /// The chain of products that starts at `dot` with zeros; the last are the scores.
  llvm::SmallVector<mlir::tile::DotOp, 2> matchScores(mlir::tile::DotOp dot);
  void matchMask();
  void matchSum();
};

struct AttentionLoop : SoftmaxLoop {
  /// One summand of the scores.
  struct Term {
    mlir::tile::LoadOp query;     // [rows, width], outside of the key loop
    mlir::tile::LoadPagedOp keys; // [block, width], inside
    mlir::tile::DotOp dot;
    int64_t getWidth() { return keys.getType().getDimSize(1); }
  };

  mlir::scf::ForOp items;
  llvm::SmallVector<Term, 2> terms; // terms[0].keys are also the values

  int64_t getBlockKeys() { return terms.front().keys.getType().getDimSize(0); }
  mlir::Type getElementType() { return terms.front().keys.getType().getElementType(); }
};

/// The loop of `kernel`, or nothing and in `why` what does not fit.
std::optional<AttentionLoop> matchAttentionLoop(mlir::tile::KernelOp kernel, std::string &why);

} // namespace mlac

#endif // MLAC_LIB_CONVERSION_TILETOSM90_COMMON_ATTENTIONLOOP_H
