//===- WorkspaceLayout.cpp - offsets inside a function's workspace ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Interval colouring, largest buffer first, sizes compared at one sample of
// the dims. The sample only decides who shares with whom; every outcome is
// right.
//
//===----------------------------------------------------------------------===//

#include "mla/Package/WorkspaceLayout.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <limits>

using namespace mlac;

/// Value that stands for every dim when sizes are compared.
static constexpr int64_t kSampleDim = 256;

namespace {
struct Slot {
  ExprId bytes;
  llvm::SmallVector<size_t> members;
};
} // namespace

static bool overlap(const WorkspaceRange &a, const WorkspaceRange &b) {
  return a.first <= b.last && b.first <= a.last;
}

/// Indices of `ranges`, largest sample size first, equal ones in order.
static std::vector<size_t> orderBySize(const ExpressionTable &table,
                                       llvm::ArrayRef<WorkspaceRange> ranges) {
  std::vector<int64_t> sample(table.dimNames().size(), kSampleDim);
  std::vector<int64_t> sizes;
  for (const WorkspaceRange &range : ranges)
    sizes.push_back(evaluateExpression(table.nodes(), range.bytes, sample)
                        .value_or(std::numeric_limits<int64_t>::max()));
  std::vector<size_t> order(ranges.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  llvm::sort(order, [&](size_t a, size_t b) {
    return sizes[a] != sizes[b] ? sizes[a] > sizes[b] : a < b;
  });
  return order;
}

/// The last slot, so the one nearest in size, where `range` meets no member;
/// one of exactly its size is preferred, since it costs nothing for any dims.
static Slot *findSlot(std::vector<Slot> &slots, llvm::ArrayRef<WorkspaceRange> ranges,
                      const WorkspaceRange &range) {
  Slot *found = nullptr;
  for (Slot &slot : slots) {
    if (llvm::any_of(slot.members, [&](size_t i) { return overlap(ranges[i], range); }))
      continue;
    if (slot.bytes == range.bytes)
      return &slot;
    found = &slot;
  }
  return found;
}

std::optional<WorkspaceLayout> mlac::layOutWorkspace(ExpressionTable &table,
                                                     llvm::ArrayRef<WorkspaceRange> ranges) {
  std::vector<Slot> slots;
  for (size_t index : orderBySize(table, ranges)) {
    const WorkspaceRange &range = ranges[index];
    Slot *slot = findSlot(slots, ranges, range);
    if (!slot) {
      slots.push_back({range.bytes, {index}});
      continue;
    }
    slot->bytes = *table.binary(package::ExprOp::Max, slot->bytes, range.bytes);
    slot->members.push_back(index);
  }

  WorkspaceLayout layout;
  layout.offsets.resize(ranges.size());
  for (const Slot &slot : slots) {
    for (size_t member : slot.members)
      layout.offsets[member] = layout.totalBytes;
    std::optional<ExprId> bytes = table.roundUp(slot.bytes, kWorkspaceAlignment);
    std::optional<ExprId> end =
        bytes ? table.binary(package::ExprOp::Add, layout.totalBytes, *bytes) : std::nullopt;
    if (!end)
      return std::nullopt;
    layout.totalBytes = *end;
  }
  return layout;
}
