//===- TuneCache.h - the times that were measured ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A file, written after every point, so that a run that was stopped goes on where it
// was:
//
//   { "format": "mlac-tune-1",
//     "entries": { "<key>": { "<schedule and parameters>": microseconds or null } } }
//
// The key is the compiler's version, the options, the kernel and its problem, the
// step that it was timed in, the timer and its device: anything that may change a
// time. null is a point that failed.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_COMPILE_TUNECACHE_H
#define MLA_COMPILE_TUNECACHE_H

#include "llvm/Support/Error.h"

#include <map>
#include <optional>
#include <string>

namespace mlac {

class TuneCache {
public:
  using Times = std::map<std::string, std::optional<double>>;

  /// A file that does not exist is an empty cache; one that is no cache is an
  /// error, and stays as it is.
  static llvm::Expected<TuneCache> load(const std::string &path);
  llvm::Error save() const;
  /// The times of one key, by point.
  Times &get(const std::string &key) { return entries[key]; }
  bool contains(const std::string &key) const { return entries.count(key) != 0; }

private:
  std::string path;
  std::map<std::string, Times> entries;
};

} // namespace mlac

#endif // MLA_COMPILE_TUNECACHE_H
