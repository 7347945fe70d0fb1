//===- Configs.h - configurations the import tests edit ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLA_TEST_UNIT_IMPORT_CONFIGS_H
#define MLA_TEST_UNIT_IMPORT_CONFIGS_H

#include "mla/Import/ModelConfig.h"

#include "llvm/Support/MemoryBuffer.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace mlac::test {

/// The text of one of the configurations under test/data/configs.
inline std::string readConfigText(llvm::StringRef name) {
  auto buffer = llvm::MemoryBuffer::getFile(
      (llvm::Twine(MLAC_TEST_CONFIGS "/") + name + ".json").str());
  EXPECT_TRUE(bool(buffer)) << name.str();
  return buffer ? (*buffer)->getBuffer().str() : "";
}

inline nlohmann::json readConfigJson(llvm::StringRef name) {
  return nlohmann::json::parse(readConfigText(name), nullptr, false);
}

/// With the fields of rope where transformers 5 has them.
inline nlohmann::json withNewRopeFields(llvm::StringRef name) {
  nlohmann::json config = readConfigJson(name);
  nlohmann::json fields = config["rope_scaling"];
  fields["rope_type"] = fields["type"];
  fields.erase("type");
  fields["rope_theta"] = config["rope_theta"];
  config["rope_parameters"] = fields;
  config.erase("rope_scaling");
  config.erase("rope_theta");
  return config;
}

inline ModelConfig parseOrFail(llvm::StringRef text,
                               const ConfigOptions &options = {}) {
  llvm::Expected<ModelConfig> config = parseModelConfig(text, options);
  if (config)
    return *config;
  ADD_FAILURE() << llvm::toString(config.takeError());
  return {};
}

inline ModelConfig loadConfig(llvm::StringRef name,
                              const ConfigOptions &options = {}) {
  return parseOrFail(readConfigText(name), options);
}

/// The errors of a configuration; that there are none is a failure.
inline std::string errorOf(llvm::StringRef text, const ConfigOptions &options = {}) {
  llvm::Expected<ModelConfig> config = parseModelConfig(text, options);
  if (!config)
    return llvm::toString(config.takeError());
  ADD_FAILURE() << "no error";
  return "";
}

/// The errors of DeepSeek-V3's configuration with the members of `patch` (null: as JSON null).
inline std::string errorWith(const nlohmann::json &patch, llvm::StringRef base = "deepseek_v3") {
  nlohmann::json config = readConfigJson(base);
  config.update(patch);
  return errorOf(config.dump());
}

} // namespace mlac::test

#endif // MLA_TEST_UNIT_IMPORT_CONFIGS_H
