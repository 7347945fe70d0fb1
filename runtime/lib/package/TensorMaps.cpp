//===- TensorMaps.cpp - TMA descriptors of a launch -------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "package/TensorMaps.h"

#include <algorithm>

using namespace mlac::runtime;

// cuTensorMapEncodeTiled: addresses and strides, extents of the tensor and the box.
static constexpr int64_t kMapAlignment = 16;
static constexpr int64_t kMaxSize = int64_t(1) << 32;
static constexpr int64_t kMaxStrideBytes = int64_t(1) << 40;
static constexpr uint32_t kMaxBox = 256;
/// A row of a box is at most the swizzle's width.
static constexpr int64_t kSwizzleBytes = 128;

template <typename Vector> static uint32_t sizeOf(const Vector *vector) {
  return vector ? vector->size() : 0;
}

//===----------------------------------------------------------------------===//
// Package
//===----------------------------------------------------------------------===//

static Status verifyTensorMap(const fb::TensorMap &map) {
  uint32_t rank = sizeOf(map.sizes());
  if (rank < 2 || rank > kMaxTensorRank)
    return error(MLA_CORRUPT, "has rank ", rank, ", expected 2 to ", kMaxTensorRank);
  if (sizeOf(map.strides()) != rank || sizeOf(map.box()) != rank)
    return error(MLA_CORRUPT, "has ", rank, " sizes, ", sizeOf(map.strides()),
                 " strides and a box of ", sizeOf(map.box()));
  if (!map.offset())
    return error(MLA_CORRUPT, "has no offset");
  // The FlatBuffers verifier aligns only the length in front of a vector.
  for (const auto *numbers : {map.sizes(), map.strides()})
    if (reinterpret_cast<uintptr_t>(numbers->Data()) % alignof(fb::ScaledArg) != 0)
      return error(MLA_CORRUPT, "is not aligned");
  const fb::ScaledArg &innermost = *map.strides()->Get(rank - 1);
  if (innermost.factor() != 1 || innermost.argument() >= 0)
    return error(MLA_CORRUPT, "has an innermost stride that is not 1");
  for (uint32_t extent : *map.box())
    if (extent < 1 || extent > kMaxBox)
      return error(MLA_CORRUPT, "has a box of ", extent, ", expected 1 to ", kMaxBox);
  return Status();
}

Status mlac::runtime::verifyTensorMaps(const fb::Kernel &kernel) {
  if (sizeOf(kernel.tensor_maps()) > kMaxTensorMaps)
    return error(MLA_CORRUPT, sizeOf(kernel.tensor_maps()), " tensor maps, limit ", kMaxTensorMaps);
  for (uint32_t i = 0; i < sizeOf(kernel.tensor_maps()); ++i)
    MLAC_RETURN_IF_ERROR(verifyTensorMap(*kernel.tensor_maps()->Get(i)).in("tensor map ", i));
  return Status();
}

static Status verifyArg(const fb::Launch &launch, int64_t index, fb::ArgKind kind) {
  if (index >= sizeOf(launch.args()))
    return error(MLA_CORRUPT, "names argument ", index, " of ", sizeOf(launch.args()));
  fb::ArgKind got = launch.args()->Get(static_cast<uint32_t>(index))->kind();
  if (got == kind)
    return Status();
  return error(MLA_CORRUPT, "names argument ", index, ", expected kind ", fb::EnumNameArgKind(kind),
               ", got ", fb::EnumNameArgKind(got));
}

static Status verifyArgs(const fb::TensorMap &map, const fb::Launch &launch) {
  MLAC_RETURN_IF_ERROR(verifyArg(launch, map.argument(), fb::ArgKind::Buffer));
  auto verify = [&](const fb::ScaledArg &number) {
    return number.argument() < 0 ? Status()
                                 : verifyArg(launch, number.argument(), fb::ArgKind::Index);
  };
  MLAC_RETURN_IF_ERROR(verify(*map.offset()));
  for (const auto *numbers : {map.sizes(), map.strides()})
    for (const fb::ScaledArg *number : *numbers)
      MLAC_RETURN_IF_ERROR(verify(*number));
  return Status();
}

Status mlac::runtime::verifyTensorMapArgs(const fb::Kernel &kernel, const fb::Launch &launch) {
  for (uint32_t i = 0; i < sizeOf(kernel.tensor_maps()); ++i)
    MLAC_RETURN_IF_ERROR(verifyArgs(*kernel.tensor_maps()->Get(i), launch).in("tensor map ", i));
  return Status();
}

//===----------------------------------------------------------------------===//
// Step
//===----------------------------------------------------------------------===//

/// The number in elements; -1 where it is negative or leaves int64.
static int64_t evaluate(const fb::ScaledArg &number, std::span<const uint64_t> args) {
  int64_t value;
  if (number.argument() < 0)
    return std::max<int64_t>(number.factor(), -1);
  return checkedMul(number.factor(), static_cast<int64_t>(args[number.argument()]), value) ? value
                                                                                           : -1;
}

static Status makeBox(const fb::TensorMap &raw, int64_t bytes, TensorMap &map) {
  for (uint32_t i = 0; i < map.rank; ++i)
    map.box[i] = raw.box()->Get(map.rank - 1 - i);
  int64_t rowBytes = map.box[0] * bytes;
  if (rowBytes % kMapAlignment == 0 && rowBytes <= kSwizzleBytes)
    return Status();
  return error(MLA_CORRUPT, "has boxes of ", rowBytes, " bytes in a row, expected a multiple of ",
               kMapAlignment, " up to ", kSwizzleBytes);
}

Status mlac::runtime::makeTensorMap(const fb::TensorMap &raw, mla_dtype dtype,
                                    std::span<const uint64_t> args, TensorMap &map) {
  int64_t bytes = elementBytes(dtype);
  map = {raw.argument(), dtype, raw.sizes()->size(), 0, {}, {}, {}};
  MLAC_RETURN_IF_ERROR(makeBox(raw, bytes, map));
  int64_t offset = evaluate(*raw.offset(), args);
  if (offset < 0 || !checkedMul(offset, bytes, map.byteOffset) ||
      map.byteOffset % kMapAlignment != 0)
    return error(MLA_CORRUPT, "starts at element ", offset, ", expected a multiple of ",
                 kMapAlignment, " bytes");
  for (uint32_t i = 0; i < map.rank; ++i) {
    int64_t size = evaluate(*raw.sizes()->Get(map.rank - 1 - i), args);
    if (size < 0 || size > kMaxSize)
      return error(MLA_CORRUPT, "has size ", size, ", expected 0 to ", kMaxSize);
    // Nothing of an empty tensor is read, but a map cannot say so.
    map.sizes[i] = std::max<int64_t>(size, 1);
    if (i == 0)
      continue;
    int64_t stride = evaluate(*raw.strides()->Get(map.rank - 1 - i), args), strideBytes = 0;
    if (stride < 0 || !checkedMul(stride, bytes, strideBytes) || strideBytes % kMapAlignment != 0 ||
        strideBytes >= kMaxStrideBytes)
      return error(MLA_CORRUPT, "has a stride of ", stride, " elements, expected a multiple of ",
                   kMapAlignment, " bytes below ", kMaxStrideBytes);
    map.strideBytes[i - 1] = strideBytes;
  }
  return Status();
}
