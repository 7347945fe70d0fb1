//===- StepSizes.h - the named sizes and metadata of a step -----*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// StepSizes.def as enums and tables, for the compiler and the runtime alike.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_SCHEMA_STEPSIZES_H
#define MLAC_SCHEMA_STEPSIZES_H

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace mlac::step {

/// Who provides it, in the order in which a step is planned.
enum class Owner : uint8_t {
#define STEP_OWNER(id, description) id,
#include "StepSizes.def"
};
inline constexpr size_t kNumOwners = 0
#define STEP_OWNER(id, description) +1
#include "StepSizes.def"
    ;

/// Graph: an `mla` function may ask for it; Plan: only a `tile.plan` may.
enum class Level : uint8_t { Graph, Plan };

enum class Dim : uint8_t {
#define STEP_SIZE(id, name, owner, level, description) id,
#include "StepSizes.def"
};

enum class Metadata : uint8_t {
#define STEP_ARRAY(id, name, owner, bits, extents, description) id,
#include "StepSizes.def"
};

/// A part of the batch.
enum class Part : uint8_t { Decodes, Prefills, SharedPrefix };

struct DimInfo {
  const char *name;
  Owner owner;
  Level level;
};
inline constexpr DimInfo kDims[] = {
#define STEP_SIZE(id, name, owner, level, description) {name, Owner::owner, Level::level},
#include "StepSizes.def"
};

struct MetadataInfo {
  const char *name;
  Owner owner;
  unsigned bits;
};
inline constexpr MetadataInfo kMetadata[] = {
#define STEP_ARRAY(id, name, owner, bits, extents, description) {name, Owner::owner, bits},
#include "StepSizes.def"
};

inline constexpr size_t kNumDims = std::size(kDims), kNumMetadata = std::size(kMetadata);

constexpr const DimInfo &info(Dim dim) { return kDims[static_cast<size_t>(dim)]; }
constexpr const MetadataInfo &info(Metadata metadata) {
  return kMetadata[static_cast<size_t>(metadata)];
}

/// The size or array of this name in kDims or kMetadata; null if there is none.
template <typename Info, size_t N>
constexpr const Info *find(const Info (&table)[N], std::string_view name) {
  for (const Info &entry : table)
    if (name == entry.name)
      return &entry;
  return nullptr;
}

/// What `name` of a batch is called for a part of it; `name` where that is the same.
constexpr std::string_view nameOfPart(Part part, std::string_view name) {
  constexpr struct {
    Part part;
    std::string_view whole, ofPart;
  } kNames[] = {
#define STEP_PART(part, whole, ofPart) {Part::part, whole, ofPart},
#include "StepSizes.def"
  };
  for (const auto &known : kNames)
    if (known.part == part && known.whole == name)
      return known.ofPart;
  return name;
}

/// Whether every name of a part is one of the lists above.
constexpr bool knowsPartNames() {
  constexpr std::string_view kNames[] = {
#define STEP_PART(part, whole, ofPart) whole, ofPart,
#include "StepSizes.def"
  };
  for (std::string_view name : kNames)
    if (!find(kDims, name) && !find(kMetadata, name))
      return false;
  return true;
}
static_assert(knowsPartNames(), "StepSizes.def: STEP_PART names an unknown size or array");

} // namespace mlac::step

#endif // MLAC_SCHEMA_STEPSIZES_H
