//===- PackageModel.h - what a package says about its model ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_IMPORT_PACKAGEMODEL_H
#define MLA_IMPORT_PACKAGEMODEL_H

#include "mla/Import/ImportConfig.h"

#include "package_generated.h"

namespace mlac {

/// Fills a package's model, cache layout, rotary frequencies and weights (those
/// that the functions of `importConfig` take, this rank's shapes).
/// `configText` is the config.json as given. Derived tensors and targets are
/// left alone.
void describeModel(const ModelConfig &config, const ImportOptions &options,
                   llvm::StringRef configText, package::PackageT &package);

} // namespace mlac

#endif // MLA_IMPORT_PACKAGEMODEL_H
