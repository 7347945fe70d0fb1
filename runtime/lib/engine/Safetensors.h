//===- Safetensors.h - reading safetensors files ----------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A bounds-checked reader over a read-only mapping:
//
//   8 bytes  header length n, little-endian
//   n bytes  JSON: name -> {dtype, shape, data_offsets: [begin, end)}
//   rest     data; offsets count from here
//
// Open fails (MLA_CORRUPT) unless the header is well-formed, no name occurs
// twice, every tensor's bytes match its dtype and shape, and the tensors cover
// the data without gaps or overlaps, as the format demands.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_SAFETENSORS_H
#define MLAC_RUNTIME_SAFETENSORS_H

#include "base/DataType.h"
#include "base/Status.h"

#include <map>
#include <span>

namespace mlac::runtime {

struct SafetensorsEntry {
  std::string dtype; // as in the file: "BF16", "F32", ...
  std::vector<int64_t> shape;
  uint64_t begin, end; // into data()
};

class Safetensors {
public:
  Safetensors() = default;
  Safetensors(const Safetensors &) = delete;
  ~Safetensors();

  Status open(const std::string &path);

  const std::map<std::string, SafetensorsEntry, std::less<>> &entries() const { return entries_; }
  /// The strings of __metadata__; others there are skipped.
  const std::map<std::string, std::string> &metadata() const { return metadata_; }
  /// The bytes of a tensor, not necessarily aligned.
  const uint8_t *bytes(const SafetensorsEntry &entry) const { return data.data() + entry.begin; }

private:
  Status map(const std::string &path);
  Status parse();
  Status checkCoverage() const;

  std::span<const uint8_t> file, data;
  std::map<std::string, SafetensorsEntry, std::less<>> entries_;
  std::map<std::string, std::string> metadata_;
};

/// The runtime's type for a safetensors dtype; false for others (F64, ...).
bool toRuntimeType(std::string_view dtype, mla_dtype &result);

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_SAFETENSORS_H
