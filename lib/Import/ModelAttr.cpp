//===- ModelAttr.cpp - what a module remembers of its import ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModelAttr.h"

#include "mla/Import/RopeTable.h"

using namespace mlac;
using namespace mlir;

static StringRef stringifyActivation(ActivationType type) {
  switch (type) {
  case ActivationType::BF16:
    return "bf16";
  case ActivationType::F16:
    return "f16";
  case ActivationType::F32:
    return "f32";
  }
  llvm_unreachable("unknown activation type");
}

static StringRef stringifyIndexerUse(IndexerUse use) {
  switch (use) {
  case IndexerUse::Full:
    return "full";
  case IndexerUse::Shared:
    return "shared";
  case IndexerUse::None:
    return "none";
  }
  llvm_unreachable("unknown use of an indexer");
}

/// As a command line of mla-compile.
static std::string describeImport(const ConfigOptions &parsing, const ImportOptions &options) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << "--tp=" << parsing.tensorParallel
         << " --dtype=" << stringifyActivation(options.activationType)
         << " --page-size=" << options.pageSize;
  if (!options.cacheFormat.empty())
    stream << " --cache-format=" << options.cacheFormat;
  if (options.scaleRule != mla::ScaleRule::Raw)
    stream << " --scale-rule=" << stringifyScaleRule(options.scaleRule);
  if (parsing.latentNormEpsFromConfig)
    stream << " --norm-eps-from-config";
  if (parsing.dequantisedWeights)
    stream << " --dequantised-weights";
  if (!parsing.like.empty())
    stream << " --like=" << parsing.like;
  if (options.takesLatents)
    stream << " --inputs=latents";
  if (options.rotatesIndex)
    stream << " --index-hadamard";
  if (options.roundsStates)
    stream << " --round-states";
  if (options.indexFormat == IndexFormat::MXFP4)
    stream << " --index-format=mxfp4";
  if (parsing.indexer != IndexerUse::Full)
    stream << " --indexer=" << stringifyIndexerUse(parsing.indexer);
  if (parsing.layer != 0)
    stream << " --layer=" << parsing.layer;
  return text;
}

mla::ModelAttr mlac::getModelAttr(MLIRContext *context, const ModelConfig &config,
                                  const ImportOptions &options) {
  return mla::ModelAttr::get(context, config.modelType, config.tensorParallel,
                             getSupportedLength(config), describeImport(config.parsing, options),
                             config.text);
}
