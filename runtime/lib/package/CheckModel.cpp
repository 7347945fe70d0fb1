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

using namespace mlac;
using namespace mlac::runtime;
using cache::partName;

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
              {"kv_lora_rank", model.kv_lora_rank(), 0},
              {"qk_nope_head_dim", model.qk_nope_head_dim(), 1},
              {"qk_rope_head_dim", model.qk_rope_head_dim(), 0},
              {"v_head_dim", model.v_head_dim(), 1}};
  for (auto &dim : dims)
    MLAC_RETURN_IF_ERROR(requireRange(dim.name, dim.value, dim.low, kMaxModelDim));
  return requireType("activation_dtype", model.activation_dtype());
}

/// The widths of the format's fields, which are those of the package in this order.
static Status readFields(const fb::Pool &raw, const cache::Format &format, CacheShape &shape) {
  size_t next = 0, count = sizeOf(raw.fields());
  for (size_t i = 0; i < format.numFields; ++i) {
    const cache::Field &field = format.fields[i];
    bool isNext = next < count && text(raw.fields()->Get(next)->name()) == partName(field.part);
    if (!cache::isRow(field.part) || !isNext)
      continue;
    const fb::PoolField &given = *raw.fields()->Get(next++);
    MLAC_RETURN_IF_ERROR(requireRange("heads", given.heads(), 1, kMaxModelDim));
    MLAC_RETURN_IF_ERROR(requireRange("columns", given.columns(), 1, kMaxModelDim));
    int64_t width = int64_t(given.heads()) * given.columns();
    MLAC_RETURN_IF_ERROR(requireRange("heads * columns", width, 1, kMaxModelDim));
    shape.columns[cache::rowField(format, i)] = width;
  }
  if (next == count)
    return Status();
  return error(MLA_CORRUPT, "field '", text(raw.fields()->Get(next)->name()), "' is not of format ",
               format.name, " there");
}

Status PackageVerifier::readPool(const fb::Pool &raw, PoolInfo &pool) {
  MLAC_RETURN_IF_ERROR(requireText("name", raw.name()));
  MLAC_RETURN_IF_ERROR(requireText("format", raw.format()));
  MLAC_RETURN_IF_ERROR(requireType("dtype", raw.dtype()));
  MLAC_RETURN_IF_ERROR(requireType("element", raw.element()));
  MLAC_RETURN_IF_ERROR(requireRange("page_size", raw.page_size(), 1, kMaxPageSize));
  MLAC_RETURN_IF_ERROR(requireRange("tokens_per_row", raw.tokens_per_row(), 1, kMaxPageSize));
  MLAC_RETURN_IF_ERROR(requireRange("window", raw.window(), 0, kMaxRopeLength));
  if (text(raw.name()).find(step::kOfPool) != std::string_view::npos)
    return error(MLA_CORRUPT, "the name has a slash");
  const cache::Format *format = cache::findFormat(text(raw.format()));
  if (!format)
    return error(MLA_UNSUPPORTED, "cache format '", text(raw.format()),
                 "', known: ", knownFormats());
  CacheShape shape{toType(raw.element()), {}, raw.page_size(), 0};
  MLAC_RETURN_IF_ERROR(readFields(raw, *format, shape));
  // As of a file: what a caller of the formats passes wrongly is damage here.
  if (Status status = CacheLayout::make(format->name, shape, pool.layout); !status.isOk())
    return Status(MLA_CORRUPT, status.message());
  mla_dtype stored = storageType(*format, shape.dtype);
  if (toType(raw.dtype()) != stored)
    return error(MLA_CORRUPT, "dtype ", typeName(toType(raw.dtype())), ", rows of format ",
                 format->name, " are ", typeName(stored));
  pool.name = text(raw.name());
  pool.dtype = stored;
  pool.tokensPerRow = raw.tokens_per_row();
  pool.window = raw.window();
  pool.raw = &raw;
  return requireRange("row_bytes", raw.row_bytes(), pool.rowBytes(), pool.rowBytes());
}

Status PackageVerifier::readPools() {
  size_t count = sizeOf(root.pools());
  if (count < 1 || count > kMaxPools)
    return error(MLA_CORRUPT, "package has ", count, " pools, expected 1 to ", kMaxPools);
  for (uint32_t i = 0; i < count; ++i) {
    const fb::Pool &raw = *root.pools()->Get(i);
    PoolInfo pool;
    MLAC_RETURN_IF_ERROR(spend(partsOf(raw.name()) + static_cast<int64_t>(sizeOf(raw.fields()))));
    MLAC_RETURN_IF_ERROR(readPool(raw, pool).in("pool ", i, " '", text(raw.name()), "'"));
    if (package.findPool(pool.name) >= 0)
      return error(MLA_CORRUPT, "pool '", pool.name, "' is listed twice");
    package.pools_.push_back(std::move(pool));
  }
  const PoolInfo &first = package.pools_.front();
  if (first.tokensPerRow == 1 && first.window == 0)
    return Status();
  return error(MLA_CORRUPT, "pool '", first.name,
               "': the first pool keeps a row of every token, got tokens_per_row = ",
               first.tokensPerRow, ", window = ", first.window);
}

/// Which pool a buffer is, by its name; it has a type of the pool's fields, or that of their scale.
Status PackageVerifier::resolvePool(BufferInfo &buffer) const {
  step::PoolName split = step::splitName(buffer.name);
  bool isScale = buffer.kind == fb::BufferKind::CacheScale && split.name == "scale";
  int64_t index = package.findPool(isScale ? split.pool : std::string_view(buffer.name));
  if (index < 0)
    return error(MLA_CORRUPT, "names no pool of the package");
  buffer.index = static_cast<uint32_t>(index);
  const CacheLayout &layout = package.pools_[buffer.index].layout;
  const cache::Format &format = layout.format();
  mla_dtype expected = package.pools_[buffer.index].dtype;
  bool isKnown = buffer.dtype == expected;
  if (buffer.kind == fb::BufferKind::CacheScale) {
    expected = MLA_F32;
    isKnown = buffer.dtype == MLA_F32;
    if (format.layerScales == 0)
      return error(MLA_CORRUPT, "rows of format ", format.name, " have no scale of their layer");
  } else {
    for (size_t i = 0; i < format.numFields; ++i)
      isKnown |= fieldType(format.fields[i], layout.shape().dtype) == buffer.dtype;
  }
  if (isKnown)
    return Status();
  return error(MLA_CORRUPT, "has type ", typeName(buffer.dtype), ", expected ", typeName(expected));
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
