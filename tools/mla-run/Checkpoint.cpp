//===- Safetensors.cpp - reads tensors of a safetensors file ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Safetensors.h"

#include "Numbers.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

using namespace mlac::run;

int64_t StoredTensor::elements() const {
  int64_t count = 1;
  for (int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(count, size, &count))
      return -1;
  return count;
}

Safetensors::Safetensors(const std::string &path) : path(path) {
  // A FIFO would block for ever.
  std::error_code missing;
  bool isOther =
      std::filesystem::exists(path, missing) && !std::filesystem::is_regular_file(path, missing);
  if (isOther)
    throw std::runtime_error("'" + path + "' is no regular file");
  std::ifstream stream(path, std::ios::binary);
  if (!stream)
    throw std::runtime_error("cannot read '" + path + "'");
  content.assign(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());

  uint64_t headerBytes = 0;
  if (content.size() < sizeof(headerBytes))
    throw std::runtime_error("'" + path + "' is no safetensors file: it has only " +
                             std::to_string(content.size()) + " bytes");
  std::memcpy(&headerBytes, content.data(), sizeof(headerBytes));
  if (headerBytes > content.size() - sizeof(headerBytes))
    throw std::runtime_error("'" + path + "' is damaged: its header of " +
                             std::to_string(headerBytes) + " bytes exceeds the file of " +
                             std::to_string(content.size()));
  dataStart = sizeof(headerBytes) + headerBytes;
  auto header = nlohmann::json::parse(content.data() + sizeof(headerBytes),
                                      content.data() + dataStart, nullptr, false);
  if (!header.is_object())
    throw std::runtime_error("'" + path + "' is damaged: its header is no JSON object");
  for (auto &[name, value] : header.items()) {
    if (name != "__metadata__")
      addTensor(name, value);
    else if (value.is_object() &&
             std::all_of(value.begin(), value.end(), [](auto &entry) { return entry.is_string(); }))
      strings = value.get<std::map<std::string, std::string>>();
    else
      throw std::runtime_error("'" + path +
                               "' is damaged: its __metadata__ holds not only strings");
  }
}

void Safetensors::addTensor(const std::string &name, const nlohmann::json &value) {
  StoredTensor tensor;
  std::vector<uint64_t> offsets;
  try {
    tensor.dtype = value.at("dtype").get<std::string>();
    tensor.shape = value.at("shape").get<std::vector<int64_t>>();
    offsets = value.at("data_offsets").get<std::vector<uint64_t>>();
  } catch (const nlohmann::json::exception &) {
    throw std::runtime_error("'" + path + "' is damaged: tensor '" + name +
                             "' lacks a dtype, a shape or data_offsets of the right kind");
  }
  uint64_t limit = content.size() - dataStart;
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > limit)
    throw std::runtime_error("'" + path + "' is damaged: tensor '" + name +
                             "' lies outside the data of " + std::to_string(limit) + " bytes");
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  entries[name] = tensor;
}

const StoredTensor *Safetensors::find(const std::string &name) const {
  auto found = entries.find(name);
  return found == entries.end() ? nullptr : &found->second;
}

std::vector<float> Safetensors::read(const std::string &name) const {
  const StoredTensor *tensor = find(name);
  if (!tensor)
    throw std::runtime_error("'" + path + "' has no tensor '" + name + "'");
  bool isBf16 = tensor->dtype == "BF16";
  if (!isBf16 && tensor->dtype != "F32")
    throw std::runtime_error("tensor '" + name + "': expected BF16 or F32, got " + tensor->dtype);
  // Count, not bytes: a count from the file may be too large to be multiplied.
  size_t elementBytes = isBf16 ? 2 : 4, bytes = tensor->end - tensor->begin;
  if (bytes % elementBytes != 0 || static_cast<int64_t>(bytes / elementBytes) != tensor->elements())
    throw std::runtime_error("tensor '" + name + "': its shape " +
                             nlohmann::json(tensor->shape).dump() + " of " + tensor->dtype +
                             " does not take the " + std::to_string(bytes) + " bytes stored");
  const char *data = content.data() + dataStart;
  return decode({data + tensor->begin, data + tensor->end}, isBf16 ? MLA_BF16 : MLA_F32);
}
