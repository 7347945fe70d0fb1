//===- LayerKind.h - one kind of a package's layers ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A package of a model whose layers differ in kind holds a package for each; commands run one
// layer, and --layer says which.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_RUN_LAYERKIND_H
#define MLA_RUN_LAYERKIND_H

#include "Api.h"
#include "Arguments.h"

#include "nlohmann/json.hpp"

namespace mlac::run {

/// The option of commands that run a layer.
inline const OptionSpec kLayerOption = {"layer", true};

/// What mla_package_info says.
nlohmann::json readInfo(const Package &package);

/// The package that the first positional argument names; of one with kinds, that of the layer
/// --layer. Throws where there are kinds and no --layer, or the other way round.
Package openLayer(const Arguments &arguments);

} // namespace mlac::run

#endif // MLA_RUN_LAYERKIND_H
