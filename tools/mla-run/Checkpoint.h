//===- Safetensors.h - reads tensors of a safetensors file ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For the inputs and outputs of golden layers; weights go to the runtime by
// path. Format: 8-byte little-endian header length, JSON header (name to dtype,
// shape, data_offsets), raw data. Every offset is checked.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_RUN_SAFETENSORS_H
#define MLA_RUN_SAFETENSORS_H

#include "nlohmann/json.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace mlac::run {

struct StoredTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  size_t begin, end; // bytes in the data section
  /// -1 where the shape makes no sense.
  int64_t elements() const;
};

class Safetensors {
public:
  /// Throws std::runtime_error when the file cannot be read or is damaged.
  explicit Safetensors(const std::string &path);

  const std::map<std::string, std::string> &metadata() const { return strings; }
  const std::map<std::string, StoredTensor> &tensors() const { return entries; }
  /// Null when there is none of that name.
  const StoredTensor *find(const std::string &name) const;
  /// The values of a BF16 or F32 tensor.
  std::vector<float> read(const std::string &name) const;

private:
  void addTensor(const std::string &name, const nlohmann::json &value);

  std::string path;
  std::string content;
  size_t dataStart = 0;
  std::map<std::string, std::string> strings;
  std::map<std::string, StoredTensor> entries;
};

} // namespace mlac::run

#endif // MLA_RUN_SAFETENSORS_H
