//===- Arguments.h - command line of mla-run ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `--name=value` and `--name value` for options, everything else positional.
// mla-run links no LLVM, so it has its own forty lines for this.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_RUN_ARGUMENTS_H
#define MLA_RUN_ARGUMENTS_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mlac::run {

/// An option's name without dashes, and whether a value follows it.
struct OptionSpec {
  std::string name;
  bool takesValue;
};

class Arguments {
public:
  /// Throws std::runtime_error on an unknown option (with the most similar known
  /// one), one that comes twice, a missing value, or when there is not one positional per name.
  Arguments(const std::vector<std::string> &words, const std::vector<OptionSpec> &options,
            const std::vector<std::string> &positionalNames);

  const std::string &positional(size_t index) const { return positionals[index]; }
  bool has(const std::string &name) const { return values.count(name) != 0; }
  std::string get(const std::string &name, const std::string &otherwise) const;
  /// Throw when the value is no integer from `least` to `most`. "4k" is 4096.
  int64_t getInteger(const std::string &name, int64_t otherwise, int64_t least,
                     int64_t most = kMost) const;
  std::vector<int64_t> getIntegers(const std::string &name, std::vector<int64_t> otherwise,
                                   int64_t least, int64_t most = kMost) const;

  /// Lengths and sizes of the runtime fit into 32 bits.
  static constexpr int64_t kMost = INT32_MAX;

private:
  std::vector<std::string> positionals;
  std::map<std::string, std::string> values;
};

/// The name with the fewest edits from `word`; "" if all are far from it.
std::string findNearest(const std::string &word, const std::vector<std::string> &names);

} // namespace mlac::run

#endif // MLA_RUN_ARGUMENTS_H
