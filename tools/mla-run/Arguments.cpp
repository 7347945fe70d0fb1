//===- Arguments.cpp - command line of mla-run ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Arguments.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <stdexcept>

using namespace mlac::run;

static const OptionSpec &findOption(const std::vector<OptionSpec> &options,
                                    const std::string &name) {
  auto found = std::find_if(options.begin(), options.end(),
                            [&](const OptionSpec &option) { return option.name == name; });
  if (found != options.end())
    return *found;
  std::string known;
  for (const OptionSpec &option : options)
    known += " --" + option.name;
  throw std::runtime_error("unknown option '--" + name + "'; known here:" + known);
}

Arguments::Arguments(const std::vector<std::string> &words, const std::vector<OptionSpec> &options,
                     size_t expected) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string &word = words[i];
    if (word.rfind("--", 0) != 0) {
      positionals.push_back(word);
      continue;
    }
    size_t equals = word.find('=');
    std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    const OptionSpec &option = findOption(options, name);
    if (!option.takesValue && equals != std::string::npos)
      throw std::runtime_error("option '--" + name + "' takes no value, got '" + word + "'");
    if (option.takesValue && equals == std::string::npos && i + 1 == words.size())
      throw std::runtime_error("option '--" + name + "' expects a value");
    if (!option.takesValue)
      values[name] = "";
    else
      values[name] = equals != std::string::npos ? word.substr(equals + 1) : words[++i];
  }
  if (positionals.size() != expected)
    throw std::runtime_error("expected " + std::to_string(expected) +
                             " argument(s) besides options, got " +
                             std::to_string(positionals.size()));
}

std::string Arguments::get(const std::string &name, const std::string &otherwise) const {
  auto found = values.find(name);
  return found == values.end() ? otherwise : found->second;
}

static int64_t parseInteger(const std::string &name, const std::string &text, int64_t least) {
  int64_t value = 0;
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < least)
    throw std::runtime_error("option '--" + name + "' expects integers of at least " +
                             std::to_string(least) + ", got '" + text + "'");
  return value;
}

int64_t Arguments::getInteger(const std::string &name, int64_t otherwise, int64_t least) const {
  return has(name) ? parseInteger(name, values.at(name), least) : otherwise;
}

std::vector<int64_t> Arguments::getIntegers(const std::string &name, std::vector<int64_t> otherwise,
                                            int64_t least) const {
  if (!has(name))
    return otherwise;
  std::vector<int64_t> list;
  std::stringstream stream(values.at(name));
  for (std::string item; std::getline(stream, item, ',');)
    list.push_back(parseInteger(name, item, least));
  if (list.empty())
    throw std::runtime_error("option '--" + name + "' expects a list of integers, got ''");
  return list;
}
