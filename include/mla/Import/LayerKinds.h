//===- LayerKinds.h - models whose layers differ in kind ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A package has the layers of one kind; which layers of a model are of which kind is what its
// configuration says.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_IMPORT_LAYERKINDS_H
#define MLA_IMPORT_LAYERKINDS_H

#include "mla/Import/ModelConfig.h"

namespace mlac {

struct LayerKind {
  std::string name;            ///< as transformers' `layer_types` has it
  std::vector<int64_t> layers; ///< numbers in the model, ascending, at least one
};

/// The kinds in the order of their first layers, whatever `options.layer`; none where the model's
/// layers are alike by its type. Layers behind num_hidden_layers do not count. The error is that
/// of parseModelConfig for the first layer that has one.
llvm::Expected<std::vector<LayerKind>> listLayerKinds(llvm::StringRef text, ConfigOptions options);

} // namespace mlac

#endif // MLA_IMPORT_LAYERKINDS_H
