//===- CacheAttention.h - a whole model's attention over caches ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A graph that attends to the tokens it is given becomes one that attends to those of a cache
// (paged-cache.md section 12): every attention in it is replaced by one operator on its queries,
// new keys and new values, on metadata of the batch that one node makes for all of them, and on a
// cache of its own. An operator that has rope takes queries and keys from before it, and the
// frequencies are a buffer that all share. Everything else stays as it is. No configuration is
// needed: what an attention does, its nodes say.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_IMPORT_CACHEATTENTION_H
#define MLA_IMPORT_CACHEATTENTION_H

#include "mla/Import/AttentionOperators.h"
#include "mla/Import/ImportConfig.h"
#include "mla/Import/ModelConfig.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlac {

/// Channels of queries' and keys' heads that are under rope, by the frequencies that a graph
/// stores.
struct RopeInfo {
  RopePairing pairing = RopePairing::Half;
  int64_t first = 0, width = 0;
  double multiplier = 1; ///< of cosines and sines
  std::vector<double> frequencies = {};
  bool operator==(const RopeInfo &) const = default;
};

/// What is known of an attention (AttentionInfo of paged-cache.md section 12).
struct AttentionInfo {
  int64_t heads = 0, kvHeads = 0, keyDim = 0, valueDim = 0;
  int64_t window = 0; ///< 0: all keys
  double scale = 0, softcap = 0;
  std::optional<RopeInfo> rope = {}; ///< that its operator has to do
  bool operator==(const AttentionInfo &) const = default;
};

/// A value of the graph: the name of its node or argument and, of a node with several results,
/// which one it is; else -1.
struct GraphValue {
  std::string name;
  int64_t result = -1;
};

/// Queries and keys of an attention.
struct QueryAndKey {
  GraphValue query, key;        ///< [batch, heads, tokens, channels]
  bool isKeyTransposed = false; ///< [batch, heads, channels, tokens]
  int64_t group = 1;            ///< keys are of every so many heads
};

/// An attention that was replaced.
struct CachedNode {
  std::string node, module; ///< whose result is replaced, and where it stands
  QueryAndKey operands;     ///< before rope, where the operator does it
  QueryAndKey turned;       ///< behind the graph's rope
  GraphValue value;
  int64_t group = 1;      ///< values are of every so many heads
  std::string sinks = {}; ///< a weight of the graph; empty: none
  size_t kind = 0;        ///< its AttentionInfo, by number
};

struct CachedGraph {
  std::vector<CachedNode> nodes;    ///< the number of a node is that of its cache
  std::vector<AttentionInfo> kinds; ///< those that differ
};

/// Rewrites `graph`, a function of the `graph` dialect, to calls of this operator over pages of so
/// many tokens. Fails with a diagnostic that names the node, which may have what the operator
/// does not take; then nothing is rewritten.
mlir::FailureOr<CachedGraph> cacheAttention(mlir::func::FuncOp graph,
                                            const AttentionOperator &attention, int64_t pageSize);

/// The names of the steps of a kind: of any new tokens, and of one of each request.
std::string getStepName(size_t kind, bool isDecode);

/// A module whose functions, two of each kind, append new rows to a cache and attend to it.
mlir::OwningOpRef<mlir::ModuleOp> buildCachedSteps(mlir::Location loc, const CachedGraph &graph,
                                                   const ImportOptions &options);

} // namespace mlac

#endif // MLA_IMPORT_CACHEATTENTION_H
