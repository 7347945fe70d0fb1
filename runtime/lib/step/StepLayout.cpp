//===- StepLayout.cpp - where the metadata of a step lies -------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "step/StepLayout.h"

#include "step/Planners.h"

using namespace mlac::runtime;

int64_t mlac::runtime::blockColumns(const StepLimits &limits) {
  constexpr int64_t kRowAlignment = MLA_DATA_ALIGNMENT / sizeof(int32_t);
  return roundUp(ceilDiv(limits.maxSeqLen, limits.pageSize) + 1, kRowAlignment);
}

DimValues mlac::runtime::staticDims(const StepLimits &limits) {
  DimValues dims{};
  at(dims, Dim::NumPages) = limits.numPages;
  at(dims, Dim::PageStride) = limits.pageStrideElements;
  at(dims, Dim::RopeLength) = limits.ropeLength;
  at(dims, Dim::NumSms) = limits.numSms;
  at(dims, Dim::MaxBlocksPerRequest) = blockColumns(limits);
  return dims;
}

/// The table in front of the arrays. Prefills are rows of it.
static void layOutTable(const DimValues &dims, const StepLimits &limits, const ArraySizes &sizes,
                        StepLayout &layout) {
  int64_t entryBytes = elementBytes(metadataType(Metadata::BlockTable));
  int64_t rowBytes = at(dims, Dim::MaxBlocksPerRequest) * entryBytes;
  layout.tableBytes =
      roundUp(limits.maxRequests * blockColumns(limits) * entryBytes, kBufferAlignment);
  auto set = [&](Metadata which, int64_t firstRow) {
    auto i = static_cast<size_t>(which);
    layout.arrays[i] = {firstRow * rowBytes, sizes[i]};
  };
  set(Metadata::BlockTable, 0);
  set(Metadata::PrefillBlockTable, at(dims, Dim::NumDecodes));
}

void mlac::runtime::layOut(const DimValues &dims, const WorkSizes &work, const StepLimits &limits,
                           StepLayout &layout) {
  ArraySizes sizes{};
  for (const Planner &planner : planners())
    if (planner.count)
      planner.count(dims, work, sizes);
  layOutTable(dims, limits, sizes, layout);
  layout.bytes = layout.tableBytes;
  for (size_t i = 0; i < kNumMetadata; ++i) {
    auto which = static_cast<Metadata>(i);
    if (isTable(which))
      continue;
    layout.arrays[i] = {layout.bytes, sizes[i]};
    layout.bytes += roundUp(sizes[i] * elementBytes(metadataType(which)), kBufferAlignment);
  }
}
