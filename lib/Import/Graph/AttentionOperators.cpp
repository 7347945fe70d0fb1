//===- AttentionOperators.cpp - operators of attention over caches ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Import/AttentionOperators.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlac;
using llvm::StringLiteral;

static constexpr StringLiteral kRows[] = {"query", "key", "value"};
static constexpr StringLiteral kShortRows[] = {"q", "k", "v"};
static constexpr StringLiteral kPackagedMetadata[] = {"seq_len", "input_pos", "page_table",
                                                      "seq_start"};
static constexpr StringLiteral kRowMetadata[] = {"seq_len", "input_pos", "cache_loc", "seq_start"};
static constexpr StringLiteral kPageMetadata[] = {"seq_len", "input_pos", "cache_loc", "seq_start",
                                                  "page_table"};
static constexpr CacheOperand kJointCache[] = {{"kv_cache", true, true}};
static constexpr CacheOperand kCaches[] = {{"k_cache", true, false}, {"v_cache", false, true}};

static constexpr StringLiteral kAngles[] = {"freqs_cis"};
static constexpr StringLiteral kTables[] = {"cos", "sin"};
static constexpr StringLiteral kLatentRows[] = {"query", "latent", "k_pe"};
static constexpr StringLiteral kFoldedRows[] = {"q_nope", "q_pe", "c", "k_pe"};

static constexpr AttentionOperator kPackagedLatents = {.name = "Packaged",
                                                       .op = "mlac.cached_latent_attention",
                                                       .prepareOp = "mlac.prepare_metadata",
                                                       .inputs = kLatentRows,
                                                       .metadata = kPackagedMetadata,
                                                       .caches = kJointCache,
                                                       .buffers = {},
                                                       .takesTokens = false,
                                                       .hasScores = false,
                                                       .hasSinks = false,
                                                       .rope = RopeOperand::Frequencies,
                                                       .joinsHeads = false,
                                                       .latents = LatentOperand::Projected};

static constexpr AttentionOperator kOperators[] = {
    {.name = "Packaged",
     .op = "mlac.cached_attention",
     .prepareOp = "mlac.prepare_metadata",
     .inputs = kRows,
     .metadata = kPackagedMetadata,
     .caches = kJointCache,
     .buffers = {},
     .takesTokens = false,
     .hasScores = true,
     .hasSinks = true,
     .rope = RopeOperand::Frequencies,
     .joinsHeads = false,
     .ofLatents = &kPackagedLatents},
    {.name = "MultiHead",
     .op = "attention.flattened_mha_with_cache.default",
     .prepareOp = "attention.prepare_fused_mha_metadata.default",
     .inputs = kShortRows,
     .metadata = kRowMetadata,
     .caches = kCaches,
     .buffers = {},
     .takesTokens = true,
     .hasScores = true,
     .hasSinks = false,
     .rope = RopeOperand::None,
     .joinsHeads = true},
    {.name = "TritonWithFlattenedInputs",
     .op = "attention.fused_flattened_mha_with_cache.default",
     .prepareOp = "attention.prepare_fused_mha_metadata.default",
     .inputs = kShortRows,
     .metadata = kRowMetadata,
     .caches = kCaches,
     .buffers = kAngles,
     .takesTokens = true,
     .hasScores = false,
     .hasSinks = false,
     .rope = RopeOperand::Angles,
     .joinsHeads = true},
    {.name = "PagedMultiHead",
     .op = "mlac.paged_mha_with_cache.default",
     .prepareOp = "mlac.prepare_paged_metadata.default",
     .inputs = kShortRows,
     .metadata = kPageMetadata,
     .caches = kCaches,
     .buffers = kAngles,
     .takesTokens = true,
     .hasScores = true,
     .hasSinks = false,
     .rope = RopeOperand::Angles,
     .joinsHeads = true},
    {.name = "MultiHeadLatent",
     .op = "mlac.mla_with_cache.default",
     .prepareOp = "mlac.prepare_paged_metadata.default",
     .inputs = kFoldedRows,
     .metadata = kPageMetadata,
     .caches = kJointCache,
     .buffers = kTables,
     .takesTokens = true,
     .hasScores = false,
     .hasSinks = false,
     .rope = RopeOperand::Tables,
     .joinsHeads = true,
     .latents = LatentOperand::Folded}};

llvm::ArrayRef<AttentionOperator> mlac::getAttentionOperators() { return kOperators; }

const AttentionOperator *mlac::findAttentionOperator(llvm::StringRef name) {
  const AttentionOperator *found =
      llvm::find_if(kOperators, [&](const AttentionOperator &each) { return each.name == name; });
  return found == std::end(kOperators) ? nullptr : found;
}
