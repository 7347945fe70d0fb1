//===- StepWork.h - what a step must do at the least ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Bytes that come from memory, and FLOPs of matrix products, whatever kernels run: every weight,
// every row of a cache that a token attends to, and the step's rows once. Rotations, norms and rows
// that are appended do not count.
//
//===----------------------------------------------------------------------===//

#ifndef MLA_RUN_STEPWORK_H
#define MLA_RUN_STEPWORK_H

#include "Session.h"

namespace mlac::run {

/// Requests, cached tokens of each, new tokens of each.
struct BenchPoint {
  int64_t batch, context, query;
};

struct StepWork {
  double bytes, flops;
};

/// Of a layer from hidden states to output, or of attention alone.
StepWork countWork(const Session &session, const BenchPoint &point, bool isLayer);

} // namespace mlac::run

#endif // MLA_RUN_STEPWORK_H
