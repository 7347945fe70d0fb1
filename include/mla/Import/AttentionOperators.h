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

/// What an operator rotates queries and keys by, behind its caches.
enum class RopeOperand : uint8_t {
  None,        ///< nothing: rope is the graph's
  Frequencies, ///< a weight of the graph, or cosines and sines that are values of it
  Angles,      ///< halves of whole heads, by one table [positions, pairs, 2] of a theta
  Tables,      ///< neighbours, by tables of cosines and of sines [positions, pairs] of a theta
};

/// What of latents an operator takes, where keys and values of all heads are made of them.
enum class LatentOperand : uint8_t {
  None,      ///< it takes keys and values of heads
  Projected, ///< the weight that projects latents up, and whole queries
  Folded,    ///< queries that were folded to latents; its outputs are latents
};

struct AttentionOperator {
  llvm::StringLiteral name; ///< in the registry
  llvm::StringLiteral op, prepareOp;
  llvm::ArrayRef<llvm::StringLiteral> inputs, metadata;
  llvm::ArrayRef<CacheOperand> caches;
  /// Buffers that nodes share, of angles of rope.
  llvm::ArrayRef<llvm::StringLiteral> buffers;
  /// Whether the metadata is also made of the tokens and a page's size.
  bool takesTokens;
  bool hasScores; ///< constants scale, window and softcap
  bool hasSinks;  ///< behind the caches
  RopeOperand rope;
  bool joinsHeads; ///< returns [batch, tokens, heads * channels]
  LatentOperand latents = LatentOperand::None;
  /// The one to take where all attention of a graph is over latents; null: this.
  const AttentionOperator *ofLatents = nullptr;
};

/// The compiler's own first, which packages of `--cached` have.
llvm::ArrayRef<AttentionOperator> getAttentionOperators();
/// Null where there is none of that name.
const AttentionOperator *findAttentionOperator(llvm::StringRef name);

} // namespace mlac

#endif // MLA_IMPORT_ATTENTIONOPERATORS_H
