//===- ConfigParts.h - parts of a configuration ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What families of models read alike, and what one family alone has.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_IMPORT_CONFIGPARTS_H
#define MLAC_LIB_IMPORT_CONFIGPARTS_H

#include "ConfigReader.h"
#include "mla/Import/ModelConfig.h"

#include <limits>

namespace mlac {

/// Upper limit of every head count, width and rank: far above any model, and
/// small enough that a product of three fits 63 bits.
inline constexpr int64_t kMaxDim = int64_t(1) << 20;
/// Positions and lengths are i32 at run time.
inline constexpr int64_t kMaxPositions = std::numeric_limits<int32_t>::max();
/// transformers' default where a config names no theta.
inline constexpr double kDefaultTheta = 1e4;

inline constexpr llvm::StringLiteral kRopeTypes = "known rope types are default, yarn, longrope";
/// Of groups of heads, whose other types become factors of longrope's (GroupedConfig.cpp).
inline constexpr llvm::StringLiteral kGroupedRopeTypes =
    "known rope types are default, linear, llama3, longrope, yarn";

/// The object with the fields of rope, if there is one, and whether it is `rope_scaling`, whose
/// type is never optional. transformers drops `rope_parameters` where there are both.
struct RopeFields {
  std::optional<ConfigReader> fields;
  bool isScaling = false;
};
RopeFields findRopeFields(const ConfigReader &root);

std::optional<RopeKind> readRopeKind(const ConfigReader &rope, bool typeRequired,
                                     llvm::StringRef known = kRopeTypes);
/// `isRounded`: the correction range is one of whole pairs, which the file may not deny.
void readYarn(const ConfigReader &rope, RopeParams &params, bool isRounded = true);
/// From which position on queries are scaled, from either place of its keys; `rope`: the fields of
/// rope, if there are any.
void readQueryScaling(const ConfigReader &root, const std::optional<ConfigReader> &rope,
                      RopeParams &params);
/// Rope of `config.qkRopeHeadDim` channels, from either place of its keys.
void readRope(const ConfigReader &root, RopePairing pairing, ModelConfig &config);

/// What the attention of a type has, of what others say by keys.
struct KnownAttention {
  llvm::StringRef type;
  bool isLike = false; ///< the type is that of --like
  bool isGrouped = false, hasWindows = false, areWindowsOptional = false, hasSoftcap = false,
       normalisesHeads = false, hasInputBiases = false;
  bool hasIndexer = false, rotates = true, scalesLatents = false;
  /// Whether rope may be said of each kind of layers.
  bool hasRopeOfKinds = false;
};

/// Errors of keys that say another attention (ConfigRefusals.cpp).
void rejectOtherAttention(const ConfigReader &root, const KnownAttention &known);
/// Of a configuration that is only like the type; `config` is what it was read as.
void rejectUnlike(const ConfigReader &root, const KnownAttention &known, const ModelConfig &config);

/// DeepSeek-V4: dimensions, rope and indexer of layer `options.layer`.
void readSharedKeys(const ConfigReader &root, const ConfigOptions &options, ModelConfig &config);
/// What transformers calls layers of the kind.
llvm::StringRef nameSharedKeys(const SharedKeyParams &shared);

/// What a model type of attention by groups of heads implies beyond its keys.
struct GroupedType {
  /// `InputsOnly`, `None`: queries, keys and values have biases, or no projection has, whatever the
  /// keys say; else the key `attention_bias` says it of all projections.
  enum class Biases { ByKey, InputsOnly, None } biases = Biases::ByKey;
  bool normalisesHeads = false, hasSinks = false, hasSoftcap = false;
  /// Which layers have a window: all of them; all of them without `layer_types`; every second one
  /// from the first on; those from `max_window_layers` on. Of the last three `layer_types` says it
  /// first, others do not read it.
  enum class Windows { None, All, ByList, EverySecond, Late } windows = Windows::None;
  /// Whether `use_sliding_window` says that there is one at all.
  bool isWindowOptional = false;
};

/// Attention by groups of heads: dimensions, rope and masks of layer `options.layer`.
void readGrouped(const ConfigReader &root, const GroupedType &type, const ConfigOptions &options,
                 ModelConfig &config);

} // namespace mlac

#endif // MLAC_LIB_IMPORT_CONFIGPARTS_H
