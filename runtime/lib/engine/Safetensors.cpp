//===- Safetensors.cpp - reading safetensors files --------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "engine/Safetensors.h"

#include "base/Json.h"
#include "base/RegularFile.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace mlac::runtime;

static constexpr uint64_t kLengthBytes = sizeof(uint64_t);
/// The reference implementation's limit.
static constexpr uint64_t kMaxHeaderBytes = 100'000'000;
static constexpr size_t kMaxRank = 8;

namespace {
struct FileType {
  std::string_view name;
  int64_t bytes;
  int runtimeType; // -1: the runtime has none
};
} // namespace

static constexpr FileType kFileTypes[] = {
    {"BF16", 2, MLA_BF16}, {"F16", 2, MLA_F16}, {"F32", 4, MLA_F32}, {"F8_E4M3", 1, MLA_E4M3},
    {"I32", 4, MLA_I32},   {"I64", 8, MLA_I64}, {"U8", 1, MLA_U8},   {"BOOL", 1, -1},
    {"I8", 1, -1},         {"F8_E5M2", 1, -1},  {"F8_E8M0", 1, -1},  {"I16", 2, -1},
    {"U16", 2, -1},        {"U32", 4, -1},      {"U64", 8, -1},      {"F64", 8, -1},
    {"C64", 8, -1}};

static const FileType *findType(std::string_view name) {
  for (const FileType &type : kFileTypes)
    if (type.name == name)
      return &type;
  return nullptr;
}

bool mlac::runtime::toRuntimeType(std::string_view dtype, mla_dtype &result) {
  const FileType *type = findType(dtype);
  if (!type || type->runtimeType < 0)
    return false;
  result = static_cast<mla_dtype>(type->runtimeType);
  return true;
}

Safetensors::~Safetensors() {
  if (!file.empty())
    munmap(const_cast<uint8_t *>(file.data()), file.size());
}

Status Safetensors::map(const std::string &path) {
  int descriptor;
  MLAC_RETURN_IF_ERROR(openRegular(path, descriptor));
  struct stat info;
  void *mapping = MAP_FAILED;
  bool isSized = fstat(descriptor, &info) == 0;
  if (isSized && info.st_size > 0)
    mapping =
        mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, descriptor, 0);
  int code = errno;
  close(descriptor);
  if (!isSized)
    return error(MLA_NOT_FOUND, "cannot read its size: ", std::strerror(code));
  if (info.st_size < static_cast<off_t>(kLengthBytes))
    return error(MLA_CORRUPT, "truncated: ", info.st_size, " bytes, a header takes at least ",
                 kLengthBytes);
  if (mapping == MAP_FAILED)
    return error(MLA_OUT_OF_MEMORY, "cannot map: ", std::strerror(code));
  file = {static_cast<const uint8_t *>(mapping), static_cast<size_t>(info.st_size)};
  return Status();
}

/// A non-negative integer field.
static bool getInteger(const Json &value, int64_t &result) {
  if (!value.is_number_unsigned())
    return false;
  uint64_t wide = value.get<uint64_t>();
  result = static_cast<int64_t>(wide);
  return result >= 0;
}

static Status parseShape(const Json &value, std::vector<int64_t> &shape) {
  if (!value.is_array() || value.size() > kMaxRank)
    return error(MLA_CORRUPT, "shape is no array of at most ", kMaxRank, " extents");
  for (const Json &extent : value) {
    int64_t number;
    if (!getInteger(extent, number))
      return error(MLA_CORRUPT, "shape holds ", toText(extent));
    shape.push_back(number);
  }
  return Status();
}

static Status checkSize(const SafetensorsEntry &entry, uint64_t dataBytes) {
  const FileType *type = findType(entry.dtype);
  if (!type)
    return error(MLA_UNSUPPORTED, "unknown dtype '", entry.dtype, "'");
  if (entry.begin > entry.end || entry.end > dataBytes)
    return error(MLA_CORRUPT, "data_offsets [", entry.begin, ", ", entry.end,
                 "] are outside the file's ", dataBytes, " data bytes (truncated?)");
  int64_t bytes = type->bytes;
  for (int64_t extent : entry.shape)
    if (!checkedMul(bytes, extent, bytes))
      return error(MLA_CORRUPT, "shape ", shapeText(entry.shape), " overflows");
  if (entry.end - entry.begin != static_cast<uint64_t>(bytes))
    return error(MLA_CORRUPT, "data_offsets span ", entry.end - entry.begin, " bytes, ",
                 entry.dtype, " ", shapeText(entry.shape), " takes ", bytes);
  return Status();
}

static Status parseEntry(const Json &value, uint64_t dataBytes, SafetensorsEntry &entry) {
  if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets"))
    return error(MLA_CORRUPT, "expected dtype, shape and data_offsets");
  const Json &offsets = value["data_offsets"];
  int64_t begin, end;
  if (!offsets.is_array() || offsets.size() != 2 || !getInteger(offsets[0], begin) ||
      !getInteger(offsets[1], end))
    return error(MLA_CORRUPT, "data_offsets is ", toText(offsets));
  if (!value["dtype"].is_string())
    return error(MLA_CORRUPT, "dtype is ", toText(value["dtype"]));
  entry.dtype = value["dtype"].get<std::string>();
  entry.begin = static_cast<uint64_t>(begin);
  entry.end = static_cast<uint64_t>(end);
  MLAC_RETURN_IF_ERROR(parseShape(value["shape"], entry.shape));
  return checkSize(entry, dataBytes);
}

/// Parses the header; `repeated` gets a name that occurs twice, if any.
static Json parseHeader(std::string_view text, std::string &repeated) {
  std::set<std::string> names;
  auto onEvent = [&](int depth, Json::parse_event_t event, Json &parsed) {
    if (event == Json::parse_event_t::key && depth == 1 &&
        !names.insert(parsed.get<std::string>()).second)
      repeated = parsed.get<std::string>();
    return true;
  };
  return Json::parse(text.begin(), text.end(), onEvent,
                     /*allow_exceptions=*/false);
}

static void readMetadata(const Json &value, std::map<std::string, std::string> &metadata) {
  if (!value.is_object())
    return;
  for (auto &[key, text] : value.items())
    if (text.is_string())
      metadata.emplace(key, text.get<std::string>());
}

Status Safetensors::parse() {
  uint64_t headerBytes;
  std::memcpy(&headerBytes, file.data(), sizeof headerBytes);
  uint64_t available = file.size() - kLengthBytes;
  if (headerBytes > std::min(available, kMaxHeaderBytes))
    return error(MLA_CORRUPT, "header of ", headerBytes, " bytes, the file has ", available,
                 " (limit ", kMaxHeaderBytes, ")");
  std::string_view text(reinterpret_cast<const char *>(file.data()) + kLengthBytes, headerBytes);
  data = file.subspan(kLengthBytes + headerBytes);
  std::string repeated;
  Json header = parseHeader(text, repeated);
  if (!header.is_object())
    return error(MLA_CORRUPT, "the header is no JSON object");
  if (!repeated.empty())
    return error(MLA_CORRUPT, "tensor '", repeated, "' is listed twice");
  for (auto &[name, value] : header.items()) {
    if (name == "__metadata__") {
      readMetadata(value, metadata_);
      continue;
    }
    SafetensorsEntry entry;
    MLAC_RETURN_IF_ERROR(parseEntry(value, data.size(), entry).in(concat("tensor '", name, "'")));
    entries_.emplace(name, std::move(entry));
  }
  return checkCoverage();
}

Status Safetensors::checkCoverage() const {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (auto &[name, entry] : entries_)
    ranges.emplace_back(entry.begin, entry.end);
  std::sort(ranges.begin(), ranges.end());
  uint64_t end = 0;
  for (auto [begin, rangeEnd] : ranges) {
    if (begin != end)
      return error(MLA_CORRUPT, begin < end ? "tensors overlap" : "a gap", " at data byte ", begin);
    end = rangeEnd;
  }
  if (end != data.size())
    return error(MLA_CORRUPT, "tensors end at data byte ", end, ", the file at ", data.size());
  return Status();
}

Status Safetensors::open(const std::string &path) {
  MLAC_RETURN_IF_ERROR(map(path).in(path));
  return parse().in(path);
}
