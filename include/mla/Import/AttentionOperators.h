//===- AttentionOperators.h - operators of attention over caches ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a graph puts in the place of an attention, by the names of mlac.attention's registry
// (paged-cache.md section 12): the operator, and its operands in order, which are the node's
// inputs, metadata, caches, buffers and constants.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_IMPORT_ATTENTIONOPERATORS_H
#define MLA_IMPORT_ATTENTIONOPERATORS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace mlac {

/// A cache of every node's own.
struct CacheOperand {
  llvm::StringLiteral name;
  bool hasKeys, hasValues; ///< with both a row has those of all heads beside each other
};

struct AttentionOperator {
  llvm::StringLiteral name; ///< in the registry
  llvm::StringLiteral op, prepareOp;
  llvm::ArrayRef<llvm::StringLiteral> inputs, metadata;
  llvm::ArrayRef<CacheOperand> caches;
  /// A buffer that nodes share, of angles of rope; empty: none.
  llvm::StringLiteral buffer;
  /// Whether the metadata is also made of the tokens and a page's size.
  bool takesTokens;
  bool hasScores;  ///< constants scale, window and softcap
  bool hasSinks;   ///< behind the caches
  /// Whether it rotates queries and keys, by a shared buffer of frequencies (RopeInfo).
  bool rotates;
  bool joinsHeads; ///< returns [batch, tokens, heads * channels]
};

/// The compiler's own first, which packages of `--cached` have.
llvm::ArrayRef<AttentionOperator> getAttentionOperators();
/// Null where there is none of that name.
const AttentionOperator *findAttentionOperator(llvm::StringRef name);

} // namespace mlac

#endif // MLA_IMPORT_ATTENTIONOPERATORS_H
