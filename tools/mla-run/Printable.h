//===- Printable.h - text of packages on a terminal ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A package names models, kernels and tensors as it likes, and a terminal obeys what
// it is sent: whatever comes from a package is printed as plain ASCII.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_RUN_PRINTABLE_H
#define MLA_RUN_PRINTABLE_H

#include "nlohmann/json.hpp"

#include <cstdio>
#include <string>
#include <string_view>

namespace mlac::run {

/// The text with every byte that is no printable ASCII as \xNN.
inline std::string printable(std::string_view text) {
  std::string result;
  for (char c : text) {
    bool isPlain = c >= ' ' && c <= '~';
    char escape[sizeof "\\xNN"];
    std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned char>(c));
    result += isPlain ? std::string(1, c) : escape;
  }
  return result;
}

/// JSON in ASCII, on several lines if `indent` is not negative.
inline std::string printableJson(const nlohmann::json &value, int indent) {
  std::string text =
      value.dump(indent, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
  constexpr char kDelete = '\x7f'; // the one control character that dump leaves
  for (size_t at; (at = text.find(kDelete)) != std::string::npos;)
    text.replace(at, 1, "\\u007f");
  return text;
}

} // namespace mlac::run

#endif // MLA_RUN_PRINTABLE_H
