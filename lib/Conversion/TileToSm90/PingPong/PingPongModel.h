//===- PingPongModel.h - parameters and registers of pingpong ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_PINGPONG_PINGPONGMODEL_H
#define MLAC_LIB_CONVERSION_TILETOSM90_PINGPONG_PINGPONGMODEL_H

#include "mla/Analysis/ScheduleParameters.h"
#include "mla/Machine/TargetDescription.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>

namespace mlac::pingpong {

/// The keys of one block: the depth of a product, and the rows of a box that TMA copies, at
/// most.
constexpr int64_t kKeyBlockMultiple = mlir::sm90::kWgmmaDepth,
                  kMaxKeyBlock = mlir::sm90::kMaxBoxRows;
inline constexpr auto kKeyBlock = makeInteger("key-block", "keys of one block", kKeyBlockMultiple,
                                              kMaxKeyBlock, kKeyBlockMultiple),
                      kKeyStages = makeInteger(
                          "key-stages", "blocks in the rings of keys and values", 1, kMostStages);

/// Of a thread of each role; the model's, not to be forced.
inline constexpr auto kProducerRegisters =
                          makeInteger("producer-registers", "of a thread that copies",
                                      mlir::sm90::kMinRoleRegisters, mlir::sm90::kMaxRoleRegisters),
                      kConsumerRegisters =
                          makeInteger("consumer-registers", "of a thread that multiplies",
                                      mlir::sm90::kMinRoleRegisters, mlir::sm90::kMaxRoleRegisters);

/// Warpgroups with 64 rows each.
constexpr int64_t kMathWarpgroups = 2;
/// What a producer of so many registers leaves of the launch's.
inline int64_t getConsumerRegisters(int64_t producerRegisters) {
  constexpr int64_t kWarpgroups = 1 + kMathWarpgroups;
  int64_t launched =
      llvm::alignDown(mlir::sm90::kRegisterFile / (kWarpgroups * mlir::sm90::kWarpgroupThreads),
                      mlir::sm90::kRegisterGranule);
  int64_t rest = (kWarpgroups * launched - producerRegisters) / kMathWarpgroups;
  return llvm::alignDown(std::min(rest, mlir::sm90::kMaxRoleRegisters),
                         mlir::sm90::kRegisterGranule);
}

} // namespace mlac::pingpong

#endif // MLAC_LIB_CONVERSION_TILETOSM90_PINGPONG_PINGPONGMODEL_H
