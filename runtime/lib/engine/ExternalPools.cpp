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

Status Engine::requirePool(const Layer &layer) const {
  if (layer.pool.data())
    return Status();
  return error(MLA_WRONG_STATE, "layer ", &layer - layers.data(),
               " has no pool: give it the caller's (mla_engine_bind_pool)");
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
  if (layout.sectionBytes(kRopeSection) == 0)
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

Status Engine::checkExternal(const mla_external_pool &given, CacheLayout &layout) const {
  if (given.struct_bytes != sizeof given)
    return error(MLA_INVALID_ARGUMENT, "pool.struct_bytes = ", given.struct_bytes, ", expected ",
                 sizeof given);
  MLAC_RETURN_IF_ERROR(checkAddress("pool.data", given.data));
  if (given.num_pages < 1 || given.num_pages > kMaxPages)
    return error(MLA_INVALID_ARGUMENT, "pool.num_pages = ", given.num_pages, ", expected 1 to ",
                 kMaxPages);
  CacheShape shape = layout_.shape();
  shape.pageStride = given.page_stride_bytes;
  MLAC_RETURN_IF_ERROR(
      CacheLayout::make(layout_.format().name, shape, layout).in("pool.page_stride_bytes"));
  int64_t stride = layout.pageStride(), bytes;
  if (stride % mlac::cache::kPoolAlignment != 0)
    return error(MLA_INVALID_ARGUMENT, "pool.page_stride_bytes = ", stride,
                 ", expected a multiple of ", mlac::cache::kPoolAlignment);
  if (!checkedMul(stride, given.num_pages, bytes))
    return error(MLA_INVALID_ARGUMENT, "pool.num_pages = ", given.num_pages, ": pages of ", stride,
                 " bytes overflow 64 bits");
  return checkRope(given, layout);
}

Status Engine::checkAlike(const Layer &layer, const LayerPool &pool) const {
  for (const Layer &other : layers) {
    const LayerPool &known = other.pool;
    if (&other == &layer || !known.data() ||
        (known.numPages == pool.numPages && known.pageStride == pool.pageStride))
      continue;
    return error(MLA_INVALID_ARGUMENT, "a pool of ", pool.numPages, " pages, ", pool.pageStride,
                 " bytes apart; layer ", &other - layers.data(), " has ", known.numPages, ", ",
                 known.pageStride, " bytes apart, and a step is planned once for all layers");
  }
  return Status();
}

Status Engine::bindPool(int64_t index, const mla_external_pool *given) {
  Layer *layer;
  MLAC_RETURN_IF_ERROR(getLayer(index, layer));
  if (!hasExternalPools())
    return error(MLA_UNSUPPORTED,
                 "the engine has pools of its own: create it with external_pools = 1");
  if (!given) {
    layer->pool = {};
    return Status();
  }
  CacheLayout layout;
  MLAC_RETURN_IF_ERROR(checkExternal(*given, layout));
  LayerPool pool;
  pool.base = static_cast<char *>(given->data);
  pool.numPages = given->num_pages;
  pool.pageStride = layout.pageStride();
  MLAC_RETURN_IF_ERROR(checkAlike(*layer, pool));
  layer->pool = std::move(pool);
  layout_ = layout;
  limits_.numPages = given->num_pages;
  limits_.pageStrideElements =
      layout.pageStride() / elementBytes(static_cast<mla_dtype>(package_->cache().dtype()));
  return Status();
}
