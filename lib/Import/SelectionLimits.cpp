//===- SelectionLimits.cpp - what can be selected ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SelectionLimits.h"

#include "CacheFormats.h"
#include "mla/Dialect/Mla/IR/MlaDialect.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace mlac;

/// Scores of an indexer: a key's scales are one for each group of columns.
static LogicalResult verifyIndexer(Location loc, const ModelConfig &config, IndexFormat format) {
  const IndexerParams &indexer = *config.indexer;
  if (indexer.topk > mla::TopKOp::kMostSelected)
    return emitError(loc) << "index_topk = " << indexer.topk << ", expected 1 to "
                          << mla::TopKOp::kMostSelected;
  int64_t group = cache::findFormat(std::string_view(getLayoutName(format)))->scaleGroup;
  if (indexer.headDim % group == 0)
    return success();
  InFlightDiagnostic error = emitError(loc)
                             << "index_head_dim = " << indexer.headDim << ", expected a multiple of "
                             << group << ", columns that have one scale";
  constexpr int64_t kScaledCodes = cache::findFormat("index_k_mxfp4")->scaleGroup;
  if (!config.sharedKeys)
    error << "; --indexer=shared (an input selects the keys) and --indexer=none (all keys, for up "
             "to index_topk tokens) take any";
  else if (format == IndexFormat::E4M3 && indexer.headDim % kScaledCodes == 0)
    error << "; --index-format=mxfp4 takes it";
  return error;
}

StringRef mlac::getLayoutName(IndexFormat format) {
  return format == IndexFormat::MXFP4 ? "index_k_mxfp4" : "index_k";
}

/// Whether rows of a list can be read: each begins with the latent, and is in one place.
static bool canBeSelected(const cache::Format &format) {
  return !cache::hasSections(format) && format.fields[0].part == cache::Part::Latent;
}

static LogicalResult verifyFormat(Location loc, const ModelConfig &config, StringRef name) {
  const cache::Format *format = cache::findFormat(std::string_view(name));
  if (!format || canBeSelected(*format))
    return success();
  InFlightDiagnostic error = emitError(loc) << "cache format '" << name
                                            << "' is not supported for selected keys of "
                                            << config.modelType << ", expected one of";
  for (const cache::Format &other : cache::kFormats)
    if (canBeSelected(other))
      error << " " << StringRef(other.name);
  return error << ", whose rows are in one place";
}

LogicalResult mlac::verifySelection(Location loc, const ModelConfig &config,
                                    const ImportOptions &options) {
  bool takesLists = config.isSparse() || config.sharedKeys;
  if (int64_t heads = config.numHeads(); takesLists && heads > mla::SparseAttentionOp::kMaxHeads)
    return emitError(loc) << "num_attention_heads: " << heads << " heads on a rank, expected 1 to "
                          << mla::SparseAttentionOp::kMaxHeads;
  if (config.isSparse() && !config.sharedKeys &&
      failed(verifyFormat(loc, config, options.cacheFormat)))
    return failure();
  if (!config.hasOwnIndexer())
    return success();
  return verifyIndexer(loc, config, config.sharedKeys ? options.indexFormat : IndexFormat::E4M3);
}
