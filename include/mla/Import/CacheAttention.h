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
// frequencies, or tables of their angles, are a buffer that all share. Where all keys and values
// are made of latents, an operator over latents caches those. Everything else stays as it is. No
// configuration is needed: what an attention does, its nodes say.
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
/// stores, or by cosines and sines of each token that are values of it.
struct RopeInfo {
  RopePairing pairing = RopePairing::Half;
  int64_t first = 0, width = 0;
  double multiplier = 1;                ///< of cosines and sines
  std::vector<double> frequencies = {}; ///< none: there are tables
  bool isByToken() const { return frequencies.empty(); }
  bool operator==(const RopeInfo &) const = default;
};

/// The theta of which frequency i is theta^(-2i / width), all times 1, as well as f32 says it.
std::optional<double> findTheta(const RopeInfo &rope);

/// Keys and values of all heads are made of one latent of each token: a head's key is a
/// projection of it, beside channels that all heads share, and its value another.
struct LatentInfo {
  int64_t rank = 0;
  int64_t first = 0, width = 0;      ///< of a head's channels, those that are shared
  std::optional<RopeInfo> rope = {}; ///< of them all, that an operator over latents has to do
  int64_t nope(int64_t keyDim) const { return keyDim - width; }
  bool operator==(const LatentInfo &) const = default;
};

/// What is known of an attention (AttentionInfo of paged-cache.md section 12).
struct AttentionInfo {
  int64_t heads = 0, kvHeads = 0, keyDim = 0, valueDim = 0;
  int64_t window = 0; ///< 0: all keys
  double scale = 0, softcap = 0;
  std::optional<RopeInfo> rope = {}; ///< that an operator on heads has to do
  std::optional<LatentInfo> latents = {};
  bool operator==(const AttentionInfo &) const = default;
};

/// A value of the graph: the name of its node or argument and, of a node with several results,
/// which one it is; else -1.
struct GraphValue {
  std::string name;
  int64_t result = -1;
};

/// What the dimensions of a value are made of, each from the outermost factor to the innermost: so
/// many heads or channels, the batch or the tokens. Empty: [batch, heads, tokens, channels].
using HeadDims = std::vector<std::vector<int64_t>>;
inline constexpr int64_t kBatchFactor = -1, kTokensFactor = -2;

/// Queries and keys of an attention.
struct QueryAndKey {
  GraphValue query, key;
  bool isKeyTransposed = false; ///< [batch, heads, channels, tokens]
  int64_t group = 1;            ///< keys are of every so many heads
};

/// Cosines and sines of each token, [batch, tokens, pairs or more].
struct GraphTables {
  GraphValue cos, sin;
  bool areRepeated = false; ///< taken to have all pairs twice, which the graph does not say
};

/// What an operator over latents takes of an attention: rows [batch, tokens, columns] of latents
/// and of the shared channels, which may have a dimension of 1 beside the tokens.
struct CachedLatents {
  GraphValue latent;
  GraphValue query, key;             ///< before rope, where the operator does it
  GraphValue turnedQuery, turnedKey; ///< behind the graph's rope
  std::string weight;                ///< of heads' [keys, values], from latents
  std::optional<GraphTables> tables = {};
};

/// An attention that was replaced.
struct CachedNode {
  std::string node, module; ///< whose result is replaced, and where it stands
  QueryAndKey operands;     ///< before rope, where the operator does it
  QueryAndKey turned;       ///< behind the graph's rope
  GraphValue value;
  HeadDims queryDims, keyDims, valueDims, resultDims; ///< as the graph's products have them
  int64_t group = 1;                                  ///< values are of every so many heads
  std::string mask = {};                              ///< an input, taken as causal; empty: none
  std::string sinks = {};                             ///< a weight of the graph; empty: none
  std::optional<GraphTables> tables = {};             ///< of rope by token
  std::optional<CachedLatents> latents = {};          ///< where its kind has them
  size_t kind = 0;                                    ///< its AttentionInfo, by number
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
