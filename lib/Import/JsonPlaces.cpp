//===- JsonPlaces.cpp - where things stand in a JSON text ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "JsonPlaces.h"

#include "llvm/ADT/SmallVector.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace mlac;
using llvm::StringRef;
using nlohmann::json;

TextPlace mlac::getPlace(StringRef text, size_t byte) {
  StringRef before = text.take_front(byte);
  size_t lineStart = before.rfind('\n');
  lineStart = lineStart == StringRef::npos ? 0 : lineStart + 1;
  return {static_cast<unsigned>(1 + before.count('\n')),
          static_cast<unsigned>(1 + before.size() - lineStart)};
}

//===----------------------------------------------------------------------===//
// Members
//===----------------------------------------------------------------------===//

namespace {
/// Walks over valid JSON and follows `keys` from the top-level object inwards.
class MemberFinder {
public:
  MemberFinder(StringRef text, llvm::ArrayRef<StringRef> keys) : text(text), keys(keys) {}
  size_t find();

private:
  size_t skipString(size_t at) const;
  void visitKey(StringRef key, size_t at);
  void open(bool isObject);
  void close();

  StringRef text;
  llvm::ArrayRef<StringRef> keys;
  size_t depth = 0;       // open objects and lists
  size_t inside = 0;      // of them, how many are on the way: the top level, the first key's, ...
  bool isOnTheWay = true; // the next value is
  size_t found = 0, best = 0;
};
} // namespace

/// Behind the string that starts at `at`.
size_t MemberFinder::skipString(size_t at) const {
  for (++at; at < text.size() && text[at] != '"'; ++at)
    at += text[at] == '\\';
  return std::min(at + 1, text.size());
}

void MemberFinder::visitKey(StringRef key, size_t at) {
  isOnTheWay = depth == inside && inside <= keys.size() && key == keys[inside - 1];
  if (isOnTheWay && inside >= best) {
    found = at;
    best = inside;
  }
}

void MemberFinder::open(bool isObject) {
  if (isOnTheWay && isObject && depth == inside)
    ++inside;
  ++depth;
  isOnTheWay = false;
}

void MemberFinder::close() {
  if (depth == inside)
    --inside;
  --depth;
}

size_t MemberFinder::find() {
  for (size_t at = 0; at < text.size();) {
    char c = text[at];
    size_t end = c == '"' ? skipString(at) : at + 1;
    if (c == '{' || c == '[')
      open(c == '{');
    else if (c == '}' || c == ']')
      close();
    else if (c == '"' && inside > 0 && text.substr(end).ltrim().starts_with(":"))
      visitKey(text.slice(at + 1, end - 1), at);
    at = end;
  }
  return found;
}

TextPlace mlac::findMember(StringRef json, StringRef name) {
  llvm::SmallVector<StringRef> keys;
  name.split(keys, '.');
  return getPlace(json, MemberFinder(json, keys).find());
}

//===----------------------------------------------------------------------===//
// Syntax
//===----------------------------------------------------------------------===//

namespace {
/// Takes everything and keeps the error.
struct SyntaxChecker : nlohmann::json_sax<json> {
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t &) override { return true; }
  bool string(string_t &) override { return true; }
  bool binary(binary_t &) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(string_t &) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t position, const std::string &,
                   const json::exception &exception) override {
    byte = position;
    reason = exception.what();
    return false;
  }

  size_t byte = 0;
  std::string reason;
};
} // namespace

ConfigProblem mlac::findSyntaxError(StringRef text) {
  SyntaxChecker checker;
  json::sax_parse(text.begin(), text.end(), &checker);
  // The reason without the parser's own account of the place and of what it read, which
  // may be all of the text.
  StringRef reason = checker.reason;
  reason = reason.split("] ").second;
  reason = reason.substr(reason.find(" - ") == StringRef::npos ? 0 : reason.find(" - ") + 3);
  reason = reason.take_front(reason.find("; last read"));
  size_t byte = std::min(checker.byte, text.size());
  return {("not valid JSON: " + reason).str(), getPlace(text, byte == 0 ? 0 : byte - 1)};
}
