//===- SnapshotFile.h - checksummed files, all or nothing -------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The file around a snapshot (CacheSnapshot.h): written under a temporary name in
// the same folder, synchronised, then renamed; read only if length and checksum
// are right. The checksum is PackageTrailer.h's, a word at a time.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_SNAPSHOTFILE_H
#define MLAC_RUNTIME_SNAPSHOTFILE_H

#include "base/RegularFile.h"

#include <cstdint>

namespace mlac::runtime {

/// Every part of a snapshot is a multiple of this.
inline constexpr int64_t kSnapshotWord = 8;

/// FNV-1a over words; each step is a bijection of the state, so damage within
/// one word is always found.
class WordChecksum {
public:
  /// `bytes` is a multiple of kSnapshotWord.
  void add(const void *data, size_t bytes);
  uint64_t value() const { return state; }

private:
  uint64_t state = 0xcbf29ce484222325;
};

class SnapshotWriter {
public:
  SnapshotWriter() = default;
  SnapshotWriter(const SnapshotWriter &) = delete;
  /// Removes the temporary file if it was not committed.
  ~SnapshotWriter();

  /// Writes everything before the pages, of which `pageBytes` will follow. What is no
  /// regular file is refused before anything is written.
  Status open(const std::string &path, const std::string &state, int64_t pageBytes);
  Status write(const void *data, size_t bytes);
  Status commit();

private:
  Status fail(const char *what) const;

  std::string path, target, temporary;
  FilePointer file;
  WordChecksum checksum;
};

class SnapshotReader {
public:
  /// Reads the file once to check it, then up to its pages.
  Status open(const std::string &path, std::string &state);
  int64_t pageBytes() const { return pageBytes_; }
  Status read(void *data, size_t bytes);

private:
  Status checkFile(int64_t &stateBytes);

  std::string path;
  FilePointer file;
  int64_t pageBytes_ = 0;
};

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_SNAPSHOTFILE_H
