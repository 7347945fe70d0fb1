//===- Checks.cpp - what every check of a package uses ----------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "package/Checks.h"

using namespace mlac::runtime;

int64_t mlac::runtime::partsOf(const flatbuffers::String *name) {
  constexpr size_t kNameBytesPerPart = 64;
  return 1 + static_cast<int64_t>(sizeOf(name) / kNameBytesPerPart);
}

Status mlac::runtime::requireRange(const char *what, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high)
    return Status();
  return error(MLA_CORRUPT, what, " is ", value, ", expected ", low, " to ", high);
}

Status mlac::runtime::checkLength(const char *what, const flatbuffers::String *value) {
  if (!value || value->size() <= kMaxName)
    return Status();
  return error(MLA_CORRUPT, what, " has ", value->size(), " bytes, limit ", kMaxName);
}

Status mlac::runtime::requireText(const char *what, const flatbuffers::String *value) {
  if (!value || value->size() == 0)
    return error(MLA_CORRUPT, what, " is empty");
  return checkLength(what, value);
}

Status mlac::runtime::requireType(const char *what, fb::DataType dtype) {
  if (isKnownType(static_cast<int>(dtype)))
    return Status();
  return error(MLA_CORRUPT, what, " has unknown type ", dtype);
}

Status mlac::runtime::requireExpr(const char *what, const ExpressionTable &exprs, uint32_t id,
                                  uint32_t depth) {
  if (id >= exprs.size())
    return error(MLA_CORRUPT, what, " is expression ", id, " of ", exprs.size());
  if (exprs.loopDepth(id) > depth)
    return error(MLA_CORRUPT, what, " uses a loop variable outside its loop");
  return Status();
}
