//===- ScoresModel.h - the parameters of scores ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_TILETOSM90_SCORES_SCORESMODEL_H
#define MLAC_LIB_CONVERSION_TILETOSM90_SCORES_SCORESMODEL_H

#include "mla/Analysis/ScheduleModel.h"

namespace mlac::scores {

inline constexpr auto kStages =
    makeInteger("scores-stages", "blocks of an indexer's keys in the ring", 2, kMostStages);

} // namespace mlac::scores

#endif // MLAC_LIB_CONVERSION_TILETOSM90_SCORES_SCORESMODEL_H
