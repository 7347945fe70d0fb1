//===- BatchOrder.cpp - decodes in front of prefills ------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "step/BatchOrder.h"

#include <algorithm>
#include <numeric>

using namespace mlac::runtime;

int64_t mlac::runtime::orderDecodesFirst(std::span<const int32_t> queryLens, int64_t threshold,
                                         std::span<int64_t> order) {
  std::iota(order.begin(), order.end(), 0);
  auto isDecode = [&](int64_t i) { return queryLens[static_cast<size_t>(i)] <= threshold; };
  int64_t decodes = std::ranges::count_if(order, isDecode);
  int64_t swaps = 0, prefill = 0;
  // As many prefills stand below `decodes` as decodes above it, so that both
  // walks end together.
  for (int64_t decode = static_cast<int64_t>(order.size()) - 1; decode >= decodes; --decode) {
    if (!isDecode(decode))
      continue;
    while (isDecode(prefill))
      ++prefill;
    std::swap(order[static_cast<size_t>(decode)], order[static_cast<size_t>(prefill++)]);
    ++swaps;
  }
  return swaps;
}
