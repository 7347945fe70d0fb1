//===- ConfigWarnings.cpp - what others read otherwise ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mla/Import/ConfigWarnings.h"

#include "ConfigParts.h"
#include "JsonPlaces.h"

#include "mla/Import/RopeTable.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlac;
using nlohmann::json;

/// transformers 5.17 (modeling_rope_utils) takes mscale and mscale_all_dim where both are there and
/// not 0, and g(factor, 1) otherwise; the specification has a default for each. Scores have
/// g(factor, mscale_all_dim)^2 in both.
static std::optional<ConfigProblem>
compareTemperatures(llvm::StringRef text, const ConfigReader &rope, const RopeParams &params) {
  bool hasOne = rope.find("mscale") != nullptr, hasAll = rope.find("mscale_all_dim") != nullptr;
  bool areBoth = hasOne && hasAll && params.mscale > 0 && params.mscaleAllDim > 0;
  double here = yarnTemperature(params.factor, params.mscale) /
                yarnTemperature(params.factor, params.mscaleAllDim);
  double there = areBoth ? here : yarnTemperature(params.factor, 1.0);
  if (std::abs(here - there) <= std::numeric_limits<float>::epsilon())
    return std::nullopt;
  llvm::StringRef key = hasOne ? "mscale" : "mscale_all_dim";
  std::string rest =
      hasOne && hasAll ? "and mscale_all_dim = " + ConfigReader::print(*rope.find("mscale_all_dim"))
                       : "without " + std::string(hasOne ? "mscale_all_dim" : "mscale");
  std::string message = llvm::formatv(
      "{0} = {1} {2}: cosines and sines are times g(factor, {3}) / g(factor, {4}) = "
      "{5:f6} here, and times g(factor, 1.0) = {6:f6} in transformers 5.17, which takes "
      "both keys or none; give both (not 0), or attention_factor",
      rope.name(key), ConfigReader::print(*rope.find(key)), rest,
      ConfigReader::print(params.mscale), ConfigReader::print(params.mscaleAllDim), here, there);
  return ConfigProblem{std::move(message), findMember(text, rope.name(key))};
}

std::vector<ConfigProblem> mlac::findConfigWarnings(llvm::StringRef text,
                                                    const ModelConfig &config) {
  const RopeParams &params = config.rope;
  // DeepSeek-V4's factor is 1 whatever the file says.
  if (params.kind != RopeKind::Yarn || params.cosSinMultiplier || config.sharedKeys)
    return {};
  json document = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  std::vector<KeyProblem> errors; // parsing has said them
  llvm::StringRef part = findLanguageModel(document);
  const json &model = part.empty() ? document : document.at(part.str());
  std::string path = part.empty() ? "" : part.str() + ".";
  auto [rope, isScaling] = findRopeFields(ConfigReader(model, path, errors));
  std::vector<ConfigProblem> warnings;
  if (rope)
    if (std::optional<ConfigProblem> warning = compareTemperatures(text, *rope, params))
      warnings.push_back(std::move(*warning));
  return warnings;
}
