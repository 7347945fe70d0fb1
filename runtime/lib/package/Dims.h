//===- Dims.h - named sizes and metadata of a step --------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The values of what a package's functions may ask for by name (runtime/schema/StepSizes.def).
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_DIMS_H
#define MLAC_RUNTIME_DIMS_H

#include "StepSizes.h"
#include "base/DataType.h"

#include <array>
#include <optional>
#include <string_view>

namespace mlac::runtime {

using step::Dim, step::Metadata, step::kNumDims, step::kNumMetadata;
using step::kMaxPools, step::kNumDimSlots, step::kNumMetadataSlots, step::ofPool;
/// Of all pools: a pool's are ofPool(dim, pool).
using DimValues = std::array<int64_t, kNumDimSlots>;

/// Of the first pool, where pools have it.
std::optional<Dim> findDim(std::string_view name);
std::optional<Metadata> findMetadata(std::string_view name);

inline const char *dimName(Dim dim) { return step::info(dim).name; }
mla_dtype metadataType(Metadata metadata);
/// Whether it is in front of the other arrays, with room for the longest sequences.
inline bool isTable(Metadata metadata) {
  Metadata base = step::baseOf(metadata);
  return base == Metadata::BlockTable || base == Metadata::PrefillBlockTable;
}

inline int64_t &at(DimValues &values, Dim dim) { return values[static_cast<size_t>(dim)]; }
inline int64_t at(const DimValues &values, Dim dim) { return values[static_cast<size_t>(dim)]; }

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_DIMS_H
