//===- CacheFormats.h - the table of cache formats --------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a page of the cache looks like in each format, described once for the
// compiler (types and kernels) and the runtime (sizes, addresses, conversion on
// the host). Adding a format is adding a row to kFormats.
//
// A page is one or two *sections*. In a section the tokens of the page follow one
// another, each with the same *fields*; fields lie in the order of the row without
// gaps:
//
//   one section (fp8_ds_mla)      two sections (model1_584, B tokens)
//   token 0 | latent scale rope   token 0 | latent rope     section 0
//   token 1 | latent scale rope   token 1 | latent rope
//   ...                           ...
//                                 token 0 | scale padding   section 1, at byte B * 576
//                                 token 1 | scale padding
//                                 rest, to a multiple of 576 bytes
//
// In split_ckv_kpe section 0 is the latent and section 1 the rope key, in kv_nhd the keys
// and the values of all heads.
//
// Sources: docs/spec/paged-cache.md section 2, sparse.md section 3, v4.md section 4.
// Shared by the compiler and the runtime; depends on neither.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_CACHEFORMATS_H
#define MLAC_CACHEFORMATS_H

#include <cfloat>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace mlac::cache {

/// How a field's elements are stored. `Model` is the model's activation type; of two E2M1 codes in
/// a byte the first is in its low bits.
enum class Storage : uint8_t { Model, BF16, F32, E4M3, E8M0, Zero, E2M1 };

/// Whether elements are numbers of few bits, which scales go with.
constexpr bool isCode(Storage storage) {
  return storage == Storage::E4M3 || storage == Storage::E2M1;
}

/// The largest e4m3 and e2m1 numbers.
inline constexpr float kMostE4M3 = 448, kMostE2M1 = 6;

/// What a field holds of a token: a part of its row as the model has it, or what storing
/// the row takes beside.
enum class Part : uint8_t { Latent, Rope, Key, Value, Index, Scale, Padding };

constexpr const char *partName(Part part) {
  constexpr const char *kNames[] = {"latent", "rope", "key", "value", "index", "scale", "padding"};
  return kNames[static_cast<size_t>(part)];
}
/// Whether rows outside of the cache have it.
constexpr bool isRow(Part part) { return part < Part::Scale; }

struct Field {
  Part part;
  Storage storage;
  uint8_t section = 0;
  /// Elements of a token; 0: the model's width (of scales: one per group).
  int32_t count = 0;
};

/// How a scale follows from the largest magnitude `amax` of its group:
/// s = max(max(amax, amaxFloor) / mostCode, scaleFloor), rounded up to a power of two or
/// not. Peers differ in the floors.
struct ScaleRule {
  bool isPowerOfTwo;
  float amaxFloor, scaleFloor;
  float mostCode = kMostE4M3; ///< the largest number that codes are of
};

/// Floors of published writers (paged-cache.md section 4).
inline constexpr float kAmaxFloor = 1e-4f;

/// Which activation types a format takes, as a set.
enum Accepts : uint8_t { kBF16 = 1, kF16 = 2, kF32 = 4 };

/// Fields of a page's row; fields of the row as the model has it; sections of a page.
inline constexpr size_t kMaxFields = 4, kMaxRowFields = 2, kMaxSections = 2;

struct Format {
  std::string_view name;
  uint8_t accepts;
  /// Elements of the first field that share a scale; 0: no scale in the cache.
  int32_t scaleGroup;
  /// Scales of all rows of a layer, which are not in the cache: none, one for the whole row, or
  /// one for each of its fields.
  int32_t layerScales;
  ScaleRule rule;
  /// Pages are rounded up to a multiple of this many bytes.
  int32_t pageMultiple;
  size_t numFields;
  Field fields[kMaxFields];
};

inline constexpr ScaleRule kNoRule = {false, 0, 0};
/// Blocks of e2m1 codes under one exponent of at least -126.
inline constexpr ScaleRule kMxfp4Rule = {true, kMostE2M1 *FLT_MIN, 0, kMostE2M1};

/// Alignment in bytes of the pool. Rows of each section that has
/// fields of the model's row are multiples of it, too (paged-cache.md section 1).
inline constexpr int64_t kPoolAlignment = 16;

inline constexpr Format kFormats[] = {
    {"mla_16",
     kBF16 | kF16,
     0,
     0,
     kNoRule,
     1,
     2,
     {{Part::Latent, Storage::Model}, {Part::Rope, Storage::Model}}},
    {"mla_f32",
     kF32,
     0,
     0,
     kNoRule,
     1,
     2,
     {{Part::Latent, Storage::F32}, {Part::Rope, Storage::F32}}},
    {"mla_fp8_tensor",
     kBF16 | kF16 | kF32,
     0,
     1,
     kNoRule,
     1,
     2,
     {{Part::Latent, Storage::E4M3}, {Part::Rope, Storage::E4M3}}},
    {"fp8_ds_mla",
     kBF16,
     128,
     0,
     {false, 0, FLT_MIN},
     1,
     3,
     {{Part::Latent, Storage::E4M3, 0, 512},
      {Part::Scale, Storage::F32},
      {Part::Rope, Storage::BF16, 0, 64}}},
    // FlashInfer's ckv_cache and kpe_cache, page by page in one pool: its kernels take
    // any strides of pages and rows (flashinfer-ai/flashinfer csrc/batch_mla_run.cu).
    {"split_ckv_kpe",
     kBF16 | kF16 | kF32,
     0,
     0,
     kNoRule,
     1,
     2,
     {{Part::Latent, Storage::Model}, {Part::Rope, Storage::Model, 1}}},
    // Keys and values of a token's heads, [heads, columns] each: FlashInfer's paged NHD.
    {"kv_nhd",
     kBF16 | kF16 | kF32,
     0,
     0,
     kNoRule,
     1,
     2,
     {{Part::Key, Storage::Model}, {Part::Value, Storage::Model, 1}}},
    // The same of each alone, for pools of keys and of values: FlashInfer's k_cache and v_cache.
    {"k_nhd", kBF16 | kF16 | kF32, 0, 0, kNoRule, 1, 1, {{Part::Key, Storage::Model}}},
    {"v_nhd", kBF16 | kF16 | kF32, 0, 0, kNoRule, 1, 1, {{Part::Value, Storage::Model}}},
    // Both as codes, with a scale each: what engines call k_scale and v_scale.
    {"kv_nhd_fp8",
     kBF16 | kF16 | kF32,
     0,
     2,
     kNoRule,
     1,
     2,
     {{Part::Key, Storage::E4M3}, {Part::Value, Storage::E4M3, 1}}},
    // Keys of a lightning indexer, which peers declare as [pages, page_size, 132] bytes.
    {"index_k",
     kBF16 | kF16 | kF32,
     128,
     0,
     {true, kAmaxFloor, 0},
     4,
     2,
     {{Part::Index, Storage::E4M3}, {Part::Scale, Storage::F32, 1}}},
    // The same keys as MXFP4 (OCP Microscaling Formats 1.0): [pages, page_size, 68] bytes of peers.
    {"index_k_mxfp4",
     kBF16 | kF32,
     32,
     0,
     kMxfp4Rule,
     4,
     2,
     {{Part::Index, Storage::E2M1}, {Part::Scale, Storage::E8M0, 1}}},
    // 576 bytes are the rows of its first section, which TMA reads as one matrix.
    {"model1_584",
     kBF16,
     64,
     0,
     {true, kAmaxFloor, 0},
     576,
     4,
     {{Part::Latent, Storage::E4M3, 0, 448},
      {Part::Rope, Storage::BF16, 0, 64},
      {Part::Scale, Storage::E8M0, 1},
      {Part::Padding, Storage::Zero, 1, 1}}},
};

/// The format of that name, or null.
constexpr const Format *findFormat(std::string_view name) {
  for (const Format &format : kFormats)
    if (format.name == name)
      return &format;
  return nullptr;
}

/// Elements of each field of one model's rows, heads times columns where it has heads, and
/// the bytes of its activations' elements.
struct Widths {
  int64_t columns[kMaxRowFields];
  int64_t modelBytes;
};

/// Of a field of the row: which one it is, from 0.
constexpr size_t rowField(const Format &format, size_t index) {
  size_t count = 0;
  for (size_t i = 0; i < index; ++i)
    count += isRow(format.fields[i].part);
  return count;
}
constexpr size_t numRowFields(const Format &format) { return rowField(format, format.numFields); }
/// Which of the layer's scales a field of the row has.
constexpr size_t layerScale(const Format &format, size_t index) {
  return format.layerScales > 1 ? rowField(format, index) : 0;
}

constexpr int64_t storageBits(Storage storage, int64_t modelBytes) {
  switch (storage) {
  case Storage::Model:
    return modelBytes * 8;
  case Storage::BF16:
    return 16;
  case Storage::F32:
    return 32;
  case Storage::E4M3:
  case Storage::E8M0:
  case Storage::Zero:
    return 8;
  case Storage::E2M1:
    return 4;
  }
  return 0;
}

/// Elements of a field in one token.
constexpr int64_t fieldCount(const Format &format, size_t index, const Widths &widths) {
  const Field &field = format.fields[index];
  if (field.count > 0)
    return field.count;
  if (field.part == Part::Scale)
    return widths.columns[0] / format.scaleGroup;
  return widths.columns[rowField(format, index)];
}

/// Bytes of a field in one token.
constexpr int64_t fieldBytes(const Format &format, size_t index, const Widths &widths) {
  return fieldCount(format, index, widths) *
         storageBits(format.fields[index].storage, widths.modelBytes) / 8;
}

/// Bytes of a token in one section.
constexpr int64_t sectionBytes(const Format &format, int section, const Widths &widths) {
  int64_t bytes = 0;
  for (size_t i = 0; i < format.numFields; ++i)
    if (format.fields[i].section == section)
      bytes += fieldBytes(format, i, widths);
  return bytes;
}

/// Where a section begins in a page of `tokens`, in bytes.
constexpr int64_t sectionStart(const Format &format, int section, int64_t tokens,
                               const Widths &widths) {
  return section ? tokens * sectionBytes(format, 0, widths) : 0;
}

/// Bytes of a token in all sections.
constexpr int64_t tokenBytes(const Format &format, const Widths &widths) {
  return sectionBytes(format, 0, widths) + sectionBytes(format, 1, widths);
}

/// Where a field begins in its section's token, in bytes.
constexpr int64_t fieldOffset(const Format &format, size_t index, const Widths &widths) {
  int64_t bytes = 0;
  for (size_t i = 0; i < index; ++i)
    if (format.fields[i].section == format.fields[index].section)
      bytes += fieldBytes(format, i, widths);
  return bytes;
}

/// Index of the field that holds `part`, or numFields.
constexpr size_t findField(const Format &format, Part part) {
  size_t index = 0;
  while (index < format.numFields && format.fields[index].part != part)
    ++index;
  return index;
}

/// Whether pages have several sections: no one number then says where all of a row lies.
constexpr bool hasSections(const Format &format) {
  for (size_t i = 0; i < format.numFields; ++i)
    if (format.fields[i].section != 0)
      return true;
  return false;
}

/// Whether scales are bare exponents, bytes that say 2^(byte - 127).
constexpr bool hasExponents(const Format &format) {
  size_t index = findField(format, Part::Scale);
  return index < format.numFields && format.fields[index].storage == Storage::E8M0;
}

/// Whether a byte of the row's first field has two of its elements.
constexpr bool isPacked(const Format &format) { return format.fields[0].storage == Storage::E2M1; }

/// Whether a section has fields of the row as the model has it.
constexpr bool hasRows(const Format &format, int section) {
  for (size_t i = 0; i < format.numFields; ++i)
    if (format.fields[i].section == section && isRow(format.fields[i].part))
      return true;
  return false;
}

/// Least bytes of a page of `tokens`.
constexpr int64_t pageBytes(const Format &format, int64_t tokens, const Widths &widths) {
  int64_t bytes = tokens * tokenBytes(format, widths), multiple = format.pageMultiple;
  return (bytes + multiple - 1) / multiple * multiple;
}

// The sizes that the specification states.
static_assert(tokenBytes(*findFormat("mla_16"), {{512, 64}, 2}) == 1152);
static_assert(tokenBytes(*findFormat("mla_fp8_tensor"), {{512, 64}, 2}) == 576);
static_assert(sectionStart(*findFormat("split_ckv_kpe"), 1, 64, {{512, 64}, 2}) == 64 * 1024);
static_assert(tokenBytes(*findFormat("fp8_ds_mla"), {{512, 64}, 2}) == 656);
static_assert(sectionStart(*findFormat("kv_nhd"), 1, 16, {{8 * 128, 8 * 128}, 2}) == 16 * 2048);
static_assert(sectionStart(*findFormat("kv_nhd_fp8"), 1, 16, {{8 * 128, 8 * 128}, 2}) == 16 * 1024);
static_assert(tokenBytes(*findFormat("index_k"), {{128, 0}, 2}) == 132);
static_assert(tokenBytes(*findFormat("index_k_mxfp4"), {{128, 0}, 2}) == 68);
static_assert(sectionStart(*findFormat("index_k_mxfp4"), 1, 64, {{128, 0}, 2}) == 4096);
static_assert(tokenBytes(*findFormat("model1_584"), {{448, 64}, 2}) == 584);
static_assert(pageBytes(*findFormat("model1_584"), 64, {{448, 64}, 2}) == 37440);
static_assert(pageBytes(*findFormat("model1_584"), 2, {{448, 64}, 2}) == 1728);

/// Every format has a row, of no more fields than there is room for.
constexpr bool haveRows() {
  for (const Format &format : kFormats)
    if (numRowFields(format) < 1 || numRowFields(format) > kMaxRowFields ||
        !isRow(format.fields[0].part))
      return false;
  return true;
}
static_assert(haveRows());

} // namespace mlac::cache

#endif // MLAC_CACHEFORMATS_H
