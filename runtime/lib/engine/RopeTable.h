//===- RopeTable.h - cos and sin by position --------------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows of the rotary table: f32 [length, R], cos in columns [0, R/2) and sin in
// [R/2, R), both times the multiplier. The angle position * inv_freq[i] is
// formed in f32, as the checkpoints' own code does (mla.md section 4.1); its
// cos and sin are then correctly rounded.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_ROPETABLE_H
#define MLAC_RUNTIME_ROPETABLE_H

#include "package/Package.h"

namespace mlac::runtime {

/// Writes rows [first, last) to `rows` [(last - first), R]. `maxSeqLen` chooses
/// between the short and the long frequencies.
void fillRopeRows(const fb::RopeSpec &rope, int64_t maxSeqLen, int64_t first, int64_t last,
                  float *rows);

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_ROPETABLE_H
