//===- ModelConfig.h - a model's attention parameters ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the attention part of a Hugging Face config.json into a plain struct.
// Symbols in comments (N, Lq, Lkv, P, R, V, H) are those of DeepSeek's papers:
// heads, query and KV latent ranks, nope, rope and value head dims, hidden
// size.
//
// Accepts the old rope fields (`rope_theta`, `rope_scaling{type, ...}`) and the
// new ones (`rope_parameters{rope_theta, rope_type, ...}`). Keys that do not
// shape attention are ignored, among them two that mislead:
// `num_key_value_heads` equals the head count although the latent cache has one
// KV head, and `head_dim` is the rope width or something else.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_IMPORT_MODELCONFIG_H
#define MLA_IMPORT_MODELCONFIG_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mlac {

/// How rotary frequencies are scaled beyond the trained length.
enum class RopeKind { Plain, Yarn, LongRope };

/// Which elements form a rotated pair: (x[2i], x[2i+1]) or (x[i], x[i+R/2]).
enum class RopePairing { Interleaved, Half };

/// Rotary embedding parameters; fields of other kinds keep their defaults.
struct RopeParams {
  RopeKind kind = RopeKind::Plain;
  /// Whether positions rotate the part of keys and queries that the heads share (Kimi Linear's
  /// do not: "NoPE").
  bool isApplied = true;
  RopePairing pairing = RopePairing::Interleaved;
  double theta = 1e4;
  /// Trained length Lo (yarn and longrope).
  int64_t originalMaxPositions = 0;
  /// Positions from which on queries are scaled by their position (Mistral 4); 0: none. No kernel
  /// does it: sequences end there.
  int64_t scaledFrom = 0;

  // YaRN.
  double factor = 1.0;
  double betaFast = 32.0;
  double betaSlow = 1.0;
  double mscale = 1.0;
  double mscaleAllDim = 0.0;
  double attentionMultiplier = 1.0; ///< the key `attn_factor`

  /// The key `attention_factor`: the cos/sin multiplier itself.
  std::optional<double> cosSinMultiplier;

  // LongRoPE: R/2 factors each.
  std::vector<double> shortFactor;
  std::vector<double> longFactor;
  /// The key `factor`: how much longer sequences are than trained; else by the positions.
  std::optional<double> extension;
};

/// Who says which keys a token of a sparse model sees.
enum class IndexerUse {
  Full,   ///< the layer's own indexer
  Shared, ///< an earlier layer's, whose selection is an input
  None,   ///< nobody: all of them, which is the same up to index_topk tokens
};

/// The lightning indexer of sparse models (DeepSeek-V3.2, GLM-5).
struct IndexerParams {
  int64_t numHeads = 0; ///< Hi, replicated on every rank
  int64_t headDim = 0;  ///< Di
  int64_t topk = 0;
  RopePairing pairing = RopePairing::Half;
  IndexerUse use = IndexerUse::Full;
  /// Whether some layers of the model use the selection of an earlier one.
  bool isShared = false;
};

/// DeepSeek-V4 (v4.md): keys that are values too, of a window and, in most layers, of entries that
/// stand for several tokens each.
struct SharedKeyParams {
  int64_t window = 0; ///< tokens that one sees, itself included
  int64_t every = 1;  ///< tokens of an entry; 1: there are none
  int64_t outputGroups = 0, outputRank = 0;

  bool hasEntries() const { return every > 1; }
  /// Whether entries are of the run of tokens before theirs, too, and selected by an indexer.
  bool selectsEntries() const { return every == 4; }
};

/// Keys and values of each KV head, which a group of query heads shares (paged-cache.md sections 9
/// and 10). A head has P + R = V columns, the first R of them rotated.
struct GroupedParams {
  int64_t kvHeadsTotal = 0; ///< Nkv
  bool hasInputBias = false, hasOutputBias = false;
  /// Whether queries and keys are normalised head by head before they are rotated.
  bool normalisesHeads = false;
  bool hasSinks = false;
  int64_t window = 0; ///< tokens that one sees, itself included; 0: all
  double softcap = 0; ///< 0: none
  std::optional<double> scale = {};
};

/// Weights [out, in] that are e4m3 codes: the rows and columns of them that have one scale;
/// 0: all of the matrix's.
struct WeightScales {
  int64_t rows = 0, columns = 0;
  bool operator==(const WeightScales &) const = default;
};

struct ConfigOptions {
  int64_t tensorParallel = 1;
  /// Take `rms_norm_eps` for the latent norms too, as vLLM does. The default is
  /// 1e-6 whatever the config says, which is what transformers' modules use.
  bool latentNormEpsFromConfig = false;
  /// Do not look at `quantization_config`: the weights will be bound in the activations'
  /// type. Otherwise it says how they are scaled, and what cannot be bound is an error.
  bool dequantisedWeights = false;
  /// The known model type that one which is not known is read as; empty: none.
  std::string like = {};
  /// Of models with an indexer: which of their layers this is, or a dense one instead.
  IndexerUse indexer = IndexerUse::Full;
  /// Of models whose layers differ in kind: which one of them.
  int64_t layer = 0;
};

struct ModelConfig {
  /// The configuration as it was given, with its type's defaults for keys that it lacks, and how it
  /// was read.
  std::string text;
  ConfigOptions parsing;

  std::string modelType;
  int64_t numLayers = 0;
  /// Attention modules (and caches) per layer: 2 for LongCat.
  int64_t attentionsPerLayer = 1;

  int64_t hiddenSize = 0;
  int64_t numHeadsTotal = 0;
  int64_t tensorParallel = 1;
  std::optional<int64_t> qLoraRank;
  int64_t kvLoraRank = 0;
  int64_t qkNopeHeadDim = 0;
  int64_t qkRopeHeadDim = 0;
  int64_t vHeadDim = 0;

  int64_t maxPositionEmbeddings = 0;
  double rmsNormEps = 1e-6;
  /// Epsilon of q_a_layernorm and kv_a_layernorm.
  double latentNormEps = 1e-6;
  bool attentionBias = false;

  /// LongCat: factors of the whole query and of the normalised latent.
  double queryMultiplier = 1.0;
  double latentMultiplier = 1.0;

  RopeParams rope;
  std::optional<SharedKeyParams> sharedKeys;
  std::optional<GroupedParams> grouped;
  std::optional<IndexerParams> indexer;
  bool isSparse() const { return indexer && indexer->use != IndexerUse::None; }
  bool hasOwnIndexer() const { return indexer && indexer->use == IndexerUse::Full; }
  /// How the checkpoint scales weights that are codes; it may hold others as they are.
  std::optional<WeightScales> weightScales;

  /// N: heads on one rank.
  int64_t numHeads() const { return numHeadsTotal / tensorParallel; }
  /// Width of a query or key row, P + R.
  int64_t qkHeadDim() const { return qkNopeHeadDim + qkRopeHeadDim; }
  /// Width of a latent cache row, Lkv + R.
  int64_t latentDim() const { return kvLoraRank + qkRopeHeadDim; }
  /// Input width of the query up projection: Lq, or H without q-lora.
  int64_t queryInputDim() const { return qLoraRank.value_or(hiddenSize); }
  /// Nkv on one rank, of attention by groups of heads.
  int64_t numKvHeads() const { return grouped->kvHeadsTotal / tensorParallel; }
  /// (P + R)^(-1/2), times g(factor, mscale_all_dim)^2 under YaRN. The same
  /// value in the expanded and the absorbed form. Of groups of heads what their
  /// configuration says; YaRN's factor is then all in rope's tables.
  double softmaxScale() const;
};

/// A place in a text, from 1.
struct TextPlace {
  unsigned line = 1, column = 1;
};

/// One thing that is wrong with a config.json, and where.
struct ConfigProblem {
  std::string message;
  TextPlace place;
};

/// Everything that is wrong with it; as a text, one problem per line.
class ConfigError : public llvm::ErrorInfo<ConfigError> {
public:
  explicit ConfigError(std::vector<ConfigProblem> problems) : problems(std::move(problems)) {}
  void log(llvm::raw_ostream &os) const override;
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

  std::vector<ConfigProblem> problems;
  static char ID;
};

/// Parses the text of a config.json. The error is a ConfigError with every problem found,
/// each naming the key, its value and the limit.
llvm::Expected<ModelConfig> parseModelConfig(llvm::StringRef json,
                                             const ConfigOptions &options = {});

} // namespace mlac

#endif // MLA_IMPORT_MODELCONFIG_H
