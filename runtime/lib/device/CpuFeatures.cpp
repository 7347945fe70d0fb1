//===- CpuFeatures.cpp - what this processor can do -------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "device/CpuFeatures.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

using namespace mlac::runtime;

/// Spelling shared by LLVM ("avx512bf16", "sse4.2") and Linux ("avx512_bf16",
/// "sse4_2"): lower case without separators.
static std::string normalise(std::string_view name) {
  std::string result;
  for (char c : name)
    if (c != '_' && c != '.' && c != '-')
      result += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return result;
}

/// Features that LLVM and Linux name differently: {LLVM, Linux}.
static constexpr std::pair<std::string_view, std::string_view> kSynonyms[] = {
    {"lzcnt", "abm"},
    {"bmi", "bmi1"},
    {"sahf", "lahflm"},
    {"cmov", "cmov"},
    {"mmx", "mmx"},
    {"sse3", "pni"},
    {"prfchw", "3dnowprefetch"},
    {"sha", "shani"},
    {"pclmul", "pclmulqdq"},
    {"rdrnd", "rdrand"},
    {"x87", "fpu"},
    {"64bit", "lm"},
    {"crc32", "sse42"},
    {"neon", "asimd"},
    {"fxsr", "fxsr"},
    {"cx8", "cx8"}};

static std::string linuxName(std::string_view feature) {
  std::string name = normalise(feature);
  for (auto [llvm, linux] : kSynonyms)
    if (name == llvm)
      return std::string(linux);
  return name;
}

/// The processor's flags as Linux lists them.
static const std::set<std::string> &hostFlags() {
  static const std::set<std::string> flags = [] {
    std::set<std::string> result;
    std::ifstream file("/proc/cpuinfo");
    std::string line;
    while (std::getline(file, line)) {
      bool isList = line.starts_with("flags") || line.starts_with("Features");
      size_t colon = line.find(':');
      if (!isList || colon == std::string::npos)
        continue;
      size_t begin = colon + 1;
      while (begin < line.size()) {
        size_t end = std::min(line.find(' ', begin), line.size());
        if (end > begin)
          result.insert(normalise(line.substr(begin, end - begin)));
        begin = end + 1;
      }
      break;
    }
    return result;
  }();
  return flags;
}

static bool hasFeature(std::string_view feature) {
  return hostFlags().count(linuxName(feature)) > 0;
}

// Levels of the x86-64 psABI (section "Low Level System Information"), each
// with the features it adds.
static constexpr std::string_view kLevel2[] = {"cx16",   "popcnt", "sse3",
                                               "sse4.1", "sse4.2", "ssse3"};
static constexpr std::string_view kLevel3[] = {"avx",  "avx2", "bmi1",  "bmi2",
                                               "f16c", "fma",  "lzcnt", "movbe"};
static constexpr std::string_view kLevel4[] = {"avx512f", "avx512bw", "avx512cd", "avx512dq",
                                               "avx512vl"};

int mlac::runtime::archLevel(std::string_view arch) {
  static constexpr std::string_view kLevels[] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
  auto found = std::find(std::begin(kLevels), std::end(kLevels), arch);
  return found == std::end(kLevels) ? 0 : static_cast<int>(found - std::begin(kLevels)) + 1;
}

/// The first of `features` that the processor lacks; empty if none.
template <size_t N> static std::string_view firstMissing(const std::string_view (&features)[N]) {
  for (std::string_view feature : features)
    if (!hasFeature(feature))
      return feature;
  return {};
}

static std::string_view missingForLevel(int level) {
  std::string_view missing;
  if (level >= 2)
    missing = firstMissing(kLevel2);
  if (missing.empty() && level >= 3)
    missing = firstMissing(kLevel3);
  if (missing.empty() && level >= 4)
    missing = firstMissing(kLevel4);
  return missing;
}

const char *mlac::runtime::hostArch() {
#if defined(__x86_64__)
  static constexpr const char *kLevels[] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
  int level = 1;
  while (level < 4 && missingForLevel(level + 1).empty())
    ++level;
  return kLevels[level - 1];
#else
  return "aarch64";
#endif
}

bool mlac::runtime::hostSupports(std::string_view arch, std::string_view features,
                                 std::string &missing) {
  missing = missingForLevel(archLevel(arch));
  size_t begin = 0;
  while (missing.empty() && begin < features.size()) {
    size_t end = std::min(features.find(',', begin), features.size());
    std::string_view feature = features.substr(begin, end - begin);
    begin = end + 1;
    bool isDisabled = !feature.empty() && feature.front() == '-';
    if (!feature.empty() && feature.front() == '+')
      feature.remove_prefix(1);
    if (!feature.empty() && !isDisabled && !hasFeature(feature))
      missing = feature;
  }
  return missing.empty();
}
