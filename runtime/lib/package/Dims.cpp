//===- Dims.cpp - named sizes and metadata of a step ------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "package/Dims.h"

using namespace mlac::runtime;

template <typename Enum, typename Info, size_t N>
static std::optional<Enum> find(const Info (&table)[N], std::string_view name) {
  const Info *found = mlac::step::find(table, name);
  return found ? std::optional(static_cast<Enum>(found - table)) : std::nullopt;
}

std::optional<Dim> mlac::runtime::findDim(std::string_view name) {
  return find<Dim>(step::kDims, name);
}

std::optional<Metadata> mlac::runtime::findMetadata(std::string_view name) {
  return find<Metadata>(step::kMetadata, name);
}

mla_dtype mlac::runtime::metadataType(Metadata metadata) {
  return step::info(metadata).bits == 64 ? MLA_I64 : MLA_I32;
}
