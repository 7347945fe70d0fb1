//===- RopeTable.cpp - cos and sin by position ------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "engine/RopeTable.h"

#include <cmath>

using namespace mlac::runtime;

void mlac::runtime::fillRopeRows(const fb::RopeSpec &rope, int64_t maxSeqLen, int64_t first,
                                 int64_t last, float *rows) {
  bool isLong = rope.inv_freq_long() && rope.inv_freq_long()->size() > 0 &&
                maxSeqLen > static_cast<int64_t>(rope.short_length());
  const auto *frequencies = isLong ? rope.inv_freq_long() : rope.inv_freq();
  int64_t pairs = frequencies ? frequencies->size() : 0;
  double multiplier = rope.multiplier();
  for (int64_t position = first; position < last; ++position) {
    for (int64_t i = 0; i < pairs; ++i) {
      float angle = static_cast<float>(position) * frequencies->Get(static_cast<uint32_t>(i));
      rows[i] = static_cast<float>(std::cos(double(angle)) * multiplier);
      rows[pairs + i] = static_cast<float>(std::sin(double(angle)) * multiplier);
    }
    rows += 2 * pairs;
  }
}
