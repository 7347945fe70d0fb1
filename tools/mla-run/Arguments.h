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
  /// Throws std::runtime_error on an unknown option, a missing value, or
  /// `positionals` that are not as many as expected.
  Arguments(const std::vector<std::string> &words, const std::vector<OptionSpec> &options,
            size_t positionals);

  const std::string &positional(size_t index) const { return positionals[index]; }
  bool has(const std::string &name) const { return values.count(name) != 0; }
  std::string get(const std::string &name, const std::string &otherwise) const;
  /// Throw when the value is no integer or below `least`.
  int64_t getInteger(const std::string &name, int64_t otherwise, int64_t least) const;
  std::vector<int64_t> getIntegers(const std::string &name, std::vector<int64_t> otherwise,
                                   int64_t least) const;

private:
  std::vector<std::string> positionals;
  std::map<std::string, std::string> values;
};

} // namespace mlac::run

#endif // MLA_RUN_ARGUMENTS_H
