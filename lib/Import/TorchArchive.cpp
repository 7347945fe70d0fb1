//===- TorchArchive.cpp - a torch.export archive ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Import/TorchArchive.h"

#include "ZipFile.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

using namespace mlac;
using llvm::StringRef;
using llvm::Twine;
namespace json = llvm::json;

/// The version of torch/_export/serde/schema.py that is read; minor versions only add.
static constexpr int64_t kSchemaMajor = 8;
/// Deeper than any archive (about 20); LLVM's parser and its values recurse.
static constexpr unsigned kMaxDepth = 200;

static llvm::Error makeError(const Twine &message) { return llvm::createStringError(message); }

TorchArchive::TorchArchive() = default;
TorchArchive::~TorchArchive() = default;
TorchArchive::TorchArchive(TorchArchive &&) = default;

mlir::Type mlac::getTorchType(mlir::MLIRContext &context, int64_t dtype) {
  mlir::Builder builder(&context);
  switch (dtype) {
  case 1:
    return builder.getIntegerType(8, /*isSigned=*/false);
  case 2:
    return builder.getI8Type();
  case 3:
    return builder.getI16Type();
  case 4:
    return builder.getI32Type();
  case 5:
    return builder.getI64Type();
  case 6:
    return builder.getF16Type();
  case 7:
    return builder.getF32Type();
  case 8:
    return builder.getF64Type();
  case 10:
    return mlir::ComplexType::get(builder.getF32Type());
  case 11:
    return mlir::ComplexType::get(builder.getF64Type());
  case 12:
    return builder.getI1Type();
  case 13:
    return builder.getBF16Type();
  case 29:
    return builder.getType<mlir::Float8E4M3FNType>();
  case 30:
    return builder.getType<mlir::Float8E5M2Type>();
  default:
    return {};
  }
}

/// Bytes of an element, as torch stores it; 0 for those without an MLIR type.
static uint64_t getElementBytes(int64_t dtype) {
  switch (dtype) {
  case 1: // BYTE, CHAR, BOOL, FLOAT8E4M3FN, FLOAT8E5M2
  case 2:
  case 12:
  case 29:
  case 30:
    return 1;
  case 3: // SHORT, HALF, BFLOAT16
  case 6:
  case 13:
    return 2;
  case 4: // INT, FLOAT
  case 7:
    return 4;
  case 5: // LONG, DOUBLE, COMPLEXFLOAT
  case 8:
  case 10:
    return 8;
  case 11: // COMPLEXDOUBLE
    return 16;
  default:
    return 0;
  }
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

static bool isTooDeep(StringRef text) {
  unsigned depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i)
        i += text[i] == '\\';
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxDepth)
        return true;
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return false;
}

static llvm::Expected<json::Object> readObject(const ZipFile &zip, StringRef entry) {
  llvm::Expected<std::string> text = zip.read(entry);
  if (!text)
    return text.takeError();
  if (isTooDeep(*text))
    return makeError("entry '" + entry + "' is nested deeper than " + Twine(kMaxDepth));
  llvm::Expected<json::Value> value = json::parse(*text);
  if (!value)
    return makeError("entry '" + entry + "' is no JSON: " + llvm::toString(value.takeError()));
  if (json::Object *object = value->getAsObject())
    return std::move(*object);
  return makeError("entry '" + entry + "' is no JSON object");
}

//===----------------------------------------------------------------------===//
// The archive
//===----------------------------------------------------------------------===//

llvm::Expected<TorchArchive> TorchArchive::open(StringRef bytes) {
  llvm::Expected<ZipFile> zip = ZipFile::open(bytes);
  if (!zip)
    return zip.takeError();
  TorchArchive archive;
  archive.zip = std::make_unique<ZipFile>(std::move(*zip));
  if (llvm::Error error = archive.readModel())
    return std::move(error);
  for (StringRef kind : {"weights", "constants"})
    if (llvm::Error error = archive.readWeights(kind))
      return std::move(error);
  return archive;
}

/// An entry that holds one word must hold this one.
static llvm::Error checkWord(const ZipFile &zip, StringRef entry, StringRef expected) {
  llvm::Expected<std::string> word = zip.read(entry);
  if (!word)
    return word.takeError();
  if (StringRef(*word).trim() != expected)
    return makeError("entry '" + entry + "': expected '" + expected + "', got '" +
                     llvm::toHex(StringRef(*word).take_front(16)) + "' (bytes in hex)");
  return llvm::Error::success();
}

llvm::Error TorchArchive::readModel() {
  constexpr llvm::StringLiteral kFormat = "archive_format";
  for (const auto &[path, unused] : zip->entries())
    if (StringRef stem = path; stem.consume_back(kFormat) && (stem.empty() || stem.ends_with("/")))
      folder = stem.str();
  if (!zip->contains(folder + kFormat.str()))
    return makeError("is no torch.export archive: it has no entry 'archive_format'");
  if (llvm::Error error = checkWord(*zip, folder + kFormat.str(), "pt2"))
    return error;
  if (llvm::Error error = checkWord(*zip, folder + "byteorder", "little"))
    return error;
  std::vector<StringRef> models;
  for (const auto &[path, unused] : zip->entries())
    if (StringRef rest = path; rest.consume_front(folder) && rest.consume_front("models/") &&
                               rest.consume_back(".json") && !rest.contains('/'))
      models.push_back(rest);
  if (models.size() != 1)
    return makeError("holds " + Twine(models.size()) + " models, expected one ('models/*.json')");
  name = models.front().str();
  llvm::Expected<json::Object> object = readObject(*zip, folder + "models/" + name + ".json");
  if (!object)
    return object.takeError();
  root = std::move(*object);
  const json::Object *version = root.getObject("schema_version");
  std::optional<int64_t> major = version ? version->getInteger("major") : std::nullopt;
  if (!major)
    return makeError("its model has no 'schema_version'");
  if (*major != kSchemaMajor)
    return makeError("has a graph of schema version " + Twine(*major) + ", expected " +
                     Twine(kSchemaMajor) + " (torch " +
                     root.getString("torch_version").value_or("of unknown version") + ")");
  return llvm::Error::success();
}

/// Integers of [{"as_int": n}, ...]; none where something else stands.
static std::optional<std::vector<int64_t>> readInts(const json::Array *list) {
  if (!list)
    return std::nullopt;
  std::vector<int64_t> result;
  for (const json::Value &item : *list) {
    const json::Object *object = item.getAsObject();
    std::optional<int64_t> value = object ? object->getInteger("as_int") : std::nullopt;
    if (!value)
      return std::nullopt;
    result.push_back(*value);
  }
  return result;
}

/// The number of elements of dense row-major rows; none for strides of others.
static std::optional<uint64_t> countDense(llvm::ArrayRef<int64_t> shape,
                                          llvm::ArrayRef<int64_t> strides) {
  // Far above any weight; a product with an element's bytes fits 63 bits.
  constexpr uint64_t kMost = uint64_t(1) << 48;
  if (shape.size() != strides.size())
    return std::nullopt;
  uint64_t count = 1;
  for (size_t dim = shape.size(); dim-- > 0;) {
    if (shape[dim] < 1 || static_cast<uint64_t>(shape[dim]) > kMost / count ||
        (shape[dim] > 1 && strides[dim] != static_cast<int64_t>(count)))
      return std::nullopt;
    count *= shape[dim];
  }
  return count;
}

/// What one line of a list of weights says, compared with the bytes that are there.
static llvm::Expected<TorchWeight> readWeightMeta(const ZipFile &zip, StringRef folder,
                                                  const json::Value &value) {
  const json::Object *line = value.getAsObject();
  const json::Object *meta = line ? line->getObject("tensor_meta") : nullptr;
  std::optional<StringRef> path = line ? line->getString("path_name") : std::nullopt;
  if (!meta || !path)
    return makeError("has no 'path_name' and 'tensor_meta'");
  std::optional<int64_t> dtype = meta->getInteger("dtype");
  uint64_t width = getElementBytes(dtype.value_or(0));
  if (width == 0)
    return makeError("has the unknown dtype " + Twine(dtype.value_or(0)));
  auto shape = readInts(meta->getArray("sizes")), strides = readInts(meta->getArray("strides"));
  std::optional<uint64_t> count =
      shape && strides ? countDense(*shape, *strides) : std::optional<uint64_t>();
  if (!count)
    return makeError("is not dense: expected sizes of at least 1 and strides of whole rows");
  const json::Object *offset = meta->getObject("storage_offset");
  std::optional<int64_t> first = offset ? offset->getInteger("as_int") : std::nullopt;
  auto entry = zip.entries().find((folder + *path).str());
  if (entry == zip.entries().end())
    return makeError("is missing: no entry '" + folder + *path + "'");
  uint64_t size = *count * width, bytes = entry->second.size;
  if (size > bytes || !first || *first < 0 ||
      static_cast<uint64_t>(*first) > (bytes - size) / width)
    return makeError("needs " + Twine(size) + " bytes behind its offset, entry '" + folder + *path +
                     "' has " + Twine(bytes));
  return TorchWeight{entry->first, *dtype, *shape, *first * width, size};
}

llvm::Error TorchArchive::readWeights(StringRef kind) {
  std::string place = folder + "data/" + kind.str() + "/";
  llvm::Expected<json::Object> list =
      readObject(*zip, place + name + "_" + kind.str() + "_config.json");
  if (!list)
    return list.takeError();
  const json::Object *lines = list->getObject("config");
  if (!lines && !list->empty())
    return makeError("its list of " + kind + " has no 'config'");
  if (!lines)
    return llvm::Error::success();
  for (const auto &[key, line] : *lines) {
    StringRef weight = key;
    // Objects of Python's; a graph that takes one is refused.
    if (line.getAsObject() && line.getAsObject()->getBoolean("use_pickle").value_or(false))
      continue;
    llvm::Expected<TorchWeight> meta = readWeightMeta(*zip, place, line);
    if (!meta)
      return makeError("tensor '" + weight + "' " + llvm::toString(meta.takeError()));
    if (!found.try_emplace(weight, std::move(*meta)).second)
      return makeError("is damaged: it lists the tensor '" + weight + "' twice");
  }
  return llvm::Error::success();
}

llvm::Expected<std::string> TorchArchive::readWeight(StringRef weight) const {
  auto meta = found.find(weight);
  if (meta == found.end())
    return makeError("has no tensor '" + weight + "'");
  llvm::Expected<std::string> bytes = zip->read(meta->second.entry);
  if (!bytes)
    return bytes.takeError();
  return bytes->substr(meta->second.offset, meta->second.size);
}

llvm::Expected<std::optional<std::string>> TorchArchive::readExtra(StringRef file) const {
  std::string entry = folder + "extra/" + file.str();
  if (!zip->contains(entry))
    return std::nullopt;
  llvm::Expected<std::string> text = zip->read(entry);
  if (!text)
    return text.takeError();
  return std::optional<std::string>(std::move(*text));
}
