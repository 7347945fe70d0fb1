//===- CacheFormat.h - cache rows on the host -------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Addresses, encoding and decoding of rows in any format of CacheFormats.h. This is
// the meaning of the formats that kernels are tested against, byte by byte.
//
//   slot = page * page_size + i
//   byte = page * page_stride + page_size * (bytes of the sections before)
//          + i * (bytes of a token in the section) + offset of the field
//
// All products are 64-bit; the page stride may exceed what a page needs.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_CACHEFORMAT_H
#define MLAC_RUNTIME_CACHEFORMAT_H

#include "CacheFormats.h"
#include "base/Status.h"

namespace mlac::runtime {

/// What a format leaves open. Bytes and tokens.
struct CacheShape {
  mla_dtype dtype = MLA_BF16;                 // of rows outside of the cache
  int64_t columns[cache::kMaxRowFields] = {}; // of the row's fields, all heads together
  int64_t pageSize = 1;
  int64_t pageStride = 0; // 0: the smallest
};

/// What an element of a pool in `format` is to a package: u8 where fields of several
/// types share a row.
mla_dtype storageType(const cache::Format &format, mla_dtype modelType);

/// The type of a field's elements; of e8m0 and padding, u8.
mla_dtype fieldType(const cache::Field &field, mla_dtype modelType);

/// The index of the field that holds a part of that name, or numFields.
size_t findPart(const cache::Format &format, std::string_view name);

/// "mla_16, mla_f32, ..." for messages.
std::string knownFormats();

class CacheLayout {
public:
  /// Refuses widths, types and strides that the format does not have; names value and
  /// limit.
  static Status make(std::string_view format, const CacheShape &shape, CacheLayout &layout);

  const cache::Format &format() const { return *format_; }
  const CacheShape &shape() const { return shape_; }
  int64_t tokenBytes() const { return cache::tokenBytes(*format_, widths()); }
  int64_t pageStride() const { return shape_.pageStride; }
  /// Of a section: where it begins in a page, and bytes of a token in it.
  int64_t sectionStart(size_t section) const {
    return cache::sectionStart(*format_, int(section), shape_.pageSize, widths());
  }
  int64_t sectionBytes(size_t section) const {
    return cache::sectionBytes(*format_, int(section), widths());
  }
  /// Elements of a row outside of the cache.
  int64_t rowWidth() const { return rowStart(format_->numFields); }
  /// The first element of field `index` in it.
  int64_t rowStart(size_t index) const;

  /// Elements of field `index` in one token.
  int64_t count(size_t index) const { return cache::fieldCount(*format_, index, widths()); }
  /// Byte of field `index` of the token in `slot` (>= 0), from the pool's start.
  int64_t offset(size_t index, int64_t slot) const;
  /// The least pool that has this many pages, or a negative number on overflow.
  int64_t poolBytes(int64_t numPages) const;

  /// How to encode: the format's own rule unless changed.
  struct Encoding {
    cache::ScaleRule rule;
    /// Of the row's fields, or the first of all.
    float layerScales[cache::kMaxRowFields] = {1, 1};
  };
  Encoding defaultEncoding() const { return {.rule = format_->rule}; }
  Status check(const Encoding &encoding) const;

  /// One row, its fields behind one another, of shape().dtype to or from its place in `pool`.
  void encode(const Encoding &encoding, const void *row, int64_t slot, void *pool) const;
  void decode(const Encoding &encoding, const void *pool, int64_t slot, void *row) const;

private:
  cache::Widths widths() const;
  /// A code of a group of its own; of two in a byte the other one stays.
  void writeCode(char *codes, int64_t position, float value) const;
  float readCode(const char *codes, int64_t position) const;
  void encodeGroup(const Encoding &encoding, const float *values, int64_t group, int64_t slot,
                   char *pool) const;
  float readScale(const char *pool, int64_t slot, int64_t group) const;

  const cache::Format *format_ = nullptr;
  CacheShape shape_;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_CACHEFORMAT_H
