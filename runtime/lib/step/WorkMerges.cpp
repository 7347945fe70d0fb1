//===- WorkMerges.cpp - merges of pieces, and who does them -----*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "step/WorkPlanner.h"

#include "base/DataType.h"
#include "base/Divider.h"

#include <algorithm>

using namespace mlac::runtime;

namespace {
/// The units of one merge in its form. What a unit reads, in 16ths of a row of partials, and
/// what its dependent loads take beside: on an H200 the programs of a multiprocessor read about
/// eight rows of 512 columns each in a latency.
struct MergeUnits {
  MergeUnits(const WorkParams &params, const MergeItem &merge)
      : queryLen(merge.queryLen), numPartials(merge.numPartials), form(merge.form) {
    constexpr int64_t latency = 8, part = 16;
    const MergeForm &of = params.mergeForms[form];
    int64_t rows = queryLen * params.rowsPerToken;
    int64_t read = numPartials * std::min(rows, of.rows);
    count = ceilDiv(rows, of.rows) * of.blocks;
    cost = part * latency * ceilDiv(numPartials, of.pieces) + part * read / of.blocks;
  }
  bool isOf(const MergeItem &merge) const {
    return queryLen == merge.queryLen && numPartials == merge.numPartials && form == merge.form;
  }

  int32_t queryLen, numPartials, form; // of the merge
  int64_t count, cost;                 // of each
};

/// The merges of a step are of few kinds: each kind's units are kept.
class UnitsOfKinds {
public:
  explicit UnitsOfKinds(const WorkParams &params) : params(params) {}
  const MergeUnits &of(const MergeItem &merge) {
    std::optional<MergeUnits> &kind = kinds[static_cast<size_t>(merge.numPartials) % kinds.size()];
    if (!kind || !kind->isOf(merge))
      kind.emplace(params, merge);
    return *kind;
  }

private:
  const WorkParams &params;
  std::array<std::optional<MergeUnits>, 8> kinds;
};
} // namespace

static int32_t findForm(const WorkParams &params, const MergeItem &merge) {
  int32_t form = 0;
  while (merge.numPartials > params.mergeForms[form].pieces)
    ++form;
  return form;
}

/// What merging takes with the forms that the merges have: a share of all units, or the
/// dearest one.
static int64_t costOfMerges(const WorkParams &params, std::span<const MergeItem> merges,
                            int64_t programs) {
  int64_t total = 0, most = 0;
  UnitsOfKinds units(params);
  for (const MergeItem &merge : merges) {
    const MergeUnits &of = units.of(merge);
    total += of.count * of.cost;
    most = std::max(most, of.cost);
  }
  return std::max(total / std::max<int64_t>(programs, 1), most);
}

/// Gives each merge the form of its number of pieces. Where that is the second, the first,
/// which takes turns, reads more with each latency: it is better for all of them together once
/// they fill the machine. With fixed blocks nothing but the request may decide.
void WorkPlanner::chooseForms() {
  bool hasSecond = false;
  for (MergeItem &merge : merges_) {
    merge.form = findForm(params, merge);
    hasSecond |= merge.form == 1;
  }
  if (params.fixedBlocks > 0 || !hasSecond)
    return;
  int64_t programs = countMergePrograms(params, numSms);
  int64_t ofSecond = costOfMerges(params, merges_, programs);
  auto giveSecond = [&](int32_t form) {
    for (MergeItem &merge : merges_)
      if (findForm(params, merge) == 1)
        merge.form = form;
  };
  giveSecond(0);
  if (costOfMerges(params, merges_, programs) >= ofSecond)
    giveSecond(1);
}

/// Cuts the units of all merges, one after the other, into runs of about the same cost.
void WorkPlanner::emitMergeStarts() {
  mergeStarts_.clear();
  if (params.mergePrograms == 0 || merges_.empty())
    return;
  chooseForms();
  UnitsOfKinds kinds(params);
  int64_t units = 0, total = 0;
  for (const MergeItem &merge : merges_) {
    const MergeUnits &of = kinds.of(merge);
    units += of.count;
    total += of.count * of.cost;
  }
  int64_t programs = sizes_.mergePrograms = std::min(countMergePrograms(params, numSms), units);
  int32_t merge = 0, unit = 0;
  int64_t done = 0, target = 0, share = total / programs, rest = 0;
  MergeUnits of = kinds.of(merges_.front());
  Divider byCost(of.cost);
  for (int64_t program = 0; program < programs; ++program) {
    int32_t firstMerge = kNoMerge.firstMerge, firstUnit = kNoMerge.firstUnit;
    int32_t lastMerge = kNoMerge.lastMerge, endUnit = kNoMerge.endUnit;
    // total * (program + 1) / programs
    target += share;
    if ((rest += total - share * programs) >= programs)
      ++target, rest -= programs;
    while (done < target) {
      if (unit == of.count) {
        const MergeItem &next = merges_[++merge];
        if (!of.isOf(next)) {
          of = kinds.of(next);
          byCost = Divider(of.cost);
        }
        unit = 0;
      }
      // To the nearest unit, so that errors do not add up.
      int64_t count = std::min(byCost(target - done + of.cost / 2), of.count - unit);
      if (count == 0)
        break;
      if (lastMerge == kNoMerge.lastMerge)
        firstMerge = merge, firstUnit = unit;
      unit += static_cast<int32_t>(count);
      done += count * of.cost;
      lastMerge = merge, endUnit = unit;
      if (unit < of.count) // the nearest one
        break;
    }
    mergeStarts_.push_back({firstMerge, firstUnit, lastMerge, endUnit});
  }
}
