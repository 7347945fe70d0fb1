//===- DeviceBatch.cpp - steps whose lengths the host does not know -*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Engines that sample on the device know an upper bound of each length when they plan
// (mla.md section 10). Pieces of attention are made for the bounds; a kernel reads the
// length and leaves out what lies behind it, so a piece may turn out to be empty. What
// the caller has on the device is bound in the place of the plan's own arrays.
//
//===----------------------------------------------------------------------===//

#include "step/StepState.h"

#include <algorithm>

using namespace mlac::runtime;

static Status checkPointer(const std::string &name, const void *data, size_t alignment) {
  if (!data)
    return error(MLA_INVALID_ARGUMENT, "batch.", name, " is null");
  if (auto rest = reinterpret_cast<uintptr_t>(data) % alignment; rest != 0)
    return error(MLA_INVALID_ARGUMENT, "batch.", name, " is not aligned to ", alignment,
                 " bytes: address ends in ", rest);
  return Status();
}

static Status checkPointers(const mla_device_batch &batch) {
  const struct {
    const char *name;
    const void *data;
    size_t alignment; // 1: of the host
  } pointers[] = {{"query_lens", batch.query_lens, 1},
                  {"seq_len_bounds", batch.seq_len_bounds, 1},
                  {"seq_lens", batch.seq_lens, MLA_DATA_ALIGNMENT},
                  {"block_table", batch.block_table, MLA_DATA_ALIGNMENT},
                  {"slot_mapping", batch.slot_mapping, MLA_DATA_ALIGNMENT},
                  {"positions", batch.positions, MLA_DATA_ALIGNMENT}};
  for (const auto &[name, data, alignment] : pointers)
    MLAC_RETURN_IF_ERROR(checkPointer(name, data, alignment));
  for (int64_t i = 0; batch.pools && i < batch.num_pools; ++i) {
    std::string pool = concat("pools[", i, "].");
    MLAC_RETURN_IF_ERROR(
        checkPointer(pool + "block_table", batch.pools[i].block_table, MLA_DATA_ALIGNMENT));
    MLAC_RETURN_IF_ERROR(
        checkPointer(pool + "slot_mapping", batch.pools[i].slot_mapping, MLA_DATA_ALIGNMENT));
  }
  return Status();
}

/// In the place of the plan's own arrays.
static void bindArrays(const mla_device_batch &batch, StepLayout &layout) {
  auto bind = [&](Metadata which, const void *data) {
    layout.external[static_cast<size_t>(which)] = data;
  };
  bind(Metadata::SeqLens, batch.seq_lens);
  bind(Metadata::BlockTable, batch.block_table);
  bind(Metadata::SlotMapping, batch.slot_mapping);
  bind(Metadata::Positions, batch.positions);
  for (int64_t i = 0; i < batch.num_pools; ++i) {
    auto pool = static_cast<size_t>(i + 1);
    bind(ofPool(Metadata::BlockTable, pool), batch.pools[i].block_table);
    bind(ofPool(Metadata::SlotMapping, pool), batch.pools[i].slot_mapping);
  }
}

Status mlac::runtime::takeDeviceBatch(StepState &state, const mla_device_batch &batch) {
  state.clear();
  MLAC_RETURN_IF_ERROR(checkNumRequests(state.limits, batch.num_requests));
  MLAC_RETURN_IF_ERROR(checkPointers(batch));
  MLAC_RETURN_IF_ERROR(
      takePoolTables(state, batch.pools, batch.num_pools, batch.block_table_stride));
  MLAC_RETURN_IF_ERROR(takeLengths(state, batch.num_requests, batch.query_lens,
                                   batch.seq_len_bounds, "seq_len_bound",
                                   {state.tableColumns.data(), state.limits.numPools()}));
  state.source = StepSource::DeviceTables;
  bindArrays(batch, state.layout);
  return Status();
}
