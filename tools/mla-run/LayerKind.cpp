//===- LayerKind.cpp - one kind of a package's layers ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LayerKind.h"

#include "Printable.h"

#include <algorithm>

using namespace mlac::run;
using nlohmann::json;

json mlac::run::readInfo(const Package &package) {
  const char *text = nullptr;
  check(mla_package_info(package.get(), &text), "reading the package");
  return json::parse(text);
}

/// "0 (sliding_attention), 2 (compressed_sparse_attention)".
static std::string listKinds(const json &kinds) {
  std::string text;
  for (const json &kind : kinds)
    text += (text.empty() ? "" : ", ") + kind.at("layers").at(0).dump() + " (" +
            printable(kind.at("name").get<std::string>()) + ")";
  return text;
}

Package mlac::run::openLayer(const Arguments &arguments) {
  Package package;
  const std::string &path = arguments.positional(0);
  check(mla_package_open(path.c_str(), package.out()), "opening the package");
  json info = readInfo(package);
  const json &kinds = info.at("kinds");
  bool namesLayer = arguments.has(kLayerOption.name);
  if (kinds.empty() && namesLayer)
    throw std::runtime_error("--layer: the layers of '" + path + "' are of one kind");
  if (kinds.empty())
    return package;
  if (!namesLayer)
    throw std::runtime_error("the layers of '" + path + "' are of " + std::to_string(kinds.size()) +
                             " kinds: expected a --layer such as " + listKinds(kinds));
  int64_t layer = arguments.getInteger(kLayerOption.name, 0, 0);
  auto found = std::find_if(kinds.begin(), kinds.end(), [&](const json &kind) {
    const json &layers = kind.at("layers");
    return std::find(layers.begin(), layers.end(), layer) != layers.end();
  });
  if (found == kinds.end())
    throw std::runtime_error("--layer=" + std::to_string(layer) + ": '" + path +
                             "' does not have it, expected one such as " + listKinds(kinds));
  Package kind;
  check(mla_package_kind(package.get(), found - kinds.begin(), kind.out()), "taking a kind");
  return kind;
}
