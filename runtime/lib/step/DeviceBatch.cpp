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

Status mlac::runtime::checkArray(const std::string &name, const void *data, size_t alignment) {
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
                  {"positions", batch.positions, MLA_DATA_ALIGNMENT}};
  for (const auto &[name, data, alignment] : pointers)
    MLAC_RETURN_IF_ERROR(checkArray(name, data, alignment));
  return Status();
}

/// In the place of the plan's own array.
static void bindArray(StepLayout &layout, Metadata which, const void *data) {
  layout.external[static_cast<size_t>(which)] = data;
}

static Status bindPool(StepLayout &layout, const std::string &prefix, size_t pool,
                       const mla_pool_table &tables) {
  MLAC_RETURN_IF_ERROR(checkArray(prefix + "block_table", tables.block_table, MLA_DATA_ALIGNMENT));
  MLAC_RETURN_IF_ERROR(
      checkArray(prefix + "slot_mapping", tables.slot_mapping, MLA_DATA_ALIGNMENT));
  bindArray(layout, ofPool(Metadata::BlockTable, pool), tables.block_table);
  bindArray(layout, ofPool(Metadata::SlotMapping, pool), tables.slot_mapping);
  return Status();
}

Status mlac::runtime::takeDeviceTables(StepState &state, const int32_t *table, const int64_t *slots,
                                       std::span<const mla_pool_table> pools) {
  MLAC_RETURN_IF_ERROR(bindPool(state.layout, "", 0, {table, 0, slots}));
  for (size_t i = 0; i < pools.size(); ++i)
    MLAC_RETURN_IF_ERROR(bindPool(state.layout, concat("pools[", i, "]."), i + 1, pools[i]));
  state.hasDeviceTables = true;
  return Status();
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
  MLAC_RETURN_IF_ERROR(takeDeviceTables(state, batch.block_table, batch.slot_mapping, state.given));
  bindArray(state.layout, Metadata::SeqLens, batch.seq_lens);
  bindArray(state.layout, Metadata::Positions, batch.positions);
  state.source = StepSource::DeviceTables;
  return Status();
}
