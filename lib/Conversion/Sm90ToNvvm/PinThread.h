//===- PinThread.h - thread numbers that are new at a place ---*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_LIB_CONVERSION_SM90TONVVM_PINTHREAD_H
#define MLAC_LIB_CONVERSION_SM90TONVVM_PINTHREAD_H

#include "Lowering.h"

namespace mlac::sm90nvvm {

/// In a role, the same with thread numbers that are new here. Rows, bounds and
/// addresses follow from them, and LLVM would compute these ahead of the role's
/// loops and keep them: 8 bytes spilled beside 128 accumulators.
Kernel pinThread(ImplicitLocOpBuilder &b, const Kernel &kernel);

} // namespace mlac::sm90nvvm

#endif // MLAC_LIB_CONVERSION_SM90TONVVM_PINTHREAD_H
