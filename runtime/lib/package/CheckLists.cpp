//===- CheckLists.cpp - before the FlatBuffers verifier ---------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lists of names, which the FlatBuffers verifier reads again for every reference to their
// owner: their lengths are bounded before it runs, on bytes that may be damaged.
//
//===----------------------------------------------------------------------===//

#include "package/Checks.h"
#include "package/PackageVerifier.h"

using namespace mlac::runtime;

using Tables = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::Table>>;
using Names = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;

/// A vector of a table that may be damaged; false where it lies outside of the file.
template <typename Vector>
static bool readVector(flatbuffers::Verifier &verifier, const flatbuffers::Table &table,
                       flatbuffers::voffset_t field, const Vector *&vector) {
  if (!table.VerifyTableStart(verifier) || !table.VerifyOffset(verifier, field))
    return false;
  vector = table.GetPointer<const Vector *>(field);
  return verifier.EndTable() && verifier.VerifyVector(vector);
}

/// What is damaged here is left to the FlatBuffers verifier.
Status PackageVerifier::checkLists(const uint8_t *bytes, size_t size) {
  flatbuffers::Verifier verifier(bytes, size);
  const Tables *targets = nullptr, *functions = nullptr;
  const Names *dims = nullptr;
  const auto *root = flatbuffers::GetRoot<flatbuffers::Table>(bytes);
  if (!verifier.VerifyOffset(0) || !readVector(verifier, *root, fb::Package::VT_TARGETS, targets))
    return Status();
  if (sizeOf(targets) > kMaxTargets)
    return error(MLA_CORRUPT, "package has ", sizeOf(targets), " targets, limit ", kMaxTargets);
  size_t numFunctions = 0;
  for (uint32_t i = 0; i < sizeOf(targets); ++i) {
    if (!readVector(verifier, *targets->Get(i), fb::Target::VT_FUNCTIONS, functions))
      return Status();
    numFunctions += sizeOf(functions);
    if (numFunctions > kMaxFunctions)
      return error(MLA_CORRUPT, "package has more than ", kMaxFunctions, " functions");
    for (uint32_t j = 0; j < sizeOf(functions); ++j) {
      if (!readVector(verifier, *functions->Get(j), fb::Function::VT_DIMS, dims))
        return Status();
      if (sizeOf(dims) > kMaxDims)
        return error(MLA_CORRUPT, "function ", j, " of target ", i, " names ", sizeOf(dims),
                     " sizes, limit ", kMaxDims);
    }
  }
  return Status();
}
