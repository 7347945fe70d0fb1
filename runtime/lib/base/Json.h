//===- Json.h - JSON text without exceptions --------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The runtime is built without exceptions: parsing reports failure by a
// discarded value, and writing replaces bytes that are not UTF-8 (names in a
// package are untrusted) instead of throwing.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_JSON_H
#define MLAC_RUNTIME_JSON_H

#include <nlohmann/json.hpp>

namespace mlac::runtime {

using Json = nlohmann::ordered_json;

inline std::string toText(const Json &value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_JSON_H
