//===- CheckModel.cpp - model, cache and rotary table of a package --*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "package/CacheFormat.h"
#include "package/Checks.h"
#include "package/PackageVerifier.h"

#include <cmath>

using namespace mlac::runtime;

static constexpr int64_t kMaxRopeLength = int64_t(1) << 31;

Status PackageVerifier::checkModel() {
  const fb::Model &model = package.model();
  struct {
    const char *name;
    int64_t value, low;
  } dims[] = {{"hidden_size", model.hidden_size(), 1},
              {"num_heads", model.num_heads(), 1},
              {"tensor_parallel", model.tensor_parallel(), 0},
              {"q_lora_rank", model.q_lora_rank(), 0},
              {"kv_lora_rank", model.kv_lora_rank(), 1},
              {"qk_nope_head_dim", model.qk_nope_head_dim(), 1},
              {"qk_rope_head_dim", model.qk_rope_head_dim(), 0},
              {"v_head_dim", model.v_head_dim(), 1}};
  for (auto &dim : dims)
    MLAC_RETURN_IF_ERROR(requireRange(dim.name, dim.value, dim.low, kMaxModelDim));
  return requireType("activation_dtype", model.activation_dtype());
}

Status PackageVerifier::checkCache() {
  const fb::CacheLayout &cache = package.cache();
  const fb::Model &model = package.model();
  MLAC_RETURN_IF_ERROR(requireText("layout", cache.layout()));
  MLAC_RETURN_IF_ERROR(requireType("dtype", cache.dtype()));
  MLAC_RETURN_IF_ERROR(requireRange("page_size", cache.page_size(), 1, kMaxPageSize));
  if (cache.kv_lora_rank() != model.kv_lora_rank() ||
      cache.qk_rope_head_dim() != model.qk_rope_head_dim())
    return error(MLA_CORRUPT, "ranks ", cache.kv_lora_rank(), " + ", cache.qk_rope_head_dim(),
                 " differ from the model's ", model.kv_lora_rank(), " + ",
                 model.qk_rope_head_dim());
  CacheLayout layout;
  CacheShape shape{toType(model.activation_dtype()),
                   {cache.kv_lora_rank(), cache.qk_rope_head_dim()},
                   cache.page_size(),
                   0};
  // As of a file: what a caller of the formats passes wrongly is damage here.
  if (Status status = CacheLayout::make(text(cache.layout()), shape, layout); !status.isOk())
    return status.code() == MLA_UNSUPPORTED ? status : Status(MLA_CORRUPT, status.message());
  if (!cache::hasKernels(layout.format()))
    return error(MLA_UNSUPPORTED, "layout '", text(cache.layout()),
                 "': this runtime's engines need scales beside what they scale");
  mla_dtype stored = storageType(layout.format(), shape.dtype);
  if (toType(cache.dtype()) != stored)
    return error(MLA_CORRUPT, "dtype ", typeName(toType(cache.dtype())), ", rows of layout ",
                 text(cache.layout()), " are ", typeName(stored));
  return requireRange("row_bytes", cache.row_bytes(), layout.tokenBytes(), layout.tokenBytes());
}

/// Whether rows of the package's cache have elements of this type.
bool PackageVerifier::hasCacheType(mla_dtype type) const {
  const cache::Format &format = *cache::findFormat(text(package.cache().layout()));
  auto model = toType(package.model().activation_dtype());
  for (size_t i = 0; i < format.numFields; ++i)
    if (fieldType(format.fields[i], model) == type)
      return true;
  return false;
}

static Status requireFinite(const char *what, const flatbuffers::Vector<float> *values) {
  for (size_t i = 0; i < sizeOf(values); ++i)
    if (!std::isfinite(values->Get(i)))
      return error(MLA_CORRUPT, what, "[", i, "] is not finite");
  return Status();
}

Status PackageVerifier::checkRope() {
  const fb::RopeSpec &rope = package.rope();
  size_t pairs = package.model().qk_rope_head_dim() / 2;
  size_t numLong = sizeOf(rope.inv_freq_long());
  if (sizeOf(rope.inv_freq()) != pairs)
    return error(MLA_CORRUPT, "inv_freq has ", sizeOf(rope.inv_freq()),
                 " values, expected qk_rope_head_dim / 2 = ", pairs);
  if (numLong != 0 && numLong != pairs)
    return error(MLA_CORRUPT, "inv_freq_long has ", numLong, " values, expected 0 or ", pairs);
  MLAC_RETURN_IF_ERROR(requireFinite("inv_freq", rope.inv_freq()));
  MLAC_RETURN_IF_ERROR(requireFinite("inv_freq_long", rope.inv_freq_long()));
  if (!std::isfinite(rope.multiplier()))
    return error(MLA_CORRUPT, "multiplier is not finite");
  return requireRange("length", static_cast<int64_t>(rope.length()), 1, kMaxRopeLength);
}
