//===- WriteWeights.h - what a graph is taken apart into ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_DRIVER_WRITEWEIGHTS_H
#define MLA_DRIVER_WRITEWEIGHTS_H

#include "mla/Import/CacheAttention.h"
#include "mla/Import/RaiseGraph.h"
#include "mla/Import/TorchArchive.h"

namespace mlac {

/// Writes the weights of all regions to the file `path`, in their own types, under the names that a
/// package gives them behind `self_attn.`, or of several regions `layers.N.self_attn.`, with the
/// configuration in the metadata.
llvm::Error writeWeights(const TorchArchive &archive, const RaisedLayer &layer,
                         llvm::StringRef config, llvm::StringRef path);

/// Writes where the regions lie in their graph, and what of its attention is left, as JSON.
llvm::Error writeRegions(const RaisedLayer &layer, llvm::StringRef path);

/// Writes which inputs of the graph are taken as the layers' masks and rope's tables, as JSON.
llvm::Error writeInputs(const RaisedLayer &layer, llvm::StringRef path);

/// Writes which nodes of a graph are replaced, by which step of a package, as JSON.
llvm::Error writeCachedGraph(const CachedGraph &graph, llvm::StringRef path);

} // namespace mlac

#endif // MLA_DRIVER_WRITEWEIGHTS_H
