//===- CheckWork.cpp - how a function partitions attention, from a file --*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "package/CheckWork.h"

#include "package/Checks.h"

using namespace mlac::runtime;

static constexpr int64_t kMaxTilesPerToken = 1024;
// Costs and cuts of a partition, in blocks.
static constexpr double kMaxWorkCost = 1 << 20;
static constexpr int64_t kMaxFixedBlocks = 1 << 20;
// Programs of a multiprocessor (CUDA C++ Programming Guide, compute capabilities).
static constexpr int64_t kMaxMergePrograms = 32;

Status mlac::runtime::requireCost(const char *what, double value) {
  if (value >= 0 && value <= kMaxWorkCost) // false for NaN
    return Status();
  return error(MLA_CORRUPT, what, " is ", value, ", expected 0 to ", kMaxWorkCost);
}

/// None, for a function that cuts nothing; the last takes any number of pieces.
static Status readMergeForms(const fb::Work &given, WorkParams &work) {
  constexpr uint32_t fields = 3, most = std::numeric_limits<int32_t>::max();
  const auto *forms = given.merge_forms();
  if ((!forms || forms->size() == 0) && given.merge_programs() == 0)
    return Status();
  uint32_t count = forms ? forms->size() / fields : 0;
  if (count == 0 || count > work.mergeForms.size() || forms->size() != count * fields ||
      forms->Get((count - 1) * fields) != most)
    return error(MLA_CORRUPT, "merge_forms has ", forms ? forms->size() : 0,
                 " numbers, expected one to ", work.mergeForms.size(),
                 " triples, the last for any number of pieces");
  for (uint32_t i = 0; i < count; ++i) {
    auto number = [&](uint32_t field) { return forms->Get(i * fields + field); };
    MLAC_RETURN_IF_ERROR(requireRange("pieces of a merge form", number(0),
                                      i > 0 ? forms->Get((i - 1) * fields) + 1 : 1, most));
    MLAC_RETURN_IF_ERROR(requireRange("rows of a merge form", number(1), 1, kMaxModelDim));
    MLAC_RETURN_IF_ERROR(requireRange("columns of a merge form", number(2), 1, kMaxModelDim));
    work.mergeForms[i] = {number(0), number(1), number(2)};
  }
  MLAC_RETURN_IF_ERROR(
      requireRange("merge_programs", given.merge_programs(), 1, kMaxMergePrograms));
  work.mergePrograms = given.merge_programs();
  return Status();
}

Status mlac::runtime::readWork(const fb::Function &raw, std::optional<WorkParams> &work) {
  const fb::Work *given = raw.work();
  if (!given)
    return Status();
  MLAC_RETURN_IF_ERROR(requireRange("keys_per_block", given->keys_per_block(), 1, kMaxPageSize));
  MLAC_RETURN_IF_ERROR(requireRange("rows_per_token", given->rows_per_token(), 1, kMaxModelDim));
  MLAC_RETURN_IF_ERROR(requireRange("rows_per_tile", given->rows_per_tile(), 1, kMaxModelDim));
  MLAC_RETURN_IF_ERROR(requireRange("runs_per_token", given->runs_per_token(), 1,
                                    std::min<int64_t>(given->rows_per_token(), kMaxTilesPerToken)));
  MLAC_RETURN_IF_ERROR(requireRange("fixed_blocks", given->fixed_blocks(), 0, kMaxFixedBlocks));
  MLAC_RETURN_IF_ERROR(requireCost("item_cost", given->item_cost()));
  MLAC_RETURN_IF_ERROR(requireCost("merge_cost", given->merge_cost()));
  MLAC_RETURN_IF_ERROR(requireCost("partial_cost", given->partial_cost()));
  work = {given->keys_per_block(), given->rows_per_token(), given->rows_per_tile(),
          given->item_cost(),      given->merge_cost(),     given->fixed_blocks(),
          given->partial_cost()};
  MLAC_RETURN_IF_ERROR(requireRange("window", given->window(), 0, kMaxWindow));
  work->window = given->window();
  work->runsPerToken = given->runs_per_token();
  MLAC_RETURN_IF_ERROR(
      requireRange("tiles of a token", countTiles(*work, /*queryLen=*/1), 1, kMaxTilesPerToken));
  return readMergeForms(*given, *work);
}
