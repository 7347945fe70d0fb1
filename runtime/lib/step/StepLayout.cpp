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

int64_t mlac::runtime::blockColumns(const StepLimits &limits, size_t pool) {
  constexpr int64_t kRowAlignment = MLA_DATA_ALIGNMENT / sizeof(int32_t);
  return roundUp(limits.pool(pool).pagesOf(limits.maxSeqLen) + 1, kRowAlignment);
}

int64_t mlac::runtime::tableOffset(const StepLimits &limits, size_t pool) {
  int64_t bytes = 0;
  for (size_t before = 0; before < pool; ++before)
    bytes += roundUp(limits.maxRequests * blockColumns(limits, before) * int64_t(sizeof(int32_t)),
                     kBufferAlignment);
  return bytes;
}

DimValues mlac::runtime::staticDims(const StepLimits &limits) {
  DimValues dims{};
  for (size_t pool = 0; pool < limits.numPools(); ++pool) {
    at(dims, ofPool(Dim::NumPages, pool)) = limits.pool(pool).numPages;
    at(dims, ofPool(Dim::PageStride, pool)) = limits.pool(pool).pageStrideElements;
    at(dims, ofPool(Dim::MaxBlocksPerRequest, pool)) = blockColumns(limits, pool);
  }
  at(dims, Dim::RopeLength) = limits.ropeLength;
  at(dims, Dim::NumSms) = limits.numSms;
  return dims;
}

/// The tables in front of the arrays. Prefills are rows of them.
static void layOutTables(const DimValues &dims, const StepLimits &limits, const ArraySizes &sizes,
                         StepLayout &layout) {
  for (size_t pool = 0; pool < limits.numPools(); ++pool) {
    int64_t rowBytes = at(dims, ofPool(Dim::MaxBlocksPerRequest, pool)) * int64_t(sizeof(int32_t));
    auto set = [&](Metadata which, int64_t firstRow) {
      auto i = static_cast<size_t>(ofPool(which, pool));
      layout.arrays[i] = {tableOffset(limits, pool) + firstRow * rowBytes, sizes[i]};
      if (const void *given =
              layout.external[static_cast<size_t>(ofPool(Metadata::BlockTable, pool))])
        layout.external[i] = static_cast<const char *>(given) + firstRow * rowBytes;
    };
    set(Metadata::BlockTable, 0);
    set(Metadata::PrefillBlockTable, at(dims, Dim::NumDecodes));
  }
  layout.tableBytes = tableOffset(limits, limits.numPools());
}

void mlac::runtime::layOut(const DimValues &dims, const WorkSizes &work, const StepLimits &limits,
                           StepLayout &layout) {
  ArraySizes sizes{};
  for (const Planner &planner : planners())
    if (planner.count)
      planner.count(dims, work, sizes);
  layOutTables(dims, limits, sizes, layout);
  layout.bytes = layout.tableBytes;
  auto place = [&](Metadata which) {
    auto i = static_cast<size_t>(which);
    layout.arrays[i] = {layout.bytes, sizes[i]};
    layout.bytes += roundUp(sizes[i] * elementBytes(metadataType(which)), kBufferAlignment);
  };
  for (size_t i = 0; i < kNumMetadata; ++i)
    if (auto which = static_cast<Metadata>(i); !isTable(which))
      place(which);
  for (size_t pool = 1; pool < limits.numPools(); ++pool)
    place(ofPool(Metadata::SlotMapping, pool));
}
