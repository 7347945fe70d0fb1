//===- CApiCache.cpp - C entry points: cache formats ------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "base/DataType.h"
#include "base/Json.h"
#include "cache/IndexMap.h"
#include "capi/CApiSupport.h"
#include "package/CacheFormat.h"

using namespace mlac;
using namespace mlac::runtime;

//===----------------------------------------------------------------------===//
// The table as text
//===----------------------------------------------------------------------===//

static const char *storageName(cache::Storage storage) {
  static constexpr const char *kNames[] = {"model", "bf16", "f32", "e4m3", "e8m0", "zero", "e2m1"};
  return kNames[static_cast<size_t>(storage)];
}

static Json describe(const cache::Format &format) {
  Json fields = Json::array(), accepts = Json::array();
  for (size_t i = 0; i < format.numFields; ++i) {
    const cache::Field &field = format.fields[i];
    fields.push_back({{"part", cache::partName(field.part)},
                      {"type", storageName(field.storage)},
                      {"section", field.section},
                      {"count", field.count}});
  }
  for (auto [bit, type] : {std::pair(cache::kBF16, MLA_BF16), std::pair(cache::kF16, MLA_F16),
                           std::pair(cache::kF32, MLA_F32)})
    if (format.accepts & bit)
      accepts.push_back(typeName(type));
  return {{"name", std::string(format.name)},
          {"accepts", accepts},
          {"scale_group", format.scaleGroup},
          {"has_layer_scale", format.layerScales > 0},
          {"layer_scales", format.layerScales},
          {"rule", format.rule.isPowerOfTwo ? "power_of_two" : "raw"},
          {"amax_floor", format.rule.amaxFloor},
          {"scale_floor", format.rule.scaleFloor},
          {"page_multiple", format.pageMultiple},
          {"fields", fields}};
}

mla_status mla_cache_formats(const char **json) {
  return report([&]() -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(json, "json"));
    static const std::string &text = *new std::string([] {
      Json formats = Json::array();
      for (const cache::Format &format : cache::kFormats)
        formats.push_back(describe(format));
      return toText(formats);
    }());
    *json = text.c_str();
    return Status();
  });
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

/// DeepSeek-V3's row, for formats of any width.
static constexpr int64_t kDefaultLatent = 512, kDefaultRope = 64, kDefaultPageSize = 64;
/// Columns of its indexer's key.
static constexpr int64_t kDefaultIndex = 128;

static int64_t defaultColumns(const cache::Format &format, const cache::Field &field) {
  if (field.count > 0)
    return field.count;
  if (field.part == cache::Part::Rope)
    return kDefaultRope;
  if (field.part == cache::Part::Index)
    return kDefaultIndex;
  // Heads of keys and values have no usual number.
  return field.part == cache::Part::Latent ? kDefaultLatent : 0;
}

void mla_cache_layout_init(mla_cache_layout *layout, const char *format) {
  if (!layout)
    return;
  *layout = {};
  layout->struct_bytes = sizeof *layout;
  layout->format = format;
  layout->page_size = kDefaultPageSize;
  layout->layer_scale = layout->value_scale = 1;
  layout->amax_floor = layout->scale_floor = -1;
  const cache::Format *known = format ? cache::findFormat(format) : nullptr;
  if (!known)
    return;
  layout->dtype = known->accepts & cache::kBF16 ? MLA_BF16 : MLA_F32;
  for (size_t i = 0; i < known->numFields; ++i)
    if (cache::isRow(known->fields[i].part))
      layout->columns[cache::rowField(*known, i)] = defaultColumns(*known, known->fields[i]);
}

namespace {
/// A caller's layout, checked.
struct Pool {
  CacheLayout layout;
  CacheLayout::Encoding encoding;
  int64_t slots = 0;

  static Status make(const mla_cache_layout *given, Pool &pool);
  Status require(const void *rows, int64_t count, const int64_t *slots, const void *data,
                 size_t bytes) const;
};
} // namespace

Status Pool::make(const mla_cache_layout *given, Pool &pool) {
  MLAC_RETURN_IF_ERROR(requirePointer(given, "layout"));
  if (given->struct_bytes != sizeof *given)
    return error(MLA_INVALID_ARGUMENT, "layout.struct_bytes = ", given->struct_bytes, ", expected ",
                 sizeof *given, " (use mla_cache_layout_init)");
  MLAC_RETURN_IF_ERROR(requirePointer(given->format, "layout.format"));
  CacheShape shape{given->dtype, {}, given->page_size, given->page_stride_bytes};
  std::ranges::copy(given->columns, shape.columns);
  MLAC_RETURN_IF_ERROR(CacheLayout::make(given->format, shape, pool.layout));
  if (given->scale_rule < MLA_SCALE_DEFAULT || given->scale_rule > MLA_SCALE_POWER_OF_TWO)
    return error(MLA_INVALID_ARGUMENT, "scale_rule = ", given->scale_rule, ", expected 0 to ",
                 MLA_SCALE_POWER_OF_TWO);
  pool.encoding = pool.layout.defaultEncoding();
  pool.encoding.layerScales[0] = given->layer_scale;
  pool.encoding.layerScales[1] = given->value_scale;
  cache::ScaleRule &rule = pool.encoding.rule;
  if (given->scale_rule != MLA_SCALE_DEFAULT)
    rule.isPowerOfTwo = given->scale_rule == MLA_SCALE_POWER_OF_TWO;
  // Negative means the format's; a NaN is kept and refused.
  rule.amaxFloor = given->amax_floor < 0 ? rule.amaxFloor : given->amax_floor;
  rule.scaleFloor = given->scale_floor < 0 ? rule.scaleFloor : given->scale_floor;
  MLAC_RETURN_IF_ERROR(pool.layout.check(pool.encoding));
  if (given->num_pages < 0 || pool.layout.poolBytes(given->num_pages) < 0)
    return error(MLA_INVALID_ARGUMENT, "num_pages = ", given->num_pages, " of ",
                 pool.layout.pageStride(), " bytes, expected 0 or more and below 2^63 bytes");
  pool.slots = given->num_pages * given->page_size;
  return Status();
}

Status Pool::require(const void *rows, int64_t count, const int64_t *given, const void *data,
                     size_t bytes) const {
  auto needed = static_cast<size_t>(layout.poolBytes(slots / layout.shape().pageSize));
  if (bytes < needed)
    return error(MLA_INVALID_ARGUMENT, "pool of ", bytes, " bytes, the layout needs ", needed);
  if (count < 0)
    return error(MLA_INVALID_ARGUMENT, "count = ", count, ", expected 0 or more");
  if (count == 0)
    return Status();
  MLAC_RETURN_IF_ERROR(requirePointer(rows, "rows"));
  MLAC_RETURN_IF_ERROR(requirePointer(data, "pool"));
  for (int64_t i = 0; i < count; ++i)
    if (int64_t slot = given ? given[i] : i; slot >= slots)
      return error(MLA_INVALID_ARGUMENT, "slot ", slot, " of row ", i, ", the pool has ", slots);
  return Status();
}

mla_status mla_cache_layout_offset(const mla_cache_layout *layout, const char *field, int64_t slot,
                                   int64_t *offset) {
  return report([&]() -> Status {
    Pool pool;
    MLAC_RETURN_IF_ERROR(Pool::make(layout, pool));
    MLAC_RETURN_IF_ERROR(requirePointer(field, "field"));
    MLAC_RETURN_IF_ERROR(requirePointer(offset, "offset"));
    if (slot < 0 || slot >= pool.slots)
      return error(MLA_INVALID_ARGUMENT, "slot ", slot, ", the pool has ", pool.slots);
    const cache::Format &format = pool.layout.format();
    size_t index = findPart(format, field);
    if (index == format.numFields)
      return error(MLA_NOT_FOUND, "format ", format.name, " has no field '", field, "'");
    *offset = pool.layout.offset(index, slot);
    return Status();
  });
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

mla_status mla_cache_encode(const mla_cache_layout *layout, const void *rows, int64_t count,
                            const int64_t *slots, void *data, size_t bytes) {
  return report([&]() -> Status {
    Pool pool;
    MLAC_RETURN_IF_ERROR(Pool::make(layout, pool));
    MLAC_RETURN_IF_ERROR(pool.require(rows, count, slots, data, bytes));
    int64_t rowBytes = pool.layout.rowWidth() * elementBytes(layout->dtype);
    for (int64_t i = 0; i < count; ++i)
      if (int64_t slot = slots ? slots[i] : i; slot >= 0)
        pool.layout.encode(pool.encoding, static_cast<const char *>(rows) + i * rowBytes, slot,
                           data);
    return Status();
  });
}

mla_status mla_cache_decode(const mla_cache_layout *layout, const void *data, size_t bytes,
                            int64_t count, const int64_t *slots, void *rows) {
  return report([&]() -> Status {
    Pool pool;
    MLAC_RETURN_IF_ERROR(Pool::make(layout, pool));
    MLAC_RETURN_IF_ERROR(pool.require(rows, count, slots, data, bytes));
    int64_t rowBytes = pool.layout.rowWidth() * elementBytes(layout->dtype);
    for (int64_t i = 0; i < count; ++i)
      if (int64_t slot = slots ? slots[i] : i; slot >= 0)
        pool.layout.decode(pool.encoding, data, slot, static_cast<char *>(rows) + i * rowBytes);
    return Status();
  });
}

//===----------------------------------------------------------------------===//
// Indices
//===----------------------------------------------------------------------===//

mla_status mla_cache_convert_indices(const mla_index_map *map, const int32_t *positions,
                                     const int32_t *requests, int64_t rows, int64_t width,
                                     int32_t *indices) {
  return report([&]() -> Status {
    MLAC_RETURN_IF_ERROR(requirePointer(map, "map"));
    return convertIndices(*map, positions, requests, rows, width, indices);
  });
}
