//===- ExternalPools.cpp - caches that belong to the caller -----*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Inference engines own their cache. Such an engine has no pool: each layer is given
// memory, of which only what kernels need to know is kept: where it begins, how many pages
// it has and how far they are apart. The last two are sizes of a step, so all layers agree
// in them.
//
//===----------------------------------------------------------------------===//

#include "CacheFormats.h"
#include "engine/Engine.h"

using namespace mlac::runtime;

Status Engine::requireOwnPools(std::string_view what) const {
  if (!hasExternalPools())
    return Status();
  return error(MLA_UNSUPPORTED, "the engine's pools are the caller's (external_pools), who knows ",
               what);
}

Status Engine::requirePool(const Layer &layer, size_t pool) const {
  if (layer.pools[pool].data())
    return Status();
  return error(MLA_WRONG_STATE, "layer ", &layer - layers.data(), " has no pool",
               layouts.size() > 1 ? concat(" '", package_->pools()[pool].name, "'") : "",
               ": give it the caller's (mla_engine_bind_pool)");
}

Status Engine::checkPoolIndex(int64_t pool) const {
  auto count = static_cast<int64_t>(layouts.size());
  if (pool >= 0 && pool < count)
    return Status();
  return error(MLA_INVALID_ARGUMENT, "pool ", pool, ", expected 0 to ", count - 1);
}

static Status checkAddress(const char *name, const void *address) {
  if (!address)
    return error(MLA_INVALID_ARGUMENT, name, " is null");
  if (auto rest = reinterpret_cast<uintptr_t>(address) % mlac::cache::kPoolAlignment; rest != 0)
    return error(MLA_INVALID_ARGUMENT, name, " is not aligned to ", mlac::cache::kPoolAlignment,
                 " bytes: address ends in ", rest);
  return Status();
}

/// Kernels find the rope keys of a page by the place of its latents.
static Status checkRope(const mla_external_pool &given, const CacheLayout &layout) {
  if (!given.rope)
    return Status();
  constexpr size_t kRopeSection = 1;
  size_t field = mlac::cache::findField(layout.format(), mlac::cache::Part::Rope);
  if (field == layout.format().numFields || layout.format().fields[field].section != kRopeSection)
    return error(MLA_INVALID_ARGUMENT, "pool.rope is not null: rows of ", layout.format().name,
                 " are whole");
  int64_t distance = static_cast<const char *>(given.rope) - static_cast<const char *>(given.data);
  if (distance == layout.sectionStart(kRopeSection))
    return Status();
  return error(MLA_UNSUPPORTED, "pool.rope lies ", distance,
               " bytes behind pool.data: kernels of this package read rope keys ",
               layout.sectionStart(kRopeSection),
               " bytes behind the latents of their page, so both are views of one tensor");
}

Status Engine::checkExternal(size_t pool, const mla_external_pool &given,
                             CacheLayout &layout) const {
  if (given.struct_bytes != sizeof given)
    return error(MLA_INVALID_ARGUMENT, "pool.struct_bytes = ", given.struct_bytes, ", expected ",
                 sizeof given);
  MLAC_RETURN_IF_ERROR(checkAddress("pool.data", given.data));
  if (given.num_pages < 1 || given.num_pages > kMaxPages)
    return error(MLA_INVALID_ARGUMENT, "pool.num_pages = ", given.num_pages, ", expected 1 to ",
                 kMaxPages);
  CacheShape shape = layouts[pool].shape();
  shape.pageStride = given.page_stride_bytes;
  MLAC_RETURN_IF_ERROR(
      CacheLayout::make(layouts[pool].format().name, shape, layout).in("pool.page_stride_bytes"));
  int64_t stride = layout.pageStride(), bytes;
  if (stride % mlac::cache::kPoolAlignment != 0)
    return error(MLA_INVALID_ARGUMENT, "pool.page_stride_bytes = ", stride,
                 ", expected a multiple of ", mlac::cache::kPoolAlignment);
  if (!checkedMul(stride, given.num_pages, bytes))
    return error(MLA_INVALID_ARGUMENT, "pool.num_pages = ", given.num_pages, ": pages of ", stride,
                 " bytes overflow 64 bits");
  return checkRope(given, layout);
}

Status Engine::checkAlike(const Layer &layer, size_t pool, const LayerPool &memory) const {
  for (const Layer &other : layers) {
    const LayerPool &known = other.pools[pool];
    if (&other == &layer || !known.data() ||
        (known.numPages == memory.numPages && known.pageStride == memory.pageStride))
      continue;
    return error(MLA_INVALID_ARGUMENT, "a pool of ", memory.numPages, " pages, ", memory.pageStride,
                 " bytes apart; layer ", &other - layers.data(), " has ", known.numPages, ", ",
                 known.pageStride, " bytes apart, and a step is planned once for all layers");
  }
  return Status();
}

Status Engine::bindPool(int64_t index, int64_t number, const mla_external_pool *given) {
  Layer *layer;
  MLAC_RETURN_IF_ERROR(getLayer(index, layer));
  MLAC_RETURN_IF_ERROR(checkPoolIndex(number));
  auto pool = static_cast<size_t>(number);
  if (!isExternal(pool))
    return error(MLA_UNSUPPORTED,
                 "the engine has pools of its own: create it with external_pools = ",
                 options_.external_pools | int64_t(1) << pool);
  LayerPool &memory = layer->pools[pool];
  if (!given) {
    memory.base = nullptr;
    return Status();
  }
  CacheLayout layout;
  MLAC_RETURN_IF_ERROR(checkExternal(pool, *given, layout));
  LayerPool wanted;
  wanted.numPages = given->num_pages;
  wanted.pageStride = layout.pageStride();
  MLAC_RETURN_IF_ERROR(checkAlike(*layer, pool, wanted));
  memory.base = static_cast<char *>(given->data);
  memory.numPages = wanted.numPages;
  memory.pageStride = wanted.pageStride;
  layouts[pool] = layout;
  limits_.setPool(pool, wanted.numPages,
                  wanted.pageStride / elementBytes(package_->pools()[pool].dtype));
  return Status();
}
