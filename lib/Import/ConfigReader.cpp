//===- ConfigReader.cpp - checked access to a JSON object ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ConfigReader.h"

#include "llvm/Support/FormatVariadic.h"

#include <limits>

using namespace mlac;
using nlohmann::json;

static constexpr double kMinFloat = std::numeric_limits<float>::min();
static constexpr double kMaxFloat = std::numeric_limits<float>::max();

const json *ConfigReader::find(llvm::StringRef key) const {
  auto it = object.find(key.str());
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

void ConfigReader::error(llvm::StringRef key, llvm::StringRef text) const {
  const json *value = find(key);
  errors.push_back({name(key), llvm::formatv("{0} {1}: {2}", name(key),
                                             value ? "= " + print(*value) : "is missing", text)});
}

std::optional<int64_t> ConfigReader::integer(llvm::StringRef key, int64_t least,
                                             int64_t most) const {
  const json *value = find(key);
  if (!value)
    return std::nullopt;
  bool fits = value->is_number_unsigned() ? value->get<uint64_t>() <= static_cast<uint64_t>(most)
                                          : value->is_number_integer();
  if (fits) {
    int64_t number = value->get<int64_t>();
    if (number >= least && number <= most)
      return number;
  }
  error(key, llvm::formatv("expected an integer from {0} to {1}", least, most).str());
  return std::nullopt;
}

int64_t ConfigReader::requireInteger(llvm::StringRef key, int64_t least, int64_t most) const {
  if (!find(key))
    error(key, llvm::formatv("expected an integer from {0} to {1}", least, most).str());
  return integer(key, least, most).value_or(0);
}

std::optional<double> ConfigReader::number(llvm::StringRef key, int64_t least, bool open) const {
  const json *value = find(key);
  if (!value)
    return std::nullopt;
  if (value->is_number()) {
    double number = value->get<double>();
    if (number > kMaxFloat) {
      error(key, llvm::formatv("expected a number <= {0:e}, which f32 holds", kMaxFloat).str());
      return std::nullopt;
    }
    if (open ? number > least : number >= least)
      return number;
  }
  error(key, llvm::formatv("expected a number {0} {1}", open ? ">" : ">=", least).str());
  return std::nullopt;
}

std::optional<bool> ConfigReader::boolean(llvm::StringRef key) const {
  const json *value = find(key);
  if (!value)
    return std::nullopt;
  if (value->is_boolean())
    return value->get<bool>();
  error(key, "expected true or false");
  return std::nullopt;
}

std::optional<std::string> ConfigReader::string(llvm::StringRef key) const {
  const json *value = find(key);
  if (!value)
    return std::nullopt;
  if (value->is_string())
    return value->get<std::string>();
  error(key, "expected a string");
  return std::nullopt;
}

std::vector<double> ConfigReader::positiveNumbers(llvm::StringRef key, int64_t count) const {
  const json *value = find(key);
  std::vector<double> result;
  if (value && value->is_array())
    for (const json &element : *value)
      // Their inverses are in tables of f32, too.
      if (element.is_number() && element.get<double>() >= kMinFloat &&
          element.get<double>() <= kMaxFloat)
        result.push_back(element.get<double>());
  if (value && value->is_array() && value->size() == result.size() &&
      result.size() == static_cast<size_t>(count))
    return result;
  error(
      key,
      llvm::formatv("expected a list of {0} positive numbers (qk_rope_head_dim / 2)", count).str());
  return {};
}

std::vector<int64_t> ConfigReader::integers(llvm::StringRef key, int64_t count, int64_t least,
                                            int64_t most) const {
  const json *value = find(key);
  std::vector<int64_t> result;
  if (value && value->is_array())
    for (const json &element : *value)
      // Unsigned as parsed: a negative one is none of these.
      if (element.is_number_unsigned() && element.get<uint64_t>() >= static_cast<uint64_t>(least) &&
          element.get<uint64_t>() <= static_cast<uint64_t>(most))
        result.push_back(element.get<int64_t>());
  if (value && value->is_array() && value->size() == result.size() &&
      result.size() == static_cast<size_t>(count))
    return result;
  error(key,
        llvm::formatv("expected a list of {0} integers from {1} to {2}", count, least, most).str());
  return {};
}

std::vector<std::string> ConfigReader::keys() const {
  std::vector<std::string> names;
  for (const auto &[name, value] : object.items())
    names.push_back(name);
  return names;
}

std::optional<ConfigReader> ConfigReader::child(llvm::StringRef key) const {
  const json *value = find(key);
  if (!value)
    return std::nullopt;
  if (value->is_object())
    return ConfigReader(*value, name(key) + ".", errors);
  error(key, "expected an object");
  return std::nullopt;
}

std::string ConfigReader::print(const json &value) {
  constexpr size_t kLongest = 60;
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > kLongest)
    text = text.substr(0, kLongest) + "...";
  return text;
}
