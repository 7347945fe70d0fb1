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

//===----------------------------------------------------------------------===//
// Pools
//===----------------------------------------------------------------------===//

/// Pools under one sequence, at most: the specification's models have up to six a layer.
inline constexpr size_t kMaxPools = 8;

/// What each pool has of its own.
inline constexpr Dim kPoolDims[] = {
#define STEP_SIZE_OF_POOL(id) Dim::id,
#include "StepSizes.def"
};
inline constexpr Metadata kPoolMetadata[] = {
#define STEP_ARRAY_OF_POOL(id) Metadata::id,
#include "StepSizes.def"
};

/// Values of sizes, or arrays: those of the lists, then those of the second pool, ….
inline constexpr size_t kNumDimSlots = kNumDims + (kMaxPools - 1) * std::size(kPoolDims),
                        kNumMetadataSlots =
                            kNumMetadata + (kMaxPools - 1) * std::size(kPoolMetadata);

template <typename Enum, size_t N> constexpr bool isOfPool(const Enum (&list)[N], Enum value) {
  for (Enum each : list)
    if (each == value)
      return true;
  return false;
}
constexpr bool isOfPool(Dim dim) { return isOfPool(kPoolDims, dim); }
constexpr bool isOfPool(Metadata metadata) { return isOfPool(kPoolMetadata, metadata); }

/// The slot of a pool's `value`: of the first pool, `value` itself.
template <typename Enum, size_t N>
constexpr Enum slotOf(const Enum (&list)[N], size_t count, Enum value, size_t pool) {
  size_t place = 0;
  while (place < N && list[place] != value)
    ++place;
  return pool == 0 ? value : static_cast<Enum>(count + (pool - 1) * N + place);
}
constexpr Dim ofPool(Dim dim, size_t pool) { return slotOf(kPoolDims, kNumDims, dim, pool); }
constexpr Metadata ofPool(Metadata metadata, size_t pool) {
  return slotOf(kPoolMetadata, kNumMetadata, metadata, pool);
}

/// What the slot of some pool is called for the first.
constexpr Dim baseOf(Dim dim) {
  auto slot = static_cast<size_t>(dim);
  return slot < kNumDims ? dim : kPoolDims[(slot - kNumDims) % std::size(kPoolDims)];
}
constexpr Metadata baseOf(Metadata metadata) {
  auto slot = static_cast<size_t>(metadata);
  return slot < kNumMetadata ? metadata
                             : kPoolMetadata[(slot - kNumMetadata) % std::size(kPoolMetadata)];
}

constexpr const DimInfo &info(Dim dim) { return kDims[static_cast<size_t>(baseOf(dim))]; }
constexpr const MetadataInfo &info(Metadata metadata) {
  return kMetadata[static_cast<size_t>(baseOf(metadata))];
}

/// Between a pool's name and that of its size, array or page.
inline constexpr char kOfPool = '/';
/// Pool and name of "pool/name"; no pool without a slash.
struct PoolName {
  std::string_view pool, name;
};
constexpr PoolName splitName(std::string_view text) {
  size_t slash = text.find(kOfPool);
  if (slash == std::string_view::npos)
    return {{}, text};
  return {text.substr(0, slash), text.substr(slash + 1)};
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

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
