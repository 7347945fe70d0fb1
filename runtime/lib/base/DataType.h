//===- DataType.h - element types of tensors --------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sizes, names and exact widenings of the element types of a package. The
// numbering is shared by the C API (mla_dtype) and the package schema.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_DATATYPE_H
#define MLAC_RUNTIME_DATATYPE_H

#include "mla_runtime.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mlac::runtime {

/// Whether `dtype` is one of the known values.
bool isKnownType(int dtype);

/// Bytes of one element.
int64_t elementBytes(mla_dtype dtype);

/// "bf16", "f32", ...
const char *typeName(mla_dtype dtype);

/// Whether every value of `from` is a value of `to` (equal types included).
bool isExactWidening(mla_dtype from, mla_dtype to);

/// Whether weights of `from` may be bound as `to`: also bf16 as f16, which has all of its bits
/// from 2^-14 to 65504, and rounds below.
bool isConvertible(mla_dtype from, mla_dtype to);

/// Converts `count` elements; `from` need not be aligned. Needs
/// isConvertible(fromType, toType).
void convertElements(mla_dtype fromType, const void *from, mla_dtype toType, void *to,
                     int64_t count);

/// "[128, 512]".
std::string shapeText(const std::vector<int64_t> &shape);

/// a * b and a + b where they fit int64 and are not negative; false otherwise.
bool checkedMul(int64_t a, int64_t b, int64_t &result);
bool checkedAdd(int64_t a, int64_t b, int64_t &result);

/// Alignment in bytes of workspace buffers (package.fbs) and of metadata
/// arrays.
inline constexpr int64_t kBufferAlignment = 256;

inline int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t roundUp(int64_t a, int64_t b) { return ceilDiv(a, b) * b; }
inline int64_t roundDown(int64_t a, int64_t b) { return a / b * b; }

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_DATATYPE_H
