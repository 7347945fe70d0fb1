//===- CpuFeatures.h - what this processor can do ---------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares a CPU target (architecture level and feature list as LLVM spells
// them: "x86-64-v3", "+avx2,+fma") with the processor.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_CPUFEATURES_H
#define MLAC_RUNTIME_CPUFEATURES_H

#include <string>
#include <string_view>

namespace mlac::runtime {

/// The highest level this processor has: "x86-64-v4", or the machine's name.
const char *hostArch();

/// Rank of an architecture level: 0 for names that are no level.
int archLevel(std::string_view arch);

/// Whether code for `arch` and `features` runs here; otherwise the first thing
/// missing goes to `missing`. A processor name ("znver5") by itself requires
/// nothing: its features are listed.
bool hostSupports(std::string_view arch, std::string_view features, std::string &missing);

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_CPUFEATURES_H
