//===- Checks.h - what every check of a package uses ------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Limits that several checks share, and the smallest checks. All of them say what the
// package should have had.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_CHECKS_H
#define MLAC_RUNTIME_CHECKS_H

#include "package/Package.h"

namespace mlac::runtime {

// Upper bounds of what a sane package holds. They keep products of sizes far
// from overflow; published models stay below them by more than a factor of ten.
inline constexpr int64_t kMaxModelDim = 1 << 20;
inline constexpr int64_t kMaxPageSize = 1 << 16;
inline constexpr int64_t kMaxWindow = 1 << 30;
// Bounds of the verifier's work, all of them a hundred times what the packages of
// DeepSeek-V3 have (3 functions of 40 buffers, 220 expressions, 120 steps and 440
// arguments, a name of 60 bytes at most). They count what is reached, as often as it
// is: a small file may refer to one part from everywhere.
inline constexpr uint32_t kMaxTargets = 64;
inline constexpr uint32_t kMaxFunctions = 1024; // of all targets
inline constexpr uint32_t kMaxDims = 256;       // of a function
inline constexpr size_t kMaxName = 4096;
inline constexpr int64_t kMaxParts = 1 << 20;
inline constexpr int64_t kMaxArgs = 256;
inline constexpr uint32_t kMaxStepDepth = 16;
inline constexpr uint32_t kMaxKinds = 16; // of layers: published models have three at most

template <typename Vector> size_t sizeOf(const Vector *vector) {
  return vector ? vector->size() : 0;
}

inline mla_dtype toType(fb::DataType dtype) { return static_cast<mla_dtype>(dtype); }

/// A named part: 64 bytes of its name, which is copied, count as one more.
int64_t partsOf(const flatbuffers::String *name);

Status requireRange(const char *what, int64_t value, int64_t low, int64_t high);
/// Of a partition, in blocks.
Status requireCost(const char *what, double value);
Status checkLength(const char *what, const flatbuffers::String *value);
Status requireText(const char *what, const flatbuffers::String *value);
Status requireType(const char *what, fb::DataType dtype);
/// Checks that expression `id` exists and needs at most `depth` loops.
Status requireExpr(const char *what, const ExpressionTable &exprs, uint32_t id, uint32_t depth);
/// The FlatBuffers verifier aligns only the length in front of a vector.
template <typename Vector>
Status requireAligned(const char *what, const Vector *vector, size_t alignment) {
  if (!vector || reinterpret_cast<uintptr_t>(vector->Data()) % alignment == 0)
    return Status();
  return error(MLA_CORRUPT, what, " is not aligned to ", alignment, " bytes");
}

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_CHECKS_H
