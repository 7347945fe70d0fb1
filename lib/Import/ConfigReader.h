//===- ConfigReader.h - checked access to a JSON object ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The text is untrusted: a value is handed out only after its type and range are
// checked. An error names the key, the value as it stands in the file, and what
// was expected; it is collected, and reading goes on.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_IMPORT_CONFIGREADER_H
#define MLAC_LIB_IMPORT_CONFIGREADER_H

#include "llvm/ADT/StringRef.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mlac {

/// What is wrong with a key, `a.b` for b of the object under a.
struct KeyProblem {
  std::string key, message;
};

/// A JSON object with typed access; `path` names it in errors. A getter returns
/// nothing where the key is absent (no error) or its value is wrong (an error).
class ConfigReader {
public:
  ConfigReader(const nlohmann::json &object, std::string path, std::vector<KeyProblem> &errors)
      : object(object), path(std::move(path)), errors(errors) {}

  /// The value of `key`; null where it is absent or JSON's null.
  const nlohmann::json *find(llvm::StringRef key) const;
  std::string name(llvm::StringRef key) const { return path + key.str(); }
  void error(llvm::StringRef key, llvm::StringRef text) const;

  std::optional<int64_t> integer(llvm::StringRef key, int64_t least, int64_t most) const;
  /// An integer that must be there; 0 (with an error) otherwise.
  int64_t requireInteger(llvm::StringRef key, int64_t least, int64_t most) const;
  /// A finite number from `least` up, or above `least` where `open`.
  std::optional<double> number(llvm::StringRef key, int64_t least, bool open = false) const;
  std::optional<bool> boolean(llvm::StringRef key) const;
  std::optional<std::string> string(llvm::StringRef key) const;
  /// `count` positive numbers.
  std::vector<double> positiveNumbers(llvm::StringRef key, int64_t count) const;
  /// `count` integers.
  std::vector<int64_t> integers(llvm::StringRef key, int64_t count, int64_t least,
                                int64_t most) const;
  std::vector<std::string> keys() const;
  /// The object under `key`.
  std::optional<ConfigReader> child(llvm::StringRef key) const;

  /// A value as it stands in the file, shortened.
  static std::string print(const nlohmann::json &value);

private:
  const nlohmann::json &object;
  std::string path;
  std::vector<KeyProblem> &errors;
};

/// Where a model that reads more than text has its language model's configuration, by the keys of
/// transformers and of DeepSeek-VL2; empty where the document is one itself.
llvm::StringRef findLanguageModel(const nlohmann::json &document);

} // namespace mlac

#endif // MLAC_LIB_IMPORT_CONFIGREADER_H
