//===- LayerKinds.cpp - which layers of a model are of which kind ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Import/LayerKinds.h"

#include "ConfigParts.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlac;

/// As transformers' `layer_types` has it; empty: layers of the type are alike.
static std::string nameKind(const ModelConfig &config) {
  if (config.grouped)
    return config.grouped->window > 0 ? "sliding_attention" : "full_attention";
  return config.sharedKeys ? nameSharedKeys(*config.sharedKeys).str() : "";
}

llvm::Expected<std::vector<LayerKind>> mlac::listLayerKinds(llvm::StringRef text,
                                                            ConfigOptions options) {
  std::vector<LayerKind> kinds;
  int64_t numLayers = 1;
  for (options.layer = 0; options.layer < numLayers; ++options.layer) {
    llvm::Expected<ModelConfig> config = parseModelConfig(text, options);
    if (!config)
      return config.takeError();
    std::string name = nameKind(*config);
    if (name.empty())
      return kinds;
    numLayers = config->numLayers;
    auto known = llvm::find_if(kinds, [&](const LayerKind &other) { return other.name == name; });
    if (known == kinds.end())
      known = kinds.insert(known, {name, {}});
    known->layers.push_back(options.layer);
  }
  return kinds;
}
