//===- CheckWork.h - how a function partitions attention, from a file --*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_CHECKWORK_H
#define MLAC_RUNTIME_CHECKWORK_H

#include "package/Package.h"

namespace mlac::runtime {

/// Nothing, where the function has no partition.
Status readWork(const fb::Function &raw, std::optional<WorkParams> &work);

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_CHECKWORK_H
