//===- TuneCache.cpp - the times that were measured ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TuneCache.h"

#include "mla/Import/InputFile.h"
#include "mla/Package/PackageFile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlac;
using llvm::Expected;

static constexpr llvm::StringLiteral kFormat = "mlac-tune-1";

static llvm::Error refuseCache(const std::string &path, const llvm::Twine &why) {
  return llvm::createStringError("'" + path + "' is no cache of tuning: " + why +
                                 "; remove it, or name another with --tune-cache");
}

/// One entry: numbers, or null.
static bool readTimes(const llvm::json::Object &object, TuneCache::Times &times) {
  for (const auto &[point, value] : object) {
    std::optional<double> number = value.getAsNumber();
    if (!number && !value.getAsNull())
      return false;
    if (number && !(*number > 0))
      return false;
    times[point.str()] = number;
  }
  return true;
}

Expected<TuneCache> TuneCache::load(const std::string &path) {
  TuneCache cache;
  cache.path = path;
  if (!llvm::sys::fs::exists(path))
    return cache;
  Expected<std::unique_ptr<llvm::MemoryBuffer>> file = readInputFile(path);
  if (!file)
    return refuseCache(path, llvm::toString(file.takeError()));
  Expected<llvm::json::Value> value = llvm::json::parse((*file)->getBuffer());
  if (!value)
    return refuseCache(path, llvm::toString(value.takeError()));
  const llvm::json::Object *object = value->getAsObject();
  if (!object || object->getString("format") != kFormat || !object->getObject("entries"))
    return refuseCache(path, "expected the format '" + kFormat + "'");
  for (const auto &[key, entry] : *object->getObject("entries")) {
    const llvm::json::Object *times = entry.getAsObject();
    if (!times || !readTimes(*times, cache.entries[key.str()]))
      return refuseCache(path, "times of '" + key.str() + "' are not numbers above 0 or null");
  }
  return cache;
}

llvm::Error TuneCache::save() const {
  llvm::json::Object object;
  for (const auto &[key, times] : entries) {
    llvm::json::Object points;
    for (const auto &[point, time] : times)
      points[point] = time ? llvm::json::Value(*time) : llvm::json::Value(nullptr);
    object[key] = std::move(points);
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << llvm::formatv("{0:2}\n", llvm::json::Value(llvm::json::Object{
                                         {"format", kFormat}, {"entries", std::move(object)}}));
  return writeFileAtomically(
      path, llvm::ArrayRef(reinterpret_cast<const uint8_t *>(text.data()), text.size()));
}
