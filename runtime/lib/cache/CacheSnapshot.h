//===- CacheSnapshot.h - a cache in a file ----------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A snapshot holds everything about a cache but its counters: sequences, block
// tables, published blocks, the order of unused and cached pages, and the bytes
// of every page that is not unused, if somebody has them.
//
//   "MLACSNP1" | file bytes | state bytes | state | pages, by layer | checksum
//
// All numbers are little-endian; every part is a multiple of 8 bytes. A file is
// written under a temporary name, synchronised and renamed. Reading trusts
// nothing: length and checksum find accidents, and a state that was made by hand
// is built apart, proved by KVCache::check, and only then taken over.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_CACHESNAPSHOT_H
#define MLAC_RUNTIME_CACHESNAPSHOT_H

#include "cache/KVCache.h"

#include <functional>

namespace mlac::runtime {

/// Where the bytes of the pools' pages are; nowhere by default.
struct PageBytes {
  int64_t numLayers = 0;
  std::vector<int64_t> bytesPerPage; // of each pool; of those behind the last, nothing
  std::function<Status(int64_t layer, size_t pool, int32_t page, void *bytes)> read;
  std::function<Status(int64_t layer, size_t pool, int32_t page, const void *bytes)> write;

  int64_t ofPool(size_t pool) const { return pool < bytesPerPage.size() ? bytesPerPage[pool] : 0; }
};

class CacheSnapshot {
public:
  /// Writes `cache`, which has no copies to be made. Replaces the file, or
  /// leaves it as it was.
  static Status save(const KVCache &cache, const PageBytes &pages, const std::string &path);
  /// Puts an empty cache into the state of the file, or leaves it empty.
  /// MLA_INVALID_ARGUMENT: the file is of another cache; names what differs.
  /// MLA_CORRUPT: truncated, damaged or inconsistent.
  static Status restore(KVCache &cache, const PageBytes &pages, const std::string &path);

  /// The state alone (save and restore without a file).
  static std::string encode(const KVCache &cache, const PageBytes &pages);
  static Status decode(KVCache &cache, const PageBytes &pages, std::string_view state);

private:
  class Writer;
  class Reader;
  static void encodeConfig(const KVCache &cache, const PageBytes &pages, Writer &writer);
  static Status checkConfig(const KVCache &cache, const PageBytes &pages, Reader &reader);
  static Status readBlocks(KVCache &cache, Reader &reader);
  static Status readSequences(KVCache &cache, Reader &reader);
  static Status readSequence(KVCache &cache, Sequence &sequence, Reader &reader);
  static Status readPools(KVCache &cache, Reader &reader);
  static Status build(KVCache &fresh, Reader &reader);
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_CACHESNAPSHOT_H
