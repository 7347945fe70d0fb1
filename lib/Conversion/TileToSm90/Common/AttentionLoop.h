//===- AttentionLoop.h - attention over pages, divided among roles ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What warp-specialised schedules take is the tile.attend of a kernel. They ask it what
// they need to know, and have it expanded when they begin to build; what stands around it:
//
//     for item in work                                   items
//       q_t = load                                       terms[t].query
//       for block in first .. last                       ExpandAttend.h
//         k_t = load_paged(pool, table, 64 · block)      terms[t].keys; or load_rows by a list
//         ...
//       store f(output, state)
//
// What f is does not matter: schedules clone its ops.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_COMMON_ATTENTIONLOOP_H
#define MLAC_LIB_CONVERSION_TILETOSM90_COMMON_ATTENTIONLOOP_H

#include "mla/Dialect/Tile/Transforms/ExpandAttend.h"

#include <string>

namespace mlac {

using mlir::tile::SoftmaxLoop;

struct AttentionLoop : SoftmaxLoop {
  /// One summand of the scores.
  struct Term {
    mlir::tile::LoadOp query; // [rows, width], outside of the key loop
    mlir::Operation *keys;    // tile.load_paged or load_rows of [block, width], inside
    mlir::RankedTensorType getKeyType() {
      return mlir::cast<mlir::RankedTensorType>(keys->getResult(0).getType());
    }
    int64_t getWidth() { return getKeyType().getDimSize(1); }
  };

  mlir::scf::ForOp items;
  llvm::SmallVector<Term, 2> terms; // terms[0].keys are also the values
};

/// Whether a term's keys are stored as codes, which a role has to turn into operands.
bool hasCodes(mlir::tile::AttendOp attend, unsigned term);

/// Whether roles can take attention over pages; if not, `why` says what is missing.
bool isInItems(mlir::tile::AttendOp attend, std::string &why);

/// Expands it. Precondition: isInItems.
AttentionLoop expandPaged(mlir::tile::AttendOp attend);

} // namespace mlac

#endif // MLAC_LIB_CONVERSION_TILETOSM90_COMMON_ATTENTIONLOOP_H
