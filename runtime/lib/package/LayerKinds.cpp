//===- LayerKinds.cpp - packages of several kinds of layers -----*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A file may hold a package for each kind of a model's layers. They are opened, and so verified,
// with the file; a kind cannot have kinds, which bounds how deep files are read.
//
//===----------------------------------------------------------------------===//

#include "package/Checks.h"
#include "package/PackageVerifier.h"

#include <algorithm>

using namespace mlac::runtime;

/// The kind's numbers, which must be ascending.
static Status readLayers(const fb::LayerKind &raw, std::vector<int64_t> &layers) {
  MLAC_RETURN_IF_ERROR(
      requireRange("layers", static_cast<int64_t>(sizeOf(raw.layers())), 1, kMaxModelDim));
  for (int64_t layer : *raw.layers()) {
    MLAC_RETURN_IF_ERROR(requireRange("layer", layer, 0, kMaxModelDim));
    if (!layers.empty() && layer <= layers.back())
      return error(MLA_CORRUPT, "layer ", layer, " behind layer ", layers.back(),
                   ", expected them in order");
    layers.push_back(layer);
  }
  return Status();
}

static bool sharesLayer(const KindInfo &a, const KindInfo &b) {
  return std::ranges::any_of(a.layers, [&](int64_t layer) {
    return std::binary_search(b.layers.begin(), b.layers.end(), layer);
  });
}

Status Package::readKind(const fb::LayerKind &raw) {
  KindInfo kind;
  MLAC_RETURN_IF_ERROR(requireText("name", raw.name()));
  kind.name = text(raw.name());
  MLAC_RETURN_IF_ERROR(readLayers(raw, kind.layers));
  for (const KindInfo &other : kinds_) {
    if (other.name == kind.name)
      return error(MLA_CORRUPT, "the name is listed twice");
    if (sharesLayer(kind, other))
      return error(MLA_CORRUPT, "has a layer of '", other.name, "', too");
  }
  size_t size = sizeOf(raw.package());
  Bytes copy = allocate(size);
  if (!copy)
    return error(MLA_OUT_OF_MEMORY, "package of ", size, " bytes");
  if (size > 0)
    std::copy_n(raw.package()->data(), size, copy.get());
  MLAC_RETURN_IF_ERROR(adopt(std::move(copy), size, /*mayHaveKinds=*/false, kind.package));
  kind.package->layers_ = kind.layers;
  kinds_.push_back(std::move(kind));
  return Status();
}

Status Package::readKinds() {
  MLAC_RETURN_IF_ERROR(PackageVerifier::checkVersion(root()));
  MLAC_RETURN_IF_ERROR(checkLength("compiler", root().compiler()));
  MLAC_RETURN_IF_ERROR(checkLength("options", root().options()));
  MLAC_RETURN_IF_ERROR(
      requireRange("kinds", static_cast<int64_t>(sizeOf(root().kinds())), 1, kMaxKinds));
  for (uint32_t i = 0; i < root().kinds()->size(); ++i) {
    const fb::LayerKind &raw = *root().kinds()->Get(i);
    MLAC_RETURN_IF_ERROR(readKind(raw).in("kind ", i, " '", text(raw.name()), "'"));
  }
  return Status();
}

Status Package::requireOneKind() const {
  if (kinds_.empty())
    return Status();
  std::string names;
  for (const KindInfo &kind : kinds_)
    names += (names.empty() ? "" : ", ") + kind.name;
  return error(MLA_INVALID_ARGUMENT, "the package's layers are of ", kinds_.size(), " kinds (",
               names, "): take one of them by mla_package_kind");
}
