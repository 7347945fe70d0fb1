//===- StepReplay.h - runs a recorded step again ----------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Without an engine: the recording has what every buffer held (StepRecording.h), and the
// package's own expressions give the launches. After each launch the host looks for NaN in
// what it may have written, so the first kernel that makes one is named.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_STEPREPLAY_H
#define MLAC_RUNTIME_STEPREPLAY_H

#include "base/Json.h"
#include "device/Device.h"

namespace mlac::runtime {

/// Runs the step in the file `path` with the package that it was recorded with. `result`: see
/// mla_step_replay. MLA_CORRUPT names what the file lacks, MLA_INVALID_ARGUMENT another
/// package, MLA_UNSUPPORTED another version or a device without the target.
Status replayStep(const Package &package, std::shared_ptr<Device> device, const std::string &path,
                  Json &result);

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_STEPREPLAY_H
