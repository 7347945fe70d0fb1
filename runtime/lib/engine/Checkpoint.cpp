//===- Checkpoint.cpp - a model's tensors, in one file or many --*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "engine/Checkpoint.h"

#include "base/Json.h"
#include "base/RegularFile.h"

#include <algorithm>
#include <cctype>
#include <sys/stat.h>

using namespace mlac::runtime;

static constexpr std::string_view kConfig = "config.json";
static constexpr std::string_view kSingle = "model.safetensors";
static constexpr std::string_view kIndex = "model.safetensors.index.json";
/// Of one JSON file: indices of the largest models take some ten million bytes.
static constexpr size_t kMaxJsonBytes = 1'000'000'000;

/// Matrices of which every attention has one: that of latents, and the output's groups of
/// DeepSeek-V4, whose layers have no matrix of latents.
static constexpr std::string_view kOfAttention[] = {"kv_b_proj", "o_a_proj"};

static bool isFolder(const std::string &path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

static bool exists(const std::string &path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0;
}

//===----------------------------------------------------------------------===//
// JSON files
//===----------------------------------------------------------------------===//

static Status readText(const std::string &path, std::string &text) {
  FilePointer file;
  MLAC_RETURN_IF_ERROR(openRegular(path, file));
  char buffer[1 << 16];
  while (size_t count = std::fread(buffer, 1, sizeof buffer, file.get())) {
    text.append(buffer, count);
    if (text.size() > kMaxJsonBytes)
      return error(MLA_CORRUPT, "has more than ", kMaxJsonBytes, " bytes");
  }
  return std::ferror(file.get()) ? error(MLA_NOT_FOUND, "cannot be read") : Status();
}

static Status readObject(const std::string &path, Json &object) {
  std::string text;
  MLAC_RETURN_IF_ERROR(readText(path, text));
  object = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  return object.is_object()
             ? Status()
             : error(MLA_CORRUPT, "is no JSON object (truncated?): ", text.size(), " bytes");
}

Status Checkpoint::readConfig() {
  std::string path = concat(folder, kConfig);
  if (!exists(path))
    return Status();
  Json config;
  MLAC_RETURN_IF_ERROR(readObject(path, config).in(path));
  if (auto found = config.find("quantization_config"); found != config.end() && !found->is_null())
    quantisation_ = toText(*found);
  return Status();
}

/// A name in the folder itself: an index has no say about other places.
static bool isPlainName(const std::string &name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

Status Checkpoint::readIndex(const std::string &file) {
  Json index;
  MLAC_RETURN_IF_ERROR(readObject(file, index));
  auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object() || map->empty())
    return error(MLA_CORRUPT, "expected an object 'weight_map' of tensors and their shards");
  for (auto &[name, shard] : map->items()) {
    if (!shard.is_string() || !isPlainName(shard.get<std::string>()))
      return error(MLA_CORRUPT, "tensor '", name, "': expected the name of a shard beside it, got ",
                   toText(shard));
    shardOf.emplace(name, shard.get<std::string>());
  }
  return Status();
}

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

Status Checkpoint::openFile(const std::string &file) {
  auto &opened = shards[file] = std::make_unique<Safetensors>();
  MLAC_RETURN_IF_ERROR(opened->open(folder + file));
  for (auto &[name, entry] : opened->entries())
    shardOf.emplace(name, file);
  metadata_ = opened->metadata();
  return Status();
}

Status Checkpoint::openFolder() {
  folder = path_ + "/";
  MLAC_RETURN_IF_ERROR(readConfig());
  std::string index = concat(folder, kIndex);
  if (exists(index))
    return readIndex(index).in(index);
  if (exists(concat(folder, kSingle)))
    return openFile(std::string(kSingle));
  return error(MLA_NOT_FOUND, "folder '", path_, "' has neither ", kIndex, " nor ", kSingle);
}

Status Checkpoint::open(const std::string &path, std::shared_ptr<Checkpoint> &checkpoint) {
  std::shared_ptr<Checkpoint> result(new Checkpoint(path));
  MLAC_RETURN_IF_ERROR(isFolder(path) ? result->openFolder() : result->openFile(path));
  for (std::string_view projection : kOfAttention)
    result->listAttentions(projection);
  if (result->attentions_.empty()) // of groups of heads
    result->listAttentions("k_proj");
  checkpoint = std::move(result);
  return Status();
}

//===----------------------------------------------------------------------===//
// Attentions
//===----------------------------------------------------------------------===//

/// Whether `a` comes before `b` if runs of digits count as numbers.
static bool isBefore(std::string_view a, std::string_view b) {
  auto isDigit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  auto takeNumber = [&](std::string_view &text) {
    size_t zeros = std::min(text.find_first_not_of('0'), text.size());
    text.remove_prefix(zeros);
    size_t length = std::find_if_not(text.begin(), text.end(), isDigit) - text.begin();
    std::string_view number = text.substr(0, length);
    text.remove_prefix(length);
    return number;
  };
  while (!a.empty() && !b.empty()) {
    if (isDigit(a[0]) && isDigit(b[0])) {
      std::string_view left = takeNumber(a), right = takeNumber(b);
      if (left.size() != right.size())
        return left.size() < right.size();
      if (left != right)
        return left < right;
      continue;
    }
    if (a[0] != b[0])
      return a[0] < b[0];
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  return a.size() < b.size();
}

void Checkpoint::listAttentions(std::string_view projection) {
  for (auto &[name, shard] : shardOf)
    for (std::string_view suffix : {".weight", ".qweight", ".weight_packed"}) {
      std::string_view prefix = name;
      if (!prefix.ends_with(suffix))
        continue;
      prefix.remove_suffix(suffix.size());
      if (!prefix.ends_with(projection))
        continue;
      prefix.remove_suffix(projection.size());
      if (prefix.empty() || prefix.ends_with('.') || prefix.ends_with('/'))
        attentions_.emplace_back(prefix);
    }
  std::sort(attentions_.begin(), attentions_.end(), isBefore);
  attentions_.erase(std::unique(attentions_.begin(), attentions_.end()), attentions_.end());
}

Status Checkpoint::findAttention(int64_t index, std::string &prefix) const {
  if (index < 0 || index >= static_cast<int64_t>(attentions_.size()))
    return error(MLA_NOT_FOUND, "attention ", index, " of '", path_, "', which has ",
                 attentions_.size(),
                 " (prefixes of kv_b_proj and o_a_proj weights, or else of k_proj's)");
  prefix = attentions_[static_cast<size_t>(index)];
  return Status();
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

Status Checkpoint::getShard(std::string_view tensor, const std::string &shard,
                            const Safetensors *&file) {
  auto found = shards.find(shard);
  if (found == shards.end()) {
    auto opened = std::make_unique<Safetensors>();
    MLAC_RETURN_IF_ERROR(opened->open(folder + shard).in("shard of tensor '", tensor, "'"));
    found = shards.emplace(shard, std::move(opened)).first;
  }
  file = found->second.get();
  return Status();
}

Status Checkpoint::read(std::string_view name, const std::string &shard, SourceTensor &tensor) {
  const Safetensors *file;
  MLAC_RETURN_IF_ERROR(getShard(name, shard, file));
  auto entry = file->entries().find(name);
  if (entry == file->entries().end())
    return error(MLA_CORRUPT, "shard '", folder, shard, "' lacks tensor '", name,
                 "', which the index says is in it");
  tensor = {std::nullopt, entry->second.dtype, entry->second.shape, file->bytes(entry->second)};
  mla_dtype type;
  if (toRuntimeType(entry->second.dtype, type)) {
    tensor.type = type;
    tensor.typeText = typeName(type);
  }
  return Status();
}

Status Checkpoint::find(std::string_view name, const std::string *&known,
                        const SourceTensor *&tensor) {
  auto found = shardOf.find(name);
  if (found == shardOf.end())
    return error(MLA_NOT_FOUND, "'", path_, "' has no tensor '", name, "'");
  SourceTensor result;
  MLAC_RETURN_IF_ERROR(read(name, found->second, result));
  known = &found->first;
  tensor = &asked.try_emplace(found->first, std::move(result)).first->second;
  return Status();
}

Status Checkpoint::readUnder(std::string_view prefix, SourceTensors &tensors) {
  for (auto entry = shardOf.lower_bound(prefix);
       entry != shardOf.end() && entry->first.starts_with(prefix); ++entry)
    MLAC_RETURN_IF_ERROR(
        read(entry->first, entry->second, tensors[entry->first.substr(prefix.size())]));
  return Status();
}
