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

std::optional<RopeKind> readRopeKind(const ConfigReader &rope, bool typeRequired);
void readYarn(const ConfigReader &rope, RopeParams &params);

/// DeepSeek-V4: dimensions, rope and indexer of layer `options.layer`.
void readSharedKeys(const ConfigReader &root, const ConfigOptions &options, ModelConfig &config);

} // namespace mlac

#endif // MLAC_LIB_IMPORT_CONFIGPARTS_H
