//===- WorkspaceLayout.h - offsets inside a function's workspace ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Buffers whose live ranges do not meet share a slot. Sizes are expressions
// over run-time dims, so which of two is larger is not known here: a slot is
// as large as the largest of its members (a Max node), which is never more
// than they take side by side. Offsets are the running sum of the slots.
//
//   position   0   1   2   3   4
//   a          [-------]                 slot 0 = max(a, c)
//   b              [-------]             slot 1 = b
//   c                      [---]
//
//===----------------------------------------------------------------------===//

#ifndef MLA_PACKAGE_WORKSPACELAYOUT_H
#define MLA_PACKAGE_WORKSPACELAYOUT_H

#include "mla/Package/Expressions.h"

namespace mlac {

/// Slots start at multiples of this: the alignment the runtime gives the
/// workspace itself, and a whole number of DRAM sectors.
constexpr int64_t kWorkspaceAlignment = 256;

/// A workspace buffer that is in use at the plan positions [first, last].
struct WorkspaceRange {
  ExprId bytes;
  int64_t first;
  int64_t last;
};

struct WorkspaceLayout {
  std::vector<ExprId> offsets; // bytes, parallel to the ranges
  ExprId totalBytes = 0;
};

/// Nothing when constant sizes leave int64.
std::optional<WorkspaceLayout> layOutWorkspace(ExpressionTable &table,
                                               llvm::ArrayRef<WorkspaceRange> ranges);

} // namespace mlac

#endif // MLA_PACKAGE_WORKSPACELAYOUT_H
