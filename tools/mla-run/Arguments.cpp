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
#include <numeric>
#include <sstream>
#include <stdexcept>

using namespace mlac::run;

/// Levenshtein distance: insertions, deletions and replacements.
static size_t countEdits(const std::string &from, const std::string &to) {
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < from.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < to.size(); ++j) {
      size_t replaced = diagonal + (from[i] != to[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::string mlac::run::findNearest(const std::string &word, const std::vector<std::string> &names) {
  // More wrong letters than right ones are no misspelling.
  size_t fewest = std::max<size_t>(word.size() / 2, 1) + 1;
  std::string nearest;
  for (const std::string &name : names) {
    size_t edits = countEdits(word, name);
    if (edits < fewest) {
      fewest = edits;
      nearest = name;
    }
  }
  return nearest;
}

static const OptionSpec &findOption(const std::vector<OptionSpec> &options,
                                    const std::string &name) {
  auto found = std::find_if(options.begin(), options.end(),
                            [&](const OptionSpec &option) { return option.name == name; });
  if (found != options.end())
    return *found;
  std::string known;
  std::vector<std::string> names;
  for (const OptionSpec &option : options) {
    known += " --" + option.name;
    names.push_back(option.name);
  }
  std::string nearest = findNearest(name, names);
  throw std::runtime_error("unknown option '--" + name + "'; " +
                           (nearest.empty() ? "" : "did you mean '--" + nearest + "'? ") +
                           "known here:" + known);
}

Arguments::Arguments(const std::vector<std::string> &words, const std::vector<OptionSpec> &options,
                     const std::vector<std::string> &positionalNames) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string &word = words[i];
    if (word.size() > 1 && word[0] == '-' && word[1] != '-')
      throw std::runtime_error("unknown option '" + word + "'; options begin with two dashes");
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
    // The last would count, and nobody would see the others.
    if (has(name))
      throw std::runtime_error("option '--" + name + "' is given twice");
    if (!option.takesValue)
      values[name] = "";
    else
      values[name] = equals != std::string::npos ? word.substr(equals + 1) : words[++i];
  }
  if (positionals.size() != positionalNames.size()) {
    std::string expected, got;
    for (const std::string &name : positionalNames)
      expected += " " + name;
    for (const std::string &word : positionals)
      got += " '" + word + "'";
    throw std::runtime_error("expected" + expected + " besides options, got" +
                             (got.empty() ? " nothing" : got));
  }
}

std::string Arguments::get(const std::string &name, const std::string &otherwise) const {
  auto found = values.find(name);
  return found == values.end() ? otherwise : found->second;
}

static int64_t parseInteger(const std::string &name, const std::string &text, int64_t least,
                            int64_t most) {
  constexpr int64_t kMost = Arguments::kMost;
  int64_t value = 0;
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop + 1 == end && *stop == 'k') {
    constexpr int64_t kThousand = 1024;
    ++stop;
    value = std::clamp(value, -kMost, kMost) * kThousand;
  }
  if (error != std::errc() || stop != end || value < least || value > most)
    throw std::runtime_error("option '--" + name + "' expects integers from " +
                             std::to_string(least) + " to " + std::to_string(most) + ", got '" +
                             text + "'");
  return value;
}

int64_t Arguments::getInteger(const std::string &name, int64_t otherwise, int64_t least,
                              int64_t most) const {
  return has(name) ? parseInteger(name, values.at(name), least, most) : otherwise;
}

std::vector<int64_t> Arguments::getIntegers(const std::string &name, std::vector<int64_t> otherwise,
                                            int64_t least, int64_t most) const {
  if (!has(name))
    return otherwise;
  std::vector<int64_t> list;
  std::stringstream stream(values.at(name));
  for (std::string item; std::getline(stream, item, ',');)
    list.push_back(parseInteger(name, item, least, most));
  if (list.empty())
    throw std::runtime_error("option '--" + name + "' expects a list of integers, got ''");
  return list;
}
