//===- ElfImage.h - plausibility of a code object ---------------*- C++ -*-===//
//
// Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A code object comes from a file. Before the dynamic loader or the CUDA driver
// sees it, check that it is an ELF image for the right machine whose headers
// and segments lie inside its bytes.
//
//===----------------------------------------------------------------------===//

#ifndef MLAC_RUNTIME_ELFIMAGE_H
#define MLAC_RUNTIME_ELFIMAGE_H

#include "base/Status.h"

#include <span>

namespace mlac::runtime {

/// A shared object for the machine that this process runs on.
Status checkHostImage(std::span<const uint8_t> bytes);
/// A CUDA cubin.
Status checkCubin(std::span<const uint8_t> bytes);

} // namespace mlac::runtime

#endif // MLAC_RUNTIME_ELFIMAGE_H
